"""Evaluate candidates on Ray workers; what happens to the workers does not change the values.

Every request is a pure function of the problem, the seed and its candidates. So the size of
requests, the number of workers, the order of completion and repeated requests change only the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.components import Components
from framework.errors import ClusterError, EnvironmentFailure
from framework.parallel.config import ClusterConfig
from framework.parallel.pool import WorkerPool
from framework.parallel.tasks import Task
from framework.parallel.worker import EvaluationService, MapJob
from framework.problem import Problem
from framework.run.evaluator import Evaluator, failed_rows

_INLINE_BYTES = 100_000  # larger components go through the object store, once for all workers


class RayEvaluator(Evaluator):
    """Evaluates batches on workers of the Ray cluster that this process is connected to.

    The problem is sent to each worker once; requests contain only genomes. Shared components are
    built by the workers, each once; this process keeps all of them and sends each worker those
    that it does not have. A worker that dies is replaced (:mod:`framework.parallel.pool`); the
    request that it was working on is divided until the candidate that may be the cause is alone. A
    candidate, component or piece fails only if every process that tries it dies.

    Parameters
    ----------
    problem, seed
        As for every :class:`~framework.run.evaluator.Evaluator`.
    workers, config
        As for a :class:`~framework.parallel.pool.WorkerPool`.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        *,
        workers: int | None,
        config: ClusterConfig | None = None,
    ) -> None:
        import ray

        super().__init__(problem, seed)
        self._ray = ray
        self._job: MapJob | None = None  # the job of `map` under way,
        self._sent_job: Any = None  # a reference to it in Ray's object store,
        self._answers: dict[int, Any] = {}  # and results that were not yielded yet, by piece
        self._blocked: list[tuple[Task, set[bytes]]] = []  # batches and the keys they wait for
        self._building: set[bytes] = set()  # keys of the components that are being built
        self._ordered = 0  # components ordered since the last time that none was being built
        self._sent: dict[tuple[int, int], Any] = {}  # components from one number up to another
        self._done: list[Evaluated] = []
        self._outstanding = 0  # candidates submitted and not collected
        self._service = EvaluationService(problem, seed)
        self.pool = WorkerPool(
            self._service,
            self,
            ("score", "build", "map"),  # scoring first: the search waits for it
            workers=workers,
            config=config or ClusterConfig(),
            timed=("score",),
            copied=("score", "build", "map"),
            joined=("score",),
            raising=("map",),
        )

    def submit(self, ids: IntArray, X: Array) -> None:
        if not len(ids):
            return
        task = Task("score", (ids, X))
        self._outstanding += len(task)
        missing = self._order_components(X)
        if missing:
            self._blocked.append((task, missing))
        else:
            self.pool.add(task)
        self.pool.dispatch()

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return finished pieces; an empty list if none arrived in time.

        Raises
        ------
        ClusterError
            No worker can be started, or all nodes fail repeatedly.
        """
        deadline = None if timeout is None else perf_counter() + timeout
        while self._outstanding and not self._done:
            left = None if deadline is None else max(0.0, deadline - perf_counter())
            if not self.pool.step(left):
                break
        self.pool.dispatch()
        pieces, self._done = self._done, []
        self._outstanding -= sum(len(piece) for piece in pieces)
        return pieces

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`framework.preparation.Workforce.build`; raises as :meth:`collect`."""
        if not len(keys) or not self.problem.has_components:
            return
        self._building.update(key.tobytes() for key in keys)
        self.pool.add(Task("build", (keys,)))
        left = len(self._building)
        while left:
            self.pool.step(None)
            if len(self._building) < left:
                yield left - len(self._building)
                left = len(self._building)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`framework.preparation.Workforce.map`; only one call at a time is possible.

        Raises
        ------
        ClusterError
            A piece kills every worker that is sent it, or no worker can be started.
        """
        self._job = MapJob(function, shared, pieces)
        self._sent_job = self._ray.put(self._job)
        self.pool.forget("map")
        self._answers = {}
        for i in range(len(pieces)):
            self.pool.add(Task("map", ([i], [self._job])))
        try:
            for i in range(len(pieces)):
                while i not in self._answers:
                    self.pool.step(None)
                yield self._answers.pop(i)
        finally:  # the caller may stop early
            self.pool.forget("map")
            self._job = self._sent_job = None

    def close(self) -> None:
        self.pool.close()
        self._blocked.clear()
        self._done.clear()
        self._outstanding = 0

    def components(self) -> tuple[int, int]:
        waited = len(self._building)
        return (self._ordered - waited, self._ordered) if waited else (0, 0)

    def incidents(self) -> Mapping[str, int]:
        return self.pool.incidents()

    # Components -----------------------------------------------------------------------------------

    def _order_components(self, X: Array) -> set[bytes]:
        """Queue the missing components that no task builds yet; return the keys of all missing."""
        keys = self.problem.missing_components(X)
        names = [key.tobytes() for key in keys]
        new = [i for i, name in enumerate(names) if name not in self._building]
        if new:
            self._ordered = len(new) + (self._ordered if self._building else 0)
            self._building.update(names)
            self.pool.add(Task("build", (keys[new],)))
        return set(names)

    def _add_components(self, keys: WordArray, built: list[Components]) -> None:
        """Add components to the problem, and queue the batches that now have all they need."""
        for components in built:
            self.problem.add_components(components)
        names = {key.tobytes() for key in keys}
        self._building -= names
        for task, missing in self._blocked:
            missing -= names
            if not missing:
                self.pool.add(task)
        self._blocked = [(task, missing) for task, missing in self._blocked if missing]

    def _missing(self, n_components: int) -> Any:
        """Return the components that a worker lacks, or a reference to them; None if it has all."""
        span = n_components, self.problem.n_components
        if n_components == span[1]:
            return None
        if span not in self._sent:
            self._sent = {old: ref for old, ref in self._sent.items() if old[1] == span[1]}
            delta = self.problem.components_since(n_components)
            large = delta.bits.nbytes + delta.keys.nbytes > _INLINE_BYTES
            self._sent[span] = self._ray.put(delta) if large else delta
        return self._sent[span]

    # TaskOwner: what the pool of workers calls --------------------------------------------------

    def arguments(self, task: Task, n_components: int) -> tuple[tuple[Any, ...], int]:
        if task.kind == "score":
            return (*task.columns, self._missing(n_components)), self.problem.n_components
        if task.kind == "map":
            return (self._sent_job, task.columns[0][0]), n_components
        return task.columns, n_components

    def work(self, task: Task) -> Callable[[], Any]:
        method = getattr(self._service, task.kind)
        if task.kind == "score":
            return partial(method, *task.columns, None)
        if task.kind == "map":
            return partial(method, task.columns[1][0], task.columns[0][0])
        return partial(method, *task.columns)

    def answered(self, task: Task, answer: Any) -> None:
        if task.kind == "score":
            self._done.append(answer)
        elif task.kind == "build":
            self._add_components(task.columns[0], answer)
        elif task.columns[1][0] is self._job:  # else it belongs to a call of `map` that has ended
            self._answers[task.columns[0][0]] = answer

    def raised(self, task: Task, error: Exception) -> None:
        if isinstance(error, EnvironmentFailure):
            raise ClusterError(
                f"no node can do the work ({error.reason}); put that right where workers run, then "
                "go on with `paretolab resume`, or run with --workers serial"
            )
        raise error

    def killed(self, task: Task, reason: str) -> None:
        if task.kind == "score":
            ids, X = task.columns
            self._done.append(failed_rows(self.problem, ids, X, reason))
        elif task.kind == "build":
            self._add_components(
                task.columns[0], [self.problem.failed_components(task.columns[0], reason)]
            )
        else:
            raise ClusterError(
                f"a piece of the search {reason}; free memory where workers run, or run with "
                "--workers serial"
            )
