"""Workers in virtual time: the real driver and search against any number of workers, on one core.

Values are real, evaluated here once; how long a row takes is drawn. What a row costs the driver,
search and journal included, is measured first (:func:`driver_seconds`) and charged when the row is
sent. So it says how busy a cluster would be kept, and from how many workers on the driver is what
everybody waits for; the same measurement gives the same simulation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from framework.algorithm import Algorithm
from framework.arrays import Array, IntArray
from framework.batch import Evaluated
from framework.front import Front
from framework.journal import Journal
from framework.problem import Problem
from framework.run.driver import Callback, Progress, run
from framework.run.evaluator import Evaluator
from framework.run.virtual_workers import Answers, Crew, RowTimes, Tally, VirtualWorkers
from framework.settings import Budget


@dataclass(frozen=True)
class Simulated:
    """A simulated run."""

    workers: int
    tally: Tally
    front: Front

    @property
    def driver_share(self) -> float:
        """Share of the time that the driver itself was at work."""
        return self.tally.driver / self.tally.seconds if self.tally.seconds else 0.0


class _Prompt(Evaluator):
    """Answers at once, from what is known."""

    def __init__(self, problem: Problem, seed: int, answers: Answers) -> None:
        super().__init__(problem, seed)
        self.answers = answers
        self._ready: list[Evaluated] = []

    def submit(self, ids: IntArray, X: Array) -> None:
        self._ready.append(self.answers.of(self.problem, self.seed, ids, X))

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        pieces, self._ready = self._ready, []
        return pieces

    def close(self) -> None:
        """Nothing is held."""


def driver_seconds(
    problem: Problem,
    make: Callable[[], Algorithm],
    seed: int,
    budget: Budget,
    answers: Answers,
    journal: Callable[[], AbstractContextManager[Journal | None]] = nullcontext,
) -> float:
    """Return the CPU seconds a row of driver, search and journal together.

    The run is made twice, the second time with all answers known, and that one is measured.

    Parameters
    ----------
    problem, make, seed, budget, answers
        See :func:`simulate`.
    journal : callable
        Returns a new journal, to be closed at the end.
    """
    for measured in (False, True):
        rows = _Rows()
        with journal() as opened:
            begun = time.process_time()
            prompt = _Prompt(problem, seed, answers)
            run(problem, make(), prompt, budget=budget, journal=opened, callbacks=[rows])
            spent = time.process_time() - begun
        if measured:
            break
    return spent / max(rows.count, 1)


class _Rows(Callback):
    """Keeps the number of rows."""

    count = 0

    def on_end(self, progress: Progress) -> None:
        self.count = progress.evaluations


def simulate(
    problem: Problem,
    make: Callable[[], Algorithm],
    seed: int,
    crew: Crew,
    times: RowTimes,
    budget: Budget,
    answers: Answers,
) -> Simulated:
    """Run a search in virtual time.

    Parameters
    ----------
    problem : Problem
    make : callable
        Returns the algorithm in its initial state.
    seed : int
        Of the run.
    crew, times
        The workers, and how long rows take.
    budget : Budget
    answers : Answers
        Shared by simulations of the same search, which ask for the same rows.
    """
    workers = VirtualWorkers(problem, seed, crew=crew, times=times, answers=answers)
    front = run(problem, make(), workers, budget=budget)
    workers.close()
    return Simulated(crew.workers, workers.tally, front)
