"""Pareto layers that are kept up to date while rows come one by one."""

from __future__ import annotations

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.jit import njit


@njit
def enter(losses: FloatArray, violation: FloatArray, layer: IntArray, at: int) -> None:
    """Put row ``at`` in its layer among the rows before it, and move down those that it beats.

    Then layers are those of :func:`framework.dominance.pareto_layers`. O(at m), and O(at k m)
    where the row pushes k others into later layers (Li, Deb, Zhang, Suganthan and Chen 2017,
    doi:10.1109/TCYB.2016.2621008).

    Parameters
    ----------
    losses, violation : shapes (n, m) and (n,)
    layer : numpy.ndarray of int64, shape (n,)
        Changed in place.
    at : int
    """
    new = 0
    for i in range(at):
        if layer[i] >= new and beats(losses, violation, i, at):
            new = layer[i] + 1
    layer[at] = new
    pushing = np.empty(at + 1, dtype=np.int64)
    pushed = np.empty(at + 1, dtype=np.int64)
    pushing[0] = at
    many = 1
    while many:
        next_many = 0
        for i in range(at):
            if layer[i] == new:
                for k in range(many):
                    if pushing[k] != i and beats(losses, violation, pushing[k], i):
                        pushed[next_many] = i
                        next_many += 1
                        break
        new += 1
        for k in range(next_many):
            layer[pushed[k]] = new
        pushing, pushed = pushed, pushing
        many = next_many


@njit
def enter_last(losses: FloatArray, violation: FloatArray, layer: IntArray, count: int) -> None:
    """Put the last ``count`` rows in their layers, one by one; see :func:`enter`."""
    for at in range(len(layer) - count, len(layer)):
        enter(losses, violation, layer, at)


@njit
def beats(losses: FloatArray, violation: FloatArray, a: int, b: int) -> bool:
    """Tell whether a dominates b, feasible rows all infeasible ones, by violation."""
    if violation[a] != violation[b]:
        return bool(violation[a] < violation[b])
    if violation[a] > 0.0:
        return False
    better = False
    for j in range(losses.shape[1]):
        if losses[a, j] > losses[b, j]:
            return False
        better = better or bool(losses[a, j] < losses[b, j])
    return better
