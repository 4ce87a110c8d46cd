"""Rows of counts without their zeros."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ensembling.kernels.multiplicities import multiplicities_of, shared

tables = st.integers(1, 70).flatmap(
    lambda k: st.lists(
        st.lists(st.sampled_from([0, 0, 0, 0, 0, 1, 2, 9]), min_size=k, max_size=k),
        min_size=1,
        max_size=6,
    )
)


@given(tables)
def test_picks_say_what_the_rows_do(rows):
    X = np.array(rows, dtype=np.int32)
    multiplicities = multiplicities_of(X)
    assert multiplicities.n == len(rows)
    for i, row in enumerate(rows):
        (models,) = np.nonzero(row)
        part = multiplicities.take([i])
        assert part.models.tolist() == models.tolist()
        assert part.counts.tolist() == [row[j] for j in models]
    assert shared(*multiplicities, X.shape[1]).tolist() == X.min(axis=0).tolist()
    again = multiplicities.take(np.arange(len(rows))[::-1])
    assert all(np.array_equal(a, b) for a, b in zip(again, multiplicities_of(X[::-1]), strict=True))
