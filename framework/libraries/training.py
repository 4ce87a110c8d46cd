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
from framework.data.encoding import Encoder
from framework.data.splits import SplitConfig, fold_records, split_records
from framework.data.subgroups import Subgroups, subgroups
from framework.data.tables import Table, ValueTable
from framework.errors import ClusterError, EnvironmentFailure
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
        All training records, with an encoder fitted on the records outside the fold.
    held_out : int64 (h,)
        Records of the fold, sorted.
    repeat : int
        Which of the divisions into folds it belongs to.
    """

    design: FloatArray
    held_out: IntArray
    repeat: int = 0


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
    repeats : how often the training records are divided into folds.
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
    repeats: int = 1

    @property
    def y_table(self) -> Array:
        """Classes or values of the records of the library's validation table."""
        if self.y_validation is not None:
            return self.y_validation
        return np.tile(self.y, self.repeats) if self.repeats > 1 else self.y

    @property
    def units(self) -> IntArray | None:
        """Which record each row of the validation table is of, where some have several rows."""
        return np.tile(np.arange(len(self.y)), self.repeats) if self.repeats > 1 else None


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
        source = table = load_table(config.dataset, f"{where}.dataset")
        y, strata, classes = table.labels, table.labels, table.classes
    else:
        source = values = load_values(config.dataset, f"{where}.dataset")
        y, strata = values.values, np.zeros(len(values.values), dtype=np.int64)
    train, validation, test = _split(strata, config.split, classes, f"{where}.split")
    folds: list[tuple[IntArray, int]] = []
    repeats = config.repeats if validation is None else 1
    for repeat in range(repeats if validation is None else 0):
        place = f"{where}.folds"
        found = fold_records(strata[train], config.folds, config.seed, place, classes, repeat)
        folds += [(held_out, repeat) for held_out in found]
    features = source.features.iloc[train]
    encoder = source.fit_encoder(features)

    def fold(held_out: IntArray, repeat: int) -> Fold:
        # fitted without the fold, lest its records be known before they are predicted
        others = np.setdiff1d(np.arange(len(features)), held_out)
        design = source.fit_encoder(features.iloc[others]).transform(features)
        return Fold(design, held_out, repeat)

    data = PoolData(
        task=config.task,
        y=y[train],
        y_test=y[test],
        classes=classes,
        design=encoder.transform(features),
        test=encoder.transform(source.features.iloc[test]),
        folds=tuple(fold(*part) for part in folds),
        validation=None
        if validation is None
        else encoder.transform(source.features.iloc[validation]),
        y_validation=None if validation is None else y[validation],
        repeats=repeats,
    )
    about = {
        **source.about(),
        "training_records": len(train),
        **({} if validation is None else {"validation_records": len(validation)}),
        "test_records": len(test),
        "features": len(encoder.feature_names),
    }
    example = source.features.iloc[test if len(test) else train].head(_EXAMPLE_RECORDS)
    return Prepared(data, encoder, example, about)


def record_groups(config: BuildConfig, column: str, where: str) -> tuple[Subgroups, Subgroups]:
    """Return the subgroups of the rows of a library's validation table, and of its test records.

    Raises
    ------
    InputError
        A column that the data lack, or that tells no subgroups apart.
    """
    table = load_table(config.dataset, f"{where}.dataset", group=column)
    found = subgroups(table.aside[column])
    train, validation, test = _split(table.labels, config.split, table.classes, f"{where}.split")
    rows = np.tile(train, config.repeats) if validation is None else validation
    return found._replace(codes=found.codes[rows]), found._replace(codes=found.codes[test])


def _split(
    strata: IntArray, split: LibrarySplit, classes: tuple[Any, ...] | None, where: str
) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return training, validation (None: by cross-validation) and test records."""
    if split.folds is not None:
        groups = strata if split.stratify else np.zeros_like(strata)
        folds = fold_records(groups, split.folds, split.seed, f"{where}.folds", classes)
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
            others = np.setdiff1d(np.arange(len(data.y)), fold.held_out)
            model = family.make(plan, data.task).fit(fold.design[others], data.y[others])
            rows = fold.repeat * len(data.y) + fold.held_out
            held_out[rows] = predictions(model, fold.design[fold.held_out], codes)
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
