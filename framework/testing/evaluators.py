"""The laws of evaluators; each takes ``make(problem, seed)`` and a problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from framework.arrays import Array, frozen
from framework.batch import Evaluated
from framework.preparation import InProcess
from framework.problem import Problem
from framework.run.evaluator import Evaluator, evaluate_candidates
from framework.testing.tools import BrokenProblem, FailingProblem, expect, same_rows

MakeEvaluator = Callable[[Problem, int], Evaluator]
EvaluatorLaw = Callable[[MakeEvaluator, Problem], None]

SEED = 7
PATIENCE = 120.0  # seconds without a result before an evaluator counts as stuck


def returns_each_row_once(make: MakeEvaluator, problem: Problem) -> None:
    """Each candidate of several pending batches returns once, with the right values."""
    with closing(make(problem, SEED)) as evaluator:
        X = genomes(problem, 61)
        expected = evaluate_candidates(problem, SEED, np.arange(61), X)
        for ids in np.array_split(np.arange(61), [1, 8, 40]):
            evaluator.submit(ids, X[ids])
        same_rows(expected, _collected(evaluator, 61), "law 2: as evaluated serially")


def serves_batch_after_batch(make: MakeEvaluator, problem: Problem) -> None:
    """An evaluator returns an empty list when its queue is empty, and continues afterwards."""
    with closing(make(problem, SEED)) as evaluator:
        X = genomes(problem, 12)
        for first in (0, 4, 8):
            ids = np.arange(first, first + 4)
            evaluator.submit(ids, X[ids])
            expected = evaluate_candidates(problem, SEED, ids, X[ids])
            same_rows(expected, _collected(evaluator, 4), "law 2: as evaluated serially")
            expect(
                not evaluator.collect(0.01), "collect: expected nothing left, found another piece"
            )


def failures_are_returned(make: MakeEvaluator, problem: Problem) -> None:
    """Law 4: genomes that raise, or score NaN, do not make other evaluations fail."""
    X = genomes(problem, 20)
    keys = [x.tobytes() for x in X]
    failing = FailingProblem(problem, raising=keys[::5], nan=keys[1::5])
    expected = evaluate_candidates(failing, SEED, np.arange(20), X)
    with closing(make(failing, SEED)) as evaluator:
        evaluator.submit(np.arange(20), X)
        same_rows(expected, _collected(evaluator, 20), "law 4: rows that fail")


def survives_total_failure(make: MakeEvaluator, problem: Problem) -> None:
    """Law 4: if every evaluation fails, each returns with its error."""
    with closing(make(BrokenProblem(problem), SEED)) as evaluator:
        evaluator.submit(np.arange(9), genomes(problem, 9))
        batch = _collected(evaluator, 9)
        expect(
            sorted(batch.errors) == list(range(9)),
            f"law 4: expected an error for each of 9 rows, found {dict(batch.errors)}",
        )


def closes_with_pending_evaluations(make: MakeEvaluator, problem: Problem) -> None:
    """An evaluator can be closed, even twice, while evaluations are pending."""
    evaluator = make(problem, SEED)
    evaluator.submit(np.arange(30), genomes(problem, 30))
    evaluator.close()
    evaluator.close()


def works_as_this_process_does(make: MakeEvaluator, problem: Problem) -> None:
    """Law 2: ``map`` yields the same results as in this process, in order."""
    with closing(make(problem, SEED)) as evaluator:
        pieces = list(range(40))
        results = list(evaluator.map(pow, 3, pieces))
        expected = list(InProcess().map(pow, 3, pieces))
        expect(results == expected, f"map: expected {expected}, found {results}")


EVALUATOR_LAWS: tuple[EvaluatorLaw, ...] = (
    returns_each_row_once,
    serves_batch_after_batch,
    failures_are_returned,
    survives_total_failure,
    closes_with_pending_evaluations,
    works_as_this_process_does,
)


def genomes(problem: Problem, n: int) -> Array:
    """Return random genomes to evaluate."""
    return frozen(problem.space.sample(np.random.default_rng(SEED), n))


def _collected(
    evaluator: Evaluator, n: int, events: Sequence[Callable[[Evaluator], object]] = ()
) -> Evaluated:
    """Wait for ``n`` evaluations; return them in the order of their ids.

    Events are called with the evaluator, in order and spread over the evaluations.
    """
    pieces: list[Evaluated] = []
    left, since = list(events), time.monotonic()
    while (collected := sum(map(len, pieces))) < n:
        if left and collected >= n * (len(events) - len(left)) // (len(events) + 1):
            left.pop(0)(evaluator)
        fresh = evaluator.collect(0.5)
        pieces += fresh
        since = time.monotonic() if fresh else since
        expect(
            time.monotonic() - since < PATIENCE,
            f"collect: expected {n} rows, found {collected}, and none for {PATIENCE:g} s",
        )
    batch = Evaluated.concat(pieces)
    expect(len(np.unique(batch.ids)) == n, f"collect: expected each row once, found {batch.ids}")
    return batch


def check_elastic(
    make: MakeEvaluator,
    problem: Problem,
    events: Sequence[Callable[[Evaluator], object]],
    *,
    rows: int = 120,
) -> None:
    """Law 2: while workers come and go, each candidate returns once, with the right values.

    Parameters
    ----------
    make : callable
        ``make(problem, seed)`` returns a fresh evaluator.
    problem : Problem
        A problem slow enough that evaluations are pending at each event.
    events : sequence of callable
        Functions that are called with the evaluator, in order and spread over the run. Each changes
        something for the workers: it adds a node or a worker, kills or stops one, or fills its
        disk.
    rows : int
        Number of candidates, in two batches that are pending together.

    Raises
    ------
    AssertionError
        The law is broken, or no result arrived for two minutes.
    """
    X = genomes(problem, rows)
    expected = evaluate_candidates(problem, SEED, np.arange(rows), X)
    with closing(make(problem, SEED)) as evaluator:
        for ids in np.array_split(np.arange(rows), 2):
            evaluator.submit(ids, X[ids])
        batch = _collected(evaluator, rows, events)
        same_rows(expected, batch, "law 2: whichever workers come and go")
        expect(not evaluator.collect(0.01), "collect: expected nothing left, found another piece")
