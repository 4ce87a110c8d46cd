"""The named rules against loops over single records with Python's own numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.pruning.papers import baselines as kernels
from algorithms.pruning.papers.baselines import (
    Backfitting,
    FullEnsemble,
    HillClimbing,
    KappaPruning,
)
from algorithms.pruning.votes import VoteTable
from framework.errors import InputError
from tests.conftest import pruning, roles_of
from tests.pruning.test_solver import pool

MEASURES = ["accuracy", "complementariness", "concurrency", "uwa", "kappa"]


def majority(votes, members):
    return [2 * sum(votes[k][r] for k in members) > len(members) for r in range(len(votes[0]))]


def accuracy(votes, y, members):
    return sum(c == t for c, t in zip(majority(votes, members), y, strict=True))


def kappa(a, b):
    n = len(a)
    observed = Fraction(sum(x == y for x, y in zip(a, b, strict=True)), n)
    chance = Fraction(sum(a) * sum(b) + (n - sum(a)) * (n - sum(b)), n * n)
    if chance == 1:
        return Fraction(0)
    return (observed - chance) / (1 - chance)


def slow_fitness(measure, votes, y, members, k):
    """Return the fitness of adding ``k``, record by record."""
    if measure == "accuracy":
        return Fraction(accuracy(votes, y, [*members, k]))
    if measure == "kappa":
        return kappa(majority(votes, [*members, k]), list(y))
    total = Fraction(0)
    for r, (called, truth) in enumerate(zip(majority(votes, members), y, strict=True)):
        h, e = votes[k][r] == truth, called == truth
        share = Fraction(sum(votes[m][r] == truth for m in members), len(members))
        if measure == "complementariness":
            total += h and not e
        elif measure == "concurrency":
            total += 2 * (h and not e) + (h and e) - 2 * (not h and not e)
        elif h:
            total += (1 - share) if e else share
        else:
            total -= (1 - share) if e else share
    return total


def slow_forward(measure, votes, y):
    k = len(votes)
    members = [max(range(k), key=lambda i: (accuracy(votes, y, [i]), -i))]
    while len(members) < k:
        left = [i for i in range(k) if i not in members]
        members.append(max(left, key=lambda i: (slow_fitness(measure, votes, y, members, i), -i)))
    return members


def slow_backfitting(votes, y, most):
    k, members, found = len(votes), [], []
    for _ in range(most):
        left = [i for i in range(k) if i not in members]
        members.append(max(left, key=lambda i: (accuracy(votes, y, [*members, i]), -i)))
        again = True
        while again:
            again = False
            for i in sorted(members):
                others = [m for m in members if m != i]
                for j in (j for j in range(k) if j not in members):
                    if accuracy(votes, y, [*others, j]) > accuracy(votes, y, members):
                        members, again = [*others, j], True
                        break
                if again:
                    break
        found.append(sorted(members))
    return found


def tables(votes, y):
    table = VoteTable.of(votes, y)
    return np.ascontiguousarray(table.unpacked.T, dtype=np.uint8), table.records


@settings(max_examples=25)
@given(st.integers(2, 7), st.integers(4, 25), st.integers(0, 9999), st.sampled_from(MEASURES))
def test_forward_selection_is_that_record_by_record(k, n, seed, measure):
    votes, y = pool(k, n, seed)
    order, right, _ = kernels.forward(
        getattr(kernels, {"uwa": "UNCERTAINTY"}.get(measure, measure.upper())), *tables(votes, y)
    )
    expected = slow_forward(measure, votes, y)
    assert order.tolist() == expected
    assert right.tolist() == [accuracy(votes, y, expected[: i + 1]) for i in range(k)]


@settings(max_examples=20)
@given(st.integers(2, 7), st.integers(4, 25), st.integers(0, 9999))
def test_backfitting_is_that_record_by_record(k, n, seed):
    votes, y = pool(k, n, seed)
    columns, records = tables(votes, y)
    members, right = kernels.backfitting(columns, records, k)
    expected = slow_backfitting(votes, y, k)
    assert [np.flatnonzero(row).tolist() for row in members] == expected
    assert right.tolist() == [accuracy(votes, y, e) for e in expected]


def test_pairs_are_taken_in_the_order_of_their_kappa():
    problem = pruning(7)
    rule = KappaPruning(problem, roles_of(problem), seed=0, sizes=(0.3, 0.6))
    votes = (problem.library.validation > 0.5).tolist()
    pairs = sorted((kappa(votes[i], votes[j]), i, j) for i in range(7) for j in range(i + 1, 7))
    order = list(dict.fromkeys(k for _, i, j in pairs for k in (i, j)))
    y = (problem.library.y_validation == 1).tolist()
    sizes = range(3, 5)
    best = max(sizes, key=lambda m: (accuracy(votes, y, order[:m]), -m))
    assert sorted(order[:best]) == np.flatnonzero(rule.members()).tolist()


def test_constant_classifiers_have_a_kappa_too():
    problem = pruning(4)
    rule = KappaPruning(problem, roles_of(problem), seed=0)
    rule._columns = np.zeros_like(rule._columns)
    assert rule.members().sum() >= 1


@pytest.mark.parametrize("fitness", MEASURES)
def test_the_shortest_most_accurate_prefix_is_kept(fitness):
    problem = pruning(8)
    search = HillClimbing(problem, roles_of(problem), seed=0, fitness=fitness)
    order = slow_forward(
        fitness, problem.library.validation > 0.5, problem.library.y_validation == 1
    )
    X = [np.isin(np.arange(8), order[:m]) for m in range(1, 9)]
    genomes = np.array([problem.genome(x, x.sum() // 2) for x in X])
    values = problem.evaluate(genomes)["accuracy"]
    assert np.array_equal(search.ask()[0], genomes[np.argmax(values)])


@pytest.mark.parametrize("fitness", MEASURES[1:])
def test_the_prefix_of_the_best_fitness_can_be_asked_for(fitness):
    problem = pruning(8)
    search = HillClimbing(problem, roles_of(problem), seed=0, fitness=fitness, prefix="fitness")
    votes, y = problem.library.validation > 0.5, problem.library.y_validation == 1
    order = slow_forward(fitness, votes, y)
    worths = [slow_fitness(fitness, votes, y, order[:m], order[m]) for m in range(1, 8)]
    size = 2 + worths.index(max(worths))
    assert sorted(order[:size]) == np.flatnonzero(search.members()).tolist()


def test_the_full_ensemble_is_everyone():
    problem = pruning(8)
    X = FullEnsemble(problem, roles_of(problem), seed=0).ask()
    assert X.tolist() == [[1] * 8 + [4]]


@pytest.mark.parametrize("cls", [FullEnsemble, Backfitting, KappaPruning, HillClimbing])
@pytest.mark.parametrize(
    ("threshold", "metric"), [("best", "accuracy"), ("best_balanced", "balanced_accuracy")]
)
def test_the_best_threshold_is_the_best_of_all(cls, threshold, metric):
    problem = pruning(9)
    row = cls(problem, roles_of(problem), seed=0, threshold=threshold).ask()
    every = np.repeat(row, 10, axis=0)
    every[:, -1] = np.arange(10)
    assert problem.evaluate(row)[metric][0] == problem.evaluate(every)[metric].max()


def test_sizes_are_shares_of_the_pool():
    problem = pruning(10)
    rule = Backfitting(problem, roles_of(problem), seed=0, sizes=(0.2, 0.8))
    assert list(rule._sizes) == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("sizes", [(0.41, 0.49), (0.8, 0.2)])
@pytest.mark.parametrize("cls", [Backfitting, KappaPruning])
def test_shares_between_which_there_is_no_size_are_refused(cls, sizes):
    problem = pruning(10)
    with pytest.raises(InputError, match=r"algorithm\.sizes: .* the 10 classifiers"):
        cls(problem, roles_of(problem), seed=0, sizes=sizes)
