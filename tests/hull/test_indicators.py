"""VAS, Gini, IGD and PD: against Qhull, sums by hand, and the published pseudo-code."""

from math import factorial

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from algorithms.hull.papers.indicators import (
    GINI,
    IGD,
    PURE_DIVERSITY,
    VAS,
    gini,
    igd,
    pure_diversity,
    vas,
    vas_of_classes,
)
from algorithms.hull.reference import THREE_CLASSES, TWO_CLASSES, ExactReference
from framework.analysis.indicators import Judged, indicators
from framework.problems.functions import FunctionProblem
from tests.conftest import roles_of


@pytest.mark.parametrize("anchors", [THREE_CLASSES, TWO_CLASSES])
@pytest.mark.parametrize("seed", range(3))
def test_vas_is_qhulls_volume_on_the_good_side(anchors, seed):
    points = np.random.default_rng(seed).random((60, 3))
    side = points.sum(axis=1) < 2 if anchors is THREE_CLASSES else points[:, :2].sum(axis=1) < 1
    qhull = ConvexHull(np.concatenate([points[side], anchors]))
    assert vas(points, ExactReference(anchors)) == pytest.approx(qhull.volume, abs=1e-5)


def test_vas_of_the_best_fronts():
    """pi/6 - 1/6 and .46507: the limits of ZED1 and ZEJD1."""
    for name, limit in (("zed1", np.pi / 6 - 1 / 6), ("zejd1", 0.4650688582)):
        problem = FunctionProblem(name)
        front = problem.true_front(4000)
        found = vas(front, ExactReference(problem.anchors(problem.metric_names)))
        assert 0.97 * limit < found < limit
    assert vas(np.ones((1, 3)), ExactReference(THREE_CLASSES)) == 0.0


def test_vas_of_any_number_of_losses():
    """One point makes a simplex with R; for three losses the exact hull is the twin."""
    rng = np.random.default_rng(0)
    for m in (2, 3, 4, 5):
        point = rng.random((1, m)) / m
        simplex = (m - 1 - point.sum()) / factorial(m)
        assert vas_of_classes(np.concatenate([point, np.ones((1, m))])) == pytest.approx(simplex)
        assert vas_of_classes(1.0 - np.eye(m)) == 0.0
    cloud = rng.random((60, 3))
    assert vas_of_classes(cloud) == pytest.approx(
        vas(cloud, ExactReference(THREE_CLASSES)), abs=1e-5
    )


def test_gini_by_hand():
    line = np.array([[0.0], [1.0], [3.0], [6.0]])  # nearest: 1, 1, 2, 3
    assert gini(line) == pytest.approx((-3 * 1 - 1 * 1 + 1 * 2 + 3 * 3) / (4 * 7))
    assert gini(np.arange(9.0)[:, None]) == pytest.approx(0.0)
    assert gini(np.zeros((4, 2))) == 0.0
    assert np.isnan(gini(np.zeros((1, 2))))


def test_igd_by_hand():
    target = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert igd(np.array([[0.0, 3.0], [1.0, 1.0]]), target) == pytest.approx((2**0.5 + 1) / 2)
    assert igd(np.zeros((0, 2)), target) == np.inf


def plain_diversity(F):
    """Return PD by the published pseudo-code, connected components grown by hand."""
    n = len(F)
    D = (np.abs(F[:, None] - F[None]) ** 0.1).sum(axis=2) ** 10
    np.fill_diagonal(D, np.inf)
    C = np.eye(n, dtype=bool)
    score = 0.0
    for _ in range(n - 1):
        while True:
            J = D.argmin(axis=1)
            d = D[np.arange(n), J]
            i = int(d.argmax())
            j = int(J[i])
            if D[j, i] != -np.inf:
                D[j, i] = np.inf
            if D[i, j] != -np.inf:
                D[i, j] = np.inf
            P = C[i].copy()
            while not P[j]:
                grown = C[P].any(axis=0)
                if (grown == P).all():
                    break
                P = grown
            if not P[j]:
                break
        C[i, j] = C[j, i] = True
        D[i] = -np.inf
        score += d[i]
    return score


@pytest.mark.parametrize("seed", range(12))
def test_pure_diversity_is_the_pseudo_codes(seed):
    rng = np.random.default_rng(seed)
    F = rng.random((2 + 3 * seed, 3))
    assert pure_diversity(F) == pytest.approx(plain_diversity(F), rel=1e-9)


def test_pure_diversity_of_few():
    assert pure_diversity(np.zeros((1, 3))) == 0.0
    assert pure_diversity(np.array([[0.0, 0.0], [1.0, 0.0]])) == pytest.approx(1.0)


def test_they_are_registered_and_judge_a_run():
    problem = FunctionProblem("zed1")
    front = problem.true_front(300)
    judged = Judged(
        front, front, roles_of(problem), np.array(problem.anchors(problem.metric_names))
    )
    found = {name: indicator.measure(judged) for name, indicator in indicators().items()}
    assert found["igd"] == 0.0
    assert 0.34 < found["vas"] < 0.357
    assert 0 <= found["gini"] < 1
    assert found["pd"] > 1e4
    labels = [indicator.label for indicator in (VAS, GINI, IGD, PURE_DIVERSITY)]
    assert labels == ["VAS", "Gini", "IGD", "PD"]
