"""Algorithms, problems and other plug-ins by name: found through entry points, loaded on demand.

A package that registers a class under one of the groups below is usable by name in a
configuration as soon as it is installed::

    [project.entry-points."paretolab.algorithms"]
    climb = "mine.search:Climb"
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from typing import Any, Literal, TypeVar

from framework.errors import InputError, RecordsError
from framework.extras import missing

_NAMED = 100  # columns in a message

Group = Literal[
    "algorithms",
    "problems",
    "functions",
    "models",
    "classifiers",
    "indicators",
    "callbacks",
    "reports",
    "comparisons",
    "pages",
    "commands",
]

T = TypeVar("T")


@cache
def _installed() -> Any:  # another class in each Python; all have select()
    """Return the entry points of all packages; reading them is slow, so it is done once."""
    return entry_points()


@cache
def _entries(group: Group) -> dict[str, EntryPoint]:
    points = _installed().select(group=f"paretolab.{group}")
    return {entry.name: entry for entry in sorted(points, key=lambda entry: entry.name)}


def names(group: Group) -> list[str]:
    """Return the registered names of a group, sorted."""
    return list(_entries(group))


def name_at(group: Group, place: str) -> str | None:
    """Return the name under which ``module:class`` is registered; None if it is not."""
    return next((name for name, entry in _entries(group).items() if entry.value == place), None)


def load(group: Group, name: str) -> Any:
    """Import what is registered under a name.

    Raises
    ------
    InputError
        The name is unknown (the nearest one is suggested), or its object cannot be imported.
    """
    entries = _entries(group)
    listed = ", ".join(entries) or "nothing (is paretolab installed?)"
    require_known([name], entries, f"{group}: expected one of {listed};")
    entry = entries[name]
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and (sentence := missing(error)):
            raise InputError(f"{group}: {name!r}: {sentence}") from error
        package = entry.dist.name if entry.dist else "unknown"
        raise InputError(
            f"{group}: expected {name!r} at {entry.value}, where the package {package} registers "
            f"it, found that it cannot be imported ({type(error).__name__}: {error}); repair or "
            "remove that package"
        ) from error


def load_instance(group: Group, name: str, wanted: type[T]) -> T:
    """Import what is registered under a name; raises InputError as :func:`load`, or by its type."""
    registered = load(group, name)
    if not isinstance(registered, wanted):
        raise InputError(
            f"{group}: expected {name!r} to be registered for an object of {wanted.__name__}, "
            f"found {reprlib.repr(registered)}; repair or remove its package"
        )
    return registered


def require_columns(needed: Iterable[str], columns: Collection[str], where: object = None) -> None:
    """Check that a table has the columns that are needed.

    Parameters
    ----------
    needed : iterable of str
    columns : collection of str
        The columns of the table.
    where : path or str, optional
        The file of the table. None if the table has records for a model, where cells may be empty.

    Raises
    ------
    RecordsError
        Columns are missing: up to 100 are named, with the most similar columns for the first few.
        Or two columns have the name of one that is needed.
    """
    needed, present = dict.fromkeys(needed), Counter(columns)
    twice = next((name for name in needed if present[name] > 1), None)
    if twice is not None:
        raise RecordsError(
            f"{where or 'data'}: expected distinct column names, found {twice!r} more than once; "
            "rename one"
        )
    lacking = [name for name in needed if name not in present]
    if lacking:
        *most, last = map(repr, lacking[:_NAMED])
        if len(lacking) > _NAMED:  # a forged model may need a million
            most, last = [*most, last], f"{len(lacking) - _NAMED:,} more"
        text = f"columns {', '.join(most)} and {last}" if most else f"a column {last}"
        others = [name for name in columns if name not in needed]
        raise RecordsError(
            f"{where or 'data'}: expected {text}, found none of "
            f"{'those names' if most else 'that name'}{nearest(lacking, others)}"
            f"{'' if where else '; add what is missing, cells may be empty'}"
        )


def spelled_as(features: Iterable[Any], columns: Iterable[Any]) -> list[Any]:
    """Return names of columns, spelled as features from which they differ by blanks alone."""
    spelled = {name.strip(): name for name in features if isinstance(name, str)}
    return [spelled.get(c.strip(), c) if isinstance(c, str) else c for c in columns]


def require_labels(
    missing: Any, column: str, place: str, advice: str = "label or remove them"
) -> None:
    """Check that no record lacks a label; ``missing``, a mask, tells which ones do.

    Raises
    ------
    RecordsError
        Some records lack a label: the message has their number, the first one, and what to do.
    """
    if missing.any():
        raise RecordsError(
            f"{place}: expected a label in each record, found {missing.sum()} without one in "
            f"{column}, the first in record {int(missing.argmax()) + 1}; {advice}"
        )


def class_text(label: Any, classes: Iterable[Any]) -> str:
    """Return the text of the class that a label names: of the classes 1 and 2, 2.0 names 2."""
    by_text = {str(name): name for name in classes}
    if str(label) in by_text or isinstance(label, bool):
        return str(label)
    try:
        number = float(label)
    except (TypeError, ValueError):
        return str(label)
    for text, name in by_text.items():
        if isinstance(name, Real) and not isinstance(name, bool) and name == number:
            return text
    return str(label)


def require_known(names: Iterable[Any], words: Collection[Any], expected: str) -> None:
    """Refuse the first name that is none of the words, in a sentence that begins as given."""
    for name in names:
        if name not in words:
            raise InputError(f"{expected} found {name!r}{nearest(name, words)}")


def nearest(unknown: str | list[str], words: Any, alike: float = 0.6) -> str:
    """Return '; did you mean X?' with the words nearest to unknown ones (at most nine), or ''."""
    spelled = {text.casefold(): text for text in map(str, words)}
    asked = unknown[:9] if isinstance(unknown, list) else [unknown]
    folded = [str(word).casefold() for word in asked]
    close = [like for word in folded for like in get_close_matches(word, spelled, 1, alike)]
    texts = ", ".join(repr(spelled[like]) for like in dict.fromkeys(close))
    return f"; did you mean {texts}?" if texts else ""
