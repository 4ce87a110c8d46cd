"""Workers in virtual time: an evaluator that returns values when real workers would have.

What a candidate costs the driver is measured (:func:`driver_seconds`) and charged when it is sent.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.front import Front
from framework.journal import Journal
from framework.parallel.tasks import late_after, request_size
from framework.problem import Problem
from framework.run.driver import Callback, Progress, search
from framework.run.evaluator import Evaluator, evaluate_candidates
from framework.settings import Budget


@dataclass(frozen=True)
class EvaluationTimes:
    """How long evaluations take.

    Attributes
    ----------
    seconds : float
        Mean of an ordinary evaluation.
    sigma : float
        Of the logarithm (a lognormal distribution); 0: all take the same.
    late_share, late_factor : float
        Share of the evaluations that take so many times as long.
    of_machine : bool
        Whether lateness is the machine's: another attempt draws another time. Otherwise it is
        the candidate's own.
    seed : int
    measured : numpy.ndarray, shape (n,), or None
        Seconds of the evaluations of a run, in their order, instead of a distribution; after the
        last one the first one comes again.
    """

    seconds: float = 0.5
    sigma: float = 0.0
    late_share: float = 0.0
    late_factor: float = 20.0
    of_machine: bool = True
    seed: int = 0
    measured: FloatArray | None = None

    @classmethod
    def of_run(cls, journal: Journal, *, of_machine: bool = True, seed: int = 0) -> EvaluationTimes:
        """Return the times of a run in one process: candidates of a batch share its time.

        Raises
        ------
        InputError
            The journal is empty.
        """
        sizes, ends = [], [0.0]
        for batch, seconds in journal.batches():
            sizes.append(len(batch))
            ends.append(seconds)
        if not sizes:
            raise InputError(f"{journal.path}: expected a run with rows, found none")
        least = 1e-9  # a clock that did not move
        measured = np.repeat(np.maximum(np.diff(ends) / sizes, least), sizes)
        return cls(float(measured.mean()), of_machine=of_machine, seed=seed, measured=measured)

    def of(self, ids: IntArray, attempt: int = 0) -> FloatArray:
        """Return the seconds of evaluations, which depend on the ids and the attempt."""
        key = attempt if self.of_machine else 0
        if self.measured is not None:
            rng = np.random.default_rng((self.seed, key))  # another attempt: another row's time
            at = ids + (rng.integers(len(self.measured), size=len(ids)) if key else 0)
            return np.asarray(self.measured[at % len(self.measured)])
        out = np.full(len(ids), self.seconds * math.exp(-(self.sigma**2) / 2))  # the median
        if self.sigma or self.late_share:
            for i, id in enumerate(ids.tolist()):
                rng = np.random.default_rng((self.seed, key, id))
                out[i] *= math.exp(self.sigma * rng.standard_normal())
                if rng.random() < self.late_share:
                    out[i] *= self.late_factor
        return out


@dataclass(frozen=True)
class Workers:
    """The workers of a simulated cluster.

    Attributes
    ----------
    workers : int
        At the start.
    joining : tuple of (float, int)
        Seconds after the start, and how many workers join then.
    lifetime : float or None
        Mean seconds until a worker is lost, with its candidates; None: never.
    replaced_after : float
        Seconds until another one takes the place of a lost worker.
    copies : bool
        Whether an idle worker repeats what another one is late with.
    row_seconds, request_seconds : float
        What a candidate and a request (there and back) cost of the driver's time.
    """

    workers: int
    joining: tuple[tuple[float, int], ...] = ()
    lifetime: float | None = None
    replaced_after: float = 5.0
    copies: bool = False
    row_seconds: float = 0.0
    request_seconds: float = 0.0


@dataclass(eq=False)
class _Request:
    ids: list[int]
    since: float
    copied: bool = False
    seconds: float = 0.0


@dataclass
class Statistics:
    """Statistics of a simulation; seconds are those of virtual time."""

    useful: float = 0.0  # work whose result was taken
    present: float = 0.0  # seconds that workers were there, all together
    seconds: float = 0.0
    driver: float = 0.0
    rows: int = 0
    copies: int = 0
    lost: int = 0

    @property
    def efficiency(self) -> float:
        return self.useful / self.present if self.present else 1.0


@dataclass
class Answers:
    """Values of candidates, kept between simulations: all propose the same ones."""

    batches: dict[int, Evaluated] = field(default_factory=dict)

    def of(self, problem: Problem, seed: int, ids: IntArray, X: Array) -> Evaluated:
        """Return the values of candidates that were submitted together."""
        known = self.batches.get(int(ids[0]))
        if known is None or not np.array_equal(known.X, X):
            known = self.batches[int(ids[0])] = evaluate_candidates(problem, seed, ids, X)
        return known


class VirtualWorkers(Evaluator):
    """Evaluates candidates at once and returns them when virtual workers would have.

    Parameters
    ----------
    problem : Problem
    seed : int
        Of the run.
    workers : Workers
    times : EvaluationTimes
    answers : Answers
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        *,
        workers: Workers,
        times: EvaluationTimes,
        answers: Answers,
    ) -> None:
        super().__init__(problem, seed)
        self.workers, self.times, self.answers = workers, times, answers
        self.statistics = Statistics()
        self._now = 0.0
        self._queue: deque[int] = deque()
        self._rows: dict[int, tuple[Evaluated, int]] = {}  # id -> its batch, position
        self._done: set[int] = set()
        self._idle: list[int] = []
        self._busy: dict[int, _Request] = {}
        self._events: list[tuple[float, int, str, int, _Request | None]] = []
        self._count = self._present = 0
        self._changed = 0.0  # when the number of workers last did
        self._rng = np.random.default_rng((times.seed, 1))
        self._attempts: dict[int, int] = {}
        for _ in range(workers.workers):
            self._arrive(0.0)
        for at, many in workers.joining:
            for _ in range(many):
                self._later(at, "join", -1)

    def submit(self, ids: IntArray, X: Array) -> None:
        values = self.answers.of(self.problem, self.seed, ids, X)
        self._spend(self.workers.row_seconds * len(ids))
        for i, id in enumerate(ids.tolist()):
            self._rows[id] = values, i
        self._queue.extend(ids.tolist())

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        pieces: list[Evaluated] = []
        self._work_until(self._now, pieces)
        while not pieces and (self._queue or self._busy):
            self._now = max(self._now, self._events[0][0])
            self._work_until(self._now, pieces)
        return pieces

    def close(self) -> None:
        """Count the time that workers were there."""
        self._count_presence(self._now)
        self.statistics.seconds = self._now

    def _spend(self, seconds: float) -> None:
        self._now += seconds
        self.statistics.driver += seconds

    def _count_presence(self, at: float) -> None:
        self.statistics.present += self._present * (at - self._changed)
        self._changed = at

    def _later(self, at: float, what: str, worker: int, request: _Request | None = None) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, what, worker, request))

    def _arrive(self, at: float) -> None:
        self._count_presence(at)
        self._present += 1
        self._count += 1
        worker = self._count
        self._idle.append(worker)
        if self.workers.lifetime is not None:
            self._later(at + self._rng.exponential(self.workers.lifetime), "lose", worker)

    def _work_until(self, now: float, pieces: list[Evaluated]) -> None:
        self._employ(now)
        while self._events and self._events[0][0] <= now:
            at, _, what, worker, request = heapq.heappop(self._events)
            if what == "finish" and self._busy.get(worker) is request and request is not None:
                del self._busy[worker]
                self._idle.append(worker)
                self._deliver(request, pieces)
            elif what == "lose":
                self._lose(worker, at)
            elif what == "join":
                self._arrive(at)
            self._employ(at)

    def _employ(self, at: float) -> None:
        """Give idle workers what waits, or copies of what is late."""
        while self._queue and self._idle:
            size = request_size(len(self._queue), self._present, self.times.seconds)
            ids = [self._queue.popleft() for _ in range(size)]
            self._start(self._idle.pop(), _Request(ids, at), at)
        if self.workers.copies and self._idle:
            for request in self._late(at):
                if not self._idle:
                    break
                request.copied = True
                self.statistics.copies += 1
                self._start(self._idle.pop(), _Request(request.ids, at, copied=True), at)

    def _start(self, worker: int, request: _Request, at: float) -> None:
        attempt = self._attempts.get(request.ids[0], 0)
        self._attempts[request.ids[0]] = attempt + 1
        request.seconds = float(self.times.of(np.array(request.ids), attempt).sum())
        self._busy[worker] = request
        self._later(at + request.seconds, "finish", worker, request)
        if self.workers.copies and not request.copied:
            self._later(at + self._patience(request) * 1.000001, "look", worker)

    def _patience(self, request: _Request) -> float:
        return late_after(len(request.ids), self.times.seconds)

    def _late(self, at: float) -> list[_Request]:
        return [
            request
            for request in self._busy.values()
            if not request.copied and at - request.since > self._patience(request)
        ]

    def _deliver(self, request: _Request, pieces: list[Evaluated]) -> None:
        if request.ids[0] in self._done:
            return  # a copy was faster
        self._done.update(request.ids)
        self._spend(self.workers.request_seconds)
        self.statistics.rows += len(request.ids)
        self.statistics.useful += request.seconds
        places = [self._rows.pop(id) for id in request.ids]
        for values in {id(values): values for values, _ in places}.values():
            pieces.append(values.take(np.array([i for other, i in places if other is values])))

    def _lose(self, worker: int, at: float) -> None:
        self._count_presence(at)
        self._present -= 1
        request = self._busy.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)
        if request is not None and request.ids[0] not in self._done:
            self.statistics.lost += len(request.ids)
            self._queue.extendleft(reversed(request.ids))
        self._later(at + self.workers.replaced_after, "join", -1)


