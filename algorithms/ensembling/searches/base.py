"""The base of the searches over ensembles, and two that evaluate single models only."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.algorithm import Algorithm, Outcome
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.registry import require_known
from framework.roles import Roles
from framework.space import Counts


class CountsSearch(Algorithm):
    """Base of searches over how often each model of a library is picked.

    Parameters
    ----------
    problem : Problem
        With the space :class:`~framework.space.Counts`.
    roles : Roles
    seed : int
    fitness : str, optional
        The objective that :meth:`loss` is made from; the first one if None.

    Raises
    ------
    InputError
        The fitness is not an objective.
    """

    spaces = (Counts,)
    space: Counts

    def __init__(
        self, problem: Problem, roles: Roles, *, seed: int, fitness: str | None = None
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.max_count = self.space.max_count
        if fitness is not None:
            expected = f"algorithm.fitness: expected an objective ({', '.join(roles.names)}),"
            require_known([fitness], roles.names, expected)
        self._fitness = 0 if fitness is None else roles.names.index(fitness)
        low = float(roles.limits()[self._fitness, 0])
        self._ideal = low if np.isfinite(low) else 0.0

    def singles(self) -> Array:
        """Return every model alone, shape (d, d)."""
        return np.eye(self.space.d, dtype=self.space.dtype)

    def loss(self, batch: Evaluated) -> FloatArray:
        """Return how far the fitness is from its best possible value (0 if none), shape (n,)."""
        losses = self.roles.losses(batch.values)
        return np.asarray(losses[:, self._fitness] - self._ideal)

    def sign_of(self, name: str, key: str) -> float:
        """Return 1 for a metric to minimise and -1 for one to maximise.

        Raises
        ------
        InputError
            The problem has no such metric; the message names the configuration's ``key``.
        """
        metrics = self.roles.metrics
        expected = f"algorithm.{key}: expected a metric of the problem ({', '.join(metrics)}),"
        require_known([name], metrics, expected)
        return -1.0 if metrics[name].sense == "max" else 1.0


class Singles(CountsSearch):
    """Evaluate every model alone, once, and return those that are feasible.

    It has the parameters of :class:`CountsSearch`; nothing is random.
    """

    def __init__(self, problem: Problem, roles: Roles, **options: Any) -> None:
        super().__init__(problem, roles, **options)
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    def propose(self) -> Array | None:
        return self.singles()

    def learn(self, batch: Evaluated) -> None:
        feasible = batch.take(batch.ok & (self.roles.violation(batch.values) == 0.0))
        self._returned = self._chosen(feasible)
        self.done, self.reason = True, "every model was evaluated"

    def outcome(self) -> Outcome:
        return Outcome(returned=self._returned)

    def _chosen(self, rows: Evaluated) -> IntArray:
        return rows.ids


class SingleBest(Singles):
    """Evaluate every model alone; return the feasible one with the least loss, first of equals."""

    def _chosen(self, rows: Evaluated) -> IntArray:
        if len(rows) == 0:
            return rows.ids
        return np.asarray(rows.ids[[np.argmin(self.loss(rows))]])
