"""Steady-state NSGA-II: a population ranked by dominance and crowding distance, kept up to date."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit


class Crowd(NamedTuple):
    """Arrays of a population with room for one candidate more than it may have members.

    Attributes
    ----------
    losses : numpy.ndarray of float64, shape (places, m)
    violation : numpy.ndarray of float64, shape (places,)
    rank : numpy.ndarray of int64, shape (places,)
        Pareto layer, infeasible members last, by violation (constrained domination).
    order : numpy.ndarray of int64, shape (m, places)
        For each objective the members' places, the best one first.
    size : numpy.ndarray of int64, shape (1,)
        Number of members; they are in the first places.
    """

    losses: FloatArray
    violation: FloatArray
    rank: IntArray
    order: IntArray
    size: IntArray


def empty_crowd(size: int, m: int) -> Crowd:
    """Return a population for ``size`` members and ``m`` objectives, with none yet."""
    places = size + 1
    return Crowd(
        np.zeros((places, m)),
        np.zeros(places),
        np.zeros(places, dtype=np.int64),
        np.zeros((m, places), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@njit
def absorb(
    crowd: Crowd, genomes: Array, X: Array, losses: FloatArray, violation: FloatArray
) -> None:
    """Add candidates one by one; of too many the most crowded of the last layer is deleted.

    Of equally crowded members that in the later place goes. O(n m) a candidate, and O(n k m) where
    it pushes k members into later layers.

    Parameters
    ----------
    crowd : Crowd
    genomes : numpy.ndarray, shape (places, d)
        Of the members.
    X, losses, violation
        Of the candidates: shapes (b, d), (b, m), (b,).
    """
    size = len(crowd.rank) - 1
    for row in range(len(X)):
        at = crowd.size[0]
        genomes[at] = X[row]
        crowd.losses[at], crowd.violation[at] = losses[row], violation[row]
        _enter(crowd, at)
        crowd.size[0] += 1
        if crowd.size[0] > size:
            gone = _most_crowded(crowd)
            _leave(crowd, gone)
            last = crowd.size[0]
            if gone != last:
                genomes[gone] = genomes[last]


@njit
def distances(crowd: Crowd) -> FloatArray:
    """Return every member's crowding distance within its layer, shape (n,); infinite at ends."""
    n, m = crowd.size[0], crowd.losses.shape[1]
    total = np.zeros(n)
    layers = 0
    for i in range(n):
        layers = max(layers, crowd.rank[i] + 1)
    for j in range(m):
        before, after = np.full(layers, -1), np.full(layers, -1)
        low, high = np.zeros(layers), np.zeros(layers)
        for p in range(n):
            i = crowd.order[j, p]
            r = crowd.rank[i]
            if before[r] < 0:
                low[r] = crowd.losses[i, j]
            high[r] = crowd.losses[i, j]
            before[r] = i
        # forwards: i's predecessor in its layer closes the gap of the one before it
        before[:] = -1
        for p in range(n):
            i = crowd.order[j, p]
            r = crowd.rank[i]
            one = before[r]
            if one < 0:
                total[i] = np.inf
            elif after[r] >= 0:
                span = high[r] - low[r]
                if span > 0.0:
                    total[one] += (crowd.losses[i, j] - crowd.losses[after[r], j]) / span
            after[r], before[r] = one, i
        for r in range(layers):
            if before[r] >= 0:
                total[before[r]] = np.inf
    return total


@njit
def winners(crowd: Crowd, pairs: IntArray, coins: FloatArray) -> IntArray:
    """Return of each pair of members, shape (n, 2), the one of the better layer, or less crowded.

    Ties go to the first where ``coins``, shape (n,), are below 1/2.
    """
    far = distances(crowd)
    out = np.empty(len(pairs), dtype=np.int64)
    for k in range(len(pairs)):
        a, b = pairs[k]
        if crowd.rank[a] != crowd.rank[b]:
            out[k] = a if crowd.rank[a] < crowd.rank[b] else b
        elif far[a] != far[b]:
            out[k] = a if far[a] > far[b] else b
        else:
            out[k] = a if coins[k] < 0.5 else b
    return out


