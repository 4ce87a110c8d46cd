"""How the records of a table are divided: by chance, by groups, in time, or as a column says.

Records of a group, and copies of a record, are one *unit*: parts, folds of a cross-validation and
resamples (:mod:`framework.outcomes`) have all records of a unit or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.answers import Part
from framework.arrays import FloatArray, IntArray
from framework.data.columns import (
    ColumnInference,
    TableOptions,
    infer_column,
    is_date,
    is_numeric,
    to_numbers,
    to_texts,
    to_times,
)
from framework.data.splits import (
    MeasureConfig,
    Split,
    SplitConfig,
    as_split,
    check_split,
    measure_folds,
    split_records,
)
from framework.data.tables import Table
from framework.errors import InputError, listed

AS_THEY_FALL = (
    "are divided as they fall, so that it may be measured by a model that was fitted on the other; "
    "split.copies: together where they are copies"
)
_MOST_SUBGROUPS = 50


class FoldRows(NamedTuple):
    """One fold: positions among the pooled records, int64 and sorted.

    Attributes
    ----------
    train : records that the fold's models are fitted on.
    held_out : records that they are measured on; none of ``train``.
    """

    train: IntArray
    held_out: IntArray


class Division(NamedTuple):
    """How the records of a table are divided.

    Attributes
    ----------
    split : Split
    repeats : tuple of tuple of FoldRows
        The folds of each repeat of a cross-validation; empty where there is none.
    units : int64 (n,)
        Code of each record's unit, from 0.
    fingerprint : str
        Hash of what divides the records and is not in the configuration: the values of the named
        columns, and the units. Empty if there is no such column and each record is a unit.
    notes : tuple of str
        Sentences for the user.
    """

    split: Split
    repeats: tuple[tuple[FoldRows, ...], ...]
    units: IntArray
    fingerprint: str
    notes: tuple[str, ...]

    def units_of(self, rows: IntArray | slice = slice(None)) -> IntArray | None:
        """Return the units of some records as codes from 0; None where each is one record."""
        codes = np.unique(self.units[rows], return_inverse=True)[1].ravel()
        return None if codes.max(initial=-1) + 1 == len(codes) else codes


def divide(
    table: Table, config: SplitConfig, measure: MeasureConfig | None = None, where: str = "problem"
) -> Division:
    """Divide the records of a table into parts and, for a cross-validation, folds.

    Parameters
    ----------
    table : Table
        With the columns that ``config`` names in ``aside``.
    config : SplitConfig
    measure : MeasureConfig, optional
        No folds if None.
    where : str
        Place of the sections ``split`` and ``measure``, for messages.

    Raises
    ------
    InputError
        Columns that cannot be used, or too few records, groups or times.
    """
    crossed = measure is not None and measure.kind == "cross_validation"
    place = f"{where}.split"
    columns = {key: table.aside[name] for key, name in config.columns.items()}
    for key, column in columns.items():
        _refuse_gaps(column, f"{place}.{key}")
    units, notes = _units(table, columns.get("group"), crossed, config, place)
    times = _times(columns["time"], f"{place}.time") if "time" in columns else None
    if "part" in columns:
        split = _named_parts(columns["part"], units, table.labels, crossed, place)
    elif times is not None:
        split = _parts_in_time(times, units, table.labels, config, place)
    else:
        split = split_records(table.labels, config, place, units)
    repeats: tuple[tuple[FoldRows, ...], ...] = ()
    if crossed:
        assert measure is not None
        rows = split.pooled
        labels, row_units = table.labels[rows], units[rows]
        named = [key for key in ("time", "fold") if key in columns]
        if named and measure.repeats != 1:
            raise InputError(
                f"{where}.measure.repeats: expected 1 with split.{named[0]}, found "
                f"{measure.repeats}; the folds are the same each time"
            )
        if times is not None:
            repeats = (
                _windows(times[rows], row_units, measure, config.window or "growing", where),
            )
        else:
            if "fold" in columns:
                fold_of = _named_folds(columns["fold"].iloc[rows], row_units, f"{place}.fold")
            else:
                setting = measure, config.seed, table.classes, f"{where}.measure"
                fold_of = measure_folds(labels, *setting, row_units)
            repeats = tuple(map(folds_of, fold_of))
        for folds in repeats:
            _refuse_lost_classes(folds, labels, table.classes, f"{where}.measure.folds")
    digest, grouped = hashlib.sha256(), units.max() + 1 < len(units)
    for key, column in sorted(columns.items()):
        digest.update(f"{key} {column.astype(str).tolist()}".encode())
    if grouped:
        digest.update(units.astype("<i8").tobytes())
    fingerprint = digest.hexdigest() if columns or grouped else ""
    return Division(split, repeats, units, fingerprint, notes)


def _refuse_gaps(column: pd.Series[Any], where: str) -> None:
    """Refuse a column that lacks a value in some record."""
    gaps = column.isna().to_numpy(dtype=bool)
    if gaps.any():
        raise InputError(
            f"{where}: expected a value of {column.name!r} in each record, found {gaps.sum()} "
            f"without one, the first in record {int(gaps.argmax()) + 1}"
        )


class Subgroups(NamedTuple):
    """Names of the subgroups, sorted, and the code of each record's, int64 (n,)."""

    names: tuple[str, ...]
    codes: IntArray

    def take(self, rows: Any) -> Subgroups:
        """Return those of the records at some positions, with all names."""
        return Subgroups(self.names, self.codes[rows])

    @property
    def content(self) -> list[Any]:
        """All of it as JSON values, for fingerprints."""
        return [*self.names, self.codes.tolist()]


