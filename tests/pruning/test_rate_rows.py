"""Rates as rows and as fractions of a program: the best by enumeration, with certificates."""

import itertools

import numpy as np
import pytest

from algorithms.pruning.branch_and_bound.fractions import BestFraction
from algorithms.pruning.papers.printed_program import PrintedProgram
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.searches.ip import IntegerProgram
from framework.data.divisions import Subgroups
from framework.errors import InputError
from framework.roles import Constraint
from framework.testing import AlgorithmCase, certificates_hold
from tests.conftest import covering, roles_of
from tests.made_up_libraries import made_up
from tests.pruning.test_ip import best_of_all, every_genome, roles, solve
from tests.pruning.test_ip_front import assert_whole, searched

RATES = ["precision:no", "precision:yes", "recall:no", "f1:no", "f1:yes", "matthews"]


def rated(k=5, positive="yes", seed=0):
    rng = np.random.default_rng(seed)
    subgroups = [Subgroups(("a", "b", "c"), rng.choice(3, n, p=[0.5, 0.3, 0.2])) for n in (60, 40)]
    library = made_up(k=k, seed=seed)
    return PruningProblem(library, positive=positive, rates=RATES, subgroups=subgroups)


LIMITS = [
    [Constraint("precision:no", at_least=0.8)],
    [Constraint("precision:yes", at_least=0.75), Constraint("recall:no", at_most=0.9)],
    [Constraint("f1:yes", at_least=0.7), Constraint("f1:no", at_most=0.75)],
    [Constraint("accuracy_difference", at_most=0.05)],
    [Constraint("false_positive_rate_difference", at_most=0.1)],
    [Constraint("worst_subgroup_accuracy", at_least=0.7)],
    [Constraint("worst_subgroup_false_negative_rate", at_most=0.25)],
    [Constraint("worst_subgroup_f1:no", at_least=0.6)],
    [Constraint("precision:yes", at_most=0.6), Constraint("recall:no", at_least=0.1)],
    [Constraint("precision:yes", at_most=1e15), Constraint("accuracy_difference", at_most=1e15)],
]


@pytest.mark.parametrize(("positive", "limits"), covering(["no", "yes"], LIMITS))
def test_limits_of_rates_are_rows_of_the_program(positive, limits):
    problem = rated(positive=positive)
    asked = roles(problem, *limits)
    best = best_of_all(problem, asked)
    assert best is not None
    search, front = solve(IntegerProgram, problem, asked, looks=20)
    assert front.rows.values["accuracy"].tolist() == [best]
    assert search.outcome().findings["status"] == "optimal"
    assert set(search.outcome().tables["certificates"]) > {
        f"at_{'most' if c.at_most is not None else 'least'}_{c.metric}" for c in limits
    }


@pytest.mark.quick(1)
@pytest.mark.parametrize("limit", [0.5, 2 / 3, 0.7, 0.75])
def test_a_limit_is_that_of_the_fraction_as_it_is_reported(limit):
    problem = rated(seed=1)
    every = problem.evaluate(every_genome(problem))["precision:yes"]
    for value in [limit, every[np.abs(every - limit).argmin()]]:  # one that is attained, too
        for sign in ({"at_least": float(value)}, {"at_most": float(value)}):
            asked = roles(problem, Constraint("precision:yes", **sign))
            _, front = solve(IntegerProgram, problem, asked, looks=20)
            assert front.rows.values["accuracy"].tolist() == [best_of_all(problem, asked)]


def test_that_no_ensemble_keeps_an_impossible_limit_is_proven():
    problem = rated()
    for limit in ({"at_most": -5.0}, {"at_least": 7.0}):
        asked = roles(problem, Constraint("precision:yes", **limit))
        with pytest.raises(InputError, match="proved that none does"):
            solve(IntegerProgram, problem, asked, looks=20)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("metric", "limits"),
    [
        ("f1:yes", []),
        ("f1:no", [Constraint("worst_subgroup_accuracy", at_least=0.72)]),
        ("precision:yes", [Constraint("true_positive_rate", at_least=0.8)]),
        ("precision:no", [Constraint("members", at_most=2)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("positive", ["no", "yes"])
def test_the_best_fraction_is_found_with_a_certificate(positive, metric, limits):
    problem = rated(positive=positive, seed=2)
    asked = roles(problem, *limits, metric=metric)
    search, front = solve(IntegerProgram, problem, asked, looks=20)
    assert front.rows.values[metric].tolist() == [best_of_all(problem, asked)]
    outcome = search.outcome()
    assert outcome.findings["status"] == "optimal"
    table = outcome.tables["certificates"]
    assert table["metric"].tolist() == [metric]
    assert table["bound"][0] == pytest.approx(table["value"][0])
    certificates_hold(AlgorithmCase(IntegerProgram, problem, asked))


def test_weights_name_a_fraction_without_further_metrics():
    library = made_up(k=5)
    problem = PruningProblem(library)
    twin = PruningProblem(library, rates=["f1"])
    search, _ = solve(IntegerProgram, problem, roles(problem), weights="f1")
    best = twin.evaluate(every_genome(twin))["f1"].max()
    assert search.outcome().findings["value"] == best


def test_bounds_of_a_fraction_cut_short_hold_and_it_can_be_gone_on_with():
    problem = rated(k=9, seed=3)
    asked = roles(problem, metric="f1:yes")
    best = best_of_all(problem, asked)
    search = IntegerProgram(problem, asked, seed=0, looks=1)
    solver = search._new_solver()
    bounds = []
    for _ in range(500):
        if solver.done:
            break
        assert solver.bound >= best - 1e-12
        content = solver.pack("also")
        made = search.votes, search._fraction, search._requirements
        again, also = BestFraction.unpack(content, *made, 0, 1)
        assert also == "also"
        assert (again.bound, again.iterations) == (solver.bound, solver.iterations)
        solver = again
        solver.step()
        bounds.append(solver.bound)
    assert solver.done
    assert solver.incumbent.value == solver.bound == best
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(bounds))
    with pytest.raises(ValueError, match="not a solve"):
        BestFraction.unpack(b"nothing", *made, 0, 1)


@pytest.mark.quick(1)
@pytest.mark.parametrize("against", ["members", "memory"])
def test_exact_fronts_of_f1_are_those_of_all_genomes(against):
    problem = rated(seed=4)
    limit = Constraint("accuracy_difference", at_most=0.2)
    asked = roles_of(problem, limit, metrics=("f1:no", against))
    search, front = searched(problem, asked, cells=2)
    assert_whole(front, problem, asked)
    assert search.outcome().findings["exact"]


@pytest.mark.parametrize(
    "limit",
    [
        Constraint("matthews", at_least=0.2),
        Constraint("accuracy_difference", at_least=0.2),
        Constraint("worst_subgroup_accuracy", at_most=0.2),
        Constraint("worst_subgroup_false_positive_rate", at_least=0.2),
        Constraint("precision_difference:yes", at_most=0.2),
        Constraint("matthews_difference", at_most=0.2),
    ],
    ids=str,
)
def test_limits_that_are_no_rows_are_refused(limit):
    problem = rated()
    with pytest.raises(InputError, match=rf"constraints: {limit.metric}: .* a row of the program"):
        IntegerProgram(problem, roles(problem, limit), seed=0)


def test_the_printed_program_has_no_rows_for_them():
    problem = rated()
    asked = roles(problem, Constraint("precision:no", at_least=0.2))
    with pytest.raises(InputError, match="take ip"):
        PrintedProgram(problem, asked, seed=0)
