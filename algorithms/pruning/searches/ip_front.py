"""``ip_front``: exact fronts of pruned ensembles, every point with its certificate.

The epsilon-constraint method (Haimes, Lasdon and Wismer 1971). The range of the second metric, the
*resource*, is divided into cells. In each cell, the program is solved with the cell's upper end as
the limit of the resource. Then it is solved again with a limit just below what the last ensemble
takes, until an ensemble takes no more than the cell's lower end. A weighted sum of both metrics
would find only the supported points of the front.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.pruning.branch_and_bound.fractions import BestFraction
from algorithms.pruning.branch_and_bound.instance import Budget, Instance, Requirements
from algorithms.pruning.branch_and_bound.solver import BranchAndBound
from algorithms.pruning.rate_rows import Fraction
from algorithms.pruning.searches.base import WEIGHTED, PruningSearch, as_columns, metric_of
from algorithms.pruning.votes import VoteTable, Weights, weights_of
from framework.algorithm import Outcome
from framework.arrays import Array, FloatArray
from framework.errors import InputError, NoneFeasible
from framework.pareto import hypervolume
from framework.preparation import Preparation
from framework.problem import Problem
from framework.registry import require_known
from framework.roles import Roles

_LESS = 1e-9  # step of a limit that is not a whole number, as a share of the whole resource
_TRUE_RATES = ("true_positive_rate", "true_negative_rate")


class ExactFront(PruningSearch):
    """All best compromises of two metrics, or a lower and an upper front at the end of the budget.

    The metrics are the true positive rate and the true negative rate (all weightings at once), or
    one of accuracy, balanced accuracy, precision and F1 with the number of members or any cost. The
    range of the second metric is divided into cells that the workers solve side by side.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
        The objectives name the two metrics, unless ``metric`` and ``against`` do. Constraints are
        part of the program, as for ``ip``.
    seed : int
        Seed of the local searches.
    metric : str, optional
        ``true_positive_rate``, ``accuracy`` or ``balanced_accuracy``. By default the first
        objective that is one of the last two, or precision or F1 of a class (``problem.rates``).
    against : str, optional
        ``true_negative_rate`` (with ``true_positive_rate`` only), ``members`` or a cost.
    cells : int
        Number of cells.
    iterations : int
        Greatest number of simplex iterations of each solve.
    solves : int
        Greatest number of solves of a cell.
    looks : int
        Number of ensembles that the local search of each solve values.

    Raises
    ------
    InputError
        Neither the objectives nor the parameters name two such metrics.
    """

    front_only = True

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        metric: Literal["true_positive_rate", "accuracy", "balanced_accuracy"] | None = None,
        against: str | None = None,
        cells: Annotated[int, Field(ge=1)] = 16,
        iterations: Annotated[int, Field(ge=0)] = 20_000,
        solves: Annotated[int, Field(ge=1)] = 100,
        looks: Annotated[int, Field(ge=1)] = 20_000,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        fractions = {} if metric is not None else {f.name: f for f in self.fractions()}
        self.metric, self.against = self._chosen(metric, against, fractions)
        fraction = fractions.get(self.metric)
        costs = self._resource()
        n0, n1 = self.votes.totals
        name = "accuracy" if fraction is not None else self.metric
        weights = weights_of("recall" if costs is None else name, n0, n1)
        self._multiple = 1.0 if fraction is not None else metric_of(weights, n0, n1)[1]
        whole = costs is None or bool((costs == np.floor(costs)).all())
        self._demands = self.demands()
        self._task = FrontTask(
            self.votes,
            weights,
            costs,
            whole,
            self._demands.requirements,
            iterations,
            solves,
            looks,
            seed,
            fraction,
        )
        self._least = 0.0 if costs is None else float(costs.min())
        self._cells = cells_between(self._least, self._task.total, cells, whole)
        self._solves: list[Solved] | None = None
        self._exact = True

    def prepare(self, work: Preparation) -> None:
        of_cells: list[list[Solved]] = work.map(
            "cells of the front",
            solve_cell,
            self._task,
            self._cells,
            read=from_json,
            write=to_json,
        )
        self._solves = []
        for cell, result in zip(self._cells, of_cells, strict=True):
            last = result[-1]
            more = last.x is not None and min(last.at_most, last.taken) > cell.low
            cut = more and len(result) == self._task.solves
            self._exact &= not cut and all(s.closed for s in result)
            self._solves += result

    def propose(self) -> Array | None:
        assert self._solves is not None
        points = [(s.x, s.threshold) for s in self._solves if s.x is not None]
        if not points:
            raise NoneFeasible(
                "constraints: expected demands that some ensemble meets, "
                + ("proved that none does" if self._exact else "found none within the iterations")
                + f" ({self._demands}); relax one of them"
            )
        X = np.array([x for x, _ in points], dtype=np.int64)
        rows = self.rows(X, [threshold for _, threshold in points])
        _, first = np.unique(rows, axis=0, return_index=True)
        self.done = True
        still = sum(not s.closed for s in self._solves)
        self.reason = (
            "the exact front is complete"
            if self._exact
            else f"algorithm.iterations: {still} of {len(self._solves)} solves are open; "
            "certificates.csv has what no ensemble exceeds"
        )
        return rows[np.sort(first)]

    def outcome(self) -> Outcome:
        """Return whether the front is exact, the area between its bounds, and ``certificates``.

        ``area`` has the areas that the front and the upper front dominate, as shares of the
        rectangle of all values, and their difference. The certificates state what no ensemble
        exceeds within a limit of the second metric.
        """
        solves = self._solves
        if solves is None:
            return Outcome()
        lower, upper = self._areas(solves)
        findings = {
            "exact": self._exact and self.all_evaluated,
            "metric": self.metric,
            "against": self.against,
            "cells": len(self._cells),
            "solves": len(solves),
            "open": sum(not s.closed for s in solves),
            "iterations": sum(s.iterations for s in solves),
            "area": {"lower": lower, "upper": upper, "between": upper - lower},
        }
        rows: list[dict[str, Any]] = []
        for s in solves:
            value = s.value / self._multiple if s.x is not None else float("nan")
            bound = max(s.bound, 0.0) / self._multiple
            row = {"metric": self.metric, "value": value, "bound": bound}
            rows.append({**row, **self._condition(s.at_most), "taken": s.taken, "closed": s.closed})
        return Outcome(findings, tables={"certificates": as_columns(rows)})

    def _condition(self, at_most: float) -> dict[str, float]:
        """Return the conditions of a certificate, among them the limit of the second metric."""
        demanded = self._demands.conditions
        if self._task.costs is None:
            rate, name = 1.0 - at_most / self.votes.totals[0], "at_least_true_negative_rate"
            return {**demanded, name: max(rate, demanded.get(name, rate))}
        name = f"at_most_{self.against}"
        return {**demanded, name: min(at_most, demanded.get(name, at_most))}

    def _areas(self, solves: list[Solved]) -> tuple[float, float]:
        """Return the areas below the steps of the front and of the bounds, within 1 by 1."""
        total = max(self._task.total, 1e-300)
        attained = [(s.taken, s.value / self._multiple) for s in solves if s.x is not None]
        losses = np.array([(taken / total, -value) for taken, value in attained])
        lower = hypervolume(losses, np.array([1.0, 0.0])) if attained else 0.0
        # a bound for at most b holds for every limit below b plus the least step
        ordered = sorted(solves, key=lambda s: s.at_most)
        bounds = np.array([s.bound / self._multiple for s in ordered]).clip(0.0, 1.0)
        proven = np.minimum.accumulate(bounds[::-1])[::-1]
        ends = np.array([s.at_most for s in ordered]) + (1.0 if self._task.whole else 0.0)
        ends = np.minimum(np.append(ends[:-1], total), total) / total
        return lower, float((np.diff(ends, prepend=self._least / total) * proven).sum())

    def _resource(self) -> Array | None:
        if self.against == "true_negative_rate":
            return None
        if self.against == "members":
            return np.ones(self.votes.k)
        return np.asarray(self._costs[self.against], dtype=np.float64)

    def _chosen(
        self, metric: str | None, against: str | None, fractions: Collection[str]
    ) -> tuple[str, str]:
        names = self.roles.names
        if metric is None:
            rates = all(name in names for name in _TRUE_RATES) and against in (None, _TRUE_RATES[1])
            first = next((n for n in names if n in WEIGHTED or n in fractions), None)
            metric = _TRUE_RATES[0] if rates and first is None else first
        possible = ["members", *self._costs]
        if metric == _TRUE_RATES[0]:
            possible = [_TRUE_RATES[1]]
        if against is None:
            against = next((name for name in names if name in possible), None)
            if metric == _TRUE_RATES[0]:
                against = _TRUE_RATES[1]
        if metric is None or against is None:
            raise InputError(
                "objectives: expected true_positive_rate and true_negative_rate, or accuracy, "
                "balanced_accuracy, precision or f1 (of problem.rates) and one of "
                f"{', '.join(['members', *self._costs])}; found "
                f"{', '.join(names)}; or set algorithm.metric and algorithm.against"
            )
        expected = f"algorithm.against: expected {' or '.join(possible)} with {metric},"
        require_known([against], possible, expected)
        return metric, against


class Cell(NamedTuple):
    """Amounts of the resource above ``low`` and up to ``high``."""

    low: float
    high: float


class Solved(NamedTuple):
    """The result of a solve with the limit ``at_most`` of the resource.

    No ensemble within the limit is worth more than ``bound``. The best one has members ``x`` (None
    if there is none) and ``threshold``; it is worth ``value`` and takes ``taken``. The bound is
    proven to be attained if ``closed``.
    """

    at_most: float
    bound: float
    x: Array | None
    threshold: int
    value: float
    taken: float
    closed: bool
    iterations: int


@dataclass(frozen=True)
class FrontTask:
    """What all cells of a front share.

    Attributes
    ----------
    table : VoteTable
    weights : Weights
        Weights of the value; those of recall if ``costs`` is None.
    costs : numpy.ndarray, shape (K,), or None
        The resource is the sum of the members' costs; the false positives if None.
    whole : bool
        Whether amounts of the resource are whole numbers.
    requirements : Requirements
        Further requirements of ensembles.
    iterations, solves : int
        Greatest number of simplex iterations of a solve, and of solves of a cell.
    looks, seed : int
        Passed on to the local search of each solve.
    fraction : Fraction or None
        The value in place of the weighted sum.
    """

    table: VoteTable
    weights: Weights
    costs: FloatArray | None
    whole: bool
    requirements: Requirements
    iterations: int
    solves: int
    looks: int
    seed: int
    fraction: Fraction | None = None

    @property
    def total(self) -> float:
        """The greatest amount of the resource that an ensemble can take."""
        return float(self.table.totals[0] if self.costs is None else self.costs.sum())

    def solver(self, at_most: float) -> BranchAndBound | BestFraction:
        """Return a solver of the program with a limit of the resource."""
        options = {"seed": self.seed, "looks": self.looks}
        if self.costs is None:
            instance = Instance.with_cap(self.table, int(at_most), self.requirements)
            return BranchAndBound(instance, **options)
        budgets = (Budget(self.costs, at_most), *self.requirements.budgets)
        requirements = replace(self.requirements, budgets=budgets)
        if self.fraction is not None:
            return BestFraction(self.table, self.fraction, requirements, **options)
        return BranchAndBound(Instance.of(self.table, self.weights, requirements), **options)

    def taken(self, x: Array, threshold: int) -> float:
        """Return how much of the resource an ensemble takes."""
        if self.costs is not None:
            return float(self.costs[np.flatnonzero(x)].sum())
        return float(self.table.positives(x[np.newaxis], np.array([threshold]))[0, 0])


def solve_cell(task: FrontTask, cell: Cell) -> list[Solved]:
    """Return the solves of a cell, from its upper end down; the last may take less than ``low``."""
    solves: list[Solved] = []
    at_most = cell.high
    less = 1.0 if task.whole else _LESS * max(task.total, 1e-300)
    while at_most > cell.low and len(solves) < task.solves:
        solver = task.solver(at_most)
        while not solver.done and solver.iterations < task.iterations:
            solver.step()
        best, proof = solver.incumbent, (solver.done, solver.iterations)
        if best is None:
            return [*solves, Solved(at_most, solver.bound, None, 0, -np.inf, np.nan, *proof)]
        taken = task.taken(best.x, best.threshold)
        solves.append(Solved(at_most, solver.bound, *best, taken, *proof))
        at_most = min(at_most, taken) - less
    return solves


def cells_between(first: float, last: float, count: int, whole: bool) -> list[Cell]:
    """Divide amounts of the resource from ``first`` to ``last``; the lowest cell begins below.

    Cells of whole numbers have equal widths; otherwise each is a multiple of the one before.
    """
    if whole:
        highs = np.unique(np.round(np.linspace(first, last, count + 1)[1:])).tolist()
    else:
        highs = np.unique(np.geomspace(max(first, last * 1e-6), last, count + 1)[1:]).tolist()
    lows = [first - 1.0 if whole else 0.0, *highs[:-1]]
    return [Cell(low, high) for low, high in zip(lows, highs, strict=True) if high > low]


def to_json(solves: Sequence[Solved]) -> list[dict[str, Any]]:
    """Return the solves of a cell as JSON values."""
    return [s._replace(x=None if s.x is None else s.x.tolist())._asdict() for s in solves]


def from_json(plain: Sequence[Mapping[str, Any]]) -> list[Solved] | None:
    """Return the solves of a cell; None if there are none, TypeError for damaged values."""
    rows = [Solved(**row) for row in plain]
    return [s if s.x is None else s._replace(x=np.array(s.x, dtype=np.int8)) for s in rows] or None
