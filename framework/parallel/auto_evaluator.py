"""Choose between serial evaluation and Ray by measuring; the values are the same either way."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, WordArray
from framework.batch import Evaluated
from framework.errors import ClusterError
from framework.parallel.config import RAY_PAYS_SECONDS
from framework.parallel.tasks import DispatchCost
from framework.problem import Problem
from framework.run.evaluator import Evaluator, evaluate_candidates

_SLICE_SECONDS = 0.5  # of work in a slice
_GROWTH = 8  # times as many candidates at most in a slice as in the one before


def _clocks() -> FloatArray:
    """Return the time by the clock, and the processor time of all threads, in seconds."""
    return np.array([perf_counter(), process_time()])


def _cores(seconds: float, computed: float) -> float:
    """Return how many cores worked, at least 1, by the clock and by processor time."""
    return max(computed / seconds, 1.0) if seconds > 0.0 else 1.0


def _to_share(left: float, seconds: float, computed: float) -> float:
    """Return how many of the seconds of work left are worth sharing: all where one core works.

    Work in this process that took ``seconds`` by the clock and ``computed`` of the processor has
    taken several cores already where the latter is more. What it left idle is for Ray.
    """
    others = max((os.cpu_count() or 1) - 1, 1)
    return left * max(1.0 - (_cores(seconds, computed) - 1.0) / others, 0.0)


class AutoEvaluator(Evaluator):
    """Evaluates in this process until the remaining work is worth the start of Ray.

    Batches are evaluated in slices of half a second, so that expensive candidates are recognised
    within the first batch. The first slice, a single candidate, is not counted: it may compile.
    Where work takes several cores of this machine already, Ray has less to gain.

    Parameters
    ----------
    problem, seed
        As for every :class:`~framework.run.evaluator.Evaluator`.
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
        self._start_ray, self._remaining, self._report = start_ray, remaining, report
        self._queue: deque[tuple[IntArray, Array]] = deque()
        self._ray: Evaluator | None = None
        self._decided = False
        self._cost = DispatchCost()
        self._size = 1  # candidates in the next slice
        self._busy = np.zeros(2)  # clocks of evaluation, without the first slice
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
        built, start = 0, _clocks()
        for count in super().build(keys) if self._ray is None else ():
            yield count
            built += count
            spent = _clocks() - start
            if built and self._taken_over(spent[0] / built * (len(keys) - built), spent):
                break
        if self._ray is not None:
            yield from self._ray.build(keys[built:])

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        done, start = 0, _clocks()
        for answer in super().map(function, shared, pieces) if self._ray is None else ():
            spent = _clocks() - start
            yield answer
            done, start = done + 1, _clocks()
            # the first pieces may compile
            if done > 2 and self._taken_over(spent[0] * (len(pieces) - done), spent):
                break
        if self._ray is not None:
            yield from self._ray.map(function, shared, pieces[done:])

    def close(self) -> None:
        self._queue.clear()
        if self._ray is not None:
            self._ray.close()
        elif not self._decided:
            seconds, computed = self._busy
            cores = f"{_cores(seconds, computed):.1f} cores"
            self._decide(
                f"scored in this process: {seconds:.1f} s of work on {cores}, and Ray's start pays "
                f"from {RAY_PAYS_SECONDS:g} s on one"
            )

    def components(self) -> tuple[int, int]:
        return (0, 0) if self._ray is None else self._ray.components()

    def incidents(self) -> Mapping[str, int]:
        return {} if self._ray is None else self._ray.incidents()

    def predicted(self) -> float:
        """Return the estimated seconds of serial work left."""
        waiting = sum(len(ids) for ids, _ in self._queue) * (self._cost.per_item or 0.0)
        left, seconds = self._remaining(), float(self._busy[0])
        if left is None:
            return max(waiting, seconds)  # assume that half of the work is done
        share = min(max(left, 0.0), 1.0)
        return max(waiting, seconds * share / (1 - share) if share < 1 else 0.0)

    def _pays(self) -> bool:
        """Return whether Ray should take over."""
        return not self._decided and _to_share(self.predicted(), *self._busy) > RAY_PAYS_SECONDS

    def _score(self) -> Evaluated:
        """Evaluate the next slice of the oldest batch."""
        ids, X = self._queue.popleft()
        n = min(self._size, len(ids))
        if n < len(ids):
            self._queue.appendleft((ids[n:], X[n:]))
        start = _clocks()
        piece = evaluate_candidates(self.problem, self.seed, ids[:n], X[:n])
        if self._warm:
            self._measure(_clocks() - start, n)
        self._warm = True
        return piece

    def _measure(self, spent: FloatArray, rows: int) -> None:
        self._busy += spent
        self._cost.add(float(spent[0]), rows)
        affordable = int(_SLICE_SECONDS / max(self._cost.per_item or 0.0, 1e-9))
        self._size = max(1, min(affordable, self._size * _GROWTH))

    def _taken_over(self, seconds: float, spent: FloatArray) -> bool:
        """Let Ray take over if so many seconds of work justify it; return whether it has."""
        if not self._decided and _to_share(seconds, *spent) > RAY_PAYS_SECONDS:
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