def subgroups_of(by_part: Sequence[Subgroups], part: Part) -> dict[str, Any]:
    """Return a part's subgroups as arguments of :class:`~framework.answers.Records`.

    ``by_part`` has those of the search and of the test records, or nothing.
    """
    if not by_part:
        return {}
    names, codes = by_part[part == "test"]
    return {"subgroups": codes, "subgroup_names": names}


def subgroups_in(column: pd.Series[Any], where: str = "problem.subgroup") -> Subgroups:
    """Return the subgroups that a column tells apart, such as the sexes or the hospitals.

    Raises
    ------
    InputError
        A record without a value, a single subgroup, more than 50, or one of a single record.
    """
    _refuse_gaps(column, where)
    # as objects: an array of texts has room for the longest one in each record
    names, codes, counts = np.unique(to_texts(column)[0], return_inverse=True, return_counts=True)
    if not 2 <= len(names) <= _MOST_SUBGROUPS:
        raise InputError(
            f"{where}: expected 2 to {_MOST_SUBGROUPS} subgroups in {column.name!r}, found "
            f"{len(names)}; name a column of few values"
        )
    if counts.min() < 2:
        alone = str(names[int(counts.argmin())])
        raise InputError(
            f"{where}: expected two records or more of each subgroup in {column.name!r}, found one "
            f"of {alone!r}: no rate follows from it; merge it with another subgroup"
        )
    return Subgroups(tuple(map(str, names)), codes.ravel().astype(np.int64))


def about_folds(division: Division, split: SplitConfig, measure: MeasureConfig) -> dict[str, Any]:
    """Return what :meth:`~framework.problem.Described.describe` says of a cross-validation."""
    records = sum(len(fold.held_out) for fold in division.repeats[0])
    ways = f", {measure.repeats} times" if measure.repeats != 1 else ""
    for key, name in split.columns.items():
        ways += f", by {key} {name!r}" if key != "part" else ""
    ways += f" in {split.window or 'growing'} windows" if split.time else ""
    about: dict[str, Any] = {
        "out_of_fold": records,
        "measured": f"out-of-fold on {records:,} records",
        "measure": f"cross-validation, {len(division.repeats[0])} folds{ways}",
    }
    if division.split.pooled.size > records:  # the first window in time is not measured
        about["train"] = division.split.pooled.size - records
    return about


def same_rows(features: pd.DataFrame) -> IntArray:
    """Return a code for each row (n,), from 0 in order of first appearance; equal for equal rows.

    Missing values are equal to each other.
    """
    codes = np.zeros(len(features), dtype=np.int64)
    for name in features.columns:
        column_codes, values = pd.factorize(features[name], use_na_sentinel=False)
        codes = pd.factorize(codes * max(len(values), 1) + column_codes)[0].astype(np.int64)
        if len(codes) and codes.max() == len(codes) - 1:
            break  # all differ
    return codes


