"""ROC AUC of many ensembles at once, by the ranks of whole-number keys.

Ranks do not change when a mean is multiplied by the number of picks. So a record's key is the sum
of its members' probabilities in fixed point, times two, plus its label: one sort of 32-bit integers
ranks the records, and the lowest bit tells which are positive.

Fixed point may tie or swap records whose predictions are closer than its rounding. The sorted keys
show how many pairs may be concerned. A row where that could matter is ranked by sums in floating
point instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from algorithms.ensembling.means import add_members, blocks
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray
from framework.jit import njit

BITS = 22
"""Bits of a fraction: a probability is rounded by at most 2^-23."""

MAX_TOTAL = 511
"""Greatest number of picks with which keys fit into 32 bits; rows with more are ranked exactly."""

TOLERANCE = 1e-5
"""How far :func:`auc` may be from :func:`exact_auc`."""


class RankTable(NamedTuple):
    """Predictions of ``K`` models on ``N`` records, ready for :func:`auc`.

    Attributes
    ----------
    keys : numpy.ndarray of uint32, shape (R, K, N)
        Twice the probability in fixed point, for each of ``R`` classes against the rest.
    labels : numpy.ndarray of uint32, shape (R, N)
        1 if a record is of that class.
    positives : numpy.ndarray of int64, shape (R,)
        Number of these records.
    exact : numpy.ndarray of float32, shape (R, K, N)
        The probabilities.
    doubtful : numpy.ndarray of bool, shape (K,)
        Models that fixed point cannot rank records by: they have few values, or crowded ones.
    """

    keys: Array
    labels: Array
    positives: IntArray
    exact: Array
    doubtful: Array


def rank_table(P: Array, y: Array) -> RankTable:
    """Prepare predictions for :func:`auc`.

    Parameters
    ----------
    P : numpy.ndarray of float, shape (K, N) or (K, N, C)
        Probability of the second class, or of each class.
    y : numpy.ndarray of int, shape (N,)
        Index of each record's class.

    Notes
    -----
    A class without any record, or with every record, is left out: it has no AUC.
    """
    y = np.asarray(y)
    tables = [(P, y == 1)] if P.ndim == 2 else [(P[:, :, c], y == c) for c in range(P.shape[2])]
    tables = [(p, positive) for p, positive in tables if 0 < positive.sum() < len(y)]
    labels = np.array([positive for _, positive in tables], dtype=np.uint32).reshape(-1, len(y))
    exact = np.empty((len(tables), len(P), len(y)), dtype=np.float32)
    keys = np.empty(exact.shape, dtype=np.uint32)
    for c, (p, _) in enumerate(tables):
        exact[c] = p
        for j in range(len(P)):  # one row at a time: float64 takes memory
            keys[c, j] = 2 * np.rint(np.clip(exact[c, j], 0.0, 1.0) * np.float64(2**BITS))
    positives = labels.sum(axis=1, dtype=np.int64)
    table = RankTable(keys, labels, positives, exact, np.zeros(len(P), dtype=bool))
    _, error = _ranked(table, np.eye(len(P), dtype=np.int32))
    return table._replace(doubtful=error > TOLERANCE)


def auc(table: RankTable, X: Array) -> FloatArray:
    """Return the AUC of rows of counts (n, K), macro-averaged over one-versus-rest, shape (n,).

    Returns
    -------
    numpy.ndarray of float64, shape (n,)
        Within :data:`TOLERANCE` of :func:`exact_auc`, whatever the predictions. NaN if no class
        has both positives and negatives.

    Notes
    -----
    O(N (members + log N)) per row and class. :func:`exact_auc` ranks the rows with more than
    :data:`MAX_TOTAL` picks, those with ``doubtful`` members only, and those whose sorted keys leave
    the order of too many pairs open.
    """
    exactly = X.sum(axis=1, dtype=np.int64) > MAX_TOTAL
    exactly |= ~(X[:, ~table.doubtful] > 0).any(axis=1)
    areas = np.empty(len(X))
    rows = np.flatnonzero(~exactly)
    areas[rows], error = _ranked(table, X[rows])
    exactly[rows] = error > TOLERANCE
    if exactly.any():
        areas[exactly] = exact_auc(table, X[exactly])
    return areas


def exact_auc(table: RankTable, X: Array) -> FloatArray:
    """Return the AUC without the rounding of :func:`auc`, from sums of float32 in float64, (n,).

    Sums that differ only in the last bit of a float64 count as equal.
    """
    return _ranked(table, X, exact=True)[0]


def _ranked(table: RankTable, X: Array, exact: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the AUC of rows, and the greatest change by the rounding of keys, (n,) each."""
    twice_wins, open_pairs = np.zeros((2, len(table.labels), len(X)), dtype=np.int64)
    reach = (2 * X.sum(axis=1, keepdims=True) + 1).astype(np.uint32)
    for c, labels in enumerate(table.labels):
        count = int(table.positives[c])
        for block, keys in _ordering_keys(table, c, X, exact):
            n, records = keys.shape
            keys |= labels
            keys.sort(axis=1)
            positives = np.flatnonzero((keys & keys.dtype.type(1)).astype(bool))
            starts = np.arange(n) * records * count
            ranks = positives.reshape(n, count).sum(axis=1) - starts
            # rounding moves each record of a pair by at most half a unit for each pick
            close = _close(keys, reach[block] if not exact else np.ones((n, 1), keys.dtype))
            tied = close[keys.ravel()[close] ^ keys.ravel()[close + 1] <= 1]
            # in a pair with equal predictions the positive is sorted last: a win, but counts half
            half = _pairs(tied, positives, keys.shape)
            twice_wins[c, block] = 2 * ranks - count * (count - 1) - half
            if not exact:
                open_pairs[c, block] = _pairs(close, positives, keys.shape)
    return _mean(table, twice_wins), _mean(table, 2 * open_pairs)


