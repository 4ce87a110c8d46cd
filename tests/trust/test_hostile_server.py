"""A tracking server that is a stranger's: what it answers leads nowhere, and it is told nothing.

It speaks as much of MLflow's REST as a run asks for. Commands run as their users run them, every
process that they start watched by Python's audit hooks (``watching/sitecustomize.py``).
"""

import gzip
import json
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.command import PROGRAM, run_program
from tests.trust.conftest import CONFIG
from tests.trust.watch import environment_of
from tracking.mlflow_log import store

SECRETS = ("t0ken", "us3r", "passw0rd", "dXMzcjpwYXNzdzByZA", "fr0mfile", "ZnIwbWZpbGU")


class Hostile(ThreadingHTTPServer):
    """Answers as a server of MLflow does, and writes down what it is told.

    Attributes
    ----------
    location : str
        Where the files of a run go, as it says.
    trick : str
        What else it does: ``redirect``, ``huge``, ``bomb``, ``packed``, ``drip``, ``slow``,
        ``deep`` or ``escapes``.
    heard : list of str
        Request lines, headers and bodies.
    """

    daemon_threads = True

    def __init__(self, location: str = "mlflow-artifacts:/1/x/artifacts", trick: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.location, self.trick, self.heard, self.sent = location, trick, [], 0
        self.elsewhere = ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    server: Hostile

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode(errors="replace")
        self.server.heard.append(f"{self.requestline}\n{self.headers}\n{body}")
        trick = self.server.trick
        if trick == "redirect":
            self._head(307, Location=self.server.elsewhere + self.path)
        elif trick == "huge":
            self._head(200, Content_Type="application/json")
            with_spaces = b" " * 2**20
            try:
                for _ in range(4000):
                    self.wfile.write(with_spaces)
                    self.server.sent += len(with_spaces)
            except OSError:
                return
        elif trick in ("bomb", "packed"):
            content = gzip.compress(b" " * 2**20) * 200
            packing = "gzip" if trick == "bomb" else "gzip, gzip"
            about = {"Content_Encoding": packing, "Content_Length": str(len(content))}
            self._head(200, Content_Type="application/json", **about)
            with suppress(OSError):
                self.wfile.write(content)
        elif trick in ("drip", "slow"):
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
            with suppress(OSError):
                self.wfile.write(head if trick == "drip" else head[:-2] + b"X: ")
                while True:
                    self.wfile.write(b" ")
                    self.server.sent += 1
                    time.sleep(0.1)
            self.close_connection = True
        elif trick == "deep":
            self._json("[" * 100_000 + "]" * 100_000)
        elif trick == "escapes":
            error = {"error_code": "INTERNAL_ERROR", "message": "\x1b]0;owned\x07\x1b[31mred"}
            self._json(json.dumps(error), 400)
        else:
            self._json(json.dumps(self._answer(body)))

    do_POST = do_PUT = do_PATCH = do_GET

    def _answer(self, body: str) -> dict[str, Any]:
        info = {
            "run_id": "x" * 32,
            "run_uuid": "x" * 32,
            "experiment_id": "1",
            "run_name": "../../x",
            "status": "RUNNING",
            "artifact_uri": self.server.location,
            "lifecycle_stage": "active",
            "start_time": 0,
        }
        run = {"info": info, "data": {}, "inputs": {}}
        path = self.path.partition("?")[0]
        if path.endswith("experiments/get-by-name"):
            about = {"experiment_id": "1", "name": "little", "lifecycle_stage": "active"}
            return {"experiment": {**about, "artifact_location": self.server.location}}
        if path.endswith(("runs/create", "runs/get", "runs/update")):
            return {"run": run, "run_info": info}
        if path.endswith("experiments/create"):
            return {"experiment_id": "1"}
        return {}

    def _json(self, text: str, code: int = 200) -> None:
        content = text.encode()
        self._head(code, Content_Type="application/json", Content_Length=str(len(content)))
        self.wfile.write(content)

    def _head(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a home, a working folder, and a configuration that someone sent."""
    for name in ("home/.mlflow", "work", "sent", "config", "cache", "tmp", "elsewhere", "out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/.mlflow/credentials").write_text(
        "[mlflow]\nmlflow_tracking_username = fr0mfile\nmlflow_tracking_password = fr0mfile\n"
    )
    (tmp_path / "home/.netrc").write_text("default login fr0mfile password fr0mfile\n")
    (tmp_path / "elsewhere/config.yaml").write_text("precious")
    return tmp_path


def command(place: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command, watched, with all that MLflow would send in its environment."""
    variables = {
        "MLFLOW_TRACKING_USERNAME": "us3r",
        "MLFLOW_TRACKING_PASSWORD": "passw0rd",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "WATCH_SENT": str(place / "sent"),
        "WATCH_SECRET": str(place / "none"),
    }
    return run_program(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        cwd=place / "work",
        env=environment_of(place, ("work", "sent", "out"), **variables | more),
        timeout=120,
    )


def effects(place: Path) -> list[list[str]]:
    file = place / "effects"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run_sent(place: Path, server: Hostile, **more: str) -> str:
    """Run a configuration that names the server, and wait for its logging; return what was said."""
    file = place / "sent/config.yaml"
    file.write_text(CONFIG.replace("tracking: null", f"tracking: {{uri: '{server.uri}'}}"))
    options = ["--out", place / "out/run", "--quiet", "--no-plots"]
    done = command(place, "run", file, *options, **more)
    assert done.returncode == 0, done
    said = done.stdout + done.stderr
    if "goes on by itself" in said:  # a busy machine: wait for the process that logs
        done = command(place, "sync", place / "out/run", **more)
        said += done.stdout + done.stderr
    return said


@pytest.fixture
def started() -> Iterator[Callable[..., Hostile]]:
    """Return what starts a server, which ends with the test."""
    made: list[Hostile] = []

    def start(**about: str) -> Hostile:
        made.append(Hostile(**about))
        return made[-1]

    yield start
    for server in made:
        server.shutdown()
        server.server_close()


def assert_untouched(place: Path, *servers: Hostile) -> None:
    assert effects(place) == []
    assert (place / "elsewhere/config.yaml").read_text() == "precious"
    assert sorted(path.name for path in (place / "elsewhere").iterdir()) == ["config.yaml"]
    for server in servers:
        for heard in server.heard:
            assert not any(secret in heard for secret in SECRETS), heard
            assert "authorization" not in heard.lower()


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "location",
    [
        "file://ELSEWHERE",
        "ELSEWHERE",
        "mlflow-artifacts://evil.example/x",
        "http://evil.example/x",
        "file:///../../ELSEWHERE/%2e%2e/elsewhere",
        "abfss://c@evil.example/x",
        "r2://bucket@evil.example/x",
        "models:/../../ELSEWHERE",
    ],
)
def test_files_go_nowhere_that_a_server_names(location, place, started):
    server = started(location=location.replace("ELSEWHERE", str(place / "elsewhere")))
    said = run_sent(place, server)
    assert any("runs/create" in heard for heard in server.heard), said
    assert "nothing was sent there" in said or "not logged" in said
    assert_untouched(place, server)


@pytest.mark.slow
def test_a_redirect_is_not_followed(place, started):
    server, other = started(trick="redirect"), started()
    server.elsewhere = other.uri
    run_sent(place, server)
    assert server.heard
    assert not other.heard
    assert_untouched(place, server)


@pytest.mark.slow
@pytest.mark.parametrize("trick", ["huge", "deep", "escapes"])
def test_answers_are_bounded_and_stay_text(trick, place, started):
    server = started(trick=trick)
    begin = time.monotonic()
    said = run_sent(place, server)
    assert time.monotonic() - begin < 60
    assert server.heard
    assert server.sent < 2 * 10**8
    assert "\x1b" not in said
    assert "not logged" in said or "expected to log to" in said
    again = command(place, "sync", place / "out/run")
    assert (again.returncode, "Traceback" in again.stderr, "\x1b" in again.stderr) == (2, 0, 0)
    assert_untouched(place, server)


@pytest.mark.parametrize("trick", ["drip", "slow", "bomb", "packed"])
def test_an_answer_ends_in_time_and_takes_no_memory(trick, started, monkeypatch):
    """A byte now and then, in the body or in the head; what unpacks to more than a machine has."""
    monkeypatch.setattr("framework.security.servers._LONGEST_ANSWER", 1.0)
    monkeypatch.setattr("urllib3.util.Retry.DEFAULT_BACKOFF_MAX", 0.1)
    server = started(trick=trick)
    client = store.connect(server.uri)
    begin = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Exception, match=r"an answer|Connection|Incomplete"):
        client.get_experiment_by_name("little")
    assert time.monotonic() - begin < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80_000
    assert server.heard


@pytest.mark.slow
def test_a_host_that_the_user_named_is_told_the_token(place, started):
    """Else the tests above could not fail; .netrc goes before the environment, as ever."""
    server = started()
    run_sent(place, server, MLFLOW_TRACKING_URI=server.uri)
    assert any("ZnIwbWZpbGU" in heard for heard in server.heard)
    (place / "home/.netrc").unlink()
    shutil.rmtree(place / "out/run")
    run_sent(place, server, MLFLOW_TRACKING_URI=server.uri)
    assert any("dXMzcjpwYXNzdzByZA" in heard for heard in server.heard)
