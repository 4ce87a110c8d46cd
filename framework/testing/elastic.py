"""The law of elastic evaluators: workers that come and go change nothing but the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from framework.batch import Evaluated
from framework.problem import Problem
from framework.run.evaluator import Evaluator, evaluate_candidates
from framework.testing.evaluators import PATIENCE, SEED, MakeEvaluator, genomes
from framework.testing.expect import expect, same_rows


def check_elastic(
    make: MakeEvaluator,
    problem: Problem,
    events: Sequence[Callable[[Evaluator], object]],
    *,
    rows: int = 120,
) -> None:
    """Check law 2 where workers come and go: each row comes back once, with the right values.

    Parameters
    ----------
    make : callable
        ``make(problem, seed)`` returns a fresh evaluator.
    problem : Problem
        Slow enough that rows are under way at each event.
    events : sequence of callable
        What befalls the workers: each is called with the evaluator, in order, spread over the
        rows. It adds a node or a worker, kills one, stops one, fills its disk.
    rows : int
        In two batches that are in flight together.

    Raises
    ------
    AssertionError
        The law is broken, or no row came for two minutes.
    """
    X = genomes(problem, rows)
    expected = evaluate_candidates(problem, SEED, np.arange(rows), X)
    evaluator = make(problem, SEED)
    try:
        for ids in np.array_split(np.arange(rows), 2):
            evaluator.submit(ids, X[ids])
        pieces: list[Evaluated] = []
        left, since = list(events), time.monotonic()
        while (known := sum(map(len, pieces))) < rows:
            if left and known >= rows * (len(events) - len(left)) // (len(events) + 1):
                left.pop(0)(evaluator)
            fresh = evaluator.collect(0.5)
            pieces += fresh
            since = time.monotonic() if fresh else since
            waited = time.monotonic() - since
            expect(waited < PATIENCE, f"collect: expected {rows} rows, found {known}")
        batch = Evaluated.concat(pieces)
        found = sorted(batch.ids.tolist())
        expect(found == list(range(rows)), f"law 2: expected each row once, found {found}")
        same_rows(expected, batch, "law 2: whichever workers come and go")
        expect(not evaluator.collect(0.01), "collect: expected nothing left, found another piece")
    finally:
        evaluator.close()
