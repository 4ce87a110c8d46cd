"""Genomes that were proposed before, stored as 64-bit codes."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, BoolArray, WordArray
from framework.jit import njit

_SMALLEST = 1 << 12

FIRST_CODE = np.uint64(14695981039346656037)
"""The code of an empty row; each word of a row changes it."""


class Seen:
    """A set of genomes, or of other rows of numbers, of which it keeps the codes.

    It can be pickled. Two different rows have the same code with probability 2^-63; the later one
    then counts as seen.
    """

    def __init__(self) -> None:
        self._table: WordArray = np.zeros(_SMALLEST, dtype=np.uint64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, rows: Array) -> BoolArray:
        """Add rows (n, d); return which are new (n,). Of equal rows only the first is new."""
        new: BoolArray = _add_rows(self.reserve(len(rows)), _words(rows))
        self._used += int(new.sum())
        return new

    def knows(self, rows: Array) -> BoolArray:
        """Return which rows, shape (n, d), were added before."""
        present: BoolArray = _known_rows(self._table, _words(rows))
        return present

    def reserve(self, n: int) -> WordArray:
        """Return the table with room for ``n`` codes; who inserts some must call :meth:`added`."""
        while 2 * (self._used + n) > len(self._table):
            self._table = _doubled(self._table)
        return self._table

    def added(self, n: int) -> None:
        """Count ``n`` codes that were put into the table."""
        self._used += n


def _words(rows: Array) -> Array:
    """Return rows of whole numbers: floats become the numbers that have the same bits."""
    if rows.dtype == np.float64:
        return np.ascontiguousarray(rows).view(np.int64)
    return rows


@njit
def next_word(h: np.uint64, word: np.uint64) -> np.uint64:
    """Return the code after one more word (FNV-1a)."""
    h = (h ^ word) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(32))


@njit
def finished(h: np.uint64) -> np.uint64:
    """Mix a code as splitmix64 does; never 0."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) | np.uint64(1)


@njit
def _code(row: Array) -> np.uint64:
    h = FIRST_CODE
    for j in range(len(row)):
        h = next_word(h, np.uint64(row[j]))
    return finished(h)


@njit
def insert_code(table: WordArray, code: np.uint64) -> bool:
    """Insert a code into a table with room (open addressing, 0 is free); return if it is new."""
    mask = np.uint64(len(table) - 1)
    at = (code >> np.uint64(1)) & mask
    while table[at] != 0:
        if table[at] == code:
            return False
        at = (at + np.uint64(1)) & mask
    table[at] = code
    return True


@njit
def _known_rows(table: WordArray, rows: Array) -> BoolArray:
    present = np.empty(len(rows), dtype=np.bool_)
    mask = np.uint64(len(table) - 1)
    for r in range(len(rows)):
        code = _code(rows[r])
        at = (code >> np.uint64(1)) & mask
        while table[at] != 0 and table[at] != code:
            at = (at + np.uint64(1)) & mask
        present[r] = table[at] == code
    return present


@njit
def _add_rows(table: WordArray, rows: Array) -> BoolArray:
    new = np.empty(len(rows), dtype=np.bool_)
    for r in range(len(rows)):
        new[r] = insert_code(table, _code(rows[r]))
    return new


@njit
def _doubled(table: WordArray) -> WordArray:
    larger = np.zeros(2 * len(table), dtype=np.uint64)
    for code in table:
        if code != 0:
            insert_code(larger, code)
    return larger
