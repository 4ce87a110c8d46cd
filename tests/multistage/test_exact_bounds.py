"""Exact fronts in pieces, with their chromosomes, and between bounds where they cannot finish."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.multistage.exact import dynamic_programming, enumeration
from algorithms.multistage.exact import search as exact_search
from algorithms.multistage.exact.chains import hard_first
from algorithms.multistage.exact.dynamic_programming import Limits
from algorithms.multistage.exact.enumeration import enumerate_chains
from algorithms.multistage.exact.search import METRICS, Exact
from framework.errors import InputError
from framework.pareto import hypervolume
from framework.roles import Constraint
from framework.run.driver import Callback, search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.space import Partition
from framework.testing import ALGORITHM_LAWS, AlgorithmCase
from tests import oracles
from tests.command import small
from tests.conftest import multistage, roles_of
from tests.multistage.test_exact import (
    SMALL,
    first_guess,
    front_of,
    losses_of,
    made_up,
    priced,
    run_of,
    three,
    vectors_of,
    with_chains,
)


@given(*SMALL)
def test_pieces_add_up_to_the_whole(seed, n, records, rate, data):
    k, costs = data.draw(st.integers(1, n)), np.arange(n) % 3
    tables = made_up(seed, n, records, rate)
    whole = enumerate_chains(tables, priced(costs), k)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "_PIECE_CHAINS", data.draw(st.integers(1, 40)))
        numbers, chains = enumeration.pieces(n, k)
        divided = enumerate_chains(tables, priced(costs), k, report=lambda *done: told.append(done))
    assert sum(chains) == Partition(n, k).size
    firsts = [first for piece in numbers[1:] for first in range(*piece)]
    assert firsts == (list(range(1, 2**n - 1)) if k > 2 else [])
    for name in ("answered", "right", "cost", "chains", "chromosomes"):
        assert np.array_equal(getattr(whole, name), getattr(divided, name))
    assert told[-1] == (sum(chains), sum(chains))


def test_pieces_depend_on_the_size_alone_and_none_is_large():
    numbers, chains = enumeration.pieces(14, 4)
    assert sum(chains) == Partition(14, 4).size
    assert len(numbers) == 14
    assert max(chains) < 0.11 * sum(chains)


def bounds_of(outcome):
    """Return the losses that nothing beats, (n, 3)."""
    above = outcome.above
    return np.column_stack([-above.answered, -above.rate, above.cost])


def assert_reached(upper, losses):
    """Fail where some losses are less than each bound."""
    for row in losses:
        assert (upper <= np.array(row)).all(axis=1).any()


@given(*SMALL)
def test_bounds_hold_the_front_between_them(seed, n, records, rate, data):
    tables, k, price, chains = with_chains(seed, n, records, rate, data, least=2)
    limits = Limits(100_000, data.draw(st.integers(0, 60)))
    outcome = dynamic_programming.front_of_chains(
        hard_first(tables), price, k, first_guess(tables, price), limits, bounds=True
    )
    lower, front = losses_of(vectors_of(outcome.front)), oracles.front_of_vectors(list(chains))
    assert set(vectors_of(outcome.front)) <= set(chains)
    if outcome.stopped is None:
        assert set(lower) == set(losses_of(front))
        return
    upper = [tuple(bound) for bound in bounds_of(outcome).tolist()]
    for row in losses_of(chains):  # nothing beats the upper bound
        assert any(oracles.dominates(best, row) or best == row for best in upper)
        assert not any(oracles.dominates(row, best) for best in upper)
    for row in lower:  # and the front beats the lower one, or is it
        assert any(oracles.dominates(best, row) or best == row for best in losses_of(front))


@pytest.mark.quick(1)
@pytest.mark.parametrize("steps", [0, 100, 1000, 10_000])
def test_bounds_close_in_with_more_steps(steps):
    costs = np.arange(9, dtype=np.int64) % 4 + 1
    tables = made_up(3, 9, 100, 0.1)
    known = first_guess(tables, priced(costs))
    front = enumerate_chains(tables, priced(costs), 9).front()

    def outcome(limit):
        return dynamic_programming.front_of_chains(
            tables, priced(costs), 9, known, Limits(10**6, limit), bounds=True
        )

    here, further = outcome(steps), outcome(4 * steps + 50)
    assert here.stopped == "hours"
    assert_reached(bounds_of(here), losses_of(vectors_of(front)))
    assert _volume(further.front) >= _volume(here.front)
    assert _volume(here.front) <= _volume(front) <= _volume(here.above)
    assert _volume(here.above) >= _volume(further.above)


def _volume(points):
    values = points.values(100, 1)
    losses = np.column_stack([1 - values["coverage"], 1 - values["accuracy"], values["cost"] / 14])
    return hypervolume(losses, np.ones(3))


def test_memory_that_is_short_is_said_or_gives_bounds_and_enough_is_taken():
    costs = np.ones(10, dtype=np.int64)
    tables = made_up(0, 10, 60, 0.05)
    known, chains = first_guess(tables, priced(costs)), enumerate_chains(tables, priced(costs), 4)

    def outcome(memory, **more):
        limits = Limits(memory)
        return dynamic_programming.front_of_chains(tables, priced(costs), 4, known, limits, **more)

    short, bounded, enough = outcome(4096), outcome(4096, bounds=True), outcome(10_000_000)
    assert (short.stopped, short.above) == ("memory_gb", None)
    assert bounded.stopped == "memory_gb"
    assert_reached(bounds_of(bounded), losses_of(vectors_of(chains)))
    assert enough.stopped is None
    assert sorted(vectors_of(enough.front)) == sorted(vectors_of(chains.front()))


SYNTHETIC = {"samples": 400, "features": 9, "informative": 8, "redundant": 0}
HARD = {"dataset": {"synthetic": SYNTHETIC}}


@pytest.fixture(scope="module")
def hard():
    return multistage(max_stages=9, **HARD)


@pytest.fixture
def little_known(monkeypatch):
    """Let the dynamic_programming begin with few chains, as where features are many."""
    monkeypatch.setattr(exact_search, "_SEED_CHAINS", 1000)


def test_what_cannot_finish_says_so_or_gives_bounds(hard, little_known):
    limits = {"method": "dynamic_programming", "hours": 1e-8}
    with pytest.raises(InputError, match=r"algorithm\.hours: .*bounds: true"):
        front_of(hard, three(hard), **limits)
    lower, algorithm = front_of(hard, three(hard), bounds=True, **limits)
    exact, proven = front_of(hard, three(hard), method="dynamic_programming")
    findings = algorithm.outcome().findings
    assert "not proven exact" in algorithm.reason
    assert findings["exact"] is False
    assert findings["stopped_by"] == "hours"
    assert proven.outcome().findings["exact"] is True
    assert "upper_bound" not in proven.outcome().tables
    volumes = findings["hypervolume"]
    assert len(exact) > 20
    assert volumes["lower"] == lower.hypervolume()
    assert volumes["lower"] < exact.hypervolume() < volumes["upper"]
    assert volumes["gap"] == 1 - volumes["lower"] / volumes["upper"]
    upper = three(hard).losses(algorithm.outcome().tables["upper_bound"])
    assert_reached(upper, exact.losses)


@pytest.mark.parametrize(
    ("names", "constraint"),
    [
        (("accuracy", "cost"), Constraint("coverage", at_least=0.3)),
        (("coverage", "cost"), Constraint("accuracy", at_least=0.9)),
    ],
)
def test_bounds_hold_with_fewer_objectives_and_constraints(hard, little_known, names, constraint):
    roles = roles_of(hard, constraint, metrics=names)
    limits = {"method": "dynamic_programming", "hours": 1e-8}
    _, algorithm = front_of(hard, roles, bounds=True, **limits)
    exact, _ = front_of(hard, roles)
    upper = roles.losses(algorithm.outcome().tables["upper_bound"])
    assert len(exact)
    assert_reached(upper, exact.losses)


def test_a_programme_slower_than_enumeration_gives_way_to_it(hard, monkeypatch):
    monkeypatch.setattr(exact_search, "_QUICK_SECONDS", 0.0)
    monkeypatch.setattr(dynamic_programming, "STEP_SECONDS", 1e6)  # after no step at all
    algorithm = Exact(hard, three(hard), seed=0)
    assert algorithm.method == "dynamic_programming"
    assert "then one by one" in algorithm.plan
    search(hard, algorithm, SerialEvaluator(hard), budget=Budget(generations=1))
    assert algorithm.outcome().findings["method"] == "enumeration"
    assert algorithm.outcome().findings["exact"] is True
    assert sum(algorithm.outcome().findings["chromosomes"]) > 0


def test_the_driver_prepares_and_tells_of_it():
    class Listener(Callback):
        def __init__(self):
            self.told = []

        def on_preparation(self, work):
            self.told.append((work.what, work.done, work.total))

    problem, listener = multistage(max_stages=4), Listener()
    algorithm = Exact(problem, three(problem), seed=0)
    budget = Budget(generations=1, seconds=1e-9)  # the preparation does not use it up
    evaluator = SerialEvaluator(problem)
    front = search(problem, algorithm, evaluator, budget=budget, callbacks=[listener])
    assert len(front)
    size = problem.space.size
    assert listener.told == [
        ("training sub-classifiers", 63, 63),
        ("going through chains", 62 + 1, size),
        ("going through chains", size, size),
    ]
    listener = Listener()
    algorithm = Exact(problem, three(problem), seed=0, method="dynamic_programming")
    search(problem, algorithm, evaluator, budget=budget, callbacks=[listener])
    assert listener.told[-1] == ("following feature sets", 62, 62)


@pytest.mark.parametrize("law", ALGORITHM_LAWS, ids=lambda law: law.__name__)
def test_bounds_are_under_the_laws(hard, little_known, law):
    make = partial(Exact, method="dynamic_programming", hours=1e-8, bounds=True)
    law(AlgorithmCase(make, hard, three(hard), deterministic=True))


@pytest.mark.slow
def test_the_command_writes_bounds_and_says_that_they_are_not_exact(tmp_path, capsys):
    algorithm = {"kind": "exact", "method": "dynamic_programming", "hours": 1e-8, "bounds": True}
    section = {"kind": "multistage", "max_stages": 9, **HARD}
    config = small(problem=section, algorithm=algorithm, budget={"generations": 1})
    out, summary = run_of(tmp_path, config)
    assert "ended by algorithm.hours: not proven exact" in capsys.readouterr().err
    assert summary["findings"]["exact"] is False
    assert summary["findings"]["hypervolume"]["gap"] > 0
    assert list(pd.read_csv(out / "upper_bound.csv")) == list(METRICS)
