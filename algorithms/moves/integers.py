"""Neighbours, random walks and recombination of whole numbers with bounds of their own.

The first ``members`` genes are picks of items, of which at least one stays above 0; the others
are ordered numbers, which step up and down and are never swapped.
"""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, IntArray
from framework.jit import copy, njit


def neighbourhood_size(x: Array, members: int) -> int:
    """Return the greatest possible number of neighbours of ``x``, shape (d,)."""
    picked = int(np.count_nonzero(x[:members]))
    return 2 * len(x) + picked * (1 + members - picked)


@njit
def neighbours(x: Array, lower: IntArray, upper: IntArray, members: int, out: Array) -> int:
    """Fill ``out`` with all vectors one move away from ``x``; return their number.

    The moves: a gene goes up or down by one; an item is dropped with all its picks; an item that
    is not picked takes the picks of one that is, as far as its bound allows. No vector occurs
    twice.

    Parameters
    ----------
    x : numpy.ndarray of int, shape (d,)
    lower, upper : numpy.ndarray of int64, shape (d,)
    members : int
        Genes that are picks.
    out : numpy.ndarray, shape (at least neighbourhood_size(x), d)

    Notes
    -----
    O(d + picked (members - picked)) neighbours, O(d) time each.
    """
    count = 0
    picked = int((x[:members] > 0).sum())
    for i in range(len(x)):
        if x[i] < upper[i]:
            copy(x, out[count])
            out[count, i] += 1
            count += 1
        only = i < members and picked == 1 and x[i] == 1
        if x[i] > lower[i] and not only:
            copy(x, out[count])
            out[count, i] -= 1
            count += 1
    for i in range(members):
        if x[i] == 0:
            continue
        if x[i] > 1 and picked > 1:
            copy(x, out[count])
            out[count, i] = 0
            count += 1
        for j in range(members):
            if x[j] == 0 and upper[j] > 0:
                copy(x, out[count])
                out[count, i], out[count, j] = 0, min(x[i], upper[j])
                count += 1
    return count


@njit
def move(
    x: Array, lower: IntArray, upper: IntArray, members: int, rng: np.random.Generator
) -> None:
    """Make one random move in place, if one can be made.

    With probability 1/2 (or always, if there is only one kind of gene) an ordered number changes:
    it is drawn again or moves by one. Otherwise an item is swapped, or its count moves by one.
    """
    d = len(x)
    if members < d and (members == 0 or rng.random() < 0.5):
        i = members + int(rng.random() * (d - members))
        if rng.random() < 0.5:
            x[i] = lower[i] + int(rng.random() * (upper[i] - lower[i] + 1))
            return
    else:
        i = int(rng.random() * members)
        picked = int((x[:members] > 0).sum())
        if rng.random() < 0.5 and x[i] > 0 and picked < members:
            free = np.flatnonzero((x[:members] == 0) & (upper[:members] > 0))
            if len(free):
                j = free[int(rng.random() * len(free))]
                x[i], x[j] = 0, min(x[i], upper[j])
            return
        if picked == 1 and x[i] == 1:
            x[i] = min(2, upper[i])
            return
    up = rng.random() < 0.5
    if x[i] < upper[i] and (up or x[i] == lower[i]):
        x[i] += 1
    elif x[i] > lower[i]:
        x[i] -= 1


@njit
def wander(
    X: Array,
    lower: IntArray,
    upper: IntArray,
    members: int,
    fewest: int,
    longest: int,
    rng: np.random.Generator,
) -> None:
    """Take each row of ``X`` on a random walk of ``fewest`` to ``longest`` moves, in place."""
    for r in range(len(X)):
        for _ in range(fewest + int(rng.random() * (longest - fewest + 1))):
            move(X[r], lower, upper, members, rng)


@njit
def mutate_rows(
    X: Array, lower: IntArray, upper: IntArray, members: int, again: float, rng: np.random.Generator
) -> None:
    """Make a random move on each row of ``X``, and each time one more with chance ``again``."""
    for r in range(len(X)):
        move(X[r], lower, upper, members, rng)
        while rng.random() < again:
            move(X[r], lower, upper, members, rng)


@njit
def recombine_rows(A: Array, B: Array, members: int, rng: np.random.Generator) -> Array:
    """Return a child of each pair of rows, in which each pick is that of either parent.

    Ordered numbers are drawn from the range between the parents. A child that would pick nothing
    has the picks of its first parent.
    """
    out = np.empty_like(A)
    for r in range(len(A)):
        for i in range(A.shape[1]):
            if i < members:
                out[r, i] = A[r, i] if rng.random() < 0.5 else B[r, i]
            else:
                low, high = min(A[r, i], B[r, i]), max(A[r, i], B[r, i])
                out[r, i] = low + int(rng.random() * (high - low + 1))
        if members and not out[r, :members].any():
            copy(A[r, :members], out[r, :members])
    return out
