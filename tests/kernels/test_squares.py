"""Mean squares from products of models, against whole numbers of any length."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ensembling.kernels import deviations as squares
from algorithms.ensembling.kernels.deviations import Deviations
from algorithms.ensembling.kernels.multiplicities import multiplicities_of

LARGEST = 1 << 51
whole_numbers = st.one_of(
    st.integers(-LARGEST, LARGEST), st.sampled_from([-LARGEST, LARGEST, -1, 0, 1])
)


@st.composite
def tables(draw):
    k, width = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    rows = st.lists(whole_numbers, min_size=width, max_size=width)
    whole = draw(st.lists(rows, min_size=k, max_size=k))
    most = draw(
        st.sampled_from([1, 3, 255])
    )  # of 4 models 1,020 multiplicities: the parts are near full
    counts = st.lists(st.integers(0, most), min_size=k, max_size=k).filter(any)
    return whole, draw(st.lists(counts, min_size=1, max_size=5))


def sum_of_squares(whole, x):
    """Return the sum of squares of an ensemble's deviations, before they are divided."""
    sums = [sum(c * row[i] for c, row in zip(x, whole, strict=True)) for i in range(len(whole[0]))]
    return sum(s * s for s in sums)


@given(tables())
def test_products_and_squares_are_exact(table):
    whole, X = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(squares, "_CHUNK", 4)
        products = squares.products_of(Deviations(np.array(whole, dtype=np.int64), 1.0))
    for j, one in enumerate(whole):
        for k, other in enumerate(whole):
            parts = [int(part) << 40 * i for i, part in enumerate(products[j, k])]
            assert sum(parts) == sum(a * b for a, b in zip(one, other, strict=True))
    deviations = Deviations(np.array(whole, dtype=np.int64), 2.0**-51)
    found = squares.mean_square(deviations, multiplicities_of(np.array(X)), products)
    for value, x in zip(found.tolist(), X, strict=True):
        want = Fraction(sum_of_squares(whole, x), len(whole[0]) * sum(x) ** 2 * LARGEST**2)
        assert abs(Fraction(value) - want) <= want / 2**50


def test_equal_ensembles_are_equal_to_the_bit():
    """Whichever of two models that are the same is picked, in whatever batch; opposites are 0."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(-LARGEST, LARGEST, (2, 5000))
    table = Deviations(np.stack([one, other, one, -one]), 2.0**-51)
    products = squares.products_of(table)
    X = np.array([[2, 1, 0, 0], [0, 1, 2, 0], [1, 1, 1, 0], [3, 0, 2, 5]])
    found = squares.mean_square(table, multiplicities_of(X), products)
    assert found[0] == found[1] == found[2]
    assert found[3] == 0.0
    alone = [squares.mean_square(table, multiplicities_of(x[None]), products)[0] for x in X]
    assert alone == found.tolist()


def test_large_tables_and_rows_of_many_picks_do_without():
    rng = np.random.default_rng(1)
    table = Deviations(rng.integers(-LARGEST, LARGEST, (3, 50)), 2.0**-51)
    X = np.array([[1, 2, 3], [0, 5000, 1], [1, 0, 0]])
    products = squares.products_of(table)
    found = squares.mean_square(table, multiplicities_of(X), products)
    plain = squares.mean_square(table, multiplicities_of(X))
    assert found == pytest.approx(plain, rel=1e-12)
    assert found[1] == plain[1]
    large = Deviations(np.zeros((squares.MOST_MODELS + 1, 2), dtype=np.int64), 1.0)
    assert squares.products_of(large) is None
    long = Deviations(np.zeros((1, squares.MOST_VALUES + 1), dtype=np.int64), 1.0)
    assert squares.products_of(long) is None
