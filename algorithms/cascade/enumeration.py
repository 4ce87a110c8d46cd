"""All policies of one chain of models: the least cost for each number of right answers.

Thresholds matter only through the records that they pass on to the next model, and each model
passes on fewer. So a chain of k models has C(N, k - 1) different policies, not N^(k - 1).

Each *sweep* (one threshold) removes records from a list, the surest first. The lists of later
sweeps are doubly linked, so that a record is removed and put back in O(1) for each of them (Knuth's
dancing links). The last sweep costs O(1) for each policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, IntArray
from framework.jit import njit

NEVER = np.iinfo(np.int64).max
"""The least cost of a cell that no policy attains."""

_NEXT, _LEVEL, _GAINED, _SAVED = range(4)  # fields of a node of the lists


class Sweeps(NamedTuple):
    """One chain as a row of m sweeps: each lets the records at or above some level leave.

    The records that leave at no sweep come to the end, which is state m.

    Attributes
    ----------
    level : numpy.ndarray of int64, shape (m, N)
        From 1. The records of the highest level leave first, those of equal levels together.
    gain : numpy.ndarray of int64, shape (m + 1, N)
        What a record is worth if it leaves at a sweep, or comes to the end.
    cost : numpy.ndarray of int64, shape (m + 1, N)
        What a record pays when it comes to a sweep, or to the end.
    answered : numpy.ndarray of int64, shape (m + 1,)
        1 if the records that leave there have an answer, else 0.
    nobody : numpy.ndarray of bool, shape (m,)
        Whether no record at all may leave at a sweep.
    everybody : bool
        Whether all records may have left after the last sweep.
    """

    level: IntArray
    gain: IntArray
    cost: IntArray
    answered: IntArray
    nobody: Array
    everybody: bool

    @property
    def policies(self) -> int:
        """An upper bound on the number of policies."""
        return math.comb(self.level.shape[1] + int(self.nobody.sum()), len(self.level))


class Point(NamedTuple):
    """A policy: records answered, sum of gains, sum of costs, chain, and lowest leaving levels."""

    answered: int
    gain: int
    cost: int
    chain: tuple[int, ...]
    levels: tuple[int, ...]


def attained(sweeps: Sweeps, rows: int, width: int) -> tuple[IntArray, Array]:
    """Return the least cost for each number of answers and sum of gains, with its policy.

    Parameters
    ----------
    rows : int
        N + 1 to distinguish policies by their number of answers; 1 not to.
    width : int
        More than the greatest sum of gains.

    Returns
    -------
    best : numpy.ndarray of int64, shape (rows * width,)
        The least cost; ``NEVER`` for a cell that no policy attains.
    levels : numpy.ndarray of int32, shape (rows * width, m)
        The lowest level that leaves at each sweep of that policy.

    Notes
    -----
    ``node[d, r]`` keeps in one cache line what sweep d needs of record r: the record after it in
    the list, its level, and what is gained and what is saved if it leaves there instead of coming
    to the end. Position N is the head of each list. With sweeps from 0::

        policies(sweep d, records in its list):
            if no record needs to leave at sweep d: policies(sweep d + 1)
            for each level, from the highest:
                take the records of that level out of the lists of all later sweeps
                policies(sweep d + 1), unless no record is left: that is a shorter chain
            put them all back, the last one first

    The last sweep changes no lists: each level that it comes to is a policy. A loop with a stack
    takes the place of recursion, since compiled recursive functions that allocate fail when they
    are loaded from the cache.
    """
    best = np.full(rows * width, NEVER, dtype=np.int64)
    levels = np.zeros((rows * width, len(sweeps.level)), dtype=np.int32)
    surest = np.argsort(-sweeps.level, axis=1, kind="stable")
    _enumerate(sweeps, surest, width if rows > 1 else 0, best, levels)
    return best, levels


@njit
def _enumerate(
    sweeps: Sweeps, surest: IntArray, by_answers: int, best: IntArray, levels: Array
) -> None:
    """Fill what :func:`attained` returns.

    ``surest`` (m, N) has the records of each sweep, those of the highest level first. Policies with
    one more answer are ``by_answers`` cells on.
    """
    level, gain, cost, answered, nobody, everybody = sweeps
    m, n = level.shape
    node = np.zeros((m, n + 1, 4), dtype=np.int64)
    for r in range(n):
        saved = 0
        for d in range(m - 1, -1, -1):
            saved += cost[d + 1, r]
            node[d, r, _LEVEL] = level[d, r]
            node[d, r, _GAINED] = gain[d, r] - gain[m, r]
            node[d, r, _SAVED] = saved
    preceding = np.zeros((m, n + 1), dtype=np.int32)
    highest = np.zeros(m, dtype=np.int64)
    for d in range(m):
        before = n
        for r in surest[d]:
            node[d, before, _NEXT] = r
            preceding[d, r] = before
            before = r
        node[d, before, _NEXT] = n
        preceding[d, n] = before
        highest[d] = level[d, surest[d, 0]]
    total_gain, total_cost, total_answered = 0, 0, answered[m] * n
    for r in range(n):
        total_gain += gain[m, r]
        for i in range(m + 1):
            total_cost += cost[i, r]
    cut = np.zeros(m, dtype=np.int64)
    cursor = np.zeros(m, dtype=np.int64)
    at_start = np.zeros(m, dtype=np.bool_)
    out = np.zeros((m, n), dtype=np.int32)  # the records that left at a sweep, in order
    count = np.zeros(m, dtype=np.int64)
    last = m - 1
    d = 0
    cursor[0], at_start[0] = node[0, n, _NEXT], True
    while d >= 0:
        r = cursor[d]
        if d == last:
            g, c, a = total_gain, total_cost, total_answered
            if nobody[d] and r != n:
                cell = g + a * by_answers
                if c < best[cell]:
                    _note(best, levels, cell, c, cut, highest[d] + 1)
            while r != n:
                g += node[d, r, _GAINED]
                c -= node[d, r, _SAVED]
                a += answered[d] - answered[m]
                following = node[d, r, _NEXT]
                whole = node[d, following, _LEVEL] != node[d, r, _LEVEL]  # the level is complete
                if whole and (following != n or everybody):
                    cell = g + a * by_answers
                    if c < best[cell]:
                        _note(best, levels, cell, c, cut, node[d, r, _LEVEL])
                r = following
            d -= 1
            continue
        if at_start[d] and nobody[d]:
            cut[d] = highest[d] + 1
        elif r != n:
            cut[d] = level[d, r]
            while r != n and level[d, r] == cut[d]:
                total_gain += node[d, r, _GAINED]
                total_cost -= node[d, r, _SAVED]
                total_answered += answered[d] - answered[m]
                _take_out(node, preceding, d, r)
                out[d, count[d]] = r
                count[d] += 1
                r = node[d, r, _NEXT]
            cursor[d] = r
        at_start[d] = False
        if r != n:  # there are records for the next sweep
            d += 1
            cursor[d], at_start[d] = node[d, n, _NEXT], True
            continue
        while count[d] > 0:
            count[d] -= 1
            r = out[d, count[d]]
            total_gain -= node[d, r, _GAINED]
            total_cost += node[d, r, _SAVED]
            total_answered -= answered[d] - answered[m]
            _put_back(node, preceding, d, r)
        d -= 1


@njit
def _note(
    best: IntArray, levels: Array, cell: int, cost: int, cut: IntArray, last_level: int
) -> None:
    """Write down the cheapest policy of a cell so far."""
    best[cell] = cost
    last = levels.shape[1] - 1
    for i in range(last):
        levels[cell, i] = cut[i]
    levels[cell, last] = last_level


@njit
def _take_out(node: IntArray, preceding: Array, sweep: int, record: int) -> None:
    """Take a record out of the lists of all later sweeps."""
    for i in range(sweep + 1, len(node)):
        following = node[i, record, _NEXT]
        node[i, preceding[i, record], _NEXT] = following
        preceding[i, following] = preceding[i, record]


@njit
def _put_back(node: IntArray, preceding: Array, sweep: int, record: int) -> None:
    """Put the record that was taken out last back into the lists of all later sweeps."""
    for i in range(len(node) - 1, sweep, -1):
        node[i, preceding[i, record], _NEXT] = record
        preceding[i, node[i, record, _NEXT]] = record


def best_of(sweeps: Sweeps, chain: tuple[int, ...], by_answers: bool) -> list[Point]:
    """Return the best compromises of gain and cost among the policies of a chain.

    Parameters
    ----------
    sweeps : Sweeps
    chain : tuple of int
    by_answers : bool
        Whether to return the best compromises for each number of answers.
    """
    m, n = sweeps.level.shape
    if m == 0:
        gain, cost = int(sweeps.gain.sum()), int(sweeps.cost.sum())
        return [Point(n, gain, cost, chain, ())]
    width = int(sweeps.gain.max(axis=0).sum()) + 1
    rows = n + 1 if by_answers else 1
    best, levels = attained(sweeps, rows, width)
    points = []
    for a, row in enumerate(best.reshape(rows, width)):
        cells = staircase(row)
        for g in cells.tolist():
            cut = tuple(levels[a * width + g].tolist())
            points.append(Point(a if by_answers else n, g, int(row[g]), chain, cut))
    return points


def staircase(best: IntArray) -> IntArray:
    """Return the gains, ascending, that cost less than all greater ones; ``best`` has the costs."""
    cheapest = np.minimum.accumulate(best[::-1])[::-1]  # of that gain or more
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
