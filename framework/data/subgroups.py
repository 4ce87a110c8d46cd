"""Subgroups of the records, such as the sexes or the hospitals, by a column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import IntArray
from framework.data.columns import to_texts
from framework.errors import InputError

_MOST = 50


class Subgroups(NamedTuple):
    """Names of the subgroups, sorted, and the code of each record's, int64 (n,)."""

    names: tuple[str, ...]
    codes: IntArray


def subgroups_in(column: pd.Series[Any], where: str = "problem.subgroup") -> Subgroups:
    """Return the subgroups that a column tells apart.

    Raises
    ------
    InputError
        A record without a value, a single subgroup, more than 50, or one of a single record.
    """
    texts, missing = to_texts(column)
    if missing.any():
        raise InputError(
            f"{where}: expected a value of {column.name!r} in each record, found {missing.sum()} "
            f"without one, the first in record {int(missing.argmax()) + 1}"
        )
    # as objects: an array of texts has room for the longest one in each record
    names, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    if not 2 <= len(names) <= _MOST:
        raise InputError(
            f"{where}: expected 2 to {_MOST} subgroups in {column.name!r}, found {len(names)}; "
            "name a column of few values"
        )
    if counts.min() < 2:
        alone = str(names[int(counts.argmin())])
        raise InputError(
            f"{where}: expected two records or more of each subgroup in {column.name!r}, found one "
            f"of {alone!r}: no rate follows from it; merge it with another subgroup"
        )
    return Subgroups(tuple(map(str, names)), codes.ravel().astype(np.int64))
