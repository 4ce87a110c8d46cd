"""Weighted means of predictions, and what an ensemble costs and how alike its members are."""

from __future__ import annotations

import math

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

_ONE = 2.0**31  # similarities in fixed point
_LEAST = 2.0**-52  # scikit-learn's: a probability of 0 or 1 has a finite logarithm


@njit
def combine(P: Array, X: Array, out: FloatArray) -> None:
    """Set each row of ``out`` to the mean prediction of its members, weighted by the counts.

    Parameters
    ----------
    P : float (K, W)
        Predictions, record by record (and class by class).
    X : int32 (n, K)
        Counts, not all 0 in a row.
    out : float64 (n, W)

    Notes
    -----
    Members are added in ascending order, so a row does not depend on the batch.
    """
    for r in range(X.shape[0]):
        row = out[r]
        row[:] = 0.0
        total = 0
        for j in range(X.shape[1]):
            count = X[r, j]
            if count != 0:
                total += count
                one = P[j]
                for i in range(len(row)):
                    row[i] += count * np.float64(one[i])
        for i in range(len(row)):
            row[i] /= total


@njit
def hits(M: FloatArray, y: IntArray, classes: int) -> IntArray:
    """Count the records of each class whose most likely class (the first of equals) is right.

    Parameters
    ----------
    M : float64 (n, N), the probability of the second class, or (n, N * C), of each
    y : int64 (N,)
    classes : int
        C.

    Returns
    -------
    int64 (n, C)
    """
    n, records = len(M), len(y)
    found = np.zeros((n, classes), dtype=np.int64)
    for r in range(n):
        for i in range(records):
            if M.shape[1] == records:
                best = int(M[r, i] > 0.5)
            else:
                best = 0
                for c in range(1, classes):
                    if M[r, i * classes + c] > M[r, i * classes + best]:
                        best = c
            if best == y[i]:
                found[r, best] += 1
    return found


@njit
def mean_minus_log(P: FloatArray) -> FloatArray:
    """Return the mean of -log(p) over each row of probabilities (n, N)."""
    found = np.empty(len(P))
    for r in range(len(P)):
        total = 0.0
        for p in P[r]:
            total -= math.log(min(max(p, _LEAST), 1.0 - _LEAST))
        found[r] = total / P.shape[1]
    return found


@njit
def mean_square(D: FloatArray) -> FloatArray:
    """Return the mean of the squares of each row of (n, N)."""
    found = np.empty(len(D))
    for r in range(len(D)):
        total = 0.0
        for d in D[r]:
            total += d * d
        found[r] = total / D.shape[1]
    return found


@njit
def mean_absolute(D: FloatArray) -> FloatArray:
    """Return the mean of the absolute values of each row of (n, N)."""
    found = np.empty(len(D))
    for r in range(len(D)):
        total = 0.0
        for d in D[r]:
            total += abs(d)
        found[r] = total / D.shape[1]
    return found


def fixed_similarities(alike: Array) -> Array:
    """Return similarities from 0 to 1 in fixed point, uint32, so that sums do not hang on order."""
    return np.rint(np.asarray(alike, dtype=np.float64) * _ONE).astype(np.uint32)


@njit
def traits(X: Array, costs: FloatArray, alike: Array) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Measure the ensembles of a batch by their members: the models picked at least once.

    Parameters
    ----------
    X : int32 (n, K)
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
    O(members) a row for what it adds to the members that all rows share, and O(members^2) for
    those, once a batch.
    """
    n, k = X.shape
    kinds = len(alike)
    sizes = np.zeros((n, 2))
    sums = np.zeros((n, costs.shape[1]))
    means = np.ones((n, kinds))
    shared = _shared(X)
    within = np.zeros((kinds, k), dtype=np.int64)  # of each model to the shared ones
    common = np.zeros(kinds, dtype=np.int64)
    for s in range(kinds):
        for j in shared:
            common[s] += within[s, j]
            for other in range(k):
                within[s, other] += alike[s, j, other]
    added = np.empty(k, dtype=np.int64)
    taken = np.zeros(k, dtype=np.bool_)
    taken[shared] = True
    for r in range(n):
        m, picks = 0, 0
        for j in range(k):
            if X[r, j] != 0:
                picks += X[r, j]
                for c in range(costs.shape[1]):
                    sums[r, c] += costs[j, c]
                if not taken[j]:
                    added[m] = j
                    m += 1
        members = len(shared) + m
        sizes[r, 0], sizes[r, 1] = members, picks
        if members < 2:
            continue
        for s in range(kinds):
            total = common[s]
            for a in range(m):
                row = alike[s, added[a]]
                total += within[s, added[a]]
                for b in range(a):
                    total += row[added[b]]
            means[r, s] = total / (_ONE * (members * (members - 1) // 2))
    return sizes, sums, means


@njit
def _shared(X: Array) -> IntArray:
    """Return the models that every row picks, ascending."""
    everywhere = np.ones(X.shape[1], dtype=np.bool_)
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            everywhere[j] &= X[r, j] != 0
    return np.flatnonzero(everywhere)
