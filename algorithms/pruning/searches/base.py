"""The bases of searches over prunings: they read votes and weights, and turn limits into rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.pruning.branch_and_bound.instance import Budget, Cap, Requirements
from algorithms.pruning.diversity import NAMES, TOLERANCE, Demand, demand_of
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.rate_rows import Fraction, RateRows, fraction_of, last_within, moves
from algorithms.pruning.votes import Rate, VoteTable, Weights, rates_of, weights_of
from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.measures import Ratio, Tables
from framework.problem import Problem
from framework.roles import Metric, Roles
from framework.space import Counts, Integers

_LAST_BITS = 1e-12  # share of a mean of pairs by which rounding may change it

Share = Annotated[float, Field(ge=0, le=1)]
WEIGHTED = ("accuracy", "balanced_accuracy")
"""Metrics that are weighted sums of the confusion matrix, and names of their weights."""
FRACTIONS = ("precision", "f1")
"""Names of rates whose denominators depend on the answers."""


class Demands(NamedTuple):
    """The requirements of ensembles, and the same as conditions of a certificate.

    The names of conditions are ``at_most_NAME`` and ``at_least_NAME``.
    """

    requirements: Requirements
    conditions: dict[str, float]

    def __str__(self) -> str:
        words = {"at_most_": "at most", "at_least_": "at least"}
        return ", ".join(
            f"{name.removeprefix(start)} {words[start]} {limit:.6g}"
            for name, limit in self.conditions.items()
            for start in words
            if name.startswith(start)
        )


class PruningSearch(Algorithm):
    """Base of searches that read the votes of a pool and keep them, but not the problem.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
    seed : int

    Raises
    ------
    Unfit
        The problem is of another kind.
    """

    spaces = (Counts, Integers)
    reads = PruningProblem
    takes_rates = True  # whether the program has rows for limits of rates by class and subgroup

    def __init__(self, problem: Problem, roles: Roles, *, seed: int) -> None:
        super().__init__(problem, roles, seed=seed)
        source: PruningProblem = problem.tables()
        self.votes: VoteTable = source.votes
        self.credit: FloatArray = source.credit
        self.pair_measure = source.pair_measure
        self.majority = source.threshold == "majority"
        self.ids = source.library.ids
        self.positive, records = source.positive, source.records()
        assert records is not None
        self._searched = records
        self._measures = source.measures
        self._costs = {name: np.asarray(source.library.costs[name].values) for name in source.costs}

    def rows(self, members: Array, thresholds: Sequence[int]) -> Array:
        """Return the genomes of members, shape (n, K), and thresholds, shape (n,)."""
        if self.majority:
            return np.asarray(members).astype(self.space.dtype)
        return np.column_stack([members, thresholds]).astype(self.space.dtype)

    def weights(self, name: str | Sequence[float] | None) -> Weights:
        """Return the named weights; if None, those of the first objective that has weights."""
        if name is None:
            name = next((n for n in self.roles.names if n in WEIGHTED), "balanced_accuracy")
        return weights_of(name, *self.votes.totals)

    def fractions(self) -> list[Fraction]:
        """Return the objectives that are precision or F1 of a class, in order."""
        ratios = {m.metric.name: m for m in self._measures if isinstance(m, Ratio) and moves(m)}
        return [
            fraction_of(ratios[name], self.positive, self.votes.totals)
            for name in self.roles.names
            if name in ratios
        ]

    def fraction(self, name: object) -> Fraction | None:
        """Return what to maximise if it is precision or F1: named or, if None, the first goal."""
        if name in FRACTIONS:
            ratio = Tables(2).ratio(Metric(str(name), "max"), str(name), self.positive)
            return fraction_of(ratio, self.positive, self.votes.totals)
        if name is not None:
            return None
        by_name = {fraction.name: fraction for fraction in self.fractions()}
        first = next((n for n in self.roles.names if n in WEIGHTED or n in by_name), None)
        return by_name.get(str(first))

    def demands(
        self,
        diversity: str | tuple[float, float] | None = None,
        max_members: int | None = None,
        *,
        diversity_key: str = "algorithm.diversity",
    ) -> Demands:
        """Return what an algorithm's parameters and the constraints together require of ensembles.

        Every constraint becomes a row of the program.

        Parameters
        ----------
        diversity, max_members
            See :class:`ProgramSearch`.
        diversity_key : str
            The key under which the user wrote ``diversity``, for messages.

        Raises
        ------
        InputError
            The program has no row for a constraint, or no ensemble can meet it.
        """
        asked = demand_of(diversity, self.credit, diversity_key)
        rates, name = rates_of(*self.votes.totals), NAMES[self.pair_measure]
        pairs = f"{name}_min", f"{name}_mean"
        rows = RateRows(self.votes, self._searched, self._measures)
        uppers, lowers = self._limits()
        budgets: list[Budget] = []
        caps: list[Cap] = []
        conditions: dict[str, float] = {}
        for limits, sign, word in ((uppers, 1, "at_most"), (lowers, -1, "at_least")):
            for metric, limit in limits.items():
                if metric in self._costs:
                    budgets.append(Budget(sign * self._costs[metric], sign * limit))
                elif metric in rates:
                    cap = _cap(metric, rates[metric], limit, sign, self.votes.totals)
                    if cap is None:
                        continue
                    caps.append(cap)
                elif rows.knows(metric):
                    if not self.takes_rates:
                        raise InputError(
                            f"constraints: {metric}: {word}: expected a limit that the printed "
                            "program has a row for, found one by class or subgroup; take ip"
                        )
                    caps += rows.caps(metric, limit, sign)
                else:
                    continue
                conditions[f"{word}_{metric}"] = limit
        for metric in pairs:
            if uppers.get(metric, 1.0) < 1:
                raise InputError(
                    f"constraints: {metric}: at_most: expected a bound that the program has a row "
                    f"for, found {uppers[metric]:g}, and for too much diversity it has none; "
                    "leave it out, or take another search, such as nsga2"
                )
        asked, where = self._least_diversity(asked, lowers, diversity_key)
        fewest, most = self._member_limits(max_members, uppers, lowers, asked is not None)
        if most is not None:
            conditions["at_most_members"] = float(most)
        if asked is not None:
            conditions |= {  # the program's row allows for the rounding of means
                f"at_least_{name}_min": asked.tau + 2 * TOLERANCE,
                f"at_least_{name}_mean": asked.gamma + 2 * TOLERANCE,
                "at_least_members": 2.0,
            }
            most_diverse = float(self.credit.max())
            if asked.gamma > most_diverse + TOLERANCE:
                raise InputError(
                    f"{where}: expected a demand that some ensemble meets, found "
                    f"{asked.gamma:g}, above the most diverse pair's {most_diverse:.4g}; lower it"
                )
        if fewest > 1:
            conditions["at_least_members"] = max(2.0, float(fewest))
        requirements = Requirements(
            self.majority, most, tuple(budgets), self.credit, asked, tuple(caps), fewest
        )
        return Demands(requirements, conditions)

    def _limits(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the tightest upper and the tightest lower bound of each metric."""
        uppers: dict[str, float] = {}
        lowers: dict[str, float] = {}
        for constraint in self.roles.constraints:
            name, most, least = constraint
            metric = self.roles.metrics[name]
            if metric.low < 0 >= metric.high:  # reported as its negative: no metric here is below 0
                most, least = (None if v is None else -v for v in (least, most))
            if most is not None:
                uppers[name] = min(float(most), uppers.get(name, math.inf))
            if least is not None:
                lowers[name] = max(float(least), lowers.get(name, -math.inf))
        return uppers, lowers

    def _least_diversity(
        self, asked: Demand | None, lowers: Mapping[str, float], key: str
    ) -> tuple[Demand | None, str]:
        """Return the demand together with that of constraints, and the key that gamma is from."""
        name = NAMES[self.pair_measure]
        least = {m: lowers.get(f"{name}_{m}", 0.0) for m in ("min", "mean")}
        if max(least.values()) <= 0:  # any ensemble meets it, even one classifier alone
            return asked, key
        tau, gamma = (asked.tau, asked.gamma) if asked else (0.0, 0.0)
        by = {key: gamma} | {f"constraints: {name}_{m}: at_least": v for m, v in least.items()}
        tau = max(tau, least["min"])
        # the mean is not below the least one, but for the last bit of what is reported
        implied = tau * (1 - _LAST_BITS)
        return Demand(tau, max(gamma, implied, least["mean"])), max(by, key=by.__getitem__)

    def _member_limits(
        self,
        max_members: int | None,
        uppers: Mapping[str, float],
        lowers: Mapping[str, float],
        diverse: bool,
    ) -> tuple[int, int | None]:
        """Return the least and the greatest number of members.

        Raises
        ------
        InputError
            No number of members keeps all limits.
        """
        k, key, most = self.votes.k, "algorithm.max_members", max_members
        upper = uppers.get("members", math.inf)
        if upper < (math.inf if most is None else most):
            key, most = "constraints: members: at_most", math.floor(min(max(upper, -1.0), k))
        lower = max(lowers.get("members", 1.0), 1.0)
        if lower > k:
            raise InputError(
                f"constraints: members: at_least: expected at most the {k} classifiers that there "
                f"are, found {lower:g}"
            )
        fewest = math.ceil(lower)
        needed = max(fewest, 2 if diverse else 1)
        if most is not None and most < needed:
            limit = upper if key.startswith("constraints") else most
            why = " (diversity is between members)" if diverse and needed == 2 else ""
            raise InputError(f"{key}: expected at least {needed}{why}, found {limit:g}")
        return fewest, most


