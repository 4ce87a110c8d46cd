"""Reads tables from CSV (also gzipped) and Parquet files; mistakes are reported with their line.

pandas accepts short rows silently (as missing values), renames duplicate columns and invents
missing names. The lines of a CSV file are therefore checked before pandas parses them.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from framework.errors import InputError
from framework.limits import TABLE_BYTES, TABLE_CELLS

CSV_ENDINGS = (".csv", ".csv.gz")
TABLE_ENDINGS = (*CSV_ENDINGS, ".parquet")


def read_frame(path: Path) -> pd.DataFrame:
    """Read a table: a Parquet file if its name ends in ``.parquet``, otherwise a CSV file.

    Raises
    ------
    InputError
        The file is missing, unreadable or empty, its rows differ in length, or its header has
        empty or repeated names.
    """
    if not path.is_file():
        found = "a directory" if path.is_dir() else "no such file"
        raise InputError(f"{path}: expected a CSV or Parquet file, found {found}")
    return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of the header of a CSV file, then of its rows.

    Raises
    ------
    InputError
        See :func:`read_frame`.
    """
    return iter(_rows(_text(path), path))


def _read_parquet(path: Path) -> pd.DataFrame:
    from pyarrow import parquet

    try:
        shape = parquet.read_metadata(path)
        if shape.num_rows * shape.num_columns > TABLE_CELLS:
            raise InputError(
                f"{path}: expected at most {TABLE_CELLS:,} values in a table, found "
                f"{shape.num_rows:,} rows of {shape.num_columns:,}"
            )
        frame = pd.read_parquet(path)
    except (ValueError, OSError) as error:  # pyarrow's own errors are ValueErrors
        raise InputError(f"{path}: expected a Parquet file, found: {_first_line(error)}") from error
    frame.columns = frame.columns.map(str)
    _check_header(list(frame.columns), path)
    return frame.reset_index(drop=True)


def _read_csv(path: Path) -> pd.DataFrame:
    text = _text(path)
    _rows(text, path)
    try:
        return pd.read_csv(
            io.StringIO(text),
            skipinitialspace=True,
            low_memory=False,
            index_col=False,
        )
    except (ValueError, OverflowError) as error:  # pandas' parser errors are ValueErrors
        raise InputError(f"{path}: expected a CSV file, found: {_first_line(error)}") from error


def _text(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            raw = file.read(TABLE_BYTES + 1)
        if len(raw) > TABLE_BYTES:
            raise InputError(
                f"{path}: expected a CSV file of at most {TABLE_BYTES:,} bytes, unpacked, found "
                "more; save it as Parquet"
            )
        text = raw.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: expected a CSV file, found no such file") from error
    except (OSError, EOFError, zlib.error) as error:  # a bad gzip file is an OSError
        raise InputError(
            f"{path}: expected a readable file, found: {_first_line(error)}"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected a CSV file in UTF-8, found a byte that is not text at position "
            f"{error.start}; save it as CSV UTF-8"
        ) from error
    if "\0" in text:
        raise InputError(f"{path}: expected a CSV file, found a binary file")
    return text


def _rows(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """Split a CSV text into rows; blank lines are skipped, rows of other lengths are mistakes."""
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    rows: list[tuple[int, list[str]]] = []
    line = 1
    try:
        for fields in reader:
            if fields:
                rows.append((line, fields))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}: line {line}: expected CSV, found: {error}") from error
    if not rows:
        raise InputError(f"{path}: expected a header line and records, found an empty file")
    _check_header(rows[0][1], path)
    _check_lengths(rows, path)
    return rows


def _check_lengths(rows: list[tuple[int, list[str]]], path: Path) -> None:
    expected = len(rows[0][1])
    for line, fields in rows:
        if len(fields) != expected:
            raise InputError(
                f"{path}: line {line}: expected {expected} fields, found {len(fields)}; "
                "correct or remove that line"
            )


def _check_header(names: list[str], path: Path) -> None:
    if len(names) == 1:
        for mark, word in ((";", "semicolons"), ("\t", "tabs")):
            if mark in names[0]:
                raise InputError(
                    f"{path}: expected fields separated by commas, found {word}; "
                    "save it with commas"
                )
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise InputError(
                f"{path}: expected a name for each column, found none for column {position}; "
                "name it or leave it out"
            )
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise InputError(
            f"{path}: expected distinct column names, found {repeated[0]!r} more than once; "
            "rename one of them"
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
