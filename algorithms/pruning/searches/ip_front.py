"""``ip_front``: exact fronts of pruned ensembles, every point with its certificate."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from algorithms.pruning.searches.base import (
    WEIGHTED,
    PruningSearch,
    as_columns,
    certificate,
    metric_of,
)
from algorithms.pruning.strong.cells import (
    FrontTask,
    Solved,
    as_note,
    cells_between,
    noted,
    solve_cell,
)
from algorithms.pruning.votes import weights_of
from framework.algorithm import Outcome
from framework.arrays import Array
from framework.batch import Evaluated
from framework.errors import InputError
from framework.preparation import Preparation
from framework.problem import Problem
from framework.registry import nearest
from framework.roles import Roles

_TRUE_RATES = ("true_positive_rate", "true_negative_rate")


class ExactFront(PruningSearch):
    """All best compromises of two metrics, or a lower and an upper front where time ran out.

    Either of the true positive rate with the true negative rate (all weightings at once), or of
    accuracy or balanced accuracy with the number of members or any cost. The range of the second
    metric is divided into cells that the workers solve side by side.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
        Say which front, unless ``metric`` and ``against`` do. Constraints are part of the program
        as for ``ip``.
    seed : int
        Of the local searches.
    metric : str, optional
        ``true_positive_rate``, ``accuracy`` or ``balanced_accuracy``.
    against : str, optional
        ``true_negative_rate`` (with ``true_positive_rate`` alone), ``members`` or a cost.
    cells : int
        Pieces of work.
    iterations : int
        Simplex iterations of each solve, at most.
    solves : int
        Solves of a cell, at most.
    looks : int
        Ensembles that the local search of each solve looks at.

    Raises
    ------
    InputError
        Neither the objectives nor the parameters name a front.

    Notes
    -----
    Epsilon-constraint over whole levels: Haimes, Lasdon and Wismer 1971. A weighted sum would
    find supported points only.
    """

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
        self.metric, self.against = self._chosen(metric, against)
        costs = self._resource()
        n0, n1 = self.votes.totals
        weights = weights_of("recall" if costs is None else self.metric, n0, n1)
        _, self._multiple = metric_of(weights, n0, n1)
        whole = costs is None or bool((costs == np.floor(costs)).all())
        self._demands = self.demands()
        self._task = FrontTask(
            self.votes,
            weights,
            costs,
            whole,
            self.majority,
            iterations,
            solves,
            looks,
            seed,
            self._demands.most,
            self._demands.budgets,
            self.credit,
            self._demands.diversity,
        )
        self._least = 0.0 if costs is None else float(costs.min())
        self._cells = cells_between(self._least, self._task.total, cells, whole)
        self._found: list[Solved] | None = None
        self._exact = True

    def prepare(self, work: Preparation) -> None:
        """Have the cells solved."""
        self._solve(work)

    def propose(self) -> Array | None:
        """Return the ensembles found, each once."""
        found = self._solve(Preparation())
        points = [(s.x, s.threshold) for s in found if s.x is not None]
        if not points:
            raise InputError(
                "constraints: expected demands that some ensemble meets, "
                + ("proved that none does" if self._exact else "found none within the iterations")
                + "; relax one of them"
            )
        X = np.array([x for x, _ in points], dtype=np.int64)
        rows = self.rows(X, [threshold for _, threshold in points])
        _, first = np.unique(rows, axis=0, return_index=True)
        self.done = True
        still = sum(not s.closed for s in found)
        self.reason = (
            "the exact front is complete"
            if self._exact
            else f"algorithm.iterations: {still} of {len(found)} solves are open; certificates.csv "
            "has what no ensemble exceeds"
        )
        return rows[np.sort(first)]

    def learn(self, batch: Evaluated) -> None:
        """Ignore the answers: they are counted already."""

    def outcome(self) -> Outcome:
        """Return whether the front is exact, the area between its bounds, and ``certificates``.

        ``area`` has, as shares of the rectangle of all values, what the front dominates, what the
        upper one does, and the difference. The certificates say what no ensemble exceeds, by the
        amount of the second metric that it may take.
        """
        if self._found is None:
            return Outcome()
        lower, upper = self._areas(self._found)
        findings = {
            "exact": self._exact,
            "metric": self.metric,
            "against": self.against,
            "cells": len(self._cells),
            "solves": len(self._found),
            "open": sum(not s.closed for s in self._found),
            "iterations": sum(s.iterations for s in self._found),
            "area": {"lower": lower, "upper": upper, "between": upper - lower},
        }
        rows = []
        for s in self._found:
            bound = max(s.bound, 0.0) / self._multiple
            value = s.value / self._multiple if s.x is not None else float("nan")
            row = certificate(self.metric, value, bound, self._condition(s.at_most))
            rows.append({**row, "taken": s.taken, "closed": s.closed})
        return Outcome(findings, tables={"certificates": as_columns(rows)})

    def _solve(self, work: Preparation) -> list[Solved]:
        if self._found is None:
            known = {i: noted(work.checkpoints.get(f"cell {i}")) for i in range(len(self._cells))}
            left = [i for i, solved in known.items() if solved is None]
            results = work.workers.map(solve_cell, self._task, [self._cells[i] for i in left])
            for i, result in zip(left, results, strict=True):
                work.checkpoints[f"cell {i}"] = as_note(result)
                known[i] = result
                done = sum(solved is not None for solved in known.values())
                work.report("cells of the front", done, len(self._cells))
            self._found = []
            for i, cell in enumerate(self._cells):
                result = known[i] or []
                last = result[-1]
                more = last.x is not None and min(last.at_most, last.taken) > cell.low
                cut = more and len(result) == self._task.solves
                self._exact &= not cut and all(s.closed for s in result)
                self._found += result
        return self._found

    def _condition(self, at_most: float) -> dict[str, float]:
        demanded = self._demands.conditions
        if self._task.costs is None:
            rate = 1.0 - at_most / self.votes.totals[0]
            return {**demanded, "at_least_true_negative_rate": rate}
        name = f"at_most_{self.against}"
        return {**demanded, name: min(at_most, demanded.get(name, at_most))}

    def _areas(self, found: list[Solved]) -> tuple[float, float]:
        """Return the area below the front's and the bounds' steps, as shares of 1 by 1."""
        total = max(self._task.total, 1e-300)
        attained = [(s.taken, s.value / self._multiple) for s in found if s.x is not None]
        lower = _area([(taken / total, value) for taken, value in attained])
        # what is known for at most b holds for all less than b plus the least step
        ordered = sorted(found, key=lambda s: s.at_most)
        bounds = np.array([s.bound / self._multiple for s in ordered]).clip(0.0, 1.0)
        known = np.minimum.accumulate(bounds[::-1])[::-1]
        ends = np.array([s.at_most for s in ordered]) + (1.0 if self._task.whole else 0.0)
        ends = np.minimum(np.append(ends[:-1], total), total) / total
        return lower, float((np.diff(ends, prepend=self._least / total) * known).sum())

    def _resource(self) -> Array | None:
        if self.against == "true_negative_rate":
            return None
        if self.against == "members":
            return np.ones(self.votes.k)
        return np.asarray(self._costs[self.against], dtype=np.float64)

    def _chosen(self, metric: str | None, against: str | None) -> tuple[str, str]:
        names = self.roles.names
        if metric is None:
            rates = all(name in names for name in _TRUE_RATES) and against in (None, _TRUE_RATES[1])
            first = next((name for name in names if name in WEIGHTED), None)
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
                "objectives: expected true_positive_rate and true_negative_rate, or accuracy or "
                f"balanced_accuracy and one of {', '.join(['members', *self._costs])}; found "
                f"{', '.join(names)}; or set algorithm.metric and algorithm.against"
            )
        if against not in possible:
            raise InputError(
                f"algorithm.against: expected {' or '.join(possible)} with {metric}, found "
                f"{against!r}{nearest(against, possible)}"
            )
        return metric, against


def _area(points: list[tuple[float, float]]) -> float:
    """Return the area dominated in the unit square: little of the first, much of the second."""
    total, best, before = 0.0, 0.0, 0.0
    for taken, value in sorted(points):
        total += best * (min(taken, 1.0) - before)
        best, before = max(best, value), min(taken, 1.0)
    return total + best * (1.0 - before)
