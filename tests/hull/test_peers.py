"""The peers: their pieces against slow twins, their results against the paper's tables."""

import numpy as np
import pytest

from algorithms.general.pymoo_searches import RVEA
from algorithms.hull.papers import archive_peers, decomposition_peers
from algorithms.hull.papers.archive_peers import ARMOEA, TwoArch2
from algorithms.hull.papers.decomposition_peers import MOEADD, MPSOD
from algorithms.hull.papers.indicators import vas
from algorithms.hull.papers.peers import crowding, lattice, neighbours
from algorithms.hull.reference import ExactReference
from framework.errors import InputError
from framework.experiment.config import RunConfig, check
from framework.pareto import pareto_layers
from framework.problems.functions import FunctionProblem
from tests import oracles
from tests.command import POINT
from tests.conftest import roles_of
from tests.hull.cloud import searched
from tests.landscape import generations

HORIZON = 6000


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("cls", "parameters", "zed1", "zejd1"),
    [
        (TwoArch2, {}, 0.350, 0.462),
        pytest.param(MOEADD, {}, 0.348, 0.416, marks=pytest.mark.slow),
        (ARMOEA, {}, 0.347, 0.464),
        (MPSOD, {"horizon": HORIZON}, 0.329, 0.391),
    ],
    ids=["two_arch2", "moea_dd", "ar_moea", "mpso_d"],
)
def test_vas_is_near_the_papers(cls, parameters, zed1, zejd1):
    """Table 1's means, after a fifth of the evaluations: within 2% (3% of MPSO/D)."""
    for name, expected in (("zed1", zed1), ("zejd1", zejd1)):
        problem = FunctionProblem(name)
        algorithm = searched(cls, problem, HORIZON, **parameters)
        reference = ExactReference(problem.anchors(problem.metric_names))
        found = vas(algorithm.F[algorithm.returned()], reference)
        assert found == pytest.approx(expected, rel=0.03 if cls is MPSOD else 0.02)


def test_rvea_is_near_the_papers():
    problem = FunctionProblem("zed1")
    algorithm = searched(RVEA, problem, HORIZON, population=91, horizon=HORIZON)
    losses = algorithm._search.pop.get("F")
    reference = ExactReference(problem.anchors(problem.metric_names))
    assert vas(losses, reference) == pytest.approx(0.344, rel=0.02)
    assert 40 <= len(losses) <= 70  # the notes of an independent run: 55 survivors


def test_lattices_are_the_simplex():
    for m, most, count, cuts in ((3, 100, 91, 12), (2, 10, 10, 9), (4, 60, 56, 5), (3, 3, 3, 1)):
        W = lattice(m, most)
        assert len(W) == count
        np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-5)
        np.testing.assert_allclose(W * cuts, np.rint(W * cuts), atol=1e-4)
        assert len(np.unique(W, axis=0)) == count
        assert (neighbours(W)[:, 0] == np.arange(count)).all()


def test_crowding_is_debs():
    F = np.array([[0.0, 1.0], [0.25, 0.5], [0.5, 0.25], [1.0, 0.0]])
    assert crowding(F).tolist() == [np.inf, 0.5 + 0.75, 0.75 + 0.5, np.inf]


@pytest.mark.parametrize("seed", range(6))
def test_the_convergence_archive_weeds_as_written(seed):
    """Fitness made anew after each deletion, row by row."""
    F = np.random.default_rng(seed).random((14, 3))
    left = list(range(14))
    scale = [max(abs((F[i] - F[j]).max()) for i in range(14)) for j in range(14)]
    while len(left) > 6:
        fitness = {
            j: sum(-np.exp(-(F[i] - F[j]).max() / scale[j] / 0.05) for i in left if i != j)
            for j in left
        }
        left.remove(min(fitness, key=fitness.get))
    assert np.flatnonzero(archive_peers._least_epsilon(F, 6)).tolist() == left


def igd_ns(F, R):
    """Return IGD-NS of members to adjusted reference points, both as given."""
    distance = np.linalg.norm(F[:, None] - R[None], axis=2)
    idle = np.setdiff1d(np.arange(len(F)), distance.argmin(axis=0))
    return distance.min(axis=0).sum() + distance[idle].min(axis=1).sum()


@pytest.mark.parametrize("seed", range(8))
def test_ar_moea_weeds_by_the_whole_indicator(seed):
    rng = np.random.default_rng(seed)
    F, R = rng.random((16, 3)), rng.random((9, 3))
    distance = np.linalg.norm(F[:, None] - R[None], axis=2)
    left = list(range(16))
    while len(left) > 5:
        left.remove(min(left, key=lambda k: igd_ns(F[[i for i in left if i != k]], R)))
    # an idle member's distance is to its nearest reference point, whoever is left
    assert archive_peers._least_igd_ns(distance, 5).tolist() == left
    alive = np.ones(16, dtype=bool)
    assert archive_peers._igd_ns(distance, alive) == pytest.approx(igd_ns(F, R))


