"""The loop of every search: ask, evaluate, write to the journal, tell, until the budget ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.batch import Evaluated
from framework.errors import ContractError, JournalError
from framework.front import Archive, Front
from framework.journal import Journal
from framework.long_work import LongWork, Work
from framework.notes import Notes
from framework.problem import Problem
from framework.run.evaluator import Evaluator
from framework.settings import Budget

_WORK_EVERY = 0.5  # seconds between reports of the parts that a batch waits for
_SMALL_FRONT = 64  # solutions up to which the front is looked at after every batch
_LOOKING = 0.05  # share of the time that looking at a larger one may take
_FAILURES_COUNT_FROM = 50  # rows told before the share of failed rows can stop a run


@dataclass(frozen=True)
class Progress:
    """The state of a run after the algorithm was told a batch.

    Attributes
    ----------
    generation : int
        Number of the last batch, from 0; -1 before the first one.
    evaluations, failed : int
        Number of rows told, and how many of them failed.
    front_size : int
        Number of solutions. While a run with a large front goes on, that of a few batches ago.
    hypervolume : float
        Share of the box between best and worst values that the front dominates; as old as
        ``front_size``.
    seconds : float
        Time spent searching, over all sessions.
    share : float or None
        Share of the budget that is spent, 0 to 1; None where only ``patience`` limits the run.
    replayed : bool
        Whether the batch came from the journal.
    stopped : str
        Why the run ended; empty while it goes on.
    """

    generation: int = -1
    evaluations: int = 0
    failed: int = 0
    front_size: int = 0
    hypervolume: float = 0.0
    seconds: float = 0.0
    share: float | None = None
    replayed: bool = False
    stopped: str = ""


class Observer:
    """Follows a run, to show or log it. Hooks do nothing unless overridden and must not raise."""

    def on_start(self) -> None:
        """Called before the first batch."""

    def on_work(self, work: Work) -> None:
        """Called every half second or so while work goes on that batches have to wait for."""

    def on_batch(self, progress: Progress) -> None:
        """Called after each batch that the algorithm was told."""

    def on_end(self, progress: Progress) -> None:
        """Called after the last batch; ``progress.stopped`` says why the run ended."""

    def on_written(self) -> str:
        """After front, summary and reports are written, or the run was stopped.

        Returns
        -------
        str
            A line for the user, or nothing.
        """
        return ""


def run(
    problem: Problem,
    algorithm: Algorithm,
    evaluator: Evaluator,
    *,
    budget: Budget,
    journal: Journal | None = None,
    notes: Notes | None = None,
    observers: Sequence[Observer] = (),
) -> Front:
    """Search until the budget is spent or the algorithm is done.

    A journal that has rows is replayed first: the algorithm asks for the same rows again and is
    told their values from the journal. A resumed run therefore continues as if it had never
    stopped, and no row is evaluated twice.

    Parameters
    ----------
    problem : Problem
        Here it only gives the names of the genes: ``evaluator`` does the evaluating.
    algorithm : Algorithm
        In its initial state: it was not asked for anything yet.
    evaluator : Evaluator
    budget : Budget
    journal : Journal, optional
        Where each batch is written before the algorithm is told; None writes nothing.
    notes : Notes, optional
        Intermediate results of long work, also those of earlier sessions; None keeps them in
        memory.
    observers : sequence of Observer

    Returns
    -------
    Front
        The front of all rows.

    Raises
    ------
    JournalError
        The journal cannot be written, or holds rows that this algorithm does not ask for.
    """
    loop = _Loop(algorithm, evaluator, budget, journal, notes)
    for observer in observers:
        observer.on_start()
    loop.prepare(observers)
    while True:
        loop.ask_ahead()
        if not loop.flights:
            break
        progress = loop.tell_next(observers)
        for observer in observers:
            observer.on_batch(progress)
    progress = loop.progress(stopped=loop.stop_reason() or "nothing more to ask")
    for observer in observers:
        observer.on_end(progress)
    if loop.archive.rows is None:
        return Front.of(loop.last, algorithm.roles, problem.gene_names)
    return Front(loop.archive.rows, algorithm.roles, problem.gene_names)


@dataclass
class _Flight:
    """A batch that was asked for and is not told yet."""

    first: int
    X: Array
    asked: int  # rows the algorithm asked for; fewer are evaluated where the budget ends
    old: list[Evaluated] = field(default_factory=list)  # rows known from the journal
    new: list[Evaluated] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return sum(map(len, self.old)) + sum(map(len, self.new)) >= len(self.X)


class _Loop:
    """State of one :func:`run`."""

    def __init__(
        self,
        algorithm: Algorithm,
        evaluator: Evaluator,
        budget: Budget,
        journal: Journal | None,
        notes: Notes | None,
    ) -> None:
        self.algorithm, self.evaluator = algorithm, evaluator
        self.notes = Notes() if notes is None else notes
        self.budget, self.journal = budget, journal
        self.archive = Archive(algorithm.roles)
        self.flights: deque[_Flight] = deque()
        self.last: list[Evaluated] = []
        self.batches_asked = self.rows_asked = 0
        self.generation, self.evaluations, self.failed = -1, 0, 0
        self.unchanged = 0
        self.front_size, self.hypervolume, self._looked = 0, 0.0, 0.0
        self.before = journal.seconds if journal else 0.0
        self.started = time.perf_counter()
        self._history = _History(journal)

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def prepare(self, observers: Sequence[Observer]) -> None:
        """Have the algorithm do what its first batch rests on."""
        doing, since = "", 0.0

        def tell(work: Work) -> None:
            nonlocal doing, since
            now = time.perf_counter()
            if work.what != doing:
                doing, since = work.what, now
            for observer in observers:
                observer.on_work(replace(work, seconds=now - since))

        self.algorithm.prepare(LongWork(self.evaluator, self.notes, self._out_of_time, tell))

    def _out_of_time(self) -> bool:
        """Tell whether the budget of seconds is spent."""
        return self.budget.seconds is not None and self.seconds >= self.budget.seconds

    def stop_reason(self) -> str:
        """Say which part of the budget is spent; empty if none."""
        budget = self.budget
        if self.evaluations >= _FAILURES_COUNT_FROM and self.failed > (
            budget.max_failed_share * self.evaluations
        ):
            return "failures"
        if budget.generations is not None and self.batches_asked > budget.generations:
            return "generations"
        if budget.evaluations is not None and self.rows_asked >= budget.evaluations:
            return "evaluations"
        if self._history.over and self._out_of_time():
            return "seconds"
        if budget.patience is not None and self.unchanged >= budget.patience:
            return "patience"
        return self.algorithm.reason if self.algorithm.done else ""

    def ask_ahead(self) -> None:
        """Ask for batches as far as the algorithm looks ahead and the budget reaches."""
        while not self.batches_asked or not self.stop_reason():
            X = self.algorithm.ask()
            if X is None:
                if not self.flights and not self.algorithm.done:
                    raise ContractError("ask: expected a batch, found None with nothing in flight")
                return
            flight = _Flight(self.rows_asked, X, asked=len(X))
            if self.budget.evaluations is not None:
                flight.X = X[: self.budget.evaluations - self.rows_asked]
            flight.old = self._history.take(flight.first, flight.X)
            known = sum(map(len, flight.old))
            if known < len(flight.X):
                ids = np.arange(flight.first + known, flight.first + len(flight.X))
                self.evaluator.submit(ids, flight.X[known:])
            self.rows_asked += len(flight.X)
            self.batches_asked += 1
            self.flights.append(flight)

    def tell_next(self, observers: Sequence[Observer]) -> Progress:
        """Wait for the oldest batch, write it down, tell it."""
        flight, since = self.flights[0], time.perf_counter()
        while not flight.complete:
            pieces = self.evaluator.collect(_WORK_EVERY)
            for piece in pieces:
                self._deliver(piece)
            if not pieces:
                self._report_parts(observers, time.perf_counter() - since)
        self.flights.popleft()
        batch = Evaluated.concat(flight.old + flight.new)
        # before it is written down: a wrong answer must not become the truth
        batch.check_answers(flight.first, flight.X, self.algorithm.metric_names, "collect")
        if flight.new and self.journal is not None:
            self.journal.append(Evaluated.concat(flight.new), self.seconds)
        if len(batch) == flight.asked:
            self.algorithm.tell(batch)
        self.generation += 1
        self.evaluations += len(batch)
        self.failed += len(batch.errors)
        self.last = [batch]
        if self.budget.patience is None:
            self.archive.add(batch)
        else:
            self.unchanged = 0 if self.archive.update(batch) else self.unchanged + 1
        return self.progress(replayed=not flight.new)

    def _report_parts(self, observers: Sequence[Observer], seconds: float) -> None:
        """Tell observers of the parts that the oldest batch waits for."""
        done, total = self.evaluator.parts()
        what = f"gen {self.generation + 1} · {self.evaluator.problem.part_name}"
        for observer in observers if total else ():
            observer.on_work(Work(what, done, total, seconds))

    def _deliver(self, piece: Evaluated) -> None:
        """Hand the rows of a piece to the batches they belong to."""
        known = 0
        for flight in self.flights:
            inside = (piece.ids >= flight.first) & (piece.ids < flight.first + len(flight.X))
            if inside.any():
                flight.new.append(piece.take(inside))
                known += len(flight.new[-1])
        if known < len(piece):
            raise ContractError("collect: expected rows that were submitted, found others")

    def progress(self, *, replayed: bool = False, stopped: str = "") -> Progress:
        self._look(always=bool(stopped))
        return Progress(
            self.generation,
            self.evaluations,
            self.failed,
            self.front_size,
            self.hypervolume,
            self.seconds,
            self._share(),
            replayed,
            stopped,
        )

    def _look(self, *, always: bool) -> None:
        """Refresh what is shown of the front; of a large one at a small share of the run's time."""
        now = time.perf_counter()
        large = self.archive.known_size > _SMALL_FRONT
        if large and not always and self._looked > _LOOKING * (now - self.started):
            return
        self.front_size, self.hypervolume = len(self.archive), self.archive.hypervolume()
        self._looked += time.perf_counter() - now

    def _share(self) -> float | None:
        budget, shares = self.budget, []
        if budget.generations is not None:
            shares.append((self.generation + 1) / (budget.generations + 1))
        if budget.evaluations is not None:
            shares.append(self.evaluations / budget.evaluations)
        if budget.seconds is not None:
            shares.append(self.seconds / budget.seconds)
        return min(1.0, max(shares)) if shares else None


class _History:
    """The rows that a journal already holds, handed out in the order of their ids."""

    def __init__(self, journal: Journal | None) -> None:
        self._batches: Iterator[Evaluated] = (
            iter(()) if journal is None else (batch for batch, _ in list(journal.batches()))
        )
        self._path = "" if journal is None else journal.path
        self._next: Evaluated | None = next(self._batches, None)

    @property
    def over(self) -> bool:
        """Whether all rows were handed out."""
        return self._next is None

    def take(self, first: int, X: Array) -> list[Evaluated]:
        """Return the known rows among ``first``, ``first + 1``, ... whose genomes are ``X``."""
        taken: list[Evaluated] = []
        known = 0
        while self._next is not None and known < len(X):
            batch = self._next
            part = batch.take(np.arange(min(len(batch), len(X) - known)))
            if part.ids[0] != first + known or not np.array_equal(
                part.X, X[known : known + len(part)]
            ):
                raise JournalError(
                    f"{self._path}: expected at row {first + known} the genomes that this "
                    "algorithm asks for, found others: the journal was written by another version"
                )
            taken.append(part)
            known += len(part)
            rest = batch.take(np.arange(len(part), len(batch)))
            self._next = rest if len(rest) else next(self._batches, None)
        return taken
