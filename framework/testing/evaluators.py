"""The laws of evaluators; each takes ``make(problem, seed)`` and a problem."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from framework.arrays import Array, frozen
from framework.batch import Evaluated
from framework.preparation import InProcess
from framework.problem import Problem
from framework.run.evaluator import Evaluator, evaluate_candidates
from framework.testing.doubles import BrokenProblem, FailingProblem
from framework.testing.expect import expect, same_rows

MakeEvaluator = Callable[[Problem, int], Evaluator]
EvaluatorLaw = Callable[[MakeEvaluator, Problem], None]

SEED = 7
PATIENCE = 120.0  # seconds without a row before an evaluator counts as stuck


def returns_each_row_once(make: MakeEvaluator, problem: Problem) -> None:
    """Rows of several batches in flight come back, each once, with the right values."""
    evaluator = make(problem, SEED)
    try:
        X = genomes(problem, 61)
        expected = evaluate_candidates(problem, SEED, np.arange(61), X)
        for ids in np.array_split(np.arange(61), [1, 8, 40]):
            evaluator.submit(ids, X[ids])
        same_rows(expected, _collected(evaluator, 61), "law 2: as evaluated serially")
    finally:
        evaluator.close()


def serves_batch_after_batch(make: MakeEvaluator, problem: Problem) -> None:
    """It goes on after its queue ran dry, and says so with an empty list."""
    evaluator = make(problem, SEED)
    try:
        X = genomes(problem, 12)
        for first in (0, 4, 8):
            ids = np.arange(first, first + 4)
            evaluator.submit(ids, X[ids])
            expected = evaluate_candidates(problem, SEED, ids, X[ids])
            same_rows(expected, _collected(evaluator, 4), "law 2: as evaluated serially")
            expect(
                not evaluator.collect(0.01), "collect: expected nothing left, found another piece"
            )
    finally:
        evaluator.close()


def failures_come_back_as_rows(make: MakeEvaluator, problem: Problem) -> None:
    """Law 4: genomes that raise, or score NaN, take no other row with them."""
    X = genomes(problem, 20)
    keys = [x.tobytes() for x in X]
    failing = FailingProblem(problem, raising=keys[::5], nan=keys[1::5])
    expected = evaluate_candidates(failing, SEED, np.arange(20), X)
    evaluator = make(failing, SEED)
    try:
        evaluator.submit(np.arange(20), X)
        same_rows(expected, _collected(evaluator, 20), "law 4: rows that fail")
    finally:
        evaluator.close()


def survives_total_failure(make: MakeEvaluator, problem: Problem) -> None:
    """Law 4: where every row fails, every row comes back with its error."""
    evaluator = make(BrokenProblem(problem), SEED)
    try:
        evaluator.submit(np.arange(9), genomes(problem, 9))
        batch = _collected(evaluator, 9)
        expect(
            sorted(batch.errors) == list(range(9)),
            f"law 4: expected an error for each of 9 rows, found {dict(batch.errors)}",
        )
    finally:
        evaluator.close()


def closes_with_rows_in_flight(make: MakeEvaluator, problem: Problem) -> None:
    """Closing forgets rows that were not collected, and may be repeated."""
    evaluator = make(problem, SEED)
    evaluator.submit(np.arange(30), genomes(problem, 30))
    evaluator.close()
    evaluator.close()


def works_as_this_process_does(make: MakeEvaluator, problem: Problem) -> None:
    """Law 2: pieces of a search come back in order, with the same results."""
    evaluator = make(problem, SEED)
    try:
        pieces = list(range(40))
        found = list(evaluator.map(pow, 3, pieces))
        expected = list(InProcess().map(pow, 3, pieces))
        expect(found == expected, f"map: expected {expected}, found {found}")
    finally:
        evaluator.close()


EVALUATOR_LAWS: tuple[EvaluatorLaw, ...] = (
    returns_each_row_once,
    serves_batch_after_batch,
    failures_come_back_as_rows,
    survives_total_failure,
    closes_with_rows_in_flight,
    works_as_this_process_does,
)


def genomes(problem: Problem, n: int) -> Array:
    """Return genomes to score, distinct where the space allows."""
    return frozen(problem.space.sample(np.random.default_rng(SEED), n))


def _collected(evaluator: Evaluator, n: int) -> Evaluated:
    """Wait for ``n`` rows and return them in the order of their ids."""
    pieces: list[Evaluated] = []
    waited_since = time.monotonic()
    while sum(map(len, pieces)) < n:
        fresh = evaluator.collect(1.0)
        pieces += fresh
        if fresh:
            waited_since = time.monotonic()
        expect(
            time.monotonic() - waited_since < PATIENCE,
            f"collect: expected {n} rows, found {sum(map(len, pieces))} in {PATIENCE:g} s",
        )
    batch = Evaluated.concat(pieces)
    expect(len(np.unique(batch.ids)) == n, f"collect: expected each row once, found {batch.ids}")
    return batch
