"""The best row of each cell of any grid over the plane, while rows come in one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.jit import njit


class BestTree(NamedTuple):
    """A k-d tree of points in the plane that knows the best row of each subtree.

    A row is better than another by its violation, then by its loss, then by coming first. Rows at
    one point share a node. An insertion takes O(depth), logarithmic unless the points come in
    ascending order; the best of all cells of a grid takes O(lines * sqrt(n)).

    Attributes
    ----------
    point : numpy.ndarray of float64, shape (capacity, 2)
    child : numpy.ndarray of int64, shape (capacity, 2)
        Nodes below and above; 0 is none.
    own, best : numpy.ndarray of int64, shape (capacity,)
        Best row at the node, and in its subtree.
    size : numpy.ndarray of int64, shape (2,)
        Number of nodes; nodes on the longest path.
    """

    point: FloatArray
    child: IntArray
    own: IntArray
    best: IntArray
    size: IntArray

    @classmethod
    def with_room(cls, n: int, old: BestTree | None = None) -> BestTree:
        """Return room for ``n`` rows, with those of ``old`` in it."""
        own, best = np.zeros((2, n), dtype=np.int64)
        child, size = np.zeros((n, 2), dtype=np.int64), np.zeros(2, dtype=np.int64)
        new = cls(np.zeros((n, 2)), child, own, best, size)
        if old is not None:
            for mine, its in zip(new, old, strict=True):
                mine[: len(its)] = its
        return new


@njit
def better(row: int, other: int, violation: FloatArray, loss: FloatArray) -> bool:
    """Tell whether a row beats one that came before it."""
    if violation[row] != violation[other]:
        return bool(violation[row] < violation[other])
    return bool(loss[row] < loss[other])


@njit
def insert(
    tree: BestTree, row: int, x: float, y: float, violation: FloatArray, loss: FloatArray
) -> None:
    """Put in the next row, at (x, y)."""
    point, child, own, best, size = tree
    node, depth = 0, 1
    while size[0] > 0:
        if better(row, best[node], violation, loss):
            best[node] = row
        if point[node, 0] == x and point[node, 1] == y:
            if better(row, own[node], violation, loss):
                own[node] = row
            return
        value = x if depth % 2 else y
        side = 1 if value >= point[node, 1 - depth % 2] else 0
        depth += 1
        if child[node, side] == 0:
            child[node, side] = size[0]
            break
        node = child[node, side]
    new = size[0]
    point[new, 0], point[new, 1] = x, y
    own[new] = best[new] = row
    size[0] += 1
    size[1] = max(size[1], depth)


@njit
def cell_of(boundaries: FloatArray, value: float) -> int:
    """Return the cell of a value: the last that begins at or below it; outer values the outer."""
    cell = 0
    while cell < len(boundaries) - 2 and boundaries[cell + 1] <= value:
        cell += 1
    return cell


@njit
def best_of_cells(
    tree: BestTree, boundaries: FloatArray, violation: FloatArray, loss: FloatArray, cells: IntArray
) -> None:
    """Fill ``cells`` with the best row of each cell, -1 where there is none.

    Parameters
    ----------
    boundaries : numpy.ndarray of float64, shape (2, m + 1)
        Ascending in each dimension.
    cells : numpy.ndarray of int64, shape (m, m)

    Notes
    -----
    Only where a subtree's points may lie in several cells is it entered.
    """
    point, child, own, best, size = tree
    cells[:] = -1
    if size[0] == 0:
        return
    last = boundaries.shape[1] - 2
    waiting = np.empty((size[1] + 1, 6), dtype=np.int64)  # node, axis, cells: from and to, twice
    waiting[0] = np.array([0, 0, 0, last, 0, last])
    count = 1
    while count:
        count -= 1
        node, axis = waiting[count, 0], waiting[count, 1]
        low, high = waiting[count, 2:6:2].copy(), waiting[count, 3:6:2].copy()
        if low[0] == high[0] and low[1] == high[1]:
            _offer(cells, low[0], low[1], best[node], violation, loss)
            continue
        here = cell_of(boundaries[0], point[node, 0]), cell_of(boundaries[1], point[node, 1])
        _offer(cells, here[0], here[1], own[node], violation, loss)
        for side in range(2):
            if child[node, side]:
                waiting[count, 0], waiting[count, 1] = child[node, side], 1 - axis
                waiting[count, 2:6:2], waiting[count, 3:6:2] = low, high
                if side == 0:
                    waiting[count, 3 + 2 * axis] = min(high[axis], here[axis])
                else:
                    waiting[count, 2 + 2 * axis] = max(low[axis], here[axis])
                count += 1


@njit
def _offer(
    cells: IntArray, i: int, j: int, row: int, violation: FloatArray, loss: FloatArray
) -> None:
    other = cells[i, j]
    if other < 0 or better(row, other, violation, loss) or (
        row < other and not better(other, row, violation, loss)
    ):  # fmt: skip
        cells[i, j] = row