def copies_text(rows: IntArray) -> str:
    """Return the beginning of a sentence on copies, by what ``same_rows`` returned; empty if none.

    :data:`AS_THEY_FALL` may be its end.
    """
    copies = len(rows) - int(rows.max(initial=-1)) - 1
    start = f"{copies:,} of {len(rows):,} records have the features of another one and "
    return start if copies else ""


def _units(
    table: Table, group: pd.Series[Any] | None, crossed: bool, config: SplitConfig, place: str
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the unit (n,) of each record, and sentences on copies for the user."""
    n = len(table.labels)
    units = np.arange(n)
    if group is not None:
        units, (first, *_) = pd.factorize(to_texts(group)[0])
        if units.max() == 0:
            raise InputError(
                f"{place}.group: expected two groups or more in {config.group!r}, found one, "
                f"{first!r}; leave group out, or name the column that tells them apart"
            )
    if config.copies == "apart" or config.time is not None:
        return units, ()
    rows = same_rows(table.features)
    start = copies_text(rows)
    if not start:
        return units, ()
    notes: tuple[str, ...] = ()
    if config.copies is None:
        few_values = 2 * (int(rows.max()) + 1) < n  # equal records are other individuals
        if not crossed or few_values:
            return units, (start + AS_THEY_FALL,)
        notes = (f"{start}stay together with it in folds; split.copies: apart divides them",)
    if group is None:
        return rows, notes
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # groups that have equal records are one unit: rows are linked if one group has both of them
    links = coo_array((np.ones(n), (units, rows)), shape=(n, n)).tocsr()
    component_of = connected_components(links.T @ links, directed=False)[1]
    return pd.factorize(component_of[rows])[0].astype(np.int64), notes


def _times(column: pd.Series[Any], where: str) -> FloatArray:
    """Return the time (n,) of each record as a number; refuse what is neither number nor date."""
    inference = ColumnInference()
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if column.dtype == object and all(isinstance(value, date) for value in column):
        column = pd.to_datetime(column, utc=True)
    if not (is_numeric(column) or is_date(column)):
        inference = infer_column(column, str(column.name), TableOptions(keep=(str(column.name),)))
    if inference.reading is not None:
        column = inference.reading.read(column, str(column.name))
    if is_date(column):
        times = to_times(column).astype(np.int64).astype(np.float64)
    elif is_numeric(column):
        times = to_numbers(column)
    else:
        raise InputError(
            f"{where}: expected numbers or dates in {column.name!r}, found {column.iloc[0]!r}"
        )
    if column.isna().any() or not np.isfinite(times).all():
        raise InputError(f"{where}: expected a time in each record of {column.name!r}, found gaps")
    return times


def _in_time(times: FloatArray, units: IntArray) -> FloatArray:
    """Return for each record (n,) the time of the last record of its unit."""
    last = np.full(int(units.max()) + 1, -np.inf)
    np.maximum.at(last, units, times)
    return last[units]


def _cuts(times: FloatArray, shares: FloatArray, wanted: str, where: str) -> IntArray:
    """Return the part (n,) of each record, one part after the other in time.

    Records of the same time are in one part, so that fewer times than parts are refused. A part
    ends at the time at which the records so far are nearest to the sum of the shares so far.
    """
    values, number, counts = np.unique(times, return_inverse=True, return_counts=True)
    ends, parts = np.cumsum(counts), len(shares)
    if len(values) < parts:
        raise InputError(
            f"{where}: expected as many different times as {wanted}, {parts} or more, found "
            f"{len(values)}"
        )
    part_of_value = np.empty(len(values), dtype=np.int64)
    start = 0
    for part, share in enumerate(np.cumsum(shares)):
        last = len(values) - (parts - part)  # leave a time for each part to come
        distances = np.abs(ends[start : last + 1] - round(share * len(times), 9))
        stop = len(values) if part == parts - 1 else start + int(distances.argmin()) + 1
        part_of_value[start:stop] = part
        start = stop
    return part_of_value[number.ravel()]


def _parts_in_time(
    times: FloatArray, units: IntArray, labels: IntArray, config: SplitConfig, where: str
) -> Split:
    shares = np.array([config.train, config.validation, config.test])
    nonempty = np.flatnonzero(shares > 0)
    part_of = _cuts(_in_time(times, units), shares[nonempty], "parts", f"{where}.time")
    split = as_split(nonempty[part_of])
    check_split(split, labels, shares, where)
    return split


def _windows(
    times: FloatArray, units: IntArray, measure: MeasureConfig, window: str, where: str
) -> tuple[FoldRows, ...]:
    """Return the folds of pooled records in time; the records of the first block are fitted on."""
    assert measure.folds is not None  # filled in with the kind
    blocks = measure.folds + 1
    shares = np.full(blocks, 1 / blocks)
    wanted = "folds and one more"
    block = _cuts(_in_time(times, units), shares, wanted, f"{where}.measure.folds")
    return tuple(
        FoldRows(
            np.flatnonzero(block < fold if window == "growing" else block == fold - 1),
            np.flatnonzero(block == fold),
        )
        for fold in range(1, blocks)
    )


def _named_parts(
    column: pd.Series[Any], units: IntArray, labels: IntArray, crossed: bool, where: str
) -> Split:
    """Return the parts that a column names."""
    texts = np.array([text.strip().lower() for text in to_texts(column)[0]], dtype=object)
    names = np.array(Split._fields)
    wrong = ~np.isin(texts, names)
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"{where}.part: expected {listed(Split._fields)} in {column.name!r}, found "
            f"{to_texts(column)[0][first]!r} in record {first + 1}"
        )
    part_of = (texts[:, None] == names).argmax(axis=1)
    _refuse_torn(part_of, units, "part", f"{where}.part")
    split = as_split(part_of)
    needed = ("train",) if crossed else ("train", "validation")
    for name in needed:
        if not len(getattr(split, name)):
            raise InputError(
                f"{where}.part: expected {name} records in {column.name!r}, found none"
            )
    check_split(split, labels, np.zeros(3), where)
    return split


def _named_folds(column: pd.Series[Any], units: IntArray, where: str) -> IntArray:
    """Return the folds (1, n) that a column names for the pooled records."""
    fold_of, names = pd.factorize(to_texts(column)[0], sort=True)
    if len(names) < 2:
        raise InputError(
            f"{where}: expected two folds or more in {column.name!r}, found {len(names)} among the "
            f"{len(column)} training and validation records"
        )
    fold_of = fold_of.astype(np.int64)
    _refuse_torn(fold_of, units, "fold", where)
    return fold_of[None]


def folds_of(numbers: IntArray) -> tuple[FoldRows, ...]:
    """Return the folds, from the number (n,) of each record's fold."""
    return tuple(
        FoldRows(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold))
        for fold in range(int(numbers.max()) + 1)
    )


def _refuse_torn(part_of: IntArray, units: IntArray, what: str, where: str) -> None:
    """Refuse a column that puts records of one unit into two parts or folds."""
    first = np.zeros(int(units.max()) + 1, dtype=np.int64)
    first[units[::-1]] = part_of[::-1]
    torn = first[units] != part_of
    if torn.any():
        record = int(torn.argmax())
        other = int((units == units[record]).argmax())
        raise InputError(
            f"{where}: expected records of a group, and copies of one record, in one {what}, found "
            f"records {other + 1} and {record + 1} in two; correct the column, or set "
            "split.copies: apart where equal records are other individuals"
        )


def _refuse_lost_classes(
    folds: Sequence[FoldRows], labels: IntArray, classes: Sequence[Any], where: str
) -> None:
    """Refuse a fold beside which a class has no records to fit its models on."""
    for number, fold in enumerate(folds, start=1):
        lost = np.setdiff1d(np.arange(len(classes)), labels[fold.train])
        if len(lost):
            raise InputError(
                f"{where}: expected records of every class to fit on beside each fold, found none "
                f"of {classes[int(lost[0])]!r} beside fold {number}; lower folds, or divide "
                "the records otherwise"
            )
