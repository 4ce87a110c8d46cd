"""Array types for signatures, and small functions on arrays and their values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]

_FEW = 16  # values up to which a loop is quicker than numpy


def are_finite(values: FloatArray) -> bool:
    """Return whether no value is NaN or infinite."""
    if values.size <= _FEW:
        return all(map(isfinite, values.ravel().tolist()))
    return bool(np.isfinite(values).all())


def category_text(value: object) -> str:
    """Return the one spelling of a category: whole numbers without a point, texts without blanks.

    The same category may come as ``3``, as ``3.0`` (in a column with missing values), as ``" 3"``
    or as an entry of a pandas categorical. A single spelling makes them equal, now and later.
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value).strip()


def is_number(value: object) -> bool:
    """Return whether a value is a number or a text that spells one, of hundreds of digits too."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    except OverflowError:
        pass
    return True


def evenly(n: int, most: int) -> IntArray:
    """Return at most so many positions of n, evenly spread from the first to the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def sum_in_order(values: Array) -> Array:
    """Return sums over the last axis, added from its first value to its last.

    ``sum``, ``mean`` and ``@`` add in an order that depends on the shape and the layout of the
    whole array, so that the last bit of a row depends on the rows beside it.
    """
    sums: Array = np.cumsum(values, axis=-1)[..., -1]
    return sums


def fixed(array: Array) -> Array:
    """Return an array that nobody else can change: ``array`` if read-only and no view, else a copy.

    Since its content never changes, identity can replace a comparison.
    """
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


def frozen(array: Array) -> Array:
    """Return ``array`` if it is read-only, else a read-only view of it."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def digest_of(plain: Any, arrays: Iterable[Array | None] = ()) -> str:
    """Return the SHA-256 of something that JSON can write, and of those arrays that there are."""
    digest = hashlib.sha256(json.dumps(plain).encode())
    for array in arrays:
        if array is not None:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def record_codes(rows: Array, labels: IntArray) -> WordArray:
    """Return a 64-bit code of each record, (n,), from its values (n, d) and label; -0.0 is 0.0."""
    return row_codes(np.column_stack([rows, labels.astype(rows.dtype)]) + rows.dtype.type(0))


def row_codes(X: Array) -> WordArray:
    """Return a 64-bit code of each row, (n,), of an array (n, d).

    It is FNV-1a over the columns, with the high bits folded in. Rows with equal bits have equal
    codes; two other rows have so with probability 2^-64.
    """
    code = np.full(len(X), 14695981039346656037, dtype=np.uint64)
    for column in np.ascontiguousarray(X).view(f"u{X.itemsize}").T:
        code = (code ^ column.astype(np.uint64)) * np.uint64(1099511628211)
        code ^= code >> np.uint64(32)
    return code
