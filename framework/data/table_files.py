"""Reading of tables from CSV (also gzipped) and Parquet; errors are reported with their line.

pandas accepts short rows silently (as missing values), renames duplicate columns and invents
missing names. The lines of a CSV file are therefore checked before pandas parses them.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from framework.data.columns import is_text, without_blanks
from framework.errors import InputError, first_line
from framework.extras import needed
from framework.reading import entries_of
from framework.registry import require_columns
from framework.security import (
    TABLE_BYTES,
    TABLE_CELLS,
    Chunk,
    TooLarge,
    TooManyBytes,
    check_pages,
    gunzipped,
    most_unpacked,
    open_regular,
    read_bytes,
)

CSV_ENDINGS = (".csv", ".csv.gz")
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
TABLE_ENDINGS = (*CSV_ENDINGS, ".parquet")
GAPS = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""Fields of a CSV file that pandas takes for missing values."""
TAKEN_AS_MISSING = "paretolab.missing"
"""Attribute of a frame: by column of texts, how often a field of ``GAPS`` was written there."""
SEPARATORS = (",", ";", "\t", "|")
_SEPARATED = re.compile(r"\Asep=.(?=\r?\n)")  # a first line for Excel; blank lines are skipped

_PACKED = 4  # a gzipped table is roughly so many times as large when it is unpacked
_VALUE = 8  # bytes of a number


class FileOptions(NamedTuple):
    """How a file is read: the separator of its fields (recognised if None), and which columns.

    What pandas makes of a column of a CSV file depends on all of its fields: 01 is a number where
    all others are numbers. Columns that ``texts`` says yes to are read as they are written: 01 and
    NA are texts, and only an empty field is missing. So are those that ``categories`` names, but
    there fields in ``GAPS`` are missing unless they are among the categories of the column.
    """

    separator: str | None = None
    columns: tuple[str, ...] | None = None
    texts: Callable[[str], bool] | None = None
    categories: Mapping[str, Collection[str]] = MappingProxyType({})


PLAIN = FileOptions()


def read_frame(path: Path, options: FileOptions = PLAIN) -> pd.DataFrame:
    """Read a table: Parquet if its name ends in ``.parquet`` or it is a folder, otherwise CSV.

    Blanks around names of columns and around texts are dropped.
    Fields of a CSV file may be separated by commas, semicolons, tabs or bars: if ``options`` do not
    say, the one that the header has most of.

    Raises
    ------
    InputError
        The file is missing, unreadable or empty, its rows differ in length, its header has empty
        or repeated names, or it lacks a column that is asked for.
    """
    try:
        if path.is_dir() and any(file.name.endswith(".parquet") for file in entries_of(path)):
            return _read_parquet(path, options.columns)
        reason = "a pipe or a device" if path.exists() else "no such file"
        reason = "a directory without Parquet files" if path.is_dir() else reason
        is_file = path.is_file()
    except OSError as error:  # a name that is too long
        reason, is_file = (error.strerror or str(error)).lower(), False
    if not is_file:
        raise InputError(f"{path}: expected a CSV or Parquet file, found {reason}")
    if path.suffix == ".parquet":
        return _read_parquet(path, options.columns)
    if path.suffix.lower() in _WORKBOOKS:
        raise InputError(
            f"{path}: expected a CSV or Parquet file, found a workbook; save its sheet as CSV"
        )
    return parse_csv(_text(path), path, options)


