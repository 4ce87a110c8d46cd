"""Splits: training, validation and test records, and folds of a cross-validation, by a seed.

A cross-validation (:class:`MeasureConfig`) pools the training and the validation records of a
split. Its folds are dealt by :func:`measure_folds`; the test records stay apart. What belongs
together, such as the records of a patient, is one *unit* and is never divided. For tables see
:mod:`framework.data.divisions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from framework.arrays import BoolArray, FloatArray, IntArray, frozen
from framework.errors import InputError
from framework.settings import Section, SectionOfKind
from framework.streams import stream

FOLDS = 5  # of a cross-validation, unless given

# keep these draws apart from a run's other streams of the same seed
_SPLITS = 71
_FOLDS = 79
_COLUMNS = ("group", "time", "part", "fold")  # keys of a split that name columns


class SplitConfig(Section):
    """How records are divided into training, validation and test records.

    train, validation, test : shares of the records.
    seed : of the shuffle.
    stratify : whether each part has each class's share.
    group : a column; its records of one value, a patient's or a molecule's, are in one part and in
        one fold.
    time : a column of numbers or dates; the parts follow each other, and so do the folds, each of
        which is measured by classifiers that were fitted on earlier records. A group is as late as
        its last record.
    window : with time, what a fold is fitted on: all records before it (``growing``, the default),
        or as many as there are in a fold, those right before it (``sliding``).
    part : a column that names the part of each record: train, validation or test.
    fold : a column that names the fold of each record of a cross-validation.
    copies : whether records whose features are all equal stay together. By default they do in a
        cross-validation without ``time``, and not in a holdout.
    """

    train: float = Field(default=0.5, gt=0, lt=1)
    validation: float = Field(default=0.25, gt=0, lt=1)
    test: float = Field(default=0.25, ge=0, lt=1)
    seed: int = Field(default=0, ge=0)
    stratify: bool = True
    group: str | None = None
    time: str | None = None
    window: Literal["growing", "sliding"] | None = None
    part: str | None = None
    fold: str | None = None
    copies: Literal["together", "apart"] | None = None

    @model_validator(mode="after")
    def _whole(self) -> SplitConfig:
        total = math.fsum((self.train, self.validation, self.test))
        if abs(total - 1) > 1e-9:
            raise ValueError(f"expected train + validation + test = 1, found {total:g}")
        if self.window is not None and self.time is None:
            raise ValueError(f"expected window only with time, found window: {self.window} alone")
        if self.time is not None and (self.part or self.fold):
            raise ValueError(
                "expected time without part or fold, found both; time divides the records itself"
            )
        if self.time is not None and self.copies == "together":
            raise ValueError(
                "expected copies: apart with time, found together; a copy may come again later"
            )
        return self

    @property
    def columns(self) -> dict[str, str]:
        """The columns that keys name, by key: they are no features."""
        return {key: getattr(self, key) for key in _COLUMNS if getattr(self, key) is not None}


class MeasureConfig(SectionOfKind):
    """What candidates are measured on.

    kind : ``cross_validation``, the training and the validation records, each by classifiers that
        were fitted on the other folds; or ``holdout``, the validation records, by classifiers that
        were fitted on the training records.
    folds : number of parts that the records are divided into; 5 unless given.
    repeats : how often they are divided, so that each record counts so many times; 1 unless given.
    refit : the model that is handed out is fitted on all these records; true is the only value.
    """

    kind: Literal["holdout", "cross_validation"] = "cross_validation"
    folds: int | None = Field(default=None, ge=2)
    repeats: int | None = Field(default=None, ge=1)
    refit: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, raw: Any) -> Any:
        """Fill in the keys that only a cross-validation has."""
        crossed = "cross_validation"
        if not isinstance(raw, Mapping) or raw.get("kind", crossed) != crossed:
            return raw
        filled = {key: value for key, value in raw.items() if value is not None}
        return {"folds": FOLDS, "repeats": 1, "refit": True, **filled}

    @model_validator(mode="after")
    def _of_its_kind(self) -> MeasureConfig:
        fold_keys = [key for key in ("folds", "repeats", "refit") if getattr(self, key) is not None]
        if self.kind == "holdout" and fold_keys:
            raise ValueError(
                f"expected {' and '.join(fold_keys)} only with kind: cross_validation, found kind: "
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

    @property
    def pooled(self) -> IntArray:
        """Training and validation records together, sorted."""
        return np.sort(np.concatenate([self.train, self.validation]))


def as_split(part_of: IntArray) -> Split:
    """Return the parts, from the number (n,) of each record's part: 0, 1 or 2."""
    return Split(*(frozen(np.flatnonzero(part_of == part)) for part in range(3)))