@dataclass(frozen=True)
class Simulated:
    """A simulated run."""

    workers: int
    statistics: Statistics
    front: Front

    @property
    def driver_share(self) -> float:
        """Share of the time that the driver itself was at work."""
        return self.statistics.driver / self.statistics.seconds if self.statistics.seconds else 0.0


class PromptEvaluator(Evaluator):
    """Returns known values at once."""

    def __init__(self, problem: Problem, seed: int, answers: Answers) -> None:
        super().__init__(problem, seed)
        self.answers = answers
        self._ready: list[Evaluated] = []

    def submit(self, ids: IntArray, X: Array) -> None:
        self._ready.append(self.answers.of(self.problem, self.seed, ids, X))

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        pieces, self._ready = self._ready, []
        return pieces

    def close(self) -> None:
        """Nothing is held."""


def driver_seconds(
    problem: Problem,
    make: Callable[[], Algorithm],
    seed: int,
    budget: Budget,
    answers: Answers,
    journal: Callable[[], AbstractContextManager[Journal | None]] = nullcontext,
) -> float:
    """Return the CPU seconds per candidate of driver, search and journal together.

    The run is made twice, the second time with all answers known, and that one is measured.

    Parameters
    ----------
    problem, make, seed, budget, answers
        See :func:`simulate`.
    journal : callable
        Returns a new journal, to be closed at the end.
    """
    for measured in (False, True):
        rows = CountEvaluations()
        with journal() as opened:
            begun = time.process_time()
            prompt = PromptEvaluator(problem, seed, answers)
            search(problem, make(), prompt, budget=budget, journal=opened, callbacks=[rows])
            spent = time.process_time() - begun
        if measured:
            break
    return spent / max(rows.count, 1)


class CountEvaluations(Callback):
    """Keeps the number of evaluations."""

    count = 0

    def on_end(self, progress: Progress) -> None:
        self.count = progress.evaluations


def simulate(
    problem: Problem,
    make: Callable[[], Algorithm],
    seed: int,
    workers: Workers,
    times: EvaluationTimes,
    budget: Budget,
    answers: Answers,
) -> Simulated:
    """Run a search in virtual time.

    Parameters
    ----------
    problem : Problem
    make : callable
        Returns the algorithm in its initial state.
    seed : int
        Of the run.
    workers, times
        The workers, and how long evaluations take.
    budget : Budget
    answers : Answers
        Shared by simulations of the same search, which propose the same candidates.
    """
    virtual = VirtualWorkers(problem, seed, workers=workers, times=times, answers=answers)
    front = search(problem, make(), virtual, budget=budget)
    virtual.close()
    return Simulated(workers.workers, virtual.statistics, front)
