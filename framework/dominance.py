"""Pareto ranking of a population."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit


def pareto_layers(losses: FloatArray, violation: FloatArray) -> IntArray:
    """Peel off non-dominated sets, one after the other.

    Feasible rows (violation 0) come first, by dominance; then the infeasible ones, by violation
    alone (constrained domination: Deb et al. 2002, Section VI).

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (n, m)
        To be minimised.
    violation : numpy.ndarray of float64, shape (n,)

    Returns
    -------
    numpy.ndarray of int64, shape (n,)
        0 for the non-dominated rows, 1 for those of the rest, ...; equal rows have equal layers.

    Notes
    -----
    Efficient non-dominated sort with sequential search (Zhang et al. 2015): O(m n * layers) at
    best, O(m n^2) at worst.
    """
    layers = np.zeros(len(losses), dtype=np.int64)
    feasible = violation == 0.0
    rows = np.flatnonzero(feasible)
    if len(rows):
        order = rows[np.lexsort(losses[rows].T[::-1])]
        layers[order] = _sorted_layers(np.ascontiguousarray(losses[order]))
    if len(rows) < len(losses):
        top = int(layers[rows].max()) + 1 if len(rows) else 0
        _, level = np.unique(violation[~feasible], return_inverse=True)
        layers[~feasible] = top + level
    return layers


@njit
def _sorted_layers(losses: FloatArray) -> Array:
    """Layers of rows in lexicographic order: only earlier rows can dominate a row."""
    n, m = losses.shape
    layer = np.empty(n, dtype=np.int64)
    last = np.full(n, -1, dtype=np.int64)  # last row put into each layer
    previous = np.empty(n, dtype=np.int64)  # row put into the same layer before this one
    count = 0
    for r in range(n):
        same = r > 0
        for j in range(m):
            if not same:
                break
            same = losses[r, j] == losses[r - 1, j]
        if same:
            layer[r] = layer[r - 1]
            continue
        f = 0
        while f < count:
            other = last[f]
            dominated = False
            while other >= 0 and not dominated:
                dominated = True
                for j in range(1, m):
                    if losses[other, j] > losses[r, j]:
                        dominated = False
                        break
                other = previous[other]
            if not dominated:
                break
            f += 1
        layer[r] = f
        previous[r] = last[f]
        last[f] = r
        if f == count:
            count += 1
    return layer
