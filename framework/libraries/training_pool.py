"""Trains the models of a pool in this process or in Ray tasks, with the same results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from framework.libraries.folds import PoolData
from framework.libraries.pool import PoolPlan
from framework.libraries.train import Trained, train
from framework.parallel.choice import RAY_PAYS_SECONDS, uses_ray

Outcome = tuple[PoolPlan, Trained | str]  # a text says why there is none
Say = Callable[[str], None]

_TRY = 4.0  # seconds of training here before it is known what the rest will take


def train_all(
    plans: Sequence[PoolPlan],
    data: PoolData,
    *,
    workers: str | int,
    address: str | None,
    report: Say,
) -> Iterator[Outcome]:
    """Yield each model when it is trained, or its error, in any order.

    Parameters
    ----------
    workers : 'serial', 'auto', 'all' or int
        ``auto`` starts here and moves to Ray where much is left.
    address : str, optional
        A running Ray cluster to join; Ray is used then.
    report : callable
        Called with one sentence: who trains.
    """
    left = list(plans)
    if not uses_ray(workers, address):
        start = time.perf_counter()
        while left and not _worth_ray(workers, start, len(plans) - len(left), len(left)):
            plan = left.pop(0)
            yield plan, _attempt(plan, data)
    if left:
        count = workers if isinstance(workers, int) else None
        yield from _on_ray(left, data, count, address, report)


def _worth_ray(workers: str | int, start: float, done: int, left: int) -> bool:
    spent = time.perf_counter() - start
    if workers == "serial" or os.cpu_count() == 1 or spent < _TRY:
        return False
    return spent / done * left > RAY_PAYS_SECONDS


def _attempt(plan: PoolPlan, data: PoolData) -> Trained | str:
    try:
        return train(plan, data)
    except Exception as error:  # a model that fails is recorded and left out
        return f"{type(error).__name__}: {error}"


def _on_ray(
    plans: Sequence[PoolPlan], data: PoolData, workers: int | None, address: str | None, report: Say
) -> Iterator[Outcome]:
    import ray

    from framework.parallel.cluster import cluster

    with cluster(workers, address) as joined:
        report(f"trained by {joined.description}")
        task: Any = ray.remote(num_cpus=1)(_attempt)
        shared = ray.put(data)
        queue, running = list(reversed(plans)), dict[Any, PoolPlan]()
        while queue or running:
            while queue and len(running) < 2 * joined.workers:  # results wait in little memory
                plan = queue.pop()
                running[task.remote(plan, shared)] = plan
            ready, _ = ray.wait(list(running), num_returns=1)
            plan = running.pop(ready[0])
            try:
                yield plan, ray.get(ready[0])
            except ray.exceptions.RayError as error:  # its worker died, again and again
                yield plan, f"{type(error).__name__}: {error}"
