"""Columns of numbers as CSV files, read back exactly."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import numpy as np

from framework.arrays import Array


def csv_of(columns: Mapping[str, Array]) -> str:
    """Return a CSV file of columns of equal length; NaN is an empty field."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_fields, columns.values()), strict=True))
    return text.getvalue()


def _fields(column: Array) -> list[object]:
    fields: list[object] = column.tolist()
    return [None if value != value else value for value in fields]


def columns_of(path: Path) -> dict[str, Array]:
    """Read a CSV file of numbers: a column is int64 where it can be, else float64.

    Raises
    ------
    OSError, ValueError, OverflowError, csv.Error
        The file cannot be read, or holds something else.
    """
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    if not all(len(row) == len(header) for row in rows):
        raise ValueError("rows of other lengths than the first")
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {name: _numbers(fields) for name, fields in zip(header, columns, strict=True)}


def _numbers(fields: Sequence[str]) -> Array:
    try:
        return np.array(list(map(int, fields)), dtype=np.int64)
    except ValueError:
        return np.array([float(field or "nan") for field in fields])
