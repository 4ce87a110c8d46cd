"""Ranking of 3DCH-EMOA: layers of hulls, one inside the other."""

from __future__ import annotations

import numpy as np

from algorithms.hull.kernels import facets, hull3d
from framework.arrays import BoolArray, IntArray
from framework.jit import njit


@njit
def worst(
    state: facets.State, fixed: IntArray, points: IntArray, usable: BoolArray, ids: IntArray
) -> int:
    """Return the row that 3DCH-EMOA deletes.

    Rows with the point of another one are the last level, then those not ``usable``; of each the
    oldest goes. The others are ranked by the hulls of what the levels before left, each with the
    fixed points. The last of these levels loses the row with the least contribution to its hull;
    of equals the oldest.

    Parameters
    ----------
    state : State
        Room for all fixed points and rows; what is in it is lost.
    fixed : int64 (k, 3)
    points : int64 (n, 3)
    usable : bool (n,)
    ids : int64 (n,)

    Notes
    -----
    A hull of n points, and n contributions, for each level: all is made anew each time.
    """
    rest = np.flatnonzero(usable)
    level, inside = _level(state, fixed, points, rest)
    same = _redundant(points, rest, inside)
    if len(same):
        return _oldest(same, ids)
    if len(rest) < len(points):
        return _oldest(np.flatnonzero(~usable), ids)
    while len(inside):
        rest = rest[inside]
        level, inside = _level(state, fixed, points, rest)
        if len(level) == 0:  # boundary points alone: no hull has them as corners
            return _oldest(rest, ids)
    best, least = -1, hull3d.MOST_LOST
    for k in level:
        lost = hull3d.contribution(state, len(fixed) + k, least)
        row = rest[k]
        if best < 0 or lost < least or (lost == least and ids[row] < ids[best]):
            best, least = row, lost
    return int(best)


@njit
def _level(
    state: facets.State, fixed: IntArray, points: IntArray, rows: IntArray
) -> tuple[IntArray, IntArray]:
    """Make the hull of some rows; return which of them are corners, and which are not."""
    state.planes[:3] = 0
    state.planes[3] = -1
    state.facet_of[:] = -1
    state.counts[:] = 0
    first, placed = len(fixed), state.points
    placed[:first] = fixed
    for k in range(len(rows)):
        for j in range(3):
            placed[first + k, j] = points[rows[k], j]
    hull3d.build(state, first + len(rows))
    corner = state.facet_of[first : first + len(rows)] >= 0
    return np.flatnonzero(corner), np.flatnonzero(~corner)


@njit
def _redundant(points: IntArray, rows: IntArray, inside: IntArray) -> IntArray:
    """Return those of the rows ``inside`` that have the point of an earlier row."""
    found = np.empty(len(inside), dtype=np.int64)
    n = 0
    for k in inside:
        i = rows[k]
        for j in rows[:k]:
            if (
                points[i, 0] == points[j, 0]
                and points[i, 1] == points[j, 1]
                and points[i, 2] == points[j, 2]
            ):
                found[n] = i
                n += 1
                break
    return found[:n]


@njit
def _oldest(rows: IntArray, ids: IntArray) -> int:
    best = rows[0]
    for row in rows:
        if ids[row] < ids[best]:
            best = row
    return int(best)
