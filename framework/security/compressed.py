"""Read gzip, zip and numpy files that anyone may have made: bounded in size, without pickles.

A million zeros pack into a thousand bytes, so a small file can stand for more than a machine holds.
Tables and models pack ten times, rarely a hundred times: nothing is unpacked further than that.
"""

from __future__ import annotations

import gzip
import math
import os
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from framework.arrays import Array, frozen
from framework.reading import open_regular
from framework.security.limits import ARRAY_BYTES, UNPACKED_BYTES, UNPACKED_TIMES

_CHUNK = 2**20
_KINDS = "biufUS"  # of plain values


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
