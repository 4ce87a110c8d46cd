"""The evaluator of a run: this process, Ray here or on a cluster, or whichever is faster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from framework.parallel.choice import uses_ray
from framework.parallel.config import ClusterConfig
from framework.problem import Problem
from framework.run.driver import Callback, Progress
from framework.run.evaluator import Evaluator, SerialEvaluator


class BudgetLeft(Callback):
    """An callback that returns the share of the budget that is left; None if it is unknown."""

    def __init__(self) -> None:
        self._share: float | None = 0.0

    def on_batch(self, progress: Progress) -> None:
        self._share = progress.share

    def __call__(self) -> float | None:
        return None if self._share is None else 1.0 - self._share


@contextmanager
def evaluator_for(
    problem: Problem,
    seed: int,
    *,
    workers: str | int,
    address: str | None,
    config: ClusterConfig | None = None,
    left: BudgetLeft,
    report: Callable[[str], None],
) -> Iterator[tuple[Evaluator, Callable[[], str]]]:
    """Start the evaluator of a run; at the end, close it and everything that it started.

    Parameters
    ----------
    workers : 'serial', 'auto', 'all' or int
        ``auto`` starts serially, and moves to Ray when the measured work justifies starting it.
    address : str, optional
        Address of a running Ray cluster; Ray is used then, whatever ``workers`` says.
    config : ClusterConfig, optional
        How workers run on Ray.
    left : BudgetLeft
        An callback of the same run.
    report : callable
        Shows a line of text to the user: which evaluator is used.

    Yields
    ------
    evaluator : Evaluator
    description : callable
        Returns, after the search, which kind of worker evaluated.
    """
    with ExitStack() as stack:
        used = ["serial"]

        def start_ray() -> Evaluator:
            from framework.parallel.cluster import cluster
            from framework.parallel.ray_evaluator import RayEvaluator

            count = workers if isinstance(workers, int) else None
            joined = stack.enter_context(cluster(count, address, config))
            used.append(joined.description)
            actors = RayEvaluator(problem, seed, workers=joined.workers, config=config)
            stack.callback(actors.close)  # before the cluster it lives on goes
            return actors

        evaluator: Evaluator
        if uses_ray(workers, address):
            evaluator = start_ray()
            report(f"evaluated by {used[-1]}")
        elif workers == "serial" or os.cpu_count() == 1:  # one actor gains nothing
            evaluator = SerialEvaluator(problem, seed)
            report("evaluated in this process")
        else:
            from framework.parallel.auto_evaluator import AutoEvaluator

            evaluator = AutoEvaluator(
                problem, seed, start_ray=start_ray, remaining=left, report=report
            )
        stack.callback(evaluator.close)
        yield evaluator, lambda: " then ".join(used if workers == "auto" else used[-1:])
