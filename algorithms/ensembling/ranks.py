"""ROC AUC of many ensembles at once, by the ranks of whole-number keys.

Ranks do not change when a mean is multiplied by the number of picks, so a record's key is the sum
of its members' probabilities in fixed point, times two, plus its label: one sort of 32-bit integers
ranks the records, and the lowest bit tells the positives.

Fixed point may tie or swap records whose predictions are closer than its rounding. How many pairs
that concerns at most is seen in the sorted keys; a row where it could matter is ranked by sums in
floating point instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from algorithms.ensembling.means import add_members, blocks
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray
from framework.jit import njit

BITS = 22
"""Of the fraction: a probability is held to 2^-23."""

MAX_TOTAL = 511
"""Picks up to which a key fits 32 bits; of rows with more, sums in floating point are ranked."""

TOLERANCE = 1e-5
"""How far :func:`auc` may be from :func:`exact_auc`."""


class RankTable(NamedTuple):
    """Predictions of ``K`` models on ``N`` records, ready for :func:`auc`.

    Attributes
    ----------
    keys : numpy.ndarray of uint32, shape (R, K, N)
        Twice the probability in fixed point, for each of ``R`` classes against the rest.
    labels : numpy.ndarray of uint32, shape (R, N)
        1 where a record is of that class.
    positives : numpy.ndarray of int64, shape (R,)
    exact : numpy.ndarray of float32, shape (R, K, N)
        The probabilities.
    doubtful : numpy.ndarray of bool, shape (K,)
        Models whose own ranks fixed point does not confirm: few values, or crowded ones.
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
    Classes that ``y`` lacks are dropped: the mean over the rest has no value for them. So is a
    class that has every record.
    """
    y = np.asarray(y)
    tables = [(P, y == 1)] if P.ndim == 2 else [(P[:, :, c], y == c) for c in range(P.shape[2])]
    tables = [(p, positive) for p, positive in tables if 0 < positive.sum() < len(y)]
    labels = np.array([positive for _, positive in tables], dtype=np.uint32).reshape(-1, len(y))
    exact = np.empty((len(tables), len(P), len(y)), dtype=np.float32)
    keys = np.empty(exact.shape, dtype=np.uint32)
    for c, (p, _) in enumerate(tables):
        exact[c] = p
        for j in range(len(P)):  # one row at a time: float64 takes room
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
        Within :data:`TOLERANCE` of :func:`exact_auc`, whatever the predictions. NaN where no class
        has both positives and negatives.

    Notes
    -----
    O(N (members + log N)) per row and class. Rows of more than :data:`MAX_TOTAL` picks or of
    ``doubtful`` members alone, and those whose sorted keys leave the order of too many pairs open,
    go to :func:`exact_auc`.
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
    """Return what :func:`auc` does without its rounding: sums of float32 in float64, shape (n,).

    Sums that differ in the last bit of a float64 alone count as equal.
    """
    return _ranked(table, X, exact=True)[0]


def _ranked(table: RankTable, X: Array, exact: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the AUC of rows, and how far the rounding of keys moves it at most, (n,) each."""
    twice_wins, open_pairs = np.zeros((2, len(table.labels), len(X)), dtype=np.int64)
    reach = (2 * X.sum(axis=1, keepdims=True) + 1).astype(np.uint32)
    for c, labels in enumerate(table.labels):
        count = int(table.positives[c])
        for some, keys in _ordering_keys(table, c, X, exact):
            n, records = keys.shape
            keys |= labels
            keys.sort(axis=1)
            positives = np.flatnonzero((keys & keys.dtype.type(1)).astype(bool))
            starts = np.arange(n) * records * count
            ranks = positives.reshape(n, count).sum(axis=1) - starts
            # each pick moves a record by half a unit at most, and the other of a pair, too
            close = _close(keys, reach[some] if not exact else np.ones((n, 1), keys.dtype))
            tied = close[keys.ravel()[close] ^ keys.ravel()[close + 1] <= 1]
            # of a pair with equal predictions the positive comes second: half a win, not one
            half = _pairs(tied, positives, keys.shape)
            twice_wins[c, some] = 2 * ranks - count * (count - 1) - half
            if not exact:
                open_pairs[c, some] = _pairs(close, positives, keys.shape)
    return _mean(table, twice_wins), _mean(table, 2 * open_pairs)


def _ordering_keys(
    table: RankTable, c: int, X: Array, exact: bool
) -> Iterator[tuple[slice, Array]]:
    """Yield keys (rows, N), whose lowest bit is 0, that order the records by one class.

    In fixed point as uint32; exact ones are the bits of a float64 of at least 0.
    """
    P, kind = (table.exact[c], np.float64) if exact else (table.keys[c], np.uint32)
    for some in blocks(len(X), np.dtype(kind).itemsize * P.shape[1]):
        sums = add_members(X[some], P, kind)
        yield some, sums.view(np.uint64) & ~np.uint64(1) if exact else sums


def _close(keys: Array, reach: Array) -> IntArray:
    """Return the places among all sorted keys (n, N) that the next of a row is in reach of."""
    close = np.flatnonzero(keys[:, 1:] - keys[:, :-1] <= reach)
    return np.asarray(close + close // (keys.shape[1] - 1))


def _pairs(close: IntArray, positives: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Count the pairs of a positive and a negative in runs of close records, of each row (n,).

    Places, ascending, are among all n * N records in order: ``close`` to the next one, and those of
    ``positives``.
    """
    if not len(close):
        return np.zeros(shape[0], dtype=np.int64)
    apart = np.diff(close) > 1
    first, last = close[np.append(True, apart)], close[np.append(apart, True)] + 1
    inside = np.searchsorted(positives, last, "right") - np.searchsorted(positives, first)
    pairs = inside * (last - first + 1 - inside)
    return np.bincount(first // shape[1], weights=pairs, minlength=shape[0]).astype(np.int64)


def _mean(table: RankTable, wins: IntArray) -> FloatArray:
    """Return the mean over classes of wins over pairs; ``wins`` (R, n) count twice."""
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
        That of :func:`exact_auc` of records repeated so often, to the bit while there are fewer
        than 2^52 pairs. A class without positives or negatives has no part in the mean; NaN where
        no class has both.

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
        for some, keys in _ordering_keys(table, c, X, exact=True):
            order = np.argsort(keys, axis=1, kind="stable")
            wins = np.zeros((len(keys), weights.shape[1]))
            _weighted_wins(keys, order, positive, weights, wins)
            total[some] += np.divide(wins, pairs, out=np.zeros_like(wins), where=pairs > 0)
        defined += pairs > 0
    return np.asarray(
        np.divide(total, defined, out=np.full(total.shape, np.nan), where=defined > 0)
    )


@njit
def _weighted_wins(
    keys: WordArray, order: IntArray, positive: BoolArray, weights: Array, out: FloatArray
) -> None:
    """Add to ``out`` (n, b) twice the weight of pairs that the positive wins; of ties once."""
    records, columns = weights.shape
    below, same, ours = np.empty(columns), np.empty(columns), np.empty(columns)
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
