"""The labels of a table: one type for all, codes, the positive class, rare classes merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import IntArray
from framework.data.categories import is_numeric, to_numbers, to_texts
from framework.errors import InputError

Label = str | int | float | bool

_LEAST_RECORDS = 3  # of a class: one for each of training, validation and test
_OTHER = "other"


def with_rare_merged(
    column: pd.Series[Any], least: int | None, target: str
) -> tuple[pd.Series[Any], tuple[str, ...]]:
    """Return labels of which the rare ones are ``other``, and the sentence that says so."""
    if least is None:
        return column, ()
    counts = column.value_counts()
    rare = counts.index[counts < least]
    if len(rare) == 0:
        return column, ()
    merged = column.astype(object).where(~column.isin(rare) | column.isna(), _OTHER)
    spelling = merged.where(merged.isna(), pd.Series(to_texts(merged)[0], index=merged.index))
    listed = ", ".join(f"{label} ({counts[label]})" for label in rare[:6])
    more = f" and {len(rare) - 6} more" if len(rare) > 6 else ""
    said = f"target {target!r}: classes {listed}{more} have fewer than {least} records; together "
    return spelling, (f"{said}they are the class {_OTHER!r}",)


def labels_of(
    column: pd.Series[Any], target: str, place: str
) -> tuple[IntArray, tuple[Label, ...]]:
    """Return the class (n,) of each record and the classes, sorted.

    Raises
    ------
    InputError
        A label is missing, there is one class, or one of too few records.
    """
    missing = column.isna().to_numpy(dtype=bool)
    if missing.any():
        raise InputError(
            f"{place}: expected a label in each record, found {missing.sum()} without one in "
            f"{target!r}, the first in record {int(missing.argmax()) + 1}; label or remove them"
        )
    values = _plain_labels(column)
    classes = tuple(sorted(set(values)))
    if len(classes) == 1:
        raise InputError(
            f"{place}: expected two classes or more in {target!r}, found only {classes[0]!r}"
        )
    codes = {label: code for code, label in enumerate(classes)}
    labels = np.array([codes[value] for value in values], dtype=np.int64)
    counts = np.bincount(labels)
    if counts.min() < _LEAST_RECORDS:
        rare = int(counts.argmin())
        raise InputError(
            f"{place}: expected {_LEAST_RECORDS} records or more of each class in {target!r}, "
            f"found {counts[rare]} of {classes[rare]!r} ({len(classes)} classes); merge them with "
            f"merge_rare: {_LEAST_RECORDS}, or remove them"
        )
    return labels, classes


def _plain_labels(column: pd.Series[Any]) -> list[Label]:
    """Return labels as Python values of one type: bool, int, float or text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        return [bool(value) for value in column]
    if is_numeric(column):
        numbers = to_numbers(column)
        whole = bool(np.all(np.isfinite(numbers) & (numbers == np.floor(numbers))))
        return [int(number) if whole else float(number) for number in numbers]
    return [str(value) for value in column]


def position_of(wanted: Label | None, classes: tuple[Label, ...], where: str) -> int | None:
    """Return the position of the positive class: the one named, else the last one of two."""
    if wanted is None:
        return len(classes) - 1 if len(classes) == 2 else None
    spelled = [str(label) for label in classes]
    if str(wanted) not in spelled:
        hint = " (put yes, no, on and off in quotes)" if isinstance(wanted, bool) else ""
        raise InputError(
            f"{where}.positive: expected one of the classes {', '.join(spelled)}; found "
            f"{wanted!r}{hint}"
        )
    return spelled.index(str(wanted))
