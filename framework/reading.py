"""Read files that a stranger may have made: regular files only, without waiting, up to a limit.

A name may lead to a device that never ends, a pipe that nobody writes to, or a file that grows
while it is read. So a file is opened without blocking; the open file is checked, not its name,
which may lead elsewhere by then; and no more bytes are read than allowed, whatever the size says.
In a folder that was checked to have no links, none is followed, so that nobody can add one later.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader, FileIO
from pathlib import Path

from framework.errors import InputError

_CHUNK = 2**20
_DEEPEST = 100  # folders in each other
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_WITHOUT_LINKS: set[Path] = set()  # absolute paths of the folders that were checked
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class TooManyBytes(ValueError):
    """A file has more bytes than ``allowed``; ``found`` says how many."""

    def __init__(self, allowed: int, size: int) -> None:
        super().__init__(f"more than {allowed:,} bytes")
        self.allowed, self.found = allowed, f"{size:,}" if size > allowed else "more"


class NoRegularFile(OSError):
    """There is a pipe, a device or a directory where a file was expected."""

    def __init__(self, path: Path, kind: str) -> None:
        self.filename, self.strerror = str(path), f"{kind} in the place of a file"

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, without waiting for anything.

    Raises
    ------
    OSError
        It does not exist, may not be read, or is no regular file (:class:`NoRegularFile`).
    """
    return os.fdopen(_regular(path, os.O_RDONLY), "rb")


def is_link(path: Path) -> bool:
    """Return whether a path is a link or a hard link, so that writing may change another file."""
    try:
        status = path.lstat()  # looked at once: a journal of SQLite comes and goes
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    linked = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return stat.S_ISLNK(status.st_mode) or linked


def open_to_append(path: Path) -> FileIO:
    """Open a regular file for reading and writing, unbuffered; create it if it is missing.

    Raises
    ------
    OSError
        As in :func:`open_regular`.
    InputError
        It is a link or a hard link, so that writing would change another file.
    """
    if is_link(path):
        raise InputError(
            f"{path}: expected a file of the folder, found a link; put a copy in its place"
        )
    return FileIO(_regular(path, os.O_RDWR | os.O_CREAT | _NO_LINK), "r+b")


def _regular(path: Path, wanted: int) -> int:
    """Open a regular file without waiting for anything; return its descriptor."""
    for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
        wanted |= getattr(os, flag, 0)
    descriptor = _descriptor(path, wanted)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise NoRegularFile(path, _KINDS.get(kind, "something else"))
    return descriptor


def _descriptor(path: Path, wanted: int) -> int:
    """Open a path; in a folder that was checked for links, open each folder on the way in turn."""
    whole = Path(os.path.abspath(path))
    root = next((place for place in reversed(whole.parents) if place in _WITHOUT_LINKS), None)
    if root is None or os.open not in os.supports_dir_fd:
        return os.open(path, wanted, 0o666)
    *folders, name = whole.relative_to(root).parts
    place = os.open(root, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER | _NO_LINK, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(name, wanted | _NO_LINK, 0o666, dir_fd=place)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise NoRegularFile(path, "a link") from error
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(place)


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises
    ------
    TooManyBytes
    OSError
    """
    return b"".join(_pieces(path, most))


def read_text(path: Path, most: int) -> str:
    """Return the UTF-8 text of a file like :func:`read_bytes`; may raise UnicodeDecodeError."""
    return read_bytes(path, most).decode("utf-8")


def digest_of(path: Path, most: int) -> str:
    """Return the SHA-256 of a file, read in pieces; arguments and errors as :func:`read_bytes`."""
    digest = hashlib.sha256()
    for piece in _pieces(path, most):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(path: Path, most: int) -> Iterator[bytes]:
    """Yield the content of a regular file in pieces; raise where it is more than ``most`` bytes."""
    left = most + 1
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise TooManyBytes(most, size)
        if _looks_endless(file, path):
            raise NoRegularFile(path, "something that the system makes up")
        while left and (piece := file.read(min(_CHUNK, left))):
            left -= len(piece)
            yield piece
    if not left:
        raise TooManyBytes(most, size)


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a path in a folder that comes from others if it leads out of it, by a link.

    Raises
    ------
    InputError
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{path}: expected a file of the folder, found a link to {path.resolve()}; put a copy "
            "in its place"
        )


def check_no_links(folder: Path, what: str, *, written: bool = False) -> None:
    """Refuse links and pipes within a folder that comes from others, while we read in it.

    Reading through a link could show a private file of the user, or send it to a tracking server;
    writing through a link would overwrite such a file.

    Parameters
    ----------
    folder : pathlib.Path
        The folder, which may itself be a link, since the user named it.
    what : str
        What messages call the folder, such as ``a run``.
    written : bool
        Whether files in the folder will be written; then hard links are refused, too.

    Raises
    ------
    InputError
    """
    for entry in entries_of(folder):
        if entry.is_symlink():
            raise InputError(
                f"{entry.path}: expected the files of {what}, found a link to {_target(entry)}; "
                "put what it leads to in its place, or remove the link"
            )
        if Path(entry).is_fifo():  # reading it would wait for ever
            raise InputError(f"{entry.path}: expected a file of {what}, found a pipe")
        if written and not entry.is_dir() and _names_of(entry) > 1:
            raise InputError(
                f"{entry.path}: expected a file of {what} alone, found a hard link, which is a "
                "file elsewhere, too; copy the folder with cp -r, and take the copy"
            )
    _WITHOUT_LINKS.add(Path(os.path.abspath(folder)))


def entries_of(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder and in those below it, without following links.

    Raises
    ------
    InputError
        Folders are nested deeper than Python's own ways to go through them can.
    """
    waiting = [(str(folder), 0)]
    while waiting:
        place, depth = waiting.pop()
        if depth > _DEEPEST:
            raise InputError(
                f"{folder}: expected at most {_DEEPEST} folders in each other, found more in "
                f"{place[: len(str(folder)) + 40]}...; remove it"
            )
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, depth + 1))


def _target(entry: os.DirEntry[str]) -> str:
    """Return where a link leads."""
    with suppress(OSError):  # it may have been replaced since
        return os.readlink(entry.path)
    return "a file elsewhere"


def _names_of(entry: os.DirEntry[str]) -> int:
    """Return how many names (hard links) a file has; 0 if it is gone by now."""
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_nlink
    return 0


def _looks_endless(file: BufferedReader, path: Path) -> bool:
    """Return whether a file of size 0 is one of the system's, which may wait or never end."""
    if os.fstat(file.fileno()).st_size:
        return False
    place = Path(os.path.realpath(path))
    return any(place.is_relative_to(root) for root in ("/proc", "/sys", "/dev"))
