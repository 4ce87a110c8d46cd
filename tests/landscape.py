"""A toy whose best is known, and EMSCO on it generation by generation."""

import itertools

import numpy as np

from algorithms.multistage.emsco import EMSCO
from framework.problem import Problem
from framework.run.evaluator import evaluate_candidates
from framework.space import Partition
from tests.conftest import roles_of
from tests.toys import COVERAGE_ACCURACY_COST


class Landscape(Problem):
    """Random objectives of few levels, so that rows tie; a lookup by genome."""

    def __init__(self, seed=0, n=5, k=3, levels=6, removal=False):
        self.space = Partition(n, k, removal)
        self.seed, self.levels = seed, levels
        self.metrics = COVERAGE_ACCURACY_COST
        self.fingerprint = f"landscape/{seed}/{n}/{k}/{levels}/{removal}"

    def evaluate(self, X, streams):
        rows = []
        for x in X.tolist():
            rng = np.random.default_rng([self.seed, *[stage + 1 for stage in x]])
            rows.append(rng.integers(self.levels, size=3) / max(self.levels - 1, 1))
        table = np.array(rows)
        return {"coverage": table[:, 0], "accuracy": table[:, 1], "cost": 1 + 99 * table[:, 2]}


def emsco(problem, *constraints, seed=0, **parameters):
    parameters = {"population": 40, **parameters}
    return EMSCO(problem, roles_of(problem, *constraints), seed=seed, **parameters)


def generations(algorithm, problem, count=None, *, rows=None):
    """Ask and tell until so many batches or rows are told; yield each batch."""
    told = 0
    for number in itertools.count():
        if number == count or (rows is not None and told >= rows):
            return
        X = algorithm.ask()
        if X is None:
            return
        batch = evaluate_candidates(problem, 0, np.arange(told, told + len(X)), X)
        algorithm.tell(batch)
        told += len(X)
        yield batch
