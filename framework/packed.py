"""Compressed content that anyone may have made: unpacked no further than honest content goes.

A million zeros pack into a thousand bytes, so a small file can stand for more than a machine holds.
Tables and models pack ten times, rarely a hundred times.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from framework.limits import UNPACKED_BYTES, UNPACKED_TIMES

_CHUNK = 2**20


class TooLarge(ValueError):
    """What unpacks to more than is taken; ``allowed`` is how many bytes are."""

    def __init__(self, allowed: int) -> None:
        super().__init__(f"more than {allowed:,} bytes when unpacked")
        self.allowed = allowed


def most_unpacked(packed: int, most: int) -> int:
    """Return to how many bytes, ``most`` at the most, so many compressed ones may unpack."""
    return min(most, max(UNPACKED_BYTES, UNPACKED_TIMES * packed))


def gunzipped(path: Path, most: int) -> bytes:
    """Return the content of a gzip file; it is counted before any of it is kept.

    Raises
    ------
    TooLarge
    OSError, EOFError, zlib.error
        It is damaged.
    """
    allowed = most_unpacked(path.stat().st_size, most)
    count = 0
    with gzip.open(path) as file:
        while chunk := file.read(_CHUNK):
            count += len(chunk)
            if count > allowed:
                raise TooLarge(allowed)
    with gzip.open(path) as file:
        return file.read(count)


def check_members(file: ZipFile, packed: int, most: int) -> None:
    """Check what a zip of so many bytes says of its files: each name once, together not too large.

    Raises
    ------
    TooLarge
    BadZipFile
        Two files have one name, or one cannot be unpacked a piece at a time.
    """
    allowed = most_unpacked(packed, most)
    if sum(info.file_size for info in file.infolist()) > allowed:
        raise TooLarge(allowed)
    if not {info.compress_type for info in file.infolist()} <= {ZIP_STORED, ZIP_DEFLATED}:
        raise BadZipFile("packed in another way than by deflate")
    if len(set(file.namelist())) < len(file.namelist()):
        raise BadZipFile("two files of one name")


def member(file: ZipFile, name: str) -> bytes:
    """Return one file of a zip, unpacked no further than the zip says that it goes.

    Raises
    ------
    BadZipFile, zlib.error, EOFError
        It is damaged.
    KeyError
        There is none of that name.
    """
    with file.open(name) as content:
        return content.read(file.getinfo(name).file_size + 1)
