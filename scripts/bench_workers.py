"""Benchmark of Ray workers, which ``bench.py`` runs. Those that compute need a quiet core each."""

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
    """Two sums of squares, each evaluation of which computes, or sleeps, for a time."""

    def __init__(self, seconds: float, sleeps: bool) -> None:
        self.space = Box(np.full(8, -10.0), np.full(8, 10.0))
        self.metrics = (Metric("near", "min", "ratio"), Metric("far", "min", "ratio"))
        self.fingerprint, self.seconds, self.sleeps = f"busy/{seconds}", seconds, sleeps

    def evaluate(self, X: Array, streams: object = None) -> dict[str, Array]:
        for _ in X:
            if self.sleeps:
                time.sleep(self.seconds)
                continue
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                pass
        return {"near": (X**2).sum(axis=1), "far": ((X - 1.0) ** 2).sum(axis=1)}


def bench_ray(args: argparse.Namespace) -> None:
    """Print the speed of Ray workers, and what the driver takes for an evaluation."""
    problem, n = Busy(args.seconds, args.sleep), args.evaluations
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

    with cluster(workers=args.workers):
        import ray

        actors = [ray.remote(Busy).remote(args.seconds, args.sleep) for _ in range(args.workers)]
        genomes = problem.space.sample(np.random.default_rng(0), REQUEST)
        one, all_workers = (
            SerialEvaluator(problem, 0),
            RayEvaluator(problem, 0, workers=args.workers),
        )
        pending = 32 * args.workers
        works: dict[str, Callable[[], None]] = {
            "nsga2 in one process": partial(searching, one),
            "nsga2 on Ray": partial(searching, all_workers),
            f"nsga2 on Ray, max_pending {pending}": partial(
                searching, all_workers, max_pending=pending
            ),
            "bare actors of Ray, without a search": asking,
        }
        searching(all_workers)  # starts the workers
        asking()
        rows, first = [], 0.0
        for name, work in works.items():
            seconds, driver = fastest(args.repeats, partial(by_clock, work))
            first = first or seconds
            each = "" if name.endswith("one process") else f"{driver / n * 1e6:.0f}"
            rows.append((name, f"{seconds:.2f}", f"{first / seconds / args.workers:.2f}", each))
        all_workers.close()
    title = f"{n:,} evaluations of {args.seconds * 1000:g} ms, {args.workers} workers"
    print_table(title, "search,seconds,of as many processes,driver us each", rows)


def by_clock(work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds of the clock and of this process that a call takes."""
    start, computed = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - computed
