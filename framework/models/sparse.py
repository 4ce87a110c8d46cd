"""Sparse arrays in scipy's format, read without trusting where they say their values lie."""

from __future__ import annotations

import zipfile
from io import BytesIO

import numpy as np

from framework.limits import ESTIMATOR_BYTES
from framework.models.native import sound
from framework.models.npy import array_of
from framework.packed import check_members, member

_PARTS = ("data", "format", "indices", "indptr", "shape")


def written_anew(content: bytes) -> bytes:
    """Return a ``.npz`` file of a sparse array in rows or columns, written from what was checked.

    Compiled code follows the indices without looking, so each must lie within the array.

    Raises
    ------
    Unsound
        An index leads out of the array, or the parts do not fit each other.
    ValueError, KeyError, zipfile.BadZipFile
        It is damaged, or unpacks to more than is taken.
    """
    with zipfile.ZipFile(BytesIO(content)) as file:
        check_members(file, len(content), ESTIMATOR_BYTES)
        parts = {name: array_of(member(file, f"{name}.npy")) for name in _PARTS}
        marked = "_is_array.npy" in file.namelist()
    data, indices, indptr = (parts[name] for name in ("data", "indices", "indptr"))
    shape = parts["shape"]
    sound(
        parts["format"].shape == () and parts["format"].item() in (b"csr", b"csc"), "a sparse array"
    )
    sound(shape.shape == (2,) and shape.dtype.kind == "i" and (shape >= 0).all(), "a sparse array")
    rows, columns = shape if parts["format"].item() == b"csr" else shape[::-1]
    sound(indptr.dtype == indices.dtype and indptr.dtype.str in ("<i4", "<i8"), "a sparse array")
    sound(indptr.shape == (rows + 1,) and indices.ndim == data.ndim == 1, "a sparse array")
    sound(data.dtype.kind in "biuf" and len(data) == len(indices) == indptr[-1], "a sparse array")
    sound(indptr[0] == 0 and (np.diff(indptr) >= 0).all(), "a sparse array")
    sound(not len(indices) or (indices.min() >= 0 and indices.max() < columns), "a sparse array")
    anew = BytesIO()
    if marked:
        parts["_is_array"] = np.array(True)
    np.savez(anew, **parts)  # type: ignore[arg-type]
    return anew.getvalue()
