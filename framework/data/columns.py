"""What each column of a table holds, and what is done with it unless the user says otherwise.

Most columns are plain: numbers, or texts that repeat. The others are doubtful: a search would
drown in 20,000 patient numbers taken as categories. For each of those there is a sentence with
what was found, what is done and the key that says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import Array
from framework.data.categories import is_date, is_numeric, to_numbers
from framework.data.readings import (
    GAPS,
    Reading,
    as_numbers,
    date_form_of,
    is_text,
    marks_of,
    spelled,
)

_LEAST = 50  # records from which columns are judged by how often their values repeat
_UNIQUE = 0.9  # a share of distinct texts above which they name the records
_WORDS = 4  # mean number of words from which texts are sentences
_NAMES = re.compile(
    r"(^|[^a-z])(id|key|nr|no|num|number|uuid|guid|index|record|row|case|patient|customer)s?($|[^a-z])"
    r"|[a-z](Id|ID|Nr|No)$|^unnamed: 0$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says of columns; the keys of ``dataset`` of the same names.

    categorical : numbers that mean categories, and texts that are not read as numbers or dates.
    drop : left out.
    columns : the only ones to take, if any are named.
    keep : taken, whatever they look like.
    identifier : names the records; left out, and kept in predictions.
    decimal : mark of decimals in numbers that are written as text.
    missing : texts that stand for a missing value.
    dates : forms of dates, by column.
    max_categories : a column with more of them keeps the most frequent ones.
    infer : whether columns are looked at at all.
    """

    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()
    columns: Sequence[str] = ()
    keep: Sequence[str] = ()
    identifier: str | None = None
    decimal: str | None = None
    missing: Sequence[str] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    max_categories: int = 100
    infer: bool = True

    def named(self) -> dict[str, Sequence[str]]:
        """Return the columns that keys name, by key."""
        return {
            "categorical": self.categorical,
            "drop": self.drop,
            "columns": self.columns,
            "keep": self.keep,
            "identifier": () if self.identifier is None else (self.identifier,),
            "dates": tuple(self.dates),
        }


class Found(NamedTuple):
    """What was found of a column.

    kind : what it is called in the sentence; empty for a plain column.
    done : what is done with it, and the key that says otherwise.
    left_out : whether it is no feature.
    reading : how its texts are read, if they mean something else.
    """

    kind: str = ""
    done: str = ""
    left_out: bool = False
    reading: Reading | None = None


def look_at(column: pd.Series[Any], name: str, options: ColumnOptions) -> Found:
    """Return what a column that shall be a feature holds."""
    known = column.dropna()
    if name not in options.keep:
        if known.empty:
            return _left_out("empty", name, key=None)
        if name not in options.categorical:
            unusable = _names_records(column, name) or _constant(column, name)
            if unusable is not None:
                return unusable
    if is_date(column):
        return Found()
    if name in options.categorical or isinstance(column.dtype, pd.CategoricalDtype):
        return _grouped(np.asarray(known.unique()), options, ())
    return _look_at_texts(column, name, options) if is_text(column) else Found()


def _look_at_texts(column: pd.Series[Any], name: str, options: ColumnOptions) -> Found:
    values = column.dropna()
    if not all(isinstance(value, str) for value in values.head(1000)):
        return Found()
    texts = np.asarray(spelled(values, options.missing).dropna().unique())
    gaps = tuple(options.missing)
    told = options.dates.get(name)
    if told is not None:
        return Found(reading=Reading(date=told, gaps=gaps))
    bare = np.array([text for text in texts if text not in GAPS], dtype=object)
    marked = (*gaps, *(text for text in texts if text in GAPS))
    if len(bare) and (marks := marks_of(bare, options.decimal)):
        return _number_text(bare, marks, marked, gaps)
    if len(bare) and (form := date_form_of(bare)):
        said = f"dates such as {bare[0]!r}, read as {form}" + _gaps_said(marked, gaps)
        other = f"its parts are the feature; another form by dates: {{{name}: FORM}}"
        return Found(said, other, reading=Reading(date=form, gaps=marked))
    if name in options.keep or len(values) < _LEAST:
        return _grouped(texts, options, gaps)
    return _wordy(values, texts, name) or _grouped(texts, options, gaps)


