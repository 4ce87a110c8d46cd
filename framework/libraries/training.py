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
from framework.data.divisions import divide
from framework.data.encoding import Encoder
from framework.data.splits import MeasureConfig, SplitConfig, fold_records, split_records
from framework.data.subgroups import Subgroups, subgroups_in
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


class Fold(NamedTuple):
    """One part of a cross-validation.

    Attributes
    ----------
    design : float64 (n, d)
        All training records, with an encoder fitted on those that its models are fitted on.
    fitted, held_out : int64 (f,), (h,)
        Records that its models are fitted on, and those that they predict, sorted.
    rows : int64 (h,)
        The rows of the library's validation table that these are.
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
    y, y_test : (n,), (m,)
        Class codes (int64) or values (float64).
    classes : labels in the order of the codes; None for regression.
    design, test : float64 (n, d), (m, d)
        Training and test records, with an encoder fitted on the training records.
    folds : tuple of Fold
        Of a cross-validation; empty where there are validation records.
    validation, y_validation : float64 (v, d), (v,), or None
        Validation records of their own, which no model is trained on.
    rows : int64 (N,), or None
        Of a cross-validation: which training record each row of the validation table is.
    units : int64 (N,), or None
        What is drawn together in a resample, as ``Library.units``.
    """

    task: str
    y: Array
    y_test: Array
    classes: tuple[Any, ...] | None
    design: FloatArray
    test: FloatArray
    folds: tuple[Fold, ...]
    validation: FloatArray | None = None
    y_validation: Array | None = None
    rows: IntArray | None = None
    units: IntArray | None = None

    @property
    def y_table(self) -> Array:
        """Classes or values of the records of the library's validation table."""
        return np.asarray(self.y[self.rows] if self.y_validation is None else self.y_validation)


class Prepared(NamedTuple):
    """The data of a build, their encoder, a few raw records, and a description of the data."""

    data: PoolData
    encoder: Encoder
    example: pd.DataFrame
    about: dict[str, Any]


def prepare(config: BuildConfig, where: str) -> Prepared:
    """Load, split, fold and encode the data of a build, once for all models.

    Raises
    ------
    InputError
        The data cannot be had or used, or a class has too few training records for two folds.
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
        if config.split.columns:
            raise InputError(
                f"{where}.split: expected group and time with task: classification, found "
                "regression; its records are divided by chance"
            )
        parts = _by_chance(strata, None, config, where)
    train, validation, test = parts.train, parts.validation, parts.test
    features = source.features.iloc[train]
    encoder = source.fit_encoder(features)

    def fold(fitted: IntArray, held_out: IntArray, rows: IntArray) -> Fold:
        # encoded without the fold, lest its records be known before they are predicted
        design = source.fit_encoder(features.iloc[fitted]).transform(features)
        return Fold(design, fitted, held_out, rows)

    data = PoolData(
        task=config.task,
        y=y[train],
        y_test=y[test],
        classes=classes,
        design=encoder.transform(features),
        test=encoder.transform(source.features.iloc[test]),
        folds=tuple(fold(*part) for part in parts.folds),
        validation=None
        if validation is None
        else encoder.transform(source.features.iloc[validation]),
        y_validation=None if validation is None else y[validation],
        rows=None if validation is not None else parts.rows,
        units=parts.units,
    )
    about = {
        **source.about(),
        **({"division": parts.fingerprint} if parts.fingerprint else {}),
        "training_records": len(train),
        **({} if validation is None else {"validation_records": len(validation)}),
        "test_records": len(test),
        "features": len(encoder.feature_names),
    }
    example = source.features.iloc[test if len(test) else train].head(_EXAMPLE_RECORDS)
    return Prepared(data, encoder, example, about)


def record_subgroups(config: BuildConfig, column: str, where: str) -> tuple[Subgroups, Subgroups]:
    """Return the subgroups of the rows of a library's validation table, and of its test records.

    Raises
    ------
    InputError
        A column that the data lack, or that tells no subgroups apart.
    """
    table = _table(config, where, column)
    subgroups, parts = subgroups_in(table.aside[column]), _parts(table, config, where)
    rows = parts.train[parts.rows] if parts.validation is None else parts.validation
    return subgroups._replace(codes=subgroups.codes[rows]), subgroups._replace(
        codes=subgroups.codes[parts.test]
    )


def searched_records(config: BuildConfig, where: str) -> tuple[pd.DataFrame, IntArray]:
    """Return the records that a pool is trained and measured on, raw, and their classes."""
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
    validation : int64 or None
        None: the training records are predicted out-of-fold.
    folds : tuple of (fitted, held_out, rows)
        As ``Fold`` has them.
    rows : int64 (N,)
        Of a cross-validation: which training record each row of the validation table is.
    units : int64 (N,), or None
        As ``Library.units``.
    fingerprint : str
        Of the columns that divide the records; empty for none.
    """

    train: IntArray
    validation: IntArray | None
    test: IntArray
    folds: tuple[tuple[IntArray, IntArray, IntArray], ...] = ()
    rows: IntArray = np.zeros(0, dtype=np.int64)
    units: IntArray | None = None
    fingerprint: str = ""


