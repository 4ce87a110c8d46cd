"""Ray evaluators for tests: a small cluster, and what is asked of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from framework.arrays import Array
from framework.batch import Evaluated
from framework.parallel.ray_evaluator import RayEvaluator
from framework.problem import Problem
from framework.run.evaluator import Evaluator, SerialEvaluator

Make = Callable[[Problem], RayEvaluator]


def collect_all(
    evaluator: Evaluator, n: int, pieces: Sequence[Evaluated] = (), seconds: float = 240.0
) -> Evaluated:
    """Collect until ``n`` rows are there, each once; ``pieces`` are there already."""
    pieces = list(pieces)
    deadline = time.monotonic() + seconds
    while sum(map(len, pieces)) < n:
        assert time.monotonic() < deadline, f"{sum(map(len, pieces))} of {n} rows came in time"
        pieces += evaluator.collect(timeout=1.0)
    batch = Evaluated.concat(pieces)
    assert batch.ids.tolist() == sorted(set(batch.ids.tolist()))
    assert len(batch) == n
    return batch


def score(evaluator: Evaluator, X: Array, start: int = 0) -> Evaluated:
    evaluator.submit(np.arange(start, start + len(X)), X)
    return collect_all(evaluator, len(X))


def expected(problem: Problem, X: Array, start: int = 0) -> Evaluated:
    """Return what the serial evaluator says."""
    return score(SerialEvaluator(problem, 7), X, start)


def assert_same(found: Evaluated, expected: Evaluated) -> None:
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.X, expected.X)
    assert found.errors == expected.errors
    for name, column in expected.values.items():
        assert found.values[name].tobytes() == column.tobytes()


def wait_for_pids(evaluator: RayEvaluator, n: int) -> list[int]:
    deadline = time.monotonic() + 120
    while len(evaluator.pool.ready) < n and time.monotonic() < deadline:
        evaluator.pool.step(0.1)
    return [slot.pid for slot in evaluator.pool.ready if slot.pid is not None]


def genomes(n: int, d: int = 4) -> Array:
    return np.random.default_rng(n).uniform(0, 5, size=(n, d))


def gene_sets(n: int, high: int = 60) -> Array:
    return np.random.default_rng(n).integers(0, high, size=(n, 3)).astype(float)
