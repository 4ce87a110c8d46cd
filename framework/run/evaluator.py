"""Evaluators compute the values of candidates: the contract, and the one for this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from time import perf_counter

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, WordArray, are_finite
from framework.batch import Evaluated
from framework.errors import EnvironmentFailure
from framework.machine import is_machine_failure, reason_of
from framework.preparation import InProcess
from framework.problem import Problem
from framework.streams import CandidateStreams

_HEAVY_SECONDS = 0.1  # after a batch that took no longer, the next one is evaluated at once


class Evaluator(InProcess, ABC):
    """Evaluates candidates, in this process or in others.

    ``submit`` returns at once. ``collect`` waits until some candidates are evaluated, or until
    ``timeout`` seconds have passed. It returns pieces in any order, each candidate once. A failed
    evaluation is a result with its error, never an exception.

    It is also a :class:`~framework.preparation.Workforce`, which works in this process unless
    overridden.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run, for the streams of stochastic problems.
    """

    problem: Problem

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        super().__init__(problem)
        self.seed = seed

    def score(self, ids: IntArray, X: Array) -> Evaluated | None:
        """Evaluate a small batch at once; None, the default, if it must be submitted instead."""
        return None

    @abstractmethod
    def submit(self, ids: IntArray, X: Array) -> None:
        """Take candidates to evaluate: ids, shape (n,), and genomes, shape (n, d)."""

    @abstractmethod
    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return finished pieces; an empty list if none arrived in time."""

    @abstractmethod
    def close(self) -> None:
        """End the evaluator and what it started; evaluations not collected are lost."""

    def components(self) -> tuple[int, int]:
        """Return how many components that batches wait for are built, and how many there are."""
        return 0, 0

    def seconds(self) -> float | None:
        """Return the seconds spent evaluating so far; None if other processes evaluate."""
        return None

    def incidents(self) -> Mapping[str, int]:
        """Return the number of incidents by kind: lost workers, lost nodes, failures of nodes."""
        return {}


class SerialEvaluator(Evaluator):
    """Evaluates batches in this process, one after the other, when they are collected.

    Shared components that a batch needs are built first. If that takes longer than the timeout of
    ``collect``, it returns nothing and continues with the components at its next call.
    """

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        super().__init__(problem, seed)
        self._queue: deque[tuple[IntArray, Array]] = deque()
        self._missing: WordArray | None = None  # components to build for the oldest batch
        self._built, self._size, self._heavy = 0, 1, True
        self._begun = 0.0  # when collecting the oldest batch began
        self._spent = 0.0

    def score(self, ids: IntArray, X: Array) -> Evaluated | None:
        """Evaluate a batch at once, unless it may take long or others were submitted."""
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
        self._missing, self._built, self._begun = None, 0, 0.0
        return [rows]

    def _count(self, seconds: float) -> None:
        """Record how long a batch took."""
        self._heavy = seconds > _HEAVY_SECONDS
        self._spent += seconds

    def components(self) -> tuple[int, int]:
        return self._built, 0 if self._missing is None else len(self._missing)

    def seconds(self) -> float:
        return self._spent

    def _build(self, X: Array, timeout: float) -> bool:
        """Build components of the oldest batch for a while; return whether all are built."""
        if self._missing is None:
            self._missing = self.problem.missing_components(X)
        end = perf_counter() + timeout
        while self._built < len(self._missing):
            begun = perf_counter()
            if begun >= end:
                return False
            subset = self._missing[self._built : self._built + self._size]
            try:
                self.problem.add_components(self.problem.build_components(subset))
            except Exception:  # evaluating the candidates one by one will raise it again
                return True
            self._built += len(subset)
            affordable = int(timeout * len(subset) / max(perf_counter() - begun, 1e-9))
            self._size = max(1, min(affordable, 8 * self._size))
        return True

    def close(self) -> None:
        self._queue.clear()


def evaluate_candidates(problem: Problem, seed: int, ids: IntArray, X: Array) -> Evaluated:
    """Evaluate candidates; exceptions become the errors of candidates.

    If the batch raises an exception, its candidates are evaluated one by one, so that only those
    that cause it fail. A metric that is NaN or infinite is a failure, too.

    Raises
    ------
    EnvironmentFailure
        This machine is at fault, not a candidate: a full disk, a missing library.
    """
    try:
        table = _table(problem, problem.evaluate(X, CandidateStreams(seed, ids)), len(X))
    except Exception as error:  # whatever user code raises is the candidate's error, not ours
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
    if not are_finite(table):
        missing = ~np.isfinite(table)
        for i in np.flatnonzero(missing.any(axis=0)).tolist():
            names = (problem.metric_names[j] for j in np.flatnonzero(missing[:, i]))
            value = "NaN" if np.isnan(table[:, i]).any() else "an infinite value"
            errors[int(ids[i])] = problem.explain(X[i]) or f"{value} in {', '.join(names)}"
            table[:, i] = np.nan
    return Evaluated.of_table(ids, X, problem.metric_names, table, errors)


def failed_rows(problem: Problem, ids: IntArray, X: Array, error: str) -> Evaluated:
    """Return failed evaluations, all with the same error."""
    nothing = {name: np.full(len(X), np.nan) for name in problem.metric_names}
    return Evaluated(ids, X, nothing, dict.fromkeys(ids.tolist(), error))


def _table(problem: Problem, values: Mapping[str, Array], n: int) -> FloatArray:
    """Copy the declared metrics, shape (metrics, n); raise if one is missing."""
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
