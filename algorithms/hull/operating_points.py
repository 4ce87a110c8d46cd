"""Thresholds of classifiers as a problem, and mixtures of them with what to expect of each."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from algorithms.hull.roc import ALWAYS, NEVER, Curves, Table, Wish, best_mixture, rates_of
from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.front import Promise
from framework.outcomes import RecordOutcomes, resample_weights, weighted_sums
from framework.problem import Problem
from framework.roles import Metric
from framework.space import Integers
from framework.streams import CandidateStreams, resample_stream

RESAMPLES = 200
COST = "cost"
_TRIVIAL = ("always negative", "always positive")
RATES = {FALSE_POSITIVES: "false_positives", FALSE_NEGATIVES: "missed"}


@dataclass(frozen=True)
class OperatingPoint:
    """Which model answers, from which score on it says "positive", and what to expect of that.

    Attributes
    ----------
    members : tuple of (str, float, float)
        The models with their thresholds and the chances that a record is answered by them.
    of : mapping of str to Promise
        ``false_positive_rate``, ``false_negative_rate``, ``cost`` where models have one,
        ``expected_cost`` where errors do: as claimed, as to expect on new records, and a 95%
        range.
    """

    members: tuple[tuple[str, float, float], ...]
    of: Mapping[str, Promise]

    def __str__(self) -> str:
        members = " or ".join(
            (f"{chance:.3g} x " if len(self.members) > 1 else "")
            + (name if np.isinf(threshold) else f"{name} from {threshold:.4g}")
            for name, threshold, chance in self.members
        )
        rates = [
            f"{name} {found.claimed:.4g} (expected {found.expected:.4g}, {found.low:.4g} to "
            f"{found.high:.4g})"
            for name, found in self.of.items()
        ]
        return f"{members}: {', '.join(rates)}"


class ThresholdProblem(Problem):
    """Which threshold of which model: the corners of each model's own hull, and the trivial two.

    Metrics are ``false_positive_rate``, ``false_negative_rate`` and, where models have costs,
    ``cost``. Every corner of the hull of all thresholds is among the candidates.

    Parameters
    ----------
    names : sequence of str, length M
        Of the models.
    scores : float64 (M, n)
    positive : bool (n,)
    costs : float64 (M,)
    units : int64 (n,), optional
        What a resample draws together.
    folds : int
        Of the cross-validation that the scores are of; 0 for fitted models.

    Attributes
    ----------
    curves : Curves
    priced : bool
    numbers : int64 (candidates,)
        Of the thresholds, ascending.
    """

    def __init__(
        self,
        names: Sequence[str],
        scores: FloatArray,
        positive: BoolArray,
        costs: FloatArray,
        units: IntArray | None = None,
        folds: int = 0,
    ) -> None:
        self.names, self.scores, self.folds = list(names), scores, folds
        self.units = None if units is None else np.unique(units, return_inverse=True)[1]
        self.curves, self.priced = Curves(scores, positive, costs), bool(costs.any())
        self.numbers = np.unique(self.curves.own_corners(*self.curves.counts()))
        self.space = Integers(np.zeros(1, int), np.array([len(self.numbers) - 1]))
        highest = float(costs.max(initial=0.0))
        self.metrics = (
            Metric(FALSE_POSITIVES, "min", text="negative records called positive", mixes=True),
            Metric(FALSE_NEGATIVES, "min", text="positive records called negative", mixes=True),
            *([Metric(COST, "min", "ratio", high=highest, mixes=True)] if self.priced else []),
        )
        content = scores.tobytes() + positive.tobytes() + costs.tobytes()
        self.fingerprint = hashlib.sha256(content).hexdigest()

    @property
    def gene_names(self) -> tuple[str, ...]:
        return ("number",)

    def evaluate(self, X: Array, streams: CandidateStreams | None = None) -> Mapping[str, Array]:
        table = self.curves.at(self.numbers[X[:, 0]])
        assert table is not None  # both classes are there
        columns = [table.false_positives, table.missed, table.costs]
        return dict(zip(self.metric_names, columns, strict=False))

    def outcomes(self, X: Array) -> RecordOutcomes:
        return _ThresholdOutcomes(self, self.numbers[X[:, 0]])

    def corners(self, *, priced: bool) -> Array:
        """Return the genomes, shape (n, 1), of the corners of the hull."""
        return np.searchsorted(self.numbers, np.sort(self.curves.corners(priced=priced)))[:, None]

    def member(self, number: int) -> tuple[str, float]:
        """Return the model and the threshold of a number."""
        return member_of(self.names, self.curves, number)


class _ThresholdOutcomes(RecordOutcomes):
    """Which records thresholds call positive."""

    def __init__(self, problem: ThresholdProblem, numbers: IntArray) -> None:
        curves = problem.curves
        names, units = problem.metric_names, problem.units
        super().__init__(len(numbers), len(curves.positive), names, units)
        self.refitted = problem.folds > 0
        self._curves, self._numbers, self._scores = curves, numbers, problem.scores

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        numbers, curves = self._numbers[candidates], self._curves
        said = self._scores[curves.owners[numbers]] >= curves.thresholds[numbers, np.newaxis]
        found = {}
        for name, those in (
            (FALSE_POSITIVES, ~curves.positive),
            (FALSE_NEGATIVES, curves.positive),
        ):
            hits = weighted_sums(said[:, those], weights[those])
            with np.errstate(invalid="ignore"):  # a resample without a record of the class
                share = hits / weights[those].sum(axis=0, dtype=np.float64)
            found[name] = share if name == FALSE_POSITIVES else 1.0 - share
        costs = np.repeat(curves.costs[numbers, np.newaxis], weights.shape[1], axis=1)
        return {**found, COST: costs} if COST in self.names else found


class Mixtures:
    """The best mixtures of thresholds.

    Parameters
    ----------
    problem : ThresholdProblem
    seed : int
        Of the resamples.
    """

    def __init__(self, problem: ThresholdProblem, seed: int) -> None:
        self.names, self.priced, self.seed = problem.names, problem.priced, seed
        self.curves = problem.curves
        n = len(problem.curves.positive)
        self.units = np.arange(n) if problem.units is None else problem.units

    def best(self, wish: Wish, *, priced: bool = False) -> OperatingPoint:
        """Return the best mixture, and what to expect of it by resamples of the records.

        Parameters
        ----------
        wish : Wish
        priced : bool
            Whether its prices are of errors, so that there is an expected cost.

        Raises
        ------
        InputError
            No mixture keeps to the limits.
        """
        once = np.ones(len(self.units), dtype=np.int64)
        solution = _solved(wish, self.curves, once)
        if solution is None:
            raise InputError(
                "mix: expected limits that a mixture of the models meets, found others"
            )
        numbers, chances, claimed = solution
        drawn = resample_weights(self.units, RESAMPLES, resample_stream(self.seed))
        gained: dict[str, list[float]] = {name: [] for name in claimed}
        fresh: dict[str, list[float]] = {name: [] for name in claimed}
        for weights in drawn.T.astype(np.int64):
            again = _solved(wish, self.curves, weights)
            if again is None:
                continue
            whole = cast(Table, self.curves.at(again[0], once))
            left_out = self.curves.at(again[0], (weights == 0).astype(np.int64))
            for name, value in rates_of(whole, again[1]).items():
                gained[name].append(again[2][name] - value)
            if left_out is not None:
                for name, value in rates_of(left_out, again[1]).items():
                    fresh[name].append(value)
        shown = RATES | ({COST: "costs"} if self.priced else {})
        columns = {name: (claimed[key], gained[key], fresh[key]) for name, key in shown.items()}
        if priced:
            columns["expected_cost"] = (
                _cost_of(wish, claimed),
                [_cost_of(wish, dict(zip(gained, row, strict=True))) for row in _rows(gained)],
                [_cost_of(wish, dict(zip(fresh, row, strict=True))) for row in _rows(fresh)],
            )
        promises = {}
        for name, (value, optimism, new) in columns.items():
            low, high = np.percentile(new, [2.5, 97.5]) if new else (np.nan, np.nan)
            expected = value - float(np.mean(optimism)) if optimism else np.nan
            promises[name] = Promise(value, expected, float(low), float(high))
        members = tuple(
            (*member_of(self.names, self.curves, number), chance)
            for number, chance in zip(numbers.tolist(), chances.tolist(), strict=True)
        )
        return OperatingPoint(members, promises)


def member_of(names: Sequence[str], curves: Curves, number: int) -> tuple[str, float]:
    """Return the model, or the trivial classifier, and the threshold of a number."""
    threshold = float(curves.thresholds[number])
    if number in (NEVER, ALWAYS):
        return _TRIVIAL[number], threshold
    return names[int(curves.owners[number])], threshold


def _solved(
    wish: Wish, curves: Curves, weights: IntArray
) -> tuple[IntArray, FloatArray, dict[str, float]] | None:
    """Return thresholds, their chances, and the rates under the weights of records."""
    table = curves.table(weights)
    chances = None if table is None else best_mixture(wish, table)
    if table is None or chances is None:
        return None
    drawn = chances > 0
    return table.numbers[drawn], chances[drawn], rates_of(table, chances)


def _cost_of(wish: Wish, rates: Mapping[str, float]) -> float:
    return (
        wish.false_positive * rates["false_positives"]
        + wish.miss * rates["missed"]
        + wish.cost * rates["costs"]
    )


def _rows(columns: Mapping[str, list[float]]) -> list[tuple[float, ...]]:
    return list(zip(*columns.values(), strict=True))
