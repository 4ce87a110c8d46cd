"""What every search over prunings needs: the votes, weights, demands, and how rows are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.pruning.branch_and_bound.instance import Budget, Requirements
from algorithms.pruning.diversity import NAMES, TOLERANCE, Demand, demand_of
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import VoteTable, Weights, weights_of
from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Counts, Integers

Share = Annotated[float, Field(ge=0, le=1)]
WEIGHTED = ("accuracy", "balanced_accuracy")
"""Metrics that are a weighted sum of the confusion matrix, by the name of their weights."""


class Demands(NamedTuple):
    """What members must keep to, and the same as conditions of a certificate.

    Conditions are ``at_most_NAME`` and ``at_least_NAME``.
    """

    requirements: Requirements
    conditions: dict[str, float]


class PruningSearch(Algorithm):
    """Base of searches that read the votes of a pool; it keeps them, and not the problem.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
    seed : int

    Raises
    ------
    Unfit
        Another kind of problem.
    """

    spaces = (Counts, Integers)
    reads = PruningProblem

    def __init__(self, problem: Problem, roles: Roles, *, seed: int) -> None:
        super().__init__(problem, roles, seed=seed)
        source: PruningProblem = problem.tables()
        self.votes: VoteTable = source.votes
        self.credit: FloatArray = source.credit
        self.pair_measure = source.pair_measure
        self.majority = source.threshold == "majority"
        self.ids = source.library.ids
        self._costs = {name: np.asarray(source.library.costs[name].values) for name in source.costs}

    def rows(self, members: Array, thresholds: Sequence[int]) -> Array:
        """Return the genomes of members, shape (n, K), and thresholds, shape (n,)."""
        if self.majority:
            return np.asarray(members).astype(self.space.dtype)
        return np.column_stack([members, thresholds]).astype(self.space.dtype)

    def weights(self, given: str | Sequence[float] | None) -> Weights:
        """Return weights; those of the first objective that has some, if none are given."""
        if given is None:
            given = next((n for n in self.roles.names if n in WEIGHTED), "balanced_accuracy")
        return weights_of(given, *self.votes.totals)

    def demands(
        self,
        diversity: str | tuple[float, float] | None = None,
        max_members: int | None = None,
    ) -> Demands:
        """Return what an algorithm's parameters and the constraints ask of members together.

        Constraints on other metrics, and lower bounds of sizes and costs, are for the evaluated
        rows alone.

        Raises
        ------
        InputError
            More diversity than the most diverse pair has.
        """
        name, most = NAMES[self.pair_measure], max_members
        asked = demand_of(diversity, self.credit)
        budgets: list[Budget] = []
        least: dict[str, float] = {}
        conditions: dict[str, float] = {}
        for constraint in self.roles.constraints:
            metric, at_most = constraint.metric, constraint.at_most
            if metric == "members" and at_most is not None:
                most = int(at_most) if most is None else min(most, int(at_most))
            elif metric in self._costs and at_most is not None:
                budgets.append(Budget(self._costs[metric], float(at_most)))
                conditions[f"at_most_{metric}"] = float(at_most)
            elif metric in (f"{name}_min", f"{name}_mean") and constraint.at_least is not None:
                least[metric] = max(least.get(metric, 0.0), constraint.at_least)
        if least:
            tau = max(asked.tau if asked else 0.0, least.get(f"{name}_min", 0.0))
            gamma = max(asked.gamma if asked else 0.0, least.get(f"{name}_mean", 0.0), tau)
            asked = Demand(tau, gamma)
        if most is not None:
            conditions["at_most_members"] = float(most)
        if asked is not None:
            conditions |= {  # a mean is a rounded number
                f"at_least_{name}_min": asked.tau + 2 * TOLERANCE,
                f"at_least_{name}_mean": asked.gamma + 2 * TOLERANCE,
                "at_least_members": 2.0,
            }
            pairs = float(self.credit.max())
            if asked.gamma > pairs + TOLERANCE:
                raise InputError(
                    f"algorithm.diversity: expected a demand that some ensemble meets, found "
                    f"gamma={asked.gamma:g}, above the most diverse pair's {pairs:.4g}; lower it"
                )
        requirements = Requirements(self.majority, most, tuple(budgets), self.credit, asked)
        return Demands(requirements, conditions)


WeightsKey = Literal["accuracy", "balanced_accuracy", "recall"] | tuple[float, float, float, float]
DiversityKey = Literal["f2", "f3"] | tuple[Share, Share]


class ProgramSearch(PruningSearch):
    """Base of searches for the one best ensemble by weights of the confusion matrix.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
        Upper bounds of ``members`` and costs and lower ones of ``pfc_min`` and ``pfc_mean`` are
        part of the program; other constraints are for the evaluated candidate alone.
    seed : int
    weights : str or four numbers, optional
        ``accuracy``, ``balanced_accuracy`` (N0 per true positive, N1 per true negative: the
        theta-weighted function, Theorem 1), ``recall``, or the weights of a true positive, false
        negative, true negative and false positive (Equation 1). That of the first objective
        that is accuracy or balanced accuracy if None, else of balanced accuracy.
    diversity : str or two numbers, optional
        ``f2``, ``f3`` (Section 5.4), or tau and gamma: the least mean pairwise failure credit of
        each member and of the ensemble; at least two members then.
    max_members : int, optional
    gap : float
        Share of the value at which the proof is good enough.

    Raises
    ------
    InputError
        Weights that mean nothing, or demands that no ensemble meets.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        weights: WeightsKey | None = None,
        diversity: DiversityKey | None = None,
        max_members: Annotated[int, Field(ge=1)] | None = None,
        gap: Annotated[float, Field(ge=0)] = 0.0,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.gap = gap
        self._weights = self.weights(weights)
        self._requirements, self._conditions = self.demands(diversity, max_members)
        self._id = -1
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    def learn(self, batch: Evaluated) -> None:
        """Note the candidate, and whether it may be returned."""
        self._id, self._returned = int(batch.ids[0]), self.feasible(batch)

    def certificate(self, value: float, bound: float, **more: float) -> dict[str, Array]:
        """Return the table ``certificates``: the bound of the weighted sum as one of a metric."""
        metric, multiple = metric_of(self._weights, *self.votes.totals)
        metric = metric or "weighted_sum"
        row = certificate(metric, value / multiple, bound / multiple, self._conditions)
        return as_columns([{"id": self._id, **row, **more}])


def metric_of(weights: Weights, n0: int, n1: int) -> tuple[str, float]:
    """Return the metric that a weighted sum is a multiple of, and the multiple; ("", 1) if none."""
    known: Mapping[tuple[float, ...], tuple[str, float]] = {
        (1, 0, 1, 0): ("accuracy", n0 + n1),
        (n0, 0, n1, 0): ("balanced_accuracy", 2 * n0 * n1),
        (1, 0, 0, 0): ("true_positive_rate", n1),
        (0, 0, 1, 0): ("true_negative_rate", n0),
    }
    return known.get(tuple(weights), ("", 1.0))


def certificate(
    metric: str, value: float, bound: float, conditions: Mapping[str, float]
) -> dict[str, Any]:
    """Return a row of ``certificates.csv``.

    No candidate has ``metric`` above ``bound`` that keeps to the conditions: columns
    ``at_most_NAME`` and ``at_least_NAME``, NaN where there is none.
    """
    return {"metric": metric, "value": value, "bound": bound, **conditions}


def as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Return rows as columns; NaN where a row lacks a number."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
