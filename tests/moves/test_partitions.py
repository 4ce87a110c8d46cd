"""EMSCO's operators: the paper's worked examples, recombination, mutation, the space."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from algorithms.moves import partitions
from framework.space import Partition, compress
from tests import oracles
from tests.landscape import Landscape, emsco, generations
from tests.toys import StagesToy

# --- worked examples of the paper -----------------------------------------------------------


@given(st.lists(st.integers(-1, 7), min_size=1, max_size=12))
@example([0, 0, 0, 2])  # of Section 3.1
def test_compress_is_the_papers_loop(genome):
    if max(genome) < 0:
        return
    kept = oracles.compress([stage for stage in genome if stage >= 0])
    want = [kept.pop(0) if stage >= 0 else -1 for stage in genome]
    x = np.array([min(stage, len(genome)) for stage in genome], dtype=np.int8)
    if (x == genome).all():
        stages = partitions.compress_in_place(x)
        assert x.tolist() == want
        assert stages == max(want) + 1
    assert compress(np.array([genome])).tolist() == [want]


def test_recombination_of_figure_5():
    """Parents of 3 and 2 stages, a child of 2: normalised, parent A is 0 1 0 1 0."""
    a, b = np.array([0, 2, 1, 2, 1], dtype=np.int8), np.array([1, 0, 0, 1, 0], dtype=np.int8)
    assert [partitions.rescale(gene, 3, 2) for gene in a] == [0, 1, 0, 1, 0]
    assert [partitions.rescale(gene, 2, 2) for gene in b] == [1, 0, 0, 1, 0]
    rng = np.random.default_rng(0)
    children = set()
    for _ in range(2000):
        child = np.empty(5, dtype=np.int8)
        partitions.recombine(a, 3, b, 2, child, rng)
        children.add(tuple(child.tolist()))
    options = {count: genes_of_children(a, 3, b, 2, count) for count in (2, 3)}
    assert all(any(inside(child, genes) for genes in options.values()) for child in children)
    assert (0, 0, 0, 1, 0) in children
    for genes in options.values():  # each combination of the parents' genes turns up
        assert {c for c in children if inside(c, genes)} >= set(itertools.product(*genes))


def genes_of_children(a, stages_a, b, stages_b, count):
    """Return the values each gene of a child may have, by the paper's formula."""

    def rescaled(gene, of):
        return max(math.floor((gene + 1) / of * count + 0.5) - 1, 0)

    return [
        {rescaled(x, stages_a), rescaled(y, stages_b)}
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]


def inside(child, genes):
    return all(gene in values for gene, values in zip(child, genes, strict=True))


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 6), st.booleans())
def test_children_take_each_gene_from_a_parent(seed, n, k, removal):
    rng = np.random.default_rng(seed)
    space = Partition(n, min(k, n), removal)
    a, b = space.sample(rng, 2)
    counts = int(a.max()) + 1, int(b.max()) + 1
    child = np.empty(n, dtype=space.dtype)
    partitions.recombine(a, counts[0], b, counts[1], child, rng)
    fits = []
    for count in {*counts, sum(counts) // 2}:
        genes = genes_of_children(a, counts[0], b, counts[1], count)
        options = [
            {value if gene >= 0 else -1 for gene in (x, y) for value in values}
            | ({-1} if min(x, y) < 0 else set())
            for x, y, values in zip(a, b, genes, strict=True)
        ]
        fits.append(inside(child.tolist(), options))
    assert any(fits)


# --- the space ------------------------------------------------------------------------------


def test_size_of_the_space_in_table_2():
    assert Partition(14, 4).size == 254_152_083


@pytest.mark.parametrize("removal", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 2), (3, 2), (4, 4), (5, 3), (6, 2)])
def test_size_of_the_space_is_the_number_of_ordered_partitions(n, k, removal):
    assert Partition(n, k, removal).size == len(oracles.ordered_partitions(n, k, removal))


