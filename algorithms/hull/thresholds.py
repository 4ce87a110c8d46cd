"""Thresholds of networks as genes: how many of the records searched are called positive."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, IntArray

_ALL = np.finfo(np.float32).max  # beyond each margin, and finite, as files want numbers


class Thresholds:
    """So many thresholds, evenly spread over the ranks of a network's margins.

    Number 0 calls each record positive and the last one none; number j calls a share of
    ``j / (count - 1)`` of the records searched negative, those of the least margins. So each
    network has thresholds that fit its own margins.

    Parameters
    ----------
    count : int
        0 for none: a record is positive where its margin is above 0.
    coded : bool
        Whether a number is a Gray code of bits, so that the next one is a flip away, or one gene;
        ``count`` is a power of two then.

    Attributes
    ----------
    count, genes : int
        How many there are, and how many genes say which.
    """

    def __init__(self, count: int, *, coded: bool) -> None:
        self.count, self._coded = count, coded
        self.genes = (count.bit_length() - 1 if coded else 1) if count else 0

    def rows(self) -> Array:
        """Return the genes of each threshold, int64 (count, genes), in order of their number."""
        numbers = np.arange(self.count)[:, np.newaxis]
        if not self._coded:
            return numbers
        return np.asarray((numbers ^ numbers >> 1) >> np.arange(self.genes)[::-1] & 1)

    def numbers(self, genes: Array) -> IntArray:
        """Return the number, int64 (n,), of genes (n, genes)."""
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
            Of the records searched.

        Returns
        -------
        float32 (n,)
            Half way between two neighbours in rank. Of equal margins none is above it.
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
