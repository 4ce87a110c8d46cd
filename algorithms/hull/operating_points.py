"""Thresholds of classifiers as a problem, and mixtures of thresholds with their promises."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from algorithms.hull.roc import ALWAYS, NEVER, Curves, Table, Wish, best_mixture, rates_of
from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES
from framework.analysis.ranges import Spread, gain_share, moments, promised
from framework.answering import AnsweringProblem
from framework.answers import Answers, Measure, Part, Records, Size
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.capabilities import TrivialClassifier
from framework.errors import InputError
from framework.front import Promise
from framework.measures import Ratio, Tables, each_once
from framework.measures import rates as further_rates
from framework.outcomes import resample_weights
from framework.roles import Metric
from framework.space import Integers
from framework.streams import resample_stream

RESAMPLES = 200
COST = "cost"
_TRIVIAL = ("always negative", "always positive")
_PAID = "expected_cost"
RATES = {FALSE_POSITIVES: "false_positives", FALSE_NEGATIVES: "missed"}


@dataclass(frozen=True)
class OperatingPoint:
    """The models that answer, the scores from which on they say "positive", and their rates.

    Attributes
    ----------
    members : tuple of (str, float, float)
        Each model with its threshold and the chance that it answers a record.
    of : mapping of str to Promise
        ``false_positive_rate``, ``false_negative_rate``, ``cost`` if models have costs, and
        ``expected_cost`` if errors have: the value claimed, the value expected on new records, and
        a 95% range.
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
            f"{name} {promise.claimed:.4g} (expected {promise.expected:.4g}, {promise.low:.4g} to "
            f"{promise.high:.4g})"
            for name, promise in self.of.items()
        ]
        return f"{members}: {', '.join(rates)}"


