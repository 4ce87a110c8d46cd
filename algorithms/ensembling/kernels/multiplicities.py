"""Rows of counts without their zeros, since an ensemble has few of many models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, IntArray, WordArray
from framework.jit import njit


class Multiplicities(NamedTuple):
    """The models that each row multiplicities, and how often, with all rows in one array.

    Attributes
    ----------
    models : numpy.ndarray of int64, shape (total,)
        Ascending within a row.
    counts : numpy.ndarray of int64, shape (total,)
        Above 0.
    starts : numpy.ndarray of int64, shape (n + 1,)
        Row ``i`` is ``models[starts[i]:starts[i + 1]]``, and likewise of ``counts``.
    """

    models: IntArray
    counts: IntArray
    starts: IntArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def take(self, rows: Iterable[int]) -> Multiplicities:
        """Return some rows, given by their positions."""
        parts = [np.arange(self.starts[i], self.starts[i + 1]) for i in rows]
        places = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return Multiplicities(self.models[places], self.counts[places], starts)


def multiplicities_of(X: Array) -> Multiplicities:
    """Return the multiplicities of rows of counts (n, K), whole numbers.

    Notes
    -----
    O(n K), many counts at a time; what works on multiplicities is O(members) per row.
    """
    X = np.ascontiguousarray(X, dtype=np.int32)
    some = np.zeros(-(-X.size // 8) * 8, dtype=np.bool_)
    np.not_equal(X.ravel(), 0, out=some[: X.size])
    return Multiplicities(*_gather(X, some, some.view(np.uint64), int(np.count_nonzero(some))))


@njit
def _gather(
    X: Array, some: BoolArray, words: WordArray, total: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Collect the counts that are ``some``: not 0; ``words`` are eight of these each."""
    n, k = X.shape
    starts = np.zeros(n + 1, dtype=np.int64)
    models = np.empty(total, dtype=np.int64)
    counts = np.empty(total, dtype=np.int64)
    at = row = 0
    for word in range(len(words)):
        if words[word] == 0:
            continue
        for place in range(8 * word, 8 * word + 8):
            if some[place]:
                while place >= (row + 1) * k:
                    row += 1
                    starts[row] = at
                models[at] = place - row * k
                counts[at] = X[row, place - row * k]
                at += 1
    starts[row + 1 :] = at
    return models, counts, starts


@njit
def shared(models: IntArray, counts: IntArray, starts: IntArray, k: int) -> IntArray:
    """Return for each of ``k`` models the least count of it in any row, shape (k,)."""
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


@njit
def totals_of(counts: IntArray, starts: IntArray) -> IntArray:
    """Return the sum of multiplicities of each row, shape (n,)."""
    totals = np.zeros(len(starts) - 1, dtype=np.int64)
    for i in range(len(totals)):
        for at in range(starts[i], starts[i + 1]):
            totals[i] += counts[at]
    return totals


@njit
def remainder(
    models: IntArray, counts: IntArray, starts: IntArray, base: IntArray
) -> tuple[IntArray, Array, IntArray]:
    """Return what each row has beyond ``base``, rows end to end."""
    rest = np.empty(len(models), dtype=np.int64)
    more = np.empty(len(models), dtype=np.uint32)
    ends = np.zeros(len(starts), dtype=np.int64)
    at = 0
    for i in range(len(starts) - 1):
        for old in range(starts[i], starts[i + 1]):
            beyond = counts[old] - base[models[old]]
            if beyond > 0:
                rest[at], more[at] = models[old], beyond
                at += 1
        ends[i + 1] = at
    return rest, more, ends


@njit
def add_up(keys: Array, x: Array, first: Array, out: Array) -> None:
    """Set ``out`` (N,) to ``first`` plus the keys (K, N), whole numbers, of one row of counts."""
    out[:] = first
    for j in range(len(x)):
        if x[j] != 0:
            count = np.uint32(x[j])
            for i in range(len(out)):
                out[i] += count * keys[j, i]


@njit
def fill(
    keys: Array, models: IntArray, counts: Array, starts: IntArray, common: Array, out: Array
) -> None:
    """Set each row of ``out`` (rows, N) to the common keys plus those of its remainder.

    Keys, whole numbers, and what they add up to are of one type.
    """
    records = out.shape[1]
    for r in range(out.shape[0]):
        row = out[r]
        at, stop = starts[r], starts[r + 1]
        if (stop - at) % 2:
            one, count = keys[models[at]], counts[at]
            for i in range(records):
                row[i] = common[i] + count * one[i]
            at += 1
        else:
            row[:] = common
        while at < stop:
            one, other = keys[models[at]], keys[models[at + 1]]
            count, second = counts[at], counts[at + 1]
            for i in range(records):
                row[i] += count * one[i] + second * other[i]
            at += 2
