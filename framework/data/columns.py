"""What each column of a table holds: numbers, dates, categories, or text that stands for them.

Most columns are plain: numbers, or texts that repeat. The others are doubtful: a search would
drown in 20,000 patient numbers taken as categories. For each of those there is a sentence with
what was found, what is done and the key that says otherwise.

How a column of text is read is decided once, on the table that a search is given. The reading
travels with the encoder, so that a model reads its records as the search read them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from framework.arrays import Array, BoolArray, FloatArray, category_text, is_number
from framework.errors import CellsError, first_few, in_record
from framework.settings import Section

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

MOST_CATEGORIES = 100
"""Categories of a column that are told apart unless the user says how many."""

_CURRENCY = "$€£¥%"
_LONGEST_DATE = 40
# a date has digits and two separators at least: 1999 or 3.5 is none
_DATE = re.compile(r"\s*(\d{1,4}|[A-Za-z]{3,9})[-/. ]+\w+[-/., ]+\w+")
_LEAST = 50  # records from which columns are judged by how often their values repeat
_UNIQUE = 0.9  # a share of distinct texts above which they name the records
_WORDS = 4  # mean number of words from which texts are sentences
_NAMES = re.compile(
    r"(^|[^a-z])(id|key|nr|no|num|number|uuid|guid|index|record|row|case|patient|customer)s?($|[^a-z])"
    r"|[a-z](Id|ID|Nr|No)$|^unnamed: 0$",
    re.IGNORECASE,
)
_SHOWN = 6  # columns of one kind that have a sentence each


def is_numeric(column: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers or truth values (gaps allowed), and no categories."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return False
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_complex_dtype(column.dtype)
    if column.dtype != object:
        return False
    values = column.dropna()
    return all(isinstance(value, bool | np.bool_ | int | float | np.number) for value in values)


def is_date(column: pd.Series[Any]) -> bool:
    """Return whether a column holds dates, with a zone or without."""
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype))


def is_text(column: pd.Series[Any]) -> bool:
    """Return whether a column holds texts (or objects that may be such)."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        kind = kind.categories.dtype
    return isinstance(kind, pd.StringDtype) or kind.kind == "O"


def to_numbers(column: pd.Series[Any]) -> FloatArray:
    """Return a column as float64 (n,), missing values as NaN, numbers too large for it as infinite.

    Raises
    ------
    ValueError, TypeError
        A value is neither a number nor missing.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except OverflowError:  # whole numbers of hundreds of digits, which Python has
        return to_numbers(column.map(_within_floats, na_action="ignore"))


def _within_floats(value: Any) -> Any:
    try:
        float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    return value


def to_times(column: pd.Series[Any]) -> Array:
    """Return a column of dates as datetime64[us] (n,), of UTC where they have a zone."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return column.to_numpy("datetime64[us]")


def to_texts(column: pd.Series[Any]) -> tuple[Array, BoolArray]:
    """Return the spellings (n,) of a column's categories as an object array, and what is missing.

    The spelling of a missing value is the empty text.
    """
    missing = column.isna().to_numpy(dtype=bool)
    texts = np.full(len(column), "", dtype=object)
    texts[~missing] = [category_text(value) for value in column.astype(object)[~missing]]
    return texts, missing


