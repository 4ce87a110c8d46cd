"""What a worker of a run holds: it scores rows, builds parts and does pieces of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.components import Components, SharedComponents
from framework.machine import is_machine_failure
from framework.problem import Problem
from framework.run.evaluator import evaluate_candidates


@dataclass(frozen=True)
class Job:
    """What is to be done to each of some pieces."""

    function: Callable[[Any, Any], Any]
    shared: Any
    pieces: Sequence[Any]


class Scorer:
    """The problem and the parts sent so far, nothing else."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed

    @property
    def n_components(self) -> int:
        """Number of parts that the problem has."""
        return self.problem.n_components

    def score(self, ids: IntArray, X: Array, parts: Components | None) -> Evaluated:
        """Score rows, with parts that were not sent before."""
        if parts is not None:
            self.problem.add_components(parts)
        return evaluate_candidates(self.problem, self.seed, ids, X)

    def build(self, keys: WordArray) -> list[Components]:
        """Build parts."""
        return list(build_each(self.problem, keys))

    def map(self, job: Job, piece: int) -> Any:
        """Do a piece."""
        return job.function(job.shared, job.pieces[piece])


def build_each(problem: SharedComponents, keys: WordArray) -> Iterator[Components]:
    """Build parts; where the build raises, one by one, so that only the culprits fail."""
    try:
        yield problem.build_components(keys)
    except Exception as error:  # whatever user code raises is the part's error, not ours
        if is_machine_failure(error):
            raise
        if len(keys) == 1:
            yield problem.failed_components(keys, f"{type(error).__name__}: {error}")
            return
        for i in range(len(keys)):
            yield from build_each(problem, keys[i : i + 1])
