"""Connect to Ray: our own cluster, a running one, one that dies, its nodes, folders of sessions."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import pytest
import yaml

from framework.errors import ClusterError
from framework.parallel.cluster import cluster, guarded, session_folder
from framework.parallel.nodes import answering, call_in_thread
from framework.parallel.ray_evaluator import RayEvaluator
from tests.command import TOY, run_program, until
from tests.ray_toys import Sphere


def free_port(first: int = 6400) -> int:
    """Return a free port that Ray does not reserve for its workers (10002 to 19999)."""
    for port in range(first, 6500):
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError(f"no free port from {first} to 6499")


def listening_addresses(pids: set[int]) -> set[str]:
    connections = psutil.net_connections(kind="tcp")
    return {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN and c.pid in pids}


def session_directory(processes: set[psutil.Process]) -> Path:
    """Return where Ray keeps logs and sockets, as its processes were told."""
    lines = [" ".join(process.cmdline()) for process in processes]
    found = [match for line in lines if (match := re.search(r"(/\S*/session_\d[^/ ]*)/", line))]
    return Path(found[0].group(1))


def test_a_local_cluster_is_private_and_leaves_nothing() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    before = set(psutil.Process().children(recursive=True))
    with cluster(workers=1) as found:
        assert found.workers == 1
        assert found.description == "Ray, 1 worker, started here"
        started = set(psutil.Process().children(recursive=True)) - before
        pids = {process.pid for process in started}
        assert pids
        assert listening_addresses(pids) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        assert not Path.home().joinpath(".ray", "auth_token").exists()
        # it would ask 169.254.169.254 which cloud this is
        assert not any("--modules-to-load=UsageStatsHead" in p.cmdline() for p in started)
        session = session_directory(started)
        assert session.exists()
        with cluster(workers=5) as inner:  # what is there is used, and left alone
            assert inner.workers == 5
            assert inner.description == "Ray of this process, 5 workers, room for 1 now"
        assert sys.modules["ray"].is_initialized()
    assert not sys.modules["ray"].is_initialized()
    assert signal.getsignal(signal.SIGTERM) is handler
    _, alive = psutil.wait_procs(list(started), timeout=10)
    assert not alive
    assert not session.parent.exists()


STUCK = """
import sys, threading, time
import psutil
from framework.cli.main import main
from framework.parallel import cluster
cluster._START_SECONDS = 8.0
def stop():
    while not (found := [p for p in psutil.Process().children() if p.name() == "gcs_server"]):
        time.sleep(0.01)
    found[0].suspend()
threading.Thread(target=stop, daemon=True).start()
sys.exit(main(["run", "toy.yaml", "--workers", "1", "--out", "out"]))
"""


@pytest.mark.slow
def test_a_start_that_hangs_is_given_up_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(PARALLEL))
    done = run_program([sys.executable, "-P", "-c", STUCK], cwd=tmp_path, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "paretolab: Ray cannot start on this machine: Ray has not answered for 8 s; try again, "
        "free processors and memory, or run with --workers serial"
    )
    assert not (tmp_path / "out" / "summary.json").exists()


def test_nothing_runs_at_the_address() -> None:
    start = time.perf_counter()
    address = f"127.0.0.1:{free_port()}"
    complaint = f"no Ray runs at {address}.*--workers serial"
    with pytest.raises(ClusterError, match=complaint), cluster(address=address):
        pass
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("address", ["nonsense", "host:port", "ray://127.0.0.1:10001", ":6379"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ClusterError, match="expected host:port or auto"), cluster(address=address):
        pass


def test_ray_address_names_the_cluster_of_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    with pytest.raises(ClusterError, match="no Ray runs at"), cluster(address="auto"):
        pass


def test_something_else_listens_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.parallel.cluster._PROBE_SECONDS", 3.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        complaint = f"no usable Ray at {address}"
        with pytest.raises(ClusterError, match=complaint), cluster(address=address):
            pass


@contextmanager
def ray_start(home: Path) -> Iterator[str]:
    """Run `ray start --head` as a user of that home would; yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += [f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    command += [f"--temp-dir={home}", f"--object-store-memory={128 << 20}"]
    process = subprocess.Popen(
        command,
        env=ray_environment(home),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: not closed(port), 60)
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=4)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def closed(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def ray_environment(home: Path) -> dict[str, str]:
    """Return the environment of a user with this home, who has set nothing of Ray's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {"HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"}


def home_with(token: str | None) -> TemporaryDirectory[str]:
    """Return a home, with Ray's token in it or not; its path is short, as Ray wants it."""
    home = TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True)
    if token is not None:
        Path(home.name, ".ray").mkdir()
        Path(home.name, ".ray", "auth_token").write_text(token)
    return home


def run_at(address: str, folder: Path, home: Path, **variables: str) -> subprocess.CompletedProcess:
    """Run a search on a cluster by the installed command, as a user of that home."""
    program = Path(sys.executable).parent / "paretolab"
    (folder / "toy.yaml").write_text(yaml.safe_dump(PARALLEL))
    out = folder / f"out{len(list(folder.iterdir()))}"
    done = run_program(
        [program, "run", "toy.yaml", "--out", out, "--address", address, "--quiet"],
        cwd=folder,
        env=ray_environment(home) | variables,
    )
    assert "Traceback" not in done.stderr
    if not done.returncode:
        assert f"evaluated by Ray at {address}, 2 workers" in done.stderr
        assert json.loads((out / "summary.json").read_text())["evaluations"] == 60
    return done