@dataclass(frozen=True)
class Reading:
    """How the texts of a column are read: as numbers with marks, as dates, or as categories.

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
        """Return a column of texts as float64, datetime64 or texts; another column unchanged.

        Raises
        ------
        CellsError
            A text is neither a gap nor of the form that the column has.
        """
        if not is_text(column):
            return column
        texts = stripped(column, self.gaps)
        if self.date is not None:
            values, wanted = as_dates(texts, self.date), f"dates of the form {self.date}"
        elif self.marks is not None:
            values, wanted = as_numbers(texts, self.marks), "numbers"
            if self.marks[1] == ",":
                wanted += " with a decimal comma"
        else:
            return texts
        wrong = (values.isna() & texts.notna()).to_numpy(dtype=bool)
        if wrong.any():
            raise unusable(texts[wrong], name, wanted)
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


def unusable(values: pd.Series[Any], name: str, wanted: str) -> CellsError:
    """Return the error for values of a feature that cannot be used, with a message per record."""
    start = f"feature {name!r}: expected {wanted}, found "
    return CellsError({i: f"{start}{value!r}{in_record(i)}" for i, value in values.items()})


def stripped(column: pd.Series[Any], gaps: Sequence[str] = ()) -> pd.Series[Any]:
    """Return the texts of a column without blanks around them, None where one is missing."""
    values = column.astype(object)
    texts = values.where(values.isna(), values.astype(str).str.strip())
    return texts.where(~texts.isin(["", *gaps]) & values.notna(), None)


def without_blanks(column: pd.Series[Any], gaps: Collection[str] = ()) -> pd.Series[Any]:
    """Return a column of texts without blanks around them, missing where one is then a gap."""
    if isinstance(column.dtype, pd.StringDtype):
        bare = column.str.strip()
    else:
        values = [v.strip() if isinstance(v, str) else v for v in column.astype(object)]
        bare = pd.Series(values, column.index, dtype=object, name=column.name)
    bare = bare.mask(bare.isin([*gaps]))
    return bare.astype("category") if isinstance(column.dtype, pd.CategoricalDtype) else bare


def as_dates(texts: pd.Series[Any], form: str) -> pd.Series[Any]:
    """Return texts as datetime64 (of UTC where they name a zone), NaT where one is no such date."""
    texts = texts.where(~texts.isin(["now", "today"]), None)  # pandas would ask the clock
    return pd.to_datetime(texts, format=form, errors="coerce", utc=True).dt.tz_localize(None)


def as_numbers(texts: pd.Series[Any], marks: tuple[str, str]) -> pd.Series[Any]:
    """Return texts as float64, NaN where one is no number with these marks."""
    thousands, decimals = marks
    filled = texts.dropna().astype(str).map(_plain_blanks)
    fits = filled.str.fullmatch(_pattern(marks))
    plain = filled.where(fits).str.replace(rf"[{_CURRENCY}]", "", regex=True)
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
    if not all(map(_may_be_date, texts)):
        return None
    column = pd.Series(texts, dtype=object)
    return next((form for form in DATE_FORMS if as_dates(column, form).notna().all()), None)


def meant_values(texts: Array, options: TableOptions) -> tuple[str, BoolArray]:
    """Return ``"numbers"`` or ``"dates"``, what most texts (n,) spell in one form, and which do."""
    codes, distinct = pd.factorize(texts)
    column = pd.Series(distinct, dtype=object)
    readings = [("numbers", pd.to_numeric(column, errors="coerce"))]
    if options.infer:
        marks = [pair for pair in MARKS if options.decimal in (None, pair[1])]
        dates = column.where(column.map(_may_be_date).astype(bool), None)
        forms = [] if dates.isna().all() else DATE_FORMS
        readings += [("numbers", as_numbers(column, pair)) for pair in marks]
        readings += [("dates", as_dates(dates, form)) for form in forms]
    masks = [(noun, values.notna().to_numpy(dtype=bool)[codes]) for noun, values in readings]
    return max(masks, key=lambda mask: int(mask[1].sum()))


def _may_be_date(text: str) -> bool:
    return len(text) <= _LONGEST_DATE and _DATE.match(text) is not None


def _plain_blanks(text: str) -> str:
    """Make spaces of the no-break spaces that some locales write between thousands."""
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def _pattern(marks: tuple[str, str]) -> str:
    thousands, decimals = map(re.escape, marks)
    sign = rf"[+-]?\s*[{_CURRENCY}]?\s*[+-]?"
    whole = rf"(?:[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+)"
    number = rf"(?:{whole}(?:{decimals}\d*)?|{decimals}\d+)(?:[eE][+-]?\d+)?"
    return rf"\s*{sign}{number}\s*[{_CURRENCY}]?\s*"


Label = str | int | float | bool


class Advice(NamedTuple):
    """What messages tell the user to do about a table.

    ``{name}`` stands for a column, ``{texts}`` for texts in it, ``{noun}`` for what the
    others are, ``{least}`` for a number of records, ``{target}`` for the column of the labels.
    """

    labels: str = "{target!r}"
    leave_out: str = "leave it out with drop: [{name}]"
    keep: str = "keep: [{name}] takes it"
    identifier: str = "identifier: {name} shows it in predictions, keep: [{name}] takes it"
    dates: str = "another form by dates: {{{name}: FORM}}"
    as_values: str = "missing: {texts} reads it as {noun}"
    most: str = "set max_categories"
    gaps: str = (
        "where they stand for a missing value, set missing: {texts}; where the column holds "
        "categories, list it under categorical: [{name}]"
    )
    stray: str = "correct them, or list the column under categorical: [{name}]"
    merge: str = "merge them with merge_rare: {least}, or remove them"
    as_texts: str = "list it under categorical to take the texts, or set decimal"
    unlabelled: str = "label them, or leave them out with drop_unlabelled: true"


IN_PYTHON = Advice(
    labels="y",
    leave_out="leave it out of the frame",
    keep="keep=['{name}'] takes it",
    identifier="keep=['{name}'] takes it",
    dates="convert the column where that is wrong",
    as_values="missing={texts} reads it as {noun}",
    most="merge them where that loses too much",
    gaps=(
        "where they stand for a missing value, set missing={texts}; where the column holds "
        "categories, set categorical=['{name}']"
    ),
    merge="merge them with merge_rare={least}, or remove them",
    as_texts="set categorical=['{name}'] to take the texts",
    unlabelled="label or remove them",
)
"""Of records that are given as a frame: keys are parameters."""


class TableOptions(Section):
    """What the user says of a table's columns.

    target : column of the labels.
    categorical : columns that mean categories, though they look like numbers or dates.
    drop : columns to leave out.
    columns : the only columns to take as features, if any are named.
    keep : columns to take although they look like identifiers, free text or constants.
    identifier : the column that names the records: no feature, shown in predictions.
    separator : of the fields of a CSV file; recognised if None.
    decimal : the mark of decimals in numbers written as text; recognised if None.
    missing : texts that stand for a missing value.
    dates : the form of dates by column, such as ``%d.%m.%Y``; recognised if not given.
    max_categories : most categories of a column that are told apart; the rarer ones are one.
    merge_rare : classes with fewer records become one class, ``other``.
    drop_unlabelled : whether records without a label, or without a value to predict, are left out.
    positive : label of the positive class; the last one of two classes if it is not given.
    """

    target: str = "target"
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    identifier: str | None = None
    separator: Literal[",", ";", "\t", "|"] | None = None
    decimal: Literal[".", ","] | None = None
    missing: tuple[str, ...] = ()
    dates: dict[str, str] = Field(default_factory=dict)
    max_categories: int = Field(default=MOST_CATEGORIES, ge=1)
    merge_rare: int | None = Field(default=None, ge=2)
    drop_unlabelled: bool = False
    positive: Label | None = None

    @property
    def infer(self) -> bool:
        """Whether what columns hold is inferred; prepared tables are taken as they are."""
        return False

    @property
    def advice(self) -> Advice:
        """What messages tell the user to do."""
        return Advice()

    def named(self) -> dict[str, Sequence[str]]:
        """Return the columns that keys name, by key."""
        return {
            "target": (self.target,),
            "categorical": self.categorical,
            "drop": self.drop,
            "columns": self.columns,
            "keep": self.keep,
            "identifier": () if self.identifier is None else (self.identifier,),
            "dates": tuple(self.dates),
        }


class FrameOptions(TableOptions):
    """Options for records that come from Python code; what a frame's columns hold is inferred.

    is_frame : whether the records are a frame; all columns of an array are taken, as numbers.
    """

    is_frame: bool = True

    @property
    def infer(self) -> bool:
        return self.is_frame

    @property
    def advice(self) -> Advice:
        return IN_PYTHON


class ColumnInference(NamedTuple):
    """What a column holds.

    kind : what it is called in the sentence; empty for a plain column.
    action : what is done with it, and the key that says otherwise.
    left_out : whether it is no feature.
    reading : how its texts are read, if they mean something else.
    """

    kind: str = ""
    action: str = ""
    left_out: bool = False
    reading: Reading | None = None

    @property
    def decimal(self) -> str | None:
        """The mark of decimals, if the column holds numbers written as text."""
        return None if self.reading is None or self.reading.marks is None else self.reading.marks[1]


def infer_columns(
    frame: pd.DataFrame, names: Iterable[str], options: TableOptions
) -> dict[str, ColumnInference]:
    """Return what columns that shall be features hold.

    Numbers written as text that could have either mark of decimals have the one that others have.
    """
    inferred, sure, others = {}, set(), {}
    for name in names:
        inferred[name] = infer_column(frame[name], name, options)
        if options.decimal is None and (mark := inferred[name].decimal):
            opposite = options.model_copy(update={"decimal": "," if mark == "." else "."})
            other = infer_column(frame[name], name, opposite)
            if other.decimal is None:
                sure.add(mark)
            else:
                others[name] = other
    if len(sure) == 1:  # columns that disagree settle nothing
        inferred |= {name: other for name, other in others.items() if other.decimal in sure}
    return inferred


def infer_column(column: pd.Series[Any], name: str, options: TableOptions) -> ColumnInference:
    """Return what a column that shall be a feature holds."""
    values = column.dropna()
    if name not in options.keep:
        if values.empty:
            return ColumnInference("empty", "left out", left_out=True)
        if name not in options.categorical:
            unusable = _record_numbers(column, name, options) or _constant(column, name, options)
            if unusable is not None:
                return unusable
    if is_date(column):
        return ColumnInference()
    if name in options.categorical or isinstance(column.dtype, pd.CategoricalDtype):
        return _categories(np.asarray(values.unique()), options, ())
    return _infer_text(column, name, options) if is_text(column) else ColumnInference()


def _infer_text(column: pd.Series[Any], name: str, options: TableOptions) -> ColumnInference:
    """Return what texts stand for: numbers or dates, else sentences or names, else categories."""
    values = column.dropna()
    if not all(isinstance(value, str) for value in values.head(1000)):
        return ColumnInference()
    texts = np.asarray(stripped(values, options.missing).dropna().unique())
    gaps = tuple(options.missing)
    if name in options.dates:
        return ColumnInference(reading=Reading(date=options.dates[name], gaps=gaps))
    bare = np.array([text for text in texts if text not in GAPS], dtype=object)
    text_gaps = [text for text in texts if text in GAPS]
    marked = (*gaps, *text_gaps)
    as_missing = f", {' and '.join(map(repr, text_gaps))} as missing" if text_gaps else ""
    if len(bare) and (marks := marks_of(bare, options.decimal)):
        unusual = next((text for text in bare if not is_number(text)), bare[0])
        number = as_numbers(pd.Series([unusual], dtype=object), marks).iloc[0]
        return ColumnInference(
            f"numbers written as text, {unusual!r} read as {number:.15g}{as_missing}",
            options.advice.as_texts.format(name=name),
            reading=Reading(marks=marks, gaps=marked),
        )
    if len(bare) and (form := date_form_of(bare)):
        return ColumnInference(
            f"dates such as {bare[0]!r}, read as {form}{as_missing}",
            f"its parts are the feature; {options.advice.dates.format(name=name)}",
            reading=Reading(date=form, gaps=marked),
        )
    if name in options.keep or len(values) < _LEAST:
        return _categories(texts, options, gaps)
    inference = _sentences_or_names(values, texts, name, options)
    if inference is None:
        return _categories(texts, options, gaps)
    noun, fits = meant_values(texts, options)
    stray = texts[~fits].tolist()
    if len(stray) <= _SHOWN and len(stray) < len(texts) / 2:
        also = options.advice.as_values.format(texts=stray, noun=noun)
        inference = inference._replace(action=f"{inference.action}, {also}")
    return inference


def _categories(texts: Array, options: TableOptions, gaps: tuple[str, ...]) -> ColumnInference:
    reading = Reading(gaps=gaps) if gaps else None
    if len(texts) <= options.max_categories:
        return ColumnInference(reading=reading)
    action = (
        f"the {options.max_categories} most frequent ones are kept, the others are one; "
        f"{options.advice.most}"
    )
    return ColumnInference(f"{len(texts):,} different categories", action, reading=reading)


def _sentences_or_names(
    values: pd.Series[Any], texts: Array, name: str, options: TableOptions
) -> ColumnInference | None:
    words = float(np.mean([text.count(" ") + 1 for text in texts[:1000]]))
    if words >= _WORDS and len(texts) > 0.5 * len(values):
        kind = f"free text, such as {_short(texts[0])!r}"
        return _left_out(kind, options.advice.keep, name)
    if len(texts) > _UNIQUE * len(values):
        kind = f"{len(texts):,} different texts, such as {_short(texts[0])!r}"
        return _left_out(kind, options.advice.identifier, name)
    return None


def _record_numbers(
    column: pd.Series[Any], name: str, options: TableOptions
) -> ColumnInference | None:
    """Recognise whole numbers that count the records, or name them by the column's name."""
    if len(column) < _LEAST or not is_numeric(column) or column.isna().any():
        return None
    if pd.api.types.is_bool_dtype(column.dtype):
        return None
    numbers = to_numbers(column)
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return None
    if len(np.unique(numbers)) < len(numbers):
        return None
    consecutive = numbers.max() - numbers.min() + 1 == len(numbers)
    if not (consecutive and (np.diff(numbers) > 0).all()) and not _NAMES.search(name):
        return None
    return _left_out(f"{len(numbers):,} different whole numbers", options.advice.identifier, name)


