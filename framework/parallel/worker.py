"""What runs in a Ray worker: an actor that calls methods of an object, and that object in a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.components import Components, SharedComponents
from framework.errors import EnvironmentFailure
from framework.machine import is_machine_failure, reason_of
from framework.problem import Problem
from framework.run.evaluator import evaluate_candidates


class WorkerStarted(NamedTuple):
    """What a worker reports once it has started.

    Attributes
    ----------
    node : str
        The node's id.
    pid : int
    n_components : int
        Number of shared components of its problem.
    error : str
        Why it could not load its object; empty if it could.
    """

    node: str
    pid: int
    n_components: int
    error: str


class Worker:
    """An actor that holds an object and calls its methods, one at a time.

    Parameters
    ----------
    box : list
        A reference to the object, inside a list. Ray would load a bare reference before the actor
        exists; this way it is loaded in ``ready``, which can report a failure and its node.
    """

    def __init__(self, box: list[Any]) -> None:
        self._box, self._object = box, None

    def ready(self) -> WorkerStarted:
        """Load the object."""
        import ray

        node, error = ray.get_runtime_context().get_node_id(), ""
        try:
            self._object = ray.get(self._box[0])
        except Exception as failure:  # whatever is raised if this node lacks code or data
            error = reason_of(failure)
        return WorkerStarted(node, os.getpid(), getattr(self._object, "n_components", 0), error)

    def do(self, name: str, *arguments: Any) -> tuple[float, Any]:
        """Call a method of the object; return the seconds it took and its result.

        Raises
        ------
        EnvironmentFailure
            This node is at fault, not the task.
        """
        start = perf_counter()
        try:
            answer = getattr(self._object, name)(*arguments)
        except Exception as error:
            if is_machine_failure(error):  # the original may not unpickle where it is received
                raise EnvironmentFailure(reason_of(error)) from None
            raise
        return perf_counter() - start, answer


@dataclass(frozen=True)
class MapJob:
    """Calls of ``function(shared, piece)``, one for each piece."""

    function: Callable[[Any, Any], Any]
    shared: Any
    pieces: Sequence[Any]


class EvaluationService:
    """Evaluates candidates, builds components and computes pieces of a search in a worker.

    It holds the problem, with the components sent so far, and the seed of the run.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed

    @property
    def n_components(self) -> int:
        """Number of components that the problem has."""
        return self.problem.n_components

    def score(self, ids: IntArray, X: Array, components: Components | None) -> Evaluated:
        """Evaluate candidates, with the components that were not sent before."""
        if components is not None:
            self.problem.add_components(components)
        return evaluate_candidates(self.problem, self.seed, ids, X)

    def build(self, keys: WordArray) -> list[Components]:
        """Build components."""
        return list(build_each(self.problem, keys))

    def map(self, job: MapJob, piece: int) -> Any:
        """Compute a piece."""
        return job.function(job.shared, job.pieces[piece])


def build_each(problem: SharedComponents, keys: WordArray) -> Iterator[Components]:
    """Build components together or, if that raises, one by one, so that only faulty ones fail."""
    try:
        yield problem.build_components(keys)
    except Exception as error:  # user code may raise anything: it becomes the component's error
        if is_machine_failure(error):
            raise
        if len(keys) == 1:
            yield problem.failed_components(keys, f"{type(error).__name__}: {error}")
            return
        for i in range(len(keys)):
            yield from build_each(problem, keys[i : i + 1])
