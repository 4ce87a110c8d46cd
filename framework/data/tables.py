"""Tables: data sets as searches read them, assembled from raw frames and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import Array, BoolArray, FloatArray, IntArray, frozen
from framework.data.columns import (
    MOST_CATEGORIES,
    ColumnInference,
    Label,
    Reading,
    TableOptions,
    describe_columns,
    infer_columns,
    is_date,
    is_numeric,
    meant_values,
    to_numbers,
    to_texts,
    to_times,
)
from framework.data.encoding import Encoder
from framework.data.table_files import TAKEN_AS_MISSING
from framework.errors import InputError, first_few, listed
from framework.registry import class_text, require_columns, require_labels
from framework.security import CONFIG_TEXT

_MOSTLY = 0.5  # a text column with a larger share of numbers is a numeric one gone wrong
_EXAMPLES = 5
_LEAST_RECORDS = 3  # of a class: one for each of training, validation and test
_MERGED = 50  # messages do not advise to merge classes of more records
OTHER = "other"  # the class of rare ones
_KEYS = {"weights": "problem.weights", "subgroup": "problem.subgroup"}  # not in problem.split
_MANY = 50  # records; of fewer, a column may tell the classes by chance
_STRAY = 8  # the most texts in a column of numbers that a message lists


@dataclass(frozen=True)
class Features:
    """What tables for classification and for regression share.

    Attributes
    ----------
    name : the name of the data set in reports.
    features : DataFrame of n records; numeric columns are float64 (NaN where missing), dates
        datetime64, the others pandas categoricals of texts.
    source : a description of where the data come from.
    fingerprint : sha256 over names, kinds, values and labels; equal for equal content.
    readings : how the texts of a column are read, where they are not just categories.
    max_categories : most categories of a column that are told apart.
    left_out : columns that are no features.
    identifier : the column that names the records, if one does.
    notes : a sentence for each doubtful column, for the user.
    example : columns of a few records as the source has them, without the target; None for gaps.
    aside : columns, as the source has them, that divide the records (these are no features) or
        tell subgroups apart.
    """

    name: str
    features: pd.DataFrame
    source: str
    fingerprint: str
    readings: Mapping[str, Reading] = field(default_factory=dict)
    max_categories: int = MOST_CATEGORIES
    left_out: tuple[str, ...] = ()
    identifier: str | None = None
    notes: tuple[str, ...] = ()
    example: Mapping[str, list[Any]] = field(default_factory=dict)
    aside: Mapping[str, pd.Series[Any]] = field(default_factory=dict)

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the columns that hold categories."""
        columns = ((str(c), self.features[c]) for c in self.features.columns)
        return tuple(c for c, values in columns if not (is_numeric(values) or is_date(values)))

    def fit_encoder(self, records: pd.DataFrame) -> Encoder:
        """Return the encoder fitted on some records of ``features``."""
        return Encoder.fit(records, self.categorical, self.readings, self.max_categories)

    def about(self) -> dict[str, Any]:
        """Return what reports say of the table, as JSON values."""
        about: dict[str, Any] = {
            "name": self.name,
            "source": self.source,
            "fingerprint": self.fingerprint,
        }
        if self.identifier:
            about["identifier"] = self.identifier
        if self.notes:
            about["notes"] = list(self.notes)
        return about


@dataclass(frozen=True, kw_only=True)
class Table(Features):
    """A data set that passed all checks.

    Attributes
    ----------
    labels : int64 (n,), positions in ``classes``.
    classes : labels as the data have them, sorted.
    positive : position of the positive class in ``classes``; None where there are more than two
        classes and none was named positive.
    """

    labels: IntArray
    classes: tuple[Label, ...]
    positive: int | None

    def only(self, rows: BoolArray) -> Table:
        """Return the same table with some of its records; its fingerprint is that of all."""
        return replace(
            self,
            features=self.features[rows],
            labels=frozen(self.labels[rows]),
            aside={name: column[rows] for name, column in self.aside.items()},
        )


