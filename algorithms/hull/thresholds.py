"""Thresholds of networks as genes: they fix the share of the search's records called positive."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, IntArray

_ALL = np.finfo(np.float32).max  # beyond every margin, and finite, so that files can hold it


class Thresholds:
    """A number of thresholds, spread evenly over the ranks of a network's margins.

    Number j calls negative a share of ``j / (count - 1)`` of the records of the search, those with
    the least margins: number 0 none, and the last number all. So the thresholds fit the margins of
    every network.

    Parameters
    ----------
    count : int
        Number of thresholds. With 0, a record is positive if its margin is above 0.
    coded : bool
        Whether the number of a threshold is a Gray code of bits, so that neighbouring numbers
        differ in one bit, rather than a single gene. ``count`` must then be a power of two.

    Attributes
    ----------
    count, genes : int
        Numbers of thresholds, and of genes that select one.
    """

    def __init__(self, count: int, *, coded: bool) -> None:
        self.count, self._coded = count, coded
        self.genes = (count.bit_length() - 1 if coded else 1) if count else 0

    def rows(self) -> Array:
        """Return the genes of each threshold, int64 (count, genes), in the order of the numbers."""
        numbers = np.arange(self.count)[:, np.newaxis]
        if not self._coded:
            return numbers
        return np.asarray((numbers ^ numbers >> 1) >> np.arange(self.genes)[::-1] & 1)

    def numbers(self, genes: Array) -> IntArray:
        """Return the numbers, int64 (n,), that genes (n, genes) select."""
        if not self._coded:
            return np.asarray(genes[:, 0], dtype=np.int64)
        bits = np.bitwise_xor.accumulate(np.asarray(genes, dtype=np.int64), axis=1)
        return np.asarray(bits @ (1 << np.arange(self.genes)[::-1]))

    def cuts(self, genes: Array, margins: Array) -> Array:
        """Return the margin above which a record is positive.

        Parameters
        ----------
        genes : numpy.ndarray, shape (n, genes)
        margins : numpy.ndarray of float32, shape (n, records)
            Margins of the records of the search.

        Returns
        -------
        float32 (n,)
            Halfway between two margins that are neighbours in rank; if they are equal, at them,
            which calls both negative.
        """
        if not self.count:
            return np.zeros(len(margins), dtype=np.float32)
        n, last, rows = margins.shape[1], self.count - 1, np.arange(len(margins))
        negative = (2 * self.numbers(genes) * n + last) // (2 * last)  # rounded
        ranked = np.sort(margins, axis=1)
        below = ranked[rows, np.maximum(negative - 1, 0)]
        above = ranked[rows, np.minimum(negative, n - 1)]
        cuts: Array = np.float32(0.5) * below + np.float32(0.5) * above
        cuts[negative == 0], cuts[negative == n] = -_ALL, _ALL
        return cuts
