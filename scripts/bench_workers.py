"""Benchmark of Ray workers, which ``bench.py`` runs. It needs two quiet cores."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from timing import fastest, print_table

from algorithms.general.nsga2 import NSGAII
from framework.arrays import Array
from framework.parallel.cluster import cluster
from framework.parallel.ray_evaluator import RayEvaluator
from framework.problem import Problem
from framework.roles import Metric, Objective, Roles
from framework.run.driver import search
from framework.run.evaluator import Evaluator, SerialEvaluator
from framework.settings import Budget
from framework.space import Box

REQUEST = 10  # evaluations, as many as a request has that takes a hundred milliseconds


class Busy(Problem):
    """Two sums of squares, each evaluation of which computes for a time."""

    def __init__(self, seconds: float) -> None:
        self.space = Box(np.full(8, -10.0), np.full(8, 10.0))
        self.metrics = (Metric("near", "min", "ratio"), Metric("far", "min", "ratio"))
        self.fingerprint, self.seconds = f"busy/{seconds}", seconds

    def evaluate(self, X: Array, streams: object = None) -> dict[str, Array]:
        for _ in X:
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                pass
        return {"near": (X**2).sum(axis=1), "far": ((X - 1.0) ** 2).sum(axis=1)}


def bench_ray(args: argparse.Namespace) -> None:
    """Print the speed of two Ray workers, and what the driver takes for an evaluation."""
    problem, n = Busy(args.seconds), args.evaluations
    roles = Roles(problem.metrics, [Objective(metric.name, "min") for metric in problem.metrics])

    def searching(evaluator: Evaluator, **more: int) -> None:
        algorithm = NSGAII(problem, roles, seed=0, population=100, **more)
        search(problem, algorithm, evaluator, budget=Budget(evaluations=n))

    def asking() -> None:
        asked = {actor.evaluate.remote(genomes): actor for actor in (*actors, *actors)}
        for left in range(n // REQUEST, 0, -1):
            (answer,), _ = ray.wait([*asked])
            ray.get(answer)
            actor = asked.pop(answer)
            if left > len(asked) + 1:
                asked[actor.evaluate.remote(genomes)] = actor

    with cluster(workers=2):
        import ray

        actors = [ray.remote(Busy).remote(args.seconds) for _ in range(2)]
        genomes = problem.space.sample(np.random.default_rng(0), REQUEST)
        one, two = SerialEvaluator(problem, 0), RayEvaluator(problem, 0, workers=2)
        works: dict[str, Callable[[], None]] = {
            "nsga2 in one process": partial(searching, one),
            "nsga2 on two workers": partial(searching, two),
            "nsga2 on two workers, max_pending 64": partial(searching, two, max_pending=64),
            "two bare actors of Ray, without a search": asking,
        }
        searching(two)  # starts the workers
        asking()
        rows, first = [], 0.0
        for name, work in works.items():
            seconds, driver = fastest(args.repeats, partial(by_clock, work))
            first = first or seconds
            each = "" if name.endswith("one process") else f"{driver / n * 1e6:.0f}"
            rows.append((name, f"{seconds:.2f}", f"{first / seconds / 2:.2f}", each))
        two.close()
    title = f"{n:,} evaluations of {args.seconds * 1000:g} ms"
    print_table(title, "search,seconds,of twice one process,driver us each", rows)


def by_clock(work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds of the clock and of this process that a call takes."""
    start, computed = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - computed
