"""Reads libraries from files with arrays and tables of predictions, labels and costs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray
from framework.data.table_files import FileOptions, read_frame
from framework.errors import InputError
from framework.libraries.config import ArraysConfig
from framework.libraries.library import Cost, Library, open_array
from framework.libraries.measure import UNITS
from framework.limits import TABLE_BYTES
from framework.packed import check_members, member

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


_BAG = "_BAG_L1"  # ends a model's name, not its config's
_DTYPES = ("float32", "float16", "float64")
_METRICS = ("dataset", "fold", "framework", "time_infer_s")


def from_tabrepo(
    folder: Path,
    dataset: str,
    fold: int = 0,
    *,
    missing: Literal["drop", "mean"] = "drop",
    costs: Path | None = None,
    configs: Path | None = None,
    normalise: bool = True,
    name: str | None = None,
) -> tuple[Library, list[str]]:
    """Return the library of one data set and fold, and what to say about it.

    Parameters
    ----------
    folder : Path
        Of the context.
    missing : 'drop' or 'mean'
        Models without a row of metrics, thus without a time: leave them out, or give them the mean
        of the others (as HA-ES does).
    costs : Path, optional
        A table with a column ``id`` (the models' names) and further costs, such as memory.
    configs : Path, optional
        JSON, a mapping of model (with or without ``_BAG_L1``) to hyperparameters.
    normalise : bool
        Divide the probabilities of each record by their sum: they are kept in single or half
        precision.

    Returns
    -------
    library : Library
        ``inference_time`` in milliseconds for 1,000 test records.
    said : list of str

    Raises
    ------
    InputError
        A file is missing, of another size than ``metadata.json`` says, or see
        :meth:`Library.from_arrays`.
    """
    place = folder / "model_predictions" / dataset / str(fold)
    meta = _metadata(place)
    models = [str(model) for model in meta["models"]]
    validation, test = _memmap(place, meta, "val"), _memmap(place, meta, "test")
    y, y_test = (
        _zipped_labels(place / "label-val.csv.zip"),
        _zipped_labels(place / "label-test.csv.zip"),
    )
    times = _times(folder, dataset, fold, models) * 1e6 / max(len(y_test), 1)
    kept, times, said = _handled(times, models, missing)
    if len(kept) < len(models):
        validation, test = validation[kept], test[kept]
        models = [models[i] for i in kept]
    table = {"inference_time": Cost(times, "ms/1000 rows")}
    extra, cost_ids = read_costs(costs, {})
    table |= {key: in_order(cost, cost_ids, models) for key, cost in extra.items()}
    classes = _classes(validation, y)
    library = Library.from_arrays(
        models,
        validation,
        y if classes is None else y.astype(np.int64),
        classes,
        table,
        test=test,
        y_test=y_test if classes is None else y_test.astype(np.int64),
        configs=None if configs is None else _hyperparameters(configs, models),
        name=name or f"{dataset}-{fold}",
        normalise=normalise and classes is not None,
    )
    return library, said


def _metadata(place: Path) -> dict[str, Any]:
    path = place / "metadata.json"
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        if meta["dtype"] not in _DTYPES:
            raise ValueError(f"type {meta['dtype']!r}")
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
    wanted = int(np.prod(shape)) * np.dtype(meta["dtype"]).itemsize
    found = path.stat().st_size if path.is_file() else 0
    if found != wanted:
        raise InputError(
            f"{path}: expected {wanted} bytes ({meta['dtype']} {shape}), found {found}; fetch it "
            "again"
        )
    return np.memmap(path, dtype=meta["dtype"], mode="r", shape=shape)


def _zipped_labels(path: Path) -> Array:
    try:
        with ZipFile(path) as file:
            check_members(file, path.stat().st_size, TABLE_BYTES)
            (name,) = file.namelist()
            frame = pd.read_csv(BytesIO(member(file, name)), index_col=0)
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: expected a zipped CSV of labels, found: {error}") from error
    if frame.shape[1] != 1:
        raise InputError(f"{path}: expected one column of labels, found {frame.shape[1]}")
    return frame.iloc[:, 0].to_numpy()


def _classes(predictions: Array, y: Array) -> Sequence[int] | None:
    """Return the codes of the classes: several columns, or labels 0 and 1; None for regression."""
    if predictions.ndim == 3:
        return range(predictions.shape[2])
    return (0, 1) if set(np.unique(y).tolist()) <= {0, 1} else None


def _times(folder: Path, dataset: str, fold: int, models: Sequence[str]) -> FloatArray:
    """Return each model's ``time_infer_s``, NaN where no row has it."""
    path = folder / "configs.parquet"
    try:
        frame = read_frame(path, FileOptions(columns=_METRICS))
    except InputError as error:
        found = str(error).removeprefix(f"{path}: ")
        raise InputError(
            f"{path}: expected TabRepo's metrics ({', '.join(_METRICS)}); {found}"
        ) from error
    rows = frame[(frame["dataset"] == dataset) & (frame["fold"] == fold)]
    known = dict(zip(rows["framework"], rows["time_infer_s"], strict=True))
    return np.array([known.get(model, np.nan) for model in models], dtype=np.float64)


def _handled(
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
    kept = np.flatnonzero(~without)
    return kept.tolist(), times[kept], [f"{count}; left out: {names}"]


def _hyperparameters(path: Path, models: Sequence[str]) -> list[Mapping[str, Any]]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        found = [known.get(model, known.get(model.removesuffix(_BAG))) for model in models]
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: expected JSON, a mapping of model to hyperparameters, found: {error}"
        ) from error
    for model, config in zip(models, found, strict=True):
        if not isinstance(config, Mapping):
            raise InputError(f"{path}: expected the hyperparameters of {model!r}, found none")
    return found
