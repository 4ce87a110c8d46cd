"""The metrics of pruned ensembles that are not ratios of sums over records."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from algorithms.pruning.diversity import PairMeasure, weighted_pair_tables
from algorithms.pruning.votes import confusion_rates, pair_credits
from framework.answers import Sums
from framework.arrays import Array, BoolArray, FloatArray
from framework.roles import Metric

_COLUMNS = 64  # tables of pairs that are in memory at a time


class BalancedAccuracy(NamedTuple):
    """The mean of both classes' true rates, rounded once; one class's if the other has no records.

    Attributes
    ----------
    metric : Metric
    positive : int
        Code of the positive class.
    """

    metric: Metric
    positive: int

    def of(self, sums: Sums) -> FloatArray:
        """Return the values of n ensembles under b columns of weights, shape (n, b)."""
        counts = sums.cells("counts")
        (fp, n0), (tp, n1) = (
            (counts[code, self.positive], counts[code].sum(axis=0))
            for code in (1 - self.positive, self.positive)
        )
        return confusion_rates(fp, tp, n0, n1)[1]


class Pool(Protocol):
    """The classifiers that ensembles are made of.

    Attributes
    ----------
    credit : numpy.ndarray of float64, shape (K, K)
        The diversity of each pair on the records of the search.
    pair_measure : str
    """

    credit: FloatArray
    pair_measure: PairMeasure

    def failures(self) -> BoolArray:
        """Return which classifiers are wrong on which records of the search, (K, N)."""


class PairDiversity(NamedTuple):
    """The diversity of ensembles: the least mean of a member's pairs, or the mean of all pairs.

    Attributes
    ----------
    metric : Metric
    pool : Pool
        The diversity of its pairs on the records of the search counts for test records, too.
    least : bool
    """

    metric: Metric
    pool: Pool
    least: bool

    def of(self, sums: Sums) -> FloatArray:
        """Return the values, shape (n, b); 0 for one member, and without genomes."""
        X = sums.answers.X
        if X is None:
            return np.zeros((len(sums.answers), len(sums.total)))
        members = X[:, : len(self.pool.credit)] > 0
        both = sums.once(type(self), lambda: self._credits(sums, members))
        return np.asarray(both[0 if self.least else 1])

    def _credits(self, sums: Sums, members: Array) -> FloatArray:
        """Return the least and the mean diversity, shape (2, n, b)."""
        credits = np.empty((2, len(members), len(sums.total)))
        if sums.answers.records.part == "test":
            credits[:] = pair_credits(self.pool.credit, members).T[..., np.newaxis]
            return credits
        used = np.flatnonzero(members.any(axis=0))
        members, failures = members[:, used], self.pool.failures()[used]
        drawn = sums.weights_of_part(failures.shape[1])
        for start in range(0, len(sums.total), _COLUMNS):
            weights = drawn[:, start : start + _COLUMNS]
            tables = weighted_pair_tables(failures, weights, self.pool.pair_measure)
            for b, table in enumerate(tables, start):
                credits[:, :, b] = pair_credits(table, members).T
        return credits
