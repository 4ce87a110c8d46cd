"""Scores candidates on Ray workers; whatever happens to them, the values are the same.

Every request is a pure function of the problem, the seed and its rows, so chunk sizes, the
number of workers, the order of completion and resent requests change nothing but the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.components import Components
from framework.errors import ClusterError, EnvironmentFailure
from framework.parallel.config import ClusterConfig
from framework.parallel.pool import WorkerPool
from framework.parallel.scorer import Job, Scorer
from framework.parallel.work import Work
from framework.problem import Problem
from framework.run.evaluator import Evaluator, failed_rows

_INLINE_BYTES = 100_000  # larger parts go through the object store, once for all workers


class RayEvaluator(Evaluator):
    """Scores batches on workers of the Ray that this process is connected to.

    The problem travels once; batches carry genomes only. Shared parts are built by the workers,
    each once; this process keeps them all and sends each worker what it lacks. A worker that dies
    is replaced and its work sent again; the chunk it died of is divided until the culprit is
    alone, which fails after its third victim.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run, for the streams of stochastic problems.
    workers : int, optional
        How many to ask for; None takes the whole cluster as it grows and shrinks.
    config : ClusterConfig
        What each worker takes of its node, and how long a row may take.
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
        self._job: Any = None  # a reference to what is mapped
        self._answers: dict[int, Any] = {}  # of its pieces, by number
        self._blocked: list[tuple[Work, set[bytes]]] = []  # batches and the parts they await
        self._building: set[bytes] = set()
        self._ordered = 0  # parts since none was under way
        self._deltas: dict[tuple[int, int], Any] = {}
        self._done: list[Evaluated] = []
        self._outstanding = 0
        self.pool = WorkerPool(
            Scorer(problem, seed),
            self,
            ("score", "build", "map"),  # scoring first: the search waits for it
            workers=workers,
            config=config or ClusterConfig(),
            timed=("score",),
            copied=("score", "build", "map"),
        )

    def submit(self, ids: IntArray, X: Array) -> None:
        """Take rows to score: ids, shape (n,), and genomes, shape (n, d)."""
        if not len(ids):
            return
        work = Work("score", (ids, X))
        self._outstanding += len(work)
        lacking = self._order_parts(X)
        if lacking:
            self._blocked.append((work, lacking))
        else:
            self.pool.add(work)
        self.pool.dispatch()

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return finished pieces; an empty list when none came in time.

        Raises
        ------
        ClusterError
            No worker can be started, or every node is at fault, again and again.
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
        """See :meth:`framework.preparation.Workforce.build`.

        Raises
        ------
        ClusterError
            No worker can be started, or every node is at fault, again and again.
        """
        if not len(keys) or not self.problem.has_components:
            return
        self._building.update(key.tobytes() for key in keys)
        self.pool.add(Work("build", (keys,)))
        left = len(self._building)
        while left:
            self.pool.step(None)
            if len(self._building) < left:
                yield left - len(self._building)
                left = len(self._building)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`framework.preparation.Workforce.map`; one at a time.

        Raises
        ------
        ClusterError
            A piece ends the workers that it is given to, or none can be started.
        """
        self._job = self._ray.put(Job(function, shared, pieces))
        self.pool.forget("map")
        self._answers = {}
        for i in range(len(pieces)):
            self.pool.add(Work("map", ([i], [self._job])))
        try:
            for i in range(len(pieces)):
                while i not in self._answers:
                    self.pool.step(None)
                yield self._answers.pop(i)
        finally:  # the caller may have seen enough
            self.pool.forget("map")
            self._job = None

    def close(self) -> None:
        """End the workers; rows not collected are lost."""
        self.pool.close()
        self._blocked.clear()
        self._done.clear()
        self._outstanding = 0

    def components(self) -> tuple[int, int]:
        """Return how many parts that batches wait for are built, of how many."""
        waited = len(self._building)
        return (self._ordered - waited, self._ordered) if waited else (0, 0)

    def incidents(self) -> Mapping[str, int]:
        """Return what incidents the workers, counted."""
        return self.pool.incidents()

    def pids(self) -> list[int]:
        """Return the process ids of the workers that are ready, for tests of their death."""
        return [slot.pid for slot in self.pool.ready if slot.pid is not None]

    # Components -----------------------------------------------------------------------------------

    def _order_parts(self, X: Array) -> set[bytes]:
        """Have the parts built that nobody builds yet; return all that the batch must await."""
        keys = self.problem.missing_components(X)
        names = [key.tobytes() for key in keys]
        new = [i for i, name in enumerate(names) if name not in self._building]
        if new:
            self._ordered = len(new) + (self._ordered if self._building else 0)
            self._building.update(names)
            self.pool.add(Work("build", (keys[new],)))
        return set(names)

    def _add_components(self, keys: WordArray, built: list[Components]) -> None:
        """Hold parts and release the batches that awaited nothing else."""
        for parts in built:
            self.problem.add_components(parts)
        names = {key.tobytes() for key in keys}
        self._building -= names
        for work, lacking in self._blocked:
            lacking -= names
            if not lacking:
                self.pool.add(work)
        self._blocked = [(work, lacking) for work, lacking in self._blocked if lacking]

    def _lacking(self, parts: int) -> Any:
        """Return what one with so many parts lacks (or a reference to it), None for nothing."""
        span = parts, self.problem.n_components
        if parts == span[1]:
            return None
        if span not in self._deltas:
            self._deltas = {old: ref for old, ref in self._deltas.items() if old[1] == span[1]}
            delta = self.problem.components_since(parts)
            large = delta.bits.nbytes + delta.keys.nbytes > _INLINE_BYTES
            self._deltas[span] = self._ray.put(delta) if large else delta
        return self._deltas[span]

    # What the pool of workers asks and tells (framework.parallel.work.Owner) -------------------

    def arguments(self, work: Work, parts: int) -> tuple[tuple[Any, ...], int]:
        if work.kind == "score":
            return (*work.columns, self._lacking(parts)), self.problem.n_components
        if work.kind == "map":
            return (work.columns[1][0], work.columns[0][0]), parts
        return work.columns, parts

    def answered(self, work: Work, answer: Any) -> None:
        if work.kind == "score":
            self._done.append(answer)
        elif work.kind == "build":
            self._add_components(work.columns[0], answer)
        elif work.columns[1][0] is self._job:  # else nobody waits for it any more
            self._answers[work.columns[0][0]] = answer

    def expects(self, work: Work) -> bool:
        return work.kind == "map"

    def raised(self, work: Work, error: Exception) -> None:
        if isinstance(error, EnvironmentFailure):
            raise ClusterError(
                f"no node can do the work ({error.reason}); put that right where workers run, then "
                "go on with `paretolab resume`, or run with --workers serial"
            )
        raise error

    def killed(self, work: Work, reason: str) -> None:
        if work.kind == "score":
            ids, X = work.columns
            self._done.append(failed_rows(self.problem, ids, X, reason))
        elif work.kind == "build":
            self._add_components(
                work.columns[0], [self.problem.failed_components(work.columns[0], reason)]
            )
        else:
            raise ClusterError(
                f"a piece of the search {reason}; free memory where workers run, or run with "
                "--workers serial"
            )
