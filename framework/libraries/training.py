"""The training of a pool of models: its data, one model, and all of them on any workers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray, IntArray
from framework.data.datasets import load_table, load_values
from framework.data.divisions import (
    AS_THEY_FALL,
    FoldRows,
    Subgroups,
    copies_text,
    divide,
    folds_of,
    same_rows,
    subgroups_in,
)
from framework.data.encoding import Encoder
from framework.data.splits import MeasureConfig, SplitConfig, fold_records, split_records
from framework.data.tables import Table, ValueTable
from framework.errors import ClusterError, EnvironmentFailure, InputError
from framework.libraries.config import BuildConfig, LibrarySplit
from framework.libraries.members import predictions
from framework.libraries.pool import FAMILIES, PoolPlan
from framework.machine import is_machine_failure, reason_of
from framework.parallel.config import ClusterConfig
from framework.parallel.executor import Executor
from framework.security import dump_estimator

_EXAMPLE_RECORDS = 5

Folds = tuple[tuple[IntArray, IntArray, IntArray], ...]
"""Fitted and held-out records of each fold, and rows of the validation table: see ``Fold``."""


class Fold(NamedTuple):
    """One fold of a cross-validation.

    Attributes
    ----------
    design : float64 (n, d)
        All training records, encoded by an encoder that was fitted on the records ``fitted``.
    fitted, held_out : int64 (f,), (h,)
        Training records that the models of the fold are fitted on, and those that they predict;
        sorted.
    rows : int64 (h,)
        Rows of the library's validation table that take the predictions of ``held_out``.
    """

    design: FloatArray
    fitted: IntArray
    held_out: IntArray
    rows: IntArray


@dataclass(frozen=True)
class PoolData:
    """The records that every model of a pool is trained on and predicts.

    Attributes
    ----------
    task : 'classification' or 'regression'
    y, y_test, y_table : (n,), (m,), (N,)
        Class codes (int64) or values (float64) of the training and test records, and of the rows of
        the library's validation table.
    classes : labels in the order of the codes; None for regression.
    design, test : float64 (n, d), (m, d)
        Training and test records, with an encoder fitted on the training records.
    folds : tuple of Fold
        The folds of a cross-validation; empty where validation records are held out.
    validation : float64 (N, d), or None
        Validation records that are held out: no model is trained on them.
    units : int64 (N,), or None
        See :class:`~framework.libraries.library.Library`.
    """

    task: str
    y: Array
    y_test: Array
    y_table: Array
    classes: tuple[Any, ...] | None
    design: FloatArray
    test: FloatArray
    folds: tuple[Fold, ...]
    validation: FloatArray | None = None
    units: IntArray | None = None


class Prepared(NamedTuple):
    """The data of a build, the final models' encoder, a few raw records and a description."""

    data: PoolData
    encoder: Encoder
    example: pd.DataFrame
    about: dict[str, Any]


def prepare(config: BuildConfig, where: str) -> Prepared:
    """Load, split, fold and encode the data of a build, once for all models.

    Raises
    ------
    InputError
        The data cannot be loaded or used, or there are too few records for the folds.
    """
    source: Table | ValueTable
    classes: tuple[Any, ...] | None = None
    y: Array
    if config.task == "classification":
        source = table = _table(config, where)
        y, classes = table.labels, table.classes
        parts = _parts(table, config, where)
    else:
        source = values = load_values(config.dataset, f"{where}.dataset")
        y, strata = values.values, np.zeros(len(values.values), dtype=np.int64)
        if not config.split.by_chance:
            raise InputError(
                f"{where}.split: expected group, time and copies with task: classification, found "
                "regression; its records are divided by chance"
            )
        parts = _by_chance(strata, None, config, where)
    train, validation, test = parts.train, parts.validation, parts.test
    features = source.features.iloc[train]
    encoder = source.fit_encoder(features)

    def fold(fitted: IntArray, held_out: IntArray, rows: IntArray) -> Fold:
        # the encoder must not see the held-out records either: they stand for new ones
        design = source.fit_encoder(features.iloc[fitted]).transform(features)
        return Fold(design, fitted, held_out, rows)

    data = PoolData(
        task=config.task,
        y=y[train],
        y_test=y[test],
        y_table=y[parts.table],
        classes=classes,
        design=encoder.transform(features),
        test=encoder.transform(source.features.iloc[test]),
        folds=tuple(fold(*part) for part in parts.folds),
        validation=None
        if validation is None
        else encoder.transform(source.features.iloc[validation]),
        units=parts.units,
    )
    notes = [*source.notes, *parts.notes]
    if not config.split.columns and config.split.copies is None:  # copies were divided unasked
        start = copies_text(same_rows(source.features))
        notes += [start + AS_THEY_FALL] if start else []
    about = {
        **source.about(),
        **({"notes": notes} if notes else {}),
        **({"division": parts.fingerprint} if parts.fingerprint else {}),
        "training_records": len(train),
        **({} if validation is None else {"validation_records": len(validation)}),
        "test_records": len(test),
        "features": len(encoder.feature_names),
    }
    example = source.features.iloc[test if len(test) else train].head(_EXAMPLE_RECORDS)
    return Prepared(data, encoder, example, about)


