"""The neighbourhood of an ordered partition, and random walks from one."""

from __future__ import annotations

import numpy as np

from algorithms.moves.partition_operators import compress_in_place
from framework.arrays import Array
from framework.jit import njit


def neighbourhood_size(n: int, k: int) -> int:
    """Return the greatest possible number of neighbours of ``n`` items in ``k`` stages."""
    return n * (2 * k + 2) + n * (n - 1) // 2 + k


@njit
def neighbours(x: Array, k: int, removal: bool, out: Array) -> int:
    """Fill ``out`` with all genomes one move away from ``x``; return their number.

    The moves: an item goes to another stage, or to a new one before, between or after the stages;
    two items of different stages are swapped; two neighbouring stages are merged; with
    ``removal``, an item is left out (unless it is the last one) or taken in again. A genome may
    occur more than once, and ``x`` itself may occur.

    Parameters
    ----------
    x : numpy.ndarray of int, shape (d,)
        A genome without gaps.
    k : int
        Greatest number of stages.
    removal : bool
        Whether items may be left out.
    out : numpy.ndarray, shape (at least neighbourhood_size(d, k), d)

    Notes
    -----
    O(d^2 + d k) neighbours, O(d) time each.
    """
    stages = int(x.max()) + 1
    count = _moved(x, stages, k, out, 0)
    count = _swapped(x, out, count)
    for s in range(stages - 1):
        out[count] = x
        for i in range(len(x)):
            if x[i] > s:
                out[count, i] -= 1
        count += 1
    if removal and (x >= 0).sum() > 1:
        for i in range(len(x)):
            if x[i] >= 0:
                out[count] = x
                out[count, i] = -1
                compress_in_place(out[count])
                count += 1
    return count


@njit
def _moved(x: Array, stages: int, k: int, out: Array, count: int) -> int:
    """Append each item moved to each other stage, and to a new stage at each place."""
    alone = np.zeros(stages, dtype=np.int64)
    for i in range(len(x)):
        if x[i] >= 0:
            alone[x[i]] += 1
    for i in range(len(x)):
        for s in range(stages):
            if s != x[i]:
                out[count] = x
                out[count, i] = s
                compress_in_place(out[count])
                count += 1
        frees = x[i] >= 0 and alone[x[i]] == 1
        if stages == k and not frees:
            continue
        for place in range(stages + 1):
            _insert(x, i, place, out[count])
            count += 1
    return count


@njit
def _insert(x: Array, item: int, place: int, y: Array) -> None:
    """Set ``y`` to ``x`` with an item alone in a new stage before stage ``place``."""
    for j in range(len(x)):
        y[j] = x[j] + (x[j] >= place)
    y[item] = place
    compress_in_place(y)


@njit
def _swapped(x: Array, out: Array, count: int) -> int:
    """Append each exchange of two items of different stages."""
    for i in range(len(x)):
        for j in range(i):
            if x[i] != x[j]:
                out[count] = x
                out[count, i] = x[j]
                out[count, j] = x[i]
                count += 1
    return count


@njit
def wander(
    X: Array, k: int, removal: bool, fewest: int, most: int, rng: np.random.Generator
) -> None:
    """Change each row of ``X`` by a random walk of ``fewest`` to ``most`` steps, in place.

    A step moves an item to another stage or to a new one at a random place, or swaps two items
    (with probability 1/3); with ``removal`` it may leave the item out. Some steps change nothing.
    """
    for r in range(len(X)):
        steps = fewest + int(rng.random() * (most - fewest + 1))
        for _ in range(steps):
            _step(X[r], k, removal, rng)


@njit
def _step(x: Array, k: int, removal: bool, rng: np.random.Generator) -> None:
    i = int(rng.random() * len(x))
    if rng.random() < 1.0 / 3.0:
        j = int(rng.random() * len(x))
        x[i], x[j] = x[j], x[i]
        return
    stages = int(x.max()) + 1
    lowest = -1 if removal else 0
    places = stages + 1 if stages < k else 0
    target = lowest + int(rng.random() * (stages + places - lowest))
    if target >= stages:
        _insert(x, i, target - stages, x)
    elif target >= 0 or x[i] < 0 or (x >= 0).sum() > 1:
        x[i] = target
        compress_in_place(x)
