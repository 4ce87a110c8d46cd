"""Checks of the parts of a library; each raises InputError with one sentence for what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, frozen
from framework.errors import InputError
from framework.registry import nearest

ROW_TOLERANCE = 1e-4
"""How far the sum of a record's probabilities may be from one; rounding to float32 adds less."""

_LARGEST_COST = 1e100  # its square, and sums of such, are finite
_ROUNDED = 0.01  # by which each of the probabilities that a model answers may be rounded
_SLACK = 1e-6  # how far a rounded probability may lie outside of 0..1; it is clipped
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ID = re.compile(r"[^./\\\0][^/\\\0]*")


def checked_ids(ids: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the ids as a tuple of distinct names that can name folders."""
    if len(ids) == 0:
        raise InputError(f"{where}: expected a model or more, found none")
    seen: set[str] = set()
    for name in ids:
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise InputError(
                f"{where}: expected ids that can name a folder (texts without / and \\, not "
                f"starting with a dot), found {name!r}; rename it"
            )
        if name in seen:
            raise InputError(f"{where}: expected distinct ids, found {name!r} twice; rename one")
        seen.add(name)
    return tuple(ids)


def checked_classes(classes: Sequence[Any] | Array | None) -> tuple[Any, ...] | None:
    """Return labels, two or more, as Python values that JSON can hold; None for regression."""
    if classes is None:
        return None
    plain = tuple(plain_labels(classes))
    for label in plain:
        if not isinstance(label, str | int | float):  # bool is an int
            raise InputError(
                "classes: expected classes that are texts, numbers or truth values, found "
                f"{label!r}"
            )
    if len(plain) < 2 or len(set(plain)) < len(plain):
        raise InputError(f"classes: expected two distinct classes or more, found {list(plain)}")
    return plain


def plain_labels(labels: Iterable[Any]) -> list[Any]:
    """Return labels as plain Python values, not numpy's."""
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def class_codes(labels: Any, classes: tuple[Any, ...] | None, where: str) -> Array:
    """Return labels (n,) as positions in ``classes`` (int64), values of regression as float64."""
    values = np.asarray(labels)
    if values.ndim != 1 or len(values) == 0:
        raise InputError(f"{where}: expected one label a record, found shape {values.shape}")
    if classes is None:
        return _finite_values(values, where)
    places = {label: place for place, label in enumerate(classes)}
    try:
        return np.array([places[label] for label in values.tolist()], dtype=np.int64)
    except KeyError as error:
        wrong = error.args[0]
        names = ", ".join(map(repr, classes))
        raise InputError(
            f"{where}: expected one of the classes {names}, found {wrong!r}"
            f"{nearest(wrong, classes)}"
        ) from error


def _finite_values(targets: Array, where: str) -> FloatArray:
    try:
        values = np.array(targets, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: expected numbers, as no classes are given, found {targets.dtype} values; "
            "give classes"
        ) from error
    if not np.isfinite(values).all():
        raise InputError(f"{where}: expected finite values, found {_first_not_finite(values)}")
    return values


def check_every_class(codes: IntArray, classes: tuple[Any, ...]) -> None:
    """Refuse labels in which a class is absent."""
    absent = np.flatnonzero(np.bincount(codes, minlength=len(classes)) == 0)
    if len(absent):
        raise InputError(
            "y_validation: expected records of every class, found none of "
            f"{classes[absent[0]]!r}; add some, or leave that class out of classes and predictions"
        )


def checked_predictions(
    predictions: Any,
    ids: tuple[str, ...],
    records: int,
    classes: tuple[Any, ...] | None,
    *,
    normalise: bool,
    where: str,
) -> Array:
    """Return predictions as a read-only float32 array, (K, N) or (K, N, C).

    An array that is of this kind already, such as a memory map, is not copied.

    Parameters
    ----------
    predictions : array_like, shape (K, N) or (K, N, C)
        For two classes also (K, N, 2), of which the second column is kept.
    normalise : bool
        Whether the probabilities of each record are divided by their sum; otherwise they have to
        add up to one.

    Raises
    ------
    InputError
        A shape is wrong, a value is not finite or not a probability, or a record's probabilities
        do not add up to one.
    """
    try:
        array = np.asanyarray(predictions)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected an array of numbers, found another") from error
    _check_shape(array, len(ids), records, classes, where)
    keep = array.dtype == np.float32 and not array.flags.writeable and not normalise
    setting = classes, normalise, where
    if keep and all(_clean(row, n, *setting) is row for n, row in zip(ids, array, strict=True)):
        return frozen(array)
    last = () if classes is None or len(classes) == 2 else (len(classes),)
    result = np.empty((len(ids), records, *last), dtype=np.float32)
    for name, row, into in zip(ids, array, result, strict=True):
        into[:] = _clean(np.asarray(row), name, *setting)
    return frozen(result)


def _check_shape(
    array: Array, models: int, records: int, classes: tuple[Any, ...] | None, where: str
) -> None:
    shapes: list[tuple[int, ...]] = [(models, records)]
    if classes is not None and len(classes) == 2:
        shapes.append((models, records, 2))
    elif classes is not None:
        shapes = [(models, records, len(classes))]
    if array.shape not in shapes:
        meant = "models, records" + (", classes" if classes is not None else "")
        raise InputError(
            f"{where}: expected shape {' or '.join(map(str, shapes))} ({meant}), found "
            f"{array.shape}"
        )


def _clean(
    row: Array, name: str, classes: tuple[Any, ...] | None, normalise: bool, where: str
) -> Array:
    """Return the predictions of a model as a library has them, unchanged where they are so."""
    if not np.isfinite(row).all():
        raise InputError(
            f"{where}: expected finite predictions, found {_first_not_finite(row)} of model "
            f"{name!r}; leave that model out or predict again"
        )
    if classes is None:
        return row
    low, high = row.min(), row.max()
    if low < -_SLACK or high > 1 + _SLACK:
        raise InputError(
            f"{where}: expected probabilities from 0 to 1, found "
            f"{float(low if low < -_SLACK else high):g} of model {name!r}; give probabilities, "
            "not scores"
        )
    if row.ndim == 2:
        row = _add_to_one(row, name, normalise, where)
        row = row[:, 1] if len(classes) == 2 else row
    return row if row.min() >= 0 and row.max() <= 1 else np.clip(row, 0.0, 1.0)


def _add_to_one(row: Array, name: str, normalise: bool, where: str) -> Array:
    total = row.sum(axis=1, dtype=np.float64)
    if normalise and total.min() > 0:
        return np.asarray(row / total[:, np.newaxis])
    off = np.abs(total - 1.0)
    record = int(off.argmax())
    if off[record] > ROW_TOLERANCE:
        hint = "give each class a share" if normalise else "normalise divides them by it"
        raise InputError(
            f"{where}: expected probabilities that add up to 1 in each record, found "
            f"{total[record]:.6g} of model {name!r} in record {record + 1}; {hint}"
        )
    return row


def _first_not_finite(values: Array) -> str:
    place = int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(axis=1)))
    wrong = values[place][~np.isfinite(values[place])] if values.ndim > 1 else values[place]
    return f"{'NaN' if np.isnan(wrong).any() else 'infinity'} in record {place + 1}"


