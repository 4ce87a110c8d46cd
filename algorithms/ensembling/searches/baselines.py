"""Baselines: every model alone, and the best of them."""

from __future__ import annotations

import numpy as np

from algorithms.ensembling.searches.base import CountsSearch
from framework.algorithm import Outcome
from framework.arrays import Array, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles


class Singles(CountsSearch):
    """Evaluate every model alone, once, and return those that are feasible.

    Parameters
    ----------
    problem : Problem
        Over :class:`~framework.space.Counts`.
    roles : Roles
    seed : int
        Not used, as nothing is random.
    fitness : str, optional
        The objective that is minimised or maximised; the first one if None.
    """

    def __init__(
        self, problem: Problem, roles: Roles, *, seed: int, fitness: str | None = None
    ) -> None:
        super().__init__(problem, roles, seed=seed, fitness=fitness)
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    def propose(self) -> Array | None:
        """Return every model alone, shape (d, d)."""
        return self.singles()

    def learn(self, batch: Evaluated) -> None:
        """Note what is returned."""
        feasible = batch.take(batch.ok & (self.roles.violation(batch.values) == 0.0))
        self._returned = self._chosen(feasible)
        self.done, self.reason = True, "every model was evaluated"

    def outcome(self) -> Outcome:
        """Return the ids of the models returned."""
        return Outcome(returned=self._returned)

    def _chosen(self, rows: Evaluated) -> IntArray:
        return rows.ids


class SingleBest(Singles):
    """Evaluate every model alone and return the feasible one of least loss, first of equals.

    Parameters: as for :class:`Singles`.
    """

    def _chosen(self, rows: Evaluated) -> IntArray:
        if len(rows) == 0:
            return rows.ids
        return np.asarray(rows.ids[[np.argmin(self.loss(rows))]])
