"""ROC AUC of many ensembles at once, by the rank statistic on integer keys.

An ensemble's prediction for a record is the mean of its members' probabilities, weighted by how
often each is picked. Ranks do not change when that is multiplied by the number of picks, so a
record's key is the sum of its members' probabilities in fixed point, times two, plus its label:
one sort of 32-bit integers ranks the records, and the lowest bit tells the positives. Integer sums
are exact and free of order, so a key may be built from any common part: neither the batch nor the
worker changes a bit of the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.ensembling.kernels.picks import Picks, picks_of, shared
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray
from framework.jit import njit

BITS = 22
"""Of the fraction: a probability is held to 2^-23."""

MOST_PICKS = 511
"""Picks at which a key still fits 32 bits; rows with more of them lose bits of the fraction."""

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
    coarse : numpy.ndarray of bool, shape (K,)
        Models whose own AUC fixed point does not give: probabilities crowded at 0 or 1.
    """

    keys: Array
    labels: Array
    positives: IntArray
    exact: Array
    coarse: Array


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
        for j in range(len(P)):  # a row at a time: float64 takes room
            keys[c, j] = 2 * np.rint(np.clip(exact[c, j], 0.0, 1.0) * np.float64(2**BITS))
    positives = labels.sum(axis=1, dtype=np.int64)
    table = RankTable(keys, labels, positives, exact, np.zeros(len(P), dtype=bool))
    singles = picks_of(np.eye(len(P), dtype=np.int32))
    coarse = np.abs(auc(table, singles) - exact_auc(table, singles)) > 1e-5
    return table._replace(coarse=coarse)


def auc(table: RankTable, picks: Picks) -> FloatArray:
    """Return the AUC of each row of picks, macro-averaged over one-versus-rest, shape (n,).

    Returns
    -------
    numpy.ndarray of float64, shape (n,)
        Exact for predictions rounded to 2^-22: two records closer than that may count as a tie, or
        change places. Rows whose members are all ``coarse`` go to :func:`exact_auc`. NaN where no
        class has both positives and negatives.

    Notes
    -----
    O(N (members + log N)) a row and class. What all rows have in common is summed once, so a
    batch of "parent and one more" costs one addition a record and row.
    """
    totals, crowded = _sizes(*picks, table.coarse)
    unusual = crowded | (totals > MOST_PICKS)
    if not unusual.any():
        return _blocks(table, picks)
    out = np.empty(picks.n)
    usual = np.flatnonzero(~unusual)
    if len(usual):
        out[usual] = _blocks(table, picks.take(usual))
    if crowded.any():
        out[crowded] = exact_auc(table, picks.take(np.flatnonzero(crowded)))
    for i in np.flatnonzero(unusual & ~crowded).tolist():
        shift = int(np.ceil(np.log2(totals[i] / MOST_PICKS)))
        out[i] = _coarser(table, picks.take([i]), shift)
    return out


