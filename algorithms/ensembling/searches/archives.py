"""Archives of elites: the best rows, the front, and the grid of HAPEns and QDO-ES that slides."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit
from framework.pareto import nondominated


class EliteArchive(ABC):
    """Keeps the best of the rows that are added, which are numbered from 0 in their order."""

    def __init__(self) -> None:
        self._rows = 0

    def __len__(self) -> int:
        """Return how many rows were added."""
        return self._rows

    @abstractmethod
    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        """Add rows.

        Parameters
        ----------
        behaviour : numpy.ndarray of float64, shape (n, b)
            Each archive defines the columns.
        violation, loss : numpy.ndarray of float64, shape (n,)
            To be minimised, the violation first.
        """

    @abstractmethod
    def standings(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the elites in any order, their violations and their losses, shape (e,) each."""

    def ranked(self) -> IntArray:
        """Return the elites, best first."""
        rows, violation, loss = self.standings()
        return np.asarray(rows[np.lexsort((rows, loss, violation))])

    def feasible(self) -> IntArray:
        """Return the elites that violate nothing."""
        rows, violation, _ = self.standings()
        return np.asarray(rows[violation == 0.0])


class _TableArchive(EliteArchive):
    """An archive that keeps a table of its elites, which new rows join."""

    def __init__(self) -> None:
        super().__init__()
        self._elites: IntArray = np.zeros(0, dtype=np.int64)
        self._table: FloatArray | None = None  # violation, loss, behaviour

    @abstractmethod
    def _chosen(self, table: FloatArray) -> Array:
        """Return which rows of a table, not empty, are the elites: a mask, or positions."""

    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        table = np.column_stack([violation, loss, behaviour])
        if self._table is not None:
            table = np.concatenate([self._table, table])
        rows = np.concatenate([self._elites, np.arange(self._rows, self._rows + len(loss))])
        self._rows += len(loss)
        if len(table):
            chosen = self._chosen(table)
            self._elites, self._table = rows[chosen], table[chosen]

    def standings(self) -> tuple[IntArray, FloatArray, FloatArray]:
        table = np.zeros((0, 2)) if self._table is None else self._table
        return self._elites, table[:, 0], table[:, 1]


class BestArchive(_TableArchive):
    """The ``size`` best rows by violation, then loss, whatever their behaviour."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def _chosen(self, table: FloatArray) -> Array:
        return np.lexsort((table[:, 1], table[:, 0]))[: self.size]  # stable: first of equals


class FrontArchive(_TableArchive):
    """The front of all rows: the feasible ones that no other row dominates.

    The behaviours are the objectives, to be minimised. Before there is a feasible row, it is the
    front of those with the least violation. Of rows with equal objectives the first is kept.
    """

    def _chosen(self, table: FloatArray) -> Array:
        least = table[:, 0] == table[:, 0].min()
        least[least] = nondominated(table[least][:, 2:])
        return np.asarray(least)


class SlidingArchive(EliteArchive):
    """A grid over two behaviours, with sliding boundaries, that keeps the best row of each cell.

    All cells have the same size at first. Later, the boundaries in each dimension are the values at
    rank ``int(j * n / cells)`` of the ``n`` rows so far, and their greatest value. At any time a
    cell holds the best of *all* rows that lie in it, elites or not: by violation, then loss, then
    order of coming. A value on a boundary lies in the cell above; values beyond the outer
    boundaries lie in the outer cells.

    Parameters
    ----------
    lower, upper : array_like, shape (2,)
        Bounds of the behaviours.
    first, every : int
        The boundaries slide when ``first`` rows are in, and from then on whenever the number of
        rows is a multiple of ``every``.
    cells : int
        Number of cells in each dimension.

    Notes
    -----
    Fontaine et al. 2019, doi:10.1145/3321707.3321794. As there, the whole history is put in again
    when boundaries slide, in O(n). Of equally good rows, the archive of the package ribs may keep
    a later one that was an elite before.
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
        super().__init__()
        self.first, self.every = first, every
        self.boundaries: FloatArray = np.ascontiguousarray(np.linspace(lower, upper, cells + 1).T)
        self._cells: IntArray = np.full((cells, cells), -1, dtype=np.int64)
        self._table: FloatArray = np.zeros((4, 1 << 10))  # two behaviours, violation, loss
        self._sorted: FloatArray = np.zeros((2, 0))  # behaviours up to the last slide, ascending

    @property
    def elites(self) -> IntArray:
        """The best row of each cell that has one, cell by cell."""
        return np.asarray(self._cells[self._cells >= 0])

    def standings(self) -> tuple[IntArray, FloatArray, FloatArray]:
        rows = self.elites
        return rows, self._table[2, rows], self._table[3, rows]

    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        before, self._rows = self._rows, self._rows + len(loss)
        if self._rows > self._table.shape[1]:
            room = np.zeros((4, 2 * self._rows - self._table.shape[1]))
            self._table = np.concatenate([self._table, room], axis=1)
        self._table[:, before : self._rows] = [*behaviour.T, violation, loss]
        # The best row of a cell depends on the latest boundaries only, so that of several slides
        # within these rows only the last one counts.
        slide = self._rows // self.every * self.every
        if slide <= self.first:
            slide = self.first if self.first <= self._rows else 0
        if slide > before:
            self._slide(slide)
            self._cells[:], before = -1, 0
        _enter(self._table, before, self._rows, self.boundaries, self._cells)

    def _slide(self, n: int) -> None:
        """Set the boundaries to quantiles of the first ``n`` rows."""
        new = np.sort(self._table[:2, self._sorted.shape[1] : n], axis=1)
        # A stable sort merges two runs that are sorted already in linear time.
        self._sorted = np.sort(np.concatenate([self._sorted, new], axis=1), axis=1, kind="stable")
        cells = len(self._cells)
        ranks = [*(j * n // cells for j in range(cells)), n - 1]
        self.boundaries = np.ascontiguousarray(self._sorted[:, ranks])


@njit
def _enter(
    table: FloatArray, first: int, last: int, boundaries: FloatArray, cells: IntArray
) -> None:
    """Put each of some rows into its cell if it is better than the row that is there."""
    x, y, violation, loss = table
    for row in range(first, last):
        i, j = _cell_of(boundaries[0], x[row]), _cell_of(boundaries[1], y[row])
        other = cells[i, j]  # it came before, so it stays if both are equally good
        if (
            other < 0
            or violation[row] < violation[other]
            or (violation[row] == violation[other] and loss[row] < loss[other])
        ):
            cells[i, j] = row


@njit
def _cell_of(boundaries: FloatArray, value: float) -> int:
    """Return the last cell that begins at or below a value; the first cell for values below all."""
    cell = 0
    while cell < len(boundaries) - 2 and boundaries[cell + 1] <= value:
        cell += 1
    return cell
