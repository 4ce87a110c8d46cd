"""Pareto ranking of a population."""

from __future__ import annotations

import moocore
import numpy as np

from framework.arrays import FloatArray, IntArray


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
    Of moocore: O(n log n) for two objectives, O(m n^2) at worst for more.
    """
    layers = np.zeros(len(losses), dtype=np.int64)
    feasible = violation == 0.0
    rows = np.flatnonzero(feasible)
    if len(rows):
        layers[rows] = moocore.pareto_rank(losses[rows])
    if len(rows) < len(losses):
        top = int(layers[rows].max()) + 1 if len(rows) else 0
        _, level = np.unique(violation[~feasible], return_inverse=True)
        layers[~feasible] = top + level
    return layers
