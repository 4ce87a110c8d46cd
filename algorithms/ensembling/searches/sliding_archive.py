"""The archive of HAPEns and QDO-ES: a grid with sliding boundaries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.ensembling.searches import best_tree, sorted_values
from algorithms.ensembling.searches.best_tree import BestTree
from algorithms.ensembling.searches.sorted_values import SortedValues
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

_SMALLEST = 1 << 10


class _Told(NamedTuple):
    """Losses of all rows, and where they lie."""

    place: FloatArray
    violation: FloatArray
    loss: FloatArray
    first: SortedValues
    second: SortedValues
    tree: BestTree


class SlidingArchive:
    """A grid over two behaviours that keeps the best row of each cell.

    The boundaries are equally wide at first. Later they are, in each dimension, the values at
    rank ``int(j * n / cells)`` of the ``n`` rows seen, and their greatest value. At any time a
    cell holds the best of *all* rows that lie in it, elites or not: by violation, then loss, then
    by coming first. A value on a boundary lies in the cell above; values beyond the outer
    boundaries lie in the outer cells.

    Parameters
    ----------
    lower, upper : array_like, shape (2,)
        Bounds of the behaviours.
    first, every : int
        The boundaries slide when ``first`` rows are in, and from then on whenever the number of
        rows is a multiple of ``every``.
    cells : int
        Per dimension.

    Notes
    -----
    Fontaine et al. 2019, doi:10.1145/3321707.3321794. Where boundaries slide, that paper's and
    ribs' archives put in the whole history again, O(n) each time and O(n^2 / every) in all. Here
    rows lie in two sorted sequences and a k-d tree: O(log n + sqrt(n) cells / every) a row.
    Of equally good rows ribs may keep a later one that was an elite before.
    """

    def __init__(
        self,
        lower: FloatArray | tuple[float, float],
        upper: FloatArray | tuple[float, float],
        *,
        first: int,
        every: int,
        cells: int = 7,
    ) -> None:
        self.first, self.every = first, every
        self.boundaries: FloatArray = np.ascontiguousarray(np.linspace(lower, upper, cells + 1).T)
        self._cells = np.full((cells, cells), -1, dtype=np.int64)
        self._rows = 0
        self._told = _room(_SMALLEST)

    def __len__(self) -> int:
        """Return how many rows were added."""
        return self._rows

    @property
    def elites(self) -> IntArray:
        """Rows that are the best of a cell, cell by cell; rows are counted from 0 as added."""
        return np.asarray(self._cells[self._cells >= 0])

    def ranked(self) -> IntArray:
        """Return the elites, best first."""
        rows = self.elites
        order = np.lexsort((rows, self._told.loss[rows], self._told.violation[rows]))
        return np.asarray(rows[order])

    def feasible(self) -> IntArray:
        """Return the elites that violate nothing."""
        return np.asarray(self.elites[self._told.violation[self.elites] == 0.0])

    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        """Add rows one by one.

        Parameters
        ----------
        behaviour : numpy.ndarray of float64, shape (n, 2)
        violation, loss : numpy.ndarray of float64, shape (n,)
            To be minimised, the violation first.
        """
        rows = self._rows + len(loss)
        if rows > len(self._told.loss):
            self._told = _room(2 * rows, self._told)
        _add(
            self._told,
            self._rows,
            behaviour,
            violation,
            loss,
            self.first,
            self.every,
            self.boundaries,
            self._cells,
        )
        self._rows = rows


def _room(n: int, old: _Told | None = None) -> _Told:
    if old is None:
        empty = SortedValues.with_room(n), SortedValues.with_room(n), BestTree.with_room(n)
        return _Told(np.zeros((n, 2)), np.zeros(n), np.zeros(n), *empty)
    more = n - len(old.loss)
    return _Told(
        np.concatenate([old.place, np.zeros((more, 2))]),
        np.append(old.violation, np.zeros(more)),
        np.append(old.loss, np.zeros(more)),
        SortedValues.with_room(n, old.first),
        SortedValues.with_room(n, old.second),
        BestTree.with_room(n, old.tree),
    )


@njit
def _add(
    told: _Told,
    rows: int,
    behaviour: FloatArray,
    violations: FloatArray,
    losses: FloatArray,
    first: int,
    every: int,
    boundaries: FloatArray,
    cells: Array,
) -> None:
    place, violation, loss, values_x, values_y, tree = told
    for r in range(len(losses)):
        row = rows + r
        x, y = behaviour[r, 0], behaviour[r, 1]
        place[row] = behaviour[r]
        violation[row], loss[row] = violations[r], losses[r]
        sorted_values.insert(values_x, x)
        sorted_values.insert(values_y, y)
        best_tree.insert(tree, row, x, y, violation, loss)
        n = row + 1
        slides = n == first or (n > first and n % every == 0)
        if slides:
            _slide(values_x, n, boundaries[0])
            _slide(values_y, n, boundaries[1])
            old = cells.copy()
            cells[:] = -1
            for elite in old.ravel():
                if elite >= 0:
                    _enter(elite, place, violation, loss, boundaries, cells)
        _enter(row, place, violation, loss, boundaries, cells)
        if slides:
            best_tree.best_of_cells(tree, boundaries, violation, loss, cells)


@njit
def _enter(
    row: int,
    place: FloatArray,
    violation: FloatArray,
    loss: FloatArray,
    boundaries: FloatArray,
    cells: IntArray,
) -> None:
    """Give a row its cell, if it is better than who is there."""
    i = best_tree.cell_of(boundaries[0], place[row, 0])
    j = best_tree.cell_of(boundaries[1], place[row, 1])
    if best_tree.wins(row, cells[i, j], violation, loss):
        cells[i, j] = row


@njit
def _slide(values: SortedValues, n: int, boundaries: FloatArray) -> None:
    """Set the boundaries of one dimension to quantiles of its ``n`` values."""
    m = len(boundaries) - 1
    ranks = np.empty(m + 1, dtype=np.int64)
    for j in range(m):
        ranks[j] = j * n // m
    ranks[m] = n - 1
    sorted_values.at_ranks(values, ranks, boundaries)
