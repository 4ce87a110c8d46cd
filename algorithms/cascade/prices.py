"""The corners that a long chain of models adds to a convex hull, by prices of an answer.

At a price, a policy is worth A times its gain less B times its cost, and each corner of a hull is
the best at some. The prices are those of the edges that are known: either an edge stays, or a
policy beyond it gives two new ones (dichotomy; Aneja and Nair, Management Science 1979).

At one price all thresholds but the last two are searched by branch and bound over boxes of them.
Of a box, a record that some threshold does not decide on takes the better of leaving there and
whatever becomes of it later, which bounds every policy of the box. The last two thresholds are
solved exactly: one sweeps, and a tree over the other's levels keeps the greatest sum of a suffix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from algorithms.cascade.enumeration import Point, Sweeps, hull
from framework.arrays import IntArray
from framework.jit import njit

_MOST = 2**61  # of a weighted sum


def corners_of(sweeps: Sweeps, chain: tuple[int, ...], known: Sequence[Point]) -> list[Point]:
    """Return points of a chain such that the hull of them and of ``known`` holds all its policies.

    Parameters
    ----------
    sweeps : Sweeps
        Without abstention, two or more.
    chain : tuple of int
    known : sequence of Point
        Attained already; at least one.

    Raises
    ------
    OverflowError
        Gains times costs do not fit 64 bits (:func:`fits`).
    """
    if not fits(sweeps):
        raise OverflowError("gains times costs")
    m, n = sweeps.level.shape
    paid = np.cumsum(sweeps.cost, axis=0)
    most_gain = int(sweeps.gain.max(axis=0).sum()) + 1
    most_cost = max(int(paid[-1].sum()), max(point.cost for point in known)) + 1
    order = np.argsort(-sweeps.level[m - 2], kind="stable")
    found: list[Point] = []
    corners = hull(known)
    solved: set[tuple[int, int]] = set()
    while True:
        ends = [(1, most_gain), (most_cost, 1)]
        edges = [(q.cost - p.cost, q.gain - p.gain) for p, q in itertools.pairwise(corners)]
        left = [price for price in map(_reduced, ends + edges) if price not in solved]
        if not left:
            return found
        for a, b in left:
            solved.add((a, b))
            worth = a * sweeps.gain - b * paid
            floor = max(a * point.gain - b * point.cost for point in corners)
            better, levels = best_at(sweeps.level, worth, order, floor)
            if better <= floor:
                continue
            gain, cost = attained_by(sweeps, levels)
            found.append(Point(n, gain, cost, chain, tuple(levels.tolist())))
            corners = hull([*corners, found[-1]])


def fits(sweeps: Sweeps) -> bool:
    """Return whether gains times costs fit 64 bits."""
    gain = int(sweeps.gain.max(axis=0).sum()) + 1
    return gain * (sum(map(int, sweeps.cost.sum(axis=1))) + 1) < _MOST


def attained_by(sweeps: Sweeps, levels: IntArray) -> tuple[int, int]:
    """Return gain and cost of one policy."""
    n = sweeps.level.shape[1]
    leaves = np.vstack([sweeps.level >= levels[:, None], np.ones(n, dtype=bool)])
    at = leaves.argmax(axis=0)
    records = np.arange(n)
    paid = np.cumsum(sweeps.cost, axis=0)
    return int(sweeps.gain[at, records].sum()), int(paid[at, records].sum())


def _reduced(price: tuple[int, int]) -> tuple[int, int]:
    common = math.gcd(*price)
    return price[0] // common, price[1] // common


@njit
def best_at(level: IntArray, worth: IntArray, order: IntArray, floor: int) -> tuple[int, IntArray]:
    """Return the greatest worth of a policy and its levels, if it is above ``floor``.

    Parameters
    ----------
    level : numpy.ndarray of int64, shape (m, N)
        From 1; m of 2 or more.
    worth : numpy.ndarray of int64, shape (m + 1, N)
        Of a record that leaves at a sweep, or at the end.
    order : numpy.ndarray of int64, shape (N,)
        Records by the level of the last sweep but one, descending.
    floor : int
        Returned where nothing is above it.

    Returns
    -------
    best : int
    levels : numpy.ndarray of int64, shape (m,)
        Whoever has as much or more leaves; one more than the highest: nobody does.
    """
    m, n = level.shape
    outer = m - 2
    highest = np.zeros(m, dtype=np.int64)
    for d in range(m):
        highest[d] = level[d].max()
    leaves = 1
    while leaves < highest[m - 1]:
        leaves *= 2
    total = np.zeros(2 * leaves, dtype=np.int64)
    suffix = np.zeros(2 * leaves, dtype=np.int64)
    state = np.zeros(
        (n, 4), dtype=np.int64
    )  # worth at the last three places; whether it gets there
    best, levels = floor, np.zeros(m, dtype=np.int64)
    cut = np.zeros(m, dtype=np.int64)
    stack = np.zeros((2 + 64 * m, 2, outer), dtype=np.int64)  # of boxes: lowest, highest cut
    bounds = np.zeros(len(stack), dtype=np.int64)
    child = np.zeros((2, 2, outer), dtype=np.int64)
    value = np.zeros(2, dtype=np.int64)
    for d in range(outer):
        child[0, 0, d], child[0, 1, d] = 1, highest[d] + 1
    children, size = 1, 0
    while children or size:
        if not children:
            size -= 1
            if bounds[size] <= best:
                continue
            wide, most = -1, 0  # the sweep that leaves the most levels undecided
            for d in range(outer):
                if stack[size, 1, d] - stack[size, 0, d] > most:
                    wide, most = d, stack[size, 1, d] - stack[size, 0, d]
            if wide < 0:  # one policy of the outer sweeps: exact, and taken already
                continue
            child[0], child[1] = stack[size], stack[size]
            middle = (stack[size, 0, wide] + stack[size, 1, wide]) // 2
            child[0, 1, wide], child[1, 0, wide] = middle, middle + 1
            children = 2
        for c in range(children):
            low, high = child[c, 0], child[c, 1]
            fixed, rest = 0, 0
            total[:] = 0
            for r in range(n):
                free, taken, at = 0, False, m
                for d in range(outer):
                    if level[d, r] >= high[d]:
                        at = d
                        break
                    if level[d, r] >= low[d]:
                        free = max(free, worth[d, r]) if taken else worth[d, r]
                        taken = True
                if at < m:
                    fixed += max(free, worth[at, r]) if taken else worth[at, r]
                    state[r, 3] = 0
                    continue
                for i in range(3):
                    w = worth[outer + i, r]
                    state[r, i] = max(free, w) if taken else w
                state[r, 3] = 1
                rest += state[r, 2]
                total[leaves + level[m - 1, r] - 1] += state[r, 1] - state[r, 2]
            for i in range(leaves, 2 * leaves):
                suffix[i] = max(total[i], 0)
            for i in range(leaves - 1, 0, -1):
                total[i] = total[2 * i] + total[2 * i + 1]
                suffix[i] = max(suffix[2 * i + 1], total[2 * i + 1] + suffix[2 * i])
            bound = fixed + rest + suffix[1]
            cut[outer] = highest[outer] + 1
            gone, here, there = 0, 0, cut[outer]
            # of those that have left: their worth, less what they would have had at the end
            for i in range(n):
                r = order[i]
                if level[outer, r] != there:
                    if fixed + rest + here + suffix[1] > bound:
                        bound = fixed + rest + here + suffix[1]
                        cut[outer], gone = there, i
                    there = level[outer, r]
                if state[r, 3] == 0:
                    continue
                here += state[r, 0] - state[r, 2]
                j = leaves + level[m - 1, r] - 1
                total[j] -= state[r, 1] - state[r, 2]
                suffix[j] = max(total[j], 0)
                j //= 2
                while j:
                    total[j] = total[2 * j] + total[2 * j + 1]
                    suffix[j] = max(suffix[2 * j + 1], total[2 * j + 1] + suffix[2 * j])
                    j //= 2
            if fixed + rest + here + suffix[1] > bound:
                bound = fixed + rest + here + suffix[1]
                cut[outer], gone = there, n
            value[c] = bound
            if bound <= best:
                continue
            # the last cut of the best sweep, and what one policy of the box is worth
            total[leaves:] = 0
            for i in range(gone, n):
                r = order[i]
                if state[r, 3]:
                    total[leaves + level[m - 1, r] - 1] += state[r, 1] - state[r, 2]
            cut[m - 1] = highest[m - 1] + 1
            reached, greatest = 0, 0
            for at in range(highest[m - 1], 0, -1):
                reached += total[leaves + at - 1]
                if reached > greatest:
                    greatest = reached
                    cut[m - 1] = at
            for d in range(outer):
                cut[d] = (low[d] + high[d]) // 2
            attained = 0
            for r in range(n):
                at = 0
                while at < m and level[at, r] < cut[at]:
                    at += 1
                attained += worth[at, r]
            if attained > best:
                best = attained
                levels[:] = cut
        first = 0 if children == 1 or value[0] <= value[1] else 1
        for c in (first, 1 - first):  # the one that promises more is opened first
            if c < children and value[c] > best:
                stack[size] = child[c]
                bounds[size] = value[c]
                size += 1
        children = 0
    return best, levels
