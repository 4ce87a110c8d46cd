"""A model behind HTTP: whole tables, or one record step by step. Standard library alone."""

from __future__ import annotations

import ipaddress
import json
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from framework.data.table_files import csv_text, parse_csv
from framework.errors import InputError, ParetolabError
from framework.models.model import DeployableModel
from framework.security import parse_json, say

MOST_BYTES = 64 * 10**6
"""Of the body of a request."""

MOST_CONNECTIONS = 32
"""That are served at a time, each by a thread; others wait until one ends."""

_BODY = Path("body")  # as messages call a request's
_SECONDS = 30  # that a client may take between two pieces of a request
_WAITING = 128  # connections that the machine keeps waiting
_LOOK = 0.2  # seconds between looks whether the service ends, while all threads are busy
_REMEMBERED = 1000  # answers that percentiles are of
_CALLS = {
    "GET /": "what this is",
    "GET /health": "whether it answers",
    "GET /metrics": "how long its last 1,000 answers to each call took and what parts of the model "
    "failed on, as Prometheus reads it",
    "GET /openapi.json": "these calls, as OpenAPI describes them",
    "POST /predict": "records as JSON, {'records': [{...}, ...]}, or as text/csv; answers alike",
    "POST /next": "one record as JSON, what is known of it; the answer, or what to acquire next",
}
_NULL = (
    "null where there is none: no label for a record that is not answered yet, no confidence where "
    "too little was known of it to compute one; an empty field in CSV"
)


class Timings:
    """How long the answers to each call took: the last 1,000, and the sum of all.

    From when a request has come in whole until its answer is made: no network, no waiting for a
    thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, deque[float]] = {}
        self._sums: dict[str, tuple[int, float]] = {}

    def add(self, call: str, seconds: float) -> None:
        """Note an answer."""
        with self._lock:
            self._last.setdefault(call, deque(maxlen=_REMEMBERED)).append(seconds)
            count, total = self._sums.get(call, (0, 0.0))
            self._sums[call] = count + 1, total + seconds

    def text(self) -> str:
        """Return the median and the 95th percentile of each call, in Prometheus's text format."""
        name = "paretolab_answer_seconds"
        lines = [
            f"# HELP {name} Of the last {_REMEMBERED} answers; sum and count are of all.",
            f"# TYPE {name} summary",
        ]
        with self._lock:
            for call, last in sorted(self._last.items()):
                ranked, (count, total) = sorted(last), self._sums[call]
                for share in (0.5, 0.95):
                    value = ranked[math.ceil(share * len(ranked)) - 1]
                    lines.append(f'{name}{{call="{call}",quantile="{share:g}"}} {value:.9f}')
                lines.append(f'{name}_sum{{call="{call}"}} {total:.9f}')
                lines.append(f'{name}_count{{call="{call}"}} {count}')
        return "\n".join(lines) + "\n"


