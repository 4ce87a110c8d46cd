"""Moves on counts and subsets, and the searches of several spaces on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.general.local_search import ParetoLocalSearch
from algorithms.general.nsga2 import NSGAII
from algorithms.general.pymoo_searches import NSGAIII, SMSEMOA
from algorithms.moves import counts as moves
from algorithms.moves.variation import variation
from framework.space import Counts
from tests import oracles
from tests.ensembling.searching import searched
from tests.toys import EnsembleToy, OddSpace

SEVERAL = [NSGAII, NSGAIII, SMSEMOA, ParetoLocalSearch]


@st.composite
def vectors(draw):
    most, empty = draw(st.integers(1, 4)), draw(st.booleans())
    x = draw(st.lists(st.integers(0, most), min_size=1, max_size=6))
    return np.array(x if empty or any(x) else [1, *x[1:]], dtype=np.int32), most, empty


@given(vectors())
def test_the_neighbourhood_is_every_move_once(case):
    x, most, empty = case
    room = np.empty((moves.neighbourhood_size(x), len(x)), dtype=np.int32)
    found = [tuple(y) for y in room[: moves.neighbours(x, most, empty, room)].tolist()]
    assert len(set(found)) == len(found)
    assert set(found) == oracles.neighbours_of_numbers(Counts(len(x), most, empty), x, len(x))


@given(vectors(), st.integers(0, 1000))
def test_moves_stay_in_the_space(case, seed):
    x, most, empty = case
    space, rng = Counts(len(x), most, empty), np.random.default_rng(seed)
    rows = np.repeat(x[np.newaxis], 20, axis=0)
    moves.wander(rows, most, empty, 1, 6, rng)
    assert space.contains(rows).all()
    moves.mutate_rows(rows, most, empty, 0.5, rng)
    assert space.contains(rows).all()
    others = moves.recombine_rows(rows, np.roll(rows, 1, axis=0), empty, rng)
    assert space.contains(others).all()
    assert ((others == rows) | (others == np.roll(rows, 1, axis=0))).all() or not empty


@given(st.integers(0, 1000), st.integers(1, 30))
def test_first_rows_are_subsets_small_and_large(seed, d):
    rows = moves.first_rows(200, d, np.random.default_rng(seed))
    sizes = rows.sum(axis=1)
    assert sizes.min() == 1
    assert sizes.max() <= d
    assert rows.max() == 1


def test_other_spaces_are_refused():
    with pytest.raises(TypeError, match="found OddSpace of 2 genes"):
        variation(OddSpace())


@pytest.mark.parametrize("neighbours", [None, 1, 4])
def test_local_search_asks_for_every_ensemble_once(neighbours):
    problem = EnsembleToy(4, 3)
    algorithm, _, record = searched(
        ParetoLocalSearch, problem, evaluations=5000, batch=20, neighbours=neighbours
    )
    assert algorithm.done
    assert len(np.unique(record.X, axis=0)) == len(record.X)
    assert len(record.X) > 0.95 * problem.space.size
