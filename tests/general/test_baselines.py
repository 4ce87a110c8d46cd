"""Grid search has every genome once; what random search draws."""

import numpy as np
import pytest

from algorithms.general.baselines import GridSearch, RandomSearch
from framework.errors import InputError
from framework.problems.functions import FunctionProblem
from framework.roles import Objective, Roles
from tests.conftest import roles_of
from tests.searching import searched
from tests.toys import StagesToy


@pytest.mark.parametrize(
    ("make", "batch"),
    [
        (StagesToy, 700),
        (lambda: StagesToy(removal=True), 10_000),
        (lambda: FunctionProblem("lotz", 7), 7),
    ],
)
def test_every_genome_is_asked_once_in_order(make, batch):
    problem = make()
    grid = GridSearch(problem, roles_of(problem), seed=0, batch=batch)
    asked = []
    while (X := grid.propose()) is not None:
        asked.append(X)
    rows = np.concatenate(asked)
    assert grid.done
    assert len(np.unique(rows, axis=0)) == len(rows) == problem.space.size
    assert problem.space.contains(rows).all()
    np.testing.assert_array_equal(rows, rows[np.lexsort(rows.T[::-1])])


def test_the_front_of_a_grid_is_the_whole_front():
    problem = FunctionProblem("lotz", 7)
    _, front, _ = searched(GridSearch, problem, roles_of(problem), generations=1000)
    assert sorted(front.rows.values["f1"]) == list(range(8))
    assert (front.rows.values["f1"] + front.rows.values["f2"] == 7).all()


def test_what_cannot_be_gone_through_is_refused():
    for problem in (FunctionProblem("zdt1", 3), FunctionProblem("lotz", 40)):
        with pytest.raises(InputError, match=r"grid (searches|goes through at most)"):
            GridSearch(problem, roles_of(problem), seed=0)


def first_stages(**parameters):
    problem = StagesToy()
    roles = Roles(problem.metrics, [Objective("cost", "min")])
    search = RandomSearch(problem, roles, seed=0, batch=4000, **parameters)
    sizes = (search.ask() == 0).sum(axis=1)
    return np.bincount(sizes, minlength=problem.space.n + 1) / 4000


def test_designs_are_drawn_from_all_alike_unless_small_stages_are_as_frequent():
    alike, by_size = first_stages(), first_stages(sampling="by_size")
    assert alike[4:].sum() < 0.1
    assert by_size[1] == pytest.approx(by_size[2], abs=0.1)
    assert by_size[4:].sum() > 0.2