def record_subgroups(
    config: BuildConfig | None, column: str | None, where: str
) -> tuple[Subgroups, ...]:
    """Return the subgroups of the rows of a library's validation table, and of its test records.

    Without a ``column`` there are none.

    Raises
    ------
    InputError
        The data have no such column, or it does not divide the records into subgroups; or the
        library is not built here, so that its records are not at hand.
    """
    if column is None:
        return ()
    if config is None:
        raise InputError(
            f"problem.subgroup: expected together with {where}, found a library that is read, "
            "which has no columns; give build beside path"
        )
    table = _table(config, where, column)
    subgroups, parts = subgroups_in(table.aside[column]), _parts(table, config, where)
    return subgroups.take(parts.table), subgroups.take(parts.test)


def searched_records(config: BuildConfig, where: str) -> tuple[pd.DataFrame, IntArray]:
    """Return the raw records that a pool is trained and measured on, and their class codes."""
    table = _table(config, where)
    parts = _parts(table, config, where)
    rows = parts.train
    if parts.validation is not None:
        rows = np.concatenate([rows, parts.validation])
    return table.features.iloc[rows], table.labels[rows]


class _Parts(NamedTuple):
    """How the records of a build are divided.

    Attributes
    ----------
    train, test : int64
        Positions of the records, as in ``validation``.
    validation : int64 or None
        None if the training records are predicted out-of-fold.
    table : int64 (N,)
        The record that each row of the validation table is about.
    folds : Folds
    units : int64 (N,), or None
        See :class:`PoolData`.
    fingerprint : str
        Hash of the columns that divide the records; empty where none does.
    notes : tuple of str
        Sentences for the user.
    """

    train: IntArray
    validation: IntArray | None
    test: IntArray
    table: IntArray
    folds: Folds = ()
    units: IntArray | None = None
    fingerprint: str = ""
    notes: tuple[str, ...] = ()


def _table(config: BuildConfig, where: str, subgroup: str | None = None) -> Table:
    return load_table(config.dataset, f"{where}.dataset", config.split.columns, subgroup)


def _parts(table: Table, config: BuildConfig, where: str) -> _Parts:
    """Divide the records of a table: by chance, by a group, or in time."""
    split = config.split
    if split.by_chance:
        return _by_chance(table.labels, table.classes, config, where)
    # a division has three parts; a cross-validation puts the first two, of any size, together
    validation = (1 - split.test) * (0.5 if split.validation is None else split.validation)
    shares = SplitConfig(
        train=1 - split.test - validation,
        validation=validation,
        **split.model_dump(exclude={"folds", "fold", "validation"}),
    )
    measure = MeasureConfig(kind="holdout")
    if split.validation is None:
        measure = MeasureConfig(folds=config.folds, repeats=config.repeats)
    division = divide(table, shares, measure, where)
    parts = division.split
    if split.validation is not None:
        about = division.units_of(parts.validation), division.fingerprint, division.notes
        return _Parts(*parts, parts.validation, (), *about)
    folds, rows = _rows_of(division.repeats)
    measured = parts.pooled[rows]
    about = division.units_of(measured), division.fingerprint, division.notes
    return _Parts(parts.pooled, None, parts.test, measured, folds, *about)


def _rows_of(repeats: Sequence[Sequence[FoldRows]]) -> tuple[Folds, IntArray]:
    """Return folds, each with its rows of the validation table, and the record of each row."""
    folds, rows = [], np.zeros(0, dtype=np.int64)
    for repeat in repeats:
        measured = np.sort(np.concatenate([fold.held_out for fold in repeat]))
        for fold in repeat:
            folds.append((*fold, len(rows) + np.searchsorted(measured, fold.held_out)))
        rows = np.concatenate([rows, measured])
    return tuple(folds), rows


def _by_chance(
    strata: IntArray, classes: tuple[Any, ...] | None, config: BuildConfig, where: str
) -> _Parts:
    train, validation, test = _split(strata, config.split, classes, f"{where}.split")
    if validation is not None:
        return _Parts(train, validation, test, validation)
    setting = config.folds, config.seed, f"{where}.folds", classes
    repeats = [fold_records(strata[train], *setting, repeat) for repeat in range(config.repeats)]
    folds, rows = _rows_of([folds_of(fold_of) for fold_of in repeats])
    return _Parts(train, None, test, train[rows], folds, rows if config.repeats > 1 else None)


