"""Turns a raw frame into a ``Table`` and reports what is wrong with the data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray, IntArray, frozen
from framework.data.categories import is_numeric, to_numbers, to_texts
from framework.errors import InputError
from framework.registry import nearest

Label = str | int | float | bool

_LEAST_RECORDS = 3  # of a class: one for each of training, validation and test
_MOSTLY = 0.5  # a text column with a larger share of numbers is a numeric one gone wrong


@dataclass(frozen=True)
class Table:
    """A data set that passed all checks.

    Attributes
    ----------
    name : the name of the data set in reports.
    features : DataFrame of n records; numeric columns are float64 (NaN where missing), the others
        pandas categoricals of texts.
    labels : int64 (n,), positions in ``classes``.
    classes : labels as the data have them, sorted.
    positive : position of the positive class in ``classes``; None where there are more than two
        classes and none was named positive.
    source : a description of where the data come from.
    fingerprint : sha256 over names, kinds, values and labels; equal for equal content.
    """

    name: str
    features: pd.DataFrame
    labels: IntArray
    classes: tuple[Label, ...]
    positive: int | None
    source: str
    fingerprint: str

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the columns that hold categories."""
        return tuple(c for c in self.features.columns if not is_numeric(self.features[c]))


@dataclass(frozen=True)
class Raw:
    """A frame as read from its source; ``name`` and ``source`` are as in ``Table``."""

    frame: pd.DataFrame
    name: str
    source: str


def assemble(
    raw: Raw,
    where: str,
    *,
    target: str,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    positive: Label | None = None,
) -> Table:
    """Check a raw frame and turn it into a table.

    Raises
    ------
    InputError
        There are no records, no features, no column of a given name, missing labels, only one
        class, too few records of a class, or features that cannot be used.
    """
    place = f"{where}: {raw.source}"
    features = _features(raw, where, target, categorical, drop)
    labels, classes = _labels(raw.frame[target], target, place)
    return Table(
        name=raw.name,
        features=features,
        labels=frozen(labels),
        classes=classes,
        positive=_positive(positive, classes, where),
        source=raw.source,
        fingerprint=_fingerprint(features, classes, labels.astype("<i8")),
    )


@dataclass(frozen=True)
class ValueTable:
    """A data set for regression: as ``Table``, but with ``values``, float64 (n,), as target."""

    name: str
    features: pd.DataFrame
    values: FloatArray
    source: str
    fingerprint: str

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the columns that hold categories."""
        return tuple(c for c in self.features.columns if not is_numeric(self.features[c]))


def assemble_values(
    raw: Raw,
    where: str,
    *,
    target: str,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> ValueTable:
    """Check a raw frame whose target holds values and turn it into a table.

    Raises
    ------
    InputError
        As ``assemble``; a target that is not numeric, missing or infinite.
    """
    place = f"{where}: {raw.source}"
    features = _features(raw, where, target, categorical, drop)
    column = raw.frame[target]
    if not is_numeric(column):
        raise InputError(
            f"{place}: expected numbers in {target!r} for a regression, found other values"
        )
    values = to_numbers(column)
    if not np.isfinite(values).all():
        first = int((~np.isfinite(values)).argmax())
        raise InputError(
            f"{place}: expected a finite value in each record of {target!r}, found "
            f"{values[first]} in record {first + 1}; correct or remove it"
        )
    fingerprint = _fingerprint(features, (), values.astype("<f8"))
    return ValueTable(raw.name, features, frozen(values), raw.source, fingerprint)


def _features(
    raw: Raw, where: str, target: str, categorical: Sequence[str], drop: Sequence[str]
) -> pd.DataFrame:
    frame, place = raw.frame, f"{where}: {raw.source}"
    if frame.empty:
        raise InputError(f"{place}: expected records, found none")
    _check_names(frame, place, target=(target,), categorical=categorical, drop=drop)
    left_out = {target, *drop}
    names = [str(c) for c in frame.columns if c not in left_out]
    if not names:
        raise InputError(f"{place}: expected feature columns beside the target, found none")
    return pd.DataFrame({c: _feature(frame[c], c, c in categorical, place) for c in names})


def _check_names(frame: pd.DataFrame, place: str, **wanted: Sequence[str]) -> None:
    known = [str(c) for c in frame.columns]
    for key, names in wanted.items():
        for name in names:
            if name not in known:
                raise InputError(
                    f"{place}: expected the column {name!r} ({key}), found none of that name"
                    f"{nearest(name, known)}"
                )


def _labels(column: pd.Series[Any], target: str, place: str) -> tuple[IntArray, tuple[Label, ...]]:
    missing = column.isna().to_numpy(dtype=bool)
    if missing.any():
        raise InputError(
            f"{place}: expected a label in each record, found {missing.sum()} without one in "
            f"{target!r}, the first in record {int(missing.argmax()) + 1}; label or remove them"
        )
    values = _plain_labels(column)
    classes = tuple(sorted(set(values)))
    if len(classes) == 1:
        raise InputError(
            f"{place}: expected two classes or more in {target!r}, found only {classes[0]!r}"
        )
    codes = {label: code for code, label in enumerate(classes)}
    labels = np.array([codes[value] for value in values], dtype=np.int64)
    counts = np.bincount(labels)
    if counts.min() < _LEAST_RECORDS:
        rare = int(counts.argmin())
        raise InputError(
            f"{place}: expected {_LEAST_RECORDS} records or more of each class in {target!r}, "
            f"found {counts[rare]} of {classes[rare]!r} ({len(classes)} classes); merge or remove "
            "rare classes"
        )
    return labels, classes


def _plain_labels(column: pd.Series[Any]) -> list[Label]:
    """Return labels as Python values of one type: bool, int, float or text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        return [bool(value) for value in column]
    if is_numeric(column):
        numbers = to_numbers(column)
        whole = bool(np.all(np.isfinite(numbers) & (numbers == np.floor(numbers))))
        return [int(number) if whole else float(number) for number in numbers]
    return [str(value) for value in column]


