"""Libraries from predictions on disk: files of arrays or tables, and TabRepo's layout.

TabRepo is read with numpy and pandas alone. A context's folder holds ``configs.parquet`` (one row
for each data set, fold and model, with ``time_infer_s``: seconds for all test records) and, under
``model_predictions/DATASET/FOLD/``, ``metadata.json`` (models, shapes, type), the raw arrays
``pred-val.dat`` and ``pred-test.dat`` and the labels ``label-val.csv.zip`` and
``label-test.csv.zip``.

Source: D. Salinas and N. Erickson, TabRepo: A Large Scale Repository of Tabular Model Evaluations
and its AutoML Applications, AutoML 2024.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray, category_text
from framework.data.table_files import FileOptions, read_frame
from framework.errors import InputError
from framework.libraries.config import ArraysConfig, TabRepoConfig
from framework.libraries.library import Cost, Library, open_array
from framework.libraries.measure import UNITS
from framework.registry import require_columns
from framework.security import (
    JSON_BYTES,
    TABLE_BYTES,
    check_inside,
    check_members,
    member,
    open_regular,
    parse_json,
    read_bytes,
    read_json,
)

_ID = "id"  # column of a table of costs
_BETWEEN = ":"  # stands between model and class in the name of a column
_BAG = "_BAG_L1"  # the end of a model's name in TabRepo, which its config lacks
_DTYPES = ("float32", "float16", "float64")
_METRICS = ("dataset", "fold", "framework", "time_infer_s")


def from_files(config: ArraysConfig, name: str) -> Library:
    """Return the library of predictions, labels and costs that lie in files.

    Raises
    ------
    InputError
        A file is missing, or the files do not fit each other; see :meth:`Library.from_arrays`.
    """
    classes = config.classes
    ids, costs = read_costs(config.costs, config.units, config.ids)
    ids = ids or _columns(config.validation, classes)
    return Library.from_arrays(
        ids,
        _predictions(config.validation, ids, classes),
        _labels(config.y_validation, classes),
        classes,
        costs,
        test=None if config.test is None else _predictions(config.test, ids, classes),
        y_test=None if config.y_test is None else _labels(config.y_test, classes),
        configs=_configs(config.configs, ids),
        name=name,
        normalise=config.normalise,
    )


def _columns(path: Path, classes: Sequence[Any] | None) -> list[str]:
    """Return the models whose predictions are the columns of a table."""
    if path.suffix == ".npy":
        raise InputError(
            f"{path}: expected ids for its models, found none; give ids, or costs with a column "
            f"{_ID!r}"
        )
    names = [str(name) for name in read_frame(path).columns]
    if classes is not None and len(classes) > 2:
        ends = sorted((f"{_BETWEEN}{label}" for label in classes), key=len, reverse=True)
        ending = {name: next(filter(name.endswith, ends), "") for name in names}
        names = [name.removesuffix(ending[name]) for name in names]
    return list(dict.fromkeys(names))


def _predictions(path: Path, ids: Sequence[str], classes: Sequence[Any] | None) -> Array:
    """Read predictions, (K, N) or (K, N, C); a table has columns ``ID`` or ``ID:CLASS``."""
    if path.suffix == ".npy":
        return open_array(path)
    frame = read_frame(path)
    if classes is None or len(classes) == 2:
        return _numbers_of(frame, list(ids), path).T
    wanted = [f"{name}{_BETWEEN}{label}" for name in ids for label in classes]
    numbers = _numbers_of(frame, wanted, path)
    return numbers.reshape(len(frame), len(ids), len(classes)).transpose(1, 0, 2)


def _numbers_of(frame: pd.DataFrame, columns: list[str], path: Path) -> Array:
    require_columns(columns, frame.columns, path)
    try:
        return frame[columns].astype(np.float64).to_numpy()  # a date is no number
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: expected numbers, found other values ({error})") from error


def _labels(path: Path, classes: Sequence[Any] | None) -> Array:
    """Read one label for each record, spelled as the classes are."""
    if path.suffix == ".npy":
        return spelled_as_classes(np.asarray(open_array(path)), classes)
    frame = read_frame(path)
    if frame.shape[1] != 1:
        raise InputError(f"{path}: expected one column of labels, found {frame.shape[1]}")
    return labels_of(frame.iloc[:, 0], path, classes)


def labels_of(column: pd.Series[Any], path: Path, classes: Sequence[Any] | None) -> Array:
    """Return the labels in a column of a file, spelled as the classes are."""
    labels: Array = column.to_numpy()
    if classes is None:
        return labels
    # 01 and NA are classes where they are written so
    written = read_frame(path, FileOptions(texts=lambda name: name == column.name))[column.name]
    named = written.isin([str(label) for label in classes]).to_numpy()
    return spelled_as_classes(
        np.where(named, written.to_numpy(object), labels.astype(object)), classes
    )


def spelled_as_classes(labels: Array, classes: Sequence[Any] | None) -> Array:
    """Return labels as the classes spell them: 1, 1.0 and '1' are the same label.

    Returned unchanged are values of a regression, where there are no classes, and what is no vector
    of labels, which is refused with its shape later.
    """
    if classes is None or labels.ndim != 1:
        return labels
    by_text = {category_text(label): label for label in classes}
    plain = [by_text.get(category_text(label), label) for label in labels.tolist()]
    result = np.empty(len(plain), dtype=object)
    result[:] = plain
    return result


def read_costs(
    path: Path | None, units: Mapping[str, str], ids: Sequence[str] | None = None
) -> tuple[list[str], dict[str, Cost]]:
    """Read a table with a column of ids and one column for each cost.

    Returns
    -------
    ids : list of str
        The argument, else those of the table.
    costs : dict of str to Cost
        In the order of the ids. NaN where the table lacks a model: the library will refuse it.
    """
    if path is None:
        return list(ids or ()), {}
    frame = read_frame(path, FileOptions(texts=lambda name: name == _ID))
    require_columns([_ID], frame.columns, path)
    names = [name for name in frame.columns if name != _ID]
    values = _numbers_of(frame, names, path)
    places = {name: i for i, name in enumerate(_each_once(frame[_ID], path))}
    ids = list(ids or places)
    by_name = {**UNITS, **units}
    return ids, {
        name: Cost(
            np.array([values[places[key], i] if key in places else np.nan for key in ids]),
            by_name.get(name, ""),
        )
        for i, name in enumerate(names)
    }


def _each_once(ids: pd.Series[Any], path: Path) -> list[str]:
    """Return the ids of models in a table, of which none may come twice."""
    listed = ids.astype(str)
    for name in listed[listed.duplicated()]:
        raise InputError(f"{path}: expected each id once, found {name!r} again; remove one")
    return listed.tolist()


def _configs(
    path: Path | None, ids: Sequence[str], ending: str = ""
) -> list[Mapping[str, Any]] | None:
    """Read a JSON mapping of id, with or without its ending, to configuration."""
    if path is None:
        return None
    try:
        by_model = read_json(path, "a mapping of id to config")
        configs = [by_model.get(name, by_model.get(name.removesuffix(ending))) for name in ids]
    except AttributeError as error:
        raise InputError(f"{path}: expected JSON, a mapping of id to config: {error}") from error
    for name, config in zip(ids, configs, strict=True):
        if not isinstance(config, Mapping):
            raise InputError(f"{path}: expected a config of model {name!r}, found none")
    return configs


def from_tabrepo(config: TabRepoConfig, name: str) -> tuple[Library, list[str]]:
    """Return the library of one data set and fold in TabRepo's layout, and messages for the user.

    Returns
    -------
    library : Library
        Its cost ``inference_time`` is in milliseconds for 1,000 test records.
    messages : list of str
        Which models had no row of metrics, thus no time, and what was done about them.

    Raises
    ------
    InputError
        A file is missing or has another size than ``metadata.json`` says; see also
        :meth:`Library.from_arrays`.
    """
    place = config.folder / "model_predictions" / config.dataset / str(config.fold)
    for path in (place, config.folder / "configs.parquet", *place.glob("*")):
        check_inside(path, config.folder)
    meta = _metadata(place)
    models = [str(model) for model in meta["models"]]
    validation, test = _memmap(place, meta, "val"), _memmap(place, meta, "test")
    y = _zipped_labels(place / "label-val.csv.zip")
    y_test = _zipped_labels(place / "label-test.csv.zip")
    times = _times(config, models) * 1e6 / max(len(y_test), 1)
    complete, times, messages = _without_gaps(times, models, config.missing)
    if len(complete) < len(models):
        validation, test = validation[complete], test[complete]
        models = [models[i] for i in complete]
    _, further = read_costs(config.costs, {}, models)
    classes = _classes(validation, y)
    library = Library.from_arrays(
        models,
        validation,
        spelled_as_classes(y, classes),
        classes,
        {"inference_time": Cost(times, "ms/1000 rows"), **further},
        test=test,
        y_test=spelled_as_classes(y_test, classes),
        configs=_configs(config.configs, models, _BAG),
        name=name,
        # TabRepo keeps probabilities in single or half precision
        normalise=config.normalise and classes is not None,
    )
    return library, messages


def _metadata(place: Path) -> dict[str, Any]:
    path = place / "metadata.json"
    try:
        meta = parse_json(read_bytes(path, JSON_BYTES))
        if meta["dtype"] not in _DTYPES:
            raise ValueError(f"type {meta['dtype']!r}")
        sizes = *meta["pred_val_shape"], *meta["pred_test_shape"]
        if not isinstance(meta["models"], list) or any(type(n) is not int or n < 1 for n in sizes):
            raise ValueError(f"shapes of {sizes} for models {meta['models']!r:.40}")
        return {key: meta[key] for key in ("models", "pred_val_shape", "pred_test_shape", "dtype")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path}: expected what TabRepo says of the predictions of a data set and fold, found: "
            f"{reason}"
        ) from error


def _memmap(place: Path, meta: Mapping[str, Any], part: str) -> Array:
    path, shape = place / f"pred-{part}.dat", tuple(meta[f"pred_{part}_shape"])
    if len(shape) not in (2, 3) or shape[0] != len(meta["models"]):
        raise InputError(
            f"{place / 'metadata.json'}: expected shapes of {len(meta['models'])} models, found "
            f"{shape}"
        )
    wanted = math.prod(shape) * np.dtype(meta["dtype"]).itemsize
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == wanted and size:
                return np.memmap(file, dtype=meta["dtype"], mode="r", shape=shape)
    except OSError:
        size = 0
    raise InputError(
        f"{path}: expected {wanted} bytes ({meta['dtype']} {shape}), found {size}; fetch it again"
    )


def _zipped_labels(path: Path) -> Array:
    try:
        content = read_bytes(path, TABLE_BYTES)
        with ZipFile(BytesIO(content)) as file:
            check_members(file, len(content), TABLE_BYTES)
            (name,) = file.namelist()
            frame = pd.read_csv(BytesIO(member(file, name)), index_col=0)
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: expected a zipped CSV of labels, found: {error}") from error
    if frame.shape[1] != 1:
        raise InputError(f"{path}: expected one column of labels, found {frame.shape[1]}")
    return frame.iloc[:, 0].to_numpy()


def _classes(predictions: Array, y: Array) -> Sequence[int] | None:
    """Return the codes of the classes; None for regression: one column, and labels beyond 0, 1."""
    if predictions.ndim == 3:
        return range(predictions.shape[2])
    return (0, 1) if set(y.tolist()) <= {0, 1} else None


def _times(config: TabRepoConfig, models: Sequence[str]) -> FloatArray:
    """Return each model's ``time_infer_s``, NaN where no row has it."""
    path = config.folder / "configs.parquet"
    try:
        frame = read_frame(path, FileOptions(columns=_METRICS))
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(
            f"{path}: expected TabRepo's metrics ({', '.join(_METRICS)}); {reason}"
        ) from error
    rows = frame[(frame["dataset"] == config.dataset) & (frame["fold"] == config.fold)]
    times = _numbers_of(rows, ["time_infer_s"], path)[:, 0]
    seconds = dict(zip(_each_once(rows["framework"], path), times, strict=True))
    return np.array([seconds.get(model, np.nan) for model in models], dtype=np.float64)


def _without_gaps(
    times: FloatArray, models: Sequence[str], missing: str
) -> tuple[list[int], FloatArray, list[str]]:
    """Return the models to keep, their times, and what was done about those without one."""
    without = np.isnan(times)
    if not without.any():
        return list(range(len(models))), times, []
    if without.all():
        raise InputError(
            "configs.parquet: expected a time for some model of the data set and fold, found none"
        )
    names = ", ".join(model for model, gap in zip(models, without, strict=True) if gap)
    count = f"{without.sum()} of {len(models)} models have no row in configs.parquet"
    if missing == "mean":
        filled = np.where(without, np.nanmean(times), times)
        return list(range(len(models))), filled, [f"{count}; given the mean time: {names}"]
    complete = np.flatnonzero(~without)
    return complete.tolist(), times[complete], [f"{count}; left out: {names}"]
