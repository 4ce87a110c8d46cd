"""The loop of every search: ask, evaluate, write to the journal, tell, until the budget ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from framework.algorithm import Algorithm
from framework.arrays import Array, IntArray, kept
from framework.batch import Evaluated
from framework.errors import ContractError
from framework.front import Archive, Front
from framework.journal import Journal
from framework.preparation import Checkpoints, Preparation, PreparationProgress
from framework.problem import Problem
from framework.run.evaluator import Evaluator
from framework.run.recording import History, Writer
from framework.run.window import Window
from framework.settings import Budget

_WORK_EVERY = 0.5  # seconds between reports of the parts that a batch waits for
_SMALL_FRONT = 64  # solutions up to which the front is looked at after every batch
_LOOKING = 0.02  # share of the time that looking at a larger one may take
_FAILURES_COUNT_FROM = 50  # rows told before the share of failed rows can stop a run


@dataclass(frozen=True)
class Progress:
    """The state of a run after the algorithm was told a batch.

    A generation is a batch, or so many rows as the algorithm counts for one
    (``Algorithm.evaluations_per_generation``).

    Attributes
    ----------
    generation : int
        Number of the last generation told, from 0; -1 before the first one.
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


class Callback:
    """Follows a run, to show or log it. Hooks do nothing unless overridden and must not raise."""

    def on_start(self) -> None:
        """Called before the first batch."""

    def on_preparation(self, work: PreparationProgress) -> None:
        """Called every half second or so while work goes on that batches have to wait for."""

    def on_batch(self, progress: Progress) -> None:
        """Called after each batch that the algorithm was told.

        Where batches are pieces of generations: after each generation, and at least every half
        second.
        """

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


StoppingCriterion = Callable[[int, Callable[[], Front]], str]
"""Says why a run is to end early, or nothing, given how many rows were told and their front.

It is asked after every batch told, in the order of the batches, so that a criterion which knows
only these ends a run at the same row whoever evaluates.
"""


