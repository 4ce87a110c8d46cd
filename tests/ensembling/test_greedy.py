"""Greedy selection against a plain loop; baselines; every small ensemble."""

import itertools
from math import gcd

import numpy as np
import pytest

from algorithms.ensembling.searches.base import SingleBest, Singles
from algorithms.ensembling.searches.greedy import GES, MultiGES
from algorithms.ensembling.searches.small_ensembles import SmallEnsembles, patterns
from framework.errors import InputError
from framework.roles import Constraint, Objective, Roles
from framework.streams import CandidateStreams
from tests.ensembling.searching import searched, two_roles
from tests.toys import EnsembleToy


def plain(problem, steps, score, max_count=50):
    """Return the path of a greedy loop; ``score(values, singles, candidates)`` is minimised.

    Of equally good candidates one with fewer members is taken, then the first: the tests use
    problems where that does not matter or ask for it.
    """
    d = problem.space.d
    r, path = np.zeros(d, dtype=int), []
    singles = problem.evaluate(np.eye(d, dtype=int), CandidateStreams(0, np.arange(d)))
    for _ in range(steps):
        best = None
        X = np.array([r + np.eye(d, dtype=int)[j] for j in range(d)])
        values = problem.evaluate(X, CandidateStreams(0, np.arange(d)))
        scores = score(values, singles)
        best = min(range(d), key=lambda j: (scores[j], np.count_nonzero(X[j]), j))
        r = X[best]
        path.append((r.tolist(), scores[best], 1 - values["roc_auc"][best]))
    return path


def scaled(values):
    span = max(values) - min(values)
    return [(v - min(values)) / span if span else 0.0 for v in values]


def big():
    """A problem of few ties."""
    return EnsembleToy(12, 60, seed=3, records=200)


PLAIN = {"evaluations": 5000, "use_best": False, "ties": "fewest_models"}


def returned(algorithm, record):
    return record.X[algorithm.outcome().returned].tolist()


def test_ges_takes_the_plain_loops_path():
    problem = big()
    algorithm, _, record = searched(GES, problem, iterations=15, **PLAIN)
    path = plain(problem, 15, lambda values, _: 1 - values["roc_auc"])
    found = 1 - record.column("roc_auc")[algorithm.outcome().returned]
    assert found.tolist() == [loss for _, _, loss in path]
    assert returned(algorithm, record) == [r for r, _, _ in path]
    assert len(record.X) == 15 * 12
    assert algorithm.done


def test_the_path_ends_with_the_first_best():
    problem = EnsembleToy(9, 60, seed=1, records=60)
    algorithm, _, record = searched(GES, problem, evaluations=5000, iterations=40)
    loss = record.column("roc_auc")[algorithm.outcome().returned]
    assert (loss[:-1] < loss[-1]).all()
    assert len(loss) < 40
    whole, _, record = searched(GES, problem, evaluations=5000, iterations=40, use_best=False)
    assert len(whole.outcome().returned) == 40


@pytest.mark.parametrize("cost_charging", ["marginal", "own"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.68, 1.0])
def test_multi_ges_takes_the_plain_loops_path(cost_charging, weight):
    problem = big()

    def score(values, singles):
        cost = singles["inference_time"] if cost_charging == "own" else values["inference_time"]
        loss = scaled((1 - values["roc_auc"]).tolist())
        time = scaled(cost.tolist())
        return [(1.0 - weight) * a + weight * b for a, b in zip(loss, time, strict=True)]

    setting = PLAIN | {"iterations": 12, "weight": weight, "cost_charging": cost_charging}
    algorithm, _, record = searched(MultiGES, problem, **setting)
    assert returned(algorithm, record) == [r for r, _, _ in plain(problem, 12, score)]


