"""Random search: what it draws."""

from __future__ import annotations

import numpy as np

from algorithms.general.random_search import RandomSearch
from framework.roles import Objective, Roles
from tests.toys import StagesToy


def stage_counts(**parameters):
    problem = StagesToy()
    roles = Roles(problem.metrics, [Objective("cost", "min")])
    search = RandomSearch(problem, roles, seed=0, batch=4000, **parameters)
    return np.bincount(search.ask().max(axis=1)) / 4000


def test_designs_are_drawn_from_all_alike_unless_their_stages_come_first():
    space = StagesToy().space
    alike, by_size = stage_counts(), stage_counts(sampling="by_size")
    assert alike[0] < 3 / space.size + 0.01
    assert by_size[0] >= 1 / space.k - 0.03