def _table(config: BuildConfig, where: str, subgroup: str | None = None) -> Table:
    return load_table(config.dataset, f"{where}.dataset", config.split.columns, subgroup)


def _parts(table: Table, config: BuildConfig, where: str) -> _Parts:
    """Divide the records of a table: by chance, by a group, or in time."""
    split = config.split
    if not split.columns:
        return _by_chance(table.labels, table.classes, config, where)
    rest, held_out = 1 - split.test, 0.5 if split.validation is None else split.validation
    validation = rest * held_out
    shares = SplitConfig(
        train=1 - split.test - validation,
        validation=validation,
        test=split.test,
        seed=split.seed,
        stratify=split.stratify,
        group=split.group,
        time=split.time,
        window=split.window,
    )
    measure = MeasureConfig(kind="holdout")
    if split.validation is None:
        measure = MeasureConfig(folds=config.folds, repeats=config.repeats)
    division = divide(table, shares, measure, where)
    parts = division.split
    if split.validation is not None:
        units = _codes(division.units[parts.validation])
        return _Parts(
            parts.train, parts.validation, parts.test, units=units, fingerprint=division.fingerprint
        )
    folds, rows = [], np.zeros(0, dtype=np.int64)
    for repeat in division.repeats:
        measured = np.sort(np.concatenate([fold.held_out for fold in repeat]))
        for fold in repeat:
            at = len(rows) + np.searchsorted(measured, fold.held_out)
            folds.append((fold.train, fold.held_out, at))
        rows = np.concatenate([rows, measured])
    units = _codes(division.units[parts.pooled[rows]])
    return _Parts(parts.pooled, None, parts.test, tuple(folds), rows, units, division.fingerprint)


def _codes(units: IntArray) -> IntArray | None:
    """Return units as codes from 0; None where each has one row."""
    codes = np.unique(units, return_inverse=True)[1].ravel()
    return None if codes.max(initial=-1) + 1 == len(codes) else codes


def _by_chance(
    strata: IntArray, classes: tuple[Any, ...] | None, config: BuildConfig, where: str
) -> _Parts:
    train, validation, test = _split(strata, config.split, classes, f"{where}.split")
    if validation is not None:
        return _Parts(train, validation, test)
    n, folds = len(train), []
    for repeat in range(config.repeats):
        setting = config.folds, config.seed, f"{where}.folds", classes, repeat
        for held_out in fold_records(strata[train], *setting):
            fitted = np.setdiff1d(np.arange(n), held_out)
            folds.append((fitted, held_out, repeat * n + held_out))
    rows = np.tile(np.arange(n), config.repeats)
    return _Parts(train, None, test, tuple(folds), rows, rows if config.repeats > 1 else None)


def _split(
    strata: IntArray, split: LibrarySplit, classes: tuple[Any, ...] | None, where: str
) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return training, validation (None: by cross-validation) and test records."""
    if split.folds is not None:
        fold_strata = strata if split.stratify else np.zeros_like(strata)
        folds = fold_records(fold_strata, split.folds, split.seed, f"{where}.folds", classes)
        test = folds[split.fold]
        rest = np.setdiff1d(np.arange(len(strata)), test)
    else:
        rest, test = _two_parts(strata, split.test, split, where)
    if split.validation is None:
        return rest, None, test
    train, validation = _two_parts(strata[rest], split.validation, split, where)
    return rest[train], rest[validation], test


def _two_parts(
    strata: IntArray, share: float, split: LibrarySplit, where: str
) -> tuple[IntArray, IntArray]:
    half = (1 - share) / 2  # the splitter's training and validation part are one here
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
    validation : float32 (n,) or (n, C)
        Each training record is predicted by a model that has not seen it; the validation records,
        where there are some, by the model itself.
    test : float32 (m,) or (m, C)
        Predicted by the model itself.
    seconds : float
        Taken by all of it.
    """

    content: bytes
    validation: Array
    test: Array
    seconds: float


Outcome = tuple[PoolPlan, Trained | str]  # a text says why there is none


def train(plan: PoolPlan, data: PoolData) -> Trained:
    """Train a model on all folds but one, for each fold, and then on all training records.

    One thread, so that the result is the same anywhere.

    Raises
    ------
    Exception
        Whatever the model raises; ValueError where a prediction is not finite.
    """
    from threadpoolctl import threadpool_limits

    family, start = FAMILIES[plan.family], time.perf_counter()
    codes = None if data.classes is None else range(len(data.classes))
    wide = data.classes is not None and len(data.classes) > 2
    records = len(data.y_table)
    shape = (records, len(data.classes or ())) if wide else (records,)
    held_out = np.full(shape, np.nan)
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
    """Yield each model when it is trained, or its error, in any order.

    Who trains changes nothing of the models.

    Parameters
    ----------
    workers, address, config
        Who trains: see :class:`framework.parallel.executor.Executor`.
    report : callable
        Called with one sentence: who trains, where it is Ray.

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
        if is_machine_failure(error):  # it has not failed: this machine has
            raise EnvironmentFailure(reason_of(error)) from error
        return f"{type(error).__name__}: {error}"