def _cap(name: str, rate: Rate, limit: float, sign: int, totals: tuple[int, int]) -> Cap | None:
    """Return a bound of a rate as one of its whole numerator; None if every ensemble keeps it.

    The numerator is the greatest (the least, if ``sign`` is -1) whose rate, rounded as in reports,
    keeps the limit.

    Raises
    ------
    InputError
        No ensemble can keep the limit.
    """
    (n0, n1), (tp, fn, tn, fp) = totals, rate.weights
    whole = int(n1 * max(tp, fn) + n0 * max(tn, fp))  # the numerator of a rate of 1
    last = sign * last_within(sign * limit, rate.of)
    if (last < 0) if sign == 1 else (last > whole):
        word, edge = ("at_most", "at least 0") if sign == 1 else ("at_least", "at most 1")
        raise InputError(f"constraints: {name}: {word}: expected {edge}, found {limit:g}")
    if (last >= whole) if sign == 1 else (last <= 0):
        return None
    return Cap(Weights(*(sign * w for w in rate.weights)), float(sign * last))


WeightsKey = Literal["accuracy", "balanced_accuracy", "recall"] | tuple[float, float, float, float]
AnyWeights = WeightsKey | Literal["precision", "f1"]
DiversityKey = Literal["f2", "f3"] | tuple[Share, Share]


