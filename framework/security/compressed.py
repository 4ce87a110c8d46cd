"""Read gzip, zip, numpy and Parquet files that anyone may have made: bounded, without pickles.

A million zeros can be compressed to a thousand bytes, so a small file may unpack to more than a
machine's memory. Tables and models are compressed by a factor of ten, rarely of a hundred: nothing
is unpacked beyond that.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from framework.arrays import Array, frozen
from framework.errors import DAMAGED
from framework.reading import open_regular
from framework.security.limits import ARRAY_BYTES, UNPACKED_BYTES, UNPACKED_TIMES

_CHUNK = 2**20
_KINDS = "biufUS"  # the kinds of dtypes that hold plain values
_PAGES = 10**6  # at most in a Parquet file
_PREFIXED = 7  # DELTA_BYTE_ARRAY: each value begins as the one before, so that sizes say nothing


class Chunk(NamedTuple):
    """A piece of a column in a Parquet file: its offset, its bytes, its number of values."""

    start: int
    size: int
    values: int


class TooLarge(ValueError):
    """A file unpacks to more than the ``allowed`` bytes."""

    def __init__(self, allowed: int) -> None:
        super().__init__(f"more than {allowed:,} bytes when unpacked")
        self.allowed = allowed


def most_unpacked(packed: int, most: int) -> int:
    """Return to how many bytes a file of ``packed`` bytes may unpack, at most ``most``."""
    return min(most, max(UNPACKED_BYTES, UNPACKED_TIMES * packed))


def gunzipped(path: Path, most: int) -> bytes:
    """Return the content of a gzip file, after a first pass that only counts its bytes.

    Raises
    ------
    TooLarge
    OSError, EOFError, zlib.error
        The file is damaged.
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
    """Check the directory of a zip file of ``packed`` bytes: sizes, compression, distinct names.

    Raises
    ------
    TooLarge
    BadZipFile
        Two members have the same name, or one is neither stored nor compressed by deflate.
    """
    allowed = most_unpacked(packed, most)
    if sum(info.file_size for info in file.infolist()) > allowed:
        raise TooLarge(allowed)
    if not {info.compress_type for info in file.infolist()} <= {ZIP_STORED, ZIP_DEFLATED}:
        raise BadZipFile("packed in another way than by deflate")
    if len(set(file.namelist())) < len(file.namelist()):
        raise BadZipFile("two files of one name")


def member(file: ZipFile, name: str) -> bytes:
    """Return a member of a zip file, unpacked no further than to the size that the zip states.

    Raises
    ------
    BadZipFile, zlib.error, EOFError
        The member is damaged.
    KeyError
        There is no member of that name.
    """
    with file.open(name) as content:
        return content.read(file.getinfo(name).file_size + 1)


def array_of(content: bytes) -> Array:
    """Return the array in the bytes of a ``.npy`` file; fields of a structured one must be plain.

    Raises
    ------
    ValueError
        The content is damaged, holds objects, or has another size than its header says.
    """
    stream = BytesIO(content)
    shape, fortran, dtype = _header(stream, len(content))
    array = np.frombuffer(content, dtype, count=math.prod(shape), offset=stream.tell())
    return np.array(array.reshape(shape, order="F" if fortran else "C"))


def mapped(path: Path) -> Array:
    """Return the array in a ``.npy`` file as a read-only memory map; the file is opened once.

    Raises
    ------
    ValueError
        The file is damaged, too large, holds objects, or has another size than its header says.
    OSError
    """
    with open_regular(path) as file:
        whole = os.fstat(file.fileno()).st_size
        shape, fortran, dtype = _header(file, whole)
        start, size = file.tell(), whole - file.tell()
        if size > ARRAY_BYTES:
            raise ValueError(f"more than {ARRAY_BYTES:,} bytes")
        order: Literal["F", "C"] = "F" if fortran else "C"
        if not size:
            return frozen(np.empty(shape, dtype, order))
        return np.memmap(file, dtype, "r", start, shape, order)