# --- mutation -------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 7.5])
@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_beta_binomial_table(most, beta):
    table = partitions.beta_binomial_cdf(most, beta)
    assert table.shape == (most + 1, most + 1)
    for m in range(1, most + 1):
        want = betabinom(m, 1, beta).cdf(np.arange(m + 1))
        assert np.allclose(table[m, : m + 1], want, rtol=0, atol=1e-12)
        assert (table[m, m:] == 1.0).all()


@pytest.mark.quick(1)
@pytest.mark.parametrize("k", [3, 6])
def test_mutated_genes_follow_the_beta_binomial(k):
    """One gene of a stage of three is redrawn; most draws must fall in early stages."""
    draws, beta, stages = 20_000, 2.0, 3
    cdf = partitions.beta_binomial_cdf(k, beta)
    rng = np.random.default_rng(5)
    counts = np.zeros(k + 1)
    changed = 0
    for _ in range(draws):
        x = np.array([0, 0, 0, 1, 1, 2, 2], dtype=np.int8)
        partitions.mutate(x[:1], 1, 1, 0.0, cdf, False, rng)  # rate 0 changes nothing
        assert x[0] == 0
        partitions.mutate(x, stages, k, 0.02, cdf, False, rng)
        if (x[1:] == [0, 0, 1, 1, 2, 2]).all():
            counts[x[0]] += 1
            changed += x[0] != 0
    most = min(stages, k - 1)
    p = betabinom(most, 1, beta).pmf(np.arange(most + 1))
    for stage in range(1, most + 1):
        share = p[stage] / p[1:].sum()
        low, high = binom(changed, share).interval(1 - 1e-6)
        assert low <= counts[stage] <= high
    assert counts[most + 1 :].sum() == 0


@given(
    st.integers(0, 100_000),
    st.integers(1, 9),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from([0.05, 0.5, 1.0]),
)
def test_mutants_are_genomes_without_gaps(seed, n, k, removal, rate):
    rng = np.random.default_rng(seed)
    space = Partition(n, min(k, n), removal)
    cdf = partitions.beta_binomial_cdf(space.k, 2.0)
    for x in space.sample(rng, 5):
        stages = partitions.mutate(x, int(x.max()) + 1, space.k, rate, cdf, removal, rng)
        assert space.contains(x[None]).all()
        assert stages == x.max() + 1 <= space.k


def test_the_last_feature_of_a_stage_stays():
    cdf = partitions.beta_binomial_cdf(4, 2.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = np.array([0, 1, 2], dtype=np.int8)
        partitions.mutate(x, 3, 4, 1.0, cdf, False, rng)
        assert x.tolist() == [0, 1, 2]


def test_features_are_removed_and_come_back():
    cdf = partitions.beta_binomial_cdf(3, 2.0)
    rng = np.random.default_rng(0)
    gone, back = 0, 0
    for _ in range(300):
        x = np.array([0, 0, 0, -1], dtype=np.int8)
        partitions.mutate(x, 1, 3, 0.3, cdf, True, rng)
        gone += -1 in x[:3].tolist()
        back += x[3] >= 0
    assert gone > 0
    assert back > 0


def test_a_search_with_removal_finds_that_a_worthless_feature_is_best_left_out():
    """Item costs differ, the last item is worth most: the cheapest genome keeps a cheap one."""
    problem = StagesToy(n=5, k=3, removal=True)
    told = [batch.X for batch in generations(emsco(problem), problem, 20)]
    genes = np.concatenate(told)
    assert (genes == -1).any()
    assert problem.space.contains(genes).all()
    without = StagesToy(n=5, k=3)
    kept = np.concatenate([b.X for b in generations(emsco(without), without, 20)])
    assert (kept >= 0).all()


def test_the_first_generation_is_made_of_mutants_of_one_stage():
    problem = Landscape(n=8, k=4)
    assert (emsco(problem, mutation_rate=0.0).ask() == 0).all()
    mutants = emsco(problem, mutation_rate=0.3).ask()
    assert problem.space.contains(mutants).all()
    assert len(np.unique(mutants, axis=0)) > 10
