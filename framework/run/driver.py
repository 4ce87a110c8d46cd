"""The loop of every search: propose, evaluate, write to the journal, learn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import inf
from typing import NamedTuple

import numpy as np

from framework.algorithm import Algorithm
from framework.arrays import Array, IntArray, fixed
from framework.batch import Evaluated
from framework.compiling import COMPILING
from framework.errors import ContractError, JournalError
from framework.front import Archive, Front
from framework.journal import Journal
from framework.pareto import EXACT_UP_TO
from framework.preparation import Checkpoints, Preparation, PreparationProgress
from framework.problem import Problem
from framework.run.evaluator import Evaluator
from framework.run.recording import JournalReplay, JournalWriter, PendingEvaluations
from framework.settings import Budget

_REPORT_SECONDS = 0.5  # between two reports while a batch is awaited
_SMALL_FRONT = 64  # solutions up to which an exact measure is taken after every batch
_MEASURING_SHARE = 0.02  # share of the run's time that dearer measures may take
_PIECES = 32  # into which the first batch is divided if there is a time limit
_FAILURES_COUNT_FROM = 50  # evaluations before the share of failures can stop a run


@dataclass(frozen=True)
class Progress:
    """The state of a run after the algorithm has learned from a batch.

    A generation is one batch, or ``Algorithm.evaluations_per_generation`` evaluations.

    Attributes
    ----------
    generation : int
        Number of the last complete generation, from 0; -1 before the first one.
    evaluations, failed : int
        Number of evaluations, and how many of them failed.
    front_size : int
        Number of solutions on the Pareto front. While a run goes on, it may be a few batches old
        if the front is large.
    hypervolume : float
        Share of the box between best and worst values that the front dominates; as old as
        ``front_size``.
    seconds : float
        Time spent searching, over all sessions.
    share : float or None
        Share of the budget that is spent, 0 to 1; None if only ``patience`` limits the run.
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
    """Follows a run, to show or log it. Methods do nothing by default; they must not raise."""

    def on_start(self) -> None:
        """Called before the first batch."""

    def on_preparation(self, progress: PreparationProgress) -> None:
        """Called about every half second while batches have to wait for other work."""

    def on_batch(self, progress: Progress) -> None:
        """Called after each batch that the algorithm has learned from.

        If batches are pieces of generations, it is called after each generation, and at least
        every half second.
        """

    def on_end(self, progress: Progress) -> None:
        """Called after the last batch; ``progress.stopped`` says why the run ended."""

    def on_written(self) -> str:
        """Called after front, summary and reports are written, or the run was stopped.

        Returns
        -------
        str
            A line for the user, or an empty string.
        """
        return ""


StoppingCriterion = Callable[[int, Callable[[], Front]], str]
"""Returns why a run is to end early, or an empty string to let it go on.

It is called after every batch that the algorithm has learned from, in the order of the batches,
with the number of evaluations so far and a function that returns their Pareto front. A criterion
that uses only these two ends a run at the same candidate whatever evaluates it.
"""


def search(
    problem: Problem,
    algorithm: Algorithm,
    evaluator: Evaluator,
    *,
    budget: Budget,
    journal: Journal | None = None,
    checkpoints: Checkpoints | None = None,
    callbacks: Sequence[Callback] = (),
    stopping_criterion: StoppingCriterion | None = None,
) -> Front:
    """Run a search until its budget is spent or the algorithm is done; return its Pareto front.

    The parameters are those of :class:`Driver`.
    """
    driver = Driver(
        problem,
        algorithm,
        evaluator,
        budget=budget,
        journal=journal,
        checkpoints=Checkpoints() if checkpoints is None else checkpoints,
        callbacks=callbacks,
        stopping_criterion=stopping_criterion,
    )
    return driver.run()


class PendingBatch(NamedTuple):
    """A batch that was proposed and that the algorithm has not learned from yet."""

    n_proposed: int  # by the algorithm; fewer are evaluated if the budget ends within the batch
    evaluated: Evaluated | None  # the values, if it was evaluated at once; else they are awaited


