"""Libraries of others: of predictions on disk, or of fitted models and tables of records."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils import check_consistent_length

from framework.arrays import Array, IntArray
from framework.data.splits import fold_records
from framework.data.table_files import read_frame
from framework.errors import InputError, RecordsError, first_line
from framework.files import whole_folder
from framework.libraries.checks import plain_labels
from framework.libraries.config import ImportConfig, ModelsConfig
from framework.libraries.library import Cost, Library, load_library
from framework.libraries.measure import LATENCY_UNITS, UNITS, measure
from framework.libraries.members import MODEL_FILE, MODELS, as_taken, predictions, write_member
from framework.libraries.prediction_files import (
    from_files,
    from_tabrepo,
    labels_of,
    read_costs,
    spelled_as_classes,
)
from framework.registry import require_columns
from framework.security import (
    ESTIMATOR_BYTES,
    TooManyBytes,
    check_inside,
    dump_estimator,
    load_estimator,
    read_bytes,
)


def import_library(config: ImportConfig, folder: Path) -> tuple[Library, list[str]]:
    """Import the library that a configuration describes, and write it to a folder.

    Returns
    -------
    library : Library
        As read from the folder.
    messages : list of str
        Lines for the user: models that were left out, costs that were filled in.

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
        messages: list[str] = []
        if config.tabrepo is not None:
            library, messages = from_tabrepo(config.tabrepo, config.name)
        else:
            assert config.arrays is not None  # one of the three is given: the model says so
            library = from_files(config.arrays, config.name)
    except InputError as error:
        raise InputError(f"library {config.name}: {error}") from error
    return library.save(folder), messages


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
    copies: IntArray | None = None,
    groups: IntArray | None = None,
    out_of_fold: OutOfFold | None = None,
) -> Library:
    """Return a library of the predictions of fitted models for records that are new to them.

    Parameters
    ----------
    models : mapping of id to fitted estimator
        All classifiers with ``predict_proba`` and the same classes, or all regressors.
    X_validation, y_validation : (N, d), (N,)
        As the models take them.
    X_test, y_test : optional
    costs, configs, name
        See :meth:`Library.from_arrays`.
    copies : int64 (N,), optional
        How often each validation record counts; models predict it once.
    groups : int64 (N,), optional
        Codes of groups; a resample draws the records of a group together.
    out_of_fold : OutOfFold, optional
        The predictions of the validation records by :func:`cross_fitted`, if the models were fitted
        on these records.

    Raises
    ------
    InputError
        A model fails or has other classes; see also :meth:`Library.from_arrays`.
    """
    classes = _classes_of(models)

    def predicted(X: Any) -> Array:
        return np.stack([_predicted(name, model, X, classes) for name, model in models.items()])

    table = predicted(X_validation) if out_of_fold is None else out_of_fold.predictions
    test = None if X_test is None else predicted(X_test)
    y_validation, units = spelled_as_classes(np.asarray(y_validation), classes), groups
    records = len(y_validation) if copies is None else np.count_nonzero(copies)
    if copies is not None:
        check_consistent_length(table[0], copies)
        table = np.repeat(table, copies, axis=1)
        y_validation = np.repeat(np.asarray(y_validation), copies)
        units = np.repeat(np.arange(len(copies)) if groups is None else groups, copies)
    library = Library.from_arrays(
        list(models),
        table,
        y_validation,
        classes,
        costs,
        test=test,
        y_test=None if y_test is None else spelled_as_classes(np.asarray(y_test), classes),
        configs=configs,
        name=name,
        units=units,
    )
    folds = 0 if out_of_fold is None else out_of_fold.folds
    return replace(library, folds=folds, records=int(records))


class OutOfFold(NamedTuple):
    """Predictions, float32 (K, N, ...), by models not fitted on the record; number of folds."""

    predictions: Array
    folds: int


