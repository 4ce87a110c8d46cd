"""The laws of algorithms; each takes a case and raises AssertionError where it is broken."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.batch import Evaluated
from framework.errors import ContractError
from framework.front import Front
from framework.journal import Journal
from framework.run.evaluator import Evaluator, SerialEvaluator, evaluate_candidates
from framework.settings import Budget
from framework.testing.case import AlgorithmCase
from framework.testing.doubles import (
    BrokenProblem,
    CountingProblem,
    FailingProblem,
    FlippedProblem,
    InterruptedEvaluator,
    ShuffledEvaluator,
    UnpicklableProblem,
)
from framework.testing.expect import (
    expect,
    same_batches,
    same_front,
    same_global_random_state,
    same_rows,
    shortened,
)


def same_seed_same_run(case: AlgorithmCase) -> None:
    """Law 1: the same seed asks for the same genomes, to the bit; another seed for others."""
    told, front = case.usual
    again, front_again = case.trace()
    same_batches(told, again, "law 1: the same seed, the same run")
    same_front(front, front_again, "law 1: the same seed, the same run")
    other, _ = replace(case, seed=case.seed + 1).trace()
    differs = any(not np.array_equal(a.X, b.X) for a, b in zip(told, other, strict=False))
    expect(
        differs or len(told) != len(other) or case.deterministic,
        "law 1: expected another seed to ask for other genomes, found the same",
    )


def front_ignores_completion_order(case: AlgorithmCase) -> None:
    """Law 2: rows that come back in random chunks and order change nothing."""
    told, front = case.usual
    for order in range(3):
        evaluator = ShuffledEvaluator(case.problem, case.seed, order)
        again, front_again = case.trace(evaluator)
        same_batches(told, again, f"law 2: completion order {order}")
        same_front(front, front_again, f"law 2: completion order {order}")


def resumed_after_every_batch(case: AlgorithmCase) -> None:
    """Law 3: stopped after any of its batches and resumed, a run ends in the same front."""
    told, front = case.usual
    for kept in range(len(told) + 1):
        counting = CountingProblem(case.problem)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            with case.journal(path) as journal:
                for batch in told[:kept]:
                    journal.append(batch, 0.0)
            again = case.run(path, SerialEvaluator(counting, case.seed))
            same_batches(told, case.told(path), f"law 3: resumed after {kept} batches")
        same_front(front, again, f"law 3: resumed after {kept} batches")
        rows = range(sum(map(len, told[:kept])), sum(map(len, told)))
        _once_each(counting, rows, f"law 3: resumed after {kept} batches")


def resumed_after_interrupts(case: AlgorithmCase) -> None:
    """Law 3: the same, interrupted at random moments until it gets through."""
    told, front = case.usual
    for order in range(3):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            again = _run_with_interrupts(case, path, order)
            same_batches(told, case.told(path), f"law 3: interrupts {order}")
        same_front(front, again, f"law 3: interrupts {order}")


def resumed_with_more_budget(case: AlgorithmCase) -> None:
    """Law 3: the same, stopped amid a batch by its budget, which is then extended."""
    told, front = case.usual
    total = sum(map(len, told))
    counting = CountingProblem(case.problem)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        for rows in sorted({1, total // 3 + 1, total // 2, total - 1} - {0}):
            budget = Budget(evaluations=rows, max_failed_share=1.0)
            case.run(path, SerialEvaluator(counting, case.seed), budget)
        again = case.run(path, SerialEvaluator(counting, case.seed))
    same_front(front, again, "law 3: extended budget")
    _once_each(counting, range(total), "law 3: extended budget")


def failures_are_rows(case: AlgorithmCase) -> None:
    """Law 4: some rows fail, then all of them; the run goes on without them."""
    first = case.usual[0][0]
    genomes = list(dict.fromkeys(x.tobytes() for x in first.X))
    failing = FailingProblem(case.problem, raising=genomes[::3], nan=genomes[1::3])
    told, front = case.on(failing).trace()
    failed = {id for batch in told for id in batch.errors}
    expect(bool(failed), "law 4: expected failed rows, found none")
    for batch in told:
        values = np.column_stack([batch.values[name] for name in failing.metric_names])
        expect(
            np.array_equal(np.isnan(values).all(axis=1), ~batch.ok)
            and not np.isnan(values[batch.ok]).any(),
            "law 4: expected NaN in every metric of a failed row and nowhere else",
        )
    expect(
        failed.isdisjoint(front.ids.tolist()) and not np.isnan(front.losses).any(),
        "law 4: expected no failed row in the front, found one",
    )
    told, front = case.on(BrokenProblem(case.problem)).trace()
    expect(len(front) == 0, "law 4: expected an empty front where every row fails")
    _inside(case, told, "law 4: where every row fails")


def tell_refuses_before_it_changes(case: AlgorithmCase) -> None:
    """Law 5: an answer that is unknown, incomplete, reordered or repeated changes nothing."""
    algorithm = case.fresh()
    unasked = case.problem.space.sample(np.random.default_rng(case.seed), 3)
    _refuses(algorithm, _answer(case, 0, unasked), "a batch before any ask")
    for good in _session(algorithm, case):
        for what, bad in _bad_answers(case, good):
            _refuses(algorithm, bad, what)
        algorithm.tell(good)
        _refuses(algorithm, good, "a batch told before")


def inputs_are_frozen(case: AlgorithmCase) -> None:
    """Law 6: genomes asked for are read-only and stay as they are; so does what is told."""
    algorithm = case.fresh()
    for batch in _session(algorithm, case):
        expect(not batch.X.flags.writeable, "law 6: ask: expected a read-only array")
        before = _copied(batch)
        algorithm.tell(batch)
        same_rows(
            before,
            batch,
            "law 6: expected tell to leave the batch as it was, found it changed",
        )


def global_random_state_untouched(case: AlgorithmCase) -> None:
    """Law 6: a run draws nothing from the global generators of Python and numpy."""
    with same_global_random_state("the run"):
        case.run()


def pickles_without_problem(case: AlgorithmCase) -> None:
    """Law 6: a copy, pickled after every ask, goes on as the original does."""
    original = case.on(UnpicklableProblem(case.problem)).fresh()
    copy: Algorithm = pickle.loads(pickle.dumps(original))
    for batch in _session(original, case):
        X = copy.ask()
        expect(
            X is not None and np.array_equal(X, batch.X),
            "law 6: expected a pickled copy to ask what the original asks, found another batch",
        )
        copy = pickle.loads(pickle.dumps(copy))
        copy.tell(batch)
        original.tell(batch)


def flipped_signs_change_nothing(case: AlgorithmCase) -> None:
    """Law 7: a metric with its sign and its sense flipped leaves genomes and front as they are."""
    told, front = case.usual
    for metric in case.roles.names:
        flipped = FlippedProblem(case.problem, metric)
        other = replace(case, problem=flipped, roles=flipped.roles(case.roles))
        again, front_again = other.trace()
        where = f"law 7: {metric} flipped"
        expect(
            len(told) == len(again)
            and all(np.array_equal(a.X, b.X) for a, b in zip(told, again, strict=True)),
            f"{where}: expected the same genomes, found others",
        )
        expect(
            np.array_equal(front.ids, front_again.ids)
            and np.array_equal(front.losses, front_again.losses),
            f"{where}: expected the same front, found another",
        )
        expect(
            np.isclose(front.hypervolume(), front_again.hypervolume(), rtol=1e-12),
            f"{where}: expected the same hypervolume, found another",
        )


def journal_gives_the_front(case: AlgorithmCase) -> None:
    """Law 8: the front rebuilt from the journal is the front that the run returned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        front = case.run(path)
        with Journal(path) as journal:
            rebuilt = Front.from_journal(journal, case.roles, case.problem.gene_names)
    same_front(front, rebuilt, "law 8: the front of the journal")


