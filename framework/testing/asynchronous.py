"""The laws of searches that go on while rows are out; each takes a case of one that looks ahead."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from framework.arrays import Array
from framework.batch import Evaluated
from framework.front import Front
from framework.run.evaluator import Evaluator, SerialEvaluator, evaluate_candidates, failed_rows
from framework.testing.case import AlgorithmCase
from framework.testing.doubles import CountingProblem, ShuffledEvaluator
from framework.testing.expect import expect, same_front, same_rows, shortened


def arrival_changes_nothing(case: AlgorithmCase) -> None:
    """Law 2: any pieces in any order of arrival give the same rows and the same front."""
    rows, front = _traced(case)
    for order in range(4):
        evaluator = ShuffledEvaluator(case.problem, case.seed, order)
        again, front_again = _traced(case, evaluator)
        same_rows(rows, again, f"law 2: order of arrival {order}")
        same_front(front, front_again, f"law 2: order of arrival {order}")


def rows_know_what_they_may(case: AlgorithmCase) -> None:
    """Law 2: what a row is made of are the rows that lie so far before it, and no others.

    All answers from some row on are exchanged for failures: what is asked for while that row may
    be out is the same.
    """
    algorithm = case.fresh()
    rows = _asked(case, None)
    for spoilt in (len(rows) // 3, len(rows) // 2):
        again = _asked(case, spoilt)
        blind = spoilt + algorithm.max_pending
        same = np.array_equal(rows[:blind], again[:blind])
        expect(
            same,
            f"max_pending: expected the rows up to {blind - 1} to know nothing of row {spoilt}, "
            "found that they do",
        )


def _asked(case: AlgorithmCase, spoilt: int | None) -> Array:
    """Return the genomes asked for where rows from ``spoilt`` on fail."""
    algorithm, out = case.fresh(), deque[tuple[int, Array]]()
    pieces: list[Array] = []
    n = 0
    while n < case.generations * (algorithm.evaluations_per_generation or 1):
        while (X := algorithm.ask()) is not None:
            out.append((n, X))
            pieces.append(X)
            n += len(X)
        if not out:
            break
        first, X = out.popleft()
        ids = np.arange(first, first + len(X))
        if spoilt is not None and first + len(X) > spoilt:
            algorithm.tell(failed_rows(case.problem, ids, X, "spoilt"))
        else:
            algorithm.tell(evaluate_candidates(case.problem, case.seed, ids, X))
    return np.concatenate(pieces)


def resumed_from_any_rows(case: AlgorithmCase) -> None:
    """Law 3: whatever rows a journal holds, in whatever order, the rest alone is evaluated."""
    rows, front = _traced(case)
    rng = np.random.default_rng(case.seed)
    for share in (0.1, 0.5, 0.9):
        where = f"law 3: resumed with {share:.0%} of the rows"
        known = np.flatnonzero(rng.random(len(rows)) < share)
        counting = CountingProblem(case.problem)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            with case.journal(path) as journal:
                for group in np.array_split(rng.permutation(known), 4):
                    if len(group):
                        journal.append(rows.take(np.sort(group)), 0.0)
            again = case.run(path, SerialEvaluator(counting, case.seed))
            same_rows(rows, Evaluated.concat(case.told(path)), where)
        same_front(front, again, where)
        found = sorted(counting.evaluated.elements())
        wanted = np.setdiff1d(rows.ids, rows.ids[known]).tolist()
        expect(
            found == wanted,
            f"{where}: expected every other row evaluated once, found {shortened(found)}",
        )


def asks_no_genome_twice(case: AlgorithmCase) -> None:
    """A genome that was asked for is not asked for again."""
    rows, _ = _traced(case)
    distinct = len(np.unique(rows.X, axis=0))
    expect(
        distinct == len(rows),
        f"max_pending: expected {len(rows)} different genomes, found {distinct}",
    )


def _traced(case: AlgorithmCase, evaluator: Evaluator | None = None) -> tuple[Evaluated, Front]:
    told, front = case.trace(evaluator)
    return Evaluated.concat(told), front


MAX_PENDING_LAWS: tuple[Callable[[AlgorithmCase], None], ...] = (
    arrival_changes_nothing,
    rows_know_what_they_may,
    resumed_from_any_rows,
    asks_no_genome_twice,
)
