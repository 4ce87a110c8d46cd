"""Workers follow the nodes: those that join get work, those that are lost take none with them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import psutil
import pytest

from framework.batch import Evaluated
from framework.parallel.cluster import cluster
from framework.parallel.config import ClusterConfig, Resources
from framework.parallel.ray_evaluator import RayEvaluator
from framework.problem import Problem
from framework.testing import check_elastic
from tests.clusters.machines import Machines
from tests.parallel.asking import assert_same, collect_all, expected, genomes, score, wait_for_pids
from tests.ray_toys import Reader, Sphere

pytestmark = pytest.mark.slow

SECONDS = 0.1


@contextmanager
def evaluator_on(
    machines: Machines, problem: Problem, workers: int | None, config: ClusterConfig
) -> Iterator[RayEvaluator]:
    with cluster(workers, machines.address, config) as joined:
        evaluator = RayEvaluator(problem, 7, workers=joined.workers, config=config)
        try:
            yield evaluator
        finally:
            evaluator.close()


def collect_until(evaluator: RayEvaluator, pieces: list[Evaluated], ready: int) -> float:
    """Collect until so many workers are there; return the seconds it took."""
    start = time.monotonic()
    while len(evaluator.pool.ready) < ready:
        assert time.monotonic() < start + 120, f"{len(evaluator.pool.ready)} workers came"
        pieces += evaluator.collect(0.5)
    return time.monotonic() - start


def rest(evaluator: RayEvaluator, pieces: list[Evaluated], n: int) -> Evaluated:
    """Collect what is left of ``n`` rows; return all of them, each once."""
    batch = collect_all(evaluator, n, pieces)
    assert batch.ids.tolist() == list(range(n))
    return batch


@pytest.mark.parametrize("workers", [4, None])
def test_nodes_come_and_go(machines: Machines, shipped: ClusterConfig, workers: int | None) -> None:
    first = machines.join(1)
    n, X = 400, genomes(400)
    with evaluator_on(machines, Sphere(seconds=SECONDS), workers, shipped) as evaluator:
        evaluator.submit(np.arange(n), X)
        pieces: list[Evaluated] = []
        collect_until(evaluator, pieces, 1)
        second = machines.join(2)
        waited = collect_until(evaluator, pieces, 3)
        print(f"two workers on a node that joins work after {waited:.1f} s")
        nodes = {slot.node for slot in evaluator.pool.ready if slot.requests}
        assert len(nodes) == 2
        machines.lose(first)
        machines.lose(second)
        machines.join(1)
        batch = rest(evaluator, pieces, n)
        assert evaluator.incidents()["nodes_lost"] == 2
    assert_same(batch, expected(Sphere(), X))


def test_the_law_of_elastic_workers(machines: Machines, shipped: ClusterConfig) -> None:
    nodes = [machines.join(1)]
    with cluster(3, machines.address, shipped):
        check_elastic(
            lambda problem, seed: RayEvaluator(problem, seed, workers=3, config=shipped),
            Sphere(seconds=SECONDS, noise=0.3),
            [
                lambda evaluator: nodes.append(machines.join(2)),
                lambda evaluator: machines.lose(nodes[0]),
                lambda evaluator: nodes.append(machines.join(1)),
                lambda evaluator: machines.lose(nodes[1]),
            ],
            rows=300,
        )


def test_each_worker_takes_what_it_is_given(machines: Machines, shipped: ClusterConfig) -> None:
    """Workers of two CPUs and of a resource that one node has: one fits, where it may."""
    machines.join(3)
    machines.join(3, options=('--resources={"licence": 1}',))
    resources = Resources(num_cpus=2, custom={"licence": 0.5})
    config = shipped.model_copy(update={"resources": resources})
    with evaluator_on(machines, Sphere(), 4, config) as evaluator:
        X = genomes(20)
        assert_same(score(evaluator, X), expected(Sphere(), X))
        assert len(evaluator.pool.ready) == 1
        assert evaluator.pool.size == 4


def test_a_worker_that_stands_still_holds_nobody_up(machines, shipped):
    machines.join(2)
    X = genomes(60)
    with evaluator_on(machines, Sphere(seconds=SECONDS), 2, shipped) as evaluator:
        evaluator.submit(np.arange(60), X)
        pieces: list[Evaluated] = []
        collect_until(evaluator, pieces, 2)
        os.kill(wait_for_pids(evaluator, 1)[0], signal.SIGSTOP)
        batch = rest(evaluator, pieces, 60)
        assert evaluator.incidents()["copies"] >= 1
    assert_same(batch, expected(Sphere(), X))


def test_a_row_that_takes_too_long_fails_alone(machines: Machines, shipped: ClusterConfig) -> None:
    machines.join(2)
    config = shipped.model_copy(update={"row_timeout": 3.0})
    X = genomes(12)
    X[5, 0] = Sphere.SLEEPER
    with evaluator_on(machines, Sphere(), 2, config) as evaluator:
        evaluator.submit(np.arange(12), X)
        batch = rest(evaluator, [], 12)
        assert evaluator.incidents()["timeouts"] >= 3
    assert list(batch.errors) == [5]
    assert "row_timeout, 3 s" in batch.errors[5]


def test_a_lost_raylet_alone(machines: Machines, shipped: ClusterConfig) -> None:
    """Its workers live on for a moment; what they say then counts once at most."""
    node, X = machines.join(2), genomes(200)
    with evaluator_on(machines, Sphere(seconds=SECONDS), 4, shipped) as evaluator:
        evaluator.submit(np.arange(200), X)
        pieces: list[Evaluated] = []
        collect_until(evaluator, pieces, 2)
        for process in psutil.Process(node.pid).children(recursive=True):
            if process.name() == "raylet":
                process.kill()
        machines.join(1)
        batch = rest(evaluator, pieces, 200)
    assert_same(batch, expected(Sphere(), X))


def test_a_folder_of_the_driver_travels(machines, shipped, tmp_path):
    (tmp_path / "numbers.txt").write_text("5")
    config = shipped.model_copy(update={"working_dir": str(tmp_path), "env_vars": {"OFFSET": "2"}})
    machines.join(1)
    with evaluator_on(machines, Reader("numbers.txt", "OFFSET"), 1, config) as evaluator:
        found = score(evaluator, genomes(3))
    plain = expected(Sphere(), genomes(3))
    np.testing.assert_allclose(found.values["near"], plain.values["near"] + 7)