def _split(
    strata: IntArray, split: LibrarySplit, classes: tuple[Any, ...] | None, where: str
) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return training, validation (None for a cross-validation) and test records."""
    if split.folds is not None:
        fold_strata = strata if split.stratify else np.zeros_like(strata)
        fold_of = fold_records(fold_strata, split.folds, split.seed, f"{where}.folds", classes)
        rest, test = np.flatnonzero(fold_of != split.fold), np.flatnonzero(fold_of == split.fold)
    else:
        rest, test = _two_parts(strata, split.test, split, where)
    if split.validation is None:
        return rest, None, test
    train, validation = _two_parts(strata[rest], split.validation, split, where)
    return rest[train], rest[validation], test


def _two_parts(
    strata: IntArray, share: float, split: LibrarySplit, where: str
) -> tuple[IntArray, IntArray]:
    """Return the records outside a share of all, and those inside, sorted."""
    half = (1 - share) / 2  # split_records makes three parts, of which the first two are joined
    shares = SplitConfig(
        train=half,
        validation=1 - share - half,
        test=share,
        seed=split.seed,
        stratify=split.stratify,
    )
    parts = split_records(strata, shares, where)
    return np.sort(np.concatenate([parts.train, parts.validation])), parts.test


class Trained(NamedTuple):
    """The results of training a model.

    Attributes
    ----------
    content : bytes
        The fitted model in skops's format.
    validation : float32 (N,) or (N, C)
        Predictions for the validation table: of held-out validation records by the model itself,
        otherwise of each training record by a copy of it that was not fitted on that record.
    test : float32 (m,) or (m, C)
        Predictions of the test records by the model itself.
    seconds : float
        How long all this took on the clock.
    """

    content: bytes
    validation: Array
    test: Array
    seconds: float


Outcome = tuple[PoolPlan, Trained | str]  # a text is the error of a model that cannot be trained


def train(plan: PoolPlan, data: PoolData) -> Trained:
    """For each fold, train a model without it to predict it; then train one on all records.

    It runs on one thread, so that the result does not depend on the number of cores.

    Raises
    ------
    Exception
        Whatever the model raises; ValueError where a prediction is not finite.
    """
    from threadpoolctl import threadpool_limits

    family, start = FAMILIES[plan.family], time.perf_counter()
    codes = None if data.classes is None else range(len(data.classes))
    records, classes = len(data.y_table), len(data.classes or ())
    held_out = np.full((records, classes) if classes > 2 else (records,), np.nan)
    final = family.make(plan, data.task)  # loads what it needs before the threads are limited
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged is a model too
        for fold in data.folds:
            fitted = fold.fitted
            model = family.make(plan, data.task).fit(fold.design[fitted], data.y[fitted])
            held_out[fold.rows] = predictions(model, fold.design[fold.held_out], codes)
        final.fit(data.design, data.y)
        if data.validation is not None:
            held_out[:] = predictions(final, data.validation, codes)
        test = np.empty((0, *held_out.shape[1:]))
        if len(data.test):
            test = predictions(final, data.test, codes)
        content = dump_estimator(final, plan.id)
    if not (np.isfinite(held_out).all() and np.isfinite(test).all()):
        raise ValueError("it predicts values that are not finite")
    seconds = time.perf_counter() - start
    return Trained(content, held_out.astype(np.float32), test.astype(np.float32), seconds)


def train_all(
    plans: Sequence[PoolPlan],
    data: PoolData,
    *,
    workers: str | int,
    address: str | None,
    report: Callable[[str], None],
    config: ClusterConfig | None = None,
) -> Iterator[Outcome]:
    """Yield each model, or its error, as soon as it is there, in any order.

    The models do not depend on who trains them.

    Parameters
    ----------
    workers, address, config
        Who trains: see :class:`framework.parallel.executor.Executor`.
    report : callable
        Called with a sentence on the Ray cluster that trains, if one does.

    Raises
    ------
    ClusterError
        No worker can be started, or no machine can train a model: its disk is full, say.
    """
    with Executor(
        _attempt,
        workers=workers,
        address=address,
        config=config,
        pure=True,
        started=lambda description: report(f"trained by {description}"),
    ) as executor:
        for ended in executor.run(plans, lambda plan: (data, plan)):
            if isinstance(ended.error, EnvironmentFailure):
                raise ClusterError(
                    f"no machine can train {ended.key.id} ({ended.error.reason}); put that right "
                    "where workers run and build again: what is trained is kept"
                )
            yield ended.key, ended.answer if ended.error is None else str(ended.error)


def _attempt(data: PoolData, plan: PoolPlan) -> Trained | str:
    try:
        return train(plan, data)
    except Exception as error:  # a model that fails is recorded and left out
        if is_machine_failure(error):  # not the model has failed, but this machine
            raise EnvironmentFailure(reason_of(error)) from error
        return f"{type(error).__name__}: {error}"