BAD_ARRAYS = (*DAMAGED, OSError, EOFError, BadZipFile, zlib.error)
"""What reading a file of arrays may raise, and taking from it what should be there."""


def arrays_of(content: bytes, most: int) -> dict[str, Array]:
    """Return the arrays in the bytes of a ``.npz`` file, by name.

    Parameters
    ----------
    content : bytes
    most : int
        How many bytes the arrays may have together.

    Raises
    ------
    ValueError, BadZipFile, EOFError, zlib.error
        The content is damaged or too large.
    """
    with ZipFile(BytesIO(content)) as file:
        check_members(file, len(content), most)
        return {name.removesuffix(".npy"): array_of(member(file, name)) for name in file.namelist()}


def _header(stream: BinaryIO, whole: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether in Fortran order, and dtype; leave the stream where the data begin.

    Raises
    ------
    ValueError
        There is no valid header, the dtype does not hold plain values, or the ``whole`` file is
        not as large as its header says.
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
    size = whole - stream.tell()
    if size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{size} bytes where its header says {dtype} of shape {shape}")
    return shape, fortran, dtype


def check_pages(stream: BinaryIO, chunks: Iterable[Chunk], most: int) -> int:
    """Check the headers of the pages of a Parquet file, before any page is unpacked.

    A reader allocates the size that a page's header states, up to 2 GB, and takes as many values
    from it as the header states, whatever the file's footer says.

    Parameters
    ----------
    stream : binary file
    chunks : iterable of Chunk
        The pieces of the columns that are to be read, from the file's footer.
    most : int
        To how many bytes the pages may unpack together.

    Returns
    -------
    int
        To how many bytes they unpack.

    Raises
    ------
    TooLarge
    ValueError
        A page is damaged, or the pages have another number of values than the footer says.
    """
    unpacked = pages = 0
    for start, size, values in chunks:
        place, seen = start, 0
        while seen < values and place < start + size:
            stream.seek(place)
            header = _thrift(stream)
            full, packed = header.get(2), header.get(3)  # sizes in bytes, unpacked and stored
            data = header.get(5) or header.get(8) or {}  # the header of a data page, V1 or V2
            if isinstance(data, dict) and data.get(2 if 5 in header else 4) == _PREFIXED:
                raise ValueError("values coded as DELTA_BYTE_ARRAY; write them by dictionary")
            if not isinstance(full, int) or not isinstance(packed, int) or min(full, packed) < 0:
                raise ValueError("a page without a size")
            seen += data.get(1, 0) if isinstance(data, dict) else 0
            unpacked, pages = unpacked + full, pages + 1
            if unpacked > most:
                raise TooLarge(most)
            if pages > _PAGES:
                raise ValueError(f"more than {_PAGES:,} pages")
            place = stream.tell() + packed
        if seen != values:
            raise ValueError(f"pages of {seen:,} values where {values:,} are said to be")
    return unpacked


def _thrift(stream: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """Return the integers and structures in a structure of Thrift's compact protocol, by field.

    Raises
    ------
    ValueError
        It ends too early, is nested too deep, or has lists, which no page header has.
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := _byte(stream):
        kind, step = head & 15, head >> 4
        number = number + step if step else _whole(stream)
        if kind in (4, 5, 6):  # integers of 16, 32 and 64 bits
            fields[number] = _whole(stream)
        elif kind == 12 and depth < 4:  # a structure
            fields[number] = _thrift(stream, depth + 1)
        elif kind == 8:  # a text
            stream.seek(_varint(stream), os.SEEK_CUR)
        elif kind in (3, 7):  # a byte, a double
            stream.seek(1 if kind == 3 else 8, os.SEEK_CUR)
        elif kind not in (1, 2):  # true and false, which have no further bytes
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
    """Read an integer in zigzag encoding: 0, -1, 1, -2 ... are written as 0, 1, 2, 3 ..."""
    value = _varint(stream)
    return (value >> 1) ^ -(value & 1)
