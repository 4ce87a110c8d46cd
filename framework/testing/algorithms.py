"""The laws of algorithms; each takes a case and raises AssertionError if it is broken."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
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
from framework.run.evaluator import Evaluator, SerialEvaluator, evaluate_candidates, failed_rows
from framework.settings import Budget
from framework.testing.tools import (
    AlgorithmCase,
    BrokenProblem,
    CountingProblem,
    FailingProblem,
    FlippedProblem,
    InterruptedEvaluator,
    ShuffledEvaluator,
    UnpicklableProblem,
    expect,
    journalled,
    new_journal,
    same_front,
    same_global_random_state,
    same_rows,
    same_run,
    shortened,
)

CERTIFICATES = "certificates"
"""Table of the outcome; columns ``metric``, ``bound``, ``at_most_NAME``, ``at_least_NAME``."""

_TOLERANCE = 1e-9
_ENUMERABLE = 5000  # genomes in a space, up to which all are evaluated


def same_seed_same_run(case: AlgorithmCase) -> None:
    """Law 1: the same seed proposes the same genomes, to the bit; another seed proposes others."""
    same_run(case.serial_run, case.trace(), "law 1: the same seed, the same run")
    batches, _ = case.serial_run
    other, _ = replace(case, seed=case.seed + 1).trace()
    differs = any(not np.array_equal(a.X, b.X) for a, b in zip(batches, other, strict=False))
    expect(
        differs or len(batches) != len(other) or case.deterministic,
        "law 1: expected another seed to ask for other genomes, found the same",
    )


def front_ignores_completion_order(case: AlgorithmCase) -> None:
    """Law 2: evaluations that return in random pieces and order change nothing."""
    for order in range(3):
        again = case.trace(ShuffledEvaluator(case.problem, case.seed, order))
        same_run(case.serial_run, again, f"law 2: completion order {order}")


def resumed_after_every_batch(case: AlgorithmCase) -> None:
    """Law 3: a run that is stopped after any of its batches and resumed ends in the same front."""
    batches, _ = case.serial_run
    for size in range(len(batches) + 1):
        rows = range(sum(map(len, batches[:size])), sum(map(len, batches)))
        _resumed(case, batches[:size], rows, f"law 3: resumed after {size} batches")


def resumed_after_interrupts(case: AlgorithmCase) -> None:
    """Law 3: so does a run that is interrupted at random moments, again and again."""
    for order in range(3):
        with new_journal() as path:
            front = _run_with_interrupts(case, path, order)
            same_run(case.serial_run, (case.batches(path), front), f"law 3: interrupts {order}")


def resumed_with_more_budget(case: AlgorithmCase) -> None:
    """Law 3: so does a run whose budget ends within a batch and is then extended."""
    batches, front = case.serial_run
    total = sum(map(len, batches))
    counting = CountingProblem(case.problem)
    with new_journal() as path:
        for rows in sorted({1, total // 3 + 1, total // 2, total - 1} - {0}):
            budget = Budget(evaluations=rows, max_failed_share=1.0)
            case.run(path, SerialEvaluator(counting, case.seed), budget)
        again = case.run(path, SerialEvaluator(counting, case.seed))
    same_front(front, again, "law 3: extended budget")
    _once_each(counting, range(total), "law 3: extended budget")


def failures_are_evaluations(case: AlgorithmCase) -> None:
    """Law 4: a run goes on if some of its evaluations fail, or all of them."""
    first = case.serial_run[0][0]
    genomes = list(dict.fromkeys(x.tobytes() for x in first.X))
    failing = FailingProblem(case.problem, raising=genomes[::3], nan=genomes[1::3])
    batches, front = case.on(failing).trace()
    failed = {id for batch in batches for id in batch.errors}
    expect(bool(failed), "law 4: expected failed rows, found none")
    for batch in batches:
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
    batches, front = case.on(BrokenProblem(case.problem)).trace()
    expect(len(front) == 0, "law 4: expected an empty front where every row fails")
    _inside(case, batches, "law 4: where every row fails")


def tell_refuses_before_it_changes(case: AlgorithmCase) -> None:
    """Law 5: ``tell`` refuses unknown, incomplete, reordered or repeated batches, unchanged."""
    algorithm = case.fresh()
    unasked = case.problem.space.sample(np.random.default_rng(case.seed), 3)
    _refuses(algorithm, _answer(case, 0, unasked), "a batch before any ask")
    for good in _session(algorithm, case):
        for what, bad in _bad_answers(case, good):
            _refuses(algorithm, bad, what)
        algorithm.tell(good)
        _refuses(algorithm, good, "a batch told before")


def inputs_are_frozen(case: AlgorithmCase) -> None:
    """Law 6: proposed genomes are read-only and do not change, nor do evaluated batches."""
    algorithm = case.fresh()
    for batch in _session(algorithm, case):
        expect(not batch.X.flags.writeable, "law 6: ask: expected a read-only array")
        before = deepcopy(batch)
        algorithm.tell(batch)
        same_rows(before, batch, "law 6: a batch after tell")


def global_random_state_untouched(case: AlgorithmCase) -> None:
    """Law 6: a run draws nothing from the global generators of Python and numpy."""
    with same_global_random_state("the run"):
        case.run()


def pickles_without_problem(case: AlgorithmCase) -> None:
    """Law 6: a copy, pickled after every ask, continues as the original does."""
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
    """Law 7: flipping a metric's sign and its sense does not change genomes and front."""
    batches, front = case.serial_run
    for metric in case.roles.names:
        flipped = FlippedProblem(case.problem, metric)
        other = replace(case, problem=flipped, roles=flipped.roles(case.roles))
        again, front_again = other.trace()
        where = f"law 7: {metric} flipped"
        expect(
            len(batches) == len(again)
            and all(np.array_equal(a.X, b.X) for a, b in zip(batches, again, strict=True)),
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
    with new_journal() as path:
        front = case.run(path)
        with Journal(path) as journal:
            rebuilt = Front.from_journal(journal, case.roles, case.problem.gene_names)
    same_front(front, rebuilt, "law 8: the front of the journal")


def returned_candidates_are_the_runs(case: AlgorithmCase) -> None:
    """A method returns feasible candidates of its run, the same after a resume."""
    with new_journal() as path:
        returned = _returned(case, path)
        rows = Evaluated.concat(journalled(path))
        again = _returned(case, path)
    other = _returned(case, None, ShuffledEvaluator(case.problem, case.seed, 1))
    expect(returned == again, "returned: expected the same rows after a resume, found others")
    expect(returned == other, "returned: expected the same rows in any order, found others")
    if returned is None:
        return
    feasible = rows.ids[rows.ok & (case.roles.violation(rows.values) == 0)].tolist()
    expect(
        len(set(returned)) == len(returned) and set(returned) <= set(feasible),
        f"returned: expected different feasible rows of the run, found "
        f"{shortened(sorted(set(returned) - set(feasible)) or returned)}",
    )
    broken = _returned(case.on(BrokenProblem(case.problem)))
    expect(not broken, "returned: expected nothing where every row fails, found rows")


def proposes_inside_the_space(case: AlgorithmCase) -> None:
    """Every proposed genome belongs to the problem's space; ``ask`` checks its type."""
    _inside(case, case.serial_run[0], "ask")


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
    """Ask for batches and yield each with its values, which the caller must tell."""
    first = 0
    for _ in range(case.generations + 1):
        X = algorithm.ask()
        if X is None:
            return
        yield _answer(case, first, X)
        first += len(X)


def _bad_answers(case: AlgorithmCase, good: Evaluated) -> Iterator[tuple[str, Evaluated]]:
    """Yield batches that must be refused, each with its fault."""
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
    for odd in (np.nan, np.inf):
        values = {**good.values, metric: np.full(n, odd)}
        yield f"{odd} in a row that did not fail", replace(good, values=values, errors={})
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
    """Interrupt, each time later, and resume; no candidate in the journal is evaluated again."""
    for after in count():
        written = case.batches(path) if path.exists() else []
        ids = {id for batch in written for id in batch.ids.tolist()}
        counting = CountingProblem(case.problem)
        with suppress(KeyboardInterrupt):
            return case.run(path, InterruptedEvaluator(counting, case.seed, order, after))
        again = sorted(ids & counting.evaluated.keys())
        expect(
            not again,
            f"law 3: expected no row of the journal evaluated again, found {shortened(again)}",
        )
    raise AssertionError  # count() does not end


def _resumed(
    case: AlgorithmCase, written: Iterable[Evaluated], rows: Iterable[int], where: str
) -> None:
    """Resume a run whose journal has some evaluations; only the other ``rows`` are evaluated."""
    counting = CountingProblem(case.problem)
    with new_journal() as path:
        with case.journal(path) as journal:
            for batch in written:
                journal.append(batch, 0.0)
        front = case.run(path, SerialEvaluator(counting, case.seed))
        same_run(case.serial_run, (case.batches(path), front), where)
    _once_each(counting, rows, where)


def _once_each(counting: CountingProblem, rows: Iterable[int], where: str) -> None:
    evaluated, wanted = sorted(counting.evaluated.elements()), list(rows)
    expect(
        evaluated == wanted,
        f"{where}: expected the rows {shortened(wanted)} evaluated once each, found "
        f"{shortened(evaluated)}",
    )


def _inside(case: AlgorithmCase, batches: list[Evaluated], where: str) -> None:
    """Expect batches of at least one genome each, all within the space."""
    space = case.problem.space
    for i, batch in enumerate(batches):
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
    proposes_inside_the_space,
    same_seed_same_run,
    front_ignores_completion_order,
    resumed_after_every_batch,
    resumed_after_interrupts,
    resumed_with_more_budget,
    failures_are_evaluations,
    tell_refuses_before_it_changes,
    inputs_are_frozen,
    global_random_state_untouched,
    pickles_without_problem,
    flipped_signs_change_nothing,
    journal_gives_the_front,
    returned_candidates_are_the_runs,
)


