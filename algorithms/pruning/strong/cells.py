"""A piece of an exact front: the best value for every amount of a resource within a range.

The epsilon-constraint method over whole levels: solve for at most ``high``, then for less than
what the ensemble found takes, until one takes no more than ``low``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms.pruning.diversity import Demand
from algorithms.pruning.strong.branch_and_bound import BranchAndBound
from algorithms.pruning.strong.instance import Budget, Instance
from algorithms.pruning.votes import VoteTable, Weights
from framework.arrays import Array, FloatArray

_LESS = 1e-9  # share of the whole resource by which less is less, where it is no whole number


class Cell(NamedTuple):
    """Amounts of the resource above ``low`` and up to ``high``."""

    low: float
    high: float


class Solved(NamedTuple):
    """What is known for at most ``at_most`` of the resource.

    No ensemble is worth more than ``bound``; ``x`` (None where there is none) with ``threshold``
    is worth ``value`` and takes ``taken``.
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
        Of the value; those of recall where ``costs`` is None.
    costs : numpy.ndarray, shape (K,), or None
        The resource: what members cost; false positives where None.
    whole : bool
        Whether amounts are whole numbers.
    majority : bool
    iterations, solves : int
        Simplex iterations of a solve and solves of a cell, at most.
    looks, seed : int
        Of the first local search of each solve.
    most, budgets, credit, demand :
        What members have to keep to besides, as for :class:`Instance`.
    """

    table: VoteTable
    weights: Weights
    costs: FloatArray | None
    whole: bool
    majority: bool
    iterations: int
    solves: int
    looks: int
    seed: int
    most: int | None = None
    budgets: tuple[Budget, ...] = ()
    credit: FloatArray | None = None
    demand: Demand | None = None

    @property
    def total(self) -> float:
        """The greatest amount that there is."""
        return float(self.table.totals[0] if self.costs is None else self.costs.sum())

    def instance(self, at_most: float) -> Instance:
        """Return the program with at most so much of the resource."""
        rest: dict[str, Any] = {
            "majority": self.majority,
            "max_members": self.most,
            "credit": self.credit,
            "demand": self.demand,
        }
        if self.costs is None:
            return Instance.with_cap(self.table, int(at_most), budgets=self.budgets, **rest)
        budgets = [Budget(self.costs, at_most), *self.budgets]
        return Instance.of(self.table, self.weights, budgets=budgets, **rest)

    def taken(self, x: Array, threshold: int) -> float:
        """Return what an ensemble takes of the resource."""
        if self.costs is not None:
            return float(self.costs[np.flatnonzero(x)].sum())
        return float(self.table.positives(x[np.newaxis], np.array([threshold]))[0, 0])


def solve_cell(task: FrontTask, cell: Cell) -> list[Solved]:
    """Return what is known of a cell, from its upper end down; the last may lie below it."""
    found: list[Solved] = []
    at_most = cell.high
    less = 1.0 if task.whole else _LESS * max(task.total, 1e-300)
    while at_most > cell.low and len(found) < task.solves:
        solver = BranchAndBound(task.instance(at_most), seed=task.seed, looks=task.looks)
        while not solver.done and solver.iterations < task.iterations:
            solver.step()
        best = solver.incumbent
        if best is None:
            none = Solved(
                at_most, solver.bound, None, 0, -np.inf, np.nan, solver.done, solver.iterations
            )
            return [*found, none]
        taken = task.taken(best.x, best.threshold)
        found.append(
            Solved(
                at_most,
                solver.bound,
                best.x,
                best.threshold,
                best.value,
                taken,
                solver.done,
                solver.iterations,
            )
        )
        at_most = min(at_most, taken) - less
    return found


def cells_between(first: float, last: float, count: int, whole: bool) -> list[Cell]:
    """Divide amounts up to ``last``; the lowest cell reaches down to below ``first``.

    Evenly in whole numbers from 0, else so that each cell is a multiple of the one before.
    """
    if whole:
        highs = np.unique(np.round(np.linspace(first, last, count + 1)[1:])).tolist()
    else:
        highs = np.unique(np.geomspace(max(first, last * 1e-6), last, count + 1)[1:]).tolist()
    lows = [first - 1.0 if whole else 0.0, *highs[:-1]]
    return [Cell(low, high) for low, high in zip(lows, highs, strict=True) if high > low]


def as_note(found: Sequence[Solved]) -> bytes:
    """Return what is known of a cell as JSON."""
    rows = [s._replace(x=None if s.x is None else s.x.tolist())._asdict() for s in found]
    return json.dumps(rows).encode()


def noted(content: bytes | None) -> list[Solved] | None:
    """Undo :func:`as_note`; None where there is no note that can be read."""
    if content is None:
        return None
    try:
        rows = [Solved(**row) for row in json.loads(content)]
        return [
            s if s.x is None else s._replace(x=np.array(s.x, dtype=np.int8)) for s in rows
        ] or None
    except (TypeError, ValueError):
        return None