@dataclass(frozen=True, kw_only=True)
class ValueTable(Features):
    """A data set for regression: ``values``, float64 (n,), are the target."""

    values: FloatArray


class Raw(NamedTuple):
    """A frame as read from its source; ``name`` and ``source`` are as in ``Table``."""

    frame: pd.DataFrame
    name: str
    source: str


def assemble(
    raw: Raw,
    where: str,
    options: TableOptions,
    aside: Mapping[str, str] | None = None,
    subgroup: str | None = None,
) -> Table:
    """Check a raw frame and turn it into a table for classification.

    Parameters
    ----------
    raw : Raw
    where : str
        Key of the section, for messages.
    options : TableOptions
    aside : mapping, optional
        Columns that divide the records and are no features, by the key that names them.
    subgroup : str, optional
        A column that tells subgroups apart, and may also be a feature.

    Raises
    ------
    InputError
        There are no records, no features, no column of a given name, missing labels, only one
        class, too few records of a class, or features that cannot be used.
    """
    place, roles = f"{where}: {raw.source}", dict(aside or {})
    named = options.named() | {_KEYS.get(key, f"split.{key}"): (n,) for key, n in roles.items()}
    if subgroup is not None:
        named["problem.subgroup"] = (subgroup,)
    _check(raw.frame, place, named)
    if options.target == subgroup:
        raise InputError(
            f"problem.subgroup: expected another column than the target, found {subgroup!r}"
        )
    if options.target in roles.values():
        raise InputError(
            f"{place}: expected another column than the target to divide the records by, found "
            f"{options.target!r}"
        )
    raw, notes = _labelled(raw, options)
    column, merged = _with_rare_merged(raw.frame[options.target], options)
    labels, classes = _labels(column, options, place)
    features = _features(
        raw, place, options, labels.astype("<i8"), classes, (*notes, *merged), roles.values()
    )
    features["notes"] += _telling(features["features"], labels, options)
    return Table(
        **features,
        aside={name: raw.frame[name] for name in {*roles.values(), *filter(None, [subgroup])}},
        labels=frozen(labels),
        classes=classes,
        positive=_positive(options.positive, classes, where),
    )


def assemble_values(raw: Raw, where: str, options: TableOptions) -> ValueTable:
    """Check a raw frame whose target holds values and turn it into a table.

    Raises
    ------
    InputError
        See :func:`assemble`; or a target is not numeric, missing or infinite.
    """
    place = f"{where}: {raw.source}"
    _check(raw.frame, place, options.named())
    raw, notes = _labelled(raw, options)
    column = raw.frame[options.target]
    if not is_numeric(column):
        raise InputError(
            f"{place}: expected numbers in {options.target!r} for a regression, found other values"
        )
    values = to_numbers(column)
    if not np.isfinite(values).all():
        first = int((~np.isfinite(values)).argmax())
        raise InputError(
            f"{place}: expected a finite value in each record of {options.target!r}, found "
            f"{values[first]} in record {first + 1}; correct or remove it"
        )
    features = _features(raw, place, options, values.astype("<f8"), notes=notes)
    return ValueTable(**features, values=frozen(values))


def _check(frame: pd.DataFrame, place: str, named: Mapping[str, Sequence[str]]) -> None:
    """Refuse a frame without records, and one without a column that a key of ``named`` names."""
    if frame.empty:
        raise InputError(f"{place}: expected records, found none")
    columns = [str(c) for c in frame.columns]
    for key, names in named.items():
        require_columns(names, columns, f"{place}: {key}")


def _labelled(raw: Raw, options: TableOptions) -> tuple[Raw, tuple[str, ...]]:
    """Return the data without unlabelled records, if the options drop these, and a note on it."""
    missing = raw.frame[options.target].isna()
    if not (options.drop_unlabelled and missing.any()) or missing.all():
        return raw, ()
    note = f"{missing.sum():,} of {len(missing):,} records have no {options.target!r}: left out"
    return raw._replace(frame=raw.frame[~missing].reset_index(drop=True)), (note,)


