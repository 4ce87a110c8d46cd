"""Arrays in numpy's formats, read without pickles and without trusting their headers."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np

from framework.arrays import Array
from framework.packed import check_members, member

_KINDS = "biufUS"  # of plain values


def array_of(content: bytes) -> Array:
    """Return the array in the bytes of a ``.npy`` file; structured ones are of plain fields.

    Raises
    ------
    ValueError
        It is damaged, holds objects, or is larger or smaller than its header says.
    """
    stream = BytesIO(content)
    shape, fortran, dtype = header_of(stream)
    count = math.prod(shape)
    if len(content) - stream.tell() != count * dtype.itemsize:
        raise ValueError(
            f"{len(content) - stream.tell()} bytes where its header says {dtype} of shape {shape}"
        )
    array = np.frombuffer(content, dtype, count=count, offset=stream.tell())
    return np.array(array.reshape(shape, order="F" if fortran else "C"))


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


def header_of(stream: BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
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
