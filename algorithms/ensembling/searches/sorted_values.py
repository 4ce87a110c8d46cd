"""Values in ascending order while they come in one by one: any rank at any time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

_WIDTH = 256


class SortedValues(NamedTuple):
    """Blocks of ascending values; a full block is split in two.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (blocks, 256)
    filled : numpy.ndarray of int64, shape (blocks,)
        Values in each block.
    order : numpy.ndarray of int64, shape (blocks,)
        The blocks in use, ascending by their values.
    used : numpy.ndarray of int64, shape (1,)
        Number of blocks in use.
    """

    values: FloatArray
    filled: IntArray
    order: IntArray
    used: IntArray

    @classmethod
    def with_room(cls, n: int, old: SortedValues | None = None) -> SortedValues:
        """Return room for ``n`` values, with those of ``old`` in it."""
        blocks = 2 * n // _WIDTH + 2
        filled, order = np.zeros((2, blocks), dtype=np.int64)
        new = cls(np.empty((blocks, _WIDTH)), filled, order, np.ones(1, dtype=np.int64))
        if old is not None:
            for mine, its in zip(new, old, strict=True):
                mine[: len(its)] = its
        return new


@njit
def insert(sorted_values: SortedValues, value: float) -> None:
    """Put in a value: O(log n + width), and O(n / width) where a block is split."""
    values, filled, order, used = sorted_values
    low, high = 0, used[0] - 1
    while low < high:  # the last block that begins at or below the value
        middle = (low + high + 1) // 2
        if values[order[middle], 0] <= value:
            low = middle
        else:
            high = middle - 1
    block = order[low]
    if filled[block] == _WIDTH:
        block = _split(values, filled, order, used, low, value)
    at = np.searchsorted(values[block, : filled[block]], value, side="right")
    for i in range(filled[block], at, -1):
        values[block, i] = values[block, i - 1]
    values[block, at] = value
    filled[block] += 1


@njit
def _split(
    values: FloatArray, filled: IntArray, order: IntArray, used: IntArray, place: int, value: float
) -> int:
    """Move the upper half of a full block to a new one; return the block for ``value``."""
    block, new, half = order[place], used[0], _WIDTH // 2
    values[new, :half] = values[block, half:]
    filled[block] = filled[new] = half
    for i in range(used[0], place + 1, -1):
        order[i] = order[i - 1]
    order[place + 1] = new
    used[0] += 1
    return int(new if values[new, 0] <= value else block)


@njit
def at_ranks(sorted_values: SortedValues, ranks: IntArray, out: Array) -> None:
    """Fill ``out`` with the values of ascending ``ranks``, counted from 0: O(n / width)."""
    values, filled, order, _ = sorted_values
    place, before = 0, 0
    for j in range(len(ranks)):
        while ranks[j] - before >= filled[order[place]]:
            before += filled[order[place]]
            place += 1
        out[j] = values[order[place], ranks[j] - before]
