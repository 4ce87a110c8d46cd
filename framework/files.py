"""Files that are whole or not there, and locks that end with the process that holds them."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from framework.errors import InputError
from framework.reading import is_link, open_regular

_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")  # how a journal ends that names another file


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
        part.unlink(missing_ok=True)  # whoever sent the folder may have laid it to another file
        with open(part, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # else the new name may come to the disk before the content
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def check_database(path: Path) -> None:
    """Refuse what has SQLite change other files than the one that is to be opened for writing.

    Whoever sent a folder may have laid links, or hard links, in its place and in that of the files
    that SQLite writes beside it. And a rollback journal may end with the name of another file, of
    several databases that are changed at once: SQLite removes that file. Nobody here does so.

    Raises
    ------
    InputError
    """
    for suffix in ("", "-journal", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        if is_link(file):
            raise InputError(
                f"{file}: expected a file of the folder, found a link; put a copy in its place"
            )
    journal = path.with_name(f"{path.name}-journal")
    if journal.is_file() and _end_of(journal, len(_NAMES_ANOTHER)) == _NAMES_ANOTHER:
        raise InputError(
            f"{journal}: expected a journal of {path.name} alone, found one that has SQLite remove "
            "another file; remove the journal if the folder is from someone else"
        )


def _end_of(path: Path, count: int) -> bytes:
    """Return the last bytes of a file."""
    with open_regular(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read(count)


LOCK = ".lock"
"""Name of the lock file of a directory."""

_PART = ".paretolab-"  # what the name of a directory begins with that is not whole yet
_LEFT_BEHIND = 60.0  # seconds after which such a directory is that of a process that was killed


@contextmanager
def new_directory(
    files: Mapping[str, str], near: Path, place: Callable[[Path], Path]
) -> Iterator[Path]:
    """Make a directory so that it is there whole or not at all, whatever happens meanwhile.

    It is made under another name beside its place, with its files and with its lock held, and
    then renamed. The lock is held until the end of the block: no other process can take it
    between. What was left beside by processes that were killed before the renaming is removed.

    Parameters
    ----------
    files : mapping of str to str
        By name, what the directory has from its first moment on.
    near : pathlib.Path
        The folder of the place; it is made where it is missing.
    place : callable
        Takes the path of the whole directory, renames it to its place, and returns that.

    Yields
    ------
    pathlib.Path
        Its place.

    Raises
    ------
    OSError
        It cannot be made, or ``place`` finds another one there.
    """
    with room_in(near) as part:
        for name, content in files.items():
            write_whole(part / name, content)
        yield place(part)


@contextmanager
def whole_folder(target: Path, near: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder to be filled, which takes its place where the block ends well.

    Whatever happens meanwhile, its place is as it was, or has the whole folder.

    Parameters
    ----------
    target : pathlib.Path
        Its place; a folder that is there is replaced.
    near : pathlib.Path, optional
        Where it is filled, on the same disk; beside its place if None.

    Raises
    ------
    OSError
        It cannot be made, or moved to its place.
    """
    with room_in(target.parent if near is None else near) as room:
        fresh, old = room / "fresh", room / "old"
        fresh.mkdir()
        yield fresh
        with suppress(FileNotFoundError):
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


@contextmanager
def room_in(near: Path) -> Iterator[Path]:
    """Yield a new folder, with its lock held; it is removed where it is still there at the end.

    So is what was left behind by processes that were killed.
    """
    near.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(near)
    room = near / f"{_PART}{uuid.uuid4().hex}"
    room.mkdir()
    try:
        with locked(room / LOCK):
            yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def remove_directory(path: Path) -> None:
    """Remove a directory so that it is there whole or not at all, whatever happens meanwhile."""
    with suppress(OSError):
        gone = path.with_name(f"{_PART}{uuid.uuid4().hex}")
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _remove_left_behind(folder: Path) -> None:
    for part in folder.glob(f"{_PART}*"):
        with suppress(OSError):  # another process may remove it, too
            if time.time() - part.stat().st_mtime < _LEFT_BEHIND:
                continue
            with suppress(Timeout), FileLock(part / LOCK, blocking=False):
                shutil.rmtree(part)


@contextmanager
def locked(path: Path, busy: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock file. The system lets go of it when the process ends, however it does.

    It is a lock of ``flock`` (through filelock, which also knows Windows). The locks of ``fcntl``
    would be lost as soon as any part of the process closes the file, and do not count between its
    threads. Linux sends ``flock`` to the server of an NFS folder, so that it counts between
    machines as well. A file system that has neither (Lustre without ``-o flock``) gets a lock file
    with the number of the process instead, which is taken over on the same machine alone.

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
    InputError
        A link or a folder is in its place.
    """
    if path.is_dir() or is_link(path):
        raise InputError(
            f"{path}: expected a file that is a lock, found a link or a folder; remove it"
        )
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
