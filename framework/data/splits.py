"""The division of a data set into training, validation and test records, by a seed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from framework.arrays import FloatArray, IntArray, frozen
from framework.errors import InputError
from framework.settings import Section

_STREAM = 71  # keeps the draws of splits apart from a run's other streams of the same seed


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
        np.random.PCG64(np.random.SeedSequence(config.seed, spawn_key=(_STREAM,)))
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