@pytest.mark.parametrize("cost_charging", ["marginal", "own"])
def test_weights_may_move_and_costs_may_be_several(cost_charging):
    problem, weights = big(), iter(np.linspace(0.8, 0.1, 12).tolist())

    def score(values, singles):
        weight, of = next(weights), singles if cost_charging == "own" else values
        loss = scaled((1 - values["roc_auc"]).tolist())
        time, memory = (scaled(of[name].tolist()) for name in ("inference_time", "memory"))
        return [
            (1 - weight) * a + weight * (b + c) / 2
            for a, b, c in zip(loss, time, memory, strict=True)
        ]

    path = [r for r, _, _ in plain(problem, 12, score)]
    setting = PLAIN | {"iterations": 12, "cost_charging": cost_charging, "weight": 0.8}
    setting |= {"cost": ("inference_time", "memory")}
    moving = searched(MultiGES, problem, final_weight=0.1, **setting)
    assert returned(*moving[::2]) == path
    still = searched(MultiGES, problem, **setting)
    assert returned(*still[::2]) != path


def test_greedy_ties_are_by_lot_or_by_members():
    problem = EnsembleToy(6, alike=True)
    paths = {
        str(returned(*searched(GES, problem, seed=seed, iterations=3, use_best=False)[::2]))
        for seed in range(6)
    }
    assert len(paths) > 1
    algorithm, _, record = searched(GES, problem, iterations=3, **PLAIN)
    assert [np.count_nonzero(r) for r in returned(algorithm, record)] == [1, 1, 1]


def test_greedy_ends_at_the_best_possible_loss_and_where_counts_are_full():
    perfect = EnsembleToy(4)
    perfect.predictions[0] = perfect.y
    algorithm, _, record = searched(GES, perfect)
    assert algorithm.reason == "the best possible loss"
    assert len(record.X) == 4
    algorithm, _, record = searched(GES, EnsembleToy(1, 3, records=61))
    assert algorithm.reason == "every model is picked as often as can be"
    assert record.X.tolist() == [[1], [2], [3]]


def test_greedy_keeps_to_constraints_where_it_can():
    problem = EnsembleToy(12, seed=2)
    roles = two_roles(problem, Constraint("memory", at_most=9.0))
    for cls in (GES, MultiGES):
        algorithm, _, record = searched(cls, problem, roles, 5000, iterations=10)
        assert record.column("memory")[algorithm.outcome().returned].max() <= 9.0


def test_baselines():
    problem = EnsembleToy(7)
    roles = two_roles(problem, Constraint("memory", at_most=5.0))
    algorithm, _, record = searched(Singles, problem, roles)
    feasible = np.flatnonzero(problem.costs["memory"] <= 5.0).tolist()
    assert algorithm.outcome().returned.tolist() == feasible
    algorithm, _, record = searched(SingleBest, problem, roles)
    best = max(feasible, key=lambda j: record.column("roc_auc")[j])
    assert algorithm.outcome().returned.tolist() == [best]
    none = two_roles(problem, Constraint("memory", at_most=-1.0))
    assert searched(SingleBest, problem, none)[0].outcome().returned.tolist() == []


@pytest.mark.parametrize(("members", "picks"), [(1, 1), (2, 2), (2, 4), (3, 3), (3, 6), (5, 4)])
def test_every_small_ensemble_once(members, picks):
    problem = EnsembleToy(5, 4)
    _, _, record = searched(
        SmallEnsembles, problem, evaluations=100_000, members=members, picks=picks, batch=7
    )
    wanted = {
        r
        for r in itertools.product(range(5), repeat=5)
        if any(r) and sum(v > 0 for v in r) <= members and sum(r) <= picks and gcd(*r) == 1
    }
    found = [tuple(row) for row in record.X.tolist()]
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_patterns_by_hand():
    assert patterns(1, 5, 9).tolist() == [[1]]
    assert patterns(2, 4, 9).tolist() == [[1, 1], [1, 2], [1, 3], [2, 1], [3, 1]]
    assert patterns(2, 4, 2).tolist() == [[1, 1], [1, 2], [2, 1]]


def test_too_many_small_ensembles_are_refused_with_their_number():
    problem = EnsembleToy(80)
    roles = Roles(problem.metrics, [Objective("roc_auc", "max")])
    with pytest.raises(InputError, match="up to 32,801,516 of at most 5 members"):
        SmallEnsembles(problem, roles, seed=0, members=5)


def test_mistakes():
    problem = EnsembleToy()
    with pytest.raises(InputError, match=r"cost: expected a metric of the problem.*'disk'"):
        MultiGES(problem, two_roles(problem), seed=0, cost="disk")