def size_of(path: Path, options: FileOptions = PLAIN) -> int:
    """Return roughly how many bytes a table takes as numbers; 0 for what cannot be read."""
    try:
        if path.suffix != ".parquet" and not path.is_dir():
            packed = _PACKED if path.suffix == ".gz" else 1
            return packed * path.stat().st_size if path.is_file() else 0
        table = _ParquetTable(path)
    except (ValueError, OSError):
        return 0  # reported where it is read
    return _VALUE * table.rows * len(options.columns or table.names)


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of a CSV file's header, then rows, as ``read_frame`` does."""
    text = _text(path)
    for line, fields in _rows(text, path, _separator(text)):
        yield line, [field.strip() for field in fields]


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    try:
        table = _ParquetTable(path)
        written = dict(zip(_header(table.names, path), table.names, strict=True))
        wanted = _wanted(columns, [*written], path)
        frame = table.frame([written[name] for name in wanted])
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: expected a Parquet file, found: {first_line(error)}") from error
    frame = frame.reset_index(drop=False) if frame.index.names != [None] else frame
    frame = frame.rename(columns=lambda name: str(name).strip())  # pandas makes numbers of some
    return _bare(frame[[c for c in wanted if c in frame.columns]].reset_index(drop=True))


def _bare(
    frame: pd.DataFrame,
    gaps: Mapping[str, Collection[str]] = MappingProxyType({}),
    usual: Collection[str] = (),
) -> pd.DataFrame:
    """Return a table without blanks around texts, missing where one is then a gap of its column."""
    frame = frame.copy(deep=False)
    for name in frame.columns:
        if is_text(frame[name]):
            frame[name] = without_blanks(frame[name], gaps.get(name, usual))
    return frame


def _wanted(columns: Sequence[str] | None, names: Sequence[str], path: Path) -> list[str]:
    """Return the columns to read, in the file's order."""
    if columns is None:
        return list(names)
    require_columns(columns, names, path)
    return [name for name in names if name in columns]


def parse_csv(
    text: str,
    path: Path,
    options: FileOptions = PLAIN,
    check: Callable[[list[str]], None] | None = None,
) -> pd.DataFrame:
    """Return the table that is written in a text, as :func:`read_frame` reads it from a file.

    ``path`` is where the text comes from, for messages; ``check`` takes the names of the columns
    before the table is read, and may refuse them.
    """
    separator = options.separator or _separator(text)
    rows = _rows(text, path, separator)
    _, names = next(rows)
    if check is not None:
        check(names)
    wanted = _wanted(options.columns, names, path)
    for _ in rows:  # each row is checked when it is yielded
        pass
    raw = text.encode()  # StringIO takes four bytes a character
    usual: dict[str, Any] = {"sep": separator, "skipinitialspace": True, "index_col": False}
    usual |= {"low_memory": False, "header": 0, "names": names}
    try:
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(raw), usecols=wanted, **usual)
        gaps = {n: [""] for n in frame.columns if options.texts and options.texts(n)}
        named = options.categories.keys() & frame.columns
        gaps |= {name: sorted(GAPS - {*options.categories[name]}) for name in named}
        if texts := [name for name in frame.columns if name in gaps]:
            usual |= {"dtype": object, "keep_default_na": False, "na_values": gaps}
            frame[texts] = pd.read_csv(io.BytesIO(raw), usecols=texts, **usual)[texts]
        frame = _bare(frame, gaps, GAPS)
        texts = [n for n in frame.columns if n not in gaps and is_text(frame[n])]
        if texts := [name for name in texts if frame[name].isna().any()]:
            usual |= {"dtype": object, "na_filter": False}
            cells = _bare(pd.read_csv(io.BytesIO(raw), usecols=texts, **usual))
            words = cells.where(cells.isin(GAPS - {""}))
            counts = {n: words[n].value_counts().to_dict() for n in texts if words[n].notna().any()}
            frame.attrs[TAKEN_AS_MISSING] = counts
        return frame
    except (ValueError, OverflowError) as error:  # pandas' parser errors are ValueErrors
        raise InputError(f"{path}: expected a CSV file, found: {first_line(error)}") from error


def _separator(text: str) -> str:
    """Return what separates the fields of the first line that is not blank; a comma if nothing."""
    header = next((line.group() for line in re.finditer(".+", text) if line.group().strip()), "")
    try:
        fields = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in SEPARATORS}
    except csv.Error:  # reported where the rows are read
        return SEPARATORS[0]
    return max(SEPARATORS, key=lambda mark: fields[mark])