def cross_fitted(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    folds: int,
    seed: int,
    copies: IntArray | None = None,
    groups: IntArray | None = None,
) -> tuple[dict[str, Any], OutOfFold | None]:
    """Return models fitted on all records, and out-of-fold predictions by clones of them.

    Parameters
    ----------
    models : mapping of id to estimator
        None of them fitted: then clones are fitted. Or all of them: then they are returned as they
        are, without predictions.
    X, y : (N, d), (N,)
    seed : int
        Of the folds, stratified by class.
    copies : int64 (N,), optional
        How often each record counts. All copies are in one fold.
    groups : int64 (N,), optional
        Codes of groups; all records of a group are in one fold.

    Raises
    ------
    InputError
        Only some models are fitted, one cannot be fitted, or there are too few records.
    """
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing

    waiting = [name for name, model in models.items() if not is_fitted(model)]
    if not waiting:
        return dict(models), None
    if len(waiting) < len(models):
        raise InputError(
            f"models: expected all of them fitted, or none, found that {waiting[0]!r} is not and "
            f"{len(models) - len(waiting)} others are; fit them, or clone those"
        )
    if not isinstance(folds, Integral) or folds < 2:
        raise InputError(f"folds: expected a whole number, 2 or more, found {folds!r}")
    y = np.asarray(y)
    check_consistent_length(X, y)
    counts = np.ones(len(y), dtype=np.int64) if copies is None else copies
    used = np.flatnonzero(counts)

    def fitted(name: str, rows: IntArray) -> Any:
        repeated = np.repeat(rows, counts[rows])
        try:
            return clone(models[name]).fit(_safe_indexing(X, repeated), y[repeated])
        except Exception as error:  # a model of a user's may fail in any way
            raise RecordsError(
                f"model {name!r}: expected one that can be fitted to the records, found "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error

    final = {name: fitted(name, used) for name in models}
    classes = _classes_of(final)
    strata = np.zeros(len(used), dtype=np.int64)
    if classes is not None:
        strata = np.unique(y[used], return_inverse=True)[1].ravel()
    units = None if groups is None else groups[used]
    fold_of = fold_records(strata, folds, seed, "folds", classes, units=units)
    tables: list[Any] = []
    for name in models:
        # one prediction says how many columns there are
        first = _predicted(name, final[name], _safe_indexing(X, used[:1]), classes)
        table = np.zeros((len(y), *first.shape[1:]), dtype=np.float32)
        for fold in range(folds):
            model, rows = fitted(name, used[fold_of != fold]), used[fold_of == fold]
            table[rows] = _predicted(name, model, _safe_indexing(X, rows), classes)
        tables.append(table)
    return final, OutOfFold(np.stack(tables), folds)


def is_fitted(model: Any) -> bool:
    """Return whether a model is fitted; anything but an estimator of scikit-learn counts so."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    except TypeError:
        return True
    return True


def copy_bytes(models: Mapping[str, Any]) -> int:
    """Return roughly how many bytes one more validation record takes in a library, with scores."""
    return 16 * sum(len(getattr(model, "classes_", ())) or 1 for model in models.values())


def measured_costs(
    models: Mapping[str, Any],
    X: Any,
    *,
    call_time: bool = False,
    latency: bool = False,
) -> dict[str, Cost]:
    """Return inference time, memory and disk of fitted models (:mod:`framework.libraries.measure`).

    Each is written to a temporary file and measured in a process of its own.

    Parameters
    ----------
    models : mapping of id to fitted estimator
    X : (n, d)
        Records as the models take them; repeated or cut to 1,000.
    call_time : bool
        Whether ``call_time`` is returned too: see :mod:`framework.libraries.measure`.
    latency : bool
        Whether the costs of ``LATENCY_UNITS`` are measured too.

    Raises
    ------
    InputError
        A model holds a type that is not trusted.
    ParetolabError
        A model cannot be loaded, or cannot predict, in a process of its own.
    """
    with tempfile.TemporaryDirectory() as room:
        files = {name: Path(room, f"{i}.skops") for i, name in enumerate(models)}
        for name, path in files.items():
            path.write_bytes(dump_estimator(models[name], f"model {name!r}"))
        units = UNITS | ({"call_time": UNITS["inference_time"]} if call_time else {})
        units |= LATENCY_UNITS if latency else {}
        return _costs_of(files, X, units, values=_classes_of(models) is None)


def _costs_of(
    files: Mapping[str, Path],
    X: Any,
    units: Mapping[str, str],
    *,
    values: bool,
) -> dict[str, Cost]:
    latency = LATENCY_UNITS.keys() <= units.keys()
    by_model = dict(measure(files, X, values=values, latency=latency))
    return {
        key: Cost(np.array([by_model[name][key] for name in files]), unit)
        for key, unit in units.items()
    }


def _classes_of(models: Mapping[str, Any]) -> list[Any] | None:
    """Return the labels of the first model; None of regressors."""
    if not models:
        raise InputError("models: expected a fitted model or more, found none")
    first = next(iter(models.values()))
    if not hasattr(first, "predict_proba"):
        if any(hasattr(model, "classes_") for model in models.values()):
            raise InputError(
                "models: expected regressors, or classifiers with predict_proba, alone, found "
                f"{type(first).__name__} among them; calibrate classifiers (CalibratedClassifierCV)"
            )
        return None
    if not hasattr(first, "classes_"):
        raise InputError(
            f"model {next(iter(models))!r}: expected a fitted classifier, found one that is not "
            "fitted; call its fit first"
        )
    return plain_labels(first.classes_)


def _predicted(name: str, model: Any, X: Any, classes: Sequence[Any] | None) -> Array:
    try:
        return predictions(model, as_taken(model, X), classes).astype(np.float32)
    except Exception as error:  # a model of a user's may fail in any way
        raise InputError(
            f"model {name!r}: expected predictions for the records, found "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


def _import_models(name: str, config: ModelsConfig, folder: Path) -> Library:
    """Let the models of a folder predict, measure them, and copy them into the library."""
    files = _model_files(config.folder)
    contents = {key: _content(path) for key, path in files.items()}
    models = {key: load_estimator(contents[key], str(path)) for key, path in files.items()}
    classes = _classes_of(models)
    X, y = _records(config.validation, config.target, classes)
    X_test, y_test = (
        (None, None) if config.test is None else _records(config.test, config.target, classes)
    )
    _, further = read_costs(config.costs, config.units, list(files))
    # before anything is measured, which takes long: here the models are checked
    predicted = from_models(models, X, y, X_test=X_test, y_test=y_test)
    measured = _costs_of(files, X, UNITS, values=predicted.classes is None)
    library = Library.from_arrays(
        predicted.ids,
        predicted.validation,
        y,
        predicted.classes,
        {**measured, **further},
        test=predicted.test,
        y_test=y_test,
        configs=[_described(model) for model in models.values()],
        name=name,
    )
    with whole_folder(folder) as complete:
        for key, content in contents.items():
            place = complete / MODELS / key
            place.mkdir(parents=True)
            write_member(place, content, {"id": key})
        library.save(complete)
        if folder.exists():
            folder.rmdir()  # it is empty
    return load_library(folder)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, ESTIMATOR_BYTES)
    except (OSError, TooManyBytes) as error:
        raise InputError(f"{path}: expected a fitted model, found: {error}") from error


def _model_files(folder: Path) -> dict[str, Path]:
    """Return ``ID.skops`` and ``ID/model.skops`` of a folder, by id."""
    files = {path.stem: path for path in sorted(folder.glob("*.skops"))}
    for path in sorted(folder.glob(f"*/{MODEL_FILE}")):
        other = files.setdefault(path.parent.name, path)
        if other != path:
            raise InputError(
                f"{path}: expected one file for a model, found {other} too; remove one"
            )
    if not files:
        raise InputError(
            f"{folder}: expected fitted models in skops's format (ID.skops or ID/{MODEL_FILE}), "
            "found none; write them with skops.io.dump(model, 'ID.skops')"
        )
    for path in files.values():
        check_inside(path, folder)
    return files


def _records(path: Path, target: str, classes: Sequence[Any] | None) -> tuple[pd.DataFrame, Array]:
    frame = read_frame(path)
    require_columns([target], frame.columns, f"{path}: target")
    return frame.drop(columns=target), labels_of(frame[target], path, classes)


def _described(model: Any) -> dict[str, Any]:
    """Return a model's class and those of its parameters that JSON can hold."""
    plain = {
        key: value
        for key, value in model.get_params(deep=False).items()
        if value is None
        or isinstance(value, str | bool | int)
        or (isinstance(value, float) and np.isfinite(value))
    }
    return {"family": type(model).__name__, **plain}
