"""A tree that finds the best row in each cell of any grid over the plane, as rows are added."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.jit import njit


class BestTree(NamedTuple):
    """A k-d tree of points in the plane that knows the best row of each subtree.

    A row is better than another by its violation, then by its loss, then by coming first. Rows at
    one point share a node. An insertion takes O(depth), logarithmic unless the points come in
    ascending order; the best of all cells of a grid takes O(lines * sqrt(n)) at most.

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
    """Fill ``cells`` with the best row of each cell.

    Parameters
    ----------
    boundaries : numpy.ndarray of float64, shape (2, m + 1)
        Ascending in each dimension.
    cells : numpy.ndarray of int64, shape (m, m)
        Some row of the cell, or -1; the better these are, the faster it goes.

    Notes
    -----
    A subtree is entered only where its points may lie in several cells and its best row beats
    the row of one of them.
    """
    point, child, own, best, size = tree
    if size[0] == 0:
        return
    last = boundaries.shape[1] - 2
    waiting = np.empty((size[1] + 1, 6), dtype=np.int64)  # node, axis, rows and columns: from, to
    waiting[0] = np.array([0, 0, 0, last, 0, last])
    count = 1
    while count:
        count -= 1
        node, axis, top, bottom, left, right = waiting[count]
        if not _wins(cells[top : bottom + 1, left : right + 1], best[node], violation, loss):
            continue
        if top == bottom and left == right:
            cells[top, left] = best[node]
            continue
        i, j = cell_of(boundaries[0], point[node, 0]), cell_of(boundaries[1], point[node, 1])
        if wins(own[node], cells[i, j], violation, loss):
            cells[i, j] = own[node]
        for side in range(2):
            if child[node, side]:
                entry = waiting[count]
                entry[0], entry[1] = child[node, side], 1 - axis
                entry[2], entry[3], entry[4], entry[5] = top, bottom, left, right
                if side == 0:
                    entry[3 + 2 * axis] = min(entry[3 + 2 * axis], j if axis else i)
                else:
                    entry[2 + 2 * axis] = max(entry[2 + 2 * axis], j if axis else i)
                count += 1


@njit
def wins(row: int, other: int, violation: FloatArray, loss: FloatArray) -> bool:
    """Tell whether a row takes the place of another (or of none, -1), whichever came first."""
    if other < 0 or better(row, other, violation, loss):
        return True
    return row < other and not better(other, row, violation, loss)


@njit
def _wins(cells: IntArray, row: int, violation: FloatArray, loss: FloatArray) -> bool:
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            if wins(row, cells[i, j], violation, loss):
                return True
    return False
