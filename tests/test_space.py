"""Spaces: what they draw, what they hold, and the paper's closing of gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from framework.errors import InputError
from framework.space import Bits, Box, Counts, Integers, Partition, compress
from tests import oracles

SPACES = [
    Partition(1, 1),
    Partition(6, 1),
    Partition(6, 6),
    Partition(9, 4),
    Partition(9, 4, removal=True),
    Partition(2, 2, removal=True),
    Partition(200, 150),
    Partition(6, 4, removal=True, levels=3, values=5),
    Partition(4, 1, levels=1, values=3),
    Partition(6, 4, removal=True, levels=4, values=5, last=True),
    Partition(4, 1, levels=1, values=3, last=True),
    Counts(5, 3),
    Counts(5, 3, empty=False),
    Counts(1, 4, empty=False),
    Bits(1),
    Bits(7),
    Integers([0, 0, 0, 0], [1, 1, 1, 3], members=3),
    Integers([-2, 5], [4, 5]),
    Box(np.zeros(3), np.ones(3)),
    Box(np.array([-2.0, 5.0]), np.array([-1.0, 5.0])),
]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_samples_belong_to_the_space(space):
    X = space.sample(np.random.default_rng(0), 500)
    assert X.shape == (500, space.d)
    assert X.dtype == space.dtype
    assert space.contains(X).all()
    assert (space.lower <= X).all()
    assert (space.upper >= X).all()


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_neighbours_of_the_bounds_are_outside(space):
    X = space.sample(np.random.default_rng(0), 4)
    for x, beyond in ((X.copy(), space.lower[0] - 1), (X.copy(), space.upper[0] + 1)):
        x[:, 0] = beyond
        assert not space.contains(x).any()


@pytest.mark.parametrize(
    "space",
    [
        Partition(4, 2),
        Partition(4, 3),
        Partition(5, 5),
        Partition(3, 3, removal=True),
        Partition(4, 2, removal=True),
        Partition(3, 3, levels=1, values=3),
        Partition(3, 3, levels=2, values=2),
        Partition(3, 2, levels=2, values=2, last=True),
    ],
    ids=lambda space: f"{space!r}, removal={space.removal}, levels={space.levels}",
)
def test_every_partition_is_as_likely_as_any_other(space):
    lots = 200 * space.size
    for seed in (0, 1):
        X = space.sample(np.random.default_rng(seed), lots)
        found = np.unique(X, axis=0, return_counts=True)[1]
        assert len(found) == space.size
        assert chisquare(found).pvalue > 1e-3
    by_size = space.sample_by_size(np.random.default_rng(0), lots)
    found = np.unique(by_size, axis=0, return_counts=True)[1]
    assert len(found) == space.size
    assert chisquare(found).pvalue < 1e-9


def test_stage_counts_of_many_items_are_drawn_by_how_many_designs_have_them():
    X = Partition(12, 3).sample(np.random.default_rng(0), 20_000)
    shares = np.bincount(X.max(axis=1), minlength=3) / len(X)
    assert shares == pytest.approx([1 / 523_251, 4_094 / 523_251, 519_156 / 523_251], abs=2e-3)
    by_size = Partition(12, 2).sample_by_size(np.random.default_rng(0), 20_000)
    first = (by_size == 0).sum(axis=1) % 12  # a cut before all items leaves one block of 12
    assert np.bincount(first) / len(first) == pytest.approx(np.full(12, 1 / 12), abs=0.01)
    large = Partition(200, 150).sample(np.random.default_rng(0), 200)  # counts beyond a double
    assert large.max(axis=1).min() > 110


def test_counts_without_the_empty_one():
    space = Counts(40, 50, empty=False)
    X = space.sample(np.random.default_rng(0), 4000)
    members = (X > 0).sum(axis=1)
    assert members.min() == 1
    assert 5 <= np.median(members) <= 7  # a log-uniform number of 1 to 40
    assert 5 <= np.median(X[X > 0]) <= 8
    assert X.max() == 50
    assert not space.contains(np.zeros((1, 40), dtype=np.int32)).any()
    assert Counts(40, 50).contains(np.zeros((1, 40), dtype=np.int32)).all()
    few = Counts(2, 2, empty=False)
    assert few.size == 8
    assert len(np.unique(few.sample(np.random.default_rng(0), 500), axis=0)) == 8


def test_partitions_with_gaps_or_without_items_are_outside():
    space = Partition(4, 3, removal=True)
    rows = np.array(
        [[0, 1, 2, 0], [0, 0, 0, 2], [1, 1, 1, 1], [-1, 0, 0, 1], [-1, -1, -1, -1], [-1, 1, 1, 1]]
    )
    assert space.contains(rows).tolist() == [True, False, False, True, False, False]
    assert not Partition(4, 3).contains(rows[3:4]).any()


@given(
    st.integers(1, 8).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(-1, 6), min_size=d, max_size=d), min_size=1, max_size=8
        )
    ),
    st.sampled_from([np.int8, np.int16, np.int64]),
)
def test_compress_is_the_loop_of_the_paper(rows, dtype):
    X = np.array(rows, dtype=dtype)
    found = compress(X)
    assert found.dtype == dtype
    assert found.tolist() == [oracles.compress(row) for row in rows]
    assert np.array_equal(compress(found), found)


@pytest.mark.parametrize("space", [s for s in SPACES if isinstance(s, Partition)], ids=repr)
def test_repaired_rows_are_genomes_and_genomes_stay(space):
    rng = np.random.default_rng(0)
    genomes = space.sample(rng, 100)
    assert np.array_equal(space.repaired(genomes), genomes)
    rows = rng.integers(space.lower, space.upper, size=(500, space.d), endpoint=True)
    before, repaired = rows.copy(), space.repaired(rows)
    assert space.contains(repaired).all()
    assert repaired.dtype == space.dtype
    assert np.array_equal(rows, before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Partition(0, 1), "at least one item"),
        (lambda: Partition(3, 4), "k=4"),
        (lambda: Partition(3, 0), "k=0"),
        (lambda: Partition(3, 2, levels=2, values=3), "found 2 of 3"),
        (lambda: Counts(3, 0), "max_count=0"),
        (lambda: Bits(0), "at least one item"),
        (lambda: Box(np.zeros(2), np.ones(3)), r"\(2,\)"),
        (lambda: Box(np.ones(2), np.zeros(2)), "lower <= upper"),
        (lambda: Integers([0, 0], [1]), "shape"),
        (lambda: Integers([2], [1]), "lower <= upper"),
        (lambda: Integers(np.array([0.5]), [1]), "whole numbers"),
        (lambda: Integers([1, 0], [1, 1], 1), "each with lower 0"),
        (lambda: Integers([0, 0], [0, 4], 1), "a member that can be picked"),
    ],
)
def test_impossible_spaces_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    "space",
    [
        Integers([0, 0, 0, 0], [1, 1, 1, 3], members=3),
        Integers([0, 0, -1], [2, 0, 1], members=2),
        Integers([-2, 5, 0], [1, 6, 2]),
    ],
    ids=repr,
)
def test_the_size_of_whole_numbers_is_how_many_there_are(space):
    shape = space.upper - space.lower + 1
    everything = np.indices(shape).reshape(space.d, -1).T + space.lower
    assert space.contains(everything).sum() == space.size
    drawn = np.unique(space.sample(np.random.default_rng(0), 4000), axis=0)
    assert len(drawn) == space.size
