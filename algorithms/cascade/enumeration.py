"""All policies of one chain of models: for each number of right answers the least cost.

A threshold matters only by which records it leaves over, and these sets are nested: a chain of k
models has C(N, k - 1) policies, not N^(k - 1). Each *sweep* takes records out of a list, the
surest first; the lists of later sweeps are doubly linked, so that a record is taken out and put
back in O(1) each (Knuth's dancing links). The last sweep costs O(1) a policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, IntArray
from framework.jit import njit

NEVER = np.iinfo(np.int64).max
"""What is paid where nothing attains a cell."""


class Sweeps(NamedTuple):
    """One chain as a row of sweeps: each lets the records above a level leave.

    What is left at the end goes to a last state, which takes all.

    Attributes
    ----------
    level : numpy.ndarray of int64, shape (m, N)
        From 1; whoever has the higher leaves first, equals together.
    gain : numpy.ndarray of int64, shape (m + 1, N)
        What a record is worth that leaves at a sweep, or is left at the end.
    cost : numpy.ndarray of int64, shape (m + 1, N)
        What a record pays that comes to a sweep, or to the end.
    answered : numpy.ndarray of int64, shape (m + 1,)
        Whether (1 or 0) who leaves there has an answer.
    nobody : numpy.ndarray of bool, shape (m,)
        Whether a sweep may let nobody leave.
    everybody : bool
        Whether the last sweep may let all leave.
    """

    level: IntArray
    gain: IntArray
    cost: IntArray
    answered: IntArray
    nobody: Array
    everybody: bool

    @property
    def policies(self) -> int:
        """How many policies there are, at most."""
        return math.comb(self.level.shape[1] + int(self.nobody.sum()), len(self.level))


class Point(NamedTuple):
    """One policy: what it is worth, what it costs, its levels, and the chain that it is of."""

    answered: int
    gain: int
    cost: int
    chain: tuple[int, ...]
    levels: tuple[int, ...]


@njit
def attained(
    level: IntArray,
    gain: IntArray,
    cost: IntArray,
    answered: IntArray,
    nobody: Array,
    everybody: bool,
    rows: int,
    width: int,
) -> tuple[IntArray, Array]:
    """Return the least cost of each number of answers and sum of gains, and a policy of each.

    Parameters
    ----------
    level, gain, cost, answered, nobody, everybody
        See :class:`Sweeps`.
    rows : int
        1: numbers of answers are not told apart; else N + 1.
    width : int
        Sums of gains go from 0 to below it.

    Returns
    -------
    best : numpy.ndarray of int64, shape (rows * width,)
        ``NEVER`` where nothing attains a cell.
    levels : numpy.ndarray of int32, shape (rows * width, m)
        The lowest level that leaves at each sweep.

    Notes
    -----
    No recursion: compiled recursive functions that allocate fail when loaded from a cache.
    """
    m, n = level.shape
    best = np.full(rows * width, np.iinfo(np.int64).max, dtype=np.int64)
    levels = np.zeros((rows * width, m), dtype=np.int32)
    # of each record at each sweep, in one line of the cache: who follows, the level, what is gained
    # by leaving there and not at the end, and what is saved
    node = np.zeros((m, n + 1, 4), dtype=np.int64)
    for r in range(n):
        saved = 0
        for d in range(m - 1, -1, -1):
            saved += cost[d + 1, r]
            node[d, r, 1] = level[d, r]
            node[d, r, 2] = gain[d, r] - gain[m, r]
            node[d, r, 3] = saved
    preceding = np.zeros((m, n + 1), dtype=np.int32)
    highest = np.zeros(m, dtype=np.int64)
    for d in range(m):
        order = np.argsort(-level[d], kind="mergesort")
        before = n
        for r in order:
            node[d, before, 0] = r
            preceding[d, r] = before
            before = r
        node[d, before, 0] = n
        preceding[d, n] = before
        highest[d] = level[d].max()
    total_gain, total_cost, total_answered = 0, 0, answered[m] * n
    for r in range(n):
        total_gain += gain[m, r]
        for i in range(m + 1):
            total_cost += cost[i, r]
    cut = np.zeros(m, dtype=np.int64)
    cursor = np.zeros(m, dtype=np.int64)
    fresh = np.zeros(m, dtype=np.bool_)
    left = np.zeros((m, n), dtype=np.int32)  # who left, in order
    count = np.zeros(m, dtype=np.int64)
    last = m - 1
    d = 0
    cursor[0], fresh[0], count[0] = node[0, n, 0], True, 0
    while d >= 0:
        if d == last:
            g, c, a = total_gain, total_cost, total_answered
            gains_answer = answered[d] - answered[m]
            r = node[d, n, 0]
            if nobody[d] and r != n:
                cell = g + (a * width if rows > 1 else 0)
                if c < best[cell]:
                    best[cell] = c
                    for i in range(last):
                        levels[cell, i] = cut[i]
                    levels[cell, last] = highest[d] + 1
            while r != n:
                g += node[d, r, 2]
                c -= node[d, r, 3]
                a += gains_answer
                after = node[d, r, 0]
                if node[d, after, 1] != node[d, r, 1] and (after != n or everybody):
                    cell = g + (a * width if rows > 1 else 0)
                    if c < best[cell]:
                        best[cell] = c
                        for i in range(last):
                            levels[cell, i] = cut[i]
                        levels[cell, last] = node[d, r, 1]
                r = after
            d -= 1
            continue
        descend = False
        if fresh[d]:
            fresh[d] = False
            if nobody[d]:
                cut[d] = highest[d] + 1
                descend = True
        if not descend:
            r = cursor[d]
            if r != n:
                cut[d] = level[d, r]
                while r != n and level[d, r] == cut[d]:
                    total_gain += node[d, r, 2]
                    total_cost -= node[d, r, 3]
                    total_answered += answered[d] - answered[m]
                    for i in range(d + 1, m):
                        node[i, preceding[i, r], 0] = node[i, r, 0]
                        preceding[i, node[i, r, 0]] = preceding[i, r]
                    left[d, count[d]] = r
                    count[d] += 1
                    r = node[d, r, 0]
                cursor[d] = r
                descend = r != n  # else nobody is left: a shorter chain
            if r == n:
                while count[d] > 0:  # put back, the last one first
                    count[d] -= 1
                    r = left[d, count[d]]
                    total_gain -= node[d, r, 2]
                    total_cost += node[d, r, 3]
                    total_answered -= answered[d] - answered[m]
                    for i in range(m - 1, d, -1):
                        node[i, preceding[i, r], 0] = r
                        preceding[i, node[i, r, 0]] = r
                d -= 1
                continue
        if descend:
            d += 1
            cursor[d], fresh[d], count[d] = node[d, n, 0], True, 0
    return best, levels


def best_of(sweeps: Sweeps, chain: tuple[int, ...], by_answers: bool) -> list[Point]:
    """Return the policies of a chain that none of the chain dominates.

    Parameters
    ----------
    sweeps : Sweeps
    chain : tuple of int
    by_answers : bool
        Whether numbers of answers are told apart: of each the best compromises of gain and cost.
    """
    m, n = sweeps.level.shape
    if m == 0:
        gain, cost = int(sweeps.gain.sum()), int(sweeps.cost.sum())
        return [Point(n, gain, cost, chain, ())]
    width = int(sweeps.gain.max(axis=0).sum()) + 1
    rows = n + 1 if by_answers else 1
    best, levels = attained(*sweeps, rows, width)
    points = []
    for a, row in enumerate(best.reshape(rows, width)):
        cells = staircase(row)
        for g in cells.tolist():
            cut = tuple(levels[a * width + g].tolist())
            points.append(Point(a if by_answers else n, g, int(row[g]), chain, cut))
    return points


def staircase(best: IntArray) -> IntArray:
    """Return the gains, ascending, that cost less than every greater one; of cells by gain."""
    cheapest = np.minimum.accumulate(best[::-1])[::-1]  # of so much or more
    beyond = np.append(cheapest[1:], NEVER)
    return np.flatnonzero((best < beyond) & (best < NEVER))


def undominated(points: Sequence[Point]) -> list[Point]:
    """Return the best compromises of gain (more) and cost (less), the cheapest first."""
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (p.cost, -p.gain, len(p.chain), p.chain, p.levels)):
        if not front or point.gain > front[-1].gain:
            front.append(point)
    return front


def hull(points: Sequence[Point]) -> list[Point]:
    """Return the corners of the convex hull towards more gain and less cost."""
    corners: list[Point] = []
    for point in undominated(points):
        while len(corners) > 1 and _below(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return corners


def _below(a: Point, b: Point, c: Point) -> bool:
    """Return whether ``b`` is no corner: on the line from ``a`` to ``c``, or below it."""
    return (b.gain - a.gain) * (c.cost - a.cost) <= (c.gain - a.gain) * (b.cost - a.cost)
