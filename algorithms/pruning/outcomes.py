"""How pruned ensembles do on each record: their metrics under weights of the records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from algorithms.pruning.diversity import NAMES, PairMeasure, weighted_pair_tables
from algorithms.pruning.votes import called_positive, confusion_rates, packed, pair_credits
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.outcomes import RecordOutcomes, weighted_sums

_COLUMNS = 64  # tables of pairs held at a time


class Votes(NamedTuple):
    """The votes of ``K`` classifiers on ``N`` records.

    Attributes
    ----------
    positive_votes : numpy.ndarray of bool, shape (K, N)
    positive : numpy.ndarray of bool, shape (N,)
        Which records are of the positive class.
    units : numpy.ndarray of int64, shape (N,), or None
        What is drawn together in a resample.
    """

    positive_votes: BoolArray
    positive: BoolArray
    units: IntArray | None


class VoteOutcomes(RecordOutcomes):
    """How pruned ensembles do on each record.

    Parameters
    ----------
    X, members : numpy.ndarray of int, shape (n, d) and (n, K)
        Genomes, and their members alone.
    thresholds : numpy.ndarray of int64, shape (n,)
    votes : Votes
    pair_measure : str
    evaluate : callable
        The metrics of genomes on all records, shape (n,) each: of those that do not depend on the
        records, and where no member is.
    rates, names : collection of str
        The metrics that are :func:`~algorithms.pruning.votes.confusion_rates`, in their order, and
        all that the problem reports.
    """

    def __init__(
        self,
        X: Array,
        members: Array,
        thresholds: IntArray,
        votes: Votes,
        pair_measure: PairMeasure,
        evaluate: Callable[[Array], Mapping[str, FloatArray]],
        rates: Collection[str],
        names: Collection[str],
    ) -> None:
        super().__init__(len(X), len(votes.positive), names, votes.units)
        self._X, self._members, self._thresholds = X, members > 0, thresholds
        self._votes, self._measure, self._evaluate = votes, pair_measure, evaluate
        self._rates = tuple(rates)
        # records with the same votes are called alike
        self._patterns, which = np.unique(
            packed(votes.positive_votes.T), axis=0, return_inverse=True
        )
        self._pattern_of = which.ravel()

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        wanted = [name for name in self.names if names is None or name in set(names)]
        X, members = self._X[candidates], self._members[candidates]
        plain = self._evaluate(np.ascontiguousarray(X))
        values = {name: np.repeat(plain[name][:, None], weights.shape[1], 1) for name in wanted}
        able = np.flatnonzero(members.any(axis=1))
        if not len(able):
            return values
        members = members[able]
        if not set(self._rates).isdisjoint(wanted):
            rates = self._weighted_rates(members, self._thresholds[candidates][able], weights)
            for name in set(rates).intersection(wanted):
                values[name][able] = rates[name]
        stem = NAMES[self._measure]
        if not {f"{stem}_min", f"{stem}_mean"}.isdisjoint(wanted):
            least, mean = self._weighted_credits(members, weights)
            for name, column in ((f"{stem}_min", least), (f"{stem}_mean", mean)):
                if name in values:
                    values[name][able] = column
        return values

    def called(self, candidates: slice | IntArray = slice(None)) -> BoolArray:
        """Return which records are called positive, (n, N)."""
        members, thresholds = self._members[candidates], self._thresholds[candidates]
        found = called_positive(self._patterns, packed(members), thresholds)
        return np.asarray(found[:, self._pattern_of])

    def _weighted_rates(
        self, members: BoolArray, thresholds: IntArray, weights: Array
    ) -> dict[str, FloatArray]:
        called = called_positive(self._patterns, packed(members), thresholds)
        found = []
        for its in (~self._votes.positive, self._votes.positive):
            drawn = np.zeros((len(self._patterns), weights.shape[1]))
            np.add.at(drawn, self._pattern_of[its], weights[its])
            found.append((weighted_sums(called, drawn), drawn.sum(axis=0)))
        (fp, n0), (tp, n1) = found
        return dict(zip(self._rates, confusion_rates(fp, tp, n0, n1), strict=True))

    def _weighted_credits(
        self, members: BoolArray, weights: Array
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least and the mean value of pairs, (n, b) each."""
        used = np.flatnonzero(members.any(axis=0))
        failures = self._votes.positive_votes[used] != self._votes.positive
        X = members[:, used].astype(np.int64)
        out = np.empty((2, len(X), weights.shape[1]))
        for start in range(0, weights.shape[1], _COLUMNS):
            some = weights[:, start : start + _COLUMNS]
            tables = weighted_pair_tables(failures, some, self._measure)
            for b, table in enumerate(tables, start):
                out[:, :, b] = pair_credits(table, X).T
        return out[0], out[1]
