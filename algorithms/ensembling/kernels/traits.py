"""Weighted means of predictions; costs of ensembles, and the similarity of their members."""

from __future__ import annotations

import numpy as np

from algorithms.ensembling.kernels.picks import Picks, shared
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

_ONE = 2.0**31  # similarities in fixed point


def combine(P: Array, picks: Picks, out: FloatArray) -> None:
    """Set each row of ``out`` to the mean prediction of its members, weighted by the counts.

    Parameters
    ----------
    P : float (K, W)
        Predictions, record by record (and class by class).
    picks : Picks
        Not empty in a row.
    out : float64 (n, W)

    Notes
    -----
    Members are added in ascending order, so a row does not depend on the batch.
    """
    _combine(P, *picks, out)


@njit
def _combine(
    P: Array, models: IntArray, counts: IntArray, starts: IntArray, out: FloatArray
) -> None:
    for r in range(len(out)):
        row = out[r]
        row[:] = 0.0
        total = 0
        for at in range(starts[r], starts[r + 1]):
            total += counts[at]
            one = P[models[at]]
            for i in range(len(row)):
                row[i] += counts[at] * np.float64(one[i])
        for i in range(len(row)):
            row[i] /= total


def fixed_similarities(alike: Array) -> Array:
    """Return similarities from 0 to 1 as fixed-point uint32, whose sums are exact in any order."""
    return np.rint(np.asarray(alike, dtype=np.float64) * _ONE).astype(np.uint32)


def traits(
    picks: Picks, costs: FloatArray, alike: Array
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Measure the ensembles of a batch by their members: the models picked at least once.

    Parameters
    ----------
    picks : Picks
        n rows.
    costs : float64 (K, m)
    alike : uint32 (s, K, K)
        :func:`fixed_similarities` of pairs of models, symmetric.

    Returns
    -------
    sizes : float64 (n, 2)
        Number of members, and of picks.
    sums : float64 (n, m)
        Costs, each member's once: the paper's b2 (HAPEns, Section 3).
    means : float64 (n, s)
        Mean similarity over unordered pairs of members, 1 where there is but one member: with
        loss correlations the paper's b1.

    Notes
    -----
    O(members) a row for what it adds to the members that all rows share, and O(K members) for
    those, once a batch.
    """
    common = np.flatnonzero(shared(*picks, len(costs)))
    return _traits(*picks, costs, alike, common)


@njit
def _traits(
    models: IntArray,
    counts: IntArray,
    starts: IntArray,
    costs: FloatArray,
    alike: Array,
    common: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, k, kinds = len(starts) - 1, len(costs), len(alike)
    sizes = np.zeros((n, 2))
    sums = np.zeros((n, costs.shape[1]))
    means = np.ones((n, kinds))
    within = np.zeros((kinds, k), dtype=np.int64)  # of each model to the common ones
    base = np.zeros(kinds, dtype=np.int64)
    for s in range(kinds):
        for j in common:
            base[s] += within[s, j]
            for other in range(k):
                within[s, other] += alike[s, j, other]
    taken = np.zeros(k, dtype=np.bool_)
    taken[common] = True
    added = np.empty(k, dtype=np.int64)
    for r in range(n):
        m = 0
        for at in range(starts[r], starts[r + 1]):
            j = models[at]
            sizes[r, 1] += counts[at]
            for c in range(costs.shape[1]):
                sums[r, c] += costs[j, c]
            if not taken[j]:
                added[m] = j
                m += 1
        members = starts[r + 1] - starts[r]
        sizes[r, 0] = members
        if members < 2:
            continue
        for s in range(kinds):
            total = base[s]
            for a in range(m):
                row = alike[s, added[a]]
                total += within[s, added[a]]
                for b in range(a):
                    total += row[added[b]]
            means[r, s] = total / (_ONE * (members * (members - 1) // 2))
    return sizes, sums, means
