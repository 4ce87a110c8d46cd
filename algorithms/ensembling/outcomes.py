"""How weighted ensembles do on each record: their metrics under weights of the records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from algorithms.ensembling.kernels.multiplicities import multiplicities_of
from algorithms.ensembling.kernels.weighted import mean_correlations
from algorithms.ensembling.scores import Scores
from framework.arrays import Array, FloatArray, IntArray
from framework.outcomes import RecordOutcomes

LOSS_CORRELATION = "loss_correlation"


class EnsembleOutcomes(RecordOutcomes):
    """How weighted ensembles do on each record.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, K)
        Counts of the models. Predictions are added up when metrics are asked for.
    evaluate : callable
        The metrics of genomes on all records, shape (n,) each: those of weights of 1, and of what
        does not depend on the records.
    scores : Scores
        Of all records.
    losses : numpy.ndarray of float64, shape (K, N)
        Of each model on each record, for their correlation.
    units : numpy.ndarray of int64, shape (N,), optional
    names : collection of str
        The metrics that the problem reports.
    """

    def __init__(
        self,
        X: Array,
        evaluate: Callable[[Array], Mapping[str, FloatArray]],
        scores: Scores,
        losses: FloatArray,
        names: Collection[str],
        units: IntArray | None = None,
    ) -> None:
        super().__init__(len(X), losses.shape[1], names, units)
        self._X, self._evaluate, self._scores, self._losses = X, evaluate, scores, losses

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        wanted = self.names if names is None else [n for n in self.names if n in set(names)]
        X = np.ascontiguousarray(self._X[candidates])
        plain = self._evaluate(X)
        values = {
            name: np.repeat(plain[name][:, np.newaxis], weights.shape[1], axis=1) for name in wanted
        }
        other = np.flatnonzero((weights != 1).any(axis=0))
        able = np.flatnonzero((X > 0).any(axis=1))
        if not len(other) or not len(able):
            return values
        of_records = {*self._scores.names, LOSS_CORRELATION}.intersection(wanted)
        members, drawn = X[able], np.ascontiguousarray(weights[:, other])
        found = self._scores.weighted(multiplicities_of(members), drawn, of_records)
        if LOSS_CORRELATION in of_records:
            found[LOSS_CORRELATION] = mean_correlations(self._losses, members > 0, drawn)
        for name, column in found.items():
            values[name][np.ix_(able, other)] = column
        return values