def split_records(
    labels: IntArray,
    config: SplitConfig,
    where: str = "problem.split",
    units: IntArray | None = None,
) -> Split:
    """Split records into parts by chance.

    Parameters
    ----------
    labels : int64 (n,)
        Class codes, from 0.
    config : SplitConfig
        Only its shares, ``seed`` and ``stratify`` are used.
    units : int64 (n,), optional
        Codes, from 0, of units that no part divides; each record is a unit of its own if None.

    Raises
    ------
    InputError
        A part whose share is above 0 would be empty, or a class would have no training record.

    Notes
    -----
    Part sizes are rounded by largest remainders, in each class if stratified. Of equal remainders,
    that of the part which lags most behind its share in the classes before counts as the largest.
    """
    rng = stream(config.seed, _SPLITS)
    shares = np.array([config.train, config.validation, config.test])
    strata = labels if config.stratify else np.zeros_like(labels)
    unit = np.arange(len(labels)) if units is None else units
    wanted = int((shares > 0).sum())
    if unit.max() + 1 < wanted:
        raise InputError(
            f"{where}: expected a group for each of {wanted} parts, found {unit.max() + 1} in all"
        )
    split = as_split(_dealt(strata, unit, shares, rng))
    check_split(split, labels, shares, where)
    return split


def _dealt(
    strata: IntArray, units: IntArray, shares: FloatArray, rng: np.random.Generator
) -> IntArray:
    """Return the part (n,) of each record; no unit is in two.

    Units of several records are dealt first; then single records fill up what each part lacks.
    """
    strata = np.unique(strata, return_inverse=True)[1].ravel()
    sizes = np.bincount(units)
    lack = shares[:, np.newaxis] * np.bincount(strata)  # records by part and stratum
    together = sizes[units] > 1
    part_of = np.full(len(units), -1, dtype=np.int64)
    if together.any():
        part_of[together] = _dealt_together(strata, units, together, shares, lack, rng)
    lag = np.zeros(len(shares))  # by how many records rounding has put each part behind so far
    for stratum in range(lack.shape[1]):
        single = np.flatnonzero((strata == stratum) & ~together)
        shares_of_single = shares
        if together.any():
            lacking = np.maximum(lack[:, stratum], 0.0)
            shares_of_single = lacking / lacking.sum() if len(single) else lacking
        counts = _sizes(len(single), shares_of_single, lag)
        lag += shares_of_single * len(single) - counts
        part_of[rng.permutation(single)] = np.repeat(np.arange(len(shares)), counts)
    return part_of


def _dealt_together(
    strata: IntArray,
    units: IntArray,
    together: BoolArray,
    shares: FloatArray,
    lack: FloatArray,
    rng: np.random.Generator,
) -> IntArray:
    """Return the parts of the records that are not alone in their unit; take them off ``lack``.

    Large units are dealt before small ones, and units between the same powers of two in random
    order. Each goes to the part that lacks most of its strata, counted in shares of a stratum.
    """
    totals = np.bincount(strata)
    several, unit = np.unique(units[together], return_inverse=True)
    content = np.zeros((len(several), len(totals)))  # records by unit and stratum
    np.add.at(content, (unit, strata[together]), 1.0)
    part_of_unit = np.empty(len(several), dtype=np.int64)
    order = rng.permutation(len(several))
    magnitude = np.frexp(content.sum(axis=1)[order])[1]
    for i in order[np.argsort(-magnitude, kind="stable")]:
        # sum over strata of lack/total * content/total, rounded so that noise decides no ties
        gain = np.round((lack * content[i] / totals**2).sum(axis=1), 12)
        part = int(np.where(shares > 0, gain, -np.inf).argmax())
        lack[part] -= content[i]
        part_of_unit[i] = part
    return part_of_unit[unit.ravel()]


