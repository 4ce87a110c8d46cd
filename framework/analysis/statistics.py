"""Rank tests of whether one search is better than others.

Several searches are compared as Demsar (2006) recommends: a table has one row for each block (a
seed or a data set) and one column for each search; smaller values are better. Where a paper counts
wins, draws and losses, two searches are compared case by case with Wilcoxon's rank sum over their
runs; :mod:`framework.analysis.report` counts by the interval of the lead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from framework.arrays import FloatArray, IntArray
from framework.errors import InputError

ALPHA = 0.05  # level of tests
_EXACT = 50  # up to this many pairs, counts of sign assignments are whole numbers below 2^53


@dataclass(frozen=True)
class RankTests:
    """Results of the tests of k searches over n blocks.

    Attributes
    ----------
    ranks : numpy.ndarray, shape (k,)
        Mean rank of each search, 1 the best; tied searches share the mean of their ranks.
    blocks : int
        The number of blocks, n.
    friedman : float
        p-value of "all searches are alike", corrected for ties; NaN for fewer than three searches.
    critical_difference : float
        Of Nemenyi's test: searches whose mean ranks are further apart differ at level ``ALPHA``.
    nemenyi, wilcoxon : numpy.ndarray, shape (k, k)
        p-values of each pair by Nemenyi's test, and by Wilcoxon's signed ranks (two-sided,
        corrected by Holm's method over all pairs). The diagonal is 1.
    """

    ranks: FloatArray
    blocks: int
    friedman: float
    critical_difference: float
    nemenyi: FloatArray
    wilcoxon: FloatArray

    def cliques(self) -> list[tuple[int, int]]:
        """Return the maximal groups of searches that Nemenyi's test does not distinguish.

        A group is a pair (first, last) of positions in the order of mean ranks, both inclusive.
        """
        ordered = np.sort(self.ranks)
        reach = np.searchsorted(ordered, ordered + self.critical_difference, side="right") - 1
        cliques = [(i, int(last)) for i, last in enumerate(reach) if last > i]
        return [c for c in cliques if not any(o[0] < c[0] and o[1] >= c[1] for o in cliques)]


def rank_tests(table: FloatArray) -> RankTests:
    """Test a table of losses.

    Parameters
    ----------
    table : numpy.ndarray, shape (n blocks, k searches)
        Smaller is better; infinite values rank last.

    Raises
    ------
    InputError
        There are fewer than two blocks or two searches, or a value is NaN.

    Notes
    -----
    Nemenyi's test compares differences of mean ranks, divided by sqrt(k (k + 1) / (6 n)), with the
    studentised range divided by sqrt(2) (Demsar 2006, Section 3.2.2, Table 5).
    O(n k log k + k^2 n).
    """
    n, k = table.shape
    if n < 2 or k < 2:
        raise InputError(f"rank tests: expected two blocks and two searches, found {n} and {k}")
    if np.isnan(table).any():
        raise InputError("rank tests: expected numbers, found NaN")
    ranks = stats.rankdata(table, axis=1).mean(axis=0)
    error = math.sqrt(k * (k + 1) / (6 * n))
    apart = np.abs(ranks[:, np.newaxis] - ranks) / error * math.sqrt(2)
    nemenyi = stats.studentized_range.sf(apart, k, np.inf)
    quantile = float(stats.studentized_range.ppf(1 - ALPHA, k, np.inf)) / math.sqrt(2)
    np.fill_diagonal(nemenyi, 1.0)
    return RankTests(
        ranks,
        n,
        _friedman(table),
        quantile * error,
        np.minimum(nemenyi, 1.0),
        _pairwise_wilcoxon(table),
    )


def holm(p: FloatArray) -> FloatArray:
    """Return p-values, shape (m,), corrected for their number by Holm's method (1979)."""
    order: IntArray = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def _friedman(table: FloatArray) -> float:
    if table.shape[1] < 3:
        return math.nan
    if (table == table[:, :1]).all():
        return 1.0
    # on ranks, which are finite where values are not
    return float(stats.friedmanchisquare(*stats.rankdata(table, axis=1).T).pvalue)


def _pairwise_wilcoxon(table: FloatArray) -> FloatArray:
    k = table.shape[1]
    pairs = list(combinations(range(k), 2))
    adjusted = holm(np.array([_wilcoxon(table[:, i], table[:, j]) for i, j in pairs]))
    square = np.ones((k, k))
    for (i, j), p in zip(pairs, adjusted, strict=True):
        square[i, j] = square[j, i] = p
    return square


def _wilcoxon(a: FloatArray, b: FloatArray) -> float:
    """Return the two-sided p-value of signed ranks without zeros, exact for up to 50 pairs.

    All 2^n assignments of signs are equally likely. A dynamic programme counts in O(n^3) how many
    of them give each sum of ranks, ties included. (For tied values scipy enumerates all 2^n up to
    n = 13, which takes a second per pair, and uses the normal approximation above that.)
    """
    with np.errstate(invalid="ignore"):
        difference = np.where(a == b, 0.0, a - b)
    difference = difference[difference != 0]
    if not difference.size:
        return 1.0
    if difference.size > _EXACT:
        return float(stats.wilcoxon(difference, method="asymptotic").pvalue)
    doubled = np.rint(2 * stats.rankdata(np.abs(difference))).astype(np.int64)  # ties have halves
    ways = np.zeros(doubled.sum() + 1)  # number of assignments, by the sum of positive ranks
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] += ways[:-rank].copy()
    positive = doubled[difference > 0].sum()
    rarer = min(positive, doubled.sum() - positive)
    return min(1.0, float(2 * ways[: rarer + 1].sum() / 2.0**difference.size))


class Score(NamedTuple):
    """In how many cases a search is better than another, not told apart from it, and worse."""

    wins: int
    draws: int
    losses: int


def rank_sum(a: FloatArray, b: FloatArray) -> float:
    """Return the p-value of "a and b are draws from one distribution", two-sided.

    Parameters
    ----------
    a, b : numpy.ndarray, shapes (n,) and (m,)
        Unpaired; infinite values rank last.

    Notes
    -----
    Wilcoxon's rank sum (Mann and Whitney 1947): exact for small samples without ties, else the
    normal approximation, corrected for ties and continuity. The p-value is 1 where either sample
    has fewer than two values, or all values are equal. O((n + m) log(n + m)).
    """
    both = np.concatenate([a, b])
    if min(len(a), len(b)) < 2 or (both == both[0]).all():
        return 1.0
    ranks = stats.rankdata(both)  # finite where values are not
    return float(stats.mannwhitneyu(ranks[: len(a)], ranks[len(a) :]).pvalue)


def verdict(a: FloatArray, b: FloatArray) -> int:
    """Return 1 if ``a`` is better (smaller), -1 if ``b`` is, 0 if chance may explain the gap.

    The better one has the smaller mean rank, provided that :func:`rank_sum` is below 5%. There is
    no correction for the number of pairs.
    """
    if rank_sum(a, b) >= ALPHA:
        return 0
    ranks = stats.rankdata(np.concatenate([a, b]))
    return 1 if ranks[: len(a)].mean() < ranks[len(a) :].mean() else -1


def score(verdicts: list[int]) -> Score:
    """Count verdicts."""
    return Score(verdicts.count(1), verdicts.count(0), verdicts.count(-1))