def _positive(wanted: Label | None, classes: tuple[Label, ...], where: str) -> int | None:
    if wanted is None:
        return len(classes) - 1 if len(classes) == 2 else None
    spelled = [str(label) for label in classes]
    if str(wanted) not in spelled:
        hint = " (put yes, no, on and off in quotes)" if isinstance(wanted, bool) else ""
        raise InputError(
            f"{where}.positive: expected one of the classes {', '.join(spelled)}; found "
            f"{wanted!r}{hint}"
        )
    return spelled.index(str(wanted))


def _feature(column: pd.Series[Any], name: str, as_category: bool, place: str) -> pd.Series[Any]:
    if column.isna().all():
        raise InputError(
            f"{place}: expected values in column {name!r}, found it entirely empty; "
            f"leave it out with drop: [{name}]"
        )
    if is_numeric(column) and not as_category:
        return _numeric_feature(column, name, place)
    sample = column.dropna().iloc[0]
    if not isinstance(sample, str | bool | int | float | np.generic):
        raise InputError(
            f"{place}: expected numbers or text in column {name!r}, found "
            f"{type(sample).__name__}; convert it or leave it out with drop: [{name}]"
        )
    texts, missing = to_texts(column)
    if not as_category:
        _check_text(texts[~missing], np.flatnonzero(~missing), name, place)
    categories = sorted(set(texts[~missing]))
    texts[missing] = None
    return pd.Series(pd.Categorical(texts, categories=categories), name=name)


def _numeric_feature(column: pd.Series[Any], name: str, place: str) -> pd.Series[Any]:
    numbers = to_numbers(column)
    infinite = np.isinf(numbers)
    if infinite.any():
        raise InputError(
            f"{place}: expected finite numbers in column {name!r}, found {infinite.sum()} "
            f"infinite, the first in record {int(infinite.argmax()) + 1}"
        )
    return pd.Series(numbers, name=name)


def _check_text(texts: Array, records: IntArray, name: str, place: str) -> None:
    """Refuse a numeric column that a stray text (say ``?`` for missing) made one of categories."""
    numbers = pd.to_numeric(pd.Series(texts), errors="coerce").notna().to_numpy(dtype=bool)
    if numbers.all() or numbers.mean() <= _MOSTLY:
        return
    first = int((~numbers).argmax())
    raise InputError(
        f"{place}: expected numbers in column {name!r} as in most of its records, found "
        f"{texts[first]!r} in record {int(records[first]) + 1}; leave missing values empty, or "
        f"list the column under categorical"
    )


def _fingerprint(features: pd.DataFrame, classes: tuple[Label, ...], target: Array) -> str:
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
        else:
            add(b"categorical" + column.cat.codes.to_numpy().astype("<i8").tobytes())
            add(repr(list(column.cat.categories)).encode())
    add(repr(classes).encode())
    add(target.tobytes())
    return digest.hexdigest()
