"""Choose between serial evaluation and Ray by measuring; the values are the same either way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from framework.arrays import Array, IntArray, WordArray
from framework.batch import Evaluated
from framework.errors import ClusterError
from framework.parallel.config import RAY_PAYS_SECONDS
from framework.parallel.tasks import DispatchCost
from framework.preparation import InProcess
from framework.problem import Problem
from framework.run.evaluator import Evaluator, evaluate_candidates

_SLICE_SECONDS = 0.5  # of work in a slice
_GROWTH = 8  # times as many candidates at most in a slice as in the one before


class AutoEvaluator(Evaluator):
    """Evaluates in this process until the remaining work is worth the start of Ray.

    Batches are evaluated in slices of half a second, so that expensive candidates are recognised
    within the first batch. The first slice, a single candidate, is not counted: it may compile.

    Parameters
    ----------
    problem : Problem
    seed : int
        Seed of the run, for the streams of stochastic problems.
    start_ray : callable
        Returns an evaluator on Ray; called at most once. Where it raises ``ClusterError``, the
        run stays in this process.
    remaining : callable
        Returns the share of the budget that is left, 0 to 1; None if it is unknown.
    report : callable
        Takes one sentence, once: where candidates are evaluated, and why.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        *,
        start_ray: Callable[[], Evaluator],
        remaining: Callable[[], float | None],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(problem, seed)
        self._here = InProcess(problem)
        self._start_ray, self._remaining, self._report = start_ray, remaining, report
        self._queue: deque[tuple[IntArray, Array]] = deque()
        self._ray: Evaluator | None = None
        self._decided = False
        self._cost = DispatchCost()
        self._size = 1  # candidates in the next slice
        self._busy = 0.0  # seconds of evaluation, without the first slice
        self._warm = False  # whether the first slice has been evaluated

    def score(self, ids: IntArray, X: Array) -> Evaluated | None:
        """Evaluate a batch at once if it fits into a slice and Ray need not take over."""
        if self._ray is not None or self._queue or len(ids) > self._size or self._pays():
            return None
        self._queue.append((ids, X))
        return self._score()

    def submit(self, ids: IntArray, X: Array) -> None:
        if self._ray is not None:
            self._ray.submit(ids, X)
        elif len(ids):
            self._queue.append((ids, X))

    def collect(self, timeout: float | None = None) -> list[Evaluated]:
        if self._ray is None and self._pays():
            self._switch(self.predicted())
        if self._ray is not None:
            return self._ray.collect(timeout)
        return [self._score()] if self._queue else []

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`framework.preparation.Workforce.build`; Ray takes over where it pays."""
        built, start = 0, perf_counter()
        for count in self._here.build(keys) if self._ray is None else ():
            yield count
            built += count
            spent = perf_counter() - start
            if built and self._taken_over(spent / built * (len(keys) - built)):
                break
        if self._ray is not None:
            yield from self._ray.build(keys[built:])

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`framework.preparation.Workforce.map`; Ray takes over where it pays."""
        done, start = 0, perf_counter()
        for answer in self._here.map(function, shared, pieces) if self._ray is None else ():
            seconds = perf_counter() - start
            yield answer
            done, start = done + 1, perf_counter()
            # the first pieces may compile
            if done > 2 and self._taken_over(seconds * (len(pieces) - done)):
                break
        if self._ray is not None:
            yield from self._ray.map(function, shared, pieces[done:])

    def close(self) -> None:
        self._queue.clear()
        if self._ray is not None:
            self._ray.close()
        elif not self._decided:
            self._decide(
                f"scored in this process: {self._busy:.1f} s of work, and Ray's start pays from "
                f"{RAY_PAYS_SECONDS:g} s"
            )

    def components(self) -> tuple[int, int]:
        """Return how many components that batches wait for Ray has built, and of how many."""
        return (0, 0) if self._ray is None else self._ray.components()

    def incidents(self) -> Mapping[str, int]:
        """Return the number of incidents on Ray by kind."""
        return {} if self._ray is None else self._ray.incidents()

    def predicted(self) -> float:
        """Return the estimated seconds of serial work left."""
        waiting = sum(len(ids) for ids, _ in self._queue) * (self._cost.per_item or 0.0)
        left = self._remaining()
        if left is None:
            return max(waiting, self._busy)  # assume that half of the work is done
        share = min(max(left, 0.0), 1.0)
        return max(waiting, self._busy * share / (1 - share) if share < 1 else 0.0)

    def _pays(self) -> bool:
        """Return whether Ray should take over."""
        return not self._decided and self.predicted() > RAY_PAYS_SECONDS

    def _score(self) -> Evaluated:
        """Evaluate the next slice of the oldest batch."""
        ids, X = self._queue.popleft()
        n = min(self._size, len(ids))
        if n < len(ids):
            self._queue.appendleft((ids[n:], X[n:]))
        start = perf_counter()
        piece = evaluate_candidates(self.problem, self.seed, ids[:n], X[:n])
        if self._warm:
            self._measure(perf_counter() - start, n)
        self._warm = True
        return piece

    def _measure(self, seconds: float, rows: int) -> None:
        self._busy += seconds
        self._cost.add(seconds, rows)
        affordable = int(_SLICE_SECONDS / max(self._cost.per_item or 0.0, 1e-9))
        self._size = max(1, min(affordable, self._size * _GROWTH))

    def _taken_over(self, seconds: float) -> bool:
        """Let Ray take over if so many seconds of work justify it; return whether it has."""
        if not self._decided and seconds > RAY_PAYS_SECONDS:
            self._switch(seconds)
        return self._ray is not None

    def _switch(self, seconds: float) -> None:
        """Start Ray and submit the queue to it, or report why Ray cannot be used."""
        why = f"about {seconds:.0f} s of work are left"
        try:
            self._ray = self._start_ray()
        except ClusterError as error:
            self._decide(f"scored in this process although {why}: {error}")
            return
        self._decide(f"scored on Ray from now on: {why}")
        while self._queue:
            self._ray.submit(*self._queue.popleft())

    def _decide(self, sentence: str) -> None:
        self._decided = True
        self._report(sentence)
