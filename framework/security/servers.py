"""Limits for MLflow's client: the file stores it opens, the passwords it reads, its waiting time.

MLflow and requests have no options for these three, so functions of theirs are replaced: the one
by which MLflow opens a store of files, the one that reads its file of passwords, and the one by
which requests reads an answer. :func:`guard_mlflow` does it once in a process.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from framework.security.policy import NO_CREDENTIALS

_MOST_ANSWER = 3 * 10**7  # bytes in an answer, unpacked
_LONGEST_ANSWER = 600.0  # seconds until an answer has arrived
_PACKINGS = ("identity", "gzip", "x-gzip", "deflate", "")


def guard_mlflow(check: Callable[[str, str], None], server: str | None = None) -> None:
    """Limit what MLflow does in this process.

    Parameters
    ----------
    check : callable
        Takes the address of a store of files and that of the tracking server that named it; raises
        an :class:`~framework.errors.InputError` if nothing may be sent there.
    server : str, optional
        In a process that serves a store, its address: then all stores of files are checked.
    """
    _guard_artifacts(check, server)
    _guard_credentials()
    _guard_answers()


def _guard_artifacts(check: Callable[[str, str], None], server: str | None) -> None:
    """Make MLflow call ``check`` before it opens a store of files that a server named."""
    from mlflow.store.artifact import artifact_repository_registry as places

    registry = places._artifact_repository_registry
    if getattr(registry, "asks_first", False):
        return
    open_place = registry.get_artifact_repository

    def open_checked(
        artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None
    ) -> Any:
        asked = tracking_uri or server
        if asked is not None:  # a server named the store; otherwise the user did
            check(artifact_uri, asked)
        return open_place(artifact_uri, tracking_uri, registry_uri)

    registry.get_artifact_repository = open_checked
    registry.asks_first = True


def _guard_credentials() -> None:
    """Make MLflow read its file of passwords only for servers that the user named."""
    from mlflow.utils import credentials

    read = credentials._read_mlflow_creds_from_file
    if getattr(read, "asks_first", False):
        return

    def read_if_allowed() -> tuple[str | None, str | None]:
        return (None, None) if NO_CREDENTIALS in os.environ else read()

    read_if_allowed.asks_first = True  # type: ignore[attr-defined]
    credentials._read_mlflow_creds_from_file = read_if_allowed


def _guard_answers() -> None:
    """Limit the size of a server's answer and the time it takes.

    A timeout of each read is not enough: a server that sends a byte now and then never exceeds it.
    So the connection is shut when the time for the whole answer is over.
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
        if packing not in _PACKINGS:  # by other methods, a few bytes may fill all memory
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
    """Shut a connection that another thread waits for, below its TLS layer if it has one."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