@dataclass(eq=False, repr=False)
class Driver:
    """Runs a search: propose, evaluate, write to the journal, learn, until the budget is spent.

    A journal that already has evaluations is replayed first: the algorithm proposes the same
    candidates again and learns their values from the journal. A resumed run therefore continues
    as if it had never stopped, and no candidate is evaluated twice.

    Parameters
    ----------
    problem : Problem
        Only read for the names of genes and components; ``evaluator`` evaluates.
    algorithm : Algorithm
        In its initial state: it has not proposed anything yet.
    evaluator : Evaluator
    budget : Budget
    journal : Journal, optional
        Each batch is written to it before the algorithm learns from it. If batches are pieces of
        generations, evaluations are written in chunks as they arrive. If None, nothing is written.
    checkpoints : Checkpoints, optional
        Intermediate results of the preparation, including those of earlier sessions. If None, they
        are kept in memory.
    callbacks : sequence of Callback
    stopping_criterion : StoppingCriterion, optional
        May end the run before its budget does.

    Attributes
    ----------
    n_batches, n_proposed : int
        Number of batches and of candidates proposed so far.
    n_evaluated, n_failed : int
        Number of evaluations that the algorithm has learned from, and how many of them failed.
    generation : int
        Number of the last complete generation, from 0; -1 before the first one.
    pending : deque of PendingBatch
        Batches that the algorithm proposed and has not learned from yet, the oldest first.
    archive : Archive
        The Pareto front of the evaluations that the algorithm has learned from.
    """

    problem: Problem
    algorithm: Algorithm
    evaluator: Evaluator
    _: KW_ONLY
    budget: Budget
    journal: Journal | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    callbacks: Sequence[Callback] = ()
    stopping_criterion: StoppingCriterion | None = None

    def __post_init__(self) -> None:
        algorithm, journal = self.algorithm, self.journal
        self.per_generation = algorithm.evaluations_per_generation
        self.n_batches = self.n_proposed = self.n_evaluated = self.n_failed = 0
        self.generation = -1
        self.pending: deque[PendingBatch] = deque()
        self.archive = Archive(algorithm.roles)
        self.replay = JournalReplay(journal)
        self.writer = JournalWriter(journal, self.seconds)
        self._awaited = PendingEvaluations(algorithm.metric_names)
        self._is_broken = False  # whether a batch was cut
        self._cut = ""  # how many solutions the budget leaves out, where each may be on the front
        self._submitted = 0  # candidates that the evaluator has not returned yet
        self._limit = self._evaluation_limit()
        self._last: list[Evaluated] = []
        self._unchanged = 0  # generations since the front changed
        self._front_size, self._hypervolume = 0, 0.0  # the latest measurements
        self._measuring = 0.0  # seconds spent on measuring
        self._reported = 0.0  # when progress was last reported
        self._earlier = journal.seconds if journal else 0.0  # of earlier sessions
        self._started = COMPILING.clock()

    def run(self) -> Front:
        """Search until the budget is spent or the algorithm is done.

        Returns
        -------
        Front
            The Pareto front of all evaluations.

        Raises
        ------
        JournalError
            The journal cannot be written, or holds candidates that this algorithm does not
            propose.
        ContractError
            The algorithm or the evaluator breaks its contract.
        """
        for callback in self.callbacks:
            callback.on_start()
        self.prepare()
        stopped = ""
        with self.writer:
            while not stopped:
                self.propose_pending()
                if not self.pending:
                    break
                self.learn_oldest()
                if self.stopping_criterion is not None:
                    stopped = self.stopping_criterion(self.n_evaluated, self.front)
        progress = self.progress(stopped=stopped or self.stop_reason() or "nothing more to ask")
        for callback in self.callbacks:
            callback.on_end(progress)
        return self.front()

    def prepare(self) -> None:
        """Have the algorithm compute what its first batch depends on."""
        what, since = "", 0.0

        def report(progress: PreparationProgress) -> None:
            nonlocal what, since
            now = time.perf_counter()
            if progress.what != what:
                what, since = progress.what, now
            for callback in self.callbacks:
                callback.on_preparation(replace(progress, seconds=now - since))

        self.algorithm.begin(
            Preparation(self.evaluator, self.checkpoints, self._out_of_time, report)
        )

    def propose_pending(self) -> None:
        """Have the algorithm propose as many batches as it may have pending and the budget allows.

        A batch is either evaluated at once or submitted to the evaluator, except for candidates
        whose values are in the journal.
        """
        while not self.n_batches or not self.stop_reason():
            X = self.algorithm.ask()
            if X is None:
                if not self.pending and not self.algorithm.done:
                    raise ContractError("ask: expected a batch, found None with nothing in flight")
                return
            n_proposed = len(X)
            if n_proposed > self._limit - self.n_proposed:
                X = X[: int(self._limit) - self.n_proposed]
                if self.algorithm.front_only:
                    asked = self.n_proposed + n_proposed
                    self._cut = f" ({len(X):,} of {asked:,} solutions; raise budget.evaluations)"
            X = fixed(X)  # a copy if the algorithm could still change it
            ids = np.arange(self.n_proposed, self.n_proposed + len(X))
            evaluated = None
            # evaluate at once only if no other batch is pending, nothing is replayed, and the
            # budget does not end within the batch
            if self.algorithm.max_pending == 1 and self.replay.over and len(X) == n_proposed:
                evaluated = self.evaluator.score(ids, X)
            if evaluated is None:
                self._submit(ids, X)
            else:  # checked here, since wrong values must not get into the journal
                evaluated.check_answers(self.n_proposed, X, self.algorithm.metric_names, "score")
                self._awaited.skip(len(X))
            self.n_proposed += len(X)
            self.n_batches += 1
            self.pending.append(PendingBatch(n_proposed, evaluated))
            if evaluated is not None:
                return

    def _submit(self, ids: IntArray, X: Array) -> None:
        """Submit the candidates whose values are not in the journal."""
        self._awaited.add(X)
        replayed = self.replay.take(self.n_proposed, X)
        if replayed is not None:
            self._awaited.receive(replayed, new=False)
            if len(replayed) == len(X):
                return
            missing = ~np.isin(ids, replayed.ids)
            ids, X = ids[missing], X[missing]
        self._submitted += len(ids)
        size = self._piece(len(ids))
        for start in range(0, len(ids), size):
            self.evaluator.submit(ids[start : start + size], X[start : start + size])

    def _piece(self, n: int) -> int:
        """Return how many of n candidates are submitted together: all if there is no time limit.

        When the time is over in the middle of a batch, only its finished pieces count.
        """
        if self.budget.seconds is None:
            return n
        if not self.n_evaluated:
            return -(-n // _PIECES)
        affordable = int(_REPORT_SECONDS * self.n_evaluated / max(self.seconds(), 1e-9))
        return max(1, min(n, affordable))

    def learn_oldest(self) -> None:
        """Await the oldest pending batch, write it to the journal, and let the algorithm learn.

        Evaluations may arrive in any order. When the time is over, the batch is cut: the candidates
        that have arrived count (a run has at least one), but the algorithm does not learn from
        them. They are in the journal, so that a resumed run is cut in the same way, or evaluates
        the other candidates if it has more time.

        Raises
        ------
        JournalError
            The values of a candidate are neither in the journal nor with the evaluator.
        """
        evaluated = self.pending[0].evaluated
        if evaluated is None:
            since = time.perf_counter()
            while self._awaited.incomplete and not self._is_cut():
                if not self._submitted:
                    raise JournalError(
                        f"expected values of row {self.n_evaluated} or later from the journal or "
                        "the evaluator, found that neither has any to come: the run was resumed at "
                        "a wrong row"
                    )
                pieces = self.evaluator.collect(self.writer.patience(_REPORT_SECONDS))
                for piece in pieces:
                    # checks the piece: wrong values must not get into the journal
                    self._awaited.receive(piece, new=True)
                    self._submitted -= len(piece)
                    if self.per_generation is not None:
                        self.writer.add(piece)
                self.writer.flush_where_due()
                if not pieces:
                    self._report_components(time.perf_counter() - since)
            batch, new = self._awaited.pop()
        else:
            batch, new = evaluated, evaluated
        pending = self.pending.popleft()
        if not len(batch):  # cut before any of its candidates was evaluated
            self._is_broken = True
            return
        # Law 3: a batch is in the journal before the algorithm learns from it
        if self.per_generation is None and new is not None:
            self.writer.write(new)
        elif evaluated is not None:  # unlike awaited pieces, it has not been written yet
            self.writer.add(evaluated)
            self.writer.flush_where_due()
        if len(batch) == pending.n_proposed and not self._is_broken:
            self.algorithm.tell(batch)
        else:  # after an incomplete batch the algorithm learns nothing more
            self._is_broken = True
        self.n_evaluated += len(batch)
        self.n_failed += len(batch.errors)
        self._last = [batch]
        self.archive.add(batch)
        if self._count_generation():
            progress = self.progress(replayed=new is None)
            for callback in self.callbacks:
                callback.on_batch(progress)

    def _is_cut(self) -> bool:
        """Return whether to give up pending candidates: time is over, and the run has a result."""
        if not self._out_of_time() or not self.replay.over:
            return False
        return self.n_evaluated > 0 or self._awaited.some_known

    def _report_components(self, seconds: float) -> None:
        """Report the components that the oldest batch waits for."""
        done, total = self.evaluator.components()
        what = f"gen {self.generation + 1} · {self.problem.component_name}"
        for callback in self.callbacks if total else ():
            callback.on_preparation(PreparationProgress(what, done, total, seconds))

    def _count_generation(self) -> bool:
        """Count the generation that a batch completes, if any; return whether to report it."""
        before = self.generation
        if self.per_generation is None:
            self.generation += 1
        else:
            self.generation = self.n_evaluated // self.per_generation - 1
        if self.generation > before and self.budget.patience is not None:
            self._unchanged = 0 if self.archive.has_changed() else self._unchanged + 1
        now = time.perf_counter()
        if self.generation == before and now - self._reported < _REPORT_SECONDS:
            return False
        self._reported = now
        return True

    # The budget ----------------------------------------------------------------------------------

    def seconds(self) -> float:
        """Return the seconds spent searching, over all sessions, but for compiling."""
        return self._earlier + COMPILING.clock() - self._started

    def stop_reason(self) -> str:
        """Return which part of the budget is spent, or why the algorithm is done; else empty."""
        budget = self.budget
        if self.n_evaluated >= _FAILURES_COUNT_FROM and self.n_failed > (
            budget.max_failed_share * self.n_evaluated
        ):
            return "failures"
        if budget.evaluations is not None and self.n_proposed >= budget.evaluations:
            return f"evaluations{self._cut}"
        batches = budget.generations if self.per_generation is None else None
        if self.n_proposed >= self._limit or (batches is not None and self.n_batches > batches):
            return "generations"
        if budget.seconds is not None and self.replay.over and self._out_of_time():
            return "seconds"
        if budget.patience is not None and self._unchanged >= budget.patience:
            return "patience"
        return self.algorithm.reason if self.algorithm.done else ""

    def _out_of_time(self) -> bool:
        """Return whether the budget of seconds is spent."""
        return self.budget.seconds is not None and self.seconds() >= self.budget.seconds

    def _evaluation_limit(self) -> float:
        """Return how many evaluations the budget allows; the first generation is number 0."""
        limits = [inf if self.budget.evaluations is None else self.budget.evaluations]
        if self.budget.generations is not None and self.per_generation is not None:
            limits.append((self.budget.generations + 1) * self.per_generation)
        return min(limits)

    def _share(self) -> float | None:
        """Return the share of the budget that is spent; None if only patience limits the run."""
        budget, shares = self.budget, []
        if budget.generations is not None:
            size = self.per_generation
            done = self.generation + 1 if size is None else self.n_evaluated / size
            shares.append(done / (budget.generations + 1))
        if budget.evaluations is not None:
            shares.append(self.n_evaluated / budget.evaluations)
        if budget.seconds is not None:
            shares.append(self.seconds() / budget.seconds)
        return min(1.0, max(shares)) if shares else None

    # The result ----------------------------------------------------------------------------------

    def front(self) -> Front:
        """Return the Pareto front of the evaluations that the algorithm has learned from."""
        names = self.problem.gene_names
        if self.archive.rows is None:
            return Front.of(self._last, self.algorithm.roles, names)
        return Front(self.archive.rows, self.algorithm.roles, names)

    def progress(self, *, replayed: bool = False, stopped: str = "") -> Progress:
        """Return the state of the run."""
        self._measure_front(always=bool(stopped))
        return Progress(
            self.generation,
            self.n_evaluated,
            self.n_failed,
            self._front_size,
            self._hypervolume,
            self.seconds(),
            self._share(),
            replayed,
            stopped,
        )

    def _measure_front(self, *, always: bool) -> None:
        """Measure the front for progress reports; where that is dear, only as often as is cheap."""
        now = time.perf_counter()
        objectives = len(self.algorithm.roles.objectives)
        dear = self.archive.known_size > _SMALL_FRONT or objectives > EXACT_UP_TO
        if dear and not always and self._measuring > _MEASURING_SHARE * (now - self._started):
            return
        self._front_size, self._hypervolume = len(self.archive), self.archive.hypervolume()
        self._measuring += time.perf_counter() - now
