"""The laws of problems; each takes a problem, a seed and a number of genomes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from framework.answering import AnsweringProblem
from framework.answers import Part, measured
from framework.arrays import Array, frozen
from framework.batch import Evaluated
from framework.problem import Problem
from framework.run.evaluator import evaluate_candidates
from framework.streams import CandidateStreams
from framework.testing.tools import expect, same_global_random_state, same_rows

P = TypeVar("P", bound=Problem)
ProblemLaw = Callable[[Problem, int, int], None]


def describes_itself(problem: Problem, seed: int, n: int) -> None:
    """A problem has a space, metrics with names and bounds, names of genes and a fingerprint."""
    names = problem.metric_names
    expect(names and len(set(names)) == len(names), f"metrics: expected names, found {names}")
    expect(
        not any(name.startswith("test_") or name == "id" for name in names),
        f"metrics: expected names other than 'id' and 'test_...', found {names}",
    )
    for metric in problem.metrics:
        expect(
            metric.low < metric.high,
            f"metric {metric.name}: expected low < high, found {metric}",
        )
    names = problem.gene_names
    expect(
        len(set(names)) == problem.space.d,
        f"gene_names: expected {problem.space.d} different names, found {names}",
    )
    expect(
        isinstance(problem.fingerprint, str) and problem.fingerprint,
        f"fingerprint: expected a text, found {problem.fingerprint!r}",
    )


def values_are_numbers_within_bounds(problem: Problem, seed: int, n: int) -> None:
    """Every declared metric is returned as numbers of shape (n,) between its bounds."""
    X = _genomes(problem, seed, n)
    values = problem.evaluate(X, CandidateStreams(seed, np.arange(n)))
    for metric in problem.metrics:
        expect(metric.name in values, f"evaluate: expected {metric.name!r}, found {list(values)}")
        column = np.asarray(values[metric.name])
        expect(
            column.shape == (n,),
            f"evaluate: expected {metric.name!r} with shape ({n},), found {column.shape}",
        )
        numbers = column[~np.isnan(column)]
        expect(
            ((numbers >= metric.low) & (numbers <= metric.high)).all(),
            f"evaluate: expected {metric.name} within [{metric.low}, {metric.high}], found "
            f"{numbers.min(initial=np.inf)} to {numbers.max(initial=-np.inf)}",
        )


def rows_do_not_depend_on_the_batch(problem: Problem, seed: int, n: int) -> None:
    """Law 2: chunks, order and repetition do not change any bit of a row."""
    whole = _scored(problem, seed, _genomes(problem, seed, n))
    order = np.random.default_rng(seed).permutation(n)
    for size in (1, 2, 7):
        chunks = [
            evaluate_candidates(problem, seed, whole.ids[part], whole.X[part])
            for part in np.array_split(order, -(-n // size))
        ]
        same_rows(whole, Evaluated.concat(chunks), f"law 2: chunks of {size}")
    same_rows(whole, _scored(problem, seed, whole.X), "law 1: evaluated again")


def draws_from_the_streams_alone(problem: Problem, seed: int, n: int) -> None:
    """Laws 1 and 6: another seed changes the values if and only if ``stochastic`` is true."""
    X = _genomes(problem, seed, n)
    with same_global_random_state("evaluate"):
        a, b = _scored(problem, seed, X), _scored(problem, seed + 1, X)
    equal = all(np.array_equal(a.values[name], b.values[name], equal_nan=True) for name in a.values)
    expect(
        equal != problem.stochastic,
        f"law 1: expected {'other' if problem.stochastic else 'the same'} values under another "
        f"seed (stochastic={problem.stochastic}), found the opposite",
    )


def takes_frozen_genomes(problem: Problem, seed: int, n: int) -> None:
    """Law 6: evaluation works with read-only input and does not change it."""
    X = _genomes(problem, seed, n)
    before = X.copy()
    problem.evaluate(X, CandidateStreams(seed, np.arange(n)))
    expect(np.array_equal(before, X), "law 6: evaluate: expected its input untouched")


def pickled_copy_scores_the_same(problem: Problem, seed: int, n: int) -> None:
    """Law 2: a pickled copy, such as one in a worker, gives the same values."""
    X = _genomes(problem, seed, n)
    copy = worker_copy(problem)
    same_rows(_scored(problem, seed, X), _scored(copy, seed, X), "law 2: a pickled copy")
    expect(
        copy.fingerprint == problem.fingerprint and copy.metrics == problem.metrics,
        "law 2: expected a pickled copy to have the same fingerprint and metrics, found others",
    )


def parts_may_come_in_any_order(problem: Problem, seed: int, n: int) -> None:
    """Law 2, for shared components: who builds them, and in which order, does not change a bit."""
    if not problem.has_components:
        return
    X = _genomes(problem, seed, n)
    whole = _scored(worker_copy(problem), seed, X)
    builder, scorer = worker_copy(problem), worker_copy(problem)
    keys = scorer.missing_components(X)
    expect(len(np.unique(keys, axis=0)) == len(keys), "missing_components: expected each key once")
    for part in np.array_split(np.arange(len(keys))[::-1], 3):
        if len(part):
            scorer.add_components(builder.build_components(keys[part]))
    expect(
        len(scorer.missing_components(X)) == 0,
        "missing_components: expected none once all were added, found some",
    )
    same_rows(whole, _scored(scorer, seed, X), "law 2: parts built elsewhere")
    held = scorer.n_components
    scorer.add_components(builder.build_components(keys[:1]))
    expect(scorer.n_components == held, "add_components: expected parts held before to be skipped")


def counted_once_outcomes_are_evaluate(problem: Problem, seed: int, n: int) -> None:
    """The metrics of outcomes with weights of one are those of ``evaluate``, to the bit."""
    X = _genomes(problem, seed, n)
    if len(missing := problem.missing_components(X)):
        problem.add_components(problem.build_components(missing))
    outcomes = problem.outcomes(X)
    if outcomes is None:
        return
    expect(tuple(outcomes.names) == problem.metric_names, "outcomes: expected the metrics' names")
    values = problem.evaluate(X, CandidateStreams(seed, np.arange(n)))
    values = {name: np.asarray(values[name]) for name in outcomes.names}
    ones = np.ones((outcomes.records, 2), dtype=np.float32)
    resampled = outcomes.metrics(ones)
    for column in range(2):
        _same(values, {name: of[:, column] for name, of in resampled.items()}, "weights of one")
    subset = np.array([n - 1, 0])
    for names in (outcomes.names, outcomes.names[-1:]):
        few = outcomes.metrics(ones[:, :1], subset, names)
        expected = {name: values[name][subset] for name in names}
        _same(expected, {name: of[:, 0] for name, of in few.items()}, "some candidates")


def evaluates_its_answers(problem: Problem, seed: int, n: int) -> None:
    """If candidates answer records, metrics are those computed from the answers, to the bit.

    This holds for blocks of any size. A whole weight of a record has the same effect as repeating
    the record, and the order of records has none.
    """
    if not isinstance(problem, AnsweringProblem):
        return
    X, rng = _genomes(problem, seed, n), np.random.default_rng(seed)
    if len(missing := problem.missing_components(X)):
        problem.add_components(problem.build_components(missing))
    streams = CandidateStreams(seed, np.arange(n))
    parts: tuple[Part, ...] = ("search", "test")
    for part in parts:
        if problem.records(part) is None:
            continue
        tested = problem.evaluate_test(X, streams)
        values = problem.evaluate(X, streams) if part == "search" else tested
        assert values is not None
        for size in (1, 7, n):
            blocks = [problem.slowly(X[i : i + size], part) for i in range(0, n, size)]
            slow = {k: np.concatenate([block[k] for block in blocks]) for k in blocks[0]}
            _same(slow, values, f"{part} records, in blocks of {size}")
    if problem.outcomes(X) is None:  # its metrics do not support weights of records
        return
    answers = problem.answers(X)
    records = len(answers.records)
    weights, order = rng.integers(0, 4, records), rng.permutation(records)
    following = [m for m in problem.measures if getattr(m, "follows_weights", True)]
    labels = answers.records.labels
    without = weights * (labels != labels[0])  # one class has no weight
    for counts in (weights, without) if without.any() else (weights,):
        weighted = measured(answers, following, counts[:, np.newaxis])
        repeated = answers.of_records(np.repeat(np.arange(records), counts))
        _same(measured(repeated, following), weighted, "records repeated by their weights")
    shuffled = measured(answers.of_records(order), problem.measures)
    _same(shuffled, measured(answers, problem.measures), "records in another order")


def _same(values: Mapping[str, Array], expected: Mapping[str, Array], what: str) -> None:
    expect(
        list(values) == list(expected), f"answers: expected {list(expected)}, got {list(values)}"
    )
    for name, column in expected.items():
        expect(
            np.array_equal(values[name], column, equal_nan=True),
            f"answers: {name}: expected what evaluate returns, found other values for {what}",
        )


PROBLEM_LAWS: tuple[ProblemLaw, ...] = (
    describes_itself,
    values_are_numbers_within_bounds,
    rows_do_not_depend_on_the_batch,
    draws_from_the_streams_alone,
    takes_frozen_genomes,
    pickled_copy_scores_the_same,
    parts_may_come_in_any_order,
    counted_once_outcomes_are_evaluate,
    evaluates_its_answers,
)


def _genomes(problem: Problem, seed: int, n: int) -> Array:
    X = frozen(problem.space.sample(np.random.default_rng(seed), n))
    expect(problem.space.contains(X).all(), "space: expected sample() to satisfy contains()")
    return X


def _scored(problem: Problem, seed: int, X: Array) -> Evaluated:
    return evaluate_candidates(problem, seed, np.arange(len(X)), X)


def worker_copy(problem: P) -> P:
    """Return what a worker of Ray has of a problem: a copy with read-only arrays."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(problem, protocol=5, buffer_callback=buffers.append)
    copy: P = pickle.loads(content, buffers=[bytes(buffer.raw()) for buffer in buffers])
    return copy
