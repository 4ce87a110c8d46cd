"""Rows of counts without their zeros: ensembles are few of many models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, IntArray
from framework.jit import njit


class Picks(NamedTuple):
    """Which models each row picks, and how often; rows end to end.

    Attributes
    ----------
    models : numpy.ndarray of int64, shape (total,)
        Ascending within a row.
    counts : numpy.ndarray of int64, shape (total,)
        Above 0.
    starts : numpy.ndarray of int64, shape (n + 1,)
        Row ``i`` is from ``starts[i]`` to ``starts[i + 1]``.
    """

    models: IntArray
    counts: IntArray
    starts: IntArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def take(self, rows: Iterable[int]) -> Picks:
        """Return some rows, given by their positions."""
        parts = [np.arange(self.starts[i], self.starts[i + 1]) for i in rows]
        places = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return Picks(self.models[places], self.counts[places], starts)


def picks_of(X: Array) -> Picks:
    """Return the picks of rows of counts (n, K), whole numbers.

    Notes
    -----
    O(n K), eight counts at a time; what works on picks is O(members) a row.
    """
    return Picks(*_gather(np.ascontiguousarray(X, dtype=np.int32)))


@njit
def _gather(X: Array) -> tuple[IntArray, IntArray, IntArray]:
    n, k = X.shape
    starts = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        found = 0
        for j in range(k):
            found += X[i, j] != 0
        starts[i + 1] = starts[i] + found
    models = np.empty(starts[n], dtype=np.int64)
    counts = np.empty(starts[n], dtype=np.int64)
    for i in range(n):
        at, row = starts[i], X[i]
        for first in range(0, k, 8):
            last = min(first + 8, k)
            some = 0
            for j in range(first, last):
                some |= row[j]
            if some == 0:
                continue
            for j in range(first, last):
                if row[j] != 0:
                    models[at], counts[at] = j, row[j]
                    at += 1
    return models, counts, starts


@njit
def shared(models: IntArray, counts: IntArray, starts: IntArray, k: int) -> IntArray:
    """Return how often every row picks each of ``k`` models at least, shape (k,)."""
    rows = np.zeros(k, dtype=np.int64)
    least = np.zeros(k, dtype=np.int64)
    for at in range(len(models)):
        j = models[at]
        least[j] = counts[at] if rows[j] == 0 else min(least[j], counts[at])
        rows[j] += 1
    for j in range(k):
        if rows[j] < len(starts) - 1:
            least[j] = 0
    return least
