"""Operators of boxes and of bit strings; walks, of all spaces."""

import numpy as np
import pytest

from algorithms.moves import counts, partitions, reals
from algorithms.moves.seen import Seen
from algorithms.moves.variation import variation
from framework.space import Bits, Box, Counts, Integers, Partition


def test_sbx_keeps_half_of_the_genes_and_the_parents_mean():
    rng = np.random.default_rng(0)
    A, B = np.full((40000, 2), 0.4), np.full((40000, 2), 0.6)
    low, high = np.zeros(2), np.ones(2)
    children = reals.recombine_rows(A, B, low, high, rng.random((40000, 4)))
    assert (children == 0.4).mean() == pytest.approx(0.5, abs=0.02)
    assert children[children != 0.4].mean() == pytest.approx(0.5, abs=0.005)
    assert ((children >= 0) & (children <= 1)).all()
    # with index 20 the spread factor lies within 1 +- 0.2 for nearly all children
    assert (np.abs(np.abs(children - 0.5) / 0.1 - 1) < 0.2).mean() > 0.95


def test_sbx_spread_has_the_polynomial_distribution():
    """P(beta <= b) = b^21 / 2 below 1 (Deb and Agrawal 1995)."""
    n = 40000
    U = np.column_stack([np.random.default_rng(1).random(n), np.full(n, 0.6)])
    wide = np.array([-1e9]), np.array([1e9])
    children = reals.recombine_rows(np.ones((n, 1)), -np.ones((n, 1)), *wide, U)
    for b in (0.9, 0.95, 1.0):
        assert (children[:, 0] <= b).mean() == pytest.approx(0.5 * b**21, abs=0.01)


def test_polynomial_mutation_by_its_formula():
    low, high = np.array([-2.0]), np.array([3.0])
    rng = np.random.default_rng(2)
    for x in (-2.0, -1.9, 0.5, 3.0):
        for u in rng.random(50):
            X = np.array([[x]])
            reals.mutate_rows(X, low, high, 1.0, np.array([[0.0, u]]))
            one, two = (x + 2) / 5, (3 - x) / 5
            if u < 0.5:
                delta = (2 * u + (1 - 2 * u) * (1 - one) ** 21) ** (1 / 21) - 1
            else:
                delta = 1 - (2 * (1 - u) + 2 * (u - 0.5) * (1 - two) ** 21) ** (1 / 21)
            assert X[0, 0] == pytest.approx(min(max(x + 5 * delta, -2.0), 3.0), abs=1e-12)


def test_mutation_rates():
    rng = np.random.default_rng(3)
    X = np.full((3000, 20), 0.5)
    reals.mutate_rows(X, np.zeros(20), np.ones(20), 0.05, rng.random((3000, 40)))
    assert (X != 0.5).mean() == pytest.approx(0.05, abs=0.004)
    for rate in (0.0, 0.01, 0.3, 1.0):
        B = np.zeros((4000, 50), dtype=np.int64)
        counts.flip_bits(B, rate, rng.random(B.shape))
        assert B.mean() == pytest.approx(rate, abs=0.006)
        assert B.mean(axis=0).std() < 0.02  # no bit is more likely than another


def test_single_point_crossover_is_a_head_and_a_tail():
    rng = np.random.default_rng(4)
    A, B = np.zeros((5000, 9), dtype=np.int64), np.ones((5000, 9), dtype=np.int64)
    children = counts.single_point_crossover(A, B, rng.random(5000))
    assert (np.diff(children, axis=1) >= 0).all()
    points, times = np.unique((children == 0).sum(axis=1), return_counts=True)
    assert points.tolist() == list(range(1, 9))
    assert times.min() > 500
    single = np.zeros((1, 1), dtype=np.int64)
    assert counts.single_point_crossover(single, 1 - single, np.array([0.9])).tolist() == [[0]]


def test_neighbours_in_a_box():
    x, low, high = np.array([0.0, 0.5]), np.zeros(2), np.ones(2)
    out = np.empty((reals.neighbourhood_size(x), 2))
    found = out[: reals.neighbours(x, low, high, out)]
    assert len(found) == reals.SCALES + 2 * reals.SCALES
    assert ((found != x).sum(axis=1) == 1).all()
    assert len(np.unique(found, axis=0)) == len(found)
    assert ((found >= low) & (found <= high)).all()