def returned_rows_are_the_runs(case: AlgorithmCase) -> None:
    """What a method returns are feasible rows of its run, whoever evaluates and after a resume."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        found = _returned(case, path)
        with Journal(path) as journal:
            rows = Evaluated.concat([batch for batch, _ in journal.batches()])
        again = _returned(case, path)
    other = _returned(case, None, ShuffledEvaluator(case.problem, case.seed, 1))
    expect(found == again, "returned: expected the same rows after a resume, found others")
    expect(found == other, "returned: expected the same rows in any order, found others")
    if found is None:
        return
    feasible = rows.ids[rows.ok & (case.roles.violation(rows.values) == 0)].tolist()
    expect(
        len(set(found)) == len(found) and set(found) <= set(feasible),
        f"returned: expected different feasible rows of the run, found "
        f"{shortened(sorted(set(found) - set(feasible)) or found)}",
    )
    broken = _returned(case.on(BrokenProblem(case.problem)))
    expect(not broken, "returned: expected nothing where every row fails, found rows")


def asks_inside_the_space(case: AlgorithmCase) -> None:
    """Every genome asked for belongs to the problem's space, with its type."""
    _inside(case, case.usual[0], "ask")
    X = case.fresh().ask()
    dtype = case.problem.space.dtype
    expect(
        X is not None and X.dtype == dtype, f"ask: expected genomes of type {dtype}, found others"
    )


