"""The population that is ranked as it goes, against ranking it anew after every row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from algorithms.general import crowding
from framework.pareto import pareto_layers


def crowding_distances(F, layers):
    """Return the crowding distance of each row within its layer, as Deb et al. 2002 define it."""
    total = np.zeros(len(F))
    for layer in set(layers.tolist()):
        rows = np.flatnonzero(layers == layer)
        for j in range(F.shape[1]):
            order = np.argsort(F[rows, j], kind="stable")
            column = F[rows[order], j]
            span = column[-1] - column[0]
            gap = np.zeros(len(rows))
            gap[order[0]] = gap[order[-1]] = np.inf
            if span > 0:
                gap[order[1:-1]] = (column[2:] - column[:-2]) / span
            total[rows] += gap
    return total


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 4), st.sampled_from([3, 7, 10**9]))
def test_members_are_those_of_ranking_anew(seed, size, m, values):
    rng = np.random.default_rng(seed)
    n = 40
    F = rng.integers(0, values, (n, m)).astype(float)
    V = np.where(rng.random(n) < 0.2, rng.integers(1, 3, n), 0).astype(float)
    crowd, genomes = crowding.empty_crowd(size, m), np.zeros((size + 1, 1))
    before: list[int] = []
    for row in range(n):
        crowding.absorb(crowd, genomes, np.array([[row]]), F[[row]], V[[row]])
        held = int(crowd.size[0])
        now = genomes[:held, 0].astype(int)
        layers = pareto_layers(F[now], V[now])
        assert np.array_equal(crowd.losses[:held], F[now])
        assert np.array_equal(crowd.rank[:held], layers)
        if values > n:  # else the order of equal values decides
            assert np.allclose(crowding.distances(crowd), crowding_distances(F[now], layers))
        if len(before) == size:
            candidates = [*before, row]
            (gone,) = set(candidates) - set(now.tolist())
            all_layers = pareto_layers(F[candidates], V[candidates])
            last = all_layers == all_layers.max()
            assert last[candidates.index(gone)]
            if values > n:
                far = crowding_distances(F[candidates], all_layers)
                assert far[candidates.index(gone)] <= far[last].min() * (1 + 1e-9)
        before = now.tolist()
    for j in range(m):
        order = crowd.order[j, : int(crowd.size[0])]
        assert sorted(order) == list(range(len(order)))
        assert (np.diff(crowd.losses[order, j]) >= 0).all()


@given(st.integers(0, 10**6))
def test_winners_are_of_the_better_layer_or_less_crowded(seed):
    rng = np.random.default_rng(seed)
    F = rng.random((12, 2))
    crowd, genomes = crowding.empty_crowd(12, 2), np.zeros((13, 1))
    crowding.absorb(crowd, genomes, np.zeros((12, 1)), F, np.zeros(12))
    far = crowding_distances(F, crowd.rank[:12])
    pairs = rng.integers(12, size=(50, 2))
    for (a, b), won in zip(pairs, crowding.winners(crowd, pairs, rng.random(50)), strict=True):
        lost = b if won == a else a
        better = (-crowd.rank[won], far[won]), (-crowd.rank[lost], far[lost])
        assert better[0] >= better[1]
