"""Reads libraries from files with arrays and tables of predictions, labels and costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import Array
from framework.data.files import read_frame
from framework.errors import InputError
from framework.libraries.folder import open_array
from framework.libraries.importing_config import ArraysConfig
from framework.libraries.library import Cost, Library
from framework.libraries.measure import UNITS

_ID = "id"  # column of a table of costs
_BETWEEN = ":"  # model and class in the name of a column


def from_files(config: ArraysConfig, name: str) -> Library:
    """Return the library of predictions, labels and costs that lie in files.

    Raises
    ------
    InputError
        See :meth:`Library.from_arrays`; files that are missing or do not fit each other.
    """
    costs, cost_ids = read_costs(config.costs, config.units)
    ids = list(config.ids or cost_ids or _columns(config.validation, config.classes))
    classes = config.classes
    return Library.from_arrays(
        ids,
        _predictions(config.validation, ids, classes),
        _labels(config.y_validation, classes),
        classes,
        {key: in_order(cost, cost_ids, ids) for key, cost in costs.items()},
        test=None if config.test is None else _predictions(config.test, ids, classes),
        y_test=None if config.y_test is None else _labels(config.y_test, classes),
        configs=None if config.configs is None else read_configs(config.configs, ids),
        name=name,
        normalise=config.normalise,
    )


def _columns(path: Path, classes: Sequence[Any] | None) -> list[str]:
    """Return the models that a table of predictions has columns of."""
    if path.suffix == ".npy":
        raise InputError(
            f"{path}: expected ids for its models, found none; give ids, or costs with a column "
            f"{_ID!r}"
        )
    names = [str(name) for name in read_frame(path).columns]
    if classes is not None and len(classes) > 2:
        names = [name.rpartition(_BETWEEN)[0] for name in names]
    return list(dict.fromkeys(names))


def _predictions(path: Path, ids: Sequence[str], classes: Sequence[Any] | None) -> Array:
    """Read (K, N) or (K, N, C); of a table, columns ``ID`` or ``ID:CLASS``."""
    if path.suffix == ".npy":
        return open_array(path)
    frame = read_frame(path)
    if classes is None or len(classes) == 2:
        return _picked(frame, list(ids), path).T
    wanted = [f"{name}{_BETWEEN}{label}" for name in ids for label in classes]
    found = _picked(frame, wanted, path)
    return found.reshape(len(frame), len(ids), len(classes)).transpose(1, 0, 2)


def _picked(frame: pd.DataFrame, columns: list[str], path: Path) -> Array:
    for column in columns:
        if column not in frame.columns:
            raise InputError(f"{path}: expected a column {column!r}, found none of that name")
    try:
        return frame[columns].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: expected numbers, found other values ({error})") from error


def _labels(path: Path, classes: Sequence[Any] | None) -> Array:
    """Read one label a record, spelled as the classes are."""
    if path.suffix == ".npy":
        found: Array = np.asarray(open_array(path))
    else:
        frame = read_frame(path)
        if frame.shape[1] != 1:
            raise InputError(f"{path}: expected one column of labels, found {frame.shape[1]}")
        found = frame.iloc[:, 0].to_numpy()
    return found if classes is None else spelled(found, classes)


def spelled(labels: Array, classes: Sequence[Any]) -> Array:
    """Return labels as the classes spell them: 1, 1.0 and '1' are one where no two are told."""
    by_text = {_text(label): label for label in classes}
    plain = [by_text.get(_text(label), label) for label in labels.tolist()]
    result = np.empty(len(plain), dtype=object)
    result[:] = plain
    return result


def _text(label: Any) -> str:
    number = isinstance(label, float) and label.is_integer()
    return str(int(label)) if number else str(label)


def read_costs(path: Path | None, units: Mapping[str, str]) -> tuple[dict[str, Cost], list[str]]:
    """Read a table with a column of ids and one a cost."""
    if path is None:
        return {}, []
    frame = read_frame(path)
    if _ID not in frame.columns:
        raise InputError(f"{path}: expected a column {_ID!r} with the models' ids, found none")
    names = [name for name in frame.columns if name != _ID]
    values = _picked(frame, names, path)
    known = {**UNITS, **units}
    costs = {name: Cost(values[:, i], known.get(name, "")) for i, name in enumerate(names)}
    return costs, [str(name) for name in frame[_ID]]


def in_order(cost: Cost, given: Sequence[str], ids: Sequence[str]) -> Cost:
    """Return a cost in the order of the ids; NaN, which no library takes, where there is none."""
    places = {name: i for i, name in enumerate(given)}
    values = [cost.values[places[name]] if name in places else np.nan for name in ids]
    return Cost(np.array(values), cost.unit)


def read_configs(path: Path, ids: Sequence[str]) -> list[Mapping[str, Any]]:
    """Read a JSON mapping of id to configuration."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return [known[name] for name in ids]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: expected JSON, a mapping of id to config: {error}") from error
    except KeyError as error:
        raise InputError(f"{path}: expected a config of model {error}, found none") from error