def _text(path: Path) -> str:
    try:
        gzipped = path.suffix == ".gz"
        raw = gunzipped(path, TABLE_BYTES) if gzipped else read_bytes(path, TABLE_BYTES)
    except TooManyBytes as error:
        raise InputError(
            f"{path}: expected a CSV file of at most {error.allowed:,} bytes, found {error.found}; "
            "save it as Parquet"
        ) from error
    except TooLarge as error:
        raise InputError(
            f"{path}: expected a CSV file that unpacks to at most {error.allowed:,} bytes, found "
            "more; unpack it if you trust it, or save it as Parquet"
        ) from error
    except FileNotFoundError as error:
        raise InputError(f"{path}: expected a CSV file, found no such file") from error
    except (OSError, EOFError, zlib.error) as error:  # a bad gzip file is an OSError
        raise InputError(f"{path}: expected a readable file, found: {first_line(error)}") from error
    return csv_text(raw, path)


def csv_text(raw: bytes, path: Path) -> str:
    """Return the text of a CSV file; raises InputError where it is not text in UTF-8."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected a CSV file in UTF-8, found a byte that is not text at position "
            f"{error.start}; save it as CSV UTF-8"
        ) from error
    if "\0" in text:
        raise InputError(f"{path}: expected a CSV file, found a binary file")
    return _SEPARATED.sub("", text)


def _rows(text: str, path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV text, each with its line; skip blank lines, refuse other lengths."""
    lines = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    expected, line = 0, 1
    try:
        for fields in reader:
            if fields and not expected:
                expected = len(fields)
                fields = _header(fields, path)
            if fields and len(fields) != expected:
                raise InputError(
                    f"{path}: line {line}: expected {expected} fields, found {len(fields)}; "
                    "correct or remove that line"
                )
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}: line {line}: expected CSV, found: {error}") from error
    if not expected:
        raise InputError(f"{path}: expected a header line and records, found an empty file")


def _header(fields: list[str], path: Path) -> list[str]:
    """Return the names of columns without blanks around them; refuse empty and repeated ones."""
    names = [field.strip() for field in fields]
    for position, name in enumerate(names, start=1):
        if not name:
            raise InputError(
                f"{path}: expected a name for each column, found none for column {position}; "
                "name it or leave it out"
            )
    repeated, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{path}: expected distinct column names, found {repeated!r} more than once; "
            "rename one of them"
        )
    return names