class Service(ThreadingHTTPServer):
    """Serves one model.

    Parameters
    ----------
    model : DeployableModel
    host : str
        Address to listen at.
    port : int
        0 takes a free one.

    Raises
    ------
    InputError
        The address cannot be listened at.
    """

    daemon_threads = True
    request_queue_size = _WAITING

    def __init__(self, model: DeployableModel, host: str = "127.0.0.1", port: int = 0) -> None:
        self.model, self.host, self.timings = model, host, Timings()
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._ends = False
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise InputError(
                f"--host {host} --port {port}: expected an address to listen at, found: "
                f"{error.strerror}"
            ) from error

    @property
    def address(self) -> str:
        """The address, as a browser takes it."""
        return f"http://{self.host}:{self.server_address[1]}"

    def allows(self, host: str) -> bool:
        """Return whether a request for this host may be answered.

        A service for this machine alone answers to its own names only: a page in a browser
        that points a name of its own here is refused.
        """
        name = host.rsplit(":", 1)[0].strip("[]")
        return not is_loopback(self.host) or name == self.host or is_loopback(name)

    @property
    def busy(self) -> bool:
        """Whether as many connections are served as may be."""
        if self._free.acquire(blocking=False):
            self._free.release()
            return False
        return True

    def shutdown(self) -> None:
        """End :meth:`serve_forever`, also where it waits for a thread."""
        self._ends = True
        super().shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, as soon as one is free."""
        while not self._free.acquire(timeout=_LOOK):
            if self._ends:
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()  # the machine starts no more threads
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; then its thread is free."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in a line what went wrong; nothing where the client is gone."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            say(f"paretolab: a request failed: {type(error).__name__}: {error}", sys.stderr)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Handler(BaseHTTPRequestHandler):
    server: Service
    timeout = _SECONDS
    protocol_version = "HTTP/1.1"
    _began: float | None = None  # when the request that is answered had come in whole

    def do_GET(self) -> None:
        self._began = None
        if self._refused():
            return
        model, path = self.server.model, urlsplit(self.path).path
        if path == "/":
            self._send(HTTPStatus.OK, {"model": model.card().title, "calls": _CALLS})
        elif path == "/health":
            self._send(HTTPStatus.OK, {"status": "ok", "model": model.card().title})
        elif path == "/metrics":
            text = self.server.timings.text() + _failures(model.failures())
            self._write(HTTPStatus.OK, "text/plain; version=0.0.4", text.encode())
        elif path == "/openapi.json":
            self._send(HTTPStatus.OK, openapi(model))
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": _unknown(f"GET {self.path}")})

    def do_POST(self) -> None:
        self._began = None
        if self._refused():
            return
        path = urlsplit(self.path).path
        try:
            body = self._body()
            self._began = time.perf_counter()
            if path == "/predict":
                self._predict(body)
            elif path == "/next":
                record = _json(body)
                if not isinstance(record, dict):
                    raise InputError("body: expected one record, an object of names and values")
                self._send(HTTPStatus.OK, self.server.model.next_features(record))
            else:
                self._send(HTTPStatus.NOT_FOUND, {"error": _unknown(f"POST {self.path}")})
        except ParetolabError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except ConnectionError:  # nobody is there to be answered
            raise
        except Exception as error:  # the model may be anyone's
            sentence = f"expected records that the model can answer, found {type(error).__name__}"
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"{sentence}: {error}"})

    def _predict(self, body: bytes) -> None:
        if self.headers.get_content_type() == "text/csv":
            records = parse_csv(csv_text(body, _BODY), _BODY)
            answers = self.server.model.answers(records)
            self._write(HTTPStatus.OK, "text/csv", answers.to_csv(index=False).encode())
            return
        plain = _json(body)
        rows = plain.get("records") if isinstance(plain, dict) else plain
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not rows:
            raise InputError("body: expected {'records': [{...}, ...]}, one object a record")
        answers = self.server.model.answers(pd.DataFrame(rows))
        self._send(HTTPStatus.OK, {"answers": _plain(answers.to_dict(orient="records"))})

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True
            raise InputError(
                f"body: expected a Content-Length of at most {MOST_BYTES:,} bytes, found "
                f"{length or 'none'}"
            )
        try:
            body = self.rfile.read(int(length))
        except TimeoutError as error:
            raise ConnectionAbortedError("a body that stopped coming") from error
        if len(body) < int(length):
            raise ConnectionAbortedError("a body that ended early")
        return body

    def _refused(self) -> bool:
        host = self.headers.get("Host", "")
        if self.server.allows(host):
            return False
        self.close_connection = True
        self._send(HTTPStatus.FORBIDDEN, {"error": f"Host: expected this machine, found {host!r}"})
        return True

    def _send(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._write(status, "application/json", json.dumps(_plain(content)).encode())

    def _write(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        if self._began is not None and status == HTTPStatus.OK:
            took = time.perf_counter() - self._began
            self.server.timings.add(urlsplit(self.path).path, took)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection or self.server.busy:  # somebody else waits for the thread
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request, or one of another kind, as every mistake is answered."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(status, {"error": f"expected one of {', '.join(_CALLS)}; {message or status}"})

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""


def _failures(counts: Mapping[str, int]) -> str:
    """Return how many records each part of a model failed on, in Prometheus's text format."""
    name = "paretolab_failed_records_total"
    lines = [f"# HELP {name} That a part failed on; another was asked.", f"# TYPE {name} counter"]
    for part, count in counts.items():
        label = json.dumps(part, ensure_ascii=False)  # escapes what Prometheus has escaped
        lines.append(f"{name}{{part={label}}} {count}")
    return "\n".join(lines) + "\n" if counts else ""


def _json(body: bytes) -> Any:
    try:
        return parse_json(body)
    except ValueError as error:
        raise InputError(f"body: expected JSON, found: {error}") from error


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: no NaN, and Python's numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _unknown(call: str) -> str:
    return f"expected one of {', '.join(_CALLS)}; found {call}"


def openapi(model: DeployableModel) -> dict[str, Any]:
    """Return the calls of a model's service as OpenAPI 3.1 has them.

    Records and answers are objects whose keys are those of the model: its README lists them.
    """
    card = model.card()
    cell = {"type": ["number", "string", "boolean", "null"]}
    record = {"type": "object", "additionalProperties": cell}
    answer = record | {"description": f"{card.answers}. A value is {_NULL}."}
    table = {"schema": {"type": "string", "description": "a header, then one line per record"}}
    wrong = _answer("A sentence that says what was expected.", _object(error={"type": "string"}))
    plain = {"text/plain": {"schema": {"type": "string"}}}
    metrics = {"description": "Prometheus's text format.", "content": plain}
    paths: dict[str, Any] = {
        "/": {"get": _call("GET /", _object(model=cell, calls={"type": "object"}))},
        "/health": {"get": _call("GET /health", _object(status={"const": "ok"}, model=cell))},
        "/metrics": {"get": {"summary": _CALLS["GET /metrics"], "responses": {"200": metrics}}},
        "/openapi.json": {"get": _call("GET /openapi.json", {"type": "object"})},
    }
    predict = _call("POST /predict", _object(answers={"type": "array", "items": answer}))
    predict["responses"]["200"]["content"]["text/csv"] = table
    records = _object(records={"type": "array", "items": record, "minItems": 1})
    predict["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": records}, "text/csv": table},
    }
    predict["responses"]["400"] = wrong
    paths["/predict"] = {"post": predict}
    if type(model).next_features is not DeployableModel.next_features:
        step = _object(
            status={"enum": ["answer", "inconclusive", "acquire"]},
            label=cell | {"description": _NULL},
            confidence={"type": ["number", "null"], "description": _NULL},
        )
        following = _call("POST /next", step | {"additionalProperties": True})
        following["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": record}},
        }
        following["responses"]["400"] = wrong
        paths["/next"] = {"post": following}
    info = {"title": card.title, "version": version("paretolab")}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _call(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"summary": _CALLS[name], "responses": {"200": _answer("The answer.", answer)}}


def _answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
