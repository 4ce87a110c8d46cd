"""Exact fronts against all genomes, and what is said where they are not complete."""

from functools import partial

import numpy as np
import pytest

from algorithms.pruning.searches.ip_front import ExactFront
from framework.errors import InputError
from framework.parallel.ray_evaluator import RayEvaluator
from framework.pareto import nondominated
from framework.roles import Constraint
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.testing import AlgorithmCase, certificates_hold
from tests.conftest import covering, pruning, roles_of
from tests.pruning.test_ip import every_genome


def searched(problem, roles, **more):
    search = ExactFront(problem, roles, seed=0, **{"looks": 30, **more})
    front = run(problem, search, SerialEvaluator(problem, 0), budget=Budget(generations=1))
    return search, front


def assert_whole(front, problem, roles):
    """Assert that a front is that of all genomes that meet the constraints."""
    values = problem.evaluate(every_genome(problem))
    losses = roles.losses(values)[roles.violation(values) == 0]
    expected = losses[nondominated(losses)]
    assert sorted(front.losses.tolist()) == sorted(expected.tolist())


PAIRS = [
    ("true_positive_rate", "true_negative_rate"),
    ("accuracy", "members"),
    ("balanced_accuracy", "memory"),
    ("accuracy", "inference_time"),
]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("pair", "threshold", "cells"), covering(PAIRS, ["gene", "majority"], [1, 5])
)
def test_the_front_is_that_of_all_genomes(pair, threshold, cells):
    problem = pruning(6, threshold=threshold)
    roles = roles_of(problem, metrics=pair)
    search, front = searched(problem, roles, cells=cells)
    assert_whole(front, problem, roles)
    about = search.outcome().findings
    assert about["exact"]
    assert about["area"]["between"] == pytest.approx(0.0, abs=1e-8)
    assert search.reason == "the exact front is complete"


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "pair", [PAIRS[0], *(pytest.param(pair, marks=pytest.mark.slow) for pair in PAIRS[1:])]
)
@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("false_positive_rate", at_most=0.3),
        Constraint("members", at_most=3.0),
        Constraint("memory", at_most=90.0),
        Constraint("pfc_mean", at_least=0.6),
        Constraint("true_positive_rate", at_least=0.7),
    ],
    ids=lambda c: c.metric,
)
def test_constraints_are_part_of_the_front(pair, constraint):
    problem = pruning(6)
    roles = roles_of(problem, constraint, metrics=pair)
    search, front = searched(problem, roles, cells=4)
    assert_whole(front, problem, roles)
    assert search.outcome().findings["exact"]
    certificates_hold(AlgorithmCase(partial(ExactFront, looks=3, cells=4), problem, roles))


def test_demands_that_no_ensemble_meets_are_said_in_a_sentence():
    problem = pruning(6)
    limit = Constraint("memory", at_most=0.0)
    roles = roles_of(problem, limit, metrics=("accuracy", "members"))
    with pytest.raises(InputError, match="proved that none does"):
        searched(problem, roles)


@pytest.mark.quick(1)
@pytest.mark.parametrize(("pair", "iterations"), covering(PAIRS, [0, 40, 20_000]))
def test_no_candidate_beats_a_certificate(pair, iterations):
    problem = pruning(8)
    make = partial(ExactFront, looks=3, cells=4, iterations=iterations)
    table = certificates_hold(AlgorithmCase(make, problem, roles_of(problem, metrics=pair)))
    assert len(table["bound"]) >= 4


@pytest.mark.slow
def test_what_is_open_lies_between_two_fronts():
    problem = pruning(9)
    roles = roles_of(problem, metrics=("accuracy", "memory"))
    search, _ = searched(problem, roles, iterations=0, looks=1, cells=3)
    about, area = search.outcome().findings, search.outcome().findings["area"]
    assert not about["exact"]
    assert 0 <= area["lower"] < area["upper"] <= 1
    assert search.reason.startswith("algorithm.iterations:")
    whole = searched(problem, roles)[0].outcome().findings["area"]["lower"]
    assert area["lower"] <= whole <= area["upper"]


@pytest.mark.slow
def test_workers_find_the_same():
    problem = pruning(6)
    roles = roles_of(problem, metrics=("accuracy", "memory"))
    from framework.parallel.cluster import cluster

    fronts = [searched(problem, roles)[1]]
    with cluster(workers=2, address=None):
        evaluator = RayEvaluator(problem, 0, workers=2)
        search = ExactFront(problem, roles, seed=0, looks=30)
        fronts.append(run(problem, search, evaluator, budget=Budget(generations=1)))
    assert np.array_equal(fronts[0].X, fronts[1].X)


@pytest.mark.parametrize(
    ("objectives", "more", "message"),
    [
        (["pfc_min"], {}, "set algorithm.metric and algorithm.against"),
        (["accuracy"], {}, "set algorithm.metric and algorithm.against"),
        (["accuracy", "memory"], {"against": "memry"}, "did you mean 'memory'"),
        (["accuracy"], {"against": "true_negative_rate"}, "with accuracy, found"),
    ],
)
def test_fronts_that_are_none_are_refused(objectives, more, message):
    problem = pruning(6)
    roles = roles_of(problem, metrics=objectives)
    with pytest.raises(InputError, match=message):
        ExactFront(problem, roles, seed=0, **more)