class ProgramSearch(PruningSearch):
    """Base of searches for the one best ensemble by weights of the confusion matrix.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
        Constraints are part of the program: bounds of rates, ``members`` and costs, and lower
        bounds of ``pfc_min`` and ``pfc_mean``. Upper bounds of these two are refused.
    seed : int
    weights : str or four numbers, optional
        ``accuracy``, ``balanced_accuracy`` (N0 per true positive, N1 per true negative: the
        theta-weighted function, Theorem 1), ``recall``, or the weights of a true positive, false
        negative, true negative and false positive (Equation 1); or, for ``ip``, ``precision`` or
        ``f1``, which take a sequence of solves. By default the first objective that is one of these
        metrics, or else balanced accuracy.
    diversity : str or two numbers, optional
        ``f2``, ``f3`` (Section 5.4), or tau and gamma: the least mean pairwise failure credit of
        each member and of the ensemble, which then has at least two members.
    max_members : int, optional
        Greatest number of members.
    gap : float
        The proof may end when the gap, as a share of the value, is at most this.

    Raises
    ------
    InputError
        The weights do not distinguish ensembles, or no ensemble meets the demands.
    """

    diversity_key = "algorithm.diversity"
    front_only = True

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        weights: AnyWeights | None = None,
        diversity: DiversityKey | None = None,
        max_members: Annotated[int, Field(ge=1)] | None = None,
        gap: Annotated[float, Field(ge=0)] = 0.0,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.gap = gap
        self._fraction = self.fraction(weights)
        self._weights = self.weights(None if weights in FRACTIONS else weights)
        if weights is None and self._fraction is None and not set(WEIGHTED) & set(roles.names):
            self.plan = (
                "balanced_accuracy is maximised, since no objective is accuracy, precision or F1; "
                "algorithm.weights takes others"
            )
        self._demands = self.demands(diversity, max_members, diversity_key=self.diversity_key)
        self._requirements, self._conditions = self._demands
        self._id = -1
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    def learn(self, batch: Evaluated) -> None:
        self._id, self._returned = int(batch.ids[0]), self.feasible(batch)

    def none_meets(self) -> str:
        """Return the message that no ensemble meets all demands, as is proven."""
        return (
            f"{'constraints' if self.roles.constraints else 'algorithm'}: expected demands that "
            f"some ensemble meets, proved that none does ({self._demands}); relax one of them"
        )

    def certificate(self, value: float, bound: float, **more: float) -> dict[str, Array]:
        """Return the table ``certificates``, with the bound of the weighted sum as a metric's."""
        metric, multiple = metric_of(self._weights, *self.votes.totals)
        if self._fraction is not None:
            metric, multiple = self._fraction.name, 1.0
        row = {"id": self._id, "metric": metric or "weighted_sum", "value": value / multiple}
        return as_columns([{**row, "bound": bound / multiple, **self._conditions, **more}])


def metric_of(weights: Weights, n0: int, n1: int) -> tuple[str, float]:
    """Return the metric that a weighted sum is a multiple of, with the factor; or ("", 1)."""
    rates = rates_of(n0, n1).items()
    return next(((name, rate.of) for name, rate in rates if rate.weights == weights), ("", 1.0))


def as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Return rows as columns; NaN where a row lacks a number."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
