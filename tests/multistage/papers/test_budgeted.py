"""What a record costs, traced record by record through the fitted models."""

import numpy as np
import pandas as pd
import pytest

from algorithms.multistage.papers.cact_lasso import CaCTLasso
from algorithms.multistage.papers.cegb import CEGB
from algorithms.multistage.papers.cstc import CSTC
from algorithms.multistage.papers.greedy_miser import GreedyMiser
from framework.errors import InputError
from tests.multistage.papers.data import COSTS, priced, records


def lasso_path(model, z):
    return {j for j in range(len(z)) if model.linear_.coef_[:, j].any()}


def miser_path(model, z):
    column, threshold, _ = model.forest_
    read = set()
    for tree in np.ndindex(column.shape[:2]):
        m = 0
        while column[tree][m] != -1:
            read.add(column[tree][m])
            m = 2 * m + (1 if z[column[tree][m]] <= threshold[tree][m] else 2)
    return read


def cstc_path(model, z):
    read, node = set(), 0
    inner = len(model.tree_.gates)
    while True:
        weights = model.tree_.weights[node]
        read |= {j for j in range(len(z)) if weights[:, j].any()}
        if node >= inner:
            break
        scores = weights[:, :-1] @ z + weights[:, -1]
        score = scores[node % len(scores)]
        node = 2 * node + (1 if score > model.tree_.gates[node] else 2)
    leaf = model.leaves_[node - inner]
    assert {j for j in range(len(z)) if np.abs(leaf.coef_[:, j]).max() > 1e-12} <= read
    return read


def cegb_path(model, z):
    read = set()
    for tree in model.booster_.dump_model()["tree_info"]:
        node = tree["tree_structure"]
        while "split_feature" in node:
            read.add(node["split_feature"])
            side = "left" if z[node["split_feature"]] <= node["threshold"] else "right"
            node = node[f"{side}_child"]
    return read


PATHS = {CaCTLasso: lasso_path, GreedyMiser: miser_path, CSTC: cstc_path, CEGB: cegb_path}


@pytest.mark.quick(4)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("baseline", priced(), ids=lambda baseline: type(baseline).__name__)
def test_a_record_pays_once_for_each_feature_on_its_path(baseline, classes):
    X, y, new, _ = records(classes)
    baseline.fit(X, y)
    Z = baseline.encoder_.transform(new)
    expected = [sum(COSTS[j] for j in PATHS[type(baseline)](baseline, z)) for z in Z]
    np.testing.assert_allclose(baseline.acquisition_cost(new), expected)
    assert 0 < np.mean(expected) < COSTS.sum()
    # values that a record does not need do not matter
    others = new[np.random.default_rng(0).permutation(len(new))]
    mixed = np.where(baseline.acquired(new), new, others)
    np.testing.assert_array_equal(baseline.predict_proba(mixed), baseline.predict_proba(new))


@pytest.mark.parametrize("baseline", priced(), ids=lambda baseline: type(baseline).__name__)
def test_a_category_is_one_feature_whatever_its_columns(baseline):
    X, y, *_ = records()
    colours = np.array(["red", "green", "blue"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    frame = pd.DataFrame(X[:, 1:3], columns=["a", "b"]).assign(colour=colours)
    baseline.set_params(costs=[1.0, 2.0, 4.0]).fit(frame, y)
    needed = baseline.acquired(frame)
    assert needed.shape == (len(X), 3)
    np.testing.assert_allclose(baseline.acquisition_cost(frame), needed @ [1.0, 2.0, 4.0])
    free = baseline.set_params(costs=np.zeros(3)).fit(frame, y)
    assert not free.acquisition_cost(frame).any()


@pytest.mark.parametrize(
    ("baseline", "price", "least"),
    [
        (GreedyMiser(), 0.05, 20.0),  # the two cheapest: it has no way not to split
        (CSTC(starts=3), 0.3, 0.0),
        (CEGB(), 0.3, 0.0),
    ],
)
def test_a_higher_price_buys_less(baseline, price, least):
    X, y, *_ = records()
    baseline.set_params(costs=COSTS)
    costs = [
        baseline.set_params(tradeoff=tradeoff).fit(X, y).acquisition_cost(X).mean()
        for tradeoff in (0.0, price, 100.0)
    ]
    assert costs[0] > costs[1] > costs[2] == least


@pytest.mark.parametrize("baseline", priced(), ids=lambda baseline: type(baseline).__name__)
def test_parameters_that_make_no_sense_are_refused(baseline):
    X, y, *_ = records()
    name = "penalty" if isinstance(baseline, CaCTLasso) else "tradeoff"
    with pytest.raises(InputError, match="expected"):
        baseline.set_params(**{name: -1.0}).fit(X, y)
