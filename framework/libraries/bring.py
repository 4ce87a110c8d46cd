"""Libraries of what others have fitted: predictions on disk, or models with tables of records."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import Array
from framework.data.files import read_frame
from framework.errors import InputError
from framework.libraries.import_config import ArraysConfig, ImportConfig, ModelsConfig
from framework.libraries.measure import UNITS, measure
from framework.libraries.members import ABOUT_FILE, MODEL_FILE, MODELS, TRUSTED, predictions
from framework.libraries.tabrepo import from_tabrepo
from framework.models.store import load_estimator
from framework.problems.library import Cost, Library

_ID = "id"  # column of a table of costs
_BETWEEN = ":"  # model and class in the name of a column


def import_library(config: ImportConfig, folder: Path) -> tuple[Library, list[str]]:
    """Make a library of what a configuration names, and write it to a folder.

    Returns
    -------
    library : Library
        As it lies in the folder.
    said : list of str
        What the user should know: models that were left out, costs that were filled in.

    Raises
    ------
    InputError
        A file is missing or does not fit; nothing is written then.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: expected a new folder, found one with files; choose another")
    try:
        if config.models is not None:
            return _import_models(config.name, config.models, folder), []
        if config.tabrepo is not None:
            library, said = from_tabrepo(**dict(config.tabrepo), name=config.name)
        else:
            assert config.arrays is not None  # one of the three is given: the model says so
            library, said = from_files(config.arrays, config.name), []
    except InputError as error:
        raise InputError(f"library {config.name}: {error}") from error
    return library.save(folder), said


