"""ROC AUC of many ensembles at once, by the rank statistic on integer keys.

An ensemble's prediction for a record is the mean of its members' probabilities, weighted by how
often each is picked. Ranks do not change when that is multiplied by the sum of multiplicities, so a
record's key is the sum of its members' probabilities in fixed point, times two, plus its label:
one sort of 32-bit integers ranks the records, and the lowest bit tells the positives. Integer sums
are exact and free of order, so a key may be built from any common part: neither the batch nor the
worker changes a bit of the result.

Fixed point may tie or swap records whose predictions are closer than its rounding. How many pairs
that concerns at most is seen in the sorted keys; a row where it could matter is ranked in floating
point instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from algorithms.ensembling.kernels.multiplicities import (
    Multiplicities,
    add_up,
    fill,
    multiplicities_of,
    remainder,
    shared,
    totals_of,
)
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray
from framework.jit import njit

BITS = 22
"""Of the fraction: a probability is held to 2^-23."""

MAX_TOTAL = 511
"""Sum of multiplicities at which a key still fits 32 bits; beyond, ranks are in floating point."""

TOLERANCE = 1e-5
"""How far :func:`auc` may be from :func:`exact_auc`."""

_BLOCK_BYTES = 400_000  # keys sorted at a time: they stay in the second-level cache
_PIECE = 4096  # records a partial rank sum; its 32-bit integers cannot overflow


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
    _, error = _blocks(
        table, multiplicities_of(np.eye(len(P), dtype=np.int32)), np.ones(len(P), np.int64)
    )
    return table._replace(doubtful=error > TOLERANCE)


def auc(table: RankTable, multiplicities: Multiplicities) -> FloatArray:
    """Return the AUC of each row, macro-averaged over one-versus-rest, shape (n,).

    Returns
    -------
    numpy.ndarray of float64, shape (n,)
        Within :data:`TOLERANCE` of :func:`exact_auc`, whatever the predictions. NaN where no class
        has both positives and negatives.

    Notes
    -----
    O(N (members + log N)) per row and class. What all rows have in common is summed once, so a
    batch of "parent and one more" costs one addition per record and row. Rows that
    sum to more than :data:`MAX_TOTAL` or have ``doubtful`` members alone, and those whose sorted
    keys leave the order of too many pairs open, go to :func:`exact_auc`.
    """
    totals = totals_of(multiplicities.counts, multiplicities.starts)
    exactly = _all_doubtful(multiplicities.models, multiplicities.starts, table.doubtful) | (
        totals > MAX_TOTAL
    )
    if not exactly.any():
        out, error = _blocks(table, multiplicities, totals)
    else:
        rows = np.flatnonzero(~exactly)
        out, error = np.full(multiplicities.n, np.nan), np.zeros(multiplicities.n)
        if len(rows):
            out[rows], error[rows] = _blocks(table, multiplicities.take(rows), totals[rows])
    exactly |= error > TOLERANCE
    if exactly.any():
        rows = np.flatnonzero(exactly)
        out[rows] = exact_auc(table, multiplicities.take(rows))
    return out


def exact_auc(table: RankTable, multiplicities: Multiplicities) -> FloatArray:
    """Return what :func:`auc` does without its rounding: sums of float32 in float64, shape (n,).

    Sums that differ in the last bit of a float64 alone count as equal.

    Notes
    -----
    About half the speed of :func:`auc`.
    """
    wins = np.empty((len(table.labels), multiplicities.n), dtype=np.int64)
    for c, labels in enumerate(table.labels):
        for start, keys in ordering_keys(table, c, multiplicities):
            keys |= labels
            keys.sort(axis=1)
            _twice_wins(keys, wins[c, start : start + len(keys)])
    return _mean(table, wins)


def ordering_keys(
    table: RankTable, c: int, multiplicities: Multiplicities
) -> Iterator[tuple[int, WordArray]]:
    """Yield keys of some rows at a time, and the first row's number, that order the records.

    By the probability of one class, in float64. Equal ones are equal; the lowest bit is 0. Keys,
    uint64 (rows, N), are overwritten by the next.
    """
    records = table.labels.shape[1]
    block = max(1, _BLOCK_BYTES // (8 * records))
    keys = np.empty((min(block, multiplicities.n), records), dtype=np.uint64)
    for start in range(0, multiplicities.n, block):
        stop = min(start + block, multiplicities.n)
        held = keys[: stop - start]
        _fill_exact(
            table.exact[c],
            multiplicities.models,
            multiplicities.counts,
            multiplicities.starts[start : stop + 1],
            held.view(np.float64),
        )
        held &= ~np.uint64(1)
        yield start, held


def _blocks(
    table: RankTable, multiplicities: Multiplicities, totals: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the AUC of rows whose keys fit 32 bits, and how far rounding moves it at most."""
    classes, models, records = table.keys.shape
    block = max(1, _BLOCK_BYTES // (4 * records))
    base = shared(*multiplicities, models)
    rest, counts, starts = remainder(*multiplicities, base)
    common = np.empty((classes, records), dtype=np.uint32)
    for c in range(classes):
        add_up(table.keys[c], base, table.labels[c], common[c])
    keys = np.empty((min(block, multiplicities.n), records), dtype=np.uint32)
    wins = np.empty((classes, multiplicities.n), dtype=np.int64)
    open_pairs = np.empty((classes, multiplicities.n), dtype=np.int64)
    few = (TOLERANCE * table.positives * (records - table.positives)).astype(np.int64)
    for start in range(0, multiplicities.n, block):
        stop = min(start + block, multiplicities.n)
        held = keys[: stop - start]
        for c in range(classes):
            fill(table.keys[c], rest, counts, starts[start : stop + 1], common[c], held)
            held.sort(axis=1)
            _twice_wins(held, wins[c, start:stop])
            _open_pairs(held, totals[start:stop], few[c], open_pairs[c, start:stop])
    return _mean(table, wins), _mean(table, 2 * open_pairs)


def _mean(table: RankTable, wins: IntArray) -> FloatArray:
    """Return the mean over classes of wins over pairs; ``wins`` (R, n) count twice."""
    if len(wins) == 0:
        return np.full(wins.shape[1], np.nan)
    pairs = 2 * table.positives * (table.labels.shape[1] - table.positives)
    total = wins[0] / pairs[0]
    for c in range(1, len(wins)):
        total += wins[c] / pairs[c]
    return np.asarray(total / len(wins))


@njit
def _all_doubtful(models: IntArray, starts: IntArray, doubtful: BoolArray) -> BoolArray:
    """Return of each row whether its members are all doubtful."""
    every = np.ones(len(starts) - 1, dtype=np.bool_)
    for i in range(len(every)):
        for at in range(starts[i], starts[i + 1]):
            every[i] &= doubtful[models[at]]
    return every


@njit
def _fill_exact(
    P: Array, models: IntArray, counts: IntArray, starts: IntArray, out: FloatArray
) -> None:
    """Set each row of ``out`` (rows, N) to the weighted sum of its members' probabilities."""
    for r in range(out.shape[0]):
        row = out[r]
        row[:] = 0.0
        for at in range(starts[r], starts[r + 1]):
            count, one = np.float64(counts[at]), P[models[at]]
            for i in range(len(row)):
                row[i] += count * np.float64(one[i])


@njit
def _twice_wins(keys: Array, out: IntArray) -> None:
    """Count, for rows of sorted keys (rows, N), twice the pairs that the positive wins.

    The positive of a pair with equal predictions comes second, so the ranks alone count it as a
    win; it is half of one.
    """
    records = keys.shape[1]
    for r in range(keys.shape[0]):
        row = keys[r]
        ranks, positives, tied = np.int64(0), np.int64(0), np.int64(0)
        for start in range(0, records, _PIECE):
            piece = row[start : start + _PIECE]
            rank_sum, count, ties = np.uint32(0), np.uint32(0), np.uint32(0)
            for i in range(len(piece)):
                label = np.uint32(piece[i]) & np.uint32(1)
                rank_sum += np.uint32(label * np.uint32(i))
                count += label
            follower = row[start + 1 : start + 1 + _PIECE]
            for i in range(len(follower)):
                ties += np.uint32((piece[i] ^ follower[i]) == 1)
            ranks += np.int64(rank_sum) + np.int64(start) * np.int64(count)
            positives += np.int64(count)
            tied += np.int64(ties)
        wins = 2 * ranks - positives * (positives - 1)
        if tied:
            wins -= _tied_pairs(row)
        out[r] = wins


@njit
def _tied_pairs(row: WordArray) -> int:
    """Count the pairs of a positive and a negative with equal predictions in sorted keys (N,)."""
    pairs = 0
    i, records = 0, len(row)
    while i < records - 1:
        if row[i] ^ row[i + 1] != 1:
            i += 1
            continue
        negatives, positives = 1, 0
        while i - negatives >= 0 and row[i - negatives] == row[i]:
            negatives += 1
        i += 1
        while i + positives < records and row[i + positives] == row[i]:
            positives += 1
        pairs += negatives * positives
        i += positives
    return pairs


@njit
def _open_pairs(keys: WordArray, totals: IntArray, few: int, out: IntArray) -> None:
    """Count, for rows of sorted keys (rows, N), pairs whose order rounding may have changed.

    Each model added moves a record by half a unit at most, two records towards each other by one.
    A pair of a positive and a negative counts where no greater gap lies between the two: in a run
    of close records. Where so much can be seen without a look at each run, that they are no more
    than ``few``, the count is above the true one: as if all runs of three and more were one.
    """
    records = keys.shape[1]
    for r in range(len(out)):
        row, after, reach = keys[r], keys[r, 1:], np.uint32(2 * totals[r] + 1)
        mixed, inner = np.uint32(0), np.uint32(0)  # close neighbours; records between two
        for i in range(records - 2):
            near = np.uint32(np.uint32(after[i] - row[i]) <= reach)
            mixed += np.uint32(near & (row[i] ^ after[i]))
            inner += np.uint32(near & np.uint32(np.uint32(after[i + 1] - after[i]) <= reach))
        if after[records - 2] - row[records - 2] <= reach:
            mixed += np.uint32((row[records - 2] ^ after[records - 2]) & np.uint32(1))
        out[r] = mixed
        if mixed and inner:
            out[r] += (np.int64(inner) + 2) ** 2 // 4
            if out[r] > few:
                out[r] = _pairs_in_runs(row, reach)


@njit
def _pairs_in_runs(row: WordArray, reach: np.uint32) -> int:
    """Count the pairs of a positive and a negative in runs of sorted keys (N,) without a gap."""
    pairs, size, positives = 0, 0, 0
    for i in range(len(row)):
        if i and row[i] - row[i - 1] > reach:
            pairs += positives * (size - positives)
            size, positives = 0, 0
        size += 1
        positives += int(row[i] & np.uint32(1))
    return pairs + positives * (size - positives)
