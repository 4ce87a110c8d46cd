"""Tools of the laws: comparisons, cases to run, and faulty problems and evaluators."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.front import Front
from framework.journal import Journal
from framework.problem import Problem
from framework.roles import Constraint, Objective, Roles, Sense
from framework.run.driver import search as run
from framework.run.evaluator import Evaluator, SerialEvaluator, evaluate_candidates
from framework.settings import Budget
from framework.streams import CandidateStreams

Trace = tuple[list[Evaluated], Front]
"""The batches of a run, and its Pareto front."""


def expect(holds: object, message: str) -> None:
    """Raise AssertionError with ``message`` unless ``holds``."""
    if not holds:
        raise AssertionError(message)


def shortened(items: Sequence[object]) -> str:
    """Return the first items of a list as text, and their number if there are more."""
    shown = ", ".join(map(str, items[:12]))
    return f"[{shown}]" if len(items) <= 12 else f"[{shown}, ...] ({len(items)} in all)"


_ROUNDING = (
    ", of rounding alone: X @ v adds in an order that depends on the number of rows; add each row "
    "by itself, such as with (X * v).sum(axis=1)"
)


def same_rows(a: Evaluated, b: Evaluated, where: str) -> None:
    """Expect two batches to be equal to the bit; NaN equals NaN."""
    expect(np.array_equal(a.ids, b.ids), f"{where}: expected rows {a.ids}, found {b.ids}")
    expect(np.array_equal(a.X, b.X), f"{where}: expected the same genomes, found others")
    expect(
        list(a.values) == list(b.values),
        f"{where}: expected the metrics {list(a.values)}, found {list(b.values)}",
    )
    for name, column in a.values.items():
        unequal = np.flatnonzero(column.view(np.int64) != b.values[name].view(np.int64))
        unequal = unequal[~(np.isnan(column) & np.isnan(b.values[name]))[unequal]]
        close = np.allclose(column[unequal], b.values[name][unequal], rtol=1e-9, atol=0.0)
        expect(
            len(unequal) == 0,
            f"{where}: expected the same {name} to the bit, found a difference in the rows "
            f"{shortened(a.ids[unequal].tolist())}{_ROUNDING if close else ''}",
        )
    expect(
        dict(a.errors) == dict(b.errors),
        f"{where}: expected the errors {dict(a.errors)}, found {dict(b.errors)}",
    )


def same_batches(a: Sequence[Evaluated], b: Sequence[Evaluated], where: str) -> None:
    """Expect two runs to have the same batches: ids, genomes, values and errors."""
    expect(len(a) == len(b), f"{where}: expected {len(a)} batches, found {len(b)}")
    for i, (left, right) in enumerate(zip(a, b, strict=True)):
        same_rows(left, right, f"{where}, batch {i}")


def same_front(a: Front, b: Front, where: str) -> None:
    """Expect two fronts to be equal to the bit."""
    same_rows(a.rows, b.rows, f"{where}, front")


def same_run(a: Trace, b: Trace, where: str) -> None:
    """Expect two runs to have the same batches and fronts, to the bit."""
    same_batches(a[0], b[0], where)
    same_front(a[1], b[1], where)


@contextmanager
def same_global_random_state(who: str) -> Iterator[None]:
    """Expect a block not to use the global random generators."""
    before = random.getstate(), _numpy_state()
    yield
    expect(
        before == (random.getstate(), _numpy_state()),
        f"law 6: expected {who} to leave the global random state alone, found it changed; draw "
        "from the generator that was given",
    )


def _numpy_state() -> tuple[object, ...]:
    return tuple(map(str, np.random.get_state()))  # noqa: NPY002


@dataclass(frozen=True)
class AlgorithmCase:
    """An algorithm on a problem, which laws run as often as they need.

    Attributes
    ----------
    make : callable
        ``make(problem, roles, seed=seed)`` returns a fresh algorithm.
    problem : Problem
    roles : Roles
    seed : int
    generations : int
        Length of the runs.
    deterministic : bool
        Whether the algorithm draws nothing, so that all seeds propose the same.
    """

    make: Callable[..., Algorithm]
    problem: Problem
    roles: Roles
    seed: int = 0
    generations: int = 4
    deterministic: bool = False

    @property
    def budget(self) -> Budget:
        """The generations of the case, however many evaluations fail."""
        return Budget(generations=self.generations, max_failed_share=1.0)

    def fresh(self) -> Algorithm:
        """Return a new algorithm."""
        return self.make(self.problem, self.roles, seed=self.seed)

    def serial(self) -> SerialEvaluator:
        """Return the serial evaluator, with which all others must agree."""
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
        """Run or resume the case, with a new algorithm unless one is given."""
        used, search = evaluator or self.serial(), algorithm or self.fresh()
        if path is None:
            return run(self.problem, search, used, budget=budget or self.budget)
        with self.journal(path) as journal:
            return run(self.problem, search, used, budget=budget or self.budget, journal=journal)

    def batches(self, path: Path) -> list[Evaluated]:
        """Return the batches of a journal, joined if they are pieces of generations."""
        batches = journalled(path)
        pieces = self.fresh().evaluations_per_generation is not None and batches
        return [Evaluated.concat(batches)] if pieces else batches

    @cached_property
    def serial_run(self) -> Trace:
        """The batches and the Pareto front of a serial run, made once for all laws."""
        return self.trace()

    def trace(self, evaluator: Evaluator | None = None) -> Trace:
        """Run; return the batches of the journal and the Pareto front."""
        with new_journal() as path:
            front = self.run(path, evaluator)
            return self.batches(path), front


@contextmanager
def new_journal() -> Iterator[Path]:
    """Give the path of a journal that does not exist yet, in a folder of the block."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "journal.bin"


