"""Trains the models of a pool in this process or on Ray workers, with the same results."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from framework.environment import environmental, reason_of
from framework.errors import ClusterError, EnvironmentFailure
from framework.libraries.folds import PoolData
from framework.libraries.pool import PoolPlan
from framework.libraries.train import Trained, train
from framework.parallel.choice import ray_pays, uses_ray
from framework.parallel.config import ClusterConfig

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
    config: ClusterConfig | None = None,
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
    config : ClusterConfig, optional
        How workers run on Ray.

    Raises
    ------
    ClusterError
        No worker can be started, or no node can train a model: its disk is full, say.
    EnvironmentFailure
        This machine cannot.
    """
    left = list(plans)
    if not uses_ray(workers, address):
        start = time.perf_counter()
        while left and not _worth_ray(workers, start, len(plans) - len(left), len(left)):
            plan = left.pop(0)
            yield plan, _attempt(plan, data)
    if left:
        count = workers if isinstance(workers, int) else None
        yield from _on_ray(left, data, count, address, config or ClusterConfig(), report)


def _worth_ray(workers: str | int, start: float, done: int, left: int) -> bool:
    spent = time.perf_counter() - start
    return spent >= _TRY and ray_pays(workers, spent / done * left)


def _attempt(plan: PoolPlan, data: PoolData) -> Trained | str:
    try:
        return train(plan, data)
    except Exception as error:  # a model that fails is recorded and left out
        if environmental(error):  # it has not failed: this machine has
            raise EnvironmentFailure(reason_of(error)) from error
        return f"{type(error).__name__}: {error}"


class Trainer:
    """What a worker holds: the data."""

    def __init__(self, data: PoolData) -> None:
        self._data = data

    def train(self, plan: PoolPlan) -> Trained | str:
        """Train a model, or say why it cannot be."""
        return _attempt(plan, self._data)


def _on_ray(
    plans: Sequence[PoolPlan],
    data: PoolData,
    workers: int | None,
    address: str | None,
    config: ClusterConfig,
    report: Say,
) -> Iterator[Outcome]:
    from framework.parallel.cluster import cluster
    from framework.parallel.each import Each

    with (
        cluster(workers, address, config) as joined,
        closing(
            Each(Trainer(data), "train", workers=joined.workers, config=config, pure=True)
        ) as each,
    ):
        report(f"trained by {joined.description}")
        queue, under_way = deque(plans), 0
        while queue or under_way:
            while queue and under_way < 2 * max(1, each.pool.size):  # results wait in little memory
                each.submit(plan := queue.popleft(), plan)
                under_way += 1
            plan, answer = each.collect()
            under_way -= 1
            if isinstance(answer, EnvironmentFailure):
                raise ClusterError(
                    f"no node can train {plan.id} ({answer.reason}); put that right where workers "
                    "run and build again: what is trained is kept"
                )
            yield plan, str(answer) if isinstance(answer, Exception) else answer