def candidates_depend_on_earlier_ones(case: AlgorithmCase) -> None:
    """Law 2: a candidate depends only on evaluations at least ``max_pending`` before it.

    All evaluations from some candidate on are replaced by failures. Candidates that may be proposed
    while that one is pending must stay the same.
    """
    algorithm = case.fresh()
    rows = _proposed(case, None)
    for spoilt in (len(rows) // 3, len(rows) // 2):
        again = _proposed(case, spoilt)
        blind = spoilt + algorithm.max_pending
        same = np.array_equal(rows[:blind], again[:blind])
        expect(
            same,
            f"max_pending: expected the rows up to {blind - 1} to know nothing of row {spoilt}, "
            "found that they do",
        )


def _proposed(case: AlgorithmCase, spoilt: int | None) -> Array:
    """Return the proposed genomes if all candidates from ``spoilt`` on fail."""
    algorithm, pending = case.fresh(), deque[tuple[int, Array]]()
    pieces: list[Array] = []
    n = 0
    while n < case.generations * (algorithm.evaluations_per_generation or 1):
        while (X := algorithm.ask()) is not None:
            pending.append((n, X))
            pieces.append(X)
            n += len(X)
        if not pending:
            break
        first, X = pending.popleft()
        ids = np.arange(first, first + len(X))
        if spoilt is not None and first + len(X) > spoilt:
            algorithm.tell(failed_rows(case.problem, ids, X, "spoilt"))
        else:
            algorithm.tell(evaluate_candidates(case.problem, case.seed, ids, X))
    return np.concatenate(pieces)


def resumed_from_any_evaluations(case: AlgorithmCase) -> None:
    """Law 3: if a journal contains any candidates in any order, only the others are evaluated."""
    rows = _traced(case)
    rng = np.random.default_rng(case.seed)
    for share in (0.1, 0.5, 0.9):
        written = np.flatnonzero(rng.random(len(rows)) < share)
        chunks = filter(len, np.array_split(rng.permutation(written), 4))
        others = np.setdiff1d(rows.ids, rows.ids[written]).tolist()
        where = f"law 3: resumed with {share:.0%} of the rows"
        _resumed(case, (rows.take(np.sort(chunk)) for chunk in chunks), others, where)


def proposes_no_genome_twice(case: AlgorithmCase) -> None:
    """No genome is proposed twice."""
    rows = _traced(case)
    distinct = len(np.unique(rows.X, axis=0))
    expect(
        distinct == len(rows),
        f"max_pending: expected {len(rows)} different genomes, found {distinct}",
    )


def _traced(case: AlgorithmCase) -> Evaluated:
    return Evaluated.concat(case.serial_run[0])


MAX_PENDING_LAWS: tuple[Callable[[AlgorithmCase], None], ...] = (
    front_ignores_completion_order,
    candidates_depend_on_earlier_ones,
    resumed_from_any_evaluations,
    proposes_no_genome_twice,
)


def certificates_hold(case: AlgorithmCase, genomes: int = 2000) -> Mapping[str, Array]:
    """Law 9: check each certificate of a finished run against evaluated candidates.

    A certificate states that no candidate that meets its conditions has its metric above its
    bound. It is checked against all genomes of a small space or else a random sample, and against
    the candidates of the run.

    Parameters
    ----------
    case : AlgorithmCase
        A case with an algorithm that returns certificates.
    genomes : int
        Size of the sample.

    Returns
    -------
    mapping of str to numpy.ndarray
        The certificates.

    Raises
    ------
    AssertionError
        There is no certificate, or a candidate is better than one allows.
    """
    algorithm = case.fresh()
    batches: list[Evaluated] = []
    for batch in _session(algorithm, case):
        batches.append(batch)
        algorithm.tell(batch)
    table = algorithm.outcome().tables.get(CERTIFICATES, {})
    expect(bool(table), "certificates: expected some, found none")
    rows = Evaluated.concat([*batches, _sampled(case, genomes, sum(map(len, batches)))])
    for i, (metric, bound) in enumerate(zip(table["metric"], table["bound"], strict=True)):
        if metric not in rows.values:
            continue
        meets = rows.ok & _meets(table, i, rows)
        best = rows.values[metric][meets].max(initial=-np.inf)
        expect(
            best <= bound + _TOLERANCE,
            f"certificates: expected no candidate with {metric} above {bound}, found {best}",
        )
    return table


def _sampled(case: AlgorithmCase, genomes: int, first: int) -> Evaluated:
    space = case.problem.space
    if space.size is not None and space.size <= _ENUMERABLE and space.dtype.kind == "i":
        shape = tuple((space.upper - space.lower + 1).tolist())
        every = np.indices(shape).reshape(space.d, -1).T + space.lower
        X = every[space.contains(every)].astype(space.dtype)
    else:
        X = space.sample(np.random.default_rng(case.seed), genomes)
    return evaluate_candidates(case.problem, case.seed, np.arange(len(X)) + first, X)


def _meets(table: Mapping[str, Array], i: int, rows: Evaluated) -> Array:
    """Return which candidates meet the conditions of certificate ``i``."""
    meets = np.ones(len(rows), dtype=bool)
    for name, column in table.items():
        for prefix, sign in (("at_most_", 1.0), ("at_least_", -1.0)):
            if name.startswith(prefix) and not np.isnan(column[i]):
                value = rows.values[name.removeprefix(prefix)]
                meets &= sign * value <= sign * column[i] + _TOLERANCE
    return meets
