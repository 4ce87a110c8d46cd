"""Moves on whole numbers with bounds of their own: picks first, ordered numbers after them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from algorithms.moves import integers as moves
from algorithms.moves.variation import variation
from framework.space import Integers
from tests import oracles


@st.composite
def vectors(draw):
    members, rest = draw(st.integers(0, 4)), draw(st.integers(0, 2))
    if members + rest == 0:
        rest = 1
    upper = [draw(st.integers(1, 3)) for _ in range(members)]
    lower = [0] * members
    for _ in range(rest):
        lower.append(draw(st.integers(-2, 2)))
        upper.append(lower[-1] + draw(st.integers(0, 4)))
    space = Integers(np.array(lower), np.array(upper), members)
    return space, space.sample(np.random.default_rng(draw(st.integers(0, 999))), 1)[0]


@given(vectors())
def test_the_neighbourhood_is_every_move_once(case):
    space, x = case
    room = np.empty((moves.neighbourhood_size(x, space.members), space.d), dtype=np.int32)
    lower, upper = space.lower.astype(np.int64), space.upper.astype(np.int64)
    count = moves.neighbours(x, lower, upper, space.members, room)
    found = [tuple(y) for y in room[:count].tolist()]
    assert len(set(found)) == len(found)
    assert set(found) == oracles.neighbours_of_numbers(space, x, space.members)


@given(vectors(), st.integers(0, 1000))
def test_moves_stay_in_the_space(case, seed):
    space, x = case
    walk, rng = variation(space, mutation_rate=0.5), np.random.default_rng(seed)
    rows = np.repeat(x[np.newaxis], 20, axis=0)
    walk.wander(rows, 1, 6, rng)
    assert space.contains(rows).all()
    assert space.contains(walk.mutate(rows.astype(np.int64), rng)).all()
    assert space.contains(walk.first(20, rng)).all()
    others = np.roll(rows, 1, axis=0)
    children = walk.recombine(rows, others, rng)
    assert space.contains(children).all()
    between = (children >= np.minimum(rows, others)) & (children <= np.maximum(rows, others))
    assert between.all()
