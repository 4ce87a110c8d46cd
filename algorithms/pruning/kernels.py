"""Counting votes on merged patterns: loops over 64-bit words.

A pattern is the set of classifiers that vote positive on a record, as the bits of its words.
"""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, WordArray
from framework.jit import njit


@njit
def popcount(word: np.uint64) -> int:
    """Return the number of ones in a word."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit
def histograms(patterns: WordArray, records: IntArray, members: WordArray) -> IntArray:
    """Count records by class and by votes that they get.

    Parameters
    ----------
    patterns : numpy.ndarray of uint64, shape (P, words)
    records : numpy.ndarray of int64, shape (P, 2)
        Negative and positive records of each pattern.
    members : numpy.ndarray of uint64, shape (n, words)
        A row an ensemble.

    Returns
    -------
    numpy.ndarray of int64, shape (n, 2, K + 1) where K is 64 times the words
        ``[r, c, v]``: records of class ``c`` with ``v`` votes of ensemble ``r``.

    Notes
    -----
    O(n P words). All thresholds follow from it: those above L votes are called positive.
    """
    words = patterns.shape[1]
    out = np.zeros((len(members), 2, 64 * words + 1), dtype=np.int64)
    for r in range(len(members)):
        for p in range(len(patterns)):
            votes = 0
            for w in range(words):
                votes += popcount(patterns[p, w] & members[r, w])
            out[r, 0, votes] += records[p, 0]
            out[r, 1, votes] += records[p, 1]
    return out


@njit
def called_positive(
    patterns: WordArray, records: IntArray, members: WordArray, thresholds: IntArray
) -> IntArray:
    """Count the records with more votes than the threshold, by class.

    Parameters
    ----------
    patterns, records, members :
        As for :func:`histograms`.
    thresholds : numpy.ndarray of int64, shape (n,)

    Returns
    -------
    numpy.ndarray of int64, shape (n, 2)
        False positives and true positives of each ensemble.
    """
    words = patterns.shape[1]
    out = np.zeros((len(members), 2), dtype=np.int64)
    for r in range(len(members)):
        for p in range(len(patterns)):
            votes = 0
            for w in range(words):
                votes += popcount(patterns[p, w] & members[r, w])
            if votes > thresholds[r]:
                out[r, 0] += records[p, 0]
                out[r, 1] += records[p, 1]
    return out


@njit
def pair_credits(credit: FloatArray, X: Array) -> FloatArray:
    """Return the least and the mean pairwise failure credit of ensembles.

    Parameters
    ----------
    credit : numpy.ndarray of float64, shape (K, K)
    X : numpy.ndarray of int, shape (n, K)
        A row an ensemble, 1 for a member.

    Returns
    -------
    numpy.ndarray of float64, shape (n, 2)
        Zeros for ensembles of one.
    """
    out = np.zeros((len(X), 2))
    for r in range(len(X)):
        members = np.flatnonzero(X[r])
        if len(members) < 2:
            continue
        least, total = np.inf, 0.0
        for k in members:
            own = 0.0
            for other in members:
                if other != k:
                    own += credit[k, other]
            least, total = min(least, own), total + own
        out[r, 0] = min(least / (len(members) - 1), 1.0)
        out[r, 1] = min(total / (len(members) * (len(members) - 1)), 1.0)
    return out


@njit
def sums(costs: FloatArray, X: Array) -> FloatArray:
    """Add up each member's costs in the order of the members: (n, costs) of (K, costs), (n, K)."""
    out = np.zeros((len(X), costs.shape[1]))
    for r in range(len(X)):
        for k in range(X.shape[1]):
            if X[r, k] > 0:
                for c in range(costs.shape[1]):
                    out[r, c] += costs[k, c]
    return out
