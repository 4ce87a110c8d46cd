"""Files that are whole or not there, and locks that end with the process that holds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or as it was before, whatever happens meanwhile.

    Parameters
    ----------
    path : pathlib.Path
    content : str or bytes
        Text is written as UTF-8.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # else the new name may come to the disk before the content
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: Path, busy: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock file. The system lets go of it when the process ends, however it does.

    Parameters
    ----------
    path : pathlib.Path
        Of the lock; the file stays.
    busy : callable, optional
        Called where another process holds the lock. Unless it raises, the lock is waited for.

    Raises
    ------
    OSError
        The file cannot be made.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        busy()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