def from_files(config: ArraysConfig, name: str) -> Library:
    """Return the library of predictions, labels and costs that lie in files.

    Raises
    ------
    InputError
        See :meth:`Library.from_arrays`; files that are missing or do not fit each other.
    """
    costs, cost_ids = _costs(config.costs, config.units)
    ids = list(config.ids or cost_ids or _columns(config.validation, config.classes))
    classes = config.classes
    return Library.from_arrays(
        ids,
        _predictions(config.validation, ids, classes),
        _labels(config.y_validation, classes),
        classes,
        {key: _in_order(cost, cost_ids, ids) for key, cost in costs.items()},
        test=None if config.test is None else _predictions(config.test, ids, classes),
        y_test=None if config.y_test is None else _labels(config.y_test, classes),
        configs=None if config.configs is None else _configs(config.configs, ids),
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
        return _npy(path)
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


def _npy(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: expected an array of numbers, found: {found}") from error
    return array


def _labels(path: Path, classes: Sequence[Any] | None) -> Array:
    """Read one label a record, spelled as the classes are."""
    if path.suffix == ".npy":
        found: Array = np.asarray(_npy(path))
    else:
        frame = read_frame(path)
        if frame.shape[1] != 1:
            raise InputError(f"{path}: expected one column of labels, found {frame.shape[1]}")
        found = frame.iloc[:, 0].to_numpy()
    return found if classes is None else _spelled(found, classes)


def _spelled(labels: Array, classes: Sequence[Any]) -> Array:
    """Return labels as the classes spell them: 1, 1.0 and '1' are one where no two are told."""
    by_text = {_text(label): label for label in classes}
    plain = [by_text.get(_text(label), label) for label in labels.tolist()]
    result = np.empty(len(plain), dtype=object)
    result[:] = plain
    return result


def _text(label: Any) -> str:
    number = isinstance(label, float) and label.is_integer()
    return str(int(label)) if number else str(label)


def _costs(path: Path | None, units: Mapping[str, str]) -> tuple[dict[str, Cost], list[str]]:
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


def _in_order(cost: Cost, given: Sequence[str], ids: Sequence[str]) -> Cost:
    """Return a cost in the order of the ids; NaN, which the library refuses, where there is none."""
    places = {name: i for i, name in enumerate(given)}
    values = [cost.values[places[name]] if name in places else np.nan for name in ids]
    return Cost(np.array(values), cost.unit)


def _configs(path: Path, ids: Sequence[str]) -> list[Mapping[str, Any]]:
    """Read a JSON mapping of id to configuration."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return [known[name] for name in ids]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: expected JSON, a mapping of id to config: {error}") from error
    except KeyError as error:
        raise InputError(f"{path}: expected a config of model {error}, found none") from error


def from_models(
    models: Mapping[str, Any],
    X_validation: Any,
    y_validation: Any,
    *,
    X_test: Any = None,
    y_test: Any = None,
    costs: Mapping[str, Cost | Any] | None = None,
    configs: Sequence[Mapping[str, Any]] | None = None,
    name: str = "library",
) -> Library:
    """Return the library of fitted models, asked about records that they were not fitted on.

    Parameters
    ----------
    models : mapping of id to fitted estimator
        All classifiers with ``predict_proba`` and the same classes, or all regressors.
    X_validation, y_validation : (N, d), (N,)
        As the models take them.
    X_test, y_test : optional
    costs, configs, name
        See :meth:`Library.from_arrays`.

    Raises
    ------
    InputError
        A model fails or knows other classes; see also :meth:`Library.from_arrays`.
    """
    classes = _classes_of(models)
    tables = [
        None if X is None else np.stack([_asked(n, m, X, classes) for n, m in models.items()])
        for X in (X_validation, X_test)
    ]
    return Library.from_arrays(
        list(models), tables[0], _as_listed(y_validation, classes), classes, costs,
        test=tables[1], y_test=None if y_test is None else _as_listed(y_test, classes),
        configs=configs, name=name,
    )  # fmt: skip


def _as_listed(y: Any, classes: Sequence[Any] | None) -> Array:
    labels: Array = np.asarray(y)
    return labels if classes is None else _spelled(labels, classes)


def _classes_of(models: Mapping[str, Any]) -> list[Any] | None:
    """Return the labels of the first model; None of regressors."""
    if not models:
        raise InputError("models: expected a fitted model or more, found none")
    first = next(iter(models.values()))
    if not hasattr(first, "predict_proba"):
        if hasattr(first, "classes_"):
            raise InputError(
                f"models: expected classifiers with predict_proba, found "
                f"{type(first).__name__} without; calibrate it (CalibratedClassifierCV)"
            )
        return None
    return [label.item() if isinstance(label, np.generic) else label for label in first.classes_]


def _asked(name: str, model: Any, X: Any, classes: Sequence[Any] | None) -> Array:
    known = getattr(model, "feature_names_in_", None)
    if isinstance(X, pd.DataFrame):
        with suppress(KeyError):  # the model's own complaint names what is missing
            X = X.to_numpy() if known is None else X[list(known)]
    try:
        return predictions(model, X, classes).astype(np.float32)
    except Exception as error:
        raise InputError(
            f"model {name!r}: expected predictions for the records, found "
            f"{type(error).__name__}: {error}"
        ) from error


def _import_models(name: str, config: ModelsConfig, folder: Path) -> Library:
    """Ask, measure and copy the models of a folder."""
    files = _model_files(config.folder)
    trusted = (*TRUSTED, *config.trusted)
    models = {
        key: load_estimator(path.read_bytes(), str(path), trusted) for key, path in files.items()
    }
    X, y = _records(config.validation, config.target)
    X_test, y_test = (None, None) if config.test is None else _records(config.test, config.target)
    extra, cost_ids = _costs(config.costs, config.units)
    library = from_models(models, X, y, X_test=X_test, y_test=y_test, name=name)  # before measuring
    found = dict(measure(files, X, values=library.classes is None, trusted=trusted))
    for key, path in files.items():
        found[key]["disk"] = path.stat().st_size / 1e6
    costs = {
        key: Cost(np.array([found[model][key] for model in files]), unit)
        for key, unit in UNITS.items()
    }
    costs |= {key: _in_order(cost, cost_ids, list(files)) for key, cost in extra.items()}
    configs = [_described(model) for model in models.values()]
    library = from_models(
        models, X, y, X_test=X_test, y_test=y_test, costs=costs, configs=configs, name=name
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new.", dir=folder.parent) as room:
        whole = Path(room) / "library"
        for key, path in files.items():
            _copy(key, path, whole / MODELS / key)
        library.save(whole)
        if folder.exists():
            folder.rmdir()  # it is empty
        whole.rename(folder)
    return load_again(folder)


def load_again(folder: Path) -> Library:
    """Open what was just written."""
    from framework.problems.library import load_library

    return load_library(folder)


def _model_files(folder: Path) -> dict[str, Path]:
    """Return ``ID.skops`` and ``ID/model.skops`` of a folder, by id."""
    files = {path.stem: path for path in sorted(folder.glob("*.skops"))}
    files |= {path.parent.name: path for path in sorted(folder.glob(f"*/{MODEL_FILE}"))}
    if not files:
        raise InputError(
            f"{folder}: expected fitted models in skops's format (ID.skops or ID/{MODEL_FILE}), "
            "found none; write them with skops.io.dump(model, 'ID.skops')"
        )
    return files


def _records(path: Path, target: str) -> tuple[pd.DataFrame, Array]:
    frame = read_frame(path)
    if target not in frame.columns:
        raise InputError(f"{path}: expected the column {target!r} (target), found none")
    return frame.drop(columns=target), frame[target].to_numpy()


def _described(model: Any) -> dict[str, Any]:
    """Return a model's class and those of its parameters that JSON can hold."""
    plain = {
        key: value
        for key, value in model.get_params(deep=False).items()
        if value is None or isinstance(value, str | bool | int)
        or (isinstance(value, float) and np.isfinite(value))
    }  # fmt: skip
    return {"family": type(model).__name__, **plain}


def _copy(name: str, path: Path, place: Path) -> None:
    place.mkdir(parents=True)
    shutil.copyfile(path, place / MODEL_FILE)
    digest = hashlib.sha256((place / MODEL_FILE).read_bytes()).hexdigest()
    about = json.dumps({"id": name, "sha256": digest}, indent=1)
    (place / ABOUT_FILE).write_text(about, encoding="utf-8")
