"""Exact cascades against enumeration of every genome."""

import itertools
import json

import numpy as np
import pytest

from algorithms.cascade.exact import ExactCascades
from algorithms.cascade.problem import CascadeProblem
from framework.errors import InputError
from framework.pareto import nondominated
from framework.preparation import Preparation
from framework.run.driver import Driver
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.testing import AlgorithmCase, certificates_hold
from tests import oracles
from tests.cascade.tables import made_up
from tests.conftest import roles_of


def losses_of(problem, X, names):
    return roles_of(problem, metrics=names).losses(problem.evaluate(X))


def front_of(losses):
    rounded = np.unique(losses.round(12), axis=0)
    return rounded[nondominated(rounded)]


def exact_front(problem, names, **options):
    roles = roles_of(problem, metrics=names)
    X = ExactCascades(problem, roles, seed=0, max_models=problem.calls.k, **options).ask()
    assert problem.space.contains(X).all()
    return front_of(losses_of(problem, X, names))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("answer", "outcomes", "tables"),
    [
        ("own", "raw", 15),
        *itertools.product(["cumulative_mean", "vote"], ["raw", "calibrated"], [6]),
        ("own", "calibrated", 6),
        *(pytest.param("own", o, 200, marks=pytest.mark.slow) for o in ("raw", "calibrated")),
    ],
)
def test_the_whole_front_is_that_of_every_genome(answer, outcomes, tables):
    names = ["accuracy" if outcomes == "raw" else "calibrated_accuracy", "cost"]
    compared = 0
    for seed in itertools.count():
        if compared == tables:
            break
        tied = seed % 3 == 0 or tables == 200  # and infinite
        fixed = {"fixed": {"cost": [0.001, 0.003, 0.002]}} if seed % 4 == 1 else {}
        table = made_up(3, 4 + seed % 3, seed, tied=tied, infinite=answer == "own", **fixed)
        try:
            problem = CascadeProblem(table, answer=answer)
        except InputError:  # few records: all alike
            continue
        wanted = front_of(losses_of(problem, oracles.every_genome(problem.space), names))
        found = exact_front(problem, names, front="whole")  # its outcomes are those of the names
        np.testing.assert_array_equal(found, wanted)
        compared += 1


@pytest.mark.parametrize("abstain", ["last", "early"])
@pytest.mark.parametrize("second", ["accuracy", "conclusive_accuracy"])
def test_abstention_gives_the_front_of_three(abstain, second):
    names = ["coverage", second, "cost"]
    for seed in range(8):
        table = made_up(2, 5 + seed % 2, seed, tied=seed % 2 == 0)
        problem = CascadeProblem(table, abstain=abstain)
        wanted = front_of(losses_of(problem, oracles.every_genome(problem.space), names))
        np.testing.assert_array_equal(exact_front(problem, names, outcomes="raw"), wanted)


def test_the_hull_has_the_corners_of_the_front():
    problem = CascadeProblem(made_up(3, 40, 5))
    names = ["accuracy", "cost"]
    whole = exact_front(problem, names, outcomes="raw", front="whole")
    corners = exact_front(problem, names, outcomes="raw", front="hull")
    for weight in np.geomspace(1e-4, 1e4, 60):
        assert (whole @ [1, weight]).min() == pytest.approx((corners @ [1, weight]).min())
    assert {tuple(c) for c in corners} <= {tuple(w) for w in whole}


def test_four_models_agree_with_shorter_sweeps_of_every_threshold():
    """A chain of four against a loop over every pair of cuts before a chain of two."""
    table = made_up(4, 14, 3, tied=True)
    problem = CascadeProblem(table)
    names = ["accuracy", "cost"]
    grid = [range(int(u) + 1) for u in problem.space.upper[:3]]
    X = np.array([(*g, last) for g in itertools.product(*grid) for last in (0, 1)])
    X = X[X.any(axis=1)].astype(problem.space.dtype)
    wanted = front_of(losses_of(problem, X, names))
    np.testing.assert_array_equal(exact_front(problem, names, outcomes="raw"), wanted)


def test_single_models_are_always_offered():
    problem = CascadeProblem(made_up(4, 30))
    X = ExactCascades(problem, roles_of(problem, metrics=["accuracy", "cost"]), seed=0).ask()
    alone = {tuple(np.flatnonzero(x).tolist()) for x in X if (x > 0).sum() == 1}
    assert alone == {(0,), (1,), (2,), (3,)}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"outcomes": "calibrated"}, {}),
        ({"outcomes": "raw", "max_models": 3}, {}),
        ({"outcomes": "raw"}, {"abstain": "last"}),
    ],
)
def test_certificates_hold(options, more):
    problem = CascadeProblem(made_up(3, 20, 2), **more)
    names = ["accuracy", "cost", *(["coverage"] if more else [])]

    def make(problem, roles, *, seed):
        return ExactCascades(problem, roles, seed=seed, **options)

    table = certificates_hold(AlgorithmCase(make, problem, roles_of(problem, metrics=names)))
    assert len(table["bound"])


class Dies(Exception):
    pass


def test_a_resumed_enumeration_goes_on_from_its_checkpoints():
    problem = CascadeProblem(made_up(4, 25))

    def fresh():
        roles = roles_of(problem, metrics=["accuracy", "cost"])
        return ExactCascades(problem, roles, seed=0, max_models=3)

    whole, work = fresh().ask(), Preparation()
    reports = []

    def stop(progress):
        reports.append(progress)
        if len(reports) == 5:
            raise Dies

    with pytest.raises(Dies):
        fresh().begin(Preparation(checkpoints=work.checkpoints, on_progress=stop))
    assert len(work.checkpoints) == 5
    done = []
    again = fresh()
    again.begin(Preparation(checkpoints=work.checkpoints, on_progress=done.append))
    assert done[0].done == 6
    np.testing.assert_array_equal(again.ask(), whole)
    key = next(iter(work.checkpoints))
    work.checkpoints[key] = json.dumps([["x"]]).encode()  # damaged: done again
    third = fresh()
    third.begin(Preparation(checkpoints=work.checkpoints))
    np.testing.assert_array_equal(third.ask(), whole)


@pytest.mark.parametrize(
    ("options", "more", "sentence"),
    [
        ({}, {"order": "free"}, "by price"),
        (
            {"max_models": 5, "policies": 1000, "outcomes": "raw", "front": "whole"},
            {},
            "lower max_models, or take another search",
        ),
    ],
)
def test_what_cannot_be_enumerated_is_refused(options, more, sentence):
    problem = CascadeProblem(made_up(5, 30), **more)
    with pytest.raises(InputError, match=sentence):
        ExactCascades(problem, roles_of(problem, metrics=["accuracy", "cost"]), seed=0, **options)


def test_a_front_that_the_budget_cuts_is_not_called_exact():
    problem = CascadeProblem(made_up(3, 40, 5))
    roles = roles_of(problem, metrics=["accuracy", "cost"])
    for evaluations, exact in ((3, False), (1000, True)):
        algorithm = ExactCascades(problem, roles, seed=0)
        budget = Budget(evaluations=evaluations)
        driver = Driver(problem, algorithm, SerialEvaluator(problem), budget=budget)
        driver.run()
        assert algorithm.outcome().findings["exact"] is exact
        assert ("raise budget.evaluations" in driver.stop_reason()) is not exact
