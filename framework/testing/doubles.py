"""Stand-ins for tests: problems that count, fail, flip a sign; evaluators that shuffle and stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Constraint, Objective, Roles, Sense
from framework.run.evaluator import Evaluator, evaluate_candidates
from framework.streams import CandidateStreams


class WrappedProblem(Problem):
    """A problem that passes on what is asked of it to another one."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.space, self.metrics = problem.space, problem.metrics
        self.stochastic, self.fingerprint = problem.stochastic, problem.fingerprint

    @property
    def gene_names(self) -> tuple[str, ...]:
        return self.problem.gene_names

    def tables(self) -> Any:
        return self.problem.tables()

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        return self.problem.anchors(metrics)

    def true_front(self, n: int) -> FloatArray | None:
        return self.problem.true_front(n)

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        return self.problem.evaluate(X, streams)

    def explain(self, x: Array) -> str | None:
        return self.problem.explain(x)


class CountingProblem(WrappedProblem):
    """Counts how often each row was evaluated, by id."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.evaluated: Counter[int] = Counter()

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        self.evaluated.update(streams.ids.tolist())
        return super().evaluate(X, streams)


class FailingProblem(WrappedProblem):
    """Raises for some genomes and reports NaN for others.

    Parameters
    ----------
    problem : Problem
    raising, nan : collection of bytes
        Genomes, each as the bytes of its row.
    """

    def __init__(
        self, problem: Problem, raising: Collection[bytes], nan: Collection[bytes] = ()
    ) -> None:
        super().__init__(problem)
        self.raising, self.nan = frozenset(raising), frozenset(nan)

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        keys = [x.tobytes() for x in X]
        if not self.raising.isdisjoint(keys):
            raise RuntimeError("this genome fails on purpose")
        missing = np.array([key in self.nan for key in keys])
        values = super().evaluate(X, streams)
        return {name: np.where(missing, np.nan, column) for name, column in values.items()}


class BrokenProblem(WrappedProblem):
    """Raises for every genome."""

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        raise RuntimeError("every genome fails on purpose")


class FlippedProblem(WrappedProblem):
    """Reports the negative of one metric, whose sense is turned to match."""

    def __init__(self, problem: Problem, metric: str) -> None:
        super().__init__(problem)
        self.metric = metric
        self.metrics = tuple(
            m._replace(sense=_turned(m.sense), low=-m.high, high=-m.low) if m.name == metric else m
            for m in problem.metrics
        )

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        values = super().evaluate(X, streams)
        return {**values, self.metric: -np.asarray(values[self.metric])}

    def roles(self, roles: Roles) -> Roles:
        """Return the same roles for the flipped metric."""
        objectives = [self._objective(o) for o in roles.objectives]
        constraints = [self._constraint(c) for c in roles.constraints]
        return Roles(self.metrics, objectives, constraints)

    def _objective(self, objective: Objective) -> Objective:
        if objective.metric != self.metric:
            return objective
        worst = None if objective.worst is None else -objective.worst
        return Objective(self.metric, _turned(objective.sense), worst)

    def _constraint(self, constraint: Constraint) -> Constraint:
        if constraint.metric != self.metric:
            return constraint
        at_most = None if constraint.at_least is None else -constraint.at_least
        at_least = None if constraint.at_most is None else -constraint.at_most
        return Constraint(self.metric, at_most, at_least)


class UnpicklableProblem(WrappedProblem):
    """Refuses to be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("expected a pickle without the problem, found the problem in it")


class ShuffledEvaluator(Evaluator):
    """Scores rows in random chunks that come back in random order, mixed across batches.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run.
    order : int
        Seed of the disorder.
    """

    def __init__(self, problem: Problem, seed: int, order: int) -> None:
        super().__init__(problem, seed)
        self._rng = np.random.default_rng(order)
        self._ids: list[int] = []
        self._genomes: dict[int, Array] = {}

    def submit(self, ids: IntArray, X: Array) -> None:
        """Take rows."""
        self._ids += ids.tolist()
        self._genomes |= dict(zip(ids.tolist(), X, strict=True))

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return up to three pieces of any rows; sometimes nothing."""
        return [self._piece() for _ in range(self._rng.integers(4)) if self._ids]

    def close(self) -> None:
        """Forget the rows."""
        self._ids.clear()

    def _piece(self) -> Evaluated:
        size = int(self._rng.integers(1, len(self._ids) + 1))
        self._rng.shuffle(self._ids)
        chosen, self._ids = self._ids[:size], self._ids[size:]
        X = np.stack([self._genomes.pop(id) for id in chosen])
        return evaluate_candidates(self.problem, self.seed, np.array(chosen), X)


class InterruptedEvaluator(ShuffledEvaluator):
    """Raises KeyboardInterrupt at the ``after``-th call of collect, from then on always."""

    def __init__(self, problem: Problem, seed: int, order: int, after: int) -> None:
        super().__init__(problem, seed, order)
        self._left = after

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return pieces while calls are left."""
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return super().collect(timeout)


def _turned(sense: Sense) -> Sense:
    return "min" if sense == "max" else "max"