def _returned(
    case: AlgorithmCase, path: Path | None = None, evaluator: Evaluator | None = None
) -> list[int] | None:
    algorithm = case.fresh()
    case.run(path, evaluator, algorithm=algorithm)
    ids = algorithm.outcome().returned
    return None if ids is None else ids.tolist()


def _answer(case: AlgorithmCase, first: int, X: Array) -> Evaluated:
    return evaluate_candidates(case.problem, case.seed, np.arange(first, first + len(X)), X)


def _session(algorithm: Algorithm, case: AlgorithmCase) -> Iterator[Evaluated]:
    """Ask, batch by batch, and yield the answer, which the caller must tell."""
    first = 0
    for _ in range(case.generations + 1):
        X = algorithm.ask()
        if X is None:
            return
        yield _answer(case, first, X)
        first += len(X)


def _bad_answers(case: AlgorithmCase, good: Evaluated) -> Iterator[tuple[str, Evaluated]]:
    """Yield answers that must be refused, each with what is wrong with it."""
    n, metric = len(good), case.problem.metric_names[0]
    yield "unknown rows", replace(good, ids=good.ids + n)
    yield "a missing row", good.take(np.arange(n - 1))
    yield "no metric at all", replace(good, values={})
    yield (
        "a missing metric",
        replace(good, values={name: c for name, c in good.values.items() if name != metric}),
    )
    yield (
        "a metric of another shape",
        replace(good, values={**good.values, metric: np.append(good.values[metric], 0.0)}),
    )
    yield (
        "NaN in a row that did not fail",
        replace(good, values={**good.values, metric: np.full(n, np.nan)}, errors={}),
    )
    if n > 1:
        yield "reordered rows", good.take(np.arange(n)[::-1])
    others = case.problem.space.sample(np.random.default_rng(case.seed), 50)
    strange = others[(others != good.X[0]).any(axis=1)][:1]
    if len(strange):
        yield "another genome", replace(good, X=np.concatenate([strange, good.X[1:]]))


def _refuses(algorithm: Algorithm, bad: Evaluated, what: str) -> None:
    before = pickle.dumps(algorithm)
    try:
        algorithm.tell(bad)
    except ContractError:
        expect(
            pickle.dumps(algorithm) == before,
            f"law 5: tell, given {what}: expected an untouched state, found it changed",
        )
        return
    raise AssertionError(f"law 5: tell, given {what}: expected ContractError, found none")


def _run_with_interrupts(case: AlgorithmCase, path: Path, order: int) -> Front:
    """Interrupt and resume, each time a little later; no row of the journal is evaluated again."""
    for after in count():
        written = case.told(path) if path.exists() else []
        known = {id for batch in written for id in batch.ids.tolist()}
        counting = CountingProblem(case.problem)
        with suppress(KeyboardInterrupt):
            return case.run(path, InterruptedEvaluator(counting, case.seed, order, after))
        again = sorted(known & counting.evaluated.keys())
        expect(
            not again,
            f"law 3: expected no row of the journal evaluated again, found {shortened(again)}",
        )
    raise AssertionError  # count() does not end


def _copied(batch: Evaluated) -> Evaluated:
    values = {name: column.copy() for name, column in batch.values.items()}
    return Evaluated(batch.ids.copy(), batch.X.copy(), values, dict(batch.errors))


def _once_each(counting: CountingProblem, rows: range, where: str) -> None:
    found = sorted(counting.evaluated.elements())
    expect(
        found == list(rows),
        f"{where}: expected the rows {rows.start} to {rows.stop - 1} evaluated once each, found "
        f"{shortened(found)}",
    )


def _inside(case: AlgorithmCase, told: list[Evaluated], where: str) -> None:
    """Expect batches of genomes of the space, at least one each."""
    space = case.problem.space
    for i, batch in enumerate(told):
        expect(
            len(batch) > 0 and batch.X.shape[1] == space.d,
            f"{where}, batch {i}: expected shape (n >= 1, {space.d}), found {batch.X.shape}",
        )
        outside = np.flatnonzero(~space.contains(batch.X))
        expect(
            len(outside) == 0,
            f"{where}, batch {i}: expected genomes of {space}, found "
            f"{batch.X[outside[:1]].tolist()}",
        )


ALGORITHM_LAWS: tuple[Callable[[AlgorithmCase], None], ...] = (
    same_seed_same_run,
    front_ignores_completion_order,
    resumed_after_every_batch,
    resumed_after_interrupts,
    resumed_with_more_budget,
    failures_are_rows,
    tell_refuses_before_it_changes,
    inputs_are_frozen,
    global_random_state_untouched,
    pickles_without_problem,
    flipped_signs_change_nothing,
    journal_gives_the_front,
    returned_rows_are_the_runs,
    asks_inside_the_space,
)
