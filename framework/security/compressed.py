"""Read gzip, zip, numpy and Parquet files that anyone may have made: bounded, without pickles.

A million zeros pack into a thousand bytes, so a small file can stand for more than a machine holds.
Tables and models pack ten times, rarely a hundred times: nothing is unpacked further than that.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from framework.arrays import Array, frozen
from framework.reading import open_regular
from framework.security.limits import ARRAY_BYTES, UNPACKED_BYTES, UNPACKED_TIMES

_CHUNK = 2**20
_KINDS = "biufUS"  # of plain values
_PAGES = 10**6  # of a Parquet file


class Chunk(NamedTuple):
    """A column's piece in a Parquet file: where it begins, its bytes, its number of values."""

    start: int
    size: int
    values: int


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
    with open_regular(path) as packed:
        allowed = most_unpacked(os.fstat(packed.fileno()).st_size, most)
        count = 0
        with gzip.open(packed) as file:
            while chunk := file.read(_CHUNK):
                count += len(chunk)
                if count > allowed:
                    raise TooLarge(allowed)
        packed.seek(0)
        with gzip.open(packed) as file:
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


def array_of(content: bytes) -> Array:
    """Return the array in the bytes of a ``.npy`` file; structured ones are of plain fields.

    Raises
    ------
    ValueError
        It is damaged, holds objects, or is larger or smaller than its header says.
    """
    stream = BytesIO(content)
    shape, fortran, dtype = _header(stream)
    count = math.prod(shape)
    if len(content) - stream.tell() != count * dtype.itemsize:
        raise ValueError(
            f"{len(content) - stream.tell()} bytes where its header says {dtype} of shape {shape}"
        )
    array = np.frombuffer(content, dtype, count=count, offset=stream.tell())
    return np.array(array.reshape(shape, order="F" if fortran else "C"))


def mapped(path: Path) -> Array:
    """Return the array in a ``.npy`` file as a memory map, read-only; the file is opened once.

    Raises
    ------
    ValueError
        It is damaged, holds objects, or is larger or smaller than its header says.
    OSError
    """
    with open_regular(path) as file:
        shape, fortran, dtype = _header(file)
        size, start = os.fstat(file.fileno()).st_size - file.tell(), file.tell()
        if size != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{size} bytes where its header says {dtype} of shape {shape}")
        if size > ARRAY_BYTES:
            raise ValueError(f"more than {ARRAY_BYTES:,} bytes")
        order: Literal["F", "C"] = "F" if fortran else "C"
        if not size:
            return frozen(np.empty(shape, dtype, order))
        return np.memmap(file, dtype, "r", start, shape, order)


def arrays_of(content: bytes, most: int) -> dict[str, Array]:
    """Return the arrays in the bytes of a ``.npz`` file, by name.

    Parameters
    ----------
    content : bytes
    most : int
        How many bytes they may have together.

    Raises
    ------
    ValueError, BadZipFile, EOFError, zlib.error
        It is damaged, or larger.
    """
    with ZipFile(BytesIO(content)) as file:
        check_members(file, len(content), most)
        return {name.removesuffix(".npy"): array_of(member(file, name)) for name in file.namelist()}


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether in Fortran's order, and dtype; leave the stream where the data begin.

    Raises
    ------
    ValueError
        There is no such header, or the dtype is not of plain values.
    """
    try:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(stream)
    except Exception as error:  # a forged header may fail anywhere in its parser
        raise ValueError(f"no array of numbers ({type(error).__name__})") from error
    fields = [dtype] if dtype.names is None else [dtype[name] for name in dtype.names]
    plain = all(field.kind in _KINDS and field.subdtype is None for field in fields)
    if not plain or dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype}")
    return shape, fortran, dtype


def check_pages(stream: BinaryIO, chunks: Iterable[Chunk], most: int) -> int:
    """Check what the pages of a Parquet file say of themselves, before any is unpacked.

    Whoever unpacks a page makes room for as much as it says, up to 2 GB, and takes as many values
    from it as it says, whatever the file says at its end.

    Parameters
    ----------
    stream : binary file
    chunks : iterable of Chunk
        The pieces of the columns that are to be read, as the end of the file has them.
    most : int
        To how many bytes they may unpack together.

    Returns
    -------
    int
        To how many they do.

    Raises
    ------
    TooLarge
    ValueError
        A page is damaged, or they have other numbers of values than the file says.
    """
    unpacked = pages = 0
    for start, size, values in chunks:
        place, seen = start, 0
        while seen < values and place < start + size:
            stream.seek(place)
            header = _thrift(stream)
            grown, packed = header.get(2), header.get(3)
            about = header.get(5) or header.get(8) or {}  # of a page of data, old and new
            if not isinstance(grown, int) or not isinstance(packed, int) or min(grown, packed) < 0:
                raise ValueError("a page without a size")
            seen += about.get(1, 0) if isinstance(about, dict) else 0
            unpacked, pages = unpacked + grown, pages + 1
            if unpacked > most:
                raise TooLarge(most)
            if pages > _PAGES:
                raise ValueError(f"more than {_PAGES:,} pages")
            place = stream.tell() + packed
        if seen != values:
            raise ValueError(f"pages of {seen:,} values where {values:,} are said to be")
    return unpacked


def _thrift(stream: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """Return whole numbers and structures in a structure of Thrift's compact protocol, by field.

    Raises
    ------
    ValueError
        It ends too early, is nested too deep, or has lists, which no header of a page has.
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := _byte(stream):
        kind, step = head & 15, head >> 4
        number = number + step if step else _whole(stream)
        if kind in (4, 5, 6):
            fields[number] = _whole(stream)
        elif kind == 12 and depth < 4:
            fields[number] = _thrift(stream, depth + 1)
        elif kind == 8:  # a text
            stream.seek(_varint(stream), os.SEEK_CUR)
        elif kind in (3, 7):
            stream.seek(1 if kind == 3 else 8, os.SEEK_CUR)
        elif kind not in (1, 2):  # a truth value has no more bytes
            raise ValueError("a page with another header")
    return fields


def _byte(stream: BinaryIO) -> int:
    content = stream.read(1)
    if not content:
        raise ValueError("a page that ends early")
    return content[0]


def _varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a page with a number of more than 64 bits")


def _whole(stream: BinaryIO) -> int:
    value = _varint(stream)
    return (value >> 1) ^ -(value & 1)
