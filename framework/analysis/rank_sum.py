"""Wins, draws and losses of one search against another, case by case, as papers count them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from framework.arrays import FloatArray


class Score(NamedTuple):
    """In how many cases a search is better than another, not told apart, and worse."""

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
    normal approximation with ties and continuity corrected. 1 where either has fewer than two
    values, or all are alike. O((n + m) log(n + m)).
    """
    both = np.concatenate([a, b])
    if min(len(a), len(b)) < 2 or (both == both[0]).all():
        return 1.0
    ranks = stats.rankdata(both)  # finite where values are not
    return float(stats.mannwhitneyu(ranks[: len(a)], ranks[len(a) :]).pvalue)


def verdict(a: FloatArray, b: FloatArray, alpha: float = 0.05) -> int:
    """Return 1 where ``a`` is better (smaller), -1 where ``b`` is, 0 where chance would do.

    Better is who has the smaller mean rank, where :func:`rank_sum` is below ``alpha``; nothing is
    corrected for the number of pairs.
    """
    if rank_sum(a, b) >= alpha:
        return 0
    ranks = stats.rankdata(np.concatenate([a, b]))
    return 1 if ranks[: len(a)].mean() < ranks[len(a) :].mean() else -1


def score(verdicts: list[int]) -> Score:
    """Count verdicts."""
    return Score(verdicts.count(1), verdicts.count(0), verdicts.count(-1))
