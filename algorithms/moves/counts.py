"""Moves on count vectors and on subsets (bit strings), which are counts of at most 1."""

from __future__ import annotations

import math

import numpy as np

from framework.arrays import Array, FloatArray
from framework.jit import copy, njit


def neighbourhood_size(x: Array) -> int:
    """Return the greatest possible number of neighbours of the counts ``x``, shape (d,)."""
    members = int(np.count_nonzero(x))
    return len(x) + members * (2 + len(x) - members)


@njit
def neighbours(x: Array, max_count: int, empty: bool, out: Array) -> int:
    """Fill ``out`` with all vectors one move away from ``x``; return their number.

    The moves: one pick more; one less; a member is dropped; a member is replaced by a model that
    is not a member, which gets all its picks. No vector occurs twice.

    Parameters
    ----------
    x : numpy.ndarray of int, shape (d,)
    max_count : int
        Greatest count; subsets are counts of at most 1.
    empty : bool
        Whether the vector of no members belongs to the space.
    out : numpy.ndarray, shape (at least neighbourhood_size(x), d)

    Notes
    -----
    O(d + members (d - members)) neighbours, O(d) time each.
    """
    d, count = len(x), 0
    members = int((x > 0).sum())
    for i in range(d):
        if x[i] < max_count:
            copy(x, out[count])
            out[count, i] += 1
            count += 1
        if x[i] == 0:
            continue
        last = members == 1 and not empty
        if x[i] > 1 or not last:
            copy(x, out[count])
            out[count, i] -= 1
            count += 1
        if x[i] > 1 and not last:
            copy(x, out[count])
            out[count, i] = 0
            count += 1
        for j in range(d):
            if x[j] == 0:
                copy(x, out[count])
                out[count, i], out[count, j] = 0, x[i]
                count += 1
    return count


@njit
def wander(
    X: Array, max_count: int, empty: bool, fewest: int, longest: int, rng: np.random.Generator
) -> None:
    """Take each row of ``X`` on a random walk of ``fewest`` to ``longest`` moves, in place."""
    for r in range(len(X)):
        for _ in range(fewest + int(rng.random() * (longest - fewest + 1))):
            move(X[r], max_count, empty, rng)


@njit
def move(x: Array, max_count: int, empty: bool, rng: np.random.Generator) -> None:
    """Make one random move: more, less, drop or swap, each with probability 1/4.

    A move that is impossible is replaced by one pick more of some model, unless all are full.
    """
    kind = int(rng.random() * 4.0)
    members = np.flatnonzero(x)
    if kind > 0 and len(members):
        i = members[int(rng.random() * len(members))]
        last = len(members) == 1 and not empty
        if kind == 1 and not (last and x[i] == 1):
            x[i] -= 1
            return
        if kind == 2 and not last:
            x[i] = 0
            return
        if kind == 3 and len(members) < len(x):
            others = np.flatnonzero(x == 0)
            j = others[int(rng.random() * len(others))]
            x[i], x[j] = 0, x[i]
            return
    open_ = np.flatnonzero(x < max_count)
    if len(open_):
        x[open_[int(rng.random() * len(open_))]] += 1


@njit
def mutate_rows(
    X: Array, max_count: int, empty: bool, again: float, rng: np.random.Generator
) -> None:
    """Make a random move on each row of ``X``, and each time one more with chance ``again``."""
    for r in range(len(X)):
        move(X[r], max_count, empty, rng)
        while rng.random() < again:
            move(X[r], max_count, empty, rng)


@njit
def recombine_rows(A: Array, B: Array, empty: bool, rng: np.random.Generator) -> Array:
    """Return a child of each pair of rows: each count from one parent or the other.

    A child without members becomes its first parent, unless ``empty`` allows it.
    """
    out = np.empty_like(A)
    for r in range(len(A)):
        for i in range(A.shape[1]):
            out[r, i] = A[r, i] if rng.random() < 0.5 else B[r, i]
        if not empty and not out[r].any():
            copy(A[r], out[r])
    return out


def first_rows(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return ``n`` random subsets of ``d`` items, int64, with log-uniform sizes."""
    sizes = np.minimum(np.exp(rng.random(n) * math.log(d + 1)).astype(np.int64), d)
    ranks = rng.random((n, d)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < sizes[:, np.newaxis], dtype=np.int64)


@njit
def single_point_crossover(A: Array, B: Array, U: FloatArray) -> Array:
    """Return a child of each pair of rows by single-point crossover: the head of A, the tail of B.

    Both parts have at least one gene if there are two genes. ``U`` (n,) has random numbers in
    [0, 1).
    """
    out = A.copy()
    d = A.shape[1]
    for r in range(len(A)):
        point = 1 + int(U[r] * (d - 1))
        for j in range(point, d):
            out[r, j] = B[r, j]
    return out


@njit
def flip_bits(X: Array, rate: float, U: FloatArray) -> None:
    """Flip each bit with probability ``rate``, in place.

    A number of ``U``, shape (n, d), gives the distance to the next bit that flips, which has a
    geometric distribution. A row then takes O(rate d), as it uses one number more than bits flip.
    """
    n, d = X.shape
    if rate <= 0.0:
        return
    scale = np.log1p(-rate) if rate < 1.0 else -np.inf
    for r in range(n):
        j = -1
        for k in range(d):
            skip = np.log1p(-U[r, k]) / scale if rate < 1.0 else 0.0
            if skip >= d:
                break
            j += 1 + int(skip)
            if j >= d:
                break
            X[r, j] = 1 - X[r, j]