def shaped(values: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return the predictions of a model, which must have the shape (n,) or (n, C) given.

    Raises
    ------
    ValueError
        They have another shape, which numpy might broadcast over the records.
    """
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    if numbers.shape != shape:
        raise ValueError(f"predictions of shape {numbers.shape} where {shape} was expected")
    return numbers


def probabilities_of(said: Any, shape: tuple[int, int]) -> FloatArray:
    """Return what a model answered, of shape (n, C).

    Raises
    ------
    ValueError
        It has another shape, or is something other than probabilities.
    """
    answers = shaped(said, shape)
    proper = ((answers >= -_SLACK) & (answers <= 1 + _SLACK)).all(axis=1)
    proper &= np.abs(answers.sum(axis=1) - 1) <= _ROUNDED * answers.shape[1]
    if not proper.all():
        raise ValueError("expected probabilities from 0 to 1 that add up to 1, found others")
    return answers


def checked_cost(values: Any, ids: tuple[str, ...], name: str, where: str) -> FloatArray:
    """Return the values of a cost as a read-only float64 array (K,), finite and at least 0.

    Parameters
    ----------
    values : array_like, shape (K,), or mapping of id to number
        In the order of ``ids``; or a mapping or pandas Series, whose keys are ids in any order.
    """
    place = f"{where}: cost {name!r}"
    if not _NAME.fullmatch(name):
        raise InputError(f"{place}: expected a name of letters, digits and _, found another")
    try:
        array = np.array(by_model(values, ids, place), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: expected a number for each model, found others") from error
    if array.shape != (len(ids),):
        raise InputError(
            f"{place}: expected one value for each of the {len(ids)} models, found shape "
            f"{array.shape}"
        )
    for wrong, fault in ((~np.isfinite(array), "none"), (array < 0, "a negative one")):
        if wrong.any():
            first = int(wrong.argmax())
            raise InputError(
                f"{place}: expected a finite value of at least 0 for each model, found {fault} "
                f"({array[first]:g}) of {ids[first]!r}; measure it, or leave out that cost or "
                "that model"
            )
    if array.max() > _LARGEST_COST:
        raise InputError(
            f"{place}: expected at most {_LARGEST_COST:g} for each model, found {array.max():g} of "
            f"{ids[int(array.argmax())]!r}; give that cost in a larger unit"
        )
    return frozen(array)


def by_model(values: Any, ids: Sequence[str], place: str) -> Any:
    """Return the values of a mapping or pandas Series in the order of ``ids``; others unchanged.

    Raises
    ------
    InputError
        The keys are not the ids, each once.
    """
    if not (hasattr(values, "keys") and hasattr(values, "items")):  # neither mapping nor Series
        return values
    pairs = [(str(key), value) for key, value in values.items()]
    named = dict(pairs)
    other = [key for key in named if key not in ids]
    missing = [name for name in ids if name not in named]
    if other or missing or len(named) < len(pairs):
        fault = "a model twice"
        if other:
            fault = f"one of {other[0]!r}, which is no model{nearest(other[0], ids)}"
        elif missing:
            fault = f"none of {missing[0]!r}"
        raise InputError(
            f"{place}: expected a value of each model ({', '.join(ids[:4])}"
            f"{', ...' if len(ids) > 4 else ''}), found {fault}; name the values by the models' "
            "ids, or give a list in their order"
        )
    return [named[name] for name in ids]


def checked_configs(
    configs: Sequence[Mapping[str, Any]] | None, models: int
) -> tuple[dict[str, Any], ...] | None:
    """Return the models' configurations, as they are when read from JSON."""
    if configs is None:
        return None
    if len(configs) != models or not all(isinstance(config, Mapping) for config in configs):
        raise InputError(
            f"configs: expected configs with keys and values for each of the {models} models, "
            f"found {len(configs)} entries"
        )
    try:
        text = json.dumps([dict(config) for config in configs], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"configs: expected JSON values, found others: {error}") from error
    return tuple(json.loads(text))
