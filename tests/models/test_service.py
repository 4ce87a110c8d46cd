"""The service that answers over HTTP."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from framework.models import service as services
from framework.models.service import Service, Timings
from tests.multistage.test_model import data, fitted


@pytest.fixture(scope="module")
def service():
    model, _, _ = fitted(reject_label="none")
    with Service(model) as service:
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        thread.start()
        yield service
        service.shutdown()
        thread.join()


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


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/predict", b"{", "body: expected JSON"),
        ("/predict", b"[]", "one object a record"),
        ("/predict", b'[{"f1": 1}]', "expected a column 'f4'"),
        ("/next", b"[1]", "expected one record"),
        ("/next", b'{"f1": "low", "f4": 1}', "expected numbers, found 'low'"),
        ("/else", b"{}", "expected one of GET /"),
    ],
)
def test_mistakes_are_sentences(service, path, body, sentence):
    status, found = ask(service, path, body)
    assert status in (400, 404)
    assert sentence in json.loads(found)["error"]


def test_names_of_strangers_are_refused(service):
    status, found = ask(service, "/", host="evil.example:80")
    assert status == 403
    assert b"expected this machine" in found
    assert ask(service, "/", host="localhost:1")[0] == 200


def test_health_and_the_calls_in_openapi(service):
    assert json.loads(ask(service, "/health?from=balancer")[1]) == {
        "status": "ok",
        "model": service.model.card().title,
    }
    page = json.loads(ask(service, "/openapi.json")[1])
    assert page["openapi"] == "3.1.0"
    calls = {f"{kind.upper()} {path}" for path, kinds in page["paths"].items() for kind in kinds}
    assert calls == set(json.loads(ask(service, "/")[1])["calls"])
    for path, kinds in page["paths"].items():
        for kind, call in kinds.items():
            status, found = ask(service, path, b"[]" if kind == "post" else None)
            assert str(status) in call["responses"]
            content = call["responses"][str(status)]["content"]
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
    found = dict(line.rsplit(" ", 1) for line in timings.text().splitlines()[2:])
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
    assert caught.value.code == 501
    assert "POST /predict" in json.loads(caught.value.read())["error"]


def test_no_value_is_null_and_has_a_meaning(service):
    step = json.loads(ask(service, "/next", b"{}")[1])
    assert (step["status"], step["label"], step["confidence"]) == ("acquire", None, None)
    page = ask(service, "/openapi.json")[1].decode()
    assert page.count("no confidence where too little was known") >= 2


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
    monkeypatch.setattr(service.model, "card", lambda: 1 / 0, raising=False)
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        ask(service, "/health")
    deadline = time.monotonic() + 20
    text = ""
    while not text and time.monotonic() < deadline:
        text += capfd.readouterr().err
    assert text == "paretolab: a request failed: ZeroDivisionError: division by zero\n"


def test_threads_are_bounded_and_who_waits_is_served(monkeypatch):
    monkeypatch.setattr(services, "MOST_CONNECTIONS", 3)
    before = threading.active_count()
    with Service(fitted()[0]) as service:
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        thread.start()
        idle = [socket.create_connection(service.server_address[:2]) for _ in range(10)]
        found: list[int] = []
        asking = threading.Thread(target=lambda: found.append(ask(service, "/health")[0]))
        asking.start()
        time.sleep(0.5)
        assert threading.active_count() <= before + 1 + 3 + 1
        assert not found  # it waits
        for connection in idle:
            connection.close()
        asking.join(20)
        assert found == [200]
        idle = [socket.create_connection(service.server_address[:2]) for _ in range(10)]
        time.sleep(0.2)
        service.shutdown()  # though all threads are taken
        thread.join(20)
        assert not thread.is_alive()
        for connection in idle:
            connection.close()
