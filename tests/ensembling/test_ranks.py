"""AUC by the ranks of integer keys against a count of pairs and against scikit-learn."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from algorithms.ensembling import means, ranks
from algorithms.ensembling.ranks import MAX_TOTAL, TOLERANCE, auc, exact_auc, rank_table
from tests.made_up_libraries import predictions


def pairs_of(scores, y):
    """Return each positive's score with that of each negative."""
    positives = [score for score, label in zip(scores, y, strict=True) if label]
    negatives = [score for score, label in zip(scores, y, strict=True) if not label]
    return list(itertools.product(positives, negatives))


def by_pairs(scores, y):
    """Return the share of pairs that the positive wins, ties being half a win; NaN without any."""
    pairs = pairs_of(scores, y)
    wins = sum((p > n) + 0.5 * (p == n) for p, n in pairs)
    return float(wins / len(pairs)) if pairs else float("nan")


def library(k=7, n=300, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    return predictions(k, y, classes, rng), y


def rows(k, n, picks=5, seed=1):
    draws = np.random.default_rng(seed).integers(0, k, (n, picks))
    return np.stack([np.bincount(row, minlength=k) for row in draws]).astype(np.int32)


def in_scikit_learn(P, y, X):
    means = [np.tensordot(x, P.astype(np.float64), 1) / x.sum() for x in X]
    if P.ndim == 2:
        return [roc_auc_score(y, mean) for mean in means]
    # each class against the rest: as multi_class="ovr", which wants rows that add to 1 exactly
    return [np.mean([roc_auc_score(y == c, mean[:, c]) for c in set(y)]) for mean in means]


@pytest.mark.quick(2)
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("n", [50, 1000, 9000])
def test_as_scikit_learn(classes, n):
    P, y = library(n=n, classes=classes)
    table, X = rank_table(P, y), rows(7, 9)
    assert np.allclose(auc(table, X), in_scikit_learn(P, y, X), rtol=0, atol=TOLERANCE)
    assert np.allclose(exact_auc(table, X), in_scikit_learn(P, y, X), rtol=0, atol=1e-12)


@st.composite
def coarse_problems(draw):
    """Predictions of few different values, so that ties abound; labels may be all but one."""
    n = draw(st.integers(2, 12))
    k = draw(st.integers(1, 4))
    steps = draw(st.sampled_from([1, 2, 8]))
    value = st.integers(0, steps).map(lambda v: v / steps)
    P = draw(st.lists(st.lists(value, min_size=n, max_size=n), min_size=k, max_size=k))
    y = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    most = draw(st.sampled_from([1, 3, 400]))
    x = draw(st.lists(st.integers(0, most), min_size=k, max_size=k).filter(any))
    return np.array(P, dtype=np.float32), np.array(y), np.array([x], dtype=np.int32)


@given(coarse_problems())
def test_counts_pairs_with_ties(problem):
    P, y, X = problem
    want = by_pairs((X[0][:, None] * P.astype(np.float64)).sum(axis=0), y)
    table = rank_table(P, y)
    for found in (auc(table, X), exact_auc(table, X)):
        assert np.array_equal(found, [want], equal_nan=True)


def test_classes_without_records_are_left_out():
    P, y = library(classes=5)
    kept = np.isin(y, [0, 2, 3])
    P, y = P[:, kept], y[kept]
    X = rows(7, 6)
    mixed = [np.tensordot(x, P.astype(np.float64), 1) for x in X]
    want = [np.mean([by_pairs(mean[:, c], y == c) for c in (0, 2, 3)]) for mean in mixed]
    assert np.allclose(auc(rank_table(P, y), X), want, rtol=0, atol=1e-4)
    nothing = rank_table(P[:, y == 2], y[y == 2])
    assert np.isnan(auc(nothing, X)).all()
    assert np.isnan(exact_auc(nothing, X)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_batches_change_no_bit(classes, monkeypatch):
    P, y = library(classes=classes)
    table = rank_table(P, y)
    parent = rows(7, 1, 12)
    X = np.concatenate([rows(7, 30), parent + np.eye(7, dtype=np.int32), 300 * rows(7, 3)])
    alone = np.concatenate([auc(table, X[i : i + 1]) for i in range(len(X))])
    assert np.array_equal(auc(table, X), alone)
    assert np.array_equal(auc(table, X[30:37]), alone[30:37])  # a parent and one more model
    monkeypatch.setattr(means, "_BLOCK_BYTES", 1)
    assert np.array_equal(auc(table, X), alone)
    assert np.array_equal(exact_auc(table, X[::-1]), exact_auc(table, X)[::-1])


@pytest.mark.parametrize("total", [MAX_TOTAL, MAX_TOTAL + 1, 1023, 5000, 700_000])
def test_many_picks_do_not_overflow(total):
    P = np.ones((2, 60), dtype=np.float32)
    P[0] = np.linspace(0, 1, 60)
    y = (np.arange(60) * 7 % 11 > 4).astype(np.int64)
    x = np.array([[total // 3, total - total // 3], [0, total]], dtype=np.int32)
    want = [by_pairs(P[0], y), 0.5]
    assert np.allclose(auc(rank_table(P, y), x), want, rtol=0, atol=1e-15)


def test_probabilities_crowded_at_zero_keep_their_order():
    """Fixed point sees ties there; rows of such models are ranked in floating point."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 200)
    crowded = 10.0 ** (-30 + 10 * y + 6 * rng.normal(size=(2, 200)))
    P = np.concatenate([crowded, rng.random((1, 200))]).astype(np.float32)
    table, X = rank_table(P, y), np.array([[1, 0, 0], [1, 2, 0], [0, 0, 1], [1, 1, 1]], np.int32)
    assert table.doubtful.tolist() == [True, True, False]
    assert np.allclose(auc(table, X), in_scikit_learn(P, y, X), rtol=0, atol=TOLERANCE)
    assert auc(table, X)[:2].tolist() == exact_auc(table, X)[:2].tolist()


@st.composite
def mixed_problems(draw):
    """Models of few values, of crowded ones (around a level, at any scale) and of smooth ones."""
    n = draw(st.integers(20, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    y = rng.permutation(np.arange(n) % draw(st.sampled_from([2, 2, 5])) == 0).astype(np.int64)
    models = []
    for kind in draw(
        st.lists(st.sampled_from(["few", "crowded", "smooth"]), min_size=2, max_size=4)
    ):
        noisy = y + rng.normal(size=n) * draw(st.sampled_from([0.3, 1.0, 3.0]))
        if kind == "few":  # leaves of a tree, fractions of neighbours
            levels = draw(st.sampled_from([1, 3, 10, 100]))
            models.append(np.rint(levels / (1 + np.exp(-noisy))) / levels)
        elif kind == "crowded":
            scale = 10.0 ** -draw(st.integers(1, 12))
            level = draw(st.sampled_from([0.0, 0.1, 0.5, 0.999]))
            models.append(level + scale / (1 + np.exp(-noisy)))
        else:
            models.append(1 / (1 + np.exp(-noisy)))
    P = np.clip(models, 0, 1).astype(np.float32)
    counts = st.lists(
        st.integers(0, draw(st.sampled_from([1, 3, 40]))), min_size=len(P), max_size=len(P)
    )
    X = draw(st.lists(counts.filter(any), min_size=1, max_size=4))
    return P, y, np.array(X, dtype=np.int32)


@given(mixed_problems())
def test_never_farther_from_exact_ranks_than_said(problem):
    """Exact: predictions are float32, so their sums are whole numbers of a small enough unit."""
    P, y, X = problem
    whole = [[int(Fraction(float(p)) * 2**149) for p in row] for row in P]
    for x, found, floating in zip(
        X.tolist(), auc(rank_table(P, y), X), exact_auc(rank_table(P, y), X), strict=True
    ):
        sums = [sum(c * row[i] for c, row in zip(x, whole, strict=True)) for i in range(len(y))]
        want = auc_of_whole_numbers(sums, y)
        assert abs(found - floating) <= TOLERANCE
        assert abs(found - want) <= TOLERANCE + lost_in_float64(sums, y)


def auc_of_whole_numbers(sums, y):
    order = {value: rank for rank, value in enumerate(sorted(set(sums)))}
    return roc_auc_score(y, [order[value] for value in sums])


def lost_in_float64(sums, y):
    """Return the share of pairs that differ, but by no more than float64 can tell."""
    least, pairs = max(sums) * 2**-51, pairs_of(sums, y)
    return sum(0 < abs(a - b) <= least for a, b in pairs) / len(pairs)


def test_smooth_predictions_stay_in_fixed_point(monkeypatch):
    """What is fast: rows whose keys leave few pairs open are not ranked again."""
    P, y = library(n=9000)
    table, X = rank_table(P, y), rows(7, 9)
    monkeypatch.setattr(ranks, "exact_auc", lambda *_: pytest.fail("ranked in floating point"))
    assert len(auc(table, X)) == 9
