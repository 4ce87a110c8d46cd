"""An algorithm on a problem, ready to be run as often as a law needs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from framework.algorithm import Algorithm
from framework.batch import Evaluated
from framework.front import Front
from framework.journal import Journal
from framework.problem import Problem
from framework.roles import Roles
from framework.run.driver import search as run
from framework.run.evaluator import Evaluator, SerialEvaluator
from framework.settings import Budget


@dataclass(frozen=True)
class AlgorithmCase:
    """An algorithm on a problem.

    Attributes
    ----------
    make : callable
        ``make(problem, roles, seed=seed)`` returns a fresh algorithm.
    problem : Problem
    roles : Roles
    seed : int
    generations : int
        How long the runs are.
    deterministic : bool
        Whether the algorithm draws nothing, so that all seeds ask the same.
    """

    make: Callable[..., Algorithm]
    problem: Problem
    roles: Roles
    seed: int = 0
    generations: int = 4
    deterministic: bool = False

    @property
    def budget(self) -> Budget:
        """As many generations as the case says, however many rows fail."""
        return Budget(generations=self.generations, max_failed_share=1.0)

    def fresh(self) -> Algorithm:
        """Return a new algorithm."""
        return self.make(self.problem, self.roles, seed=self.seed)

    def serial(self) -> SerialEvaluator:
        """Return the evaluator that all others must agree with."""
        return SerialEvaluator(self.problem, self.seed)

    def on(self, problem: Problem) -> AlgorithmCase:
        """Return the case on another problem with the same metrics."""
        return replace(self, problem=problem)

    def journal(self, path: Path) -> Journal:
        """Open or make the journal of this case."""
        space = self.problem.space
        return Journal(
            path,
            {"seed": self.seed},
            metrics=self.problem.metric_names,
            d=space.d,
            dtype=space.dtype,
        )

    def run(
        self,
        path: Path | None = None,
        evaluator: Evaluator | None = None,
        budget: Budget | None = None,
        algorithm: Algorithm | None = None,
    ) -> Front:
        """Run, or go on with, the case; with a fresh algorithm, or the one given."""
        used, search = evaluator or self.serial(), algorithm or self.fresh()
        if path is None:
            return run(self.problem, search, used, budget=budget or self.budget)
        with self.journal(path) as journal:
            return run(self.problem, search, used, budget=budget or self.budget, journal=journal)

    def told(self, path: Path) -> list[Evaluated]:
        """Return the batches of a journal; as one where they are pieces of generations."""
        with Journal(path) as journal:
            batches = [batch for batch, _ in journal.batches()]
        pieces = self.fresh().evaluations_per_generation is not None and batches
        return [Evaluated.concat(batches)] if pieces else batches

    @cached_property
    def usual(self) -> tuple[list[Evaluated], Front]:
        """What :meth:`trace` returns for a serial run, run once for all laws."""
        return self.trace()

    def trace(
        self, evaluator: Evaluator | None = None, budget: Budget | None = None
    ) -> tuple[list[Evaluated], Front]:
        """Run and return the batches told and the front."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            front = self.run(path, evaluator, budget)
            return self.told(path), front