def test_walks_of_whole_genes_take_any_neighbour_alike():
    space = Box([0.0, -2, 0, 1], [1.0, 5, 3, 1.5], whole=[False, True, True, False])
    moves, X = variation(space), space.sample(np.random.default_rng(0), 50)
    for seed, x in enumerate(X):
        row, out = x[np.newaxis].copy(), np.empty((moves.room(x), 4))
        moves.wander(row, 1, 1, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        rng.integers(1, 2)  # the number of steps
        assert np.array_equal(row[0], out[rng.integers(moves.neighbours(x, out))])


def test_a_whole_gene_may_have_billions_of_values():
    space = Box([0.0, 0.0], [1.0, 2.0**40], whole=[False, True])
    X = space.sample(np.random.default_rng(0), 20)
    variation(space).wander(Y := X.copy(), 1, 3, np.random.default_rng(1))
    assert space.contains(Y).all()
    assert (Y != X).any(axis=1).all()


def test_seen_tells_floats_apart():
    seen = Seen()
    rows = np.array([[0.25, 0.5], [0.75, 0.5], [0.25, 0.5]])
    assert seen.add(rows).tolist() == [True, True, False]
    assert seen.knows(np.array([[0.26, 0.5], [0.75, 0.5]])).tolist() == [False, True]


@pytest.mark.parametrize("space", [Box(np.full(3, -1.0), np.ones(3)), Bits(12)])
def test_children_stay_in_the_space(space):
    moves = variation(space, mutation_rate=0.5, crossover_rate=0.7)
    rng = np.random.default_rng(5)
    X = moves.first(200, rng)
    children = moves.children(X, X[::-1], rng)
    assert space.contains(children).all()
    moves.wander(children, 2, 5, rng)
    assert space.contains(children).all()
    assert (children != X).any(axis=1).mean() > 0.9


def test_children_in_a_box_are_crossed_then_mutated():
    space, parents = Box(np.zeros(3), np.arange(1.0, 4.0)), np.random.default_rng(0)
    A, B = space.sample(parents, 20), space.sample(parents, 20)
    moves = variation(space, mutation_rate=0.5)
    one, two = np.random.default_rng(1), np.random.default_rng(1)
    expected = moves.mutate(moves.crossed(A, B, one), one)
    assert np.array_equal(moves.children(A, B, two), expected)
    assert one.random() == two.random()


def test_rates_that_suit_the_space():
    assert variation(Bits(50)).mutation_rate == 1 / 50
    assert variation(Bits(50)).crossover_rate == 0.9
    assert variation(Box(np.zeros(4), np.ones(4))).crossover_rate == 1.0
    assert variation(Bits(50), 0.0, 0.0).crossover_rate == 0.0


@pytest.mark.parametrize(("levels", "last"), [(1, False), (3, False), (1, True), (4, True)])
def test_levels_of_partitions_move_and_stay_genomes(levels, last):
    space = Partition(5, 4, True, levels, 3, last)
    moves, rng = variation(space, mutation_rate=0.3), np.random.default_rng(levels)
    A, B = (space.sample(rng, 200).astype(np.int64) for _ in range(2))
    walked = A.astype(space.dtype)
    moves.wander(walked, 1, 3, rng)
    cdf = partitions.beta_binomial_cdf(4, 2.0)
    weights = np.ones(200).cumsum()
    bred = partitions.breed(A.astype(space.dtype), weights, 200, 4, 0.8, 0.3, cdf, True, 5, 3, rng)
    for rows in (walked, space.settle(bred), moves.children(A, B, rng), moves.first(200, rng)):
        assert space.contains(rows).all()
        assert set(rows[:, 5].tolist()) == {0, 1, 2}


def test_the_last_block_has_a_level_where_it_is_to_have_one():
    space = Partition(3, 2, False, 2, 3, last=True)
    x, moves = np.array([0, 0, 0, 1, 0], dtype=np.int8), variation(space)
    out = np.empty((moves.room(x), 5), dtype=np.int8)
    found = out[: moves.neighbours(x, out)]
    assert space.contains(found).all()
    assert {tuple(row[3:].tolist()) for row in found if not row[:3].any()} == {(0, 0), (2, 0)}


def test_neighbours_change_a_level_or_the_items():
    space = Partition(3, 3, False, 2, 3)
    x = np.array([0, 1, 1, 2, 0], dtype=np.int8)
    moves = variation(space)
    out = np.empty((moves.room(x), 5), dtype=np.int8)
    found = out[: moves.neighbours(x, out)]
    assert space.contains(found).all()
    same_items = found[(found[:, :3] == x[:3]).all(axis=1)]
    other = {tuple(row[3:].tolist()) for row in same_items}
    assert {(0, 0), (1, 0)} <= other <= {(0, 0), (1, 0), (2, 0)}
    merged = found[(found[:, :3] == 0).all(axis=1)]
    assert len(merged)
    assert not merged[:, 3:].any()


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "space",
    [
        Counts(3, 2, empty=False),
        Counts(3, 2),
        Bits(4),
        Integers([0, 0, 0, 0], [1, 1, 1, 3], members=3),
        Partition(4, 3, removal=True),
        Integers([0, 0], [3, 2]),
    ],
    ids=repr,
)
def test_walks_reach_the_whole_space(space):
    walk = variation(space)
    rows = np.repeat(walk.scatter(1, np.random.default_rng(1)), 20_000, axis=0)
    walk.wander(rows, 1, 12, np.random.default_rng(0))
    assert len(np.unique(rows, axis=0)) == space.size
