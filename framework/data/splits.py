"""Splits: training, validation and test records, and folds of a cross-validation, by a seed.

A cross-validation (:class:`MeasureConfig`) pools the training and the validation records of a
split. Its folds are dealt by :func:`measure_folds`; the test records stay apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from framework.arrays import FloatArray, IntArray, frozen
from framework.errors import InputError
from framework.settings import Section

# keep these draws apart from a run's other streams of the same seed
_SPLITS = 71
_FOLDS = 79


class SplitConfig(Section):
    """The share of records in each part; ``stratify`` gives each part the same share of a class."""

    train: float = Field(default=0.5, gt=0, lt=1)
    validation: float = Field(default=0.25, gt=0, lt=1)
    test: float = Field(default=0.25, ge=0, lt=1)
    seed: int = Field(default=0, ge=0)
    stratify: bool = True

    @model_validator(mode="after")
    def _whole(self) -> SplitConfig:
        total = math.fsum((self.train, self.validation, self.test))
        if abs(total - 1) > 1e-9:
            raise ValueError(f"expected train + validation + test = 1, found {total:g}")
        return self


class MeasureConfig(Section):
    """What designs are measured on.

    kind : ``holdout``, the validation records, by classifiers that were fitted on the training
        records; or ``cross_validation``, the records of both, each by classifiers that were fitted
        on the other folds.
    folds : number of parts that the records are divided into; 5 unless given.
    repeats : how often they are divided anew, so that each record counts so many times; 1 unless
        given.
    refit : the model that is handed out is fitted on all these records: true, as yet the only way.
    """

    kind: Literal["holdout", "cross_validation"] = "holdout"
    folds: int | None = Field(default=None, ge=2)
    repeats: int | None = Field(default=None, ge=1)
    refit: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, raw: Any) -> Any:
        """Fill in what only a cross-validation has."""
        if not isinstance(raw, Mapping) or raw.get("kind") != "cross_validation":
            return raw
        given = {key: value for key, value in raw.items() if value is not None}
        return {"folds": 5, "repeats": 1, "refit": True, **given}

    @model_validator(mode="after")
    def _of_its_kind(self) -> MeasureConfig:
        given = [key for key in ("folds", "repeats", "refit") if getattr(self, key) is not None]
        if self.kind == "holdout" and given:
            raise ValueError(
                f"expected {' and '.join(given)} only with kind: cross_validation, found kind: "
                "holdout"
            )
        if self.refit is False:
            raise ValueError(
                "expected refit: true, found false; a model that is handed out is fitted on all "
                "records of the folds"
            )
        return self


class Split(NamedTuple):
    """The positions of the records in each of three disjoint parts, int64 and sorted."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split_records(labels: IntArray, config: SplitConfig, where: str = "problem.split") -> Split:
    """Split records into parts.

    Parameters
    ----------
    labels : int64 (n,)
        Class codes, from 0.
    config : SplitConfig
    where : str
        Key of the section, for messages.

    Raises
    ------
    InputError
        A part whose share is above 0 would be empty, or a class would have no training record.

    Notes
    -----
    Part sizes are rounded by largest remainders, in each class if stratified; what is left over
    goes to the part that lags most behind its share of all records so far.
    """
    rng = np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(config.seed, spawn_key=(_SPLITS,)))
    )
    shares = np.array([config.train, config.validation, config.test])
    groups = (
        [np.flatnonzero(labels == code) for code in np.unique(labels)]
        if config.stratify
        else [np.arange(len(labels))]
    )
    parts: list[list[IntArray]] = [[], [], []]
    lag = np.zeros(3)
    for members in groups:
        sizes = _sizes(len(members), shares, lag)
        lag += shares * len(members) - sizes
        pieces = np.split(rng.permutation(members), np.cumsum(sizes)[:-1])
        for part, piece in zip(parts, pieces, strict=True):
            part.append(piece)
    train, validation, test = (
        frozen(np.sort(np.concatenate(part)).astype(np.int64)) for part in parts
    )
    split = Split(train, validation, test)
    _check(split, labels, shares, where)
    return split


