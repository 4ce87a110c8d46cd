"""3DFCH-EMOA's rules in any number of objectives: against hulls made anew, and the exact search."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from algorithms.hull.kernels.hull_nd import most_steps
from algorithms.hull.papers.indicators import vas_of_classes
from algorithms.hull.reference import GridReference
from algorithms.hull.searches import FCHEMOA, NDFCHEMOA
from framework.errors import InputError
from framework.roles import Metric, Objective, Roles
from tests.conftest import roles_of
from tests.hull.cloud import Cloud, Genes
from tests.landscape import generations


class Ball(Genes):
    """The losses lie in a ball around the worst point: most children join its convex front."""

    def evaluate(self, X, streams):
        steps = 1.0 - X
        length = np.sqrt((steps**2).sum(axis=1, keepdims=True))
        return super().evaluate(1.0 - steps / np.maximum(length, 1.0), streams)


def points_of(algorithm, slots):
    """Return the points of some members, as shares of the cube."""
    places = algorithm.reference.corners + np.array(slots, dtype=int)
    points = algorithm._hull.points
    return points[places] / most_steps(points.shape[1])


def going(problem, *, rows, **parameters):
    """Yield a search after each of its batches."""
    algorithm = NDFCHEMOA(problem, roles_of(problem), seed=4, **parameters)
    for _ in generations(algorithm, problem, rows=rows):
        yield algorithm


@pytest.mark.quick(2)
@pytest.mark.parametrize("m", [3, 2, 4, 5])
@pytest.mark.parametrize("problem", [Genes, Ball])
def test_volume_corners_and_costs_are_those_of_hulls_made_anew(m, problem):
    before, looked = 0.0, 0
    for algorithm in going(problem(m), population=14, rows=160):
        frontal = algorithm._frontal
        points = points_of(algorithm, frontal)
        assert algorithm.vas == pytest.approx(vas_of_classes(points), rel=1e-9)
        assert algorithm.vas >= before - 1e-12
        before = algorithm.vas
        fixed = algorithm.reference.fixed / most_steps(m)
        losses = algorithm._hull.losses(algorithm.reference.corners + np.array(frontal, dtype=int))
        for i, slot in enumerate(frontal):
            others = np.concatenate([fixed, np.delete(points, i, axis=0)])
            flat = len(points) == 1
            without = 0.0 if flat else ConvexHull(others).volume
            lost = algorithm.reference.share(losses[i])
            assert lost == pytest.approx(algorithm.vas - without, abs=1e-9)
            if algorithm._losses[slot] >= 0.0:
                assert algorithm._losses[slot] == pytest.approx(losses[i], rel=1e-12)
            looked += 1
        hidden = points_of(algorithm, list(algorithm._queue))
        whole = ConvexHull(np.concatenate([fixed, points, hidden[_better(hidden, m)]]))
        assert whole.volume == pytest.approx(algorithm.vas, rel=1e-7)
    assert looked > 200
    assert before > 0.01
    if problem is Ball:
        assert algorithm.outcome().findings["by_queue"] < 0.6


def _better(points, m):
    return points.sum(axis=1) < m - 1 - 1e-9


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_in_three_objectives_it_keeps_what_the_exact_search_keeps(seed):
    """In general position; the cloud's points lie on the exact search's grid."""
    problem = Cloud(1 << 20)
    rng = np.random.default_rng(seed)
    exact = FCHEMOA(problem, roles_of(problem), seed=0, population=10)
    ours = NDFCHEMOA(problem, roles_of(problem), seed=0, population=10)
    batches = [generations(algorithm, problem) for algorithm in (exact, ours)]
    for n in [10] + 250 * [1]:
        rows = rng.random((n, 3))
        exact.propose = ours.propose = lambda rows=rows: rows
        for batch in batches:
            next(batch)
        assert exact.outcome().returned.tolist() == ours.outcome().returned.tolist()
        assert exact.vas == pytest.approx(ours.vas, abs=1e-9)
    assert 0 < exact.outcome().findings["by_queue"] < 1
    assert exact.outcome().findings == pytest.approx(ours.outcome().findings)


@pytest.mark.slow
def test_it_finds_the_best_hull_of_four_losses():
    """The genes are the losses: all corners of the cube's good side can be had."""
    *_, last = going(Genes(4), population=30, rows=4000)
    corners = np.array([[x >> j & 1 for j in range(4)] for x in range(16)], dtype=float)
    best = vas_of_classes(corners)
    assert 0.9 * best < last.vas <= best


def test_r_may_span_a_volume():
    anchors = [[1, 0, 0.5], [0, 1, 0.5], [1, 1, 0], [1, 1, 1]]
    for algorithm in going(Genes(3, anchors), population=8, rows=60):
        points = np.concatenate([np.array(anchors), points_of(algorithm, algorithm._frontal)])
        if algorithm._frontal:
            assert algorithm.vas == pytest.approx(ConvexHull(points).volume)
    assert algorithm._frontal


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([[1, 0, 0, 1], [0, 1, 1, 0]], "less than a hyperplane"),
        (
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]],
            "the hyperplane holds the ideal",
        ),
        (np.vstack([np.zeros(4), np.eye(4)]).tolist(), "nothing is left to gain"),
        ([[1, 0, 0]], "expected points of 4 numbers"),
        ([[2, 0, 0, 0]], "from 0 .best. to 1 .worst."),
    ],
)
def test_what_is_no_r_is_refused(points, words):
    with pytest.raises(InputError, match=words):
        GridReference(points, 4)


def test_one_objective_a_small_population_and_unbounded_losses_are_refused():
    problem = Genes(2)
    with pytest.raises(InputError, match="needs two to 6"):
        NDFCHEMOA(problem, Roles(problem.metrics, [Objective("f0", "min")]), seed=0)
    with pytest.raises(InputError, match=r"as many as R has points \(2\), found 1"):
        NDFCHEMOA(problem, roles_of(problem), seed=0, population=1)
    problem.metrics = (Metric("f0", "min"), Metric("f1", "min", "ratio", high=np.inf))
    with pytest.raises(InputError, match="best and a worst value"):
        NDFCHEMOA(problem, roles_of(problem), seed=0)
