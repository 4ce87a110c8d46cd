"""The traits of members against slow twins, and scorers of scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from algorithms.ensembling.scores import OF_CONFUSION, Scores, Truth
from algorithms.ensembling.traits import (
    config_similarity,
    fixed_similarities,
    loss_correlation,
    loss_vectors,
    traits,
)
from framework.errors import InputError
from tests.made_up_libraries import made_up


def pair_mean(x, alike):
    """Return the mean of ``alike`` over unordered pairs of members; 1 for a single one."""
    members = [j for j, count in enumerate(x) if count > 0]
    pairs = [(a, b) for a in members for b in members if a < b]
    return sum(float(alike[a][b]) for a, b in pairs) / len(pairs) if pairs else 1.0


count_rows = st.lists(st.integers(0, 4), min_size=6, max_size=6).filter(any)


@given(st.lists(count_rows, min_size=1, max_size=5), st.integers(0, 10))
def test_traits_are_sums_and_pair_means(rows, seed):
    rng = np.random.default_rng(seed)
    costs, alike = rng.random((6, 3)), rng.random((2, 6, 6)).astype(np.float32)
    alike = np.maximum(alike, alike.transpose(0, 2, 1))
    X = np.array(rows, dtype=np.int32)
    fixed = np.stack([fixed_similarities(table) for table in alike])
    sizes, sums, means = traits(X, costs, fixed)
    for i in range(len(X)):
        alone = traits(X[i : i + 1], costs, fixed)
        assert all(
            np.array_equal(a[0], b[i]) for a, b in zip(alone, (sizes, sums, means), strict=True)
        )
    for i, row in enumerate(rows):
        members = [j for j in range(6) if row[j]]
        assert sizes[i].tolist() == [len(members), sum(row)]
        assert np.allclose(sums[i], costs[members].sum(axis=0), rtol=1e-14)
        assert np.allclose(means[i], [pair_mean(row, table) for table in alike])


@pytest.mark.parametrize(
    "name", ["average_precision", "neg_log_loss", "neg_brier_score", *OF_CONFUSION]
)
def test_scorers_of_scikit_learn(name):
    library = made_up(5, n=80)
    y, X = library.y_validation, np.array([[0, 2, 1, 0, 0]], dtype=np.int32)
    found = Scores([name], library.validation, Truth(y, 2))(X)[name][0]
    mean = (2 * library.validation[1] + library.validation[2].astype(float)) / 3
    want = {
        "average_precision": lambda: metrics.average_precision_score(y, mean),
        "neg_log_loss": lambda: -metrics.log_loss(y, mean),
        "f1": lambda: metrics.f1_score(y, mean > 0.5),
        "precision": lambda: metrics.precision_score(y, mean > 0.5),
        "recall": lambda: metrics.recall_score(y, mean > 0.5),
        "neg_brier_score": lambda: -metrics.brier_score_loss(y, mean),
    }[name]()
    assert found == pytest.approx(want, rel=1e-6)


def test_scores_of_one_class_are_of_the_positive_one():
    rng = np.random.default_rng(0)
    y, X = rng.integers(0, 2, 40), np.array([[1, 1]], dtype=np.int32)
    P = rng.integers(0, 2, (2, 40)).astype(np.float32)  # means of 1/2 are ties
    mean = P.mean(axis=0)
    names = [*OF_CONFUSION, "average_precision", "accuracy"]
    found = Scores(names, P, Truth(y, 2, positive=0))(X)
    for name in OF_CONFUSION:  # made from the same counts, to the bit
        assert found[name][0] == getattr(metrics, f"{name}_score")(y, mean > 0.5, pos_label=0)
    ranked = metrics.average_precision_score(1 - y, 1 - mean)
    assert found["average_precision"][0] == pytest.approx(ranked)
    assert found["accuracy"][0] == pytest.approx(metrics.accuracy_score(y, mean > 0.5))


@pytest.mark.parametrize(
    ("name", "classes", "message"),
    [
        ("rmse", 2, "expected a score for classification .*found 'rmse'"),
        ("roc_auc", 0, "expected a score for regression .*found 'roc_auc'"),
        ("roc_auk", 2, "found 'roc_auk'; did you mean 'roc_auc'"),
        ("r2_score", 0, "found 'r2_score'"),
        ("f1", 3, "expected a scorer that takes such predictions, found 'f1'"),
    ],
)
def test_unknown_scores(name, classes, message):
    library = made_up(4, classes=classes)
    with pytest.raises(InputError, match=message):
        Scores([name], library.validation, Truth(library.y_validation, classes))


def test_loss_vectors():
    binary, y = np.array([[0.9, 0.2]], np.float32), np.array([1, 0])
    assert np.allclose(loss_vectors(binary, y, True), [[0.1, 0.2]])
    several = np.array([[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]], np.float32)
    assert np.allclose(loss_vectors(several, np.array([2, 0]), True), [[0.8, 0.9]])
    assert np.allclose(loss_vectors(binary, np.array([1.0, 0.0]), False), [[0.01, 0.04]])


def test_loss_correlation_as_numpy_and_0_for_constants():
    library = made_up(6, n=90, classes=3)
    losses = loss_vectors(library.validation, library.y_validation, True)
    want = np.abs(np.corrcoef(losses))
    assert np.allclose(loss_correlation(losses), want, atol=1e-6)
    losses[2] = 1 / 3
    found = loss_correlation(losses)
    assert found[2].tolist() == [0, 0, 1, 0, 0, 0]
    assert np.allclose(found[0, 1], want[0, 1], atol=1e-6)


def test_config_similarity_is_gowers():
    configs = [
        {"family": "tree", "depth": 2, "deep": {"rate": 0.0}},
        {"family": "tree", "depth": 6, "deep": {"rate": 1.0}},
        {"family": "line", "depth": 10},
        {"other": True},
        {"depth": "none"},
    ]
    want = [
        [1, (1 + 0.5 + 0) / 3, (0 + 0) / 2, 0, 0],
        [0.5, 1, (0 + 0.5) / 2, 0, 0],
        [0, 0.25, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    assert np.allclose(config_similarity(configs), want, atol=1e-6)
