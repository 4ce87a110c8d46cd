"""Encoding of the features of a table as the numbers that classifiers need, feature by feature.

Each original feature has columns of its own, so that a classifier can encode just the features
that it reads. (scikit-learn's ``ColumnTransformer`` encodes all columns of a frame or none.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    category_text,
    frozen,
    is_number,
)
from framework.data.columns import (
    ISO,
    MOST_CATEGORIES,
    Reading,
    as_dates,
    is_date,
    is_numeric,
    stripped,
    to_numbers,
    to_texts,
    to_times,
    unusable,
)
from framework.errors import CellsError, InputError
from framework.registry import require_columns, require_known
from framework.security import TABLE_CELLS

_DAY = 86_400.0  # seconds
_YEAR = 365.2425  # days
_FINITE = "finite numbers"
_TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}


@dataclass(frozen=True)
class Numeric:
    """A numeric feature: a missing value becomes the median; then ``(value - mean) / scale``."""

    median: float
    mean: float
    scale: float

    width = 1

    @classmethod
    def fit(cls, numbers: FloatArray, name: str) -> Numeric:
        values = numbers[~np.isnan(numbers)]
        if np.isinf(numbers).any():
            raise InputError(
                f"feature {name!r}: expected {_FINITE}, found {numbers[np.isinf(numbers)][0]}"
            )
        if len(values) == 0:
            raise InputError(
                f"feature {name!r}: expected values in the training part, found none; drop it"
            )
        median = float(np.median(values))
        filled = np.where(np.isnan(numbers), median, numbers)
        if filled.min() == filled.max():
            return cls(median, float(filled[0]), 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = float(filled.mean()), float(filled.std())
        if not np.isfinite(scale) or scale == 0:
            raise InputError(
                f"feature {name!r}: expected numbers whose spread can be computed, found values "
                f"from {filled.min():g} to {filled.max():g}; rescale it"
            )
        return cls(median, mean, scale)

    def encode(self, column: pd.Series[Any], name: str) -> FloatArray:
        numbers = _numbers(column, name)
        if np.isinf(numbers).any():
            raise unusable(pd.Series(numbers, column.index)[np.isinf(numbers)], name, _FINITE)
        return self.standardised(numbers)[:, np.newaxis]

    def identity(self, column: pd.Series[Any], name: str) -> FloatArray:
        return self.standardised(_numbers(column, name))

    def standardised(self, numbers: FloatArray) -> FloatArray:
        filled = np.where(np.isnan(numbers), self.median, numbers)
        return np.asarray((filled - self.mean) / self.scale)

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "mean": self.mean, "scale": self.scale}


@dataclass(frozen=True)
class Categorical:
    """A feature of categories: a column for each; zeros where a value is missing or unknown.

    With ``rest`` there is one more column, of all other values, those never seen included.
    """

    categories: tuple[str, ...]
    rest: bool = False

    @property
    def width(self) -> int:
        return len(self.categories) + self.rest

    @classmethod
    def fit(cls, column: pd.Series[Any], name: str, most: int = MOST_CATEGORIES) -> Categorical:
        """Learn the categories; if they are more than ``most``, the most frequent ones."""
        texts, missing = to_texts(column)
        if missing.all():
            raise InputError(
                f"feature {name!r}: expected values in the training part, found none; drop it"
            )
        counts = Counter(texts[~missing].tolist())
        if len(counts) <= most:
            return cls(tuple(sorted(counts)))
        frequent = sorted(counts, key=lambda text: (-counts[text], text))[:most]
        return cls(tuple(sorted(frequent)), rest=True)

    def encode(self, column: pd.Series[Any], name: str) -> FloatArray:
        codes = self.identity(column, name)
        return np.asarray(codes[:, np.newaxis] == np.arange(self.width), dtype=np.float64)

    def identity(self, column: pd.Series[Any], name: str) -> FloatArray:
        texts, missing = to_texts(column)
        categories = pd.Index(self.categories, dtype=object)
        codes = categories.get_indexer(pd.Index(texts, dtype=object))
        unknown = codes < 0
        if unknown.any():  # 01 may be the 1 of a column of numbers
            values = [_as_value(text) for text in texts[unknown]]
            codes[unknown] = categories.get_indexer(pd.Index(values, dtype=object))
        codes[(codes < 0) & self.rest] = len(self.categories)
        codes[missing] = -1
        return np.asarray(codes, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        return {"categories": list(self.categories), **({"rest": True} if self.rest else {})}


@dataclass(frozen=True)
class Date:
    """A date: its day, standardised, and its place in the year, in the week and, by clock, the day.

    Places are points on circles, so that December is next to January. A missing date becomes the
    median day, and the centre of each circle.
    """

    day: Numeric
    clock: bool

    @property
    def width(self) -> int:
        return 7 if self.clock else 5

    @classmethod
    def fit(cls, column: pd.Series[Any], name: str) -> Date:
        days = _days(column, name)
        return cls(Numeric.fit(days, name), bool((np.nan_to_num(days) % 1 != 0).any()))

    def encode(self, column: pd.Series[Any], name: str) -> FloatArray:
        days = _days(column, name)
        parts = [self.day.standardised(days)]
        for period in (_YEAR, 7.0, 1.0)[: 3 if self.clock else 2]:
            angle = 2 * np.pi * (days % period) / period
            parts += [np.nan_to_num(np.sin(angle)), np.where(np.isnan(days), 0.0, np.cos(angle))]
        return np.column_stack(parts)

    def identity(self, column: pd.Series[Any], name: str) -> FloatArray:
        return self.day.standardised(_days(column, name))

    def to_json(self) -> dict[str, Any]:
        return {"date": self.day.to_json(), "clock": self.clock}


FeatureKind = Numeric | Categorical | Date


def kind_from_json(row: Mapping[str, Any]) -> FeatureKind:
    """Return what ``to_json`` described; raises KeyError, TypeError or ValueError for others."""
    if "categories" in row:
        categories = tuple(map(category_text, row["categories"]))
        if not isinstance(row["categories"], list) or len(set(categories)) < len(categories):
            raise ValueError("categories that are no list of different ones")
        return Categorical(categories, row.get("rest") is True)
    plain = row.get("date", row)
    number = Numeric(float(plain["median"]), float(plain["mean"]), float(plain["scale"]))
    if not (np.isfinite([number.median, number.mean, number.scale]).all() and number.scale > 0):
        raise ValueError("numbers that standardise nothing")
    return Date(number, row["clock"] is True) if "date" in row else number


def _as_value(text: str) -> str:
    """Return the spelling that a text has in a column of numbers, or of truth values."""
    if text in _TRUTHS:
        return str(_TRUTHS[text])
    try:
        return text if "_" in text else category_text(float(text))
    except ValueError:
        return text


def _days(column: pd.Series[Any], name: str) -> FloatArray:
    """Return days since 1970, NaN where a date is missing."""
    if column.isna().all():
        return np.full(len(column), np.nan)
    if not is_date(column):  # pandas would take numbers for nanoseconds, and guess forms of texts
        texts = stripped(column, ("NaT", "nan", "None"))
        numbers = np.array([isinstance(value, Number) for value in column])
        read = as_dates(texts.where(~numbers, None), ISO)
        wrong = read.isna() & texts.notna()
        if wrong.any():
            raise unusable(column[wrong], name, "dates such as 2026-11-21")
        column = read
    times = to_times(column)
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6 / _DAY)


def _numbers(column: pd.Series[Any], name: str) -> FloatArray:
    """Return numbers as they are, truth values and their texts as 0 and 1, missing ones as NaN."""
    if column.isna().all():
        return np.full(len(column), np.nan)
    try:
        if column.dtype.kind in "mMc":  # numpy would make numbers of dates
            raise TypeError(column.dtype)
        return to_numbers(column)
    except (ValueError, TypeError) as error:
        plain = column.astype(object)
        plain = plain.map(lambda v: _TRUTHS.get(v.strip(), v) if isinstance(v, str) else v)
        wrong = column.notna() & ~plain.map(is_number)
        if wrong.any():
            raise unusable(column[wrong].map(category_text), name, "numbers") from error
        return to_numbers(plain)


@dataclass(frozen=True)
class Encoder:
    """Imputes and standardises numbers, encodes categories and dates; fitted on training records.

    Attributes
    ----------
    feature_names : names of the original features, in order (``x0``, ``x1`` ... of an array).
    named : whether features are found by name in a frame (else by position).
    features : how each feature is encoded.
    readings : how the texts of a feature are read, where they are not just categories.
    """

    feature_names: tuple[str, ...]
    named: bool
    features: tuple[FeatureKind, ...]
    readings: Mapping[str, Reading] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        data: pd.DataFrame | Array,
        categorical: Iterable[str | int] = (),
        readings: Mapping[str, Reading] | None = None,
        max_categories: int = MOST_CATEGORIES,
    ) -> Encoder:
        """Learn medians, means, scales and categories.

        Parameters
        ----------
        data : DataFrame or ndarray (n, d)
            Training records. Numbers are numeric features, dates are dates, all else is
            categorical.
        categorical : names or positions
            Numeric features that mean categories.
        readings : mapping of names to Reading, optional
            How the texts of a feature are read, where they are not just categories.
        max_categories : int
            Of a feature with more categories, only so many are told apart, the most frequent ones.

        Raises
        ------
        InputError
            A feature without a value, infinite values, or an unknown name.
        """
        names, named = _names(data)
        chosen = {_position(feature, names) for feature in categorical}
        read = dict(readings or {})
        features: list[FeatureKind] = []
        for i, name in enumerate(names):
            column = _column(data, i)
            if name in read:
                column = read[name].read(column, name)
            if is_date(column):
                features.append(Date.fit(column, name))
            elif i in chosen or not is_numeric(column):
                features.append(Categorical.fit(column, name, max_categories))
            else:
                features.append(Numeric.fit(to_numbers(column), name))
        return cls(names, named, tuple(features), read)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(feature.width for feature in self.features)

    @property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """Features whose values in a CSV file are read as written, with their categories."""
        if not self.named:
            return {}
        kinds = dict(zip(self.feature_names, self.features, strict=True))
        chosen = {name: kind for name, kind in kinds.items() if isinstance(kind, Categorical)}
        return dict.fromkeys(self.readings, ()) | {n: kind.categories for n, kind in chosen.items()}

    @property
    def spans(self) -> tuple[IntArray, ...]:
        """Encoded columns of each original feature, in order."""
        ends = np.cumsum([feature.width for feature in self.features])
        return tuple(
            frozen(np.arange(end - feature.width, end, dtype=np.int64))
            for end, feature in zip(ends, self.features, strict=True)
        )

    def position(self, feature: int | str) -> int:
        """Return the position of a feature given by name or position.

        Raises
        ------
        InputError
            There is no such feature.
        """
        return _position(feature, self.feature_names)

    def columns_of(self, features: Iterable[int | str]) -> IntArray:
        """Return the encoded columns (int64) of original features, in the order given."""
        spans = self.spans
        chosen = [spans[self.position(f)] for f in features]
        return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)

    def transform(self, data: pd.DataFrame | Array) -> FloatArray:
        """Encode all features of records: float64 (n, width).

        Raises
        ------
        InputError
            A column is missing, or a numeric feature holds text or infinite values.
        """
        return self.transform_features(data, range(len(self.feature_names)))

    def identities(self, data: pd.DataFrame | Array) -> FloatArray:
        """Return a number for each feature of each record, float64 (n, features).

        Values that are encoded alike have equal numbers, to the bit: 4 and 4.0, a missing value and
        the median. The numbers depend on no other record, and not on the order of columns.

        Raises
        ------
        InputError
            See :meth:`transform`.
        """
        numbers = self._transform_numbers(data, range(len(self.features)), None)
        if numbers is None:
            self._require(data, range(len(self.features)), None)
            numbers = np.empty((len(data), len(self.features)))
            for i, (kind, name) in enumerate(zip(self.features, self.feature_names, strict=True)):
                numbers[:, i] = kind.identity(self._read(data, i, None), name)
        return np.asarray(numbers + 0.0)  # -0.0 is 0.0

    def transform_features(
        self,
        data: pd.DataFrame | Array,
        features: Iterable[int | str],
        records: IntArray | None = None,
    ) -> FloatArray:
        """Encode some features without reading any other.

        Parameters
        ----------
        data : DataFrame or ndarray (n, d)
            A frame needs only the columns of ``features``.
        features : positions or names
        records : int64 (m,), optional
            Positions of the records to read, all n if None; no other record is read.

        Returns
        -------
        float64 (m, columns), the columns in the order of ``features``

        Raises
        ------
        InputError
            A column is missing, a numeric feature holds text or infinite values, or the categories
            make more columns than fit in memory.
        """
        positions = [self.position(feature) for feature in features]
        rows = len(data if records is None else records)
        width = sum(self.features[i].width for i in positions)
        if rows * width > TABLE_CELLS:
            raise InputError(
                f"expected at most {TABLE_CELLS:,} values where each category is a column, found "
                f"{rows:,} records of {width:,} columns; set a lower max_categories, or drop "
                "features with many categories"
            )
        numbers = self._transform_numbers(data, positions, records)
        if numbers is not None:
            return numbers
        self._require(data, positions, records)
        blocks = [
            self.features[i].encode(self._read(data, i, records), self.feature_names[i])
            for i in positions
        ]
        if blocks:
            return np.hstack(blocks)
        return np.empty((rows, 0))

    def missing(
        self,
        data: pd.DataFrame | Array,
        features: Iterable[int | str],
        records: IntArray | None = None,
    ) -> BoolArray:
        """Return which values of some features are missing: bool (m, features).

        A column that a frame lacks is missing in all records. The parameters are those of
        :meth:`transform_features`.
        """
        positions = [self.position(feature) for feature in features]
        gaps = np.ones((len(data) if records is None else len(records), len(positions)), dtype=bool)
        for j, i in enumerate(positions):
            name = self.feature_names[i]
            if isinstance(data, pd.DataFrame) and self.named and name not in data.columns:
                continue
            gaps[:, j] = self._read(data, i, records).isna()
        return gaps

    def _transform_numbers(
        self, data: pd.DataFrame | Array, positions: Sequence[int], records: IntArray | None
    ) -> FloatArray | None:
        """Encode numeric features all at once; None if a feature or a value is of another kind.

        The result is the same to the bit as one by one, and many times faster.
        """
        features = [f for i in positions if isinstance(f := self.features[i], Numeric)]
        if not features or len(features) < len(positions) or not isinstance(data, pd.DataFrame):
            return None
        names = [self.feature_names[i] for i in positions]
        if not self.named or not set(names) <= set(data.columns):
            return None
        chosen = data[names] if records is None else data[names].iloc[records]
        plain = all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in chosen.dtypes)
        if not plain or chosen.shape[1] != len(names):
            return None
        numbers = np.array(chosen.to_numpy(dtype=np.float64), order="C")  # a copy, changed in place
        if np.isinf(numbers).any():
            return None
        medians, means, scales = np.array([(f.median, f.mean, f.scale) for f in features]).T
        np.copyto(numbers, medians, where=np.isnan(numbers))
        numbers -= means
        numbers /= scales
        return numbers

    def _read(self, data: pd.DataFrame | Array, i: int, records: IntArray | None) -> pd.Series[Any]:
        """Return the values of a feature, with texts read as what they stand for."""
        name = self.feature_names[i]
        if isinstance(data, pd.DataFrame) and self.named:
            column = data[name]
        elif data.shape[1] != len(self.feature_names):
            raise InputError(
                f"data: expected {len(self.feature_names)} columns, found {data.shape[1]}"
            )
        else:
            column = _column(data, i)
        if records is not None:
            column = column.iloc[records]
        is_text = isinstance(self.features[i], Categorical) and column.dtype == object
        if is_text and (lists := column.map(pd.api.types.is_list_like)).any():
            raise unusable(column[lists].map(str), name, "a text or a number")
        return self.readings[name].read(column, name) if name in self.readings else column

    def _require(
        self, data: pd.DataFrame | Array, positions: Iterable[int], records: IntArray | None
    ) -> None:
        """Refuse a frame that lacks the column of a feature; with a CellsError for some records."""
        if not (isinstance(data, pd.DataFrame) and self.named):
            return
        try:
            require_columns((self.feature_names[i] for i in positions), data.columns)
        except InputError as error:
            if records is None:
                raise
            raise CellsError(dict.fromkeys(data.index[records], str(error))) from error

    def to_json(self) -> dict[str, Any]:
        """Return the encoder as plain JSON types, from which floats are read back exactly."""
        features = [
            {"name": name, **feature.to_json()}
            for name, feature in zip(self.feature_names, self.features, strict=True)
        ]
        readings = {name: reading.to_json() for name, reading in self.readings.items()}
        return {"named": self.named, "features": features, "readings": readings}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Encoder:
        """Return the encoder that ``to_json`` described.

        Raises
        ------
        InputError
            ``plain`` is not the description of an encoder.
        """
        try:
            rows = plain["features"]
            names = tuple(str(row["name"]) for row in rows)
            if len(set(names)) < len(names):
                raise ValueError("a feature twice")
            readings = {
                str(name): Reading.from_json(reading)
                for name, reading in plain.get("readings", {}).items()
            }
            kinds = tuple(kind_from_json(row) for row in rows)
            return cls(names, bool(plain["named"]), kinds, readings)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"encoder: expected what to_json wrote, found {type(error).__name__}: {error}"
            ) from error


def _names(data: pd.DataFrame | Array) -> tuple[tuple[str, ...], bool]:
    """Return the features' names, and whether they are columns of a frame."""
    if isinstance(data, pd.DataFrame) and all(isinstance(c, str) for c in data.columns):
        return tuple(data.columns), True
    return tuple(f"x{i}" for i in range(data.shape[1])), False


def _position(feature: int | str, names: Sequence[str]) -> int:
    if isinstance(feature, str):
        require_known([feature], names, f"features: expected one of {len(names)} names,")
        return names.index(feature)
    if not 0 <= feature < len(names):
        raise InputError(
            f"features: expected a position from 0 to {len(names) - 1}, found {feature}"
        )
    return int(feature)


def _column(data: pd.DataFrame | Array, i: int) -> pd.Series[Any]:
    if isinstance(data, pd.DataFrame):
        return data.iloc[:, i]
    return pd.Series(data[:, i])