PARALLEL = TOY | {"algorithm": {"kind": "random", "batch": 20}, "workers": "auto"}
TOKEN = "a" * 64


@pytest.mark.slow
def test_with_a_token_however_it_is_given(tmp_path: Path) -> None:
    with home_with(TOKEN) as home, ray_start(Path(home)) as address, home_with(None) as other:
        for place, variables in (
            (home, {}),  # as documented: `ray start --head`, then `--address`
            (home, {"RAY_AUTH_MODE": "token"}),
            (other, {"RAY_AUTH_TOKEN": TOKEN}),
        ):
            assert run_at(address, tmp_path, Path(place), **variables).returncode == 0
        done = run_at(address, tmp_path, Path(other))
        assert done.returncode == 2
        complaint = f"paretolab: Ray at {address} asks for a token, and this process has none"
        assert complaint in done.stderr
        assert "unset RAY_AUTH_MODE" not in done.stderr
        done = run_at(address, tmp_path, Path(home), RAY_AUTH_MODE="disabled")
        assert done.returncode == 2
        assert "unset RAY_AUTH_MODE (it is 'disabled')" in done.stderr


@pytest.mark.slow
def test_without_a_token(tmp_path: Path) -> None:
    with home_with(None) as home, ray_start(Path(home)) as address, home_with(TOKEN) as other:
        for place, variables in (
            (home, {}),
            (home, {"RAY_AUTH_MODE": "disabled"}),
            (other, {}),
            (other, {"RAY_AUTH_MODE": "token"}),
            (home, {"RAY_AUTH_MODE": "token"}),
        ):
            assert run_at(address, tmp_path, Path(place), **variables).returncode == 0
        join_twice(address)


def join_twice(address: str) -> None:
    """Join a running cluster twice, which is left running."""
    for _ in range(2):
        with cluster(workers=8, address=address) as joined:
            assert joined.workers == 8
            assert joined.description.startswith("Ray at ")
            assert joined.description.endswith(", 8 workers, room for 2 now")
            evaluator = RayEvaluator(Sphere(), workers=joined.workers)
            evaluator.submit(np.arange(5), np.ones((5, 4)))
            pieces = evaluator.collect(timeout=60)
            assert pieces[0].values["near"][0] == 4.0
            evaluator.close()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("framework.parallel.cluster._WATCH_SECONDS", 0.01)


def test_a_death_ends_a_wait(quick):
    with pytest.raises(ClusterError, match=r"^it died; all results so far are kept"), guarded(died):
        time.sleep(20)


def test_a_death_ends_a_question_that_hangs(quick):
    """Ray's compiled code hears no signal, so another thread is left waiting in it."""
    never = threading.Event()
    with pytest.raises(ClusterError, match=r"^it died"), guarded(died):
        call_in_thread(never.wait)
    never.set()


def test_what_ray_makes_of_the_signal_is_said_as_what_it_is(quick):
    def compiled():
        try:
            time.sleep(20)
        except ClusterError as error:
            raise SystemError("returned a result with an exception set") from error

    with pytest.raises(ClusterError, match=r"^it died"), guarded(died):
        compiled()


def test_other_errors_stay_what_they_are(quick):
    with pytest.raises(SystemError, match="another"), guarded(lambda: ""):
        raise SystemError("another")
    with pytest.raises(ValueError, match="none of ours"), guarded(lambda: ""):
        call_in_thread(int_of_nothing)
    with guarded(lambda: ""):
        assert call_in_thread(lambda: 7) == 7


def died() -> str:
    return "it died"


def int_of_nothing() -> int:
    raise ValueError("none of ours")


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return tmp_path


def age(folder):
    """Let a folder be an hour old."""
    then = time.time() - 3600
    os.utime(folder, (then, then))


def test_a_folder_goes_with_its_session(base):
    with session_folder() as folder:
        assert folder.parent == base
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "logs").mkdir()
        (folder / "logs" / "raylet.out").touch()
    assert list(base.iterdir()) == []


def test_what_a_killed_process_left_goes_and_what_lives_stays(base):
    code = (
        "import time\nfrom framework.parallel.cluster import session_folder\n"
        "with session_folder() as folder:\n    (folder / 'logs').mkdir()\n"
        "    print(folder, flush=True)\n    time.sleep(60)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = [os.path.basename(process.stdout.readline().strip()) for process in processes]
    young = base / "paretolab-ray-young"
    young.mkdir()
    (base / "ray").mkdir()
    for folder in folders:
        age(base / folder)
    age(base / "ray")
    os.kill(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    with session_folder() as mine:
        left = {path.name for path in base.iterdir()}
    assert left == {folders[1], young.name, "ray", mine.name}
    processes[1].kill()
    for process in processes:
        process.communicate()


def test_nodes_answer_that_take_a_connection():
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        open_ports = [one.getsockname(), two.getsockname()]
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refused = closed.getsockname()
        nowhere = ("192.0.2.1", 9)  # of a network for documentation
        assert answering([open_ports[0], refused, nowhere, open_ports[1]], 0.5) == {0, 3}
    assert answering([], 0.5) == set()
