"""Workers in virtual time: rows are scored at once and handed out when they would have been."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.journal import Journal
from framework.problem import Problem
from framework.run.evaluator import Evaluator, evaluate_candidates
from framework.run.requests import patience, request_size


@dataclass(frozen=True)
class RowTimes:
    """How long rows take.

    Attributes
    ----------
    seconds : float
        Mean of an ordinary row.
    sigma : float
        Of the logarithm (a lognormal distribution); 0: all rows take the same.
    late_share, late_factor : float
        Share of the rows that take so many times as long.
    of_machine : bool
        Whether lateness is the machine's: another attempt draws another time. Otherwise it is
        the row's own.
    seed : int
    measured : numpy.ndarray, shape (n,), or None
        Seconds of the rows of a run, in the order evaluated, instead of a distribution; after the
        last the first comes again.
    """

    seconds: float = 0.5
    sigma: float = 0.0
    late_share: float = 0.0
    late_factor: float = 20.0
    of_machine: bool = True
    seed: int = 0
    measured: FloatArray | None = None

    @classmethod
    def of_run(cls, journal: Journal, *, of_machine: bool = True, seed: int = 0) -> RowTimes:
        """Return the times of a run that one process evaluated: rows of a batch share its time.

        Raises
        ------
        InputError
            The journal has no rows.
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
        """Return the seconds of rows, which depend on their ids and the attempt."""
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
class Crew:
    """The workers.

    Attributes
    ----------
    workers : int
        At the start.
    joining : tuple of (float, int)
        Seconds after the start, and how many workers join then.
    lifetime : float or None
        Mean seconds until a worker is lost, with the rows that it has; None: never.
    replaced_after : float
        Seconds until another one takes the place of a lost worker.
    copies : bool
        Whether an idle worker does again what another one is late with.
    row_seconds, request_seconds : float
        Of the driver's time that a row costs, and a request, there and back.
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
class Tally:
    """What came out: seconds of virtual time, and of the driver's own in it."""

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
    """Values of rows, kept from one simulation to the next: all ask for the same rows."""

    batches: dict[int, Evaluated] = field(default_factory=dict)

    def of(self, problem: Problem, seed: int, ids: IntArray, X: Array) -> Evaluated:
        """Return the values of rows that were submitted together."""
        known = self.batches.get(int(ids[0]))
        if known is None or not np.array_equal(known.X, X):
            known = self.batches[int(ids[0])] = evaluate_candidates(problem, seed, ids, X)
        return known


class VirtualWorkers(Evaluator):
    """Scores rows at once and hands them out when virtual workers would have.

    Parameters
    ----------
    problem : Problem
    seed : int
        Of the run.
    crew : Crew
    times : RowTimes
    answers : Answers
    """

    def __init__(
        self, problem: Problem, seed: int, *, crew: Crew, times: RowTimes, answers: Answers
    ) -> None:
        super().__init__(problem, seed)
        self.crew, self.times, self.answers = crew, times, answers
        self.tally = Tally()
        self._now = 0.0
        self._queue: deque[int] = deque()
        self._rows: dict[int, tuple[Evaluated, int]] = {}  # a row's batch, and its place there
        self._done: set[int] = set()
        self._idle: list[int] = []
        self._busy: dict[int, _Request] = {}
        self._events: list[tuple[float, int, str, int, _Request | None]] = []
        self._count = self._workers = 0
        self._changed = 0.0  # when the number of workers last did
        self._rng = np.random.default_rng((times.seed, 1))
        self._attempts: dict[int, int] = {}
        for _ in range(crew.workers):
            self._arrive(0.0)
        for at, many in crew.joining:
            for _ in range(many):
                self._later(at, "join", -1)

    def submit(self, ids: IntArray, X: Array) -> None:
        values = self.answers.of(self.problem, self.seed, ids, X)
        self._spend(self.crew.row_seconds * len(ids))
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
        self.tally.seconds = self._now

    def _spend(self, seconds: float) -> None:
        self._now += seconds
        self.tally.driver += seconds

    def _count_presence(self, at: float) -> None:
        self.tally.present += self._workers * (at - self._changed)
        self._changed = at

    def _later(self, at: float, what: str, worker: int, request: _Request | None = None) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, what, worker, request))

    def _arrive(self, at: float) -> None:
        self._count_presence(at)
        self._workers += 1
        self._count += 1
        worker = self._count
        self._idle.append(worker)
        if self.crew.lifetime is not None:
            self._later(at + self._rng.exponential(self.crew.lifetime), "lose", worker)

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
            size = request_size(len(self._queue), self._workers, self.times.seconds)
            ids = [self._queue.popleft() for _ in range(size)]
            self._start(self._idle.pop(), _Request(ids, at), at)
        if self.crew.copies and self._idle:
            for request in self._late(at):
                if not self._idle:
                    break
                request.copied = True
                self.tally.copies += 1
                self._start(self._idle.pop(), _Request(request.ids, at, copied=True), at)

    def _start(self, worker: int, request: _Request, at: float) -> None:
        attempt = self._attempts.get(request.ids[0], 0)
        self._attempts[request.ids[0]] = attempt + 1
        request.seconds = float(self.times.of(np.array(request.ids), attempt).sum())
        self._busy[worker] = request
        self._later(at + request.seconds, "finish", worker, request)
        if self.crew.copies and not request.copied:
            self._later(at + self._patience(request) * 1.000001, "look", worker)

    def _patience(self, request: _Request) -> float:
        return patience(len(request.ids), self.times.seconds)

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
        self._spend(self.crew.request_seconds)
        self.tally.rows += len(request.ids)
        self.tally.useful += request.seconds
        places = [self._rows.pop(id) for id in request.ids]
        for values in {id(values): values for values, _ in places}.values():
            pieces.append(values.take(np.array([i for other, i in places if other is values])))

    def _lose(self, worker: int, at: float) -> None:
        self._count_presence(at)
        self._workers -= 1
        request = self._busy.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)
        if request is not None and request.ids[0] not in self._done:
            self.tally.lost += len(request.ids)
            self._queue.extendleft(reversed(request.ids))
        self._later(at + self.crew.replaced_after, "join", -1)
