"""How a column that a file spells as text is read: numbers with marks, dates, marks of gaps.

A reading is decided once, on the table that a search is given, and travels with the encoder, so
that a model reads its records as the search read them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import Array
from framework.errors import InputError

ISO = "ISO8601"
"""A date as 2026-11-21, with or without a time."""

DATE_FORMS = (
    ISO,
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d-%m-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
)
"""Forms of dates that are recognised, the earlier ones first; day before month."""

MARKS = ((",", "."), (".", ","), (" ", ","), (" ", "."), ("'", "."))
"""Marks of thousands and of decimals that are recognised, the earlier ones first."""

GAPS = ("?", "-", "--", ".", "*", "#N/A", "unknown")
"""Texts in a column of numbers or dates that stand for a missing value."""

_CURRENCY = "$€£¥%"
_LONGEST_DATE = 40


@dataclass(frozen=True)
class Reading:
    """How the texts of a column are read.

    Attributes
    ----------
    marks : (thousands, decimals), or None for what is no number
    date : a form of ``strftime`` or :data:`ISO`, or None for what is no date
    gaps : texts that stand for a missing value
    """

    marks: tuple[str, str] | None = None
    date: str | None = None
    gaps: tuple[str, ...] = ()

    def read(self, column: pd.Series[Any], name: str) -> pd.Series[Any]:
        """Return a column as float64, datetime64 or texts; one of no texts as it is.

        Raises
        ------
        InputError
            A text is neither a gap nor of the form that the column is known to have.
        """
        if not is_text(column):
            return column
        texts = spelled(column, self.gaps)
        if self.date is not None:
            values, wanted = as_dates(texts, self.date), f"dates of the form {self.date}"
        elif self.marks is not None:
            values, wanted = as_numbers(texts, self.marks), "numbers"
        else:
            return texts
        wrong = (values.isna() & texts.notna()).to_numpy(dtype=bool)
        if wrong.any():
            at = int(wrong.argmax())
            raise InputError(
                f"feature {name!r}: expected {wanted}, found {texts.iloc[at]!r} in record {at + 1}"
            )
        return values

    def to_json(self) -> dict[str, Any]:
        return {"marks": self.marks, "date": self.date, "gaps": self.gaps}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Reading:
        """Return what ``to_json`` wrote; raises ValueError, TypeError or KeyError for others."""
        marks, date = plain["marks"], plain["date"]
        if marks is not None and tuple(marks) not in MARKS:
            raise ValueError(f"marks of numbers {marks!r}")
        if date is not None and not isinstance(date, str):
            raise ValueError(f"form of a date {date!r}")
        return cls(None if marks is None else tuple(marks), date, tuple(map(str, plain["gaps"])))


def is_text(column: pd.Series[Any]) -> bool:
    """Return whether a column holds texts (or objects that may be such)."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        kind = kind.categories.dtype
    return isinstance(kind, pd.StringDtype) or kind.kind == "O"


def spelled(column: pd.Series[Any], gaps: Sequence[str] = ()) -> pd.Series[Any]:
    """Return the texts of a column without blanks around them, None where one is missing."""
    values = column.astype(object)
    texts = values.where(values.isna(), values.astype(str).str.strip())
    return texts.where(~texts.isin(["", *gaps]) & values.notna(), None)


def as_dates(texts: pd.Series[Any], form: str) -> pd.Series[Any]:
    """Return texts as datetime64 (of UTC where they name a zone), NaT where one is no such date."""
    times = pd.to_datetime(texts, format=form, errors="coerce", utc=True)
    return times.dt.tz_localize(None)


def as_numbers(texts: pd.Series[Any], marks: tuple[str, str]) -> pd.Series[Any]:
    """Return texts as float64, NaN where one is no number with these marks."""
    thousands, decimals = marks
    known = texts.dropna().astype(str).str.replace("\u00a0", " ").str.replace("\u202f", " ")
    fits = known.str.fullmatch(_pattern(marks))
    plain = known.where(fits).str.replace(rf"[{_CURRENCY}]", "", regex=True)
    plain = plain.str.replace(thousands, "", regex=False).str.replace(" ", "", regex=False)
    plain = plain.str.replace(decimals, ".", regex=False)
    return pd.to_numeric(plain, errors="coerce").reindex(texts.index).astype(np.float64)


def marks_of(texts: Array, decimals: str | None = None) -> tuple[str, str] | None:
    """Return the first marks with which all texts (none missing) are numbers; None where none do.

    Parameters
    ----------
    texts : array of str
    decimals : str, optional
        The mark of decimals, where it is known.
    """
    for marks in MARKS:
        if decimals not in (None, marks[1]):
            continue
        pattern = re.compile(_pattern(marks))
        if all(pattern.fullmatch(_plain_blanks(text)) for text in texts):
            return marks
    return None


def date_form_of(texts: Array) -> str | None:
    """Return the first form of which all texts (none missing) are dates; None where none is."""
    if any(len(text) > _LONGEST_DATE or not _looks_like_a_date(text) for text in texts):
        return None
    column = pd.Series(texts, dtype=object)
    return next((form for form in DATE_FORMS if as_dates(column, form).notna().all()), None)


def _looks_like_a_date(text: str) -> bool:
    """A date has digits and two separators at least: 1999 or 3.5 is none."""
    return bool(re.match(r"\s*(\d{1,4}|[A-Za-z]{3,9})[-/. ]+\w+[-/., ]+\w+", text))


def _plain_blanks(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def _pattern(marks: tuple[str, str]) -> str:
    thousands, decimals = map(re.escape, marks)
    sign = rf"[+-]?\s*[{_CURRENCY}]?\s*[+-]?"
    whole = rf"(?:\d{{1,3}}(?:{thousands}\d{{3}})+|\d+)"
    number = rf"(?:{whole}(?:{decimals}\d*)?|{decimals}\d+)(?:[eE][+-]?\d+)?"
    return rf"\s*{sign}{number}\s*[{_CURRENCY}]?\s*"
