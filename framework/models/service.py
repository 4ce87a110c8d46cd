"""A model behind HTTP: whole tables, or one record step by step. Standard library alone."""

from __future__ import annotations

import ipaddress
import json
import math
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd

from framework.data.table_files import csv_text, parse_csv
from framework.errors import InputError, ParetolabError
from framework.models.model import DeployableModel
from framework.security import parse_json

MOST_BYTES = 64 * 10**6
"""Of the body of a request."""

_BODY = Path("body")  # as messages call a request's
_SECONDS = 30  # that a client may take between two pieces of a request
_CALLS = {
    "GET /": "what this is",
    "POST /predict": "records as JSON, {'records': [{...}, ...]}, or as text/csv; answers alike",
    "POST /next": "one record as JSON, what is known of it; the answer, or what to acquire next",
}


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

    def __init__(self, model: DeployableModel, host: str = "127.0.0.1", port: int = 0) -> None:
        self.model, self.host = model, host
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

    def do_GET(self) -> None:
        if self._refused():
            return
        card = self.server.model.card()
        if self.path == "/":
            self._send(HTTPStatus.OK, {"model": card.title, "calls": _CALLS})
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": _unknown(f"GET {self.path}")})

    def do_POST(self) -> None:
        if self._refused():
            return
        try:
            body = self._body()
            if self.path == "/predict":
                self._predict(body)
            elif self.path == "/next":
                record = _json(body)
                if not isinstance(record, dict):
                    raise InputError("body: expected one record, an object of names and values")
                self._send(HTTPStatus.OK, self.server.model.next_features(record))
            else:
                self._send(HTTPStatus.NOT_FOUND, {"error": _unknown(f"POST {self.path}")})
        except ParetolabError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
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
        return self.rfile.read(int(length))

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
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""


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
