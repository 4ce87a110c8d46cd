"""How the tests run searches over ensembles."""

from __future__ import annotations

import numpy as np

from framework.pareto import hypervolume
from framework.roles import Objective, Roles
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget


class Recorder(SerialEvaluator):
    """Keeps what it was asked and what it answered."""

    def __init__(self, problem):
        super().__init__(problem)
        self.batches = []

    def score(self, ids, X):
        rows = super().score(ids, X)
        if rows is not None:
            self.batches.append(rows)
        return rows

    def collect(self, timeout=None):
        pieces = super().collect(timeout)
        self.batches += pieces
        return pieces

    def column(self, name):
        return np.concatenate([batch.values[name] for batch in self.batches])

    @property
    def X(self):
        return np.concatenate([batch.X for batch in self.batches])


def two_roles(problem, *constraints, cost="memory"):
    """Return loss against one cost, as in the paper."""
    return Roles(
        problem.metrics, [Objective("roc_auc", "max"), Objective(cost, "min")], constraints
    )


def searched(cls, problem, roles=None, evaluations=600, seed=0, **parameters):
    """Return the algorithm, the front and the record of a run."""
    algorithm = cls(problem, roles or two_roles(problem), seed=seed, **parameters)
    record = Recorder(problem)
    budget = Budget(evaluations=evaluations, max_failed_share=1.0)
    return algorithm, search(problem, algorithm, record, budget=budget), record


def volume(record, roles, rows):
    """Return the hypervolume of some rows of a run, within the roles' bounds."""
    losses = roles.losses({name: record.column(name)[rows] for name in roles.metrics})
    bounds = roles.bounds()
    scaled = (losses - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    return hypervolume(scaled, np.ones(2))
