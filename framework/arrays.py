"""Names for the array types in the signatures of the contracts."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]

_FEW = 16  # values up to which a loop is quicker than numpy


def has_nan(column: FloatArray) -> bool:
    """Tell whether a value of a vector is NaN."""
    if len(column) <= _FEW:
        return any(map(isnan, column.tolist()))
    return bool(np.isnan(column).any())


def frozen(array: Array) -> Array:
    """Return ``array`` with writing switched off (a view; the owner's flag is untouched)."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
