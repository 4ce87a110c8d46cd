"""What each record contributes to the metrics of candidates: one protocol for every resample.

A problem that knows how a candidate does on each record can score it again under any weights of
the records: bootstrap resamples, the records that a resample left out, subgroups. The same
mechanism therefore tells how far a figure may be off, how much of it is the luck of the search,
and whether the records tell two candidates apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError

_TOTAL = 2**24  # what fractional weights add up to after they are made whole
_TOGETHER = 1 << 15  # records that are multiplied at a time: a copy of all would fill the memory
_EXACT_SINGLE, _EXACT_DOUBLE = 2**24, 2**53  # floats hold whole numbers up to here exactly
_LARGEST = 2**63  # int64 ends here

Which = slice | IntArray  # positions of candidates
ALL = slice(None)
Names = Collection[str] | None  # of metrics; all if None
Values = Mapping[str, FloatArray]
"""Values of candidates under b weights, by metric, shape (candidates, b) each."""

Figures = tuple[Values, Values]
"""Metrics, and the share of the records that each one is taken over."""


class Sample(NamedTuple):
    """A mean over records that a certificate can bound.

    Attributes
    ----------
    mean : float
    records : int
        How many records the mean is over.
    high : float
        The highest value that a record can have; the least is 0.
    share : bool
        Whether each record has either 0 or ``high``, so that the sum is binomial.
    """

    mean: float
    records: int
    high: float = 1.0
    share: bool = True

    @classmethod
    def share_of(cls, hits: BoolArray, among: BoolArray) -> Sample:
        """Return the share of hits among the marked records, both (n,); 0 if none is marked."""
        count = int(among.sum())
        return cls(int((hits & among).sum()) / max(count, 1), count)

    @classmethod
    def mean_of(cls, values: FloatArray, high: float) -> Sample:
        """Return the mean of values (n,) from 0 to ``high``."""
        return cls(math.fsum(values) / max(len(values), 1), len(values), high, share=False)


class RecordOutcomes(ABC):
    """How candidates did on each record that the search was scored on.

    Parameters
    ----------
    candidates, records : int
        How many there are.
    names : sequence of str
        The metrics that can be computed.
    units : numpy.ndarray of int64, shape (records,), optional
        The code, from 0, of each record's sampling unit: a resample draws the records of a unit
        together, such as all records of a patient or the copies of a record. Each record is a
        unit of its own if None.

    Attributes
    ----------
    candidates, records, names, units
    refitted : bool
        Whether the exported model is fitted anew on the records of several folds, so that it is
        not one of the models that were measured.
    counted : numpy.ndarray of int64, shape (records,), optional
        A factor that every weight of a record is multiplied by; 1 if None.
    """

    refitted: bool = False
    counted: IntArray | None = None

    def __init__(
        self, candidates: int, records: int, names: Collection[str], units: IntArray | None = None
    ) -> None:
        self.candidates, self.records, self.names = candidates, records, tuple(names)
        self.units = np.arange(records) if units is None else np.asarray(units, dtype=np.int64)

    @abstractmethod
    def metrics(self, weights: Array, candidates: Which = ALL, names: Names = None) -> Values:
        """Return the metrics of candidates under weights of the records.

        With weights of 1 they equal those of ``Problem.evaluate``, to the bit. With other weights
        they are those of a problem in which each record is repeated as often as its weight says.

        Parameters
        ----------
        weights : numpy.ndarray, shape (records, b)
            How often each record counts in each of ``b`` cases; whole numbers of at least 0.
        candidates : slice or numpy.ndarray of int64
            Which candidates; all by default.
        names : collection of str, optional
            Which metrics; all if None. More may be returned.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (candidates, b)
            Natural sign and unit; NaN where a candidate cannot be evaluated.
        """

    def figures(
        self, weights: Array, candidates: Which = ALL, names: Names = None, *, squares: bool = False
    ) -> Figures:
        """Return :meth:`metrics`, and the share of the records that each one is taken over.

        Arguments and shapes are those of :meth:`metrics`. With ``squares`` there are two columns of
        weights, 1 and how often a record counts: a share that is the least of several parts, such
        as of a class, is that of the part with the least square of the first share over the second,
        which is the part that is known least. A metric over all records may be missing
        among the shares. The accuracy of the answers, for example, is taken over the records with
        an answer: from three of them it is less certain than from 400.
        """
        return self.metrics(weights, candidates, names), {}

    def figures_of_folds(
        self, fold_of: IntArray, unions: BoolArray, names: Collection[str], candidates: Which = ALL
    ) -> Figures:
        """Return :meth:`figures` on unions of folds, shape (candidates, b).

        Parameters
        ----------
        fold_of : numpy.ndarray of int64, shape (records,)
            The fold of each record.
        unions : numpy.ndarray of bool, shape (folds, b)
            Which folds are in each of ``b`` unions.
        names : collection of str
            Metrics.
        candidates : slice or numpy.ndarray of int64
            Which candidates; all by default.
        """
        return self.figures(unions[fold_of].astype(np.float32), candidates, names)

    def chance(self, weights: Array, candidates: Which = ALL) -> Values:
        """Return how far subgroups part by chance alone, by difference, shape (candidates, b).

        That is what the difference would be if each subgroup had, under the first column of
        ``weights`` (records, b), the same value: the greatest difference of two subgroups in how
        far their values under a column are above those under the first one.
        """
        return {}

    def ends(self, candidates: Which = ALL) -> Mapping[str, tuple[FloatArray, FloatArray]]:
        """Return the least and the highest value of a single record, shape (candidates,) each.

        Only metrics that are means of the records' values are listed. Metrics whose values are
        shares, from 0 to 1, may be missing.
        """
        return {}


class WeightedOutcomes(RecordOutcomes):
    """Outcomes whose records have weights of their own, such as sample or class weights.

    Parameters
    ----------
    base : RecordOutcomes
    units : numpy.ndarray of int64, shape (records,)
        How often each record counts: see :func:`whole_weights`.
    """

    def __init__(self, base: RecordOutcomes, units: IntArray) -> None:
        super().__init__(base.candidates, base.records, base.names, base.units)
        self.refitted = base.refitted
        self._base, self._units = base, units
        self.counted = units if base.counted is None else units * base.counted

    def metrics(self, weights: Array, candidates: Which = ALL, names: Names = None) -> Values:
        return self._base.metrics(self._drawn(weights), candidates, names)

    def figures(
        self, weights: Array, candidates: Which = ALL, names: Names = None, *, squares: bool = False
    ) -> Figures:
        return self._base.figures(self._drawn(weights), candidates, names, squares=squares)

    def chance(self, weights: Array, candidates: Which = ALL) -> Values:
        return self._base.chance(self._drawn(weights), candidates)

    def _drawn(self, weights: Array) -> FloatArray:
        return weights.astype(np.float64) * self._units[:, None]

    def ends(self, candidates: Which = ALL) -> Mapping[str, tuple[FloatArray, FloatArray]]:
        return self._base.ends(candidates)


class Refits(NamedTuple):
    """What the models of a cross-validation and the exported models do on all its records.

    Attributes
    ----------
    models : iterable of RecordOutcomes
        One for each fold, of the models fitted without it; then one of the models fitted on all
        folds, which are exported. They are read once and in turn, because each takes much memory.
    fold_of : numpy.ndarray of int64, shape (records,)
        The fold of each record.
    """

    models: Iterable[RecordOutcomes]
    fold_of: IntArray


def whole_weights(weights: FloatArray) -> IntArray:
    """Return weights of records as whole numbers, so that sums of them are exact.

    Whole numbers that add up to at most 2^24 are returned unchanged. Others are scaled to a sum of
    about 2^24 and rounded; a weight above 0 becomes at least 1.
    """
    if (weights == np.rint(weights)).all() and weights.sum() <= _TOTAL:
        return weights.astype(np.int64)
    units = np.rint(weights * (_TOTAL / weights.sum())).astype(np.int64)
    return np.where(weights > 0, np.maximum(units, 1), 0)


def weighted_sums(plane: Array, weights: Array, most: float | None = None) -> FloatArray:
    """Return ``plane @ weights`` of whole numbers of at least 0, without rounding.

    Parameters
    ----------
    plane : numpy.ndarray, shape (candidates, records)
    weights : numpy.ndarray, shape (records, b)
    most : float, optional
        The greatest column sum of the weights. Computing it takes as long as a product, so callers
        that know it pass it.

    Returns
    -------
    numpy.ndarray of float64, shape (candidates, b)

    Raises
    ------
    InputError
        A sum might reach 2^63.

    Notes
    -----
    The product is computed in float32 where sums stay below 2^24, in float64 below 2^53, and else
    in int64. All three are exact whatever the order of adding, so the result is the same on every
    machine and with any number of threads. One thread multiplies: the matrices are small, and
    threads that wait for each other took three times the processor time.
    """
    greatest = 1 if plane.dtype == bool else int(plane.max(initial=0))
    if most is None:
        most = float(weights.sum(axis=0, dtype=np.float64).max(initial=0))
    highest = greatest * int(most)
    if highest >= _LARGEST:
        raise InputError(
            "costs: expected sums over all records below 2^63 of the units that they are counted "
            f"in, found up to {highest:.3g}; divide all costs by the same number, or take weights "
            "and shares of classes that are nearer to each other"
        )
    kind: type = np.int64
    if highest < _EXACT_DOUBLE:
        kind = np.float32 if highest < _EXACT_SINGLE else np.float64

    def product(start: int) -> Array:
        some = slice(start, start + _TOGETHER)
        left: Array = plane[:, some].astype(kind, copy=False)
        right: Array = weights[some].astype(kind, copy=False)
        return left @ right

    with _blas().limit(limits=1):
        sums = product(0)
        for start in range(_TOGETHER, len(weights), _TOGETHER):
            sums += product(start)
    return sums.astype(np.float64)


@cache
def _blas() -> Any:
    """Return the controller of NumPy's threads, cached because finding it takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def resample_weights(
    units: IntArray, resamples: int, rng: np.random.Generator, of: Array | None = None
) -> Array:
    """Return bootstrap resamples as weights: how often each record is drawn.

    Parameters
    ----------
    units : numpy.ndarray of int64, shape (n,)
        The code, from 0, of each record's sampling unit; all records of a unit are drawn together.
    resamples : int
    rng : numpy.random.Generator
    of : numpy.ndarray, shape (n, resamples), optional
        Weights that this function returned. Each resample then draws from the units of the
        resample in its column, rather than from all units.

    Returns
    -------
    numpy.ndarray of float32, shape (n, resamples)
        Each resample draws as many units, with replacement, as there are. A generator in the same
        state yields the same first columns, however many resamples follow.
    """
    n = int(units.max()) + 1
    first = np.unique(units, return_index=True)[1]
    drawn = np.empty((n, resamples), dtype=np.float32)
    for b in range(resamples):
        rows = rng.integers(n, size=n)
        if of is not None:
            rows = np.repeat(np.arange(n), of[first, b].astype(np.int64))[rows]
        drawn[:, b] = np.bincount(rows, minlength=n)
    return drawn if np.array_equal(units, np.arange(n)) else drawn[units]
