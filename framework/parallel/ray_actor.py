"""What runs in a Ray worker: it scores rows, builds parts and does pieces of a search."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.parts import Parts, SharedParts
from framework.problem import Problem
from framework.run.evaluator import evaluate_rows


@dataclass(frozen=True)
class Job:
    """What is to be done to each of some pieces."""

    function: Callable[[Any, Any], Any]
    shared: Any
    pieces: Sequence[Any]


class Actor:
    """Holds the problem and the parts sent so far, nothing else."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed

    def ready(self) -> tuple[int, int]:
        return os.getpid(), self.problem.n_parts

    def score(self, ids: IntArray, X: Array, parts: Parts | None) -> tuple[float, Evaluated]:
        start = perf_counter()
        if parts is not None:
            self.problem.add_parts(parts)
        piece = evaluate_rows(self.problem, self.seed, ids, X)
        return perf_counter() - start, piece

    def build(self, keys: WordArray) -> tuple[float, list[Parts]]:
        start = perf_counter()
        parts = list(build_each(self.problem, keys))
        return perf_counter() - start, parts

    def map(self, job: Job, piece: int) -> tuple[float, Any]:
        start = perf_counter()
        answer = job.function(job.shared, job.pieces[piece])
        return perf_counter() - start, answer


def build_each(problem: SharedParts, keys: WordArray) -> Iterator[Parts]:
    """Build parts; where the build raises, one by one, so that only the culprits fail."""
    try:
        yield problem.build_parts(keys)
    except Exception as error:  # whatever user code raises is the part's error, not ours
        if len(keys) == 1:
            yield problem.failed_parts(keys, f"{type(error).__name__}: {error}")
            return
        for i in range(len(keys)):
            yield from build_each(problem, keys[i : i + 1])
