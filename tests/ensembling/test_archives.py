"""The sliding archive against its slow twin, and what it is made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ensembling.searches.archives import BestArchive, FrontArchive, SlidingArchive
from tests import oracles


def rows(rng, n, levels):
    """Return behaviours, violations and losses; with ``levels`` many of them tie."""
    behaviour = rng.normal(size=(n, 2)) ** 3
    loss = rng.random(n)
    if levels:
        behaviour, loss = np.round(behaviour * levels) / levels, np.round(loss * levels) / levels
    violation = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), 0).astype(float)
    return behaviour, violation, loss


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 400),
    levels=st.sampled_from([0, 1, 5]),
    first=st.integers(1, 60),
    every=st.integers(1, 60),
    cells=st.integers(1, 7),
)
def test_cells_hold_the_best_of_all_rows(seed, n, levels, first, every, cells):
    rng = np.random.default_rng(seed)
    behaviour, violation, loss = rows(rng, n, levels)
    bounds = np.array([[-1.0, 1.0], [-2.0, 3.0]])
    archive = SlidingArchive(*bounds.T, first=first, every=every, cells=cells)
    cuts = np.sort(rng.integers(0, n + 1, 3))
    for part in np.split(np.arange(n), cuts):
        archive.add(behaviour[part], violation[part], loss[part])
    boundaries, elites = oracles.sliding_elites(
        behaviour, violation, loss, bounds, first, every, cells
    )
    assert np.array_equal(archive.boundaries, boundaries)
    assert archive.elites.tolist() == [elites[cell] for cell in sorted(elites)]
    by_rank = sorted(elites.values(), key=lambda row: (violation[row], loss[row], row))
    assert archive.ranked().tolist() == by_rank
    assert archive.feasible().tolist() == [r for r in archive.elites if violation[r] == 0]


@pytest.mark.parametrize("order", [1, -1])
def test_rows_in_order_and_beyond_the_first_room(order):
    behaviour = np.repeat(np.arange(3000.0)[::order, None], 2, axis=1)
    archive = SlidingArchive((0.0, 0.0), (1.0, 1.0), first=100, every=60)
    loss = np.arange(3000.0) % 97
    archive.add(behaviour, np.zeros(3000), loss)
    bounds = np.array([[0.0, 1.0], [0.0, 1.0]])
    boundaries, elites = oracles.sliding_elites(behaviour, np.zeros(3000), loss, bounds, 100, 60, 7)
    assert np.array_equal(archive.boundaries, boundaries)
    assert archive.elites.tolist() == [elites[cell] for cell in sorted(elites)]


@given(st.integers(0, 10_000), st.integers(1, 200), st.integers(1, 60))
def test_the_best_of_all(seed, n, size):
    _, violation, loss = rows(np.random.default_rng(seed), n, 3)
    archive = BestArchive(size)
    for part in np.array_split(np.arange(n), 3):
        archive.add(np.zeros((len(part), 2)), violation[part], loss[part])
    expected = sorted(range(n), key=lambda row: (violation[row], loss[row], row))[:size]
    assert archive.ranked().tolist() == expected
    assert archive.feasible().tolist() == [row for row in expected if violation[row] == 0.0]


@given(st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 3), st.booleans())
def test_the_front_of_all(seed, n, objectives, feasible):
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 6, size=(n, objectives)).astype(float)
    violation = rng.integers(0 if feasible else 1, 3, n).astype(float)
    archive = FrontArchive()
    for part in np.array_split(np.arange(n), 4):
        archive.add(losses[part], violation[part], losses[part, 0])
    least = np.flatnonzero(violation == violation.min())
    expected = least[oracles.nondominated(losses[least])]
    assert sorted(archive.ranked()) == expected.tolist()
    assert (np.diff(losses[archive.ranked(), 0]) >= 0).all()
    assert sorted(archive.feasible()) == [r for r in expected if violation[r] == 0.0]
    assert len(archive) == n