def journalled(path: Path) -> list[Evaluated]:
    """Return the batches of a journal."""
    with Journal(path) as journal:
        return list(journal.evaluations())


class WrappedProblem(Problem):
    """A problem that forwards all calls to another one."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.space, self.metrics = problem.space, problem.metrics
        self.stochastic, self.fingerprint = problem.stochastic, problem.fingerprint

    @property
    def gene_names(self) -> tuple[str, ...]:
        return self.problem.gene_names

    def tables(self) -> Any:
        return self.problem.tables()

    def starts(self) -> Array:
        return self.problem.starts()

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        return self.problem.anchors(metrics)

    def true_front(self, n: int) -> FloatArray | None:
        return self.problem.true_front(n)

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        return self.problem.evaluate(X, streams)

    def explain(self, x: Array) -> str | None:
        return self.problem.explain(x)


class CountingProblem(WrappedProblem):
    """Counts how often each candidate was evaluated, by id."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.evaluated: Counter[int] = Counter()

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        self.evaluated.update(streams.ids.tolist())
        return super().evaluate(X, streams)


class FailingProblem(WrappedProblem):
    """Raises for some genomes and reports NaN or infinite metrics for others.

    Parameters
    ----------
    problem : Problem
    raising, nan : collection of bytes
        Genomes, each as bytes.
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
        odd = np.array([np.nan if key[0] % 2 else np.inf for key in keys])
        return {name: np.where(missing, odd, column) for name, column in values.items()}


class BrokenProblem(WrappedProblem):
    """Raises for every genome."""

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        raise RuntimeError("every genome fails on purpose")


class FlippedProblem(WrappedProblem):
    """Reports the negative of one metric, with its sense flipped."""

    def __init__(self, problem: Problem, metric: str) -> None:
        super().__init__(problem)
        self.metric = metric
        self.metrics = tuple(
            m._replace(sense=_flipped(m.sense), low=-m.high, high=-m.low) if m.name == metric else m
            for m in problem.metrics
        )

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        values = super().evaluate(X, streams)
        return {**values, self.metric: -np.asarray(values[self.metric])}

    def roles(self, roles: Roles) -> Roles:
        """Return the same roles for the flipped metric."""
        objectives = [self._objective(o) for o in roles.objectives]
        return Roles(self.metrics, objectives, [self._constraint(c) for c in roles.constraints])

    def _objective(self, objective: Objective) -> Objective:
        if objective.metric != self.metric:
            return objective
        worst = None if objective.worst is None else -objective.worst
        return Objective(self.metric, _flipped(objective.sense), worst)

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
    """Evaluates candidates in random pieces that return in random order, mixed across batches.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run.
    order : int
        Seed of the random order.
    """

    def __init__(self, problem: Problem, seed: int, order: int) -> None:
        super().__init__(problem, seed)
        self._rng = np.random.default_rng(order)
        self._ids: list[int] = []
        self._genomes: dict[int, Array] = {}

    def submit(self, ids: IntArray, X: Array) -> None:
        self._ids += ids.tolist()
        self._genomes |= dict(zip(ids.tolist(), X, strict=True))

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return up to three pieces of any candidates; sometimes nothing."""
        return [self._piece() for _ in range(self._rng.integers(4)) if self._ids]

    def close(self) -> None:
        self._ids.clear()

    def _piece(self) -> Evaluated:
        size = int(self._rng.integers(1, len(self._ids) + 1))
        self._rng.shuffle(self._ids)
        chosen, self._ids = self._ids[:size], self._ids[size:]
        X = np.stack([self._genomes.pop(id) for id in chosen])
        return evaluate_candidates(self.problem, self.seed, np.array(chosen), X)


class InterruptedEvaluator(ShuffledEvaluator):
    """Raises KeyboardInterrupt after ``after`` calls of ``collect``."""

    def __init__(self, problem: Problem, seed: int, order: int, after: int) -> None:
        super().__init__(problem, seed, order)
        self._left = after

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return pieces while calls are left."""
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return super().collect(timeout)


def _flipped(sense: Sense) -> Sense:
    return "min" if sense == "max" else "max"
