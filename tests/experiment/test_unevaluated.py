"""What a method could have chosen, exact ones beside a brute force over a small pool."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from algorithms.ensembling.problem import EnsembleProblem
from framework.analysis.choose import choose
from framework.analysis.resamples import PILOT, Resamples
from framework.estimators.search import roles_for
from framework.estimators.search import search as search_of
from framework.experiment.config import check
from framework.experiment.expected import beside_of, evidence, expectation
from framework.experiment.options import AlgorithmOptions
from framework.experiment.unevaluated import least, searched_again, unevaluated
from framework.front import Front
from paretolab import ParetoCascade, ParetoEnsemble, PrunedVoting
from tests.conftest import network
from tests.made_up_libraries import made_up, repeated

BALANCED = "balanced_accuracy"


def trees(count):
    return {
        f"tree {i}": DecisionTreeClassifier(max_depth=3, max_features=2, random_state=i)
        for i in range(count)
    }


def noise(seed, n=240):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)), rng.permutation(np.arange(n) % 2)


def mean_gaps(search, times):
    """Return by how much what is claimed, and expected, of the best is above chance on noise."""
    gaps = []
    for seed in range(times):
        promise = clone(search).fit(*noise(seed)).expected(best=BALANCED)[BALANCED]
        gaps.append((promise.claimed - 0.5, promise.expected - 0.5))
    return np.mean(gaps, axis=0)


@pytest.mark.quick(1)
@pytest.mark.parametrize("objectives", [None, [BALANCED, "members"]])
def test_the_best_of_each_resample_is_among_them(objectives):
    search = PrunedVoting(trees(7), objectives=objectives, verbose=False).fit(*noise(3))
    problem, front = search.problem_, search._front
    beside = unevaluated(problem, front, front.X, seed=0)
    every = np.array(
        [
            problem.genome(np.array(row), threshold)
            for row in product([0, 1], repeat=7)
            for threshold in range(sum(row))
        ]
    ).astype(problem.space.dtype)
    best = []
    for X in (np.concatenate([front.X.astype(every.dtype), beside]), every):
        outcomes = problem.outcomes(X)
        weights = Resamples(outcomes, 0).weights[:, :PILOT]
        best.append(outcomes.metrics(weights, names=[BALANCED])[BALANCED].max(axis=0))
    assert np.mean(best[0] == best[1]) > 0.8
    assert not {*map(bytes, beside)} & {*map(bytes, front.X.astype(beside.dtype))}


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "algorithm",
    ["ip", "ip_front", "hill_climbing", {"kind": "kappa_pruning", "reading": "greedy"}],
    ids=str,
)
def test_what_is_chosen_without_evaluation_has_its_luck_taken_off(algorithm):
    more = {"objectives": [BALANCED, "members"]} if algorithm == "ip_front" else {}
    search = PrunedVoting(trees(12), algorithm=algorithm, verbose=False, **more)
    claimed, expected = mean_gaps(search, 3)
    assert expected < claimed - 0.01
    assert abs(expected) < 0.03


@pytest.mark.parametrize("algorithm", ["full_ensemble", "kappa_pruning"])
def test_nothing_is_taken_off_where_nothing_is_chosen_by_its_figures(algorithm):
    search = PrunedVoting(trees(5), algorithm=algorithm, verbose=False).fit(*noise(0))
    promise = search.expected(best=BALANCED)[BALANCED]
    assert promise.expected == pytest.approx(promise.claimed, abs=0.005)


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 9), st.just(3)),
        elements=st.sampled_from([0, 1, np.inf]),
    ),
    st.integers(1, 9),
)
def test_the_least_of_columns_are_those_of_a_stable_sort(values, count):
    order = np.argsort(values, axis=0, kind="stable")[:count]
    assert [np.flatnonzero(c).tolist() for c in least(values, count).T] == np.sort(order.T).tolist()


def test_a_search_goes_the_ways_on_which_resamples_lead_it():
    """As on a library in which each record stands as often as the resample draws it."""
    library = made_up(k=6, n=90)
    problem = EnsembleProblem(library)
    roles = roles_for(problem, ["roc_auc"])
    made = partial(check(AlgorithmOptions, "ges", "algorithm").make, problem, roles, 0)

    def searched(problem, budget):
        done = search_of(problem, roles, "ges", budget, 0)
        X = np.concatenate([batch.X for batch in done.evaluated])
        return done.front, np.unique(X, axis=0)

    front, X = searched(problem, 200)
    weights = Resamples(problem.outcomes(X[:1]), 0, 8).weights
    others = set()
    for times in weights.T.astype(np.int64):
        others |= {*map(tuple, searched(EnsembleProblem(repeated(library, times)), len(X))[1])}
    beside = searched_again(problem, made, front, X, 0)
    assert len(beside) > 20
    assert {*map(tuple, beside)} == others - {*map(tuple, X)}


def test_masks_of_networks_have_more_of_their_luck_taken_off():
    problem = network()
    done = search_of(problem, roles_for(problem, ["accuracy", "complexity"]), "nsga2", 900, 0)
    position = choose(done.front, best="accuracy")
    near = beside_of("nsga2", done.front, problem, 0)
    alone, raised = (
        expectation(
            evidence(done.evaluated, problem, 0, beside), done.front, position, best="accuracy"
        )
        for beside in (None, near)
    )
    assert raised.of["accuracy"].expected < alone.of["accuracy"].expected - 0.002
    assert raised.beside > 30
    assert beside_of("nsga2", done.front, network(gates="magnitude"), 0) is None


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["qo_es", "ges"])
def test_a_search_that_keeps_to_a_path_has_its_luck_taken_off(algorithm):
    how = {"algorithm": algorithm, "metric": BALANCED, "budget": 800, "verbose": False}
    claimed, expected = mean_gaps(ParetoEnsemble(trees(12), **how), 4)
    assert expected < claimed - 0.03
    assert abs(expected) < 0.03


def test_a_scorer_that_weighs_no_records_leaves_unknown_what_to_expect():
    search = ParetoEnsemble(
        trees(4), algorithm="ges", metric="average_precision", budget=60, verbose=False
    )
    front = search.fit(*noise(0)).front_
    assert len(front)
    assert not any(name.startswith("expected_") for name in front.columns)


def test_cascades_are_chosen_from_more_than_was_evaluated():
    X, y = noise(1)
    search = ParetoCascade(trees(4), costs=[1, 2, 4, 8], verbose=False).fit(X, y)
    assert isinstance(search._front, Front)
    found = search._source().evidence()
    assert found is not None
    assert found.beside > 30
