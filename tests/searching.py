"""How the tests run searches: to the end of a budget, with a record of what was asked."""

import numpy as np

from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget


class Recorder(SerialEvaluator):
    """Keeps what it was asked and what it answered."""

    def __init__(self, problem, seed=0):
        super().__init__(problem, seed)
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


def searched(cls, problem, roles, evaluations=None, seed=0, *, generations=None, **parameters):
    """Return the algorithm, the front and the record of a run."""
    algorithm, record = cls(problem, roles, seed=seed, **parameters), Recorder(problem, seed)
    budget = Budget(evaluations=evaluations, generations=generations)
    return algorithm, search(problem, algorithm, record, budget=budget), record