def _constant(column: pd.Series[Any], name: str, options: TableOptions) -> ColumnInference | None:
    values = column.dropna()
    try:
        constant = values.nunique() == 1
    except TypeError:  # values that cannot be compared are refused later
        return None
    # gaps of numbers become the median, which is the constant; other gaps are told apart from it
    gaps_tell = not is_numeric(column) and len(values) < len(column)
    if not constant or gaps_tell:
        return None
    return _left_out(f"always {_short(str(values.iloc[0]))!r}", options.advice.keep, name)


def _left_out(kind: str, advice: str, name: str) -> ColumnInference:
    return ColumnInference(kind, f"left out; {advice.format(name=name)}", left_out=True)


def describe_columns(inferred: Mapping[str, ColumnInference]) -> tuple[str, ...]:
    """Return one sentence for each doubtful column; more than six of one kind share one."""
    by_kind: dict[str, list[str]] = {}
    for name, inference in inferred.items():
        if inference.kind:
            kind = inference.action.split(";")[0] + inference.kind.split(",")[0].split(" such")[0]
            by_kind.setdefault(kind, []).append(name)
    notes = []
    for names in by_kind.values():
        if len(names) <= _SHOWN:
            notes += [f"column {n!r}: {inferred[n].kind}; {inferred[n].action}" for n in names]
        else:
            first = inferred[names[0]]
            shown = first_few([*map(repr, names)], 3)
            notes.append(f"columns {shown}: the first is {first.kind}; {first.action}")
    return tuple(notes)


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}..."
