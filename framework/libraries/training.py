"""Trains the models of a pool in this process or on Ray workers, with the same results."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray, IntArray
from framework.data.datasets import load_table, load_values
from framework.data.encoding import Encoder
from framework.data.splits import SplitConfig, split_records
from framework.data.tables import Table, ValueTable
from framework.errors import ClusterError, EnvironmentFailure, InputError
from framework.libraries.config import BuildConfig, LibrarySplit
from framework.libraries.members import predictions
from framework.libraries.pool import FAMILIES, PoolPlan
from framework.machine import is_machine_failure, reason_of
from framework.models.estimators import dump_estimator
from framework.parallel.choice import ray_pays, uses_ray
from framework.parallel.config import ClusterConfig

Say = Callable[[str], None]

_TRY = 4.0  # seconds of training here before it is known what the rest will take


def train_all(
    plans: Sequence[PoolPlan],
    data: PoolData,
    *,
    workers: str | int,
    address: str | None,
    report: Say,
    config: ClusterConfig | None = None,
) -> Iterator[Outcome]:
    """Yield each model when it is trained, or its error, in any order.

    Parameters
    ----------
    workers : 'serial', 'auto', 'all' or int
        ``auto`` starts here and moves to Ray where much is left.
    address : str, optional
        A running Ray cluster to join; Ray is used then.
    report : callable
        Called with one sentence: who trains.
    config : ClusterConfig, optional
        How workers run on Ray.

    Raises
    ------
    ClusterError
        No worker can be started, or no node can train a model: its disk is full, say.
    EnvironmentFailure
        This machine cannot.
    """
    left = list(plans)
    if not uses_ray(workers, address):
        start = time.perf_counter()
        while left and not _worth_ray(workers, start, len(plans) - len(left), len(left)):
            plan = left.pop(0)
            yield plan, _attempt(plan, data)
    if left:
        count = workers if isinstance(workers, int) else None
        yield from _on_ray(left, data, count, address, config or ClusterConfig(), report)


def _worth_ray(workers: str | int, start: float, done: int, left: int) -> bool:
    spent = time.perf_counter() - start
    return spent >= _TRY and ray_pays(workers, spent / done * left)


def _attempt(plan: PoolPlan, data: PoolData) -> Trained | str:
    try:
        return train(plan, data)
    except Exception as error:  # a model that fails is recorded and left out
        if is_machine_failure(error):  # it has not failed: this machine has
            raise EnvironmentFailure(reason_of(error)) from error
        return f"{type(error).__name__}: {error}"


class Trainer:
    """What a worker holds: the data."""

    def __init__(self, data: PoolData) -> None:
        self._data = data

    def train(self, plan: PoolPlan) -> Trained | str:
        """Train a model, or say why it cannot be."""
        return _attempt(plan, self._data)


def _on_ray(
    plans: Sequence[PoolPlan],
    data: PoolData,
    workers: int | None,
    address: str | None,
    config: ClusterConfig,
    report: Say,
) -> Iterator[Outcome]:
    from framework.parallel.cluster import cluster
    from framework.parallel.each import Each

    with (
        cluster(workers, address, config) as joined,
        closing(
            Each(Trainer(data), "train", workers=joined.workers, config=config, pure=True)
        ) as each,
    ):
        report(f"trained by {joined.description}")
        queue, under_way = deque(plans), 0
        while queue or under_way:
            while queue and under_way < 2 * max(1, each.pool.size):  # results wait in little memory
                each.submit(plan := queue.popleft(), plan)
                under_way += 1
            plan, answer = each.collect()
            under_way -= 1
            if isinstance(answer, EnvironmentFailure):
                raise ClusterError(
                    f"no node can train {plan.id} ({answer.reason}); put that right where workers "
                    "run and build again: what is trained is kept"
                )
            yield plan, str(answer) if isinstance(answer, Exception) else answer


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
    asked = len(data.asked)
    shape = (asked, len(data.classes or ())) if wide else (asked,)
    held_out = np.full(shape, np.nan)
    final = family.make(plan, data.task)  # loads what it needs before the threads are limited
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged is a model too
        for fold in data.folds:
            others = np.setdiff1d(np.arange(len(data.y)), fold.held)
            model = family.make(plan, data.task).fit(fold.design[others], data.y[others])
            held_out[fold.held] = predictions(model, fold.design[fold.held], codes)
        final.fit(data.design, data.y)
        if data.validation is not None:
            held_out[:] = predictions(final, data.validation, codes)
        if len(data.test):
            test = predictions(final, data.test, codes)
        else:
            test = np.empty((0, *held_out.shape[1:]))
        content = dump_estimator(final, plan.id)
    if not (np.isfinite(held_out).all() and np.isfinite(test).all()):
        raise ValueError("it predicts values that are not finite")
    seconds = time.perf_counter() - start
    return Trained(content, held_out.astype(np.float32), test.astype(np.float32), seconds)


_EXAMPLE_RECORDS = 5
_STREAM = 79  # keeps the draw of folds apart from other streams of the same seed


class Fold(NamedTuple):
    """One part of a cross-validation.

    Attributes
    ----------
    design : float64 (n, d)
        All training records, with an encoder fitted on the records outside the fold.
    held : int64 (h,)
        Records of the fold, sorted.
    """

    design: FloatArray
    held: IntArray


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

    @property
    def asked(self) -> Array:
        """Classes or values of the records of the validation table."""
        return self.y if self.y_validation is None else self.y_validation


class Prepared(NamedTuple):
    """The data of a build, their encoder, a few raw records, and a description of the data."""

    data: PoolData
    encoder: Encoder
    example: pd.DataFrame
    about: dict[str, Any]


def prepare(config: BuildConfig, where: str) -> Prepared:
    """Load, split, fold and encode.

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
    folds: list[IntArray] = []
    if validation is None:
        folds = _folds(strata[train], config.folds, config.seed, classes, f"{where}.folds")
    features, fit = source.features.iloc[train], source.fit_encoder
    encoder = fit(features)
    data = PoolData(
        task=config.task,
        y=y[train],
        y_test=y[test],
        classes=classes,
        design=encoder.transform(features),
        test=encoder.transform(source.features.iloc[test]),
        folds=tuple(_encoded(features, fit, held) for held in folds),
        validation=None
        if validation is None
        else encoder.transform(source.features.iloc[validation]),
        y_validation=None if validation is None else y[validation],
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


def _encoded(
    features: pd.DataFrame, fit: Callable[[pd.DataFrame], Encoder], held: IntArray
) -> Fold:
    others = np.setdiff1d(np.arange(len(features)), held)
    encoder = fit(features.iloc[others])
    return Fold(encoder.transform(features), held)


def _split(
    strata: IntArray,
    split: LibrarySplit,
    classes: tuple[Any, ...] | None,
    where: str,
) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return training, validation (None: by cross-validation) and test records."""
    if split.folds is not None:
        groups = strata if split.stratify else np.zeros_like(strata)
        test = _folds(groups, split.folds, split.seed, classes, f"{where}.folds")[split.fold]
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


def _folds(
    strata: IntArray, count: int, seed: int, classes: tuple[Any, ...] | None, where: str
) -> list[IntArray]:
    """Deal the records of each class out to the folds in turn, in a random order.

    Raises
    ------
    InputError
        Fewer records than folds, or a class with one record, which a fold would take away.
    """
    if len(strata) < 2 * count:
        raise InputError(
            f"{where}: expected two training records or more for each of {count} folds, found "
            f"{len(strata)} in all; lower folds"
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    fold_of = np.empty(len(strata), dtype=np.int64)
    dealt = 0
    for code in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == code))
        if len(members) < 2 and classes is not None:
            raise InputError(
                f"{where}: expected two training records or more of each class, found one of "
                f"{classes[code]!r}; lower split.test or remove that class"
            )
        fold_of[members] = (dealt + np.arange(len(members))) % count
        dealt += len(members)
    return [np.flatnonzero(fold_of == fold) for fold in range(count)]
