"""Libraries in TabRepo's layout, read with numpy and pandas alone.

A context's folder holds ``configs.parquet`` (a row for each data set, fold and model, with
``time_infer_s``: seconds for all test records) and, under ``model_predictions/DATASET/FOLD/``,
``metadata.json`` (models, shapes, type), the raw arrays ``pred-val.dat`` and ``pred-test.dat`` and
the labels ``label-val.csv.zip`` and ``label-test.csv.zip``.

Source: D. Salinas and N. Erickson, TabRepo: A Large Scale Repository of Tabular Model Evaluations
and its AutoML Applications, AutoML 2024.
"""

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
from framework.data.files import FileOptions, read_frame
from framework.errors import InputError
from framework.libraries.files import in_order, read_costs
from framework.libraries.library import Cost, Library
from framework.limits import TABLE_BYTES
from framework.packed import check_members, member

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
    y, y_test = _labels(place / "label-val.csv.zip"), _labels(place / "label-test.csv.zip")
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


def _labels(path: Path) -> Array:
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
