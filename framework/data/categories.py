"""Whether a column is of numbers, dates or categories, and a single spelling for each category.

The same category may come as ``3``, as ``3.0`` (in a column with missing values), as ``"3"`` or as
an entry of a pandas categorical. A single spelling makes them equal, in training and later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import Array, BoolArray, FloatArray


def is_numeric(column: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers or truth values (gaps allowed), and no categories."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return False
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_complex_dtype(column.dtype)
    if column.dtype != object:
        return False
    known = column.dropna()
    return all(isinstance(value, bool | np.bool_ | int | float | np.number) for value in known)


def is_date(column: pd.Series[Any]) -> bool:
    """Return whether a column holds dates, with a zone or without."""
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype))


def to_numbers(column: pd.Series[Any]) -> FloatArray:
    """Return a column as float64 (n,), missing values as NaN.

    Raises
    ------
    ValueError, TypeError
        A value is neither a number nor missing.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def to_texts(column: pd.Series[Any]) -> tuple[Array, BoolArray]:
    """Return the spellings (n,) of a column's categories as an object array, and what is missing.

    The spelling of a missing value is the empty text.
    """
    missing = column.isna().to_numpy(dtype=bool)
    values = column.astype(object).to_numpy()
    spelled = [
        "" if gap else category_text(value) for value, gap in zip(values, missing, strict=True)
    ]
    texts = np.empty(len(spelled), dtype=object)
    texts[:] = spelled
    return texts, missing


def category_text(value: object) -> str:
    """Return the one spelling of a category: whole numbers without a point, the rest as it is."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)
