"""Rows of a linear program as solvers take them, and a bound of it that no tolerance spoils."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, FloatArray


class Rows:
    """Rows of a program, gathered in order."""

    def __init__(self, columns: int) -> None:
        self.columns, self.count = columns, 0
        self._row: list[Array] = []
        self._column: list[Array] = []
        self._value: list[Array] = []
        self._lower: list[Array] = []
        self._upper: list[Array] = []

    def add(self, columns: Array, values: Array, lower: float, upper: float) -> None:
        """Add a row."""
        self._take(np.full(len(columns), self.count), columns, values)
        self._lower.append(np.array([lower], dtype=np.float64))
        self._upper.append(np.array([upper], dtype=np.float64))
        self.count += 1

    def add_block(
        self, table: FloatArray, extra: list[tuple[Array, Array, Array]], upper: FloatArray
    ) -> None:
        """Add rows over the first columns, some more entries, and upper bounds alone."""
        row, column = np.nonzero(table)
        self._take(self.count + row, column, table[row, column])
        for r, c, v in extra:
            self._take(self.count + r, c, v)
        self._lower.append(np.full(len(upper), -np.inf))
        self._upper.append(upper)
        self.count += len(upper)

    def arrays(self) -> tuple[Array, Array, FloatArray, FloatArray, FloatArray]:
        """Return starts, indices, values, lower and upper bounds, row by row."""
        row, column = np.concatenate(self._row), np.concatenate(self._column)
        value = np.concatenate(self._value)
        order = np.lexsort((column, row))
        starts = np.searchsorted(row[order], np.arange(self.count)).astype(np.int32)
        return (
            starts,
            column[order].astype(np.int32),
            np.ascontiguousarray(value[order]),
            np.concatenate(self._lower),
            np.concatenate(self._upper),
        )

    def _take(self, row: Array, column: Array, value: Array) -> None:
        keep = np.asarray(value) != 0
        self._row.append(np.asarray(row)[keep])
        self._column.append(np.asarray(column)[keep])
        self._value.append(np.asarray(value, dtype=np.float64)[keep])


def safe_bound(
    dual: FloatArray,
    cost: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    start: Array,
    index: Array,
    value: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
) -> float:
    """Return an upper bound of the program from any multipliers (weak duality).

    Multipliers of the wrong sign for a one-sided row count as 0, so that the solver's tolerances
    do not matter.
    """
    y = np.where(np.isinf(row_upper), np.minimum(dual, 0.0), dual)
    y = np.where(np.isinf(row_lower), np.maximum(y, 0.0), y)
    lengths = np.diff(np.append(start, len(value)))
    taken = np.bincount(index, weights=value * np.repeat(y, lengths), minlength=len(cost))
    reduced = cost - taken
    with np.errstate(invalid="ignore"):
        sides = np.where(y > 0, y * row_upper, np.where(y < 0, y * row_lower, 0.0))
    columns = np.maximum(reduced * lower, reduced * upper)
    return float(sides.sum() + columns.sum())