class _ParquetTable:
    """A Parquet file, or a folder of them; at first only its description is read.

    A column that repeats one value, or a few long texts, takes a few bytes in a file however long
    it is: a small file could fill the memory. So values are counted in the file's description and
    in its pages before they are read, and texts stay coded until their length is known. ValueError
    (pyarrow's errors are such) or OSError is raised if it is no Parquet file.
    """

    def __init__(self, path: Path) -> None:
        needed("pyarrow")
        from pyarrow import dataset, types

        self.path = path
        self._files = _parquet_files(path)
        with open_regular(self._files[0]) as file:
            self._schema = dataset.ParquetFileFormat().make_fragment(file).physical_schema
        self.names = [str(name) for name in self._schema.names]
        kinds = {f.name: getattr(f.type, "value_type", f.type) for f in self._schema}  # categories
        self._texts = [
            name
            for name, kind in kinds.items()
            if types.is_string(kind) or types.is_large_string(kind)
        ]

    @property
    def rows(self) -> int:
        """Number of rows: the sum over the parts of the files, not the total that they state."""
        from pyarrow import parquet

        count = 0
        for path in self._files:
            with open_regular(path) as file:
                about = parquet.read_metadata(file)
            count += sum(about.row_group(i).num_rows for i in range(about.num_row_groups))
        return count

    def frame(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns, with the types that pandas noted; refuse lists and large tables."""
        import pyarrow

        for name in columns:
            if not _is_plain(self._schema.field(name).type):
                raise InputError(
                    f"{self.path}: expected numbers, texts, dates or truth values in column "
                    f"{name!r}, found {self._schema.field(name).type}; name the "
                    "columns to take in columns"
                )
        records = self.rows
        size = sum(file.stat().st_size for file in self._files)
        most = most_unpacked(size, _VALUE * TABLE_CELLS)
        if records * len(columns) > most // _VALUE:
            raise InputError(
                f"{self.path}: expected at most {most // _VALUE:,} values in a table of this size, "
                f"found {records:,} rows of {len(columns):,}; name the columns to take in columns"
            )
        try:
            table = self._table(columns, most)
        except TooLarge as error:
            raise InputError(
                f"{self.path}: expected pages that unpack to at most {most:,} bytes in a table of "
                "this size, found more; name the columns to take in columns"
            ) from error
        if sum(_length(table[name]) for name in self._texts if name in columns) > most:
            raise InputError(
                f"{self.path}: expected at most {most:,} bytes of text in a table of this size, "
                "found more; name the columns to take in columns"
            )
        wanted = [self._schema.field(name) for name in columns]
        frame: pd.DataFrame = table.cast(pyarrow.schema(wanted, self._schema.metadata)).to_pandas()
        return frame

    def _table(self, columns: Sequence[str], most: int) -> Any:
        """Return some columns, texts coded; each file is opened once, to be checked and read."""
        import pyarrow
        from pyarrow import dataset, parquet

        options = dataset.ParquetReadOptions(dictionary_columns=self._texts)
        coded = dataset.ParquetFileFormat(read_options=options)
        tables, schema = [], None
        for path in self._files:
            with open_regular(path) as file:
                chunks = _chunks_of(parquet.read_metadata(file), columns)
                most -= check_pages(file, chunks, most)
                piece = coded.make_fragment(file)
                schema = piece.physical_schema if schema is None else schema
                whole = dataset.FileSystemDataset([piece], schema, coded)
                tables.append(whole.to_table(columns=list(columns)))
        return pyarrow.concat_tables(tables)


def _chunks_of(about: Any, columns: Sequence[str]) -> Iterator[Chunk]:
    """Yield where a file has the values of some columns, by its description.

    Raises ValueError where a column has another number of values than there are rows.
    """
    for i in range(about.num_row_groups):
        rows = about.row_group(i)
        for column in (rows.column(j) for j in range(rows.num_columns)):
            if column.path_in_schema not in columns:
                continue
            if column.num_values != rows.num_rows:
                raise ValueError(f"{column.num_values:,} values in {rows.num_rows:,} rows")
            coded = column.dictionary_page_offset if column.has_dictionary_page else None
            start = min(coded or column.data_page_offset, column.data_page_offset)
            yield Chunk(start, column.total_compressed_size, column.num_values)


def _parquet_files(path: Path) -> list[Path]:
    """Return the files of a table; a link out of its folder raises ValueError."""
    if not path.is_dir():
        return [path]
    home = path.resolve()
    for file in path.rglob("*"):
        if not file.is_dir():
            open_regular(file).close()
        if file.is_symlink() and not file.resolve().is_relative_to(home):
            raise ValueError(f"a link to {file.readlink()} in the folder")
    files = (file for file in path.rglob("*") if not file.is_dir())
    shown = [f for f in files if not any(p[0] in "._" for p in f.relative_to(path).parts)]
    if not shown:
        raise ValueError("a directory without Parquet files")
    return sorted(shown, key=Path.as_posix)


def _is_plain(kind: Any) -> bool:
    """Return whether the size of values of a type is known before they are read."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind)
    simple = types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)
    return bool(text or simple)


def _length(column: Any) -> int:
    """Return how many bytes all texts of a coded column have together."""
    from pyarrow import compute

    return sum(
        compute.sum(compute.binary_length(part.dictionary).take(part.indices)).as_py() or 0
        for part in column.chunks
    )
