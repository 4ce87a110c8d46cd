"""Files that are whole or not there, and locks that end with the process that holds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from framework.errors import InputError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or as it was before, whatever happens meanwhile.

    Parameters
    ----------
    path : pathlib.Path
    content : str or bytes
        Text is written as UTF-8.

    Raises
    ------
    OSError
        It cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        if part.is_symlink():  # whoever sent the folder may have laid it to another file
            part.unlink()
        with open(part, "wb", opener=_opener) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # else the new name may come to the disk before the content
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def check_database(path: Path) -> None:
    """Refuse links in the place of a SQLite file and of those that SQLite writes beside it.

    Whoever sent a folder may have laid them to other files, which would be overwritten.

    Raises
    ------
    InputError
    """
    for suffix in ("", "-journal", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        if file.is_symlink():
            raise InputError(
                f"{file}: expected a file of the folder, found a link to {file.readlink()}; put "
                "the file in its place, or remove the link"
            )


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
