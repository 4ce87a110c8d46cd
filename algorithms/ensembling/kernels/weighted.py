"""Scores of ensembles under many weights of the records: what resamples ask for.

Sums of whole numbers are exact. Others are added record by record, in the order of the records, so
that neither the number of threads nor the batch changes a bit.
"""

from __future__ import annotations

import numpy as np

from algorithms.ensembling.kernels.auc import RankTable, ordering_keys
from algorithms.ensembling.kernels.multiplicities import Multiplicities
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray
from framework.jit import njit

_PAIRS = 512  # products of two models' losses held at a time
_ONE = 2.0**31  # correlations in fixed point, as those of all records
_CONSTANT = 1e-6  # spread of a loss, relative to its size, that is rounding alone


def auc(table: RankTable, multiplicities: Multiplicities, weights: Array) -> FloatArray:
    """Return the AUC of rows under weights, macro-averaged over one-versus-rest, shape (n, b).

    Parameters
    ----------
    table : RankTable
    multiplicities : Multiplicities
    weights : numpy.ndarray, shape (N, b)
        Whole numbers, 0 or more.

    Returns
    -------
    numpy.ndarray of float64, shape (n, b)
        That of :func:`~algorithms.ensembling.kernels.auc.exact_auc` of records repeated so often,
        to the bit while there are fewer than 2^52 pairs. A class without positives or negatives
        has no part in the mean; NaN where no class has both.

    Notes
    -----
    O(N (log N + b)) per row and class: records are sorted once, for all weights.
    """
    weights = np.ascontiguousarray(weights)
    classes, (n, b) = len(table.labels), (multiplicities.n, weights.shape[1])
    everything = weights.sum(axis=0, dtype=np.float64)
    total, defined = np.zeros((n, b)), np.zeros(b)
    for c in range(classes):
        positive = table.labels[c] == 1
        ones = weights[positive].sum(axis=0, dtype=np.float64)
        pairs = 2 * ones * (everything - ones)
        for start, keys in ordering_keys(table, c, multiplicities):
            order = np.argsort(keys, axis=1, kind="stable")
            wins = np.zeros((len(keys), b))
            _twice_wins(keys, order, positive, weights, wins)
            part = total[start : start + len(keys)]
            part += np.divide(wins, pairs, out=np.zeros_like(wins), where=pairs > 0)
        defined += pairs > 0
    return np.asarray(np.divide(total, defined, out=np.full((n, b), np.nan), where=defined > 0))


@njit
def _twice_wins(
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


def sums_in_order(plane: FloatArray, weights: Array) -> FloatArray:
    """Return ``plane @ weights``, each sum in the order of the records, shape (n, b).

    Parameters
    ----------
    plane : numpy.ndarray of float64, shape (n, N)
    weights : numpy.ndarray, shape (N, b)
    """
    out = np.zeros((len(plane), weights.shape[1]))
    _sums_in_order(np.ascontiguousarray(plane), np.ascontiguousarray(weights), out)
    return out


@njit
def _sums_in_order(plane: FloatArray, weights: Array, out: FloatArray) -> None:
    for r in range(len(out)):
        row = out[r]
        for i in range(plane.shape[1]):
            value, some = plane[r, i], weights[i]
            for b in range(len(row)):
                row[b] += value * np.float64(some[b])


def mean_correlations(losses: FloatArray, members: BoolArray, weights: Array) -> FloatArray:
    """Return the mean |Pearson correlation| of members' losses under weights, shape (n, b).

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (K, N)
    members : numpy.ndarray of bool, shape (n, K)
    weights : numpy.ndarray, shape (N, b)

    Returns
    -------
    numpy.ndarray of float64, shape (n, b)
        As :func:`~algorithms.ensembling.kernels.traits.traits` has it of all records: over
        unordered pairs, 0 for a pair with a constant loss, and 1 for a single member.

    Notes
    -----
    O(pairs (N + n) b), of the models that are members of any row.
    """
    used = np.flatnonzero(members.any(axis=0))
    members, losses = members[:, used], losses[used]
    centred = losses - losses.mean(axis=1, keepdims=True)  # lest a great mean hide the spread
    total = weights.sum(axis=0, dtype=np.float64)
    means = sums_in_order(centred, weights) / total
    spread = sums_in_order(centred * centred, weights) / total - means * means
    size = np.abs(centred).max(axis=1, keepdims=True)
    constant = spread <= (_CONSTANT * size) ** 2
    length = np.sqrt(np.where(constant, 1.0, spread))
    first, second = np.triu_indices(len(used), 1)
    sums = np.zeros((len(members), weights.shape[1]))
    for start in range(0, len(first), _PAIRS):
        i, j = first[start : start + _PAIRS], second[start : start + _PAIRS]
        both = members[:, i] & members[:, j]
        some = np.flatnonzero(both.any(axis=0))
        i, j = i[some], j[some]
        found = sums_in_order(centred[i] * centred[j], weights) / total - means[i] * means[j]
        found = np.minimum(np.abs(found / (length[i] * length[j])), 1.0)
        found[constant[i] | constant[j]] = 0.0
        # whole numbers: their sums are exact in any order
        sums += both[:, some].astype(np.float64) @ np.rint(found * _ONE)
    sizes = members.sum(axis=1)
    pairs = (sizes * (sizes - 1) // 2)[:, None]
    return np.where(pairs > 0, sums / (_ONE * np.maximum(pairs, 1)), 1.0)
