"""The program as printed against every ensemble, and the strong form against it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from algorithms.pruning.branch_and_bound.instance import Budget, Requirements
from algorithms.pruning.diversity import Demand, demand_of, pair_table
from algorithms.pruning.papers.printed_program import PrintedProgram, Program, check_solver
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.searches.ip import IntegerProgram
from algorithms.pruning.votes import Weights
from framework.errors import InputError
from framework.libraries.library import Cost
from framework.roles import Constraint
from tests.made_up_libraries import made_up
from tests.pruning.test_ip import best_of_all, roles
from tests.pruning.test_solver import WEIGHTS, brute_force, pool


@settings(max_examples=10)
@given(st.integers(2, 5), st.integers(4, 20), st.integers(0, 10_000), st.sampled_from(WEIGHTS))
def test_the_printed_program_finds_the_best_of_all_ensembles(k, n, seed, weights):
    votes, y = pool(k, n, seed)
    found = Program(votes, y, weights).solve()
    assert found.status == "optimal"
    assert found.value == pytest.approx(brute_force(votes, y, weights), abs=1e-6)
    assert found.bound >= found.value - 1e-6
    assert found.x.sum() >= 1


@settings(max_examples=8)
@given(st.integers(2, 5), st.integers(6, 20), st.integers(0, 10_000))
def test_diversity_majority_sizes_and_costs_are_kept_to(k, n, seed):
    votes, y = pool(k, n, seed)
    credit, rng = pair_table(votes != y), np.random.default_rng(seed)
    costs, limit = rng.integers(1, 9, k).astype(float), 11.0
    majority = bool(seed % 2)
    tau = float(rng.uniform(0, 0.6))
    for demand in (demand_of("f2", credit), demand_of("f3", credit), Demand(tau, tau + 0.2)):

        def allowed(x, demand=demand):
            return x.sum() <= 3 and costs @ x <= limit and demand.met(credit, x)

        best = brute_force(votes, y, Weights(), allowed, majority)
        found = Program(
            votes, y, Weights(), Requirements(majority, 3, (Budget(costs, limit),), credit, demand)
        ).solve()
        if best == -np.inf:
            assert found.status == "infeasible"
        else:
            assert found.value == pytest.approx(best, abs=1e-5)


def test_rows_that_weights_make_redundant_can_be_left_out():
    votes, y = pool(6, 40, 1)
    whole, less = Program(votes, y, Weights()), Program(votes, y, Weights(), one_sided=True)
    assert len(less.problem.constraints) == len(whole.problem.constraints) - 2
    assert less.solve().value == pytest.approx(whole.solve().value)
    kept = Program(votes, y, Weights(1, 2, 1, 0), one_sided=True)
    assert len(kept.problem.constraints) == len(whole.problem.constraints)


def test_scip_finds_the_same():
    pytest.importorskip("pyscipopt")
    votes, y = pool(6, 40, 2)
    program = Program(votes, y, Weights())
    assert program.solve("SCIP").value == pytest.approx(program.solve().value)
    assert program.solve("SCIP").bound == pytest.approx(program.solve().bound)


def test_a_limit_without_a_solution_is_no_solution():
    votes, y = pool(40, 900, 0, skill=0.6)
    found = Program(votes, y, Weights()).solve(seconds=1e-6)
    assert found.status == "stopped"
    assert found.x is None
    assert found.value == -np.inf


@pytest.mark.parametrize("solver", ["GUROBY", "CLARABEL"])
def test_a_solver_that_is_missing_is_named(solver):
    with pytest.raises(InputError, match=rf"HIGHS.*found '{solver}'"):
        check_solver(solver)


@settings(max_examples=12)
@given(st.integers(2, 5), st.integers(4, 20), st.integers(0, 10_000))
def test_rates_and_costs_in_tiny_units_are_kept_to_the_last_bit(k, n, seed):
    rng = np.random.default_rng(seed)
    costs = rng.integers(1, 50, k) * 1e-7
    library = replace(made_up(k=k, n=n, seed=seed), costs={"memory": Cost(costs, "MB")})
    assume(len(np.unique(library.validation > 0.5, axis=0)) > 1)
    limit = float(rng.choice([costs[: k - 1].sum(), 5e-6]))
    asked = (
        Constraint("memory", at_most=limit),
        Constraint("false_positive_rate", at_most=float(rng.choice([0.1, 1 / 3, 0.7]))),
        Constraint("accuracy", at_least=float(rng.choice([0.0, 0.5, 0.7]))),
    )
    problem = PruningProblem(library)
    wanted = roles(problem, *asked, metric="balanced_accuracy")
    best = best_of_all(problem, wanted)
    for cls in (PrintedProgram, IntegerProgram):
        search = cls(problem, wanted, seed=0)
        if best is None:
            with pytest.raises(
                InputError, match=r"constraints: .*proved that none does \(memory at"
            ):
                search.ask()
            continue
        found = problem.evaluate(search.ask())
        assert wanted.violation(found).tolist() == [0.0]
        assert found["balanced_accuracy"][0] == best
        assert search.reason.startswith("proven best")
