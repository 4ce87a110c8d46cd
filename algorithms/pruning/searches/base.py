"""What every search over prunings needs: the votes, weights, demands, and how rows are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Budget, Requirements
from algorithms.pruning.diversity import NAMES, TOLERANCE, Demand, demand_of
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import VoteTable, Weights, weights_of
from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Counts, Integers

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
