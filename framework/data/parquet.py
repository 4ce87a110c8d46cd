"""Parquet files, read no further than their size allows.

A column of one value, or of a few long texts, takes a few bytes in a file whatever its length. So
values are counted in the file's description, and texts stay coded until their length is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from framework.errors import InputError
from framework.limits import TABLE_CELLS
from framework.packed import most_unpacked

_VALUE = 8  # bytes


class ParquetTable:
    """A Parquet file, or a folder of them; nothing is read yet but its description.

    Parameters
    ----------
    path : pathlib.Path

    Attributes
    ----------
    names : list of str
        Of the columns.

    Raises
    ------
    ValueError, OSError
        It is none; pyarrow's own errors are ValueErrors.
    """

    def __init__(self, path: Path) -> None:
        from pyarrow import dataset, types

        self.path = path
        self._schema = dataset.dataset(path, format="parquet").schema
        self.names = [str(name) for name in self._schema.names]
        self._texts = [
            field.name
            for field in self._schema
            if types.is_string(field.type) or types.is_large_string(field.type)
        ]
        coded = dataset.ParquetReadOptions(dictionary_columns=self._texts)
        self._data = dataset.dataset(path, format=dataset.ParquetFileFormat(read_options=coded))

    @property
    def rows(self) -> int:
        """Number of rows, as the files say."""
        return int(self._data.count_rows())

    def frame(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns, as pandas wrote them where it did.

        Raises
        ------
        InputError
            They are too large, or hold lists or records.
        """
        import pyarrow

        for name in columns:
            if pyarrow.types.is_nested(self._schema.field(name).type):
                raise InputError(
                    f"{self.path}: expected numbers, texts, dates or truth values in column "
                    f"{name!r}, found {self._schema.field(name).type}; name the "
                    "columns to take in columns"
                )
        records = self.rows
        packed = sum(Path(file).stat().st_size for file in self._data.files)
        most = most_unpacked(packed, _VALUE * TABLE_CELLS)
        if records * len(columns) > most // _VALUE:
            raise InputError(
                f"{self.path}: expected at most {most // _VALUE:,} values in a table of this size, "
                f"found {records:,} rows of {len(columns):,}; name the columns to take in columns"
            )
        table = self._data.to_table(columns=list(columns))
        if sum(_length(table[name]) for name in self._texts if name in columns) > most:
            raise InputError(
                f"{self.path}: expected at most {most:,} bytes of text in a table of this size, "
                "found more; name the columns to take in columns"
            )
        wanted = [self._schema.field(name) for name in columns]
        frame: pd.DataFrame = table.cast(pyarrow.schema(wanted, self._schema.metadata)).to_pandas()
        return frame


def _length(column: Any) -> int:
    """Return how many bytes the texts of a coded column have together."""
    from pyarrow import compute

    lengths = [
        compute.sum(compute.binary_length(part.dictionary).take(part.indices)).as_py() or 0
        for part in column.chunks
    ]
    return sum(lengths)
