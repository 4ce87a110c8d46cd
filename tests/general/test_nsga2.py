"""NSGA-II on arrays, against the rules of the paper written row by row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from algorithms.cascade.problem import CascadeProblem
from algorithms.general.nsga2 import NSGAII, crowding_distances
from framework.batch import Evaluated
from framework.pareto import pareto_layers
from framework.roles import Constraint, Objective, Roles
from tests.cascade.tables import made_up
from tests.conftest import roles_of
from tests.landscape import generations
from tests.searching import searched
from tests.toys import StagesToy


def distances_by_row(losses, layer):
    """Return crowding-distance-assignment of the paper, on distinct rows of each layer."""
    total = np.zeros(len(losses))
    for each in set(layer.tolist()):
        rows: list[int] = []
        for i in np.flatnonzero(layer == each).tolist():
            if not any((losses[i] == losses[k]).all() for k in rows):
                rows.append(i)
        for column in losses.T:
            rows.sort(key=lambda i: (column[i], i))
            span = column[rows[-1]] - column[rows[0]]
            total[rows[0]] = total[rows[-1]] = np.inf
            for before, i, after in zip(rows, rows[1:], rows[2:], strict=False):
                total[i] += (column[after] - column[before]) / span if span else 0.0
    return total


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 4), st.sampled_from([3, 10**9]))
def test_crowding_distances_are_those_of_the_paper(seed, n, m, values):
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, values, (n, m)) / 7
    layer = pareto_layers(losses, np.maximum(rng.integers(-2, 3, n), 0) / 3)
    assert np.allclose(crowding_distances(losses, layer), distances_by_row(losses, layer))


def test_members_are_the_best_by_layer_and_distance():
    problem = StagesToy()
    roles = roles_of(problem, Constraint("cost", at_most=5.0))
    algorithm = NSGAII(problem, roles, seed=0, population=20)
    rows = []
    for batch in generations(algorithm, problem, 5):
        rows.append(batch)
        pool = Evaluated.concat(rows)
        losses, violation = roles.losses(pool.values), roles.violation(pool.values)
        layer = pareto_layers(losses, violation)
        distance = distances_by_row(losses, layer)
        best = sorted(range(len(pool)), key=lambda i: (layer[i], -distance[i], i))[:20]
        assert sorted(algorithm.losses.tolist()) == sorted(losses[best].tolist())
        rows = [pool.take(np.sort(best))]


def test_better_members_have_more_children():
    """Tournaments: of two random members the better one is a parent, the best twice as often."""
    problem = StagesToy()
    algorithm = NSGAII(problem, roles_of(problem), seed=0, population=50)
    assert len(list(generations(algorithm, problem, 4))) == 4
    algorithm._moves.children = lambda A, B, rng: np.concatenate([A, B])
    parents = algorithm.children(20000)
    share = [(parents == member).all(axis=1).mean() for member in algorithm.genomes]
    best, half = algorithm._place == 0, np.arange(50) < 25
    assert np.isclose(np.sum(share), 1.0)
    assert 1.5 / 50 < np.mean(np.array(share)[best]) < 2.1 / 50
    assert np.sum(np.array(share)[half]) > 0.65


def test_one_objective_is_enough():
    problem = StagesToy()
    roles = Roles(problem.metrics, [Objective("cost", "min")])
    _, front, _ = searched(NSGAII, problem, roles, 1500, population=20)
    assert len(front) == 1


def test_few_items_leave_room_for_more_than_one_of_each():
    problem = CascadeProblem(made_up(3, 60))  # of its three models, there are seven choices
    roles = Roles(problem.metrics, [Objective("accuracy", "max"), Objective("cost", "min")])
    for more in {}, {"max_pending": 4}:
        _, _, record = searched(NSGAII, problem, roles, 100, population=20, **more)
        assert len(record.X) == 100
