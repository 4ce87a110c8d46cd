"""MLflow's client bounded: which places it opens, which passwords it reads, how long it waits.

MLflow and requests have no options for these three, so functions of theirs are replaced: the one
by which MLflow opens a place for files, the one that reads its file of passwords, and the reading
of an answer by requests. :func:`guard_mlflow` does it once in a process.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from framework.security.policy import NO_CREDENTIALS

_MOST_ANSWER = 3 * 10**7  # bytes of a server's, unpacked
_LONGEST_ANSWER = 600.0  # seconds
_PACKINGS = ("identity", "gzip", "x-gzip", "deflate", "")


def guard_mlflow(check: Callable[[str, str], None]) -> None:
    """Bound what MLflow does in this process.

    Parameters
    ----------
    check : callable
        Is given the address of a place for files and that of the store that named it; it raises an
        :class:`~framework.errors.InputError` where nothing may be sent there.
    """
    _guard_artifacts(check)
    _guard_credentials()
    _guard_answers()


def _guard_artifacts(check: Callable[[str, str], None]) -> None:
    """Have MLflow ask ``check`` before it opens any place for files."""
    from mlflow.store.artifact import artifact_repository_registry as places

    registry = places._artifact_repository_registry
    if getattr(registry, "asks_first", False):
        return
    open_place = registry.get_artifact_repository

    def asked(
        artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None
    ) -> Any:
        if tracking_uri is not None:  # what a client of a store was answered; else the user's own
            check(artifact_uri, tracking_uri)
        return open_place(artifact_uri, tracking_uri, registry_uri)

    registry.get_artifact_repository = asked
    registry.asks_first = True


def _guard_credentials() -> None:
    """Have MLflow leave its file of passwords to servers that the user named."""
    from mlflow.utils import credentials

    read = credentials._read_mlflow_creds_from_file
    if getattr(read, "asks_first", False):
        return

    def asked() -> tuple[str | None, str | None]:
        return (None, None) if NO_CREDENTIALS in os.environ else read()

    asked.asks_first = True  # type: ignore[attr-defined]
    credentials._read_mlflow_creds_from_file = asked


def _guard_answers() -> None:
    """Have answers of servers read no further than a machine holds, nor longer than one waits.

    A server that sends a byte now and then keeps every read waiting for the next: so the connection
    is shut when its time is over, whatever is waited for.
    """
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection

    send, receive = HTTPAdapter.send, HTTPConnection.getresponse
    if getattr(send, "bounded", False):
        return

    def in_time(self: Any) -> Any:
        clock = threading.Timer(_LONGEST_ANSWER, _hang_up, [self.sock])
        clock.daemon = True
        clock.start()
        try:
            answer: Any = receive(self)
        except BaseException:
            clock.cancel()
            raise
        answer.clock = clock
        return answer

    def bounded(self: Any, *arguments: Any, **options: Any) -> Any:
        answer = send(self, *arguments, **options)
        packing = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if packing not in _PACKINGS:  # of others, a few bytes may unpack to all memory
            answer.close()
            raise OSError(f"an answer packed as {packing[:40]!r}")
        stream = answer.raw.stream

        def counted(*how: Any, **more: Any) -> Iterator[bytes]:
            count = 0
            try:
                for part in stream(*how, **more):
                    count += len(part)
                    if count > _MOST_ANSWER:
                        answer.close()
                        raise OSError(f"an answer of more than {_MOST_ANSWER:,} bytes")
                    yield part
            finally:
                answer.raw.clock.cancel()

        answer.raw.stream = counted
        return answer

    bounded.bounded = True  # type: ignore[attr-defined]
    HTTPConnection.getresponse = in_time  # type: ignore[method-assign]
    HTTPAdapter.send = bounded  # type: ignore[method-assign]


def _hang_up(connection: socket.socket) -> None:
    """End a connection that another thread waits for; one of TLS below its own layer."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