def exact_auc(table: RankTable, picks: Picks) -> FloatArray:
    """Return what :func:`auc` does without its rounding: sums of float32 in float64, shape (n,).

    Sums that differ in the last bit of a float64 alone count as equal.

    Notes
    -----
    About half the speed of :func:`auc`.
    """
    classes, _, records = table.keys.shape
    block = max(1, _BLOCK_BYTES // (8 * records))
    keys = np.empty((min(block, picks.n), records), dtype=np.uint64)
    wins = np.empty((classes, picks.n), dtype=np.int64)
    for start in range(0, picks.n, block):
        stop = min(start + block, picks.n)
        held = keys[: stop - start]
        for c in range(classes):
            _fill_exact(
                table.exact[c],
                picks.models,
                picks.counts,
                picks.starts[start : stop + 1],
                held.view(np.float64),
            )
            held &= ~np.uint64(1)
            held |= table.labels[c]
            held.sort(axis=1)
            _twice_wins(held, wins[c, start:stop])
    return _mean(table, wins)


def _blocks(table: RankTable, picks: Picks) -> FloatArray:
    """Return the AUC of rows whose keys fit 32 bits."""
    classes, models, records = table.keys.shape
    block = max(1, _BLOCK_BYTES // (4 * records))
    base = shared(*picks, models)
    rest, counts, starts = _remainder(*picks, base)
    common = np.empty((classes, records), dtype=np.uint32)
    for c in range(classes):
        _add_up(table.keys[c], base, table.labels[c], common[c])
    keys = np.empty((min(block, picks.n), records), dtype=np.uint32)
    wins = np.empty((classes, picks.n), dtype=np.int64)
    for start in range(0, picks.n, block):
        stop = min(start + block, picks.n)
        held = keys[: stop - start]
        for c in range(classes):
            _fill(table.keys[c], rest, counts, starts[start : stop + 1], common[c], held)
            held.sort(axis=1)
            _twice_wins(held, wins[c, start:stop])
    return _mean(table, wins)


def _mean(table: RankTable, wins: IntArray) -> FloatArray:
    """Return the mean over classes of wins over pairs; ``wins`` (R, n) count twice."""
    if len(wins) == 0:
        return np.full(wins.shape[1], np.nan)
    pairs = 2 * table.positives * (table.labels.shape[1] - table.positives)
    total = wins[0] / pairs[0]
    for c in range(1, len(wins)):
        total += wins[c] / pairs[c]
    return np.asarray(total / len(wins))


def _coarser(table: RankTable, row: Picks, shift: int) -> float:
    """Return the AUC of one row, from keys with ``shift`` fewer bits of the fraction."""
    classes, _, records = table.keys.shape
    keys = np.empty((1, records), dtype=np.uint32)
    wins = np.empty((classes, 1), dtype=np.int64)
    for c in range(classes):
        _fill_coarser(table.keys[c], row.models, row.counts, table.labels[c], shift, keys[0])
        keys.sort(axis=1)
        _twice_wins(keys, wins[c])
    return float(_mean(table, wins)[0])


@njit
def _sizes(
    models: IntArray, counts: IntArray, starts: IntArray, coarse: BoolArray
) -> tuple[IntArray, BoolArray]:
    """Return the number of picks of each row, and whether its members are all coarse."""
    totals = np.zeros(len(starts) - 1, dtype=np.int64)
    crowded = np.ones(len(starts) - 1, dtype=np.bool_)
    for i in range(len(totals)):
        for at in range(starts[i], starts[i + 1]):
            totals[i] += counts[at]
            crowded[i] &= coarse[models[at]]
    return totals, crowded


@njit
def _remainder(
    models: IntArray, counts: IntArray, starts: IntArray, base: IntArray
) -> tuple[IntArray, Array, IntArray]:
    """Return what each row picks beyond ``base``, rows end to end."""
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
def _add_up(keys: Array, x: Array, first: Array, out: Array) -> None:
    """Set ``out`` (N,) to ``first`` plus the keys of one row of counts."""
    out[:] = first
    for j in range(len(x)):
        if x[j] != 0:
            count = np.uint32(x[j])
            for i in range(len(out)):
                out[i] += count * keys[j, i]


@njit
def _fill(
    keys: Array, models: IntArray, counts: Array, starts: IntArray, common: Array, out: Array
) -> None:
    """Set each row of ``out`` (rows, N) to the common keys plus those of its further picks."""
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


@njit
def _fill_coarser(
    keys: Array, models: IntArray, counts: IntArray, first: Array, shift: int, out: Array
) -> None:
    """Set ``out`` (N,) to ``first`` plus the keys of a row's picks, rounded."""
    half = np.uint32(1 << (shift - 1))
    out[:] = first
    for at in range(len(models)):
        count, one = np.uint32(counts[at]), keys[models[at]]
        for i in range(len(out)):
            out[i] += count * (
                ((one[i] >> np.uint32(1)) + half >> np.uint32(shift)) << np.uint32(1)
            )


@njit
def _fill_exact(
    P: Array, models: IntArray, counts: IntArray, starts: IntArray, out: FloatArray
) -> None:
    """Set each row of ``out`` (rows, N) to the sum of its picks' probabilities."""
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
