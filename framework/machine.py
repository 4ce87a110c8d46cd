"""This machine: its cache folder, memory and cores, and the failures that are its own fault."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS, ESTALE
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from framework.errors import ClusterError, EnvironmentFailure, JournalError
from framework.extras import missing

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_PARTS = 4  # for each thread, so that no thread waits long for the last one
_ERRNOS = frozenset({EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS, ESTALE})
_SQLITE_ERRORS = frozenset(  # a full disk shows as any of these
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment in which Python imports nothing from the working folder, which may be untrusted."""


def cache_dir() -> Path | None:
    """Return the folder in which expensive results are kept between runs.

    It is ``PARETOLAB_CACHE``, by default a folder in the user's cache; None if
    ``PARETOLAB_CACHE`` is ``off``, or the user has no home.
    """
    folder = os.environ.get("PARETOLAB_CACHE")
    if folder == "off":
        return None
    if folder:
        return Path(folder)
    root = user_folder("XDG_CACHE_HOME", ".cache")
    return root and root / "paretolab"


def user_folder(variable: str, name: str) -> Path | None:
    """Return the folder that a variable names, by default one in the home; None without a home."""
    folder = os.environ.get(variable) or f"~/{name}"
    root = folder if os.environ.get("HOME") == "" else os.path.expanduser(folder)
    return None if root.startswith("~") else Path(root)


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child process: ours, with ``SAFE_PATH`` and some variables."""
    return os.environ | SAFE_PATH | variables


@contextmanager
def environment_restored(names: Iterable[str]) -> Iterator[None]:
    """Restore these variables of the environment at the end of the block."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def resident_memory() -> tuple[int, int]:
    """Return the bytes of this process in memory now, and their peak so far (0 if unknown)."""
    import psutil

    memory = psutil.Process().memory_info()
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024
    except (OSError, StopIteration):
        peak = getattr(memory, "peak_wset", 0)  # on Windows
    return int(memory.rss), int(peak)


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that this process is in."""
    import psutil  # not at the top, to keep the help of the command quick

    limits = [psutil.virtual_memory().total]
    for name in _MEMORY_LIMITS:
        path = Path(name)
        text = path.read_text().strip() if path.is_file() else ""
        limits += [int(text)] if text.isdigit() else []
    return min(limits)


def thread_count() -> int:
    """Return how many threads this process may use.

    It is ``OMP_NUM_THREADS``, as for the libraries that Python calls: Ray sets it to the cores of a
    worker. Without it, it is the number of cores that this process may use.
    """
    text = os.environ.get("OMP_NUM_THREADS", "")
    if text.isdecimal() and int(text) > 0:
        return int(text)
    from joblib import cpu_count

    return int(cpu_count())


def in_threads(work: Callable[[slice], T], n: int) -> list[T]:
    """Return what ``work`` returns for consecutive parts of ``n`` items, in order, from threads.

    Parameters
    ----------
    work : callable
        Calls a kernel on the items of a slice. What it returns for an item, or writes, depends on
        this item alone, since parts are of any length.
    n : int
        Number of items.
    """
    threads = thread_count()
    if min(threads, n) < 2:
        return [work(slice(0, n))]
    size = -(-n // (_PARTS * threads))
    parts = [slice(start, start + size) for start in range(0, n, size)]
    return list(_pool(os.getpid(), threads).map(work, parts))


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of a process, kept, as starting them takes as long as a dozen fits.

    A forked child has none of its parent's threads, so each process has its own.
    """
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads)


def is_machine_failure(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is the machine's fault: full disk, missing library.

    Such a failure says nothing about the work and is never a result: the same work succeeds on
    another machine, or on this one once it is repaired. A lack of memory is not counted as such,
    since work that needs too much memory fails everywhere.
    """
    if error is None:
        return False
    if isinstance(error, EnvironmentFailure | ImportError):
        return True
    if isinstance(error, JournalError) and isinstance(error.__cause__, OSError):
        return True
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_ERRORS
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return True
    return is_machine_failure(error.__cause__)


def no_result(error: BaseException) -> bool:
    """Return whether an error says nothing about the work, which therefore must be done again."""
    return isinstance(error, ClusterError) or is_machine_failure(error)


def reason_of(error: BaseException) -> str:
    """Return the class of an exception and the first line of its message, up to 300 characters."""
    if isinstance(error, EnvironmentFailure):
        return error.reason
    if isinstance(error, ImportError) and (sentence := missing(error)):
        return str(sentence)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:300] if lines else type(error).__name__
