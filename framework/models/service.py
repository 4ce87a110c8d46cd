"""A model behind HTTP, by FastAPI and uvicorn: whole tables, or one record step by step."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Literal

import h11
import numpy as np
import pandas as pd
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as RoutingError
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from framework.data.table_files import csv_text, parse_csv
from framework.errors import InputError, ParetolabError
from framework.models.model import DeployableModel
from framework.registry import spelled_as
from framework.security import is_loopback, say

MOST_BYTES = 8 * 10**6  # in the body of a request
MOST_RECORDS = 50_000  # in a request
MOST_NAMES = 50_000  # in the records of a request
MOST_VALUES = 4 * 10**6  # in the table of a request: its records times the names in them
MOST_CONNECTIONS = 256
MOST_RECEIVED = 128 * 10**6  # bytes of all requests that are not answered yet
MOST_AT_ONCE = 4096  # bytes that are taken of a connection before it is the turn of the others
SECONDS = 60.0  # for a whole request, until its answer is computed
THREADS = 4  # in which the model computes; further requests wait

_BODY = Path("body")  # the name of a request's body in messages
_READING = Lock()  # one body at a time: parsed JSON may take 30 times the size of its text
_CLOSE = {"Connection": "close"}
_PAGE = Path(__file__).with_name("step_by_step.html")
_PAGE_HEADERS = {  # the page can only talk to this service, and no other page can frame it
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
}
_NULL = (
    "null if there is none: no label for a record that is not answered yet, no confidence if too "
    "little was known of the record to compute it; an empty field in CSV"
)

_Cell = float | str | bool | None
_Record = dict[str, _Cell]


class _Records(BaseModel):
    records: list[_Record] = Field(min_length=1, max_length=MOST_RECORDS)


class _Answers(BaseModel):
    answers: list[_Record] = Field(description=f"A value is {_NULL}.")


class _Step(BaseModel, extra="allow"):
    status: Literal["answer", "inconclusive", "acquire"]
    label: _Cell = Field(description=_NULL)
    confidence: float | None = Field(description=_NULL)


class _Mistake(BaseModel):
    error: str = Field(description="A sentence that says what was expected.")


class Timings:
    """Seconds that the model took for each call: of the last 1,000 answers, and summed over all."""

    def __init__(self) -> None:
        self._last: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=1000))
        self._total: Counter[str] = Counter()
        self._sums: defaultdict[str, float] = defaultdict(float)

    def add(self, call: str, seconds: float) -> None:
        """Record an answer."""
        self._last[call].append(seconds)
        self._total[call] += 1
        self._sums[call] += seconds

    def text(self, failures: Mapping[str, int]) -> str:
        """Return the median and the 95th percentile of each call in the format of Prometheus.

        ``failures`` holds the number of records that each part of the model failed on.
        """
        name, failed = "paretolab_answer_seconds", "paretolab_failed_records_total"
        lines = [
            f"# HELP {name} Of the last 1000 answers; sum and count are of all.",
            f"# TYPE {name} summary",
        ]
        for call, last in sorted(self._last.items()):
            for share in (0.5, 0.95):
                value = np.quantile(last, share, method="inverted_cdf")
                lines.append(f'{name}{{call="{call}",quantile="{share:g}"}} {value:.9f}')
            lines.append(f'{name}_sum{{call="{call}"}} {self._sums[call]:.9f}')
            lines.append(f'{name}_count{{call="{call}"}} {self._total[call]}')
        if failures:
            lines.append(f"# HELP {failed} That a part failed on; another was asked.")
            lines.append(f"# TYPE {failed} counter")
        for part, records in failures.items():  # JSON escapes the characters that Prometheus does
            lines.append(f"{failed}{{part={json.dumps(part, ensure_ascii=False)}}} {records}")
        return "\n".join(lines) + "\n"


class _Connection(H11Protocol):
    """A connection that a client can hold neither for long nor with much data.

    uvicorn waits for the rest of a request as long as bytes arrive, and for ever for a client to
    read its answer. Here both have a time limit. If there are too many connections, or too many
    bytes were received, the connection that has waited longest for the rest of a request is closed.
    """

    since, received = 0.0, 0  # when the request began, and its bytes so far
    timer: asyncio.TimerHandle | None = None
    refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio reads 256 KB: in chunks of one byte, these keep h11 busy for seconds
        transport.max_size = MOST_AT_ONCE  # type: ignore[attr-defined]
        self._begin()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        if self.conn.our_state is not h11.DONE:  # else it belongs to a body that was refused
            self.received += len(data)
        self._make_room()
        if not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        self._begin()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP request with an error in JSON, as for other mistakes."""
        self._say("400 Bad Request", "expected a request of HTTP/1.1, found something else")
        if not self.refused and not self.transport.is_closing():
            self.refused = True  # the rest is dropped: to close at once would reset the answer
            self.transport.write_eof()
            self.loop.call_later(1.0, self.transport.close)

    def _say(self, status: str, sentence: str) -> None:
        """Send an error, unless an answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"error": sentence})
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close"
            self.transport.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

    def _begin(self) -> None:
        """Start the time of a request; the service itself answers 408 some seconds earlier."""
        if self.timer is not None:
            self.timer.cancel()
        self.since, self.received = self.loop.time(), 0
        self.timer = self.loop.call_later(SECONDS + 5, self._cut)

    def _make_room(self) -> None:
        """Refuse the connection that has waited longest, if there are too many of them or bytes."""
        others = [other for other in self.connections if isinstance(other, _Connection)]
        received = sum(other.received for other in others)
        if len(others) > MOST_CONNECTIONS or received > MOST_RECEIVED:
            waiting = [other for other in others if other.waits()]
            longest = min(waiting, key=lambda other: other.since, default=self)
            most = f"{MOST_CONNECTIONS:,} connections and {MOST_RECEIVED:,} bytes in requests"
            longest._say("503 Service Unavailable", f"expected at most {most}; ask again later")
            longest._cut()

    def waits(self) -> bool:
        """Return whether the rest of a request has not arrived yet."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _cut(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