class ThresholdProblem(AnsweringProblem):
    """The choice of a threshold of a model, or of a trivial classifier.

    The candidates are the corners of the hull of each model, among which are all corners of the
    hull of all models. Metrics are ``false_positive_rate``, ``false_negative_rate`` and, if models
    have costs, ``cost``.

    Parameters
    ----------
    names : sequence of str, length M
        Names of the models.
    scores : float64 (M, n)
    positive : bool (n,)
    costs : float64 (M,)
    classes : tuple
        Labels of the negative and of the positive class.
    units : int64 (n,), optional
        Records with the same unit are drawn together into a resample.
    folds : int
        Number of folds of the cross-validation that gave the scores; 0 for fitted models.
    rates : sequence of str
        Further metrics; see :func:`framework.measures.rates`.

    Attributes
    ----------
    curves : Curves
    priced : bool
        Whether models have costs.
    numbers : int64 (candidates,)
        Numbers of the candidates in ``curves``, ascending.
    """

    def __init__(
        self,
        names: Sequence[str],
        scores: FloatArray,
        positive: BoolArray,
        costs: FloatArray,
        classes: tuple[Any, Any],
        units: IntArray | None = None,
        folds: int = 0,
        rates: Sequence[str] = (),
    ) -> None:
        self.names, self.scores, self.folds, self.classes = list(names), scores, folds, classes
        self.units = None if units is None else np.unique(units, return_inverse=True)[1]
        self.curves, self.priced = Curves(scores, positive, costs), bool(costs.any())
        self.numbers = np.unique(self.curves.own_corners(*self.curves.counts()))
        self.space = Integers(np.zeros(1, int), np.array([len(self.numbers) - 1]))
        codes = positive.astype(np.int64)
        records = Records(codes, classes, 1, units=self.units, refitted=folds > 0)
        self.answered: dict[Part, Records] = {"search": records}
        tables = Tables(2)
        false = Metric(FALSE_POSITIVES, "min", text="negative records called positive", mixes=True)
        missed = Metric(FALSE_NEGATIVES, "min", text="positive records called negative", mixes=True)
        hits, true = tables.right * tables.true(1), tables.true(1)
        measures: list[Measure] = [
            tables.ratio(false, FALSE_POSITIVES, 1),
            Ratio(missed, hits, true, np.array([False, True]), complement=True),
        ]
        if self.priced:
            highest = float(costs.max())
            measures.append(Size(Metric(COST, "min", "ratio", high=highest, mixes=True)))
        self.rates = tuple(rates)
        self.measures = each_once(measures, further_rates(rates, classes, 1, where="rates"))
        content = repr(self.rates).encode() if rates else b""
        content += scores.tobytes() + positive.tobytes() + costs.tobytes()
        self.fingerprint = hashlib.sha256(content).hexdigest()

    @property
    def gene_names(self) -> tuple[str, ...]:
        return ("number",)

    def direct(self, X: Array, part: Part) -> Mapping[str, Array]:
        table = self.curves.at(self.numbers[X[:, 0]])
        assert table is not None  # there are records of both classes
        columns = {FALSE_POSITIVES: table.false_positives, FALSE_NEGATIVES: table.missed}
        return {**columns, COST: table.costs} if self.priced else columns

    def answers(self, X: Array, part: Part = "search") -> Answers:
        numbers, curves = self.numbers[X[:, 0]], self.curves
        called = self.scores[curves.owners[numbers]] >= curves.thresholds[numbers, np.newaxis]
        sizes = {COST: curves.costs[numbers]}
        return Answers(self.answered[part], called.astype(np.int8), sizes=sizes, X=X)

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return none: the two trivial classifiers are candidates."""
        return ()

    def corners(self, *, priced: bool) -> Array:
        """Return the genomes, shape (n, 1), of the corners of the hull."""
        return np.searchsorted(self.numbers, np.sort(self.curves.corners(priced=priced)))[:, None]

    def member(self, number: int) -> tuple[str, float]:
        """Return the model, or the trivial classifier, and the threshold of a number."""
        threshold = float(self.curves.thresholds[number])
        if number in (NEVER, ALWAYS):
            return _TRIVIAL[number], threshold
        return self.names[int(self.curves.owners[number])], threshold


class Mixtures:
    """Finds the best mixtures of thresholds.

    Parameters
    ----------
    problem : ThresholdProblem
    seed : int
        Seed of the resamples.
    """

    def __init__(self, problem: ThresholdProblem, seed: int) -> None:
        self._member, self.priced, self.seed = problem.member, problem.priced, seed
        self.curves, self._refitted = problem.curves, problem.folds > 0
        n = len(problem.curves.positive)
        self.units = np.arange(n) if problem.units is None else problem.units
        self._metrics = {metric.name: metric for metric in problem.metrics}

    def best(self, wish: Wish, *, priced: bool = False) -> OperatingPoint:
        """Return the best mixture, with promises from resamples of the records.

        Parameters
        ----------
        wish : Wish
        priced : bool
            Whether its prices are costs of errors, so that there is an expected cost.

        Raises
        ------
        InputError
            No mixture keeps the limits.
        """
        once = np.ones(len(self.units), dtype=np.int64)
        solution = _solved(wish, self.curves, once)
        if solution is None:
            raise InputError(
                "mix: expected limits that a mixture of the models meets, found others"
            )
        numbers, chances, claimed = solution
        figures = self._figures(claimed)
        # optimism: the figures of each resample's best mixture in that resample, less those on all
        gains: list[list[float]] = []
        drawn: list[list[float]] = []  # the figures of this mixture in each resample
        resamples = resample_weights(self.units, RESAMPLES, resample_stream(self.seed))
        for weights in resamples.T.astype(np.int64):
            best_of_resample = _solved(wish, self.curves, weights)
            if best_of_resample is None:
                continue
            in_resample = best_of_resample[2]
            on_all = self._rates(*best_of_resample[:2], once)
            gain = {name: in_resample[name] - on_all[name] for name in in_resample}
            gains.append([*self._figures(gain).values()])
            drawn.append([*self._figures(self._rates(numbers, chances, weights)).values()])
        columns = zip(np.array(gains).T, np.array(drawn).T, strict=True)
        promises = {}
        for (name, figure), (gained, values) in zip(figures.items(), columns, strict=True):
            metric = self._metrics[name]
            ends = (metric.low, metric.high) if metric.kind == "bounded" else None
            about = float(self.units.max() + 1) * self._share(name)
            spread = Spread(moments(values)[1], about, ends, gain_share(self._refitted))
            promises[name] = promised(figure, gained, metric, spread)
        if priced:
            promises[_PAID] = _paid(wish, promises)
        members = tuple(
            (*self._member(number), chance)
            for number, chance in zip(numbers.tolist(), chances.tolist(), strict=True)
        )
        return OperatingPoint(members, promises)

    def _rates(self, numbers: IntArray, chances: FloatArray, weights: IntArray) -> dict[str, float]:
        """Return the rates of a mixture under weights with which both classes have records."""
        return rates_of(cast(Table, self.curves.at(numbers, weights)), chances)

    def _figures(self, rates: Mapping[str, float]) -> dict[str, float]:
        """Return the rates by their metrics' names."""
        shown = {name: rates[key] for name, key in RATES.items()}
        return {**shown, COST: rates["costs"]} if self.priced else shown

    def _share(self, name: str) -> float:
        """Return the share of the records that a metric is about."""
        positive = float(self.curves.positive.mean())
        return {FALSE_POSITIVES: 1 - positive, FALSE_NEGATIVES: positive}.get(name, 1.0)


def _paid(wish: Wish, of: Mapping[str, Promise]) -> Promise:
    """Return what to expect of the sum of the rates and the cost at their prices.

    The distances to the ends of its range are the roots of the sums of the parts' squared distances
    (Zou and Donner 2008). So it counts the few records that a rate is about: where none of ten
    positives is missed, none is in any resample.
    """
    prices = {FALSE_POSITIVES: wish.false_positive, FALSE_NEGATIVES: wish.miss, COST: wish.cost}
    claimed, expected, low, high = np.array([np.multiply(prices[n], p) for n, p in of.items()]).T
    below, above = math.hypot(*(expected - low)), math.hypot(*(high - expected))
    middle = float(expected.sum())
    return Promise(float(claimed.sum()), middle, middle - below, middle + above)


def _solved(
    wish: Wish, curves: Curves, weights: IntArray
) -> tuple[IntArray, FloatArray, dict[str, float]] | None:
    """Return the best mixture under weights of the records: thresholds, chances and rates."""
    table = curves.table(weights)
    chances = None if table is None else best_mixture(wish, table)
    if table is None or chances is None:
        return None
    drawn = chances > 0
    return table.numbers[drawn], chances[drawn], rates_of(table, chances)
