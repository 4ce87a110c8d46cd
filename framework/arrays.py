"""Names for the array types in the signatures of the contracts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]


def frozen(array: Array) -> Array:
    """Return ``array`` with writing switched off (a view; the owner's flag is untouched)."""
    view = array.view()
    view.flags.writeable = False
    return view