def _sizes(count: int, shares: FloatArray, lag: FloatArray) -> IntArray:
    """Return how many of ``count`` records each part gets."""
    exact = np.round(count * shares, 9)
    sizes = np.floor(exact).astype(np.int64)
    remainder = np.round(exact - sizes, 9)
    order = np.lexsort((np.arange(3), -np.round(lag, 9), -remainder))
    sizes[order[: count - int(sizes.sum())]] += 1
    return sizes


def _check(split: Split, labels: IntArray, shares: FloatArray, where: str) -> None:
    for name, part, share in zip(Split._fields, split, shares, strict=True):
        if share > 0 and len(part) == 0:
            raise InputError(
                f"{where}: expected records in the {name} part, found none of {len(labels)}; "
                f"raise {name}"
            )
    lost = np.setdiff1d(labels, labels[split.train])
    if len(lost):
        raise InputError(
            f"{where}: expected training records of every class, found none of class "
            f"{int(lost[0])} (counted from 0); raise train, stratify, or choose another seed"
        )


def fold_records(
    strata: IntArray,
    count: int,
    seed: int,
    where: str = "folds",
    classes: Sequence[Any] | None = None,
    repeat: int = 0,
) -> list[IntArray]:
    """Divide records into folds: those of each stratum are dealt out in turn, in a random order.

    Parameters
    ----------
    strata : int64 (n,)
        Class codes, from 0, or all zero.
    count : int
        Of folds.
    where : str
        Key of the section, for messages.
    classes : sequence, optional
        Labels by code, where the strata are classes: of each, two records are needed.
    repeat : int
        Number of the division, where the records are divided more than once.

    Returns
    -------
    list of int64 arrays
        Positions of the records, sorted, in ``count`` disjoint parts.

    Raises
    ------
    InputError
        Fewer than two records for each fold, or a class with one record, which a fold would take
        away.
    """
    if len(strata) < 2 * count:
        raise InputError(
            f"{where}: expected two training records or more for each of {count} folds, found "
            f"{len(strata)} in all; lower folds"
        )
    key = (_FOLDS, repeat) if repeat else (_FOLDS,)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    fold_of = np.empty(len(strata), dtype=np.int64)
    dealt = 0
    for code in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == code))
        if len(members) < 2 and classes is not None:
            raise InputError(
                f"{where}: expected two training records or more of each class, found one of "
                f"{classes[code]!r}; lower split.test or remove that class"
            )
        # the next class goes on where this one ended, so that folds differ by one record at most
        fold_of[members] = (dealt + np.arange(len(members))) % count
        dealt += len(members)
    return [np.flatnonzero(fold_of == fold) for fold in range(count)]


def measure_folds(
    labels: IntArray,
    measure: MeasureConfig,
    seed: int,
    classes: Sequence[Any],
    where: str = "problem.measure",
) -> IntArray:
    """Return the fold of each record in each repeat of a cross-validation.

    Parameters
    ----------
    labels : int64 (n,)
        Class codes of the pooled training and validation records.
    measure : MeasureConfig
        Of kind ``cross_validation``.
    seed : int
        Of the split.
    classes : sequence
        Labels, by class code.
    where : str
        Key of the section, for messages.

    Returns
    -------
    int64 (repeats, n)
        From 0. Each class is spread evenly over the folds.

    Raises
    ------
    InputError
        A class has fewer records than there are folds.
    """
    assert measure.folds is not None  # filled in with the kind
    assert measure.repeats is not None
    counts = np.bincount(labels, minlength=len(classes))
    least = int(counts.argmin())
    if counts[least] < measure.folds:
        raise InputError(
            f"{where}.folds: expected at most the {counts[least]} training and validation records "
            f"of class {classes[least]!r}, found {measure.folds}; lower folds, or split.test"
        )
    fold_of = np.empty((measure.repeats, len(labels)), dtype=np.int64)
    for repeat in range(measure.repeats):
        found = fold_records(labels, measure.folds, seed, f"{where}.folds", classes, repeat)
        for number, members in enumerate(found):
            fold_of[repeat, members] = number
    return fold_of
