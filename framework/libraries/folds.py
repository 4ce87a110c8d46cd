"""The data of a build: loaded, split, divided into folds and encoded once for all models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray, IntArray
from framework.data.encoding import Encoder
from framework.data.splits import SplitConfig, split_records
from framework.data.tables import Table, ValueTable, load_table, load_values
from framework.errors import InputError
from framework.libraries.config import BuildConfig, LibrarySplit

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