def _sizes(count: int, shares: FloatArray, lag: FloatArray) -> IntArray:
    """Return how many of ``count`` records each part gets: see the notes of ``split_records``."""
    exact = np.round(count * shares, 9)
    sizes = np.floor(exact).astype(np.int64)
    remainder = np.round(exact - sizes, 9)
    order = np.lexsort((np.arange(len(shares)), -np.round(lag, 9), -remainder))
    sizes[order[: count - int(sizes.sum())]] += 1
    return sizes


def check_split(split: Split, labels: IntArray, shares: FloatArray, where: str) -> None:
    """Refuse an empty part whose share is above 0, and training records that lack a class."""
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
    units: IntArray | None = None,
) -> IntArray:
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
        Labels by code, if the strata are classes: each needs two records then.
    repeat : int
        Number of the division, where the records are divided more than once.
    units : int64 (n,), optional
        Codes of units that no fold divides; each record is a unit of its own if None.

    Returns
    -------
    int64 (n,)
        The fold of each record, from 0.

    Raises
    ------
    InputError
        There are fewer than two records for each fold, a class has one record, which its fold would
        take away from the others, or units do not fill the folds.
    """
    if len(strata) < 2 * count:
        raise InputError(
            f"{where}: expected two training records or more for each of {count} folds, found "
            f"{len(strata)} in all; lower folds"
        )
    rng = stream(seed, _FOLDS, repeat) if repeat else stream(seed, _FOLDS)
    if units is not None:
        _, unit = np.unique(units, return_inverse=True)
        if unit.max() + 1 < count:
            raise InputError(
                f"{where}: expected at most the {unit.max() + 1} groups (or different records) of "
                f"the training and validation records, found {count}; lower folds"
            )
        if unit.max() + 1 < len(unit):
            folds = _dealt(strata, unit.ravel(), np.full(count, 1 / count), rng)
            filled = len(np.unique(folds))
            if filled < count:
                raise InputError(
                    f"{where}: expected groups (or copies) of records that fill {count} folds, "
                    f"found that large ones fill {filled}; lower folds"
                )
            return folds
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
    return fold_of


def measure_folds(
    labels: IntArray,
    measure: MeasureConfig,
    seed: int,
    classes: Sequence[Any],
    where: str = "problem.measure",
    units: IntArray | None = None,
) -> IntArray:
    """Return the fold of each record in each repeat of a cross-validation, int64 (repeats, n).

    ``labels`` are of the pooled training and validation records; see :func:`fold_records`.

    Raises
    ------
    InputError
        A class has fewer records than there are folds; see also :func:`fold_records`.
    """
    assert measure.folds is not None  # filled in with the kind
    assert measure.repeats is not None
    counts = np.bincount(labels, minlength=len(classes))
    least = int(counts.argmin())
    if counts[least] < measure.folds:
        others = np.sort(counts)[:-1]  # than the largest class
        helps = others[others < 10 * measure.folds].sum() >= measure.folds
        merge = "merge rare classes with dataset.merge_rare, or " if helps else ""
        raise InputError(
            f"{where}.folds: expected at most the {counts[least]} training and validation records "
            f"of class {classes[least]!r}, found {measure.folds}; lower folds, or split.test, or "
            f"{merge}remove its records"
        )
    setting = measure.folds, seed, f"{where}.folds", classes
    return np.stack(
        [fold_records(labels, *setting, repeat, units) for repeat in range(measure.repeats)]
    )