@njit
def _beats(crowd: Crowd, a: int, b: int) -> bool:
    """Return whether a dominates b; feasible members dominate all infeasible ones."""
    if crowd.violation[a] != crowd.violation[b]:
        return bool(crowd.violation[a] < crowd.violation[b])
    if crowd.violation[a] > 0.0:
        return False
    better = False
    for j in range(crowd.losses.shape[1]):
        if crowd.losses[a, j] > crowd.losses[b, j]:
            return False
        better = better or bool(crowd.losses[a, j] < crowd.losses[b, j])
    return better


@njit
def _enter(crowd: Crowd, at: int) -> None:
    """Rank the candidate at place ``at`` and sort it in; move members that it pushes down."""
    n, m = crowd.size[0], crowd.losses.shape[1]
    rank = 0
    for i in range(n):
        if crowd.rank[i] >= rank and _beats(crowd, i, at):
            rank = crowd.rank[i] + 1
    crowd.rank[at] = rank
    pushing = np.empty(n + 1, dtype=np.int64)
    pushed = np.empty(n + 1, dtype=np.int64)
    # what enters a layer pushes the members that it dominates there one layer down, and so on
    pushing[0] = at
    many = 1
    while many:
        next_many = 0
        for i in range(n):
            if crowd.rank[i] == rank:
                for k in range(many):
                    if pushing[k] != i and _beats(crowd, pushing[k], i):
                        pushed[next_many] = i
                        next_many += 1
                        break
        rank += 1
        for k in range(next_many):
            crowd.rank[pushed[k]] = rank
        pushing, pushed = pushed, pushing
        many = next_many
    # insertion into each sorted order; of equal values the later candidate is behind
    for j in range(m):
        order = crowd.order[j]
        value = crowd.losses[at, j]
        p = n
        while p > 0 and crowd.losses[order[p - 1], j] > value:
            order[p] = order[p - 1]
            p -= 1
        order[p] = at


@njit
def _most_crowded(crowd: Crowd) -> int:
    """Return the member of the last layer with the least crowding distance, the latest of equal."""
    n, m = crowd.size[0], crowd.losses.shape[1]
    last = 0
    for i in range(n):
        last = max(last, crowd.rank[i])
    total = np.zeros(n)
    for j in range(m):
        order = crowd.order[j]
        first, final = -1, -1
        for p in range(n):
            if crowd.rank[order[p]] == last:
                if first < 0:
                    first = order[p]
                final = order[p]
        span = crowd.losses[final, j] - crowd.losses[first, j]
        total[first] = total[final] = np.inf
        if span <= 0.0:
            continue
        one, two = -1, -1  # the last two of the layer
        for p in range(n):
            i = order[p]
            if crowd.rank[i] == last:
                if two >= 0:
                    total[one] += (crowd.losses[i, j] - crowd.losses[two, j]) / span
                two, one = one, i
    gone = -1
    for i in range(n):
        if crowd.rank[i] == last and (gone < 0 or total[i] <= total[gone]):
            gone = i
    return gone


@njit
def _leave(crowd: Crowd, gone: int) -> None:
    """Remove a member of the last layer, which dominates nobody; the last place takes its."""
    n, m = crowd.size[0], crowd.losses.shape[1]
    last = n - 1
    for j in range(m):
        order = crowd.order[j]
        q = 0
        for p in range(n):
            i = order[p]
            if i != gone:
                order[q] = gone if i == last else i
                q += 1
    crowd.losses[gone] = crowd.losses[last]
    crowd.violation[gone], crowd.rank[gone] = crowd.violation[last], crowd.rank[last]
    crowd.size[0] = last
