"""Searches of other packages on our problems: pymoo's own NSGA-II and Optuna's NSGAIISampler.

For both, genes are whole numbers, as a user of these packages would define them. An invalid genome
is repaired to a similar valid one.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from framework import registry
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator, evaluate_candidates
from framework.settings import Budget
from framework.space import Partition, Space, compress


class Searched(NamedTuple):
    """The losses (n, m) of a search in the order of evaluation, and its CPU seconds.

    The seconds do not include those of the evaluations.
    """

    losses: FloatArray
    seconds: float


class Scorer(SerialEvaluator):
    """Evaluates in this process; counts the CPU seconds and stores the losses."""

    def __init__(self, problem: Problem, roles: Roles) -> None:
        super().__init__(problem)
        self.roles, self.cpu = roles, 0.0
        self.losses: list[FloatArray] = []

    def losses_of(self, X: Array) -> FloatArray:
        """Return the losses of genomes, shape (n, m)."""
        since = time.process_time()
        rows = evaluate_candidates(self.problem, 0, np.arange(len(X)), np.ascontiguousarray(X))
        return self._taken(since, [rows])

    def score(self, ids: IntArray, X: Array) -> Evaluated | None:
        since = time.process_time()
        rows = super().score(ids, X)
        if rows is not None:
            self._taken(since, [rows])
        return rows

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        since = time.process_time()
        pieces = super().collect(timeout)
        self._taken(since, pieces)
        return pieces

    def _taken(self, since: float, pieces: list[Evaluated]) -> FloatArray:
        self.losses += [self.roles.losses(piece.values) for piece in pieces]
        self.cpu += time.process_time() - since
        return self.losses[-1] if pieces else np.zeros((0, 0))

    def searched(self, since: float) -> Searched:
        """Return the losses, and the CPU seconds since a time of the process's clock."""
        return Searched(np.concatenate(self.losses), time.process_time() - since - self.cpu)


def ours(
    options: dict[str, Any], problem: Problem, roles: Roles, seed: int, evaluations: int
) -> Searched:
    """Return the result of one of our searches, run by the driver without a journal."""
    options = dict(options)
    cls = registry.load("algorithms", options.pop("kind"))
    scorer, since = Scorer(problem, roles), time.process_time()
    algorithm = cls(problem, roles, seed=seed, **options)
    search(problem, algorithm, scorer, budget=Budget(evaluations=evaluations))
    return scorer.searched(since)


def pymoo_nsga2(
    problem: Problem, roles: Roles, seed: int, evaluations: int, population: int = 100
) -> Searched:
    """Return the result of pymoo's NSGA-II with its operators for whole numbers."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.repair import Repair
    from pymoo.operators.crossover.ux import UX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.sampling.rnd import IntegerRandomSampling

    space = problem.space

    class Valid(Repair):  # type: ignore[misc]
        def _do(self, _: Any, X: Array, **__: Any) -> Array:
            return repaired(space, np.rint(X).astype(np.int64))

    genes = PymooProblem(
        n_var=space.d, n_obj=len(roles.objectives), xl=space.lower, xu=space.upper, vtype=int
    )
    algorithm = NSGA2(
        pop_size=population,
        sampling=IntegerRandomSampling(),
        crossover=UX(prob=0.8),
        mutation=PM(prob=1.0, eta=3.0, vtype=float),
        repair=Valid(),
        eliminate_duplicates=True,
    )
    algorithm.setup(genes, seed=seed, termination=("n_gen", evaluations))
    scorer, since = Scorer(problem, roles), time.process_time()
    while sum(map(len, scorer.losses)) < evaluations:
        children = algorithm.ask()
        if children is None or not len(children):
            break
        X = children.get("X").astype(space.dtype)
        children.set("F", scorer.losses_of(X))
        algorithm.tell(infills=children)
    losses, seconds = scorer.searched(since)
    return Searched(losses[:evaluations], seconds)  # its last generation may be longer


def optuna_nsga2(problem: Problem, roles: Roles, seed: int, evaluations: int) -> Searched:
    """Return the result of Optuna's NSGAIISampler with its defaults, one trial after the other."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = problem.space
    bounds = list(zip(space.lower.tolist(), space.upper.tolist(), strict=True))
    study = optuna.create_study(
        directions=["minimize"] * len(roles.objectives),
        sampler=optuna.samplers.NSGAIISampler(seed=seed),
    )
    scorer, since = Scorer(problem, roles), time.process_time()
    for _ in range(evaluations):
        trial = study.ask()
        row = [trial.suggest_int(f"gene {j}", low, high) for j, (low, high) in enumerate(bounds)]
        X = repaired(space, np.array([row]))
        study.tell(trial, scorer.losses_of(X.astype(space.dtype))[0].tolist())
    return scorer.searched(since)


def repaired(space: Space, X: Array) -> Array:
    """Return valid genomes: at least one item is in a stage, without gaps or unused levels."""
    assert isinstance(space, Partition)
    X = X.copy()
    X[(X[:, : space.n] < 0).all(axis=1), 0] = 0
    X[:, : space.n] = compress(X[:, : space.n])
    return space.settle(X)
