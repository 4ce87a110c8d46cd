"""Tuning a baseline: every cell of its grid is tried, and the best one is what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.general.baselines import GridSearch
from algorithms.multistage.baselines.grids import Criterion
from algorithms.multistage.baselines.problem import RivalProblem
from framework.algorithm import Outcome
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles


class Tuned(GridSearch):
    """Evaluate every cell of a grid; return the feasible one that is best on validation records.

    Of equals the one of greater aggregate, then the first: a criterion that ignores confidence must
    not prefer trees that were hardly begun because they are tried first.

    Parameters
    ----------
    problem : Problem
        Of kind ``rivals``, with one baseline.
    roles : Roles
    seed : int
        Not used, as nothing is random.
    by : {'aggregate', 'plain_aggregate', 'asking_aggregate'}
        What is maximised: a metric, or the aggregate among cells that acquire a feature and answer
        a record.
    batch : int
        Cells in a batch.

    Raises
    ------
    Unfit
        The problem is of another kind.
    """

    reads = RivalProblem

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        by: Criterion = "aggregate",
        batch: Annotated[int, Field(ge=1)] = 300,
    ) -> None:
        super().__init__(problem, roles, seed=seed, batch=batch)
        self.by = by
        self._best: tuple[float, float] | None = None
        self._returned = -1

    def learn(self, batch: Evaluated) -> None:
        """Keep the best cell."""
        feasible = batch.ok & (self.roles.violation(batch.values) == 0.0)
        batch = batch.take(feasible)
        for i, number in enumerate(batch.ids.tolist()):
            row = {name: float(column[i]) for name, column in batch.values.items()}
            found = worth(row, self.by), row["aggregate"]
            if self._best is None or found > self._best:
                self._best, self._returned = found, number

    def outcome(self) -> Outcome:
        if self._best is None:
            return Outcome({"tuned_by": self.by})
        return Outcome({"tuned_by": self.by}, returned=np.array([self._returned]))


def worth(row: Mapping[str, float], by: Criterion) -> float:
    """Return what a cell with these metrics is worth; NaN if it failed."""
    if by != "asking_aggregate":
        return row[by]
    asks = not (row["cost"] == 0 or row["coverage"] == 0)
    return row["aggregate"] if asks else -1.0
