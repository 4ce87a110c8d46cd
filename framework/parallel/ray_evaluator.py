"""Scores candidates on Ray actors; whatever happens to the actors, the values are the same.

Every request is a pure function of the problem, the seed and its rows, so chunk sizes, the
number of workers, the order of completion and resent requests change nothing but the time.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Any, Literal

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.errors import ClusterError
from framework.parallel.ray_actor import Actor, Job
from framework.parts import Parts
from framework.problem import Problem
from framework.run.evaluator import Evaluator, failed_rows

_LOG = logging.getLogger(__name__)
_CHUNK_SECONDS = 0.05  # work in a request: a hundred times what sending it costs
_SMALL_SECONDS = 0.005  # less work than this is never divided
_IN_FLIGHT = 3  # requests queued at an actor, so that it never waits for the next
_SPLIT = 8  # pieces of a chunk whose worker died
_STRIKES = 3  # deaths that a lone row (or part) may cause
_KINDS = ("score", "build", "map")  # scoring first: the search waits for it
_INLINE_BYTES = 100_000  # larger parts go through the object store, once for all actors


class DispatchCost:
    """Seconds per row as measured, recent requests weighing most."""

    def __init__(self) -> None:
        self._seconds = self._rows = 0.0

    def add(self, seconds: float, rows: int) -> None:
        self._seconds = self._seconds / 2 + seconds
        self._rows = self._rows / 2 + rows

    @property
    def per_row(self) -> float | None:
        """Seconds; None before the first measurement."""
        return self._seconds / self._rows if self._rows else None

    def chunk(self, rows: int, workers: int) -> int:
        """Return how many of ``rows`` waiting rows the next request takes."""
        if not self._rows:
            return 1  # a probe: better than an hour in one request
        cost = max(self._seconds / self._rows, 1e-9)
        if rows * cost <= _SMALL_SECONDS:
            return rows
        fair = max(ceil(rows / workers), int(_SMALL_SECONDS / cost))
        return max(1, min(rows, fair, int(_CHUNK_SECONDS / cost)))


@dataclass
class _Work:
    """Rows to score (ids, genomes), parts to build (keys) or a piece (its number, the job)."""

    kind: Literal["score", "build", "map"]
    columns: tuple[Any, ...]
    strikes: int = 0

    def __len__(self) -> int:
        return len(self.columns[0])

    def slice(self, start: int, stop: int) -> _Work:
        return _Work(self.kind, tuple(column[start:stop] for column in self.columns), self.strikes)

    def split(self) -> list[_Work]:
        step = ceil(len(self) / _SPLIT)
        return [self.slice(start, start + step) for start in range(0, len(self), step)]


@dataclass(eq=False)
class _Slot:
    """An actor, what it has been told, and what it has been asked, oldest first."""

    actor: Any
    pid: int | None = None  # None until the actor is ready
    parts: int = 0
    asked: deque[Any] = field(default_factory=deque)  # object references
    long: bool = False  # what it works on takes its time

    def takes(self, long: bool) -> bool:
        """Tell whether to send a request: short ones queue up, nothing waits for a long one."""
        if self.pid is None or not self.asked:
            return self.pid is not None
        return not (long or self.long) and len(self.asked) < _IN_FLIGHT


class RayEvaluator(Evaluator):
    """Scores batches on actors of the Ray that this process is connected to.

    The problem travels once; batches carry genomes only. Shared parts are built on the actors,
    each once; this process keeps them all and sends each actor what it lacks. An actor that dies
    is replaced and its work sent again; the chunk it died of is divided until the culprit is
    alone, which fails after its third victim.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run, for the streams of stochastic problems.
    workers : int
        Actors to start, one CPU each.
    """

    def __init__(self, problem: Problem, seed: int = 0, *, workers: int) -> None:
        import ray

        super().__init__(problem, seed)
        self.workers = workers
        self._ray = ray
        self._class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Actor)
        self._sent = ray.put(problem)
        self._slots: list[_Slot] = []
        self._requests: dict[Any, tuple[_Slot, _Work | None]] = {}  # None: asked if ready
        self._queues: dict[str, deque[_Work]] = {kind: deque() for kind in _KINDS}
        self._costs = {kind: DispatchCost() for kind in _KINDS}
        self._job: Any = None  # a reference to what is mapped
        self._answers: dict[int, Any] = {}  # of its pieces, by number
        self._blocked: list[tuple[_Work, set[bytes]]] = []  # batches and the parts they await
        self._building: set[bytes] = set()
        self._ordered = 0  # parts since none was under way
        self._deltas: dict[tuple[int, int], Any] = {}
        self._done: list[Evaluated] = []
        self._outstanding = 0
        self._stillborn = 0
        for _ in range(workers):
            self._hire()

    def submit(self, ids: IntArray, X: Array) -> None:
        """Take rows to score: ids, shape (n,), and genomes, shape (n, d)."""
        if not len(ids):
            return
        work = _Work("score", (ids, X))
        self._outstanding += len(work)
        lacking = self._order_parts(X)
        if lacking:
            self._blocked.append((work, lacking))
        else:
            self._queues["score"].append(work)
        self._dispatch()

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        """Return finished pieces; an empty list when none came in time.

        Raises
        ------
        ClusterError
            The workers die before they are ready, again and again.
        """
        deadline = None if timeout is None else perf_counter() + timeout
        while self._outstanding and not self._done:
            self._dispatch()
            left = None if deadline is None else max(0.0, deadline - perf_counter())
            if not self._wait(left):
                break
        self._dispatch()
        pieces, self._done = self._done, []
        self._outstanding -= sum(len(piece) for piece in pieces)
        return pieces

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`framework.workforce.Workforce.build`.

        Raises
        ------
        ClusterError
            The workers die before they are ready, again and again.
        """
        if not len(keys) or not self.problem.has_parts:
            return
        self._building.update(key.tobytes() for key in keys)
        self._queues["build"].append(_Work("build", (keys,)))
        left = len(self._building)
        while left:
            self._dispatch()
            self._wait(None)
            if len(self._building) < left:
                yield left - len(self._building)
                left = len(self._building)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`framework.workforce.Workforce.map`; one at a time.

        Raises
        ------
        ClusterError
            A piece ends the workers that it is given to, or they die before they are ready.
        """
        self._job = self._ray.put(Job(function, shared, pieces))
        self._answers, self._costs["map"] = {}, DispatchCost()
        self._queues["map"].extend(_Work("map", ([i], [self._job])) for i in range(len(pieces)))
        try:
            for i in range(len(pieces)):
                while i not in self._answers:
                    self._dispatch()
                    self._wait(None)
                yield self._answers.pop(i)
        finally:  # the caller may have seen enough
            self._queues["map"].clear()
            self._job = None

    def close(self) -> None:
        """End the actors; rows not collected are lost."""
        for slot in self._slots:
            self._end(slot)
        self._slots.clear()
        self._requests.clear()
        self._blocked.clear()
        self._done.clear()
        for queue in self._queues.values():
            queue.clear()
        self._outstanding = 0

    def parts(self) -> tuple[int, int]:
        """Return how many parts that batches wait for are built, of how many."""
        waited = len(self._building)
        return (self._ordered - waited, self._ordered) if waited else (0, 0)

    def pids(self) -> list[int]:
        """Return the process ids of the actors that are ready, for tests of their death."""
        return [slot.pid for slot in self._slots if slot.pid is not None]

    # Parts ------------------------------------------------------------------------------------

    def _order_parts(self, X: Array) -> set[bytes]:
        """Have the parts built that nobody builds yet; return all that the batch must await."""
        keys = self.problem.missing_parts(X)
        names = [key.tobytes() for key in keys]
        new = [i for i, name in enumerate(names) if name not in self._building]
        if new:
            self._ordered = len(new) + (self._ordered if self._building else 0)
            self._building.update(names)
            self._queues["build"].append(_Work("build", (keys[new],)))
        return set(names)

    def _add_parts(self, keys: WordArray, built: list[Parts]) -> None:
        """Hold parts and release the batches that awaited nothing else."""
        for parts in built:
            self.problem.add_parts(parts)
        names = {key.tobytes() for key in keys}
        self._building -= names
        for work, lacking in self._blocked:
            lacking -= names
            if not lacking:
                self._queues["score"].append(work)
        self._blocked = [(work, lacking) for work, lacking in self._blocked if lacking]

    def _lacking(self, slot: _Slot) -> Any:
        """Return the parts that an actor lacks (or a reference to them), None for nothing."""
        if slot.parts == self.problem.n_parts:
            return None
        span = slot.parts, self.problem.n_parts
        slot.parts = span[1]
        if span not in self._deltas:
            self._deltas = {old: ref for old, ref in self._deltas.items() if old[1] == span[1]}
            parts = self.problem.parts_since(span[0])
            large = parts.bits.nbytes + parts.keys.nbytes > _INLINE_BYTES
            self._deltas[span] = self._ray.put(parts) if large else parts
        return self._deltas[span]

    # Requests ---------------------------------------------------------------------------------

    def _hire(self) -> None:
        """Start an actor; it gets work once it answers."""
        slot = _Slot(self._class.remote(self._sent, self.seed))
        self._slots.append(slot)
        self._ask(slot, None, slot.actor.ready.remote())

    def _ask(self, slot: _Slot, work: _Work | None, ref: Any) -> None:
        slot.asked.append(ref)
        self._requests[ref] = slot, work

    def _dispatch(self) -> None:
        """Give work to the actors that have least to do, while any has room."""
        for kind in _KINDS:
            queue, cost = self._queues[kind], self._costs[kind]
            while queue:
                size = cost.chunk(len(queue[0]), self.workers)
                long = size * (cost.per_row or 1.0) > 2 * _CHUNK_SECONDS
                slot = self._idlest(long)
                if slot is None:
                    break
                work = queue.popleft()
                if len(work) > size:
                    queue.appendleft(work.slice(size, len(work)))
                    work = work.slice(0, size)
                slot.long = long
                self._send(slot, work)

    def _idlest(self, long: bool) -> _Slot | None:
        """Return the actor with the fewest requests of those that take another."""
        free = [slot for slot in self._slots if slot.takes(long)]
        return min(free, key=lambda slot: len(slot.asked), default=None)

    def _send(self, slot: _Slot, work: _Work) -> None:
        if work.kind == "score":
            ref = slot.actor.score.remote(*work.columns, self._lacking(slot))
        elif work.kind == "build":
            ref = slot.actor.build.remote(*work.columns)
        else:
            ref = slot.actor.map.remote(work.columns[1][0], work.columns[0][0])
        self._ask(slot, work, ref)

    def _wait(self, timeout: float | None) -> bool:
        """Take what has been answered; tell whether anything was, in time."""
        refs = list(self._requests)
        answered, _ = self._ray.wait(refs, num_returns=1, timeout=timeout)
        if answered and len(refs) > 1:
            answered, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in answered:  # in the order of asking
            if ref in self._requests:  # else its actor was found dead a moment ago
                self._take(ref)
        return bool(answered)

    def _take(self, ref: Any) -> None:
        slot, work = self._requests[ref]
        try:
            answer = self._ray.get(ref)
        except Exception as error:  # a dead actor, or one whose parts are in doubt
            if work is not None and work.kind == "map" and _raised(error):
                del self._requests[ref]
                slot.asked.remove(ref)
                raise error.cause from error  # type: ignore[attr-defined]
            if getattr(error, "actor_init_failed", False):
                raise ClusterError(
                    f"a Ray worker cannot load the problem ({_reason(error)}); make its code and "
                    "data available there, or run with --workers serial"
                ) from error
            self._bury(slot, _reason(error))
            return
        del self._requests[ref]
        slot.asked.remove(ref)
        if work is None:
            slot.pid, slot.parts = answer
            self._stillborn = 0
            return
        seconds, result = answer
        self._costs[work.kind].add(seconds, len(work))
        if work.kind == "score":
            self._done.append(result)
        elif work.kind == "build":
            self._add_parts(work.columns[0], result)
        elif work.columns[1][0] is self._job:  # else nobody waits for it any more
            self._answers[work.columns[0][0]] = result

    # Deaths -----------------------------------------------------------------------------------

    def _bury(self, slot: _Slot, reason: str) -> None:
        """Replace an actor and send its work again; the oldest request is the suspect."""
        _LOG.warning("a Ray worker died and is replaced: %s", reason)
        self._end(slot)
        self._slots.remove(slot)
        if slot.pid is None:
            self._stillborn += 1
            if self._stillborn >= 3 * self.workers + 5:
                raise ClusterError(
                    f"{self._stillborn} Ray workers in a row died before they were ready (last: "
                    f"{reason}); free memory where they run, or run with --workers serial"
                )
        asked = [self._requests.pop(ref)[1] for ref in slot.asked]
        lost = [work for work in asked if work is not None]
        for work in reversed(lost[1:]):
            self._queues[work.kind].appendleft(work)
        if lost:
            self._suspect(lost[0], reason)
        self._hire()

    def _end(self, slot: _Slot) -> None:
        if not self._ray.is_initialized():  # it ended with its cluster; asking would start one
            return
        with suppress(self._ray.exceptions.RayError):  # it may never have started
            self._ray.kill(slot.actor)

    def _suspect(self, work: _Work, reason: str) -> None:
        """Divide the work that an actor died of, or count the deaths of a lone row."""
        if len(work) > 1:
            self._queues[work.kind].extendleft(reversed(work.split()))
            return
        work.strikes += 1
        if work.strikes < _STRIKES:
            self._queues[work.kind].appendleft(work)
            return
        if work.kind == "map":
            raise ClusterError(
                f"a piece of the search killed its worker {work.strikes} times (last: {reason}); "
                "free memory where workers run, or run with --workers serial"
            )
        error = f"killed its worker {work.strikes} times (last: {reason})"
        if work.kind == "score":
            ids, X = work.columns
            self._done.append(failed_rows(self.problem, ids, X, error))
            return
        self._add_parts(work.columns[0], [self.problem.failed_parts(work.columns[0], error)])


def _raised(error: Exception) -> bool:
    """Tell whether it is what a function raised in a worker that lives on."""
    return isinstance(getattr(error, "cause", None), Exception)


def _reason(error: Exception) -> str:
    """Return the telling line of what Ray says about a death."""
    text = str(error)
    detail = re.search(r"exit detail: (.+?)(?:\. |\.$|\n|$)", text)
    if detail:
        return detail.group(1)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