def _features(
    raw: Raw,
    place: str,
    options: TableOptions,
    target: Array,
    classes: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    aside: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the attributes of ``Features``; its notes begin with ``notes``."""
    frame = raw.frame
    no_features = {options.target, *options.drop, options.identifier, *aside}
    names = [str(c) for c in frame.columns if c not in no_features]
    if options.columns:
        names = [name for name in names if name in options.columns]
    inferred = dict.fromkeys(names, ColumnInference())
    if options.infer:
        inferred = infer_columns(frame, names, options)
    for name, counts in frame.attrs.get(TAKEN_AS_MISSING, {}).items():
        if (column := inferred.get(name)) and not column.left_out:
            records = f"{sum(counts.values()):,} records"
            kind = f"{', '.join(map(repr, counts))} taken as missing in {records}"
            action = "write another word for what is no missing value"
            inferred[name] = column._replace(
                kind=f"{column.kind}, {kind}" if column.kind else kind,
                action=f"{column.action}; {action}" if column.kind else action,
            )
    described = describe_columns(inferred)
    used = [name for name in names if not inferred[name].left_out]
    if not used:
        reasons = "".join(f"; {note}" for note in described)
        raise InputError(
            f"{place}: expected feature columns beside the target, found none{reasons}"
        )
    readings = {n: column.reading for n, column in inferred.items() if column.reading is not None}
    features = pd.DataFrame(
        {n: _feature(frame[n], n, options, readings.get(n), place) for n in used}
    )
    shown = [c for c in frame.columns if c in used or c == options.identifier]
    # examples of low and of high targets, evenly spread
    order = np.argsort(target, kind="stable")
    examples = np.linspace(0, len(order) - 1, min(_EXAMPLES, len(order))).astype(np.int64)
    return {
        "name": raw.name,
        "features": features,
        "source": raw.source,
        "fingerprint": _fingerprint(features, classes, target, options.max_categories),
        "readings": readings,
        "max_categories": options.max_categories,
        "left_out": tuple(str(c) for c in frame.columns if c not in used),
        "identifier": options.identifier,
        "notes": (*notes, *described),
        "example": json_columns(frame[shown].iloc[order[examples]]),
    }


def _telling(features: pd.DataFrame, labels: IntArray, options: TableOptions) -> tuple[str, ...]:
    """Return a note on the columns of which each alone tells the class of every record."""
    if len(labels) < _MANY:
        return ()
    names = [str(name) for name in features.columns if _tells(features[name], labels)]
    if not names:
        return ()
    return (
        f"columns that alone tell the class of every record: {first_few([*map(repr, names)], 3)}; "
        f"if one comes after the answer, {options.advice.leave_out.format(name=names[0])}",
    )


def _tells(column: pd.Series[Any], labels: IntArray) -> bool:
    """Return whether each class has an interval of numbers, or categories, of its own.

    Numbers with gaps tell it by the gaps: an outcome is often a date that all others lack.
    """
    categories = isinstance(column.dtype, pd.CategoricalDtype)
    codes = column.cat.codes if categories else column.isna()
    if categories or codes.any():
        pairs = pd.DataFrame({"code": codes, "label": labels}).drop_duplicates()
        return pairs["code"].is_unique and 2 * len(pairs) <= len(labels)
    by_class = np.argsort(labels, kind="stable")
    values, starts = column.to_numpy()[by_class], np.flatnonzero(np.diff(labels[by_class])) + 1
    least, greatest = (f.reduceat(values, [0, *starts]) for f in (np.minimum, np.maximum))
    return bool((np.sort(greatest)[:-1] < np.sort(least)[1:]).all())


def json_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns of numbers and texts, None where a value is missing."""
    dated = [c for c in frame.columns if is_date(frame[c])]
    frame = frame.assign(**{c: frame[c].astype(str).where(frame[c].notna(), None) for c in dated})
    plain = frame.astype(object).where(frame.notna(), None)
    return {str(name): plain[name].tolist() for name in plain.columns}


def _feature(
    column: pd.Series[Any], name: str, options: TableOptions, reading: Reading | None, place: str
) -> pd.Series[Any]:
    """Return a feature's values in one of the three types that ``Features`` names."""
    leave_out = options.advice.leave_out.format(name=name)
    as_category = name in options.categorical
    if column.isna().all():
        raise InputError(
            f"{place}: expected values in column {name!r}, found it entirely empty; {leave_out}"
        )
    if reading is not None:
        try:
            column = reading.read(column, name)
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
    if is_date(column):
        return pd.Series(to_times(column), name=name)
    if is_numeric(column) and not as_category:
        numbers = to_numbers(column)
        infinite = np.isinf(numbers)
        if infinite.any():
            raise InputError(
                f"{place}: expected finite numbers in column {name!r}, found {infinite.sum()} "
                f"infinite, the first in record {int(infinite.argmax()) + 1}"
            )
        return pd.Series(numbers, name=name)
    sample = column.dropna().iloc[0]
    if not isinstance(sample, str | bool | int | float | np.generic):
        raise InputError(
            f"{place}: expected numbers or text in column {name!r}, found "
            f"{type(sample).__name__}; convert it or {leave_out}"
        )
    texts, missing = to_texts(column)
    if not (as_category or isinstance(column.dtype, pd.CategoricalDtype)):
        _check_text(texts[~missing], np.flatnonzero(~missing), name, options, place)
    categories = sorted(set(texts[~missing]))
    texts[missing] = None
    return pd.Series(pd.Categorical(texts, categories=categories), name=name)


def _check_text(
    texts: Array, records: IntArray, name: str, options: TableOptions, place: str
) -> None:
    """Refuse a column of numbers or dates that stray texts would make one of categories."""
    noun, fits = meant_values(texts, options)
    if fits.all() or fits.mean() <= _MOSTLY:
        return
    first = int((~fits).argmax())
    stray = list(dict.fromkeys(texts[~fits].tolist()))
    cure = options.advice.gaps
    if len(stray) > _STRAY or not options.infer:
        cure = options.advice.stray  # too many to list; or a prepared table, which has no gaps
    raise InputError(
        f"{place}: expected {noun} in column {name!r} as in most of its records, found "
        f"{texts[first]!r} in record {int(records[first]) + 1}; "
        f"{cure.format(name=name, texts=stray)}"
    )


def _fingerprint(
    features: pd.DataFrame,
    classes: tuple[Label, ...],
    target: Array,
    max_categories: int,
) -> str:
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    for name in features.columns:
        column = features[name]
        add(str(name).encode())
        if is_numeric(column):
            numbers = to_numbers(column) + 0.0  # -0.0 is 0.0
            numbers[np.isnan(numbers)] = np.nan  # one bit pattern for all NaN
            add(b"numeric" + numbers.astype("<f8").tobytes())
        elif is_date(column):
            add(b"date" + column.to_numpy("datetime64[us]").astype("<i8").tobytes())
        else:
            add(b"categorical" + column.cat.codes.to_numpy().astype("<i8").tobytes())
            add(repr(list(column.cat.categories)).encode())
            if len(column.cat.categories) > max_categories:
                add(b"the most frequent %d" % max_categories)
    add(repr(classes).encode())
    add(target.tobytes())
    return digest.hexdigest()


def _with_rare_merged(
    column: pd.Series[Any], options: TableOptions
) -> tuple[pd.Series[Any], tuple[str, ...]]:
    """Return the labels with ``other`` in place of rare ones, and a note on it."""
    least = options.merge_rare
    if least is None:
        return column, ()
    counts = column.value_counts()
    rare = counts.index[counts.between(1, least - 1)]  # a categorical's may have no records
    if rare.empty:
        return column, ()
    merged = column.astype(object).where(~column.isin(rare) | column.isna(), OTHER)
    spelling = merged.where(merged.isna(), pd.Series(to_texts(merged)[0], index=merged.index))
    shown = first_few([f"{label} ({counts[label]})" for label in rare])
    same = int((column == OTHER).sum())  # the data may have a class of this name
    beside = "" if same < least else f" with its {same:,} records"
    note = (
        f"target {options.target!r}: classes {shown} have fewer than {least} records; "
        f"together{beside} they are the class {OTHER!r}"
    )
    return spelling, (note,)


def _labels(
    column: pd.Series[Any], options: TableOptions, place: str
) -> tuple[IntArray, tuple[Label, ...]]:
    """Return the class (n,) of each record and the classes, sorted."""
    target = options.advice.labels.format(target=options.target)
    require_labels(column.isna(), target, place, options.advice.unlabelled)
    values = _plain_labels(column)
    classes = tuple(sorted(set(values)))
    if len(classes) == 1:
        lower = "; lower merge_rare" if classes == (OTHER,) and options.merge_rare else ""
        raise InputError(
            f"{place}: expected two classes or more in {target}, found only {classes[0]!r}{lower}"
        )
    if max(len(str(label)) for label in classes) > CONFIG_TEXT:
        raise InputError(
            f"{place}: expected labels of at most {CONFIG_TEXT:,} characters in {target}, found a "
            "longer one; shorten it, or name another column"
        )
    codes = {label: code for code, label in enumerate(classes)}
    labels = np.array([codes[value] for value in values], dtype=np.int64)
    counts = np.bincount(labels)
    if counts.min() < _LEAST_RECORDS:
        rare = int(counts.argmin())
        raise InputError(
            f"{place}: expected {_LEAST_RECORDS} records or more of each class in {target}, "
            f"found {counts[rare]} of {classes[rare]!r} ({len(classes)} classes); "
            f"{_merging(counts, classes, options)}"
        )
    return labels, classes


def _merging(counts: IntArray, classes: tuple[Label, ...], options: TableOptions) -> str:
    """Return what to do about classes, with ``counts`` (k,), of which some have too few records.

    The advice is to merge rare classes if these have enough records together, another class is
    left, and no class of many records is lost by it.
    """
    others = np.array([label != OTHER for label in classes])
    for least in sorted({*(counts + 1).tolist(), _LEAST_RECORDS}):
        frequent = counts >= least
        enough = counts[~frequent].sum() >= _LEAST_RECORDS
        if _LEAST_RECORDS <= least <= _MERGED and enough and (frequent & others).any():
            return options.advice.merge.format(least=least)
    return "remove its records, or give them the label of another class"


def _plain_labels(column: pd.Series[Any]) -> list[Label]:
    """Return labels as Python values of one type: bool, int, float or text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        return [bool(value) for value in column]
    if is_numeric(column):
        numbers = to_numbers(column)
        integral = bool(np.all(np.isfinite(numbers) & (numbers == np.floor(numbers))))
        return [int(label) for label in column] if integral else numbers.tolist()
    return [str(value) for value in column]


def _positive(wanted: Label | None, classes: tuple[Label, ...], where: str) -> int | None:
    """Return the position of the positive class: the one named, else the last one of two."""
    if wanted is None:
        return len(classes) - 1 if len(classes) == 2 else None
    spelled = [str(label) for label in classes]
    if (name := class_text(wanted, classes)) not in spelled:
        hint = " (put yes, no, on and off in quotes)" if isinstance(wanted, bool) else ""
        raise InputError(
            f"{where}.positive: expected one of the classes {listed(spelled)}; found "
            f"{wanted!r}{hint}"
        )
    return spelled.index(name)
