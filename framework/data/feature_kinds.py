"""How one feature becomes numbers: a number, a category, or a date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import FloatArray
from framework.data.categories import category_text, to_numbers, to_texts
from framework.errors import InputError

_DAY = 86_400.0  # seconds
_YEAR = 365.2425  # days


@dataclass(frozen=True)
class Numeric:
    """A numeric feature: a missing value is the median, then ``(value - mean) / scale``."""

    median: float
    mean: float
    scale: float

    width = 1

    @classmethod
    def fit(cls, numbers: FloatArray, name: str) -> Numeric:
        known = numbers[~np.isnan(numbers)]
        _check_finite(numbers, name)
        if len(known) == 0:
            raise InputError(
                f"feature {name!r}: expected values in the training part, found none; drop it"
            )
        median = float(np.median(known))
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
        _check_finite(numbers, name)
        filled = np.where(np.isnan(numbers), self.median, numbers)
        return ((filled - self.mean) / self.scale)[:, np.newaxis]

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
    def fit(cls, column: pd.Series[Any], name: str, most: int | None = None) -> Categorical:
        """Learn the categories, of more than ``most`` the most frequent ones."""
        texts, missing = to_texts(column)
        if missing.all():
            raise InputError(
                f"feature {name!r}: expected values in the training part, found none; drop it"
            )
        counts = Counter(texts[~missing].tolist())
        if most is None or len(counts) <= most:
            return cls(tuple(sorted(counts)))
        frequent = sorted(counts, key=lambda text: (-counts[text], text))[:most]
        return cls(tuple(sorted(frequent)), rest=True)

    def encode(self, column: pd.Series[Any], name: str) -> FloatArray:
        texts, missing = to_texts(column)
        codes = pd.Index(self.categories, dtype=object).get_indexer(pd.Index(texts, dtype=object))
        codes[(codes < 0) & self.rest] = len(self.categories)
        codes[missing] = -1
        return np.asarray(codes[:, np.newaxis] == np.arange(self.width), dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        rest = {"rest": True} if self.rest else {}
        return {"categories": list(self.categories), **rest}


@dataclass(frozen=True)
class Date:
    """A date: its day, standardised, and where it is in the year, the week and, if told, the day.

    The last three are points on a circle, so that December is next to January. A missing date is
    the median day, and no point on any circle.
    """

    median: float
    mean: float
    scale: float
    clock: bool

    @property
    def width(self) -> int:
        return 7 if self.clock else 5

    @classmethod
    def fit(cls, column: pd.Series[Any], name: str) -> Date:
        days = _days(column, name)
        number = Numeric.fit(days, name)
        clock = bool((np.nan_to_num(days) % 1 != 0).any())
        return cls(number.median, number.mean, number.scale, clock)

    def encode(self, column: pd.Series[Any], name: str) -> FloatArray:
        days = _days(column, name)
        filled = np.where(np.isnan(days), self.median, days)
        parts = [(filled - self.mean) / self.scale]
        for period in (_YEAR, 7.0, 1.0)[: 3 if self.clock else 2]:
            angle = 2 * np.pi * (days % period) / period
            parts += [np.nan_to_num(np.sin(angle)), np.where(np.isnan(days), 0.0, np.cos(angle))]
        return np.column_stack(parts)

    def to_json(self) -> dict[str, Any]:
        day = {"median": self.median, "mean": self.mean, "scale": self.scale}
        return {"date": day, "clock": self.clock}


FeatureKind = Numeric | Categorical | Date


def kind_from_json(row: Mapping[str, Any]) -> FeatureKind:
    """Return what ``to_json`` described; raises KeyError, TypeError or ValueError for others."""
    if "categories" in row:
        categories = tuple(str(category) for category in row["categories"])
        return Categorical(categories, row.get("rest") is True)
    plain = row.get("date", row)
    numbers = float(plain["median"]), float(plain["mean"]), float(plain["scale"])
    return Date(*numbers, row["clock"] is True) if "date" in row else Numeric(*numbers)


def _days(column: pd.Series[Any], name: str) -> FloatArray:
    """Return days since 1970, NaN where a date is missing."""
    if column.isna().all():
        return np.full(len(column), np.nan)
    try:
        times = pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    except (ValueError, TypeError) as error:
        raise InputError(f"feature {name!r}: expected dates, found: {error}") from error
    seconds = times.astype(np.int64) / 1e6
    return np.where(np.isnat(times), np.nan, seconds / _DAY)


def _numbers(column: pd.Series[Any], name: str) -> FloatArray:
    try:
        return to_numbers(column)
    except (ValueError, TypeError) as error:
        wrong = next(value for value in column.dropna() if not _is_number(value))
        raise InputError(
            f"feature {name!r}: expected numbers, found {category_text(wrong)!r}"
        ) from error


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _check_finite(numbers: FloatArray, name: str) -> None:
    if np.isinf(numbers).any():
        raise InputError(
            f"feature {name!r}: expected finite numbers, found {numbers[np.isinf(numbers)][0]}"
        )
