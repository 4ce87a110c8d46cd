"""Files that are written whole or not at all, and locks that end with their process."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from filelock import FileLock, Timeout

from framework.errors import InputError
from framework.reading import is_link, open_regular

_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")  # end of a journal that names another file
_OF_MLFLOW = "CREATE TRIGGER prevent_secrets_aad_mutation BEFORE UPDATE ON secrets "  # not ours
_CALLS = {"Function", "PureFunc", "Concat"}  # steps of SQLite whose result may be of any size
_PATIENCE = 60.0  # seconds to wait for a database that is busy
_PART = ".paretolab-"  # prefix of the name of what is not complete yet
_LEFT_BEHIND = 3600.0  # age in seconds from which such a thing, unlocked, is a dead process's


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: after a crash it is whole, or as it was before.

    Parameters
    ----------
    path : pathlib.Path
    content : str or bytes
        Text is written as UTF-8.

    Raises
    ------
    OSError
        The file, which the error names, cannot be written.
    """
    part = path.with_name(f"{_PART}{uuid.uuid4().hex}")  # others may write the file meanwhile
    with _named(path):
        try:
            with open(part, "xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())  # else the disk may have the new name before the content
            os.replace(part, path)
        except BaseException:  # also Ctrl-C
            with suppress(OSError):
                part.unlink()
            raise


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Have an error of what is not complete yet name the path that it is to have at the end."""
    try:
        yield
    except OSError as error:
        if _PART in str(error.filename or _PART):  # the system names no file where it is full
            error.filename = str(path)
            del error.filename2  # None would be told as a second name
        raise


def check_database(path: Path) -> None:
    """Refuse a database that would have SQLite change other files when it is opened for writing.

    A folder from others may have links, or hard links, in the place of the database or of the files
    that SQLite writes beside it. Also, a rollback journal may end with the name of another file,
    which SQLite then removes, and SQLite merges the content of a write-ahead log into the database;
    paretolab writes neither such journals nor such logs. Last, a database may bring SQL of its own,
    which SQLite runs whenever a table is read or written: it need not end, and Ctrl-C waits for it.

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
        with suppress(FileNotFoundError):  # a journal is gone after each commit
            if not S_ISREG(file.stat().st_mode):  # SQLite would wait for a pipe for ever
                raise InputError(
                    f"{file}: expected a file, found a pipe, a device or a folder; remove it"
                )
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        raise InputError(
            f"{log}: expected no write-ahead log, found one, which SQLite would take into "
            f"{path.name}; remove it if the folder is from someone else, else let SQLite "
            f"finish it, as by `sqlite3 {path.name} 'PRAGMA journal_mode=DELETE'`"
        )
    journal = path.with_name(f"{path.name}-journal")
    if journal.is_file() and _end_of(journal, len(_NAMES_ANOTHER)) == _NAMES_ANOTHER:
        raise InputError(
            f"{journal}: expected a journal of {path.name} alone, found one that has SQLite remove "
            "another file; remove the journal if the folder is from someone else"
        )
    if path.is_file():
        try:
            brought = _own_sql(path)
        except (sqlite3.Error, UnicodeError) as error:
            raise InputError(
                f"{path}: expected a SQLite database that can be used, found: {error}"
            ) from error
        if brought:
            raise InputError(
                f"{path}: expected tables without SQL that runs by itself, found {brought}; take a "
                "new file, or drop it if it is yours"
            )


def _own_sql(path: Path) -> str | None:
    """Return what is in a database that has SQLite run more than it is asked, None for nothing."""
    uri = f"{path.absolute().as_uri()}?mode=rw"  # a journal is rolled back first, as it will be
    with closing(sqlite3.connect(uri, timeout=_PATIENCE, uri=True)) as database:
        entries = "SELECT type, name, sql FROM sqlite_master ORDER BY type DESC"  # tables later
        for kind, name, sql in database.execute(entries).fetchall():
            text = " ".join(str(sql).split())
            if kind == "view" or (kind == "trigger" and not text.startswith(_OF_MLFLOW)):
                return f"the {kind} {name!r}"
            if kind != "table" or name.startswith("sqlite_"):
                continue
            if text.upper().startswith("CREATE VIRTUAL"):
                return f"the virtual table {name!r}"
            quoted = '"' + name.replace('"', '""') + '"'
            for asked in (f"SELECT * FROM {quoted}", f"INSERT INTO {quoted} DEFAULT VALUES"):
                steps = {row[1] for row in database.execute(f"EXPLAIN {asked}")}
                if steps & _CALLS:  # of a generated column, default, check or index
                    return f"an expression that calls functions or joins texts in {name!r}"
    return None


def _end_of(path: Path, count: int) -> bytes:
    """Return the last bytes of a file; none if it is gone, as a journal is after each commit."""
    with suppress(FileNotFoundError), open_regular(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read(count)
    return b""


LOCK = ".lock"
"""Name of the lock file of a directory."""


@contextmanager
def whole_folder(target: Path, near: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder to be filled, which is moved to ``target`` if the block succeeds.

    Parameters
    ----------
    target : pathlib.Path
        The place of the folder; a folder that is already there is replaced.
    near : pathlib.Path, optional
        The parent of the temporary folder, on the same disk; that of ``target`` if None.

    Raises
    ------
    OSError
        The folder cannot be filled, or moved to its place; ``target`` is then as it was.
    """
    with _named(target), room_in(target.parent if near is None else near) as room:
        fresh, old = room / "fresh", room / "old"
        fresh.mkdir()
        yield fresh
        with suppress(FileNotFoundError):
            target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.rename(target)
            raise


@contextmanager
def room_in(near: Path, prefix: str = _PART, mode: int = 0o777) -> Iterator[Path]:
    """Yield a new folder with its lock held; if it is still there at the end, remove it.

    Filled and then renamed, it is there whole or not at all after a crash; the lock stays held.
    ``mode`` is as in ``mkdir``. What killed processes left behind is removed, too.
    """
    near.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(near, prefix)
    room = near / f"{prefix}{uuid.uuid4().hex[:8]}"  # sockets of a cluster need a short path
    room.mkdir(mode)
    try:
        with locked(room / LOCK):
            yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def remove_directory(path: Path) -> None:
    """Remove a directory atomically: after a crash it is there whole or not at all."""
    with suppress(OSError):
        gone = path.with_name(f"{_PART}{uuid.uuid4().hex}")
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _remove_left_behind(folder: Path, prefix: str) -> None:
    for part in folder.glob(f"{prefix}*"):
        with suppress(OSError):  # another process may be removing it, too
            status = part.lstat()
            if part.is_symlink() or status.st_uid != os.getuid():
                continue  # a link may lead to any folder, as may what another user has made
            if time.time() - status.st_mtime < _LEFT_BEHIND:
                continue
            if part.is_file():
                part.unlink()
                continue
            with suppress(Timeout), FileLock(part / LOCK, blocking=False):
                shutil.rmtree(part)


@contextmanager
def locked(path: Path, busy: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock file, which the system releases when the process ends, even if it is killed.

    It is a lock of ``flock`` (through filelock, which also supports Windows). Locks of ``fcntl``
    would be lost as soon as any part of the process closes the file, and do not exclude its other
    threads. Linux sends ``flock`` to the server of an NFS folder, so that it also excludes other
    machines. On a file system without it (Lustre without ``-o flock``) filelock writes the number
    of the process into the lock file instead, which can only be taken over on the same machine.

    Parameters
    ----------
    path : pathlib.Path
        The lock file, which is never removed.
    busy : callable, optional
        Called if another process holds the lock. Unless it raises, we wait for the lock.

    Raises
    ------
    OSError
        The file cannot be created.
    InputError
        There is a link or a folder in the place of the file.
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
