"""Count vectors with few members, stored as lists of members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import Array, IntArray
from framework.jit import njit

_SMALLEST = 1 << 10


class Rows(NamedTuple):
    """Rows one after the other: row ``r`` is ``items[start[r]:start[r + 1]]``, and so on.

    Attributes
    ----------
    start : numpy.ndarray of int64, shape (n + 1,) at least
    items, counts : numpy.ndarray of int64, shape (members,) at least
        Members, ascending in each row, and how often each is picked.
    """

    start: IntArray
    items: IntArray
    counts: IntArray


class Store:
    """A growing sequence of count vectors; memory is O(members), not O(models)."""

    def __init__(self) -> None:
        self.rows = Rows(*(np.zeros(_SMALLEST, dtype=np.int64) for _ in range(3)))
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, X: Array) -> None:
        """Append rows of counts, shape (n, d)."""
        used = int(self.rows.start[self._n])
        needed = self._n + len(X) + 1, used + int(np.count_nonzero(X))
        self.rows = Rows(
            _grown(self.rows.start, needed[0]),
            _grown(self.rows.items, needed[1]),
            _grown(self.rows.counts, needed[1]),
        )
        _append(self.rows, self._n, X)
        self._n += len(X)


def _grown(array: IntArray, n: int) -> IntArray:
    if n <= len(array):
        return array
    return np.concatenate([array, np.zeros(2 * n - len(array), dtype=np.int64)])


@njit
def _append(rows: Rows, n: int, X: Array) -> None:
    start, items, counts = rows
    at = start[n]
    for r in range(len(X)):
        for j in range(X.shape[1]):
            if X[r, j]:
                items[at], counts[at] = j, X[r, j]
                at += 1
        start[n + r + 1] = at
