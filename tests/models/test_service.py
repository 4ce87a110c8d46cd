"""The service that answers over HTTP, and clients that would have it all for themselves."""

import json
import os
import re
import signal
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest

from framework.models import service as services
from framework.models.constant import ConstantClassifier
from framework.models.service import Service, Timings
from framework.models.store import save_model
from tests.command import start, until
from tests.multistage.test_model import data, fitted


@contextmanager
def serving(model):
    service = Service(model)
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    try:
        yield SimpleNamespace(
            model=model, address=service.address, server_address=service.socket.getsockname()
        )
    finally:
        service.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def service():
    model, _, _ = fitted(reject_label="none")
    with serving(model) as service:
        yield service


def ask(service, path, body=None, kind="application/json", host=None):
    headers = {"Content-Type": kind} | ({"Host": host} if host else {})
    request = urllib.request.Request(service.address + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_service_answers_tables_and_steps(service):
    frame, _ = data()
    want = service.model.predict_table(frame)
    status, found = ask(service, "/predict", frame.to_csv(index=False).encode(), "text/csv")
    assert (status, found.decode()) == (200, want.to_csv(index=False))
    rows = frame.head(20).astype(object).where(frame.head(20).notna(), None)
    body = json.dumps({"records": rows.to_dict(orient="records")}).encode()
    status, found = ask(service, "/predict", body)
    assert status == 200
    assert [row["label"] for row in json.loads(found)["answers"]] == want["label"][:20].tolist()
    status, found = ask(service, "/next", json.dumps({"f4": 0.5}).encode())
    assert json.loads(found)["next"] == {"f1": 2.0}
    assert "POST /next" in json.loads(ask(service, "/")[1])["calls"]


def test_a_bad_value_spoils_its_record_alone(service):
    record = data()[0].dropna().iloc[0].to_dict()
    records = [record, record | {"f4": "low"}]
    status, found = ask(service, "/predict", json.dumps({"records": records}).encode())
    first, second = json.loads(found)["answers"]
    assert (status, first["error"], second["label"]) == (200, "", None)
    assert (first["label"] is None, isinstance(first["stage"], int)) == (False, True)
    assert second["error"] == "feature 'f4': expected numbers, found 'low' in record 2"
    body = pd.DataFrame(records).to_csv(index=False).encode()
    text = ask(service, "/predict", body, "text/csv")[1].decode()
    assert "feature 'f4': expected numbers, found 'low' in record 2" in text.splitlines()[2]


def test_a_browser_gets_a_page_for_one_record_step_by_step(service):
    request = urllib.request.Request(service.address, headers={"Accept": "text/html,*/*;q=0.8"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert 'fetch("next"' in page
    assert "default-src 'none'; connect-src 'self'" in policy
    assert not re.search(r"https?://", page)  # it loads nothing from elsewhere
    script = re.search("<script>(.*)</script>", page, re.DOTALL).group(1)
    assert "innerHTML" not in script  # what a model names stays text


def test_a_model_without_steps_speaks_of_none():
    with serving(ConstantClassifier.from_label("ill", ["ill", "well"])) as service:
        calls = json.loads(ask(service, "/")[1])["calls"]
    assert calls["GET /"] == "What this service is."
    assert "POST /next" not in calls


def test_names_of_strangers_are_refused(service):
    status, found = ask(service, "/", host="evil.example:80")
    assert status == 403
    assert b"expected this machine" in found
    assert ask(service, "/", host="localhost:1")[0] == 200
    status, found = ask(service, "/predict/", b"[]", host="evil.example:80")
    assert (status, b"found POST /predict/" in found) == (404, True)  # no redirect to that host


def test_health_and_the_calls_in_openapi(service):
    health = {"status": "ok", "model": service.model.card().title}
    assert json.loads(ask(service, "/health?from=balancer")[1]) == health
    page = json.loads(ask(service, "/openapi.json")[1])
    assert page["openapi"] == "3.1.0"
    calls = {f"{kind.upper()} {path}" for path, kinds in page["paths"].items() for kind in kinds}
    assert calls == set(json.loads(ask(service, "/")[1])["calls"])
    for path, kinds in page["paths"].items():
        for kind, call in kinds.items():
            status, found = ask(service, path, b"[]" if kind == "post" else None)
            content = call["responses"]["200" if status == 200 else "4XX"]["content"]
            if "text/plain" in content:
                assert found.startswith(b"# HELP paretolab_answer_seconds")
                continue
            schema = content["application/json"]["schema"]
            assert set(schema.get("required", ())) <= json.loads(found).keys()


def test_metrics_are_the_percentiles_of_the_last_answers(service):
    timings = Timings()
    took = np.random.default_rng(0).permutation(np.arange(1, 1501)) / 1000
    for seconds in took:
        timings.add("/predict", seconds)
    found = dict(line.rsplit(" ", 1) for line in timings.text({}).splitlines()[2:])
    last, name = np.sort(took[-1000:]), "paretolab_answer_seconds"
    for quantile, rank in (("0.5", 500), ("0.95", 950)):
        value = float(found[f'{name}{{call="/predict",quantile="{quantile}"}}'])
        assert value == pytest.approx(last[rank - 1])
    assert float(found[f'{name}_sum{{call="/predict"}}']) == pytest.approx(took.sum())
    assert int(found[f'{name}_count{{call="/predict"}}']) == 1500

    def served():
        text = ask(service, "/metrics")[1].decode()
        counts = re.findall(rf'{name}_count{{call="/predict"}} (\d+)', text)
        return int(counts[0]) if counts else 0

    before, body = served(), data()[0].to_csv(index=False).encode()
    assert ask(service, "/predict", body, "text/csv")[0] == 200
    assert ask(service, "/predict", b"[]")[0] == 400  # no answer: it does not count
    assert ask(service, "/else", b"{}")[0] == 404
    assert served() == before + 1
    assert "/else" not in ask(service, "/metrics")[1].decode()


def test_metrics_count_what_a_part_failed_on(service, monkeypatch):
    name = "paretolab_failed_records_total"
    assert name not in ask(service, "/metrics")[1].decode()
    monkeypatch.setattr(service.model, "failures", lambda: {"tree": 3, 'a "b"\\': 0})
    found = ask(service, "/metrics")[1].decode()
    assert f'{name}{{part="tree"}} 3\n' in found
    assert f'{name}{{part="a \\"b\\"\\\\"}} 0\n' in found


def test_another_kind_of_request_is_a_sentence(service):
    request = urllib.request.Request(f"{service.address}/predict", method="DELETE")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=20)
    assert caught.value.code == 405
    assert "POST /predict" in json.loads(caught.value.read())["error"]


def test_no_value_is_null_and_has_a_meaning(service):
    step = json.loads(ask(service, "/next", b"{}")[1])
    assert (step["status"], step["label"], step["confidence"]) == ("acquire", None, None)
    page = ask(service, "/openapi.json")[1].decode()
    assert page.count("no confidence if too little was known") >= 2


def gone(service, request: bytes, *, reset: bool):
    """Send a request and be gone before there is an answer."""
    client = socket.create_connection(service.server_address[:2], timeout=20)
    client.sendall(request)
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("part", ["request line", "headers", "half a body", "everything"])
def test_clients_that_go_leave_no_traceback(service, capfd, part, reset):
    body = data()[0].to_csv(index=False).encode() * 20
    headers = f"Host: 127.0.0.1\r\nContent-Type: text/csv\r\nContent-Length: {len(body)}\r\n"
    whole = f"POST /predict HTTP/1.1\r\n{headers}\r\n".encode()
    sent = {
        "request line": b"POST /pre",
        "headers": whole,
        "half a body": whole + body[: len(body) // 2],
        "everything": whole + body,
    }[part]
    before = threading.active_count()
    for _ in range(3):
        gone(service, sent, reset=reset)
    assert ask(service, "/health")[0] == 200  # the threads of those that left have begun by now
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_what_goes_wrong_is_one_line(service, capfd, monkeypatch):
    monkeypatch.setattr(service.model, "failures", lambda: 1 / 0)
    status, found = ask(service, "/metrics")
    assert (status, list(json.loads(found))) == (500, ["error"])
    deadline = time.monotonic() + 20
    text = ""
    while not text and time.monotonic() < deadline:
        text += capfd.readouterr().err
    assert text == "paretolab: a request failed: ZeroDivisionError: division by zero\n"


# --- clients that take more than their share ---------------------------------------------------

HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SLOW = {"headers": HEAD + b"X: ", "body": HEAD + b"Content-Length: 1000\r\n\r\n["}


def rows(count, **more):
    return json.dumps([{"f0": 1, "f1": 1, "f2": 1, "f4": 1, "text": "up"} | more] * count).encode()


def raw(service, request):
    """Return what is answered to the bytes of a request until the connection ends."""
    with socket.create_connection(service.server_address[:2], timeout=30) as client:
        client.sendall(request)
        found = b""
        while part := client.recv(65536):
            found += part
    return found


def test_names_are_compared_before_there_is_a_table(service, monkeypatch):
    """A table of 12,000 records with a name of its own each took 2.6 GB."""
    monkeypatch.setattr(pd, "DataFrame", lambda *_: pytest.fail("a table is made"))
    for count, sentence in ((1_000, "columns 'f4' and 'f1', "), (12_000, "of 12,000 names")):
        body = json.dumps([{f"c{i}": 1} for i in range(count)]).encode()
        status, found = ask(service, "/predict", body)
        assert (status, sentence in found.decode()) == (400, True)


ODD_BODIES = [
    ("/predict", b"{", "body: expected JSON"),
    ("/predict", b"", "expected JSON"),
    ("/predict", b"\xff\xfe\x00", "expected JSON"),
    ("/predict", b"[" * 100_000 + b"]" * 100_000, "expected JSON"),
    ("/predict", b'[{"f4":' + b"1" * 10_000 + b"}]", "expected JSON"),
    ("/predict", b'[{"f4":' + b"[" * 500 + b"]" * 500 + b"}]", "expected"),
    ("/predict", b"[]", "one object a record"),
    ("/predict", b"null", "one object a record"),
    ("/predict", b'{"records": null}', "one object a record"),
    ("/predict", b"[" + b"[]," * 100_000 + b"[]]", "one object a record"),
    ("/predict", rows(70_000), "at most 50,000 records, found more"),
    ("/predict", b'[{"f1": 1}]', "expected a column 'f4', "),
    ("/predict", b'[{"f1": "\\ud800", "f4": 1}]', "expected Unicode, found half a character"),
    ("/next", b"[1]", "expected one record"),
    ("/next", b'{"f1": "low", "f4": 1}', "expected numbers, found 'low'"),
    ("/else", b"{}", "expected one of GET /"),
]
ODD_TABLES = [
    (b"", "empty"),
    (b"\xff\xfe\x00", "UTF-8"),
    (b"f1,F4\n1,2\n", "found none of that name; did you mean 'F4'?"),
    (b"f4\n" + b"1\n" * 70_000, "at most 50,000 records, found more"),
    (b"f4\r" + b"1\n1\r" * 35_000, "at most 50,000 records, found more"),
    (b"f0,f1,f2,f4,text," + b",".join(b"c%d" % i for i in range(300_000)), "at most 50,000 names"),
]


@pytest.mark.parametrize(
    ("path", "body", "kind", "sentence"),
    [
        *((path, body, "application/json", sentence) for path, body, sentence in ODD_BODIES),
        *(("/predict", body, "text/csv", sentence) for body, sentence in ODD_TABLES),
    ],
)
def test_odd_bodies_get_a_sentence(service, path, body, kind, sentence):
    status, found = ask(service, path, body, kind)
    assert status == (404 if path == "/else" else 400)
    assert sentence in json.loads(found)["error"]


@pytest.mark.parametrize(
    ("framing", "status"),
    [
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n[]\r\n0\r\n\r\n", 400),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n[] ", 400),
        (b"Content-Length: -1\r\n\r\n", 400),
        (b"Transfer-Encoding: gzip\r\n\r\n", 400),
        (b"Content-Length: 99999999999\r\nConnection: close\r\n\r\n", 413),
        (b"X: " + b"x" * 60_000, 400),
    ],
)
def test_a_request_with_two_lengths_or_none_is_refused(service, framing, status):
    head, _, body = raw(service, HEAD + framing).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert list(json.loads(body)) == ["error"]  # one answer: the rest is no other request


def test_chunks_that_break_off_after_an_answer_leave_no_traceback(service, capfd):
    size = 9_000_000
    sent = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size + b" " * size + b"\r\nxyz\r\n"
    assert b" 413 " in raw(service, HEAD + sent)
    assert capfd.readouterr().err == ""


@pytest.mark.quick(1)
@pytest.mark.parametrize("part", SLOW)
def test_slow_clients_stop_nobody_and_are_cut(part, monkeypatch):
    monkeypatch.setattr(services, "SECONDS", 3.0)
    with serving(fitted()[0]) as service:
        slow = [socket.create_connection(service.server_address[:2]) for _ in range(60)]
        for client in slow:
            client.sendall(SLOW[part])
        began, open_ = time.monotonic(), 60
        while open_ and time.monotonic() < began + 40:
            assert ask(service, "/predict", rows(3))[0] == 200
            time.sleep(0.2)
            open_ = sum(drips(client) for client in slow)
        assert not open_
        assert time.monotonic() - began > 2.5
        for client in slow:
            client.close()


def drips(client):
    """Send a byte; return whether the connection is still open."""
    try:
        client.sendall(b"1")
        client.setblocking(False)
        return client.recv(1000) != b"" and False
    except BlockingIOError:
        client.setblocking(True)
        return True
    except OSError:
        return False


@pytest.mark.slow
def test_nobody_is_read_for_long_at_once(service, monkeypatch):
    """30 clients with chunks of one byte had others wait 18 seconds: 256 KB of each at a time."""
    taken, receive = [], services.H11Protocol.data_received

    def counted(self, data):
        taken.append(len(data))
        receive(self, data)

    monkeypatch.setattr(services.H11Protocol, "data_received", counted)
    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 20_000 + b"0\r\n\r\n"
    assert b"400" in raw(service, b"POST /predict HTTP/1.1\r\nHost: localhost\r\n" + chunks)
    assert sum(taken) > 120_000
    assert max(taken) <= services.MOST_AT_ONCE


@pytest.mark.slow
def test_who_does_not_read_an_answer_is_cut(monkeypatch):
    monkeypatch.setattr(services, "SECONDS", 2.0)
    with serving(fitted()[0]) as service:
        body = rows(20_000)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(service.server_address[:2])
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        process = psutil.Process()
        until(lambda: connections(process, service), 30, 0.05)  # it is accepted
        until(lambda: not connections(process, service), 30)
        client.close()


def connections(process, service):
    port = service.server_address[1]
    return [c for c in process.net_connections("tcp") if c.raddr and c.laddr.port == port]


@pytest.mark.parametrize(("limit", "most"), [("MOST_CONNECTIONS", 10), ("MOST_RECEIVED", 10**6)])
def test_who_waits_longest_makes_room(monkeypatch, limit, most):
    monkeypatch.setattr(services, limit, most)
    with serving(fitted()[0]) as service:
        started = HEAD + b"Content-Length: 200000\r\n\r\n" + b" " * 150_000
        waiting = []
        for _ in range(30):
            waiting.append(socket.create_connection(service.server_address[:2], timeout=20))
            waiting[-1].sendall(started)
            assert ask(service, "/predict", rows(3))[0] == 200
        assert b"expected at most" in waiting[0].recv(1000)
        assert drips(waiting[-1])
        for client in waiting:
            client.close()


def test_an_answer_that_takes_too_long_is_a_sentence(monkeypatch):
    model = fitted()[0]
    ended = threading.Event()
    monkeypatch.setattr(
        model, "answers", lambda frame, strict: ended.wait(30) and frame, raising=False
    )
    monkeypatch.setattr(services, "SECONDS", 1.0)
    with serving(model) as service, ThreadPoolExecutor(9) as clients:
        asked = [clients.submit(ask, service, "/predict", rows(1)) for _ in range(9)]
        time.sleep(0.3)
        assert ask(service, "/health")[0] == 200  # though every thread of the model is taken
        for one in asked:
            status, found = one.result(20)
            assert (status, b"send fewer records" in found) == (408, True)
        ended.set()
        monkeypatch.undo()
        assert ask(service, "/predict", rows(1))[0] == 200


@pytest.mark.slow
def test_200_clients_at_once_are_answered_alike(service):
    body = rows(3)
    with ThreadPoolExecutor(200) as clients:
        found = set(clients.map(lambda _: ask(service, "/predict", body), range(200)))
    assert [status for status, _ in found] == [200]


def test_the_threads_of_a_service_end_with_it():
    before = threading.active_count()
    with serving(fitted()[0]) as service:
        assert ask(service, "/predict", rows(1))[0] == 200
    until(lambda: threading.active_count() <= before, 20)


def test_ctrl_c_ends_at_once_and_nothing_is_imported_from_the_working_folder(tmp_path):
    save_model(fitted()[0], tmp_path / "model")
    for name in ("asyncio", "click", "fastapi", "h11", "pydantic", "starlette", "uvicorn"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')")
    process = start("serve", "model", "--port", "0", cwd=tmp_path)
    address = process.stdout.readline().split()[2].rstrip(",")
    found = SimpleNamespace(address=address)
    assert ask(found, "/openapi.json")[0] == ask(found, "/predict", rows(2))[0] == 200
    slow = socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])))
    slow.sendall(SLOW["body"])
    time.sleep(0.2)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    slow.settimeout(20)
    slow.recv(1000)
    assert time.monotonic() - began < 4  # one second, to answer what it has
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "paretolab: interrupted\n")
    assert not (tmp_path / "imported").exists()
    slow.close()
