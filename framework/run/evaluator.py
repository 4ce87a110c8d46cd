"""Evaluators, which score candidates: their contract, the serial one, and what all share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, WordArray, has_nan
from framework.batch import Evaluated
from framework.errors import EnvironmentFailure
from framework.machine import is_machine_failure, reason_of
from framework.preparation import InProcess
from framework.problem import Problem
from framework.streams import CandidateStreams

_HEAVY_SECONDS = 0.1  # a batch that took less is followed by one that is not watched


class Evaluator(ABC):
    """Scores rows, in this process or in others.

    ``submit`` returns at once. ``collect`` waits until some rows are finished, or until
    ``timeout`` seconds have passed, and returns them in pieces: in any order, each row once. A
    failed evaluation is a row with its error, never an exception.

    It is also a :class:`~framework.preparation.Workforce`, which works in this process unless
    overridden.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run, for the streams of stochastic problems.

    """

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem, self.seed = problem, seed

    def score(self, ids: IntArray, X: Array) -> Evaluated | None:
        """Return rows with their values at once, where nobody has to be waited for.

        None, as by default, where they are to be submitted.
        """
        return None

    @abstractmethod
    def submit(self, ids: IntArray, X: Array) -> None:
        """Take rows to score: ids, shape (n,), and genomes, shape (n, d)."""

    @abstractmethod
    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return finished pieces; an empty list when none came in time."""

    @abstractmethod
    def close(self) -> None:
        """End the evaluator and what it started; rows that were not collected are lost."""

    def components(self) -> tuple[int, int]:
        """Return how many of the parts that batches wait for are built, and how many there are."""
        return 0, 0

    def seconds(self) -> float | None:
        """Return the seconds spent scoring so far; None where rows are scored elsewhere."""
        return None

    def incidents(self) -> Mapping[str, int]:
        """Return what incidents the workers, counted: workers and nodes lost, failures of nodes."""
        return {}

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`framework.preparation.Workforce.build`."""
        return InProcess(self.problem).build(keys)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`framework.preparation.Workforce.map`."""
        return InProcess(self.problem).map(function, shared, pieces)


class SerialEvaluator(Evaluator):
    """Scores batches in this process, one after the other, when they are collected.

    Shared parts that a batch needs are built first. Where that takes longer than the timeout of
    ``collect``, it returns no rows and continues with the parts at its next call.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run, for the streams of stochastic problems.
    """

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        super().__init__(problem, seed)
        self._queue: deque[tuple[IntArray, Array]] = deque()
        self._lacking: WordArray | None = None  # parts to build for the oldest batch
        self._built, self._size, self._heavy = 0, 1, True
        self._begun = 0.0  # when the oldest batch was first asked about
        self._spent = 0.0

    def score(self, ids: IntArray, X: Array) -> Evaluated | None:
        """Return rows with their values, unless they may take long or others were submitted."""
        if self._heavy or self._queue:
            return None
        begun = perf_counter()
        rows = evaluate_candidates(self.problem, self.seed, ids, X)
        self._count(perf_counter() - begun)
        return rows

    def submit(self, ids: IntArray, X: Array) -> None:
        self._queue.append((ids, X))

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        if not self._queue:
            return []
        ids, X = self._queue[0]
        self._begun = self._begun or perf_counter()
        if self._heavy and timeout is not None and not self._build(X, timeout):
            return []
        self._queue.popleft()
        rows = evaluate_candidates(self.problem, self.seed, ids, X)
        self._count(perf_counter() - self._begun)
        self._lacking, self._built, self._begun = None, 0, 0.0
        return [rows]

    def _count(self, seconds: float) -> None:
        """Note how long a batch took."""
        self._heavy = seconds > _HEAVY_SECONDS
        self._spent += seconds

    def components(self) -> tuple[int, int]:
        return self._built, 0 if self._lacking is None else len(self._lacking)

    def seconds(self) -> float:
        return self._spent

    def _build(self, X: Array, timeout: float) -> bool:
        """Build what the oldest batch lacks for ``timeout`` seconds; tell whether all is there."""
        if self._lacking is None:
            self._lacking = self.problem.missing_components(X)
        end = perf_counter() + timeout
        while self._built < len(self._lacking):
            begun = perf_counter()
            if begun >= end:
                return False
            some = self._lacking[self._built : self._built + self._size]
            try:
                self.problem.add_components(self.problem.build_components(some))
            except Exception:  # scoring meets it again, row by row
                return True
            self._built += len(some)
            affordable = int(timeout * len(some) / max(perf_counter() - begun, 1e-9))
            self._size = max(1, min(affordable, 8 * self._size))
        return True

    def close(self) -> None:
        self._queue.clear()


def evaluate_candidates(problem: Problem, seed: int, ids: IntArray, X: Array) -> Evaluated:
    """Score rows; whatever goes wrong becomes the error of a row.

    Where the batch as a whole raises an exception, its rows are scored one by one, so that only
    those that cause it fail. NaN in any metric is a failure, too.

    Raises
    ------
    EnvironmentFailure
        This machine is at fault, not the row: a full disk, a missing library.
    """
    try:
        table = _table(problem, problem.evaluate(X, CandidateStreams(seed, ids)), len(X))
    except Exception as error:  # whatever user code raises is the row's error, not ours
        if is_machine_failure(error):
            raise EnvironmentFailure(reason_of(error)) from error
        if len(X) > 1:
            pieces = [
                evaluate_candidates(problem, seed, ids[i : i + 1], X[i : i + 1])
                for i in range(len(X))
            ]
            return Evaluated.concat(pieces)
        return failed_rows(problem, ids, X, f"{type(error).__name__}: {error}")
    errors: dict[int, str] = {}
    if has_nan(table):
        lacking = np.isnan(table)
        for i in np.flatnonzero(lacking.any(axis=0)).tolist():
            names = (problem.metric_names[j] for j in np.flatnonzero(lacking[:, i]))
            errors[int(ids[i])] = problem.explain(X[i]) or f"NaN in {', '.join(names)}"
            table[:, i] = np.nan
    return Evaluated.of_table(ids, X, problem.metric_names, table, errors)


def failed_rows(problem: Problem, ids: IntArray, X: Array, error: str) -> Evaluated:
    """Return rows that all failed for the same reason."""
    nothing = {name: np.full(len(X), np.nan) for name in problem.metric_names}
    return Evaluated(ids, X, nothing, dict.fromkeys(ids.tolist(), error))


def _table(problem: Problem, values: Mapping[str, Array], n: int) -> FloatArray:
    """Copy the declared metrics, shape (metrics, n); complain about any that is missing."""
    names = problem.metric_names
    table = np.empty((len(names), n))
    for j, name in enumerate(names):
        if name not in values:
            raise KeyError(f"evaluate: expected metric {name!r}, found {', '.join(values)}")
        column = np.asarray(values[name])
        if column.shape != (n,):
            raise ValueError(f"evaluate: expected {name!r} with shape ({n},), found {column.shape}")
        table[j] = column
    return table
