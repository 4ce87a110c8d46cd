"""The baselines against other implementations of themselves."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from algorithms.multistage.model import MultiStageClassifier
from algorithms.multistage.papers import cstc
from algorithms.multistage.papers.budgeted import CostOrdered, SingleStage
from algorithms.multistage.papers.cact_lasso import CaCTLasso
from algorithms.multistage.papers.cstc import CSTC, SMOOTHINGS, Data, GateTree, fit_tree, loss
from algorithms.multistage.papers.tuning import measure
from tests.multistage.papers.data import COSTS, baselines, priced, records


@pytest.mark.parametrize("classes", [2, 3])
def test_cost_ordered_is_the_multi_stage_classifier_set_up_by_hand(classes):
    X, y, new, labels = records(classes)
    by_hand = MultiStageClassifier([[0, 2], [3, 4], [1, 5]], COSTS, 0.7, reject_label=-1)
    baseline = CostOrdered(COSTS, 0.7, reject_label=-1).fit(X, y)
    by_hand.fit(X, y)
    np.testing.assert_array_equal(baseline.predict(new), by_hand.predict(new))
    np.testing.assert_array_equal(baseline.predict_proba(new), by_hand.predict_proba(new))
    assert measure(baseline, new, labels) == measure(by_hand, new, labels)


def test_single_stage_answers_always_and_pays_for_everything():
    X, y, new, labels = records()
    found = measure(SingleStage(COSTS).fit(X, y), new, labels)
    plain = LogisticRegression().fit((X - X.mean(0)) / X.std(0), y)
    assert found.coverage == 1.0
    assert found.cost == COSTS.sum()
    assert found.accuracy == plain.score((new - X.mean(0)) / X.std(0), labels)


@pytest.mark.quick(2)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("penalty", [0.0, 0.5, 5.0, 20.0])
def test_lasso_is_where_no_direction_leads_down(classes, penalty):
    """The conditions of the optimum, which are enough since the loss is convex."""
    X, y, *_ = records(classes)
    model = CaCTLasso(penalty, costs=COSTS).fit(X, y)
    Z, W = model.encoder_.transform(X), model.linear_.coef_
    error = (model.predict_proba(X) - np.eye(classes)[y])[:, -len(W) :]
    slope = (Z.T @ error).T
    np.testing.assert_allclose(error.sum(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(slope[W != 0], -penalty * np.sign(W[W != 0]), atol=1e-4)
    assert (np.abs(slope[W == 0]) <= penalty + 1e-4).all()
    np.testing.assert_array_equal(model.features_, np.flatnonzero(W.any(axis=0)))


def test_a_large_penalty_leaves_no_feature():
    X, y, new, labels = records()
    assert measure(CaCTLasso(1e4, costs=COSTS).fit(X, y), new, labels).cost == 0


@pytest.mark.parametrize("inner_weight", [1.0, 0.03, 0.0])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_gradient_of_the_tree_of_classifiers(rows, inner_weight):
    rng = np.random.default_rng(rows)
    tree = GateTree(rng.normal(size=(7, rows, 6)), rng.normal(size=3))
    target = np.eye(max(rows, 2))[rng.integers(0, max(rows, 2), 20)][:, -rows:]
    data = Data(
        np.column_stack([rng.normal(size=(20, 5)), np.ones(20)]),
        target,
        np.array([0, 0, 1, 2, 3]),
        np.array([0.1, 0.2, 0.3, 0.4]),
        0.1,
    )
    data = data._replace(inner_weight=inner_weight)
    numeric = approx_fprime(tree.flat(), lambda flat: loss(tree.like(flat), data, 0.2)[0], 1e-6)
    np.testing.assert_allclose(loss(tree, data, 0.2)[1].flat(), numeric, atol=1e-5)


def test_the_cost_in_the_loss_is_the_expected_mixed_norm():
    """Node by node, leaf by leaf, record by record."""
    rng = np.random.default_rng(0)
    tree = GateTree(rng.normal(size=(7, 1, 4)), rng.normal(size=3))
    Z = np.column_stack([rng.normal(size=(9, 3)), np.ones(9)])
    costs, target = np.array([1.0, 2.0, 3.0]), np.zeros((9, 1))
    smoothing = 0.05
    paths = [[0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 6]]
    data = Data(Z, target, np.arange(3), costs, 0.0)
    free = data._replace(costs=0 * costs)
    relaxed = loss(tree, data, smoothing)[0] - loss(tree, free, smoothing)[0]
    expected = 0.0
    for z in Z:
        for path in paths:
            chance = 1.0
            for node, child in pairwise(path):
                score = tree.weights[node, 0] @ z - tree.gates[node]
                first = 1 / (1 + np.exp(-score))
                chance *= first if child == 2 * node + 1 else 1 - first
            expected += chance * sum(
                costs[f]
                * np.sqrt(sum(tree.weights[node, 0, f] ** 2 for node in path) + smoothing**2)
                for f in range(3)
            )
    assert relaxed == pytest.approx(expected / len(Z))


def test_the_weight_of_inner_nodes_is_that_of_their_loss():
    rng = np.random.default_rng(0)
    tree = GateTree(rng.normal(size=(3, 1, 3)), np.array([0.2]))
    Z, target = np.column_stack([rng.normal(size=(9, 2)), np.ones(9)]), np.ones((9, 1))
    data = Data(Z, target, np.arange(2), np.zeros(2), 0.0, inner_weight=1.0)
    root = np.logaddexp(0.0, -(Z @ tree.weights[0, 0])).mean()
    for weight in (0.0, 0.3):
        less = loss(tree, data, 0.1)[0] - loss(tree, data._replace(inner_weight=weight), 0.1)[0]
        assert less == pytest.approx((1 - weight) * root)


def quadrants(seed, n=600):
    """Two cheap signs say which one of four dear features says the class: the ideal costs 12."""
    rng = np.random.default_rng(seed)
    signs, dear = rng.choice([-1.0, 1.0], size=(n, 2)), rng.normal(size=(n, 4))
    dear += 0.3 * np.sign(dear)
    which = 2 * (signs[:, 0] > 0) + (signs[:, 1] > 0)
    return np.column_stack([signs, dear]), (dear[np.arange(n), which] > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [41, 52])
def test_a_tree_of_classifiers_can_be_a_tree(seed):
    """Trained and chosen on records of their own, it is right about all new ones at cost 12."""
    costs = np.array([1.0, 1.0, 10.0, 10.0, 10.0, 10.0])
    held, new = quadrants(seed + 1000), quadrants(seed + 2000)

    def tuned(inner_weight):
        grid = [CSTC(tradeoff, 2, inner_weight, costs=costs) for tradeoff in (0.1, 0.215, 0.464)]
        fitted = [model.fit(*quadrants(seed)) for model in grid]
        assert all(model.converged_ for model in fitted)
        return max(fitted, key=lambda model: measure(model, *held).plain_aggregate)

    tree = measure(tuned(0.0), *new)
    assert tree.plain_accuracy == 1.0
    assert tree.cost == 12.0
    papers = measure(tuned(1.0), *new)  # score and gate share one set of weights
    assert papers.cost > 20
    assert papers.plain_accuracy < 0.9


def test_a_tree_ends_where_nothing_leads_down():
    X, y, *_ = records()
    Z = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    prices = 0.3 * COSTS / COSTS.sum()
    data = Data(Z, y[:, np.newaxis].astype(float), np.arange(6), prices, 1 / len(X), 0.1)
    with threadpool_limits(1):
        end = fit_tree(np.full((1, 7), 0.1), 2, data, 4, np.random.default_rng(0))
    _, gradient = loss(end.tree, data, SMOOTHINGS[-1])
    assert end.converged
    assert np.abs(gradient.weights).max() < 1e-3
    assert np.abs(gradient.gates).max() < 1e-3
    for seed in range(20):  # nowhere near is it less
        moved = end.tree.flat() + 1e-2 * np.random.default_rng(seed).normal(
            size=len(end.tree.flat())
        )
        assert loss(end.tree.like(moved), data, SMOOTHINGS[-1])[0] > end.value


def test_a_tree_that_was_stopped_says_so(monkeypatch):
    X, y, *_ = records()
    monkeypatch.setattr(cstc, "_MAX_ITERATIONS", 3)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        model = CSTC(0.3, 2, costs=COSTS).fit(X, y)
    assert not model.converged_


def test_more_starts_end_no_higher():
    X, y, *_ = records(n=120)
    losses = [CSTC(0.1, 2, 0.0, n, costs=COSTS).fit(X, y).loss_ for n in (1, 4, 12)]
    assert losses[0] >= losses[1] - 1e-9 >= losses[2] - 2e-9


def test_a_tree_without_gates_is_one_classifier():
    X, y, new, _ = records()
    model = CSTC(0.0, depth=0, costs=COSTS).fit(X, y)
    plain = SingleStage(COSTS).fit(X, y)
    assert model.acquired(new).all()
    np.testing.assert_allclose(model.predict_proba(new), plain.predict_proba(new), atol=1e-4)


@pytest.mark.quick(5)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("baseline", baselines(), ids=lambda baseline: type(baseline).__name__)
def test_the_measure_counts_what_predict_says(baseline, classes):
    X, y, new, labels = records(classes)
    if "reject_label" in baseline.get_params():
        baseline.set_params(reject_label=-1, threshold=0.6)
    found, said = measure(baseline.fit(X, y), new, labels), baseline.predict(new)
    answered = said != -1
    assert found.coverage == answered.mean()
    assert found.accuracy == (said[answered] == labels[answered]).mean()
    assert found.cost == pytest.approx(baseline.acquisition_cost(new).mean())
    share = found.cost / COSTS.sum()
    assert found.aggregate == pytest.approx(found.coverage + found.accuracy + 1 - share)
    likely = baseline.predict_proba(new).argmax(axis=1)
    assert found.plain_accuracy == (likely == labels).mean()
    assert found.plain_aggregate == pytest.approx(found.plain_accuracy + 1 - share)
    assert found.accuracy > 1 / classes


@pytest.mark.parametrize("baseline", priced(), ids=lambda baseline: type(baseline).__name__)
def test_thresholds_may_differ_by_class(baseline):
    X, y, new, _ = records()
    baseline.set_params(threshold={0: 1.0, 1: 0.5}, reject_label=-1).fit(X, y)
    likely = baseline.predict_proba(new).argmax(axis=1)
    np.testing.assert_array_equal(baseline.conclusive(new), likely == 1)