def run(
    problem: Problem,
    algorithm: Algorithm,
    evaluator: Evaluator,
    *,
    budget: Budget,
    journal: Journal | None = None,
    checkpoints: Checkpoints | None = None,
    callbacks: Sequence[Callback] = (),
    stopping_criterion: StoppingCriterion = lambda evaluations, front: "",
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
        Where each batch is written before the algorithm is told (or, where batches are pieces of
        generations, rows as they arrive, in groups); None writes nothing.
    checkpoints : Checkpoints, optional
        Intermediate results of long work, also those of earlier sessions; None keeps them in
        memory.
    callbacks : sequence of Callback
    stopping_criterion : StoppingCriterion
        May end the run before its budget does.

    Returns
    -------
    Front
        The front of all rows told.

    Raises
    ------
    JournalError
        The journal cannot be written, or holds rows that this algorithm does not ask for.
    """
    loop = _Loop(algorithm, evaluator, budget, journal, checkpoints)
    for callback in callbacks:
        callback.on_start()
    loop.prepare(callbacks)
    ended = ""
    with loop.writer:
        while not ended:
            loop.ask_ahead()
            if not loop.flights:
                break
            progress = loop.tell_next(callbacks)
            if progress is not None:
                for callback in callbacks:
                    callback.on_batch(progress)
            ended = stopping_criterion(loop.evaluations, lambda: loop.front(problem.gene_names))
    progress = loop.progress(stopped=ended or loop.stop_reason() or "nothing more to ask")
    for callback in callbacks:
        callback.on_end(progress)
    return loop.front(problem.gene_names)


class _Flight(NamedTuple):
    """A batch that was asked for and is not told yet."""

    asked: int  # rows the algorithm asked for; fewer are evaluated where the budget ends
    scored: Evaluated | None  # its rows, where they were scored at once; the window has them else


class _Loop:
    """State of one :func:`run`."""

    def __init__(
        self,
        algorithm: Algorithm,
        evaluator: Evaluator,
        budget: Budget,
        journal: Journal | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.algorithm, self.evaluator = algorithm, evaluator
        self.checkpoints = Checkpoints() if checkpoints is None else checkpoints
        self.budget = budget
        self.evaluations_per_generation = algorithm.evaluations_per_generation
        self.writer = Writer(journal, lambda: self.seconds)
        self.window = Window(algorithm.metric_names)
        self.archive = Archive(algorithm.roles)
        self.flights: deque[_Flight] = deque()
        self.last: list[Evaluated] = []
        self.batches_asked = self.rows_asked = 0
        self.generation, self.evaluations, self.failed = -1, 0, 0
        self.unchanged, self._shown = 0, 0.0
        self.row_limit = self._row_limit()
        self.front_size, self.hypervolume, self._looked = 0, 0.0, 0.0
        self.before = journal.seconds if journal else 0.0
        self.started = time.perf_counter()
        self._history = History(journal)

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def prepare(self, callbacks: Sequence[Callback]) -> None:
        """Have the algorithm do what its first batch rests on."""
        doing, since = "", 0.0

        def tell(work: PreparationProgress) -> None:
            nonlocal doing, since
            now = time.perf_counter()
            if work.what != doing:
                doing, since = work.what, now
            for callback in callbacks:
                callback.on_preparation(replace(work, seconds=now - since))

        self.algorithm.prepare(
            Preparation(self.evaluator, self.checkpoints, self._out_of_time, tell)
        )

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
        if budget.evaluations is not None and self.rows_asked >= budget.evaluations:
            return "evaluations"
        if self.rows_asked >= self.row_limit or self._batches_spent():
            return "generations"
        if budget.seconds is not None and self._history.over and self._out_of_time():
            return "seconds"
        if budget.patience is not None and self.unchanged >= budget.patience:
            return "patience"
        return self.algorithm.reason if self.algorithm.done else ""

    def _row_limit(self) -> float:
        """Return how many rows the budget allows."""
        limits = [inf if self.budget.evaluations is None else self.budget.evaluations]
        if self.budget.generations is not None and self.evaluations_per_generation is not None:
            limits.append((self.budget.generations + 1) * self.evaluations_per_generation)
        return min(limits)

    def _batches_spent(self) -> bool:
        generations = self.budget.generations
        whole = generations is not None and self.evaluations_per_generation is None
        return whole and self.batches_asked > (generations or 0)

    def ask_ahead(self) -> None:
        """Ask for batches as far as the algorithm looks ahead and the budget reaches."""
        while not self.batches_asked or not self.stop_reason():
            X = self.algorithm.ask()
            if X is None:
                if not self.flights and not self.algorithm.done:
                    raise ContractError("ask: expected a batch, found None with nothing in flight")
                return
            asked = len(X)
            if asked > self.row_limit - self.rows_asked:
                X = X[: int(self.row_limit) - self.rows_asked]
            X = kept(X)  # as it stays, whatever becomes of what was asked
            ids = np.arange(self.rows_asked, self.rows_asked + len(X))
            scored = None
            if self.algorithm.max_pending == 1 and self._history.over and len(X) == asked:
                scored = self.evaluator.score(ids, X)
            if scored is None:
                self._put_out(ids, X)
            else:  # checked before it is written down, as what is received is
                scored.check_answers(self.rows_asked, X, self.algorithm.metric_names, "score")
                self.window.skip(len(X))
            self.rows_asked += len(X)
            self.batches_asked += 1
            self.flights.append(_Flight(asked, scored))
            if scored is not None:
                return

    def _put_out(self, ids: IntArray, X: Array) -> None:
        """Have rows scored that the journal does not know."""
        self.window.ask(X)
        known = self._history.take(self.rows_asked, X)
        if known is None:
            self.evaluator.submit(ids, X)
        else:
            self.window.put(known, new=False)
            if len(known) < len(X):
                lacking = ~np.isin(ids, known.ids)
                self.evaluator.submit(ids[lacking], X[lacking])

    def tell_next(self, callbacks: Sequence[Callback]) -> Progress | None:
        """Wait for the oldest batch, write it down, tell it; return progress where some is due."""
        scored = self.flights[0].scored
        batch, new = self._awaited(callbacks) if scored is None else (scored, scored)
        flight = self.flights.popleft()
        if self.evaluations_per_generation is None and new is not None:
            self.writer.write(new)
        elif scored is not None:  # pieces that were waited for were written as they came
            self.writer.add(scored)
            self.writer.flush_where_due()
        if len(batch) == flight.asked:
            self.algorithm.tell(batch)
        self.evaluations += len(batch)
        self.failed += len(batch.errors)
        self.last = [batch]
        self.archive.add(batch)
        return self._counted(replayed=new is None)

    def _awaited(self, callbacks: Sequence[Callback]) -> tuple[Evaluated, Evaluated | None]:
        """Wait for the oldest batch in the window; return it, and those of its rows to write."""
        since = time.perf_counter()
        while self.window.lacks:
            self._receive(callbacks, since)
        return self.window.pop()

    def _receive(self, callbacks: Sequence[Callback], since: float) -> None:
        """Take rows from the evaluator, in whatever order they come."""
        pieces = self.evaluator.collect(self.writer.patience(_WORK_EVERY))
        for piece in pieces:
            # checked before it is written down: a wrong answer must not become the truth
            self.window.put(piece, new=True)
            if self.evaluations_per_generation is not None:
                self.writer.add(piece)
        self.writer.flush_where_due()
        if not pieces:
            self._report_parts(callbacks, time.perf_counter() - since)

    def _counted(self, *, replayed: bool) -> Progress | None:
        """Count the generation that a batch ends, if it does."""
        rows, before = self.evaluations_per_generation, self.generation
        self.generation = before + 1 if rows is None else self.evaluations // rows - 1
        if self.generation > before and self.budget.patience is not None:
            self.unchanged = 0 if self.archive.has_changed() else self.unchanged + 1
        now = time.perf_counter()
        if self.generation == before and now - self._shown < _WORK_EVERY:
            return None
        self._shown = now
        return self.progress(replayed=replayed)

    def _report_parts(self, callbacks: Sequence[Callback], seconds: float) -> None:
        """Tell callbacks of the parts that the oldest batch waits for."""
        done, total = self.evaluator.components()
        what = f"gen {self.generation + 1} · {self.evaluator.problem.component_name}"
        for callback in callbacks if total else ():
            callback.on_preparation(PreparationProgress(what, done, total, seconds))

    def front(self, gene_names: tuple[str, ...]) -> Front:
        """Return the front of the rows told."""
        if self.archive.rows is None:
            return Front.of(self.last, self.algorithm.roles, gene_names)
        return Front(self.archive.rows, self.algorithm.roles, gene_names)

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
            told = self.evaluations / (self.evaluations_per_generation or 1)
            done = self.generation + 1 if self.evaluations_per_generation is None else told
            shares.append(done / (budget.generations + 1))
        if budget.evaluations is not None:
            shares.append(self.evaluations / budget.evaluations)
        if budget.seconds is not None:
            shares.append(self.seconds / budget.seconds)
        return min(1.0, max(shares)) if shares else None