class _Threads:
    """A few threads that end with the process even while they compute, so that Ctrl-C works."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        for _ in range(THREADS):
            Thread(target=self._work, daemon=True).start()

    async def call(self, work: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._calls.put((future, work))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let each thread end after its present call."""
        for _ in range(THREADS):
            self._calls.put(None)

    def _work(self) -> None:
        while call := self._calls.get():
            future, work = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except Exception as error:
                    future.set_exception(error)
            del call, future, work  # frees the memory of the request before the next one


class Service(uvicorn.Server):
    """Serves one model: ``run`` until a signal, or until ``should_exit`` is set.

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

    def __init__(self, model: DeployableModel, host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self.socket = socket.create_server((host, port), family=family)
        except (OSError, OverflowError, UnicodeError) as error:
            raise InputError(
                f"--host {host} --port {port}: expected an address to listen at, found: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from error
        self._threads = _Threads()
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{self.socket.getsockname()[1]}"
        settings = uvicorn.Config(
            application(model, host, self._threads),
            http=_Connection,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # the terminal is the user's
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        super().__init__(settings)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes or ``should_exit`` is set."""
        try:
            with self.socket:
                super().run(sockets or [self.socket])
        finally:
            self._threads.close()


def application(model: DeployableModel, host: str, threads: _Threads) -> FastAPI:
    """Return the web application that serves a model at a host."""
    card, timings = model.card(), Timings()

    async def check(request: Request) -> None:
        name = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]")
        if is_loopback(host) and name != host and not is_loopback(name):
            # DNS rebinding: a web page has let its own host name point at this machine
            raise HTTPException(403, f"Host: expected this machine, found {name!r}", _CLOSE)
        if {"transfer-encoding", "content-length"} <= set(request.headers):
            sentence = "headers: expected Content-Length or Transfer-Encoding, found both"
            raise HTTPException(400, sentence, _CLOSE)

    app = FastAPI(
        title=card.title,
        version=version("paretolab"),
        openapi_url=None,  # a call like the others, below
        redirect_slashes=False,  # a redirect would lead to whatever host the request names
        dependencies=[Depends(check)],
        responses={"4XX": {"model": _Mistake}},
    )

    def calls() -> dict[str, str]:
        paths = app.openapi()["paths"]
        return {
            f"{method.upper()} {path}": call["description"]
            for path, methods in paths.items()
            for method, call in methods.items()
        }

    @app.exception_handler(RoutingError)
    async def refused(request: Request, error: RoutingError) -> Response:
        sentence = error.detail
        if error.status_code in (404, 405):
            listed = ", ".join(calls())
            sentence = f"expected one of {listed}; found {request.method} {request.url.path}"
        return JSONResponse({"error": sentence}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        say(f"paretolab: a request failed: {type(error).__name__}: {error}", sys.stderr)
        return JSONResponse({"error": "expected an answer; the service failed"}, 500)

    page = "; in a browser, a page to answer a record step by step" if model.has_steps else ""

    @app.get("/", response_model=dict[str, Any], description=f"What this service is{page}.")
    async def root(request: Request) -> Any:
        if model.has_steps and "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(_PAGE.read_text(encoding="utf-8"), headers=_PAGE_HEADERS)
        return {"model": card.title, "calls": calls()}

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether it answers."""
        return {"status": "ok", "model": card.title}

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """How long the last 1,000 answers took, and what parts of the model failed on."""
        return Response(timings.text(model.failures()), media_type="text/plain; version=0.0.4")

    @app.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        """These calls, as OpenAPI describes them."""
        return app.openapi()

    async def answer(request: Request, work: Callable[[DeployableModel, bytes], str]) -> str:
        def compute() -> tuple[str, float] | HTTPException:
            began = time.perf_counter()
            try:
                return work(model, body), time.perf_counter() - began
            except ParetolabError as error:
                sentence = str(error)
            except UnicodeEncodeError:
                sentence = "body: expected Unicode, found half a character (a lone surrogate)"
            except Exception as error:  # the model may be anyone's
                expected = "expected records that the model can answer"
                sentence = f"{expected}, found {type(error).__name__}: {error}"
            return HTTPException(400, sentence)  # not raised: a traceback would keep the records

        answered: tuple[str, float] | HTTPException
        try:
            async with asyncio.timeout(SECONDS):
                body = await _body(request)
                answered = await threads.call(compute)
        except TimeoutError as error:
            sentence = f"request: expected to be sent and answered in {SECONDS:g} s, found more"
            raise HTTPException(408, f"{sentence}; send fewer records", _CLOSE) from error
        except ClientDisconnect as error:  # nobody is there to be answered
            raise HTTPException(400) from error
        if isinstance(answered, HTTPException):
            raise answered
        timings.add(request.url.path, answered[1])
        return answered[0]

    table = {"text/csv": {"schema": {"type": "string"}}}
    records = {"application/json": {"schema": _Records.model_json_schema()}, **table}
    record = {"application/json": {"schema": {"type": "object"}}}

    @app.post(
        "/predict",
        response_model=_Answers,
        response_description=card.answers,
        responses={200: {"content": table}},
        openapi_extra={"requestBody": {"required": True, "content": records}},
    )
    async def predict(request: Request) -> Response:
        """Records as JSON, {'records': [{...}, ...]}, or as text/csv; answers alike.

        A record with a value that cannot be used has no answer, but an `error`; where none can be
        used, the request is refused.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/csv":
            return Response(await answer(request, _csv_answers), media_type=kind)
        return Response(await answer(request, _json_answers), media_type="application/json")

    @app.post(
        "/next",
        response_model=_Step,
        openapi_extra={"requestBody": {"required": True, "content": record}},
        include_in_schema=model.has_steps,
    )
    async def following(request: Request) -> Response:
        """One record as JSON, what is known of it; the answer, or what to acquire next."""
        return Response(await answer(request, _json_step), media_type="application/json")

    return app


async def _body(request: Request) -> bytes:
    body, length = bytearray(), int(request.headers.get("content-length", 0))
    if length <= MOST_BYTES:
        async for part in request.stream():
            body += part
            length = len(body)
            if length > MOST_BYTES:
                break
    if length > MOST_BYTES:
        raise HTTPException(413, f"body: expected at most {MOST_BYTES:,} bytes, found {length:,}")
    return bytes(body)


def _csv_answers(model: DeployableModel, body: bytes) -> str:
    lines = body.count(b"\n") + body.count(b"\r") - body.count(b"\r\n")  # any of these ends a line
    _check_records(lines - 1)
    text = csv_text(body, _BODY)
    check = partial(_check_names, model, records=lines)
    records = parse_csv(text, _BODY, model.file_options, check)
    return model.answers(records, strict=False).to_csv(index=False)


def _json_answers(model: DeployableModel, body: bytes) -> str:
    plain = _json(body)
    rows = plain.get("records") if isinstance(plain, dict) else plain
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not rows:
        raise InputError("body: expected {'records': [{...}, ...]}, one object a record")
    _check_records(len(rows))
    _check_names(model, list({name: None for row in rows for name in row}), len(rows))
    answers = model.answers(pd.DataFrame(rows), strict=False)
    return json.dumps({"answers": _plain(answers.to_dict(orient="records"))})


def _json_step(model: DeployableModel, body: bytes) -> str:
    record = _json(body)
    if not isinstance(record, dict):
        raise InputError("body: expected one record, an object of names and values")
    return json.dumps(_plain(model.next_features(record)))


def _check_records(number: int) -> None:
    if number > MOST_RECORDS:
        raise InputError(
            f"body: expected at most {MOST_RECORDS:,} records, found more; send them in parts"
        )


def _check_names(model: DeployableModel, names: list[str], records: int) -> None:
    """Check the names before a table is made, which has a value for each name in each record."""
    if len(names) > MOST_NAMES or len(names) * records > MOST_VALUES:
        raise InputError(
            f"body: expected at most {MOST_NAMES:,} names and {MOST_VALUES:,} values, found "
            f"{records:,} records of {len(names):,} names"
        )
    model.check_columns(spelled_as(getattr(model, "feature_names_in_", ()), names))


def _json(body: bytes) -> Any:
    numbers = count(1)

    def record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _check_records(next(numbers) - 1)  # while parsing; one object may contain all records
        return dict(pairs)

    try:
        with _READING:
            return json.loads(body, object_pairs_hook=record)
    except (ValueError, RecursionError) as error:
        raise InputError(f"body: expected JSON, found: {error}") from error


def _plain(value: Any) -> Any:
    """Return a value of plain Python types for JSON, with None for NaN and infinities."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
