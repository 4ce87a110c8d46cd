"""A small Ray cluster, and evaluators on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.parallel.cluster import cluster
from framework.parallel.config import ClusterConfig
from framework.parallel.ray_evaluator import RayEvaluator
from framework.problem import Problem
from tests.parallel.asking import Make


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    with cluster(workers=2):
        yield


@pytest.fixture
def make(ray_here: None) -> Iterator[Make]:
    made: list[RayEvaluator] = []

    def open_evaluator(problem: Problem) -> RayEvaluator:
        # without copies, each part is built once however busy the machine is
        made.append(RayEvaluator(problem, 7, workers=2, config=ClusterConfig(copies=False)))
        return made[-1]

    yield open_evaluator
    for evaluator in made:
        evaluator.close()
