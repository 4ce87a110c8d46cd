"""Notices that the Ray in use has died, before Ray ends this process along with it.

Ray ends a driver whose raylet or GCS is gone, some ten or sixty seconds later and without an
exception: no summary, no word to the user.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psutil

from framework.errors import ClusterError

_EVERY = 0.5  # seconds between looks
_SIGNAL = signal.SIGUSR1
_SERVERS = ("gcs_server", "raylet")
_TCP_SECONDS = 3.0
_CLUSTER_PATIENCE = 30.0  # seconds that a cluster may be away; Ray itself gives up after 60


@contextmanager
def guarded(dead: Callable[[], str]) -> Iterator[None]:
    """Raise in the main thread, whatever it waits for, once something has died.

    Parameters
    ----------
    dead : callable
        Returns what has died; an empty string while all is well. Called by a thread.

    Raises
    ------
    ClusterError
        Something has died. From another thread than the main one nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over, found = threading.Event(), ""

    def watch() -> None:
        nonlocal found
        while not over.wait(_EVERY):
            found = dead()
            if found:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
                return

    def failure() -> ClusterError:
        return ClusterError(
            f"{found}; what was told is kept, go on with `paretolab resume`, on another cluster or "
            "with --workers serial if it happens again"
        )

    def give_up(number: int, frame: FrameType | None) -> None:
        if not over.is_set():
            raise failure()

    before = signal.signal(_SIGNAL, give_up)
    thread = threading.Thread(target=watch, name="guard of Ray", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        if not found or isinstance(error, ClusterError):
            raise
        raise failure() from error  # what Ray's code made of it, or raised by itself
    finally:
        over.set()
        thread.join()
        signal.signal(_SIGNAL, before)


def heeding_signals(call: Callable[[], Any]) -> Any:
    """Return what a call into Ray returns, from a thread: some hang where a server is gone.

    The thread that waits hears signals, so that :func:`guarded` can end its wait.
    """
    done = threading.Event()
    answers: list[Any] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="question to Ray", daemon=True).start()
    done.wait()
    if errors:
        raise errors[0]
    return answers[0]


def own_servers() -> Callable[[], str]:
    """Return what tells whether the servers of Ray that this process has started live."""
    servers = [p for p in psutil.Process().children(recursive=True) if p.name() in _SERVERS]

    def dead() -> str:
        for server in servers:
            if not _lives(server):
                return (
                    f"Ray's process {server.pid} has died (out of memory? killed?), and with it "
                    "the workers"
                )
        return ""

    return dead


def cluster_at(address: str) -> Callable[[], str]:
    """Return what tells whether a cluster that others started still answers at ``host:port``."""
    host, _, port = address.rpartition(":")
    since = time.monotonic()

    def dead() -> str:
        nonlocal since
        try:
            place = (host.strip("[]"), int(port))
            socket.create_connection(place, timeout=_TCP_SECONDS).close()
        except OSError as error:
            away = time.monotonic() - since
            if away > _CLUSTER_PATIENCE:
                return f"the Ray cluster at {address} is gone ({error})"
            return ""
        since = time.monotonic()
        return ""

    return dead


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