def _number_text(
    bare: Array, marks: tuple[str, str], marked: tuple[str, ...], told: tuple[str, ...]
) -> Found:
    odd = next((text for text in bare if not _plain_number(text)), bare[0])
    number = as_numbers(pd.Series([odd], dtype=object), marks).iloc[0]
    said = f"numbers written as text, {odd!r} read as {number:.15g}" + _gaps_said(marked, told)
    other = "list it under categorical to take the texts, or set decimal"
    return Found(said, other, reading=Reading(marks=marks, gaps=marked))


def _gaps_said(marked: Sequence[str], told: Sequence[str]) -> str:
    found = [gap for gap in marked if gap not in told]
    return f", {' and '.join(map(repr, found))} as missing" if found else ""


def _grouped(texts: Array, options: ColumnOptions, gaps: tuple[str, ...]) -> Found:
    reading = Reading(gaps=gaps) if gaps else None
    if len(texts) <= options.max_categories:
        return Found(reading=reading)
    done = (
        f"the {options.max_categories} most frequent ones are kept, the others are one; "
        "set max_categories"
    )
    return Found(f"{len(texts):,} different categories", done, reading=reading)


def _wordy(values: pd.Series[Any], texts: Array, name: str) -> Found | None:
    """Return what is said of sentences and of texts that name the records; None of others."""
    words = float(np.mean([text.count(" ") + 1 for text in texts[:1000]]))
    if words >= _WORDS and len(texts) > 0.5 * len(values):
        return _left_out(f"free text, such as {_short(texts[0])!r}", name)
    if len(texts) > _UNIQUE * len(values):
        return _identifier(f"{len(texts):,} different texts, such as {_short(texts[0])!r}", name)
    return None


def _names_records(column: pd.Series[Any], name: str) -> Found | None:
    """Return what is said of whole numbers that count or name the records; None of others."""
    if len(column) < _LEAST or not is_numeric(column) or column.isna().any():
        return None
    if pd.api.types.is_bool_dtype(column.dtype):
        return None
    numbers = to_numbers(column)
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return None
    if len(np.unique(numbers)) < len(numbers):
        return None
    run = numbers.max() - numbers.min() + 1 == len(numbers)
    if not (run and (np.diff(numbers) > 0).all()) and not _NAMES.search(name):
        return None
    return _identifier(f"{len(numbers):,} different whole numbers", name)


def _constant(column: pd.Series[Any], name: str) -> Found | None:
    known = column.dropna()
    try:
        one = known.nunique() == 1
    except TypeError:  # values that cannot be compared are refused later
        return None
    gaps_tell = not is_numeric(column) and len(known) < len(column)
    if not one or gaps_tell:
        return None
    return _left_out(f"always {_short(str(known.iloc[0]))!r}", name)


def _identifier(kind: str, name: str) -> Found:
    done = f"left out; identifier: {name} shows it in predictions, keep: [{name}] takes it"
    return Found(kind, done, left_out=True)


def _left_out(kind: str, name: str, key: str | None = "keep") -> Found:
    otherwise = f"; keep: [{name}] takes it" if key else ""
    return Found(kind, f"left out{otherwise}", left_out=True)


def notes_of(found: Mapping[str, Found], most: int = 6) -> tuple[str, ...]:
    """Return a sentence for each doubtful column; more than ``most`` of one kind share one."""
    by_done: dict[str, list[str]] = {}
    for name, what in found.items():
        if what.kind:
            kind = what.done.split(";")[0] + what.kind.split(",")[0].split(" such")[0]
            by_done.setdefault(kind, []).append(name)
    notes = []
    for names in by_done.values():
        if len(names) <= most:
            notes += [f"column {n!r}: {found[n].kind}; {found[n].done}" for n in names]
        else:
            first = found[names[0]]
            listed = ", ".join(map(repr, names[:3]))
            notes.append(
                f"columns {listed} and {len(names) - 3} more: the first is {first.kind}; "
                f"{first.done}"
            )
    return tuple(notes)


def _plain_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}..."
