"""Scores of ensembles against fractions, record by record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ensembling import means
from algorithms.ensembling.scores import CLASSIFICATION, REGRESSION, Scores, Truth
from tests import oracles
from tests.made_up_libraries import predictions

OF_CLASSES, OF_VALUES = tuple(CLASSIFICATION), tuple(REGRESSION)


@st.composite
def ensembles(draw, classes):
    """Return predictions (K, N) or (K, N, C), the truth, and counts (n, K), few or many."""
    n, k = draw(st.integers(1, 100)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    y = rng.integers(0, classes, n) if classes else rng.normal(size=n)
    if not classes:
        scale = 10.0 ** draw(st.integers(-30, 30))
        P, y = scale * (y + rng.normal(size=(k, n))), scale * y
    elif draw(st.booleans()):  # ties abound
        of = draw(st.sampled_from([1, 2, 4, 10]))
        P = rng.multinomial(of, np.full(classes, 1 / classes), (k, n)) / of
    else:
        P = rng.dirichlet(np.full(classes, draw(st.sampled_from([0.05, 1.0]))), (k, n))
        P[P < 2.0**-26] = 0.0  # the others lie on the grid: what is a tie here is one in fractions
    P = np.asarray(P[..., 1] if classes == 2 else P, dtype=np.float32)
    # ties are exact up to MAX_TOTAL; beyond, the mean is rounded and a tie may not stay one
    most = draw(st.sampled_from([1, 3, 200] if classes else [1, 3, 400, 50_000]))
    row = st.lists(st.integers(0, most), min_size=k, max_size=k).filter(any)
    return P, y, np.array(draw(st.lists(row, min_size=1, max_size=4)), dtype=np.int32)


def check(problem, names, classes, tolerance):
    P, y, X = problem
    found = Scores(names, P, Truth(y, classes))(X)
    for i, x in enumerate(X.tolist()):
        for name in names:
            want = oracles.ensemble_score(name, P, y, x, classes)
            rounding = allowed(P, y, x) if name == "log_loss" else 0.0
            near = pytest.approx(want, rel=1e-9, abs=tolerance + rounding)
            assert found[name][i] == near, (name, x)


def allowed(P, y, x):
    """Return what a rounding of 2^-52 does to a log loss."""
    mean = np.tensordot(x, P.astype(np.float64), 1) / sum(x)
    chances = mean[np.arange(len(y)), y] if mean.ndim == 2 else np.where(y == 1, mean, 1 - mean)
    return np.mean(2.0**-52 / np.maximum(chances, 2.0**-52))


@given(ensembles(2))
def test_two_classes(problem):
    check(problem, OF_CLASSES, 2, 1e-9)


@given(ensembles(4))
def test_several_classes(problem):
    check(problem, OF_CLASSES, 4, 1e-9)


@given(ensembles(0))
def test_values(problem):
    y = problem[1]
    names = OF_VALUES if np.ptp(y) > 0 else OF_VALUES[:2]
    check(problem, names, 0, 1e-12 * float(np.abs(y).max()))


@given(st.lists(st.integers(-60, 0), min_size=1, max_size=200), st.booleans())
def test_log_loss_of_the_least_probabilities(exponents, second):
    """Held to 2^-52: where the true class has little more than that, its logarithm by a half."""
    p = (2.0 ** np.array(exponents)).astype(np.float32)
    check((p[None], np.full(len(p), int(second)), np.array([[1]])), ["log_loss"], 2, 1e-12)


@pytest.mark.parametrize(("classes", "names"), [(2, OF_CLASSES), (3, OF_CLASSES), (0, OF_VALUES)])
def test_batches_change_no_bit(classes, names, monkeypatch):
    """Whole batches, parts of 1, 2 and 7 rows, and blocks of a single row."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, classes, 5000) if classes else rng.normal(size=5000)
    P = predictions(6, y, classes, rng)
    X = rng.integers(0, 4, (20, 6)).astype(np.int32)
    X[0, 0] = 1
    parent = X[[0]] + 5
    X = np.concatenate([X[X.any(axis=1)], parent + np.eye(6, dtype=np.int32), 900 * parent])
    scores = Scores(names, P, Truth(y, classes))
    found = scores(X)
    for size in (1, 2, 7):
        parts = [scores(X[i : i + size]) for i in range(0, len(X), size)]
        for name in names:
            assert np.concatenate([part[name] for part in parts]).tolist() == found[name].tolist()
    monkeypatch.setattr(means, "_BLOCK_BYTES", 1)
    small = scores(X[::-1])
    for name in names:
        assert small[name][::-1].tolist() == found[name].tolist()


def test_no_mean_is_worse_than_its_worst_member():
    """What the bounds of convex losses rest on, rounded or not."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 64)
    P = np.concatenate([np.eye(2)[y].T, rng.dirichlet([0.01, 0.01], (3, 64))[..., 1]]).astype(
        np.float32
    )
    scores = Scores(["log_loss", "brier"], P, Truth(y, 2))
    found = scores(rng.integers(1, 9, (200, 5)))
    for metric in scores.metrics():
        assert found[metric.name].max() <= metric.high