def test_reference_points_move_to_the_foot_of_the_nearest_member():
    F, R = np.array([[1.0, 0.1, 0.1], [0.1, 0.1, 2.0]]), np.array([[1.0, 1e-6, 1e-6]])
    distance = archive_peers._distances(F, R)[:, 0]
    foot = np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(distance, np.linalg.norm(F - foot, axis=1), atol=1e-4)


def moea_dd_victim(layers, region, pbi):
    """Return the row that MOEA/DD deletes, rule by rule (its Algorithms 5 and 6)."""
    rows = range(len(region))

    def crowded(among):
        return max(
            {region[i] for i in among}, key=lambda r: (sum(region == r), sum(pbi[region == r]))
        )

    def locate_worst():
        there = [i for i in rows if region[i] == crowded(rows)]
        deepest = max(layers[i] for i in there)
        return max((i for i in there if layers[i] == deepest), key=lambda i: pbi[i])

    last = [i for i in rows if layers[i] == layers.max()]
    if layers.max() == 0:
        return locate_worst()
    if len(last) == 1:
        return last[0] if sum(region == region[last[0]]) > 1 else locate_worst()
    place = crowded(last)
    inside = [i for i in last if region[i] == place]
    return max(inside, key=lambda i: pbi[i]) if sum(region == place) > 1 else locate_worst()


@pytest.mark.parametrize("seed", range(20))
def test_moea_dd_deletes_as_its_algorithms_say(seed):
    rng = np.random.default_rng(seed)
    n, places = 12, 5
    F = np.round(
        rng.random((n, 2)) if seed % 2 else np.column_stack([a := rng.random(n), 1 - a]), 2
    )
    layers = pareto_layers(np.ascontiguousarray(F), np.zeros(n))
    region, pbi = rng.integers(places, size=n), rng.random(n)
    found = decomposition_peers._victim(layers, region, pbi, places)
    assert found == moea_dd_victim(layers, region, pbi)


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["zed1", "zed3"])
def test_moea_dd_keeps_whom_a_twin_keeps(name):
    """Fronts, regions and PBI of all members made anew for each child: none may be a step old."""
    problem = FunctionProblem(name)
    algorithm = MOEADD(problem, roles_of(problem), seed=0, population=30)
    batches = generations(algorithm, problem, 301)
    batch = next(batches)
    F, W = np.column_stack(list(batch.values.values())), lattice(3, 30)
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    ideal = F.min(axis=0)
    layered = 0
    for batch in batches:
        F = np.concatenate([F, np.column_stack(list(batch.values.values()))])
        ideal = np.minimum(ideal, F[-1])
        layers = np.array(oracles.peel(F, np.zeros(len(F))))
        region = (F @ W.T / np.linalg.norm(F, axis=1, keepdims=True)).argmax(axis=1)
        along = ((F - ideal) * W[region]).sum(axis=1)
        away = np.linalg.norm(F - ideal - along[:, None] * W[region], axis=1)
        F = np.delete(F, moea_dd_victim(layers, region, along + 5.0 * away), axis=0)
        np.testing.assert_array_equal(algorithm.F, F)
        layered += layers.max() > 0
    assert 20 < layered < 280  # both kinds of step were seen


def test_pbi_by_hand():
    W = np.array([[1.0, 1.0]])
    F = np.array([[2.0, 2.0], [2.0, 1.0]])
    found = decomposition_peers._pbi(F, W, np.zeros(2, np.int64), np.zeros(2), 5.0)
    np.testing.assert_allclose(found, [8**0.5, 3 / 2**0.5 + 5 / 2**0.5])


def test_the_horizon_comes_from_the_budget_once(tmp_path):
    raw = POINT | {"algorithm": {"kind": "mpso_d"}, "budget": {"evaluations": 700}}
    config = check(RunConfig, raw, tmp_path / "a.yaml")
    assert config.algorithm.horizon == 700
    assert config.identity()["algorithm.horizon"] == 700
    raw["algorithm"]["horizon"] = 50
    assert check(RunConfig, raw, tmp_path / "a.yaml").algorithm.horizon == 50
    problem = FunctionProblem("zed1")
    for cls in (MPSOD, RVEA):
        with pytest.raises(InputError, match=r"algorithm\.horizon: expected the number"):
            cls(problem, roles_of(problem), seed=0)
