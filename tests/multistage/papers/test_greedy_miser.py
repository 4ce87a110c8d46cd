"""GreedyMiser against its slow and obvious twin: cost-penalised regression trees."""

from itertools import pairwise

import numpy as np
import pytest

from algorithms.multistage.papers.greedy_miser import MOST_BINS, GreedyMiser, cut_points
from tests.multistage.papers.data import COSTS, records

TIE = 1e-10


def first_best(worth):
    """Return the position of the greatest, the first of equals up to rounding."""
    best = 0
    for j in range(1, len(worth)):
        if worth[j] > worth[best] + TIE:
            best = j
    return best


def best_cut(Z, gradient, records, column):
    """Return what the best cut of some records on a column saves, of all midpoints, and it."""
    best = (-np.inf, np.nan)
    g, values = gradient[records], np.unique(Z[records, column])
    for low, high in pairwise(values):
        left = Z[records, column] <= low
        saved = g[left].sum() ** 2 / left.sum() + g[~left].sum() ** 2 / (~left).sum()
        saved -= g.sum() ** 2 / len(g)
        if saved > best[0] + TIE:
            best = (saved, (low + high) / 2)
    return best


def full_tree(Z, gradient, paid, depth):
    """Return the predictions and the cuts (column, where) of a tree that splits all it can."""
    leaves, cuts = [np.arange(len(Z))], []
    for _ in range(depth):
        split = []
        for leaf in leaves:
            found = [best_cut(Z, gradient, leaf, c) for c in range(Z.shape[1])]
            worth = np.array([saved for saved, _ in found]) - paid
            column = first_best(worth)
            if worth[column] == -np.inf:
                split.append(leaf)
                continue
            cuts.append((column, found[column][1]))
            left = Z[leaf, column] <= found[column][1]
            split += [leaf[left], leaf[~left]]
        leaves = split
    predictions = np.empty(len(Z))
    for leaf in leaves:
        predictions[leaf] = gradient[leaf].mean()
    return predictions, cuts


def boost_full_squares(Z, y, prices, *, rounds, step, depth):
    """Return scores after boosting full trees on the squared loss, features bought, and cuts."""
    scores, bought, cuts = np.zeros(len(y)), np.zeros(Z.shape[1], dtype=bool), []
    for _ in range(rounds):
        predictions, own = full_tree(Z, y - scores, np.where(bought, 0.0, prices), depth)
        bought[[column for column, _ in own]] = True
        scores += step * predictions
        cuts.append(sorted(own))
    return scores, bought, cuts


@pytest.mark.quick(3)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("tradeoff", [0.0, 0.01, 0.1, 3.0])
def test_full_trees_are_those_of_their_slow_twin(depth, tradeoff):
    """Every node with a cut is split, features get free tree by tree, cuts are the node's own."""
    X, y, *_ = records(n=160)
    model = GreedyMiser(tradeoff, depth, 5, 0.7, costs=COSTS).fit(X, y)
    Z = model.encoder_.transform(X)
    prices = tradeoff * len(X) * COSTS / COSTS.sum()
    scores, bought, cuts = boost_full_squares(
        Z, 2.0 * y - 1, prices, rounds=5, step=0.7, depth=depth
    )
    expected = np.clip((1 + scores) / 2, 0, 1)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, atol=1e-12)
    assert not model.acquired(X)[:, ~bought].any()
    for grown, wanted in zip(range(5), cuts, strict=True):
        column, threshold = model.forest_.column[grown, 0], model.forest_.threshold[grown, 0]
        found = sorted(zip(column[column >= 0], threshold[column >= 0], strict=True))
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_what_a_tree_buys_is_free_from_the_next_one_on():
    """A dear column that is a little better than a free one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = np.column_stack([y + rng.normal(size=400), y + 0.9 * rng.normal(size=400)])
    model = GreedyMiser(0.5, 3, 1, 0.1, costs=[0.0, 1.0]).fit(X, y)
    assert set(model.forest_.column[model.forest_.column >= 0]) == {0}


def test_cut_points_of_a_column_with_many_values_are_near_its_quantiles():
    Z = np.column_stack([np.arange(20_000.0), np.repeat(np.arange(50.0), 400)])
    cuts = cut_points(Z)
    many, few = (row[np.isfinite(row)] for row in cuts)
    assert len(many) == MOST_BINS - 1
    assert np.diff(many).max() <= 21
    np.testing.assert_array_equal(few, np.arange(49) + 0.5)