def _ordering_keys(
    table: RankTable, c: int, X: Array, exact: bool
) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows and their keys (rows, N), which order the records by class ``c``.

    The lowest bit of a key is 0. Keys are fixed-point numbers as uint32; exact ones are the bits
    of a float64, which are ordered as the numbers are, since none is negative.
    """
    P, kind = (table.exact[c], np.float64) if exact else (table.keys[c], np.uint32)
    for block in blocks(len(X), np.dtype(kind).itemsize * P.shape[1]):
        sums = add_members(X[block], P, kind)
        yield block, sums.view(np.uint64) & ~np.uint64(1) if exact else sums


def _close(keys: Array, reach: Array) -> IntArray:
    """Return the flat positions in sorted keys (n, N) whose next key in the row is in reach."""
    close = np.flatnonzero(keys[:, 1:] - keys[:, :-1] <= reach)
    return np.asarray(close + close // (keys.shape[1] - 1))


def _pairs(close: IntArray, positives: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Count the pairs of a positive and a negative within runs of close records, for each row (n,).

    ``close`` and ``positives`` are ascending flat positions in the sorted keys, of ``shape``: those
    close to the next position, and those of positive records.
    """
    if not len(close):
        return np.zeros(shape[0], dtype=np.int64)
    apart = np.diff(close) > 1
    first, last = close[np.append(True, apart)], close[np.append(apart, True)] + 1
    inside = np.searchsorted(positives, last, "right") - np.searchsorted(positives, first)
    pairs = inside * (last - first + 1 - inside)
    return np.bincount(first // shape[1], weights=pairs, minlength=shape[0]).astype(np.int64)


def _mean(table: RankTable, wins: IntArray) -> FloatArray:
    """Return the mean over classes of wins divided by pairs; a win counts 2 in ``wins`` (R, n)."""
    if len(wins) == 0:
        return np.full(wins.shape[1], np.nan)
    pairs = 2 * table.positives * (table.labels.shape[1] - table.positives)
    total = wins[0] / pairs[0]
    for c in range(1, len(wins)):
        total += wins[c] / pairs[c]
    return np.asarray(total / len(wins))


def weighted_auc(table: RankTable, X: Array, weights: Array) -> FloatArray:
    """Return the AUC of rows under weights, macro-averaged over one-versus-rest, shape (n, b).

    Parameters
    ----------
    table : RankTable
    X : numpy.ndarray, shape (n, K)
        Counts.
    weights : numpy.ndarray, shape (N, b)
        Whole numbers, 0 or more.

    Returns
    -------
    numpy.ndarray of float64, shape (n, b)
        As :func:`exact_auc` with each record repeated as often as its weight, to the bit if there
        are fewer than 2^52 pairs. A class without positives or negatives is left out of the mean;
        NaN if no class has both.

    Notes
    -----
    O(N (log N + b)) per row and class: records are sorted once, for all weights.
    """
    weights = np.ascontiguousarray(weights)
    everything = weights.sum(axis=0, dtype=np.float64)
    total, defined = np.zeros((len(X), weights.shape[1])), np.zeros(weights.shape[1])
    for c, labels in enumerate(table.labels):
        positive = labels == 1
        ones = weights[positive].sum(axis=0, dtype=np.float64)
        pairs = 2 * ones * (everything - ones)
        for block, keys in _ordering_keys(table, c, X, exact=True):
            order = np.argsort(keys, axis=1, kind="stable")
            wins = np.zeros((len(keys), weights.shape[1]))
            _weighted_wins(keys, order, positive, weights, wins)
            total[block] += np.divide(wins, pairs, out=np.zeros_like(wins), where=pairs > 0)
        defined += pairs > 0
    return np.asarray(
        np.divide(total, defined, out=np.full(total.shape, np.nan), where=defined > 0)
    )


@njit
def _weighted_wins(
    keys: WordArray, order: IntArray, positive: BoolArray, weights: Array, out: FloatArray
) -> None:
    """Add to ``out`` (n, b) twice the weight of the pairs that the positive wins, once of ties."""
    records, columns = weights.shape
    below = np.empty(columns)  # weight of the negatives with smaller keys
    same, ours = np.empty(columns), np.empty(columns)  # of negatives and positives with equal keys
    for r in range(len(out)):
        below[:] = 0.0
        row, at = out[r], 0
        while at < records:
            i = order[r, at]
            stop = at + 1
            while stop < records and keys[r, order[r, stop]] == keys[r, i]:
                stop += 1
            if stop == at + 1:
                some = weights[i]
                if positive[i]:
                    for b in range(columns):
                        row[b] += 2.0 * np.float64(some[b]) * below[b]
                else:
                    for b in range(columns):
                        below[b] += np.float64(some[b])
            else:
                same[:] = 0.0
                ours[:] = 0.0
                for place in range(at, stop):
                    i = order[r, place]
                    some = weights[i]
                    if positive[i]:
                        for b in range(columns):
                            ours[b] += np.float64(some[b])
                    else:
                        for b in range(columns):
                            same[b] += np.float64(some[b])
                for b in range(columns):
                    row[b] += ours[b] * (2.0 * below[b] + same[b])
                    below[b] += same[b]
            at = stop
