"""Archives of elites without niches: the best rows, and the front."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from framework.arrays import BoolArray, FloatArray, IntArray
from framework.pareto import nondominated


class EliteArchive(Protocol):
    """Keeps the best of the rows that are added to it; rows are numbered from 0 as they come."""

    def __len__(self) -> int:
        """Return how many rows were added."""
        ...

    def ranked(self) -> IntArray:
        """Return the elites, best first."""
        ...

    def feasible(self) -> IntArray:
        """Return the elites that violate nothing."""
        ...

    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        """Add rows; each archive defines the columns of ``behaviour``, shape (n, b)."""
        ...


class BestArchive:
    """The best rows of all, whatever their behaviour.

    Parameters
    ----------
    size : int
        How many are kept.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.elites: IntArray = np.zeros(0, dtype=np.int64)
        self._keys: FloatArray = np.zeros((2, 0))
        self._rows = 0

    def __len__(self) -> int:
        """Return how many rows were added."""
        return self._rows

    def ranked(self) -> IntArray:
        """Return the elites, best first."""
        return self.elites

    def feasible(self) -> IntArray:
        """Return the elites that violate nothing."""
        return np.asarray(self.elites[self._keys[1] == 0.0])

    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        """Add rows by violation and loss, shape (n,); the behaviour is ignored."""
        rows = np.concatenate([self.elites, np.arange(self._rows, self._rows + len(loss))])
        keys = np.concatenate([self._keys, np.stack([loss, violation])], axis=1)
        order = np.lexsort(keys)[: self.size]  # stable: the first of equals comes first
        self.elites, self._keys = rows[order], keys[:, order]
        self._rows += len(loss)


class FrontArchive:
    """The front of all rows: the feasible ones that no other row dominates.

    Before there is a feasible row, those with the least violation. Of equal rows the first is kept.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._elites: IntArray = np.zeros(0, dtype=np.int64)
        self._table: FloatArray | None = None  # violation, loss, objectives

    def __len__(self) -> int:
        """Return how many rows were added."""
        return self._rows

    def ranked(self) -> IntArray:
        """Return the elites, least loss first."""
        if self._table is None:
            return self._elites
        return np.asarray(self._elites[np.lexsort((self._elites, self._table[:, 1]))])

    def feasible(self) -> IntArray:
        """Return the elites that violate nothing."""
        if self._table is None:
            return self._elites
        return np.asarray(self._elites[self._table[:, 0] == 0.0])

    def add(self, behaviour: FloatArray, violation: FloatArray, loss: FloatArray) -> None:
        """Add rows.

        Parameters
        ----------
        behaviour : numpy.ndarray of float64, shape (n, m)
            The objectives, to be minimised.
        violation, loss : numpy.ndarray of float64, shape (n,)
        """
        table = np.column_stack([violation, loss, behaviour])
        if self._table is not None:
            table = np.concatenate([self._table, table])
        rows = np.concatenate([self._elites, np.arange(self._rows, self._rows + len(loss))])
        self._rows += len(loss)
        if len(table):
            kept = _front(table)
            self._elites, self._table = rows[kept], table[kept]


def _front(table: FloatArray) -> BoolArray:
    least = table[:, 0] == table[:, 0].min()
    least[least] = nondominated(table[least][:, 2:])
    return np.asarray(least)
