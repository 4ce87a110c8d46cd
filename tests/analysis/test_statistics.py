"""Tests on ranks against Demsar's worked example and against scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from framework.analysis.statistics import RankTests, holm, rank_tests
from framework.errors import InputError

# AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets: Demsar 2006, Table 6. In the last but
# one row (voting) the paper prints 0.975 twice and ranks them 2 and 3, from digits not printed.
AUC = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_demsars_example():
    tests = rank_tests(-AUC)
    assert tests.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert tests.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    n, k = AUC.shape
    statistic = 12 * n / (k * (k + 1)) * (float((tests.ranks**2).sum()) - k * (k + 1) ** 2 / 4)
    assert statistic == pytest.approx(9.28, abs=5e-3)
    # ties: two alike in iris, lung cancer and primary tumor, all four in mushroom
    corrected = statistic / (1 - (3 * (2**3 - 2) + 4**3 - 4) / (n * (k**3 - k)))
    assert tests.friedman == pytest.approx(stats.chi2.sf(corrected, k - 1))


def test_nemenyi_p_values_are_five_percent_at_the_critical_difference():
    tests = rank_tests(-AUC)
    apart = np.abs(tests.ranks[:, None] - tests.ranks)
    assert np.array_equal(tests.nemenyi < 0.05, apart > tests.critical_difference)
    scale = np.sqrt(4 * 5 / (6 * 14))
    expected = stats.studentized_range.sf(apart[0, 1] / scale * np.sqrt(2), 4, np.inf)
    assert tests.nemenyi[0, 1] == pytest.approx(expected)


@given(st.integers(0, 1000), st.integers(4, 15), st.integers(3, 6))
def test_friedman_and_wilcoxon_are_scipys(seed, n, k):
    table = np.random.default_rng(seed).normal(size=(n, k)) + np.arange(k) * 0.3
    tests = rank_tests(table)
    assert tests.friedman == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)
    upper = np.triu_indices(k, 1)
    raw = [stats.wilcoxon(table[:, i], table[:, j]).pvalue for i, j in zip(*upper, strict=True)]
    assert tests.wilcoxon[upper] == pytest.approx(holm(np.array(raw)))
    assert np.array_equal(tests.wilcoxon, tests.wilcoxon.T)


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=9).filter(any))
def test_wilcoxon_counts_ties_exactly(steps):
    table = np.column_stack([np.array(steps, dtype=float), np.zeros(len(steps))])
    taken = np.array([step for step in steps if step])
    ranks = stats.rankdata(np.abs(taken))
    signs = np.array(list(product([0, 1], repeat=len(taken))))
    sums = signs @ ranks
    found = ranks[taken > 0].sum()
    tails = (sums <= found).mean(), (sums >= found).mean()
    assert rank_tests(table).wilcoxon[0, 1] == pytest.approx(min(1.0, 2 * min(tails)))


def test_wilcoxon_of_many_pairs_is_the_normal_approximation():
    table = np.random.default_rng(3).integers(0, 9, size=(80, 2)).astype(float)
    expected = stats.wilcoxon(table[:, 0], table[:, 1], method="asymptotic").pvalue
    assert rank_tests(table).wilcoxon[0, 1] == pytest.approx(expected)


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])


def test_equal_and_infinite_columns():
    alike = rank_tests(np.ones((6, 3)))
    assert alike.friedman == 1.0
    assert (alike.wilcoxon == 1.0).all()
    assert (alike.nemenyi == 1.0).all()
    lost = rank_tests(np.column_stack([np.arange(8.0), np.arange(8.0) + 1, np.full(8, np.inf)]))
    assert lost.ranks.tolist() == [1.0, 2.0, 3.0]
    assert lost.friedman < 0.001
    assert lost.wilcoxon[0, 2] < 0.05


def test_cliques_are_the_largest_sets_within_the_difference():
    def of(ranks, difference):
        none = np.ones((len(ranks), len(ranks)))
        return RankTests(np.array(ranks), 9, 1.0, difference, none, none).cliques()

    assert of([3.0, 1.0, 2.0], 1.1) == [(0, 1), (1, 2)]
    assert of([1.0, 1.5, 2.0, 4.0], 1.0) == [(0, 2)]
    assert of([1.0, 3.0], 1.0) == []


@pytest.mark.parametrize(
    ("table", "found"),
    [(np.ones((1, 3)), "1 and 3"), (np.ones((3, 1)), "3 and 1"), (np.full((3, 3), np.nan), "NaN")],
)
def test_what_cannot_be_tested_is_refused(table, found):
    with pytest.raises(InputError, match=found):
        rank_tests(table)
