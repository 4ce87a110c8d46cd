"""The metrics of weighted ensembles that are not ratios of sums over records."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from algorithms.ensembling.scores import BALANCED, OF_CONFUSION, Scores
from algorithms.ensembling.traits import mean_correlations
from framework.answers import Answers, Part, Sums
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.measures import Tables, rarest_share
from framework.roles import Metric

LOSS_CORRELATION = "loss_correlation"
_Weighted = Callable[[Array, Array], FloatArray]


class EnsembleScore(NamedTuple):
    """A score of the mean prediction.

    Attributes
    ----------
    metric : Metric
    scores : callable
        Returns the :class:`Scores` for the records of a part.
    """

    metric: Metric
    scores: Callable[[Part], Scores]

    def of(self, sums: Sums) -> FloatArray:
        """Return the values of n ensembles under b columns of weights, shape (n, b)."""
        scores, name = self.scores(sums.answers.records.part), self.metric.name

        def weighted(X: Array, weights: Array) -> FloatArray:
            return scores.weighted(X, weights, {name})[name]

        def plain() -> FloatArray:
            X, able = _members(sums)
            values = np.full(len(X), np.nan)
            if len(able):
                values[able] = scores(X[able], [name])[name]
            return values

        return _under_weights(sums, plain, len(scores.truth.y), weighted)

    def ends(self, answers: Answers) -> tuple[FloatArray, FloatArray] | None:
        """Return 0 and the greatest loss of a record, (n,) each; None for what is no such mean.

        A single record may decide it: where a model gives its class no chance, say. The Brier score
        of a record has a bound; its log loss has none but the greatest that there is.
        """
        assert answers.X is not None
        scores, greatest = self.scores(answers.records.part), np.zeros(len(answers.X))
        if self.metric.name == "brier":
            greatest[:] = min(scores.truth.classes - 1, 2)
        elif self.metric.name == "log_loss":
            able = np.flatnonzero((answers.X > 0).any(axis=1))
            greatest[able] = scores.greatest_log_loss(answers.X[able])
        else:
            return None
        return np.zeros(len(greatest)), greatest

    def share(self, sums: Sums) -> FloatArray:
        """Return the share of the records that the score is as sure as, shape (n, b)."""
        name, truth = self.metric.name, self.scores(sums.answers.records.part).truth
        if name == BALANCED:
            return rarest_share(sums)
        if name in OF_CONFUSION:  # over the records of the positive class, or those called so
            return Tables(2).ratio(self.metric, name, truth.positive).share(sums)
        return np.ones((len(sums.answers), len(sums.total)))


class LossCorrelation(NamedTuple):
    """The mean correlation of the members' losses on the records that are searched on.

    Attributes
    ----------
    metric : Metric
    losses : callable
        Returns the loss of each model on each of these records, float64 (K, N).
    """

    metric: Metric
    losses: Callable[[], FloatArray]

    def of(self, sums: Sums) -> FloatArray:
        """Return the values of n ensembles under b columns of weights, shape (n, b)."""
        losses = self.losses()

        def weighted(X: Array, weights: Array) -> FloatArray:
            return mean_correlations(losses, X > 0, weights)

        plain = sums.answers.sizes[LOSS_CORRELATION]
        if sums.answers.records.part == "test":
            return np.repeat(plain[:, np.newaxis], len(sums.total), axis=1)
        return _under_weights(sums, lambda: plain, losses.shape[1], weighted)


def _members(sums: Sums) -> tuple[Array, IntArray]:
    """Return the genomes, and the positions of those that have members."""
    X = sums.answers.X
    assert X is not None
    return X, np.flatnonzero((X > 0).any(axis=1))


def _under_weights(
    sums: Sums, plain: Callable[[], FloatArray], records: int, weighted: _Weighted
) -> FloatArray:
    """Return values under weights, (n, b); ``plain`` returns those where each record counts once.

    Ensembles without members have that value under all weights.
    """
    X, able = _members(sums)
    weights = sums.weights_of_part(records)
    other: BoolArray = (weights != 1).any(axis=0)
    values = np.empty((len(X), weights.shape[1]))
    if not other.all() or len(able) < len(X):
        values[:] = plain()[:, np.newaxis]
    if other.any() and len(able):
        drawn = np.ascontiguousarray(weights[:, other])
        values[np.ix_(able, np.flatnonzero(other))] = weighted(X[able], drawn)
    return values
