"""A set of rows, as 64-bit codes: which of these were there before?"""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, BoolArray, WordArray
from framework.jit import njit

_SMALLEST = 1 << 12


class Seen:
    """Remembers rows of whole numbers; it pickles, and the order of adding is all it depends on.

    Two different rows share a code with probability 2^-63; the later one then counts as seen.
    """

    def __init__(self) -> None:
        self._table: WordArray = np.zeros(_SMALLEST, dtype=np.uint64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, rows: Array) -> BoolArray:
        """Add rows, shape (n, d); tell which are new, shape (n,). Of equal rows the first is."""
        while 2 * (self._used + len(rows)) > len(self._table):
            self._table = _doubled(self._table)
        new: BoolArray = _add_rows(self._table, rows)
        self._used += int(new.sum())
        return new


@njit
def _code(row: Array) -> np.uint64:
    """Return a code that is never 0: FNV-1a over the words, then mixed as splitmix64 does."""
    h = np.uint64(14695981039346656037)
    for j in range(len(row)):
        h = (h ^ np.uint64(row[j])) * np.uint64(1099511628211)
        h ^= h >> np.uint64(32)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) | np.uint64(1)


@njit
def _insert(table: WordArray, code: np.uint64) -> bool:
    """Put a code into a table with room (open addressing, 0 is free); tell whether it is new."""
    mask = np.uint64(len(table) - 1)
    at = (code >> np.uint64(1)) & mask
    while table[at] != 0:
        if table[at] == code:
            return False
        at = (at + np.uint64(1)) & mask
    table[at] = code
    return True


@njit
def _add_rows(table: WordArray, rows: Array) -> BoolArray:
    new = np.empty(len(rows), dtype=np.bool_)
    for r in range(len(rows)):
        new[r] = _insert(table, _code(rows[r]))
    return new


@njit
def _doubled(table: WordArray) -> WordArray:
    larger = np.zeros(2 * len(table), dtype=np.uint64)
    for code in table:
        if code != 0:
            _insert(larger, code)
    return larger
