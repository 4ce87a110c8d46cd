"""Framed files: append-only, bounded when read, and whole up to the last complete frame.

A framed file begins with ``paretolab-frames`` and a frame that says what the file is, its title.
Then come frames, each with a head of twelve bytes before its content::

    length     uint32, little-endian: bytes of the content
    checksum   uint32: CRC-32 of the content
    checksum   uint32: CRC-32 of the eight bytes before

The checksums of all frames after the title continue the CRC-32 of the title, so that a frame of
another file is not valid here. A frame that is cut short at the end of the file is being written,
or was when a process died: it is not read.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from framework.files import locked, write_whole
from framework.reading import open_regular, open_to_append

_MAGIC = b"paretolab-frames"
_HEAD = struct.Struct("<III")
_KEY = struct.Struct("<I")
_MOST_CONTENT = 2**31 - 1  # bytes of a frame
_MOST_TITLE = 10**8  # bytes
_WASTE = 2**20  # bytes of outdated values that a file may always have


class DamagedFrame(ValueError):
    """The bytes of a frame do not match its checksums."""


class Frame(NamedTuple):
    """Where the content of a frame begins and stops in the file, and its checksum."""

    start: int
    stop: int
    checksum: int

    @property
    def length(self) -> int:
        """Bytes of the content."""
        return self.stop - self.start


class Framing:
    """How the frames of a file with some title are written and read.

    Attributes
    ----------
    beginning : bytes
        The first bytes of the file, up to the end of the title.
    """

    def __init__(self, title: bytes) -> None:
        self._seed = 0
        self.beginning = _MAGIC + self.framed(title)
        self._seed = zlib.crc32(title)

    def framed(self, *parts: bytes) -> bytes:
        """Return a frame with the joined parts as its content.

        Raises
        ------
        ValueError
            The content is too large for a frame.
        """
        content = b"".join(parts)
        if len(content) > _MOST_CONTENT:
            raise ValueError(f"expected at most {_MOST_CONTENT:,} bytes, found {len(content):,}")
        head = struct.pack("<II", len(content), zlib.crc32(content, self._seed))
        return head + _KEY.pack(zlib.crc32(head, self._seed)) + content

    def frames(self, file: BinaryIO, start: int | None = None) -> Iterator[Frame]:
        """Yield the complete frames from byte ``start`` on (by default all after the title).

        Contents are not read: the file is positioned at the content of the frame just yielded.
        Frames that are appended meanwhile are left to the next call.

        Raises
        ------
        DamagedFrame
            The head of a frame is damaged.
        """
        size = os.fstat(file.fileno()).st_size
        stop = len(self.beginning) if start is None else start
        while stop + _HEAD.size <= size:
            file.seek(stop)
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            length, checksum, head_checksum = _HEAD.unpack(head)
            if head_checksum != zlib.crc32(head[:8], self._seed) or length > _MOST_CONTENT:
                raise DamagedFrame(f"byte {stop}")
            place = stop + _HEAD.size
            stop = place + length
            if stop > size:
                return
            yield Frame(place, stop, checksum)

    def content(self, file: BinaryIO, frame: Frame) -> bytes:
        """Return the content of a frame; raise DamagedFrame if it is damaged."""
        file.seek(frame.start)
        content = file.read(frame.length)
        if len(content) != frame.length or zlib.crc32(content, self._seed) != frame.checksum:
            raise DamagedFrame(f"byte {frame.start}")
        return content


def title_of(file: BinaryIO) -> bytes | None:
    """Return the title of a framed file; None if it is no framed file or the title is incomplete.

    Raises
    ------
    DamagedFrame
        The title is damaged.
    """
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        return None
    untitled = Framing(b"")
    frame = next(untitled.frames(file, len(_MAGIC)), None)
    if frame is None or frame.length > _MOST_TITLE:
        return None
    return untitled.content(file, frame)


def append(file: BinaryIO, end: int, content: bytes) -> int:
    """Write at ``end``, the end of the last complete frame, all or nothing; return the new end.

    Raises
    ------
    OSError
        It cannot be written; the file ends at ``end``.
    """
    rest = memoryview(content)
    try:
        os.ftruncate(file.fileno(), end)
        file.seek(end)
        while rest:
            rest = rest[file.write(rest) :]
    except BaseException:
        with suppress(OSError):
            os.ftruncate(file.fileno(), end)
        raise
    return end + len(content)


class KeyValue:
    """Values by key in one framed file; if a key is written several times, the last value counts.

    A file with another title counts as empty, and is overwritten with the first value. A damaged
    value, or one that can no longer be found, counts as absent and has to be computed again.

    Parameters
    ----------
    path : pathlib.Path
        The file, which is created with the first value.
    title : str
        What the values belong to.
    shared : bool
        Whether other processes write to the file, too; they then take turns by a lock beside it.
        Otherwise the file is rewritten whenever most of its values are outdated.

    Raises
    ------
    OSError
        The file cannot be read (any method) or written (:meth:`put`).
    InputError
        There is a link in the place of the file.
    """

    def __init__(self, path: Path, title: str, *, shared: bool = False) -> None:
        self.path, self._framing = path, Framing(title.encode())
        self._lock = path.with_suffix(".lock") if shared else None
        self._frames: dict[bytes, Frame] = {}
        self._end = 0  # of the last complete frame; 0 if the file is missing or has another title
        self.keys()

    def keys(self) -> list[bytes]:
        """Return the keys, including those that other processes wrote."""
        with suppress(FileNotFoundError), open_regular(self.path) as file:
            self._read_on(file)
        return list(self._frames)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values of some keys; keys without a value are left out."""
        values = {}
        with suppress(FileNotFoundError), open_regular(self.path) as file:
            self._read_on(file)
            for key in keys:
                with suppress(KeyError, DamagedFrame):
                    content = self._framing.content(file, self._frames[key])
                    start = _KEY.size + len(key)
                    if content[:start] == _KEY.pack(len(key)) + key:
                        values[key] = content[start:]
        return values

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Write values, each atomically: after a crash it is there whole or not at all."""
        frames = [self._framed(key, value) for key, value in values.items()]
        with nullcontext() if self._lock is None else locked(self._lock):
            with open_to_append(self.path) as file:
                self._read_on(file)
                frames[:0] = [] if self._end else [self._framing.beginning]
                append(file, self._end, b"".join(frames))
                self._read_on(file)
            if self._lock is None and self._is_mostly_outdated():
                frames = [self._framed(key, value) for key, value in self.get(self._frames).items()]
                write_whole(self.path, b"".join([self._framing.beginning, *frames]))
                self._end, self._frames = 0, {}

    def _is_mostly_outdated(self) -> bool:
        return self._end > 2 * sum(frame.length for frame in self._frames.values()) + _WASTE

    def _framed(self, key: bytes, value: bytes) -> bytes:
        return self._framing.framed(_KEY.pack(len(key)), key, value)

    def _read_on(self, file: BinaryIO) -> None:
        """Read the keys of the frames that were appended since the last call.

        Another file may be there by now: a shorter one, or one with no frame where the last ended.
        """
        if os.fstat(file.fileno()).st_size < self._end or not self._read_frames(file):
            self._end, self._frames = 0, {}
            self._read_frames(file)

    def _read_frames(self, file: BinaryIO) -> bool:
        """Read keys from ``_end`` on; return whether all frames there are undamaged."""
        if not self._end:
            file.seek(0)
            beginning = self._framing.beginning
            if file.read(len(beginning)) != beginning:
                return True
            self._end = len(beginning)
        with suppress(DamagedFrame):
            for frame in self._framing.frames(file, self._end):
                (size,) = _KEY.unpack(file.read(_KEY.size).ljust(_KEY.size, b"\0"))
                if size <= frame.length - _KEY.size:
                    self._frames[file.read(size)] = frame
                self._end = frame.stop
            return True
        return False
