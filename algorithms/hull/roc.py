"""Thresholds of scores, the corners of their convex hull, and the best mixtures of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.hull.kernels.hull3d import MOST_STEPS, MOST_VOLUME, Hull3D
from framework.analysis.choose import Condition
from framework.analysis.mixtures import best_chances
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.jit import njit

NEVER, ALWAYS = 0, 1
"""Numbers of the two trivial classifiers; higher numbers are thresholds of models."""
_ROUNDING = 1e-12  # of a price


class Table(NamedTuple):
    """Candidates for a mixture, with their rates under some weights of the records.

    Attributes
    ----------
    numbers : int64 (c,)
        Thresholds, numbered as in :class:`Curves`.
    false_positives, missed : float64 (c,)
        The false positive and the false negative rate.
    costs : float64 (c,)
    """

    numbers: IntArray
    false_positives: FloatArray
    missed: FloatArray
    costs: FloatArray


@njit
def _chain(fp: IntArray, tp: IntArray, order: IntArray) -> IntArray:
    """Return the corners of the upper hull of points; ``order`` is by fp, then descending tp."""
    chain = np.empty(len(order), dtype=np.int64)
    n = 0
    for c in order:
        if n > 0 and tp[c] <= tp[chain[n - 1]]:  # dominated
            continue
        while n > 1:
            a, b = chain[n - 2], chain[n - 1]
            left = (fp[b] - fp[a]) * (tp[c] - tp[a])
            if (tp[b] - tp[a]) * (fp[c] - fp[a]) > left:
                break
            n -= 1
        chain[n] = c
        n += 1
    return chain[:n].copy()


def roc_corners(fp: IntArray, tp: IntArray) -> IntArray:
    """Return which points are corners of the ROC convex hull.

    Parameters
    ----------
    fp, tp : int64 (n,)
        Numbers of false and of true positives, below 2^31. Both trivial classifiers are among the
        points.

    Returns
    -------
    int64 (corners,)
        Positions of the corners, by ascending false positives. They are exact: points on an edge
        are not corners, and of equal points the first is. None is dominated: if a model finds a
        positive record without a false positive, "never" is not a corner.

    Notes
    -----
    Provost and Fawcett (2001); a sort and one pass (Andrew 1979), O(n log n).
    """
    order = np.lexsort((np.arange(len(fp)), -tp, fp))
    return _chain(fp, tp, order)


def priced_corners(fp: IntArray, tp: IntArray, costs: FloatArray, among: IntArray) -> IntArray:
    """Return which points are best for some prices of false positives, misses and costs.

    They are the vertices of the convex hull of three losses: whole numbers of records, and costs in
    at most 2^20 steps of the highest cost.

    Parameters
    ----------
    fp, tp : int64 (n,)
        The trivial classifiers come first; their costs are the least.
    costs : float64 (n,)
    among : int64 (m,)
        The points to consider: the corners of the hull of each model are enough.

    Returns
    -------
    int64 (corners,)
        Their positions, those of the trivial classifiers first. None is dominated: if a model that
        costs nothing finds a positive record without a false positive, "never" is not a corner.
    """
    negatives, positives = int(fp[ALWAYS]), int(tp[ALWAYS])
    missed = positives - tp[among]
    # a mixture of the trivial classifiers, which are free, is as good as any point below chance
    better = fp[among] * positives + missed * negatives < negatives * positives
    candidates, missed = among[better], missed[better]
    if not len(candidates):
        return np.array([NEVER, ALWAYS])
    steps = max(min(MOST_STEPS, MOST_VOLUME // (negatives * positives) - 1), 1)
    highest = float(costs.max()) or 1.0
    heights = np.rint(costs[candidates] / highest * steps).astype(np.int64)
    trivial = [(0, positives, 0), (negatives, 0, 0), (negatives, positives, 0)]
    points = np.concatenate([np.array(trivial), np.column_stack([fp[candidates], missed, heights])])
    above = points.copy()
    above[:, 2] = steps + 1  # twins above all points: only the lower hull keeps its vertices
    vertices = Hull3D(np.concatenate([points, above])).vertices
    corners = candidates[vertices[(vertices > 2) & (vertices < len(points))] - len(trivial)]
    free = candidates[costs[candidates] == 0.0]
    beaten = (
        (tp[free][fp[free] == 0] > 0).any(),
        (fp[free][tp[free] == positives] < negatives).any(),
    )
    return np.concatenate([np.array([NEVER, ALWAYS])[~np.array(beaten)], corners])


class Curves:
    """Every threshold of some models' scores, and the records of each class above it.

    Thresholds are numbered: the two trivial classifiers first, then those of each model.

    Parameters
    ----------
    scores : float64 (models, n)
        A higher score is more positive.
    positive : bool (n,)
    costs : float64 (models,)
    """

    def __init__(self, scores: FloatArray, positive: BoolArray, costs: FloatArray) -> None:
        self.positive, self.of_models = positive, costs
        self._orders: list[IntArray] = []
        self._cuts: list[IntArray] = []
        thresholds, owners = [np.array([np.inf, -np.inf])], [np.array([-1, -1])]
        for number, column in enumerate(scores):
            order = np.argsort(-column, kind="stable")
            falling = column[order]
            cuts = np.flatnonzero(falling[1:] < falling[:-1]) + 1
            self._orders.append(order)
            self._cuts.append(cuts)
            low, high = falling[cuts], falling[cuts - 1]
            middle = low + (high / 2 - low / 2)  # their difference may be beyond the floats
            thresholds.append(np.where(middle > low, middle, high))
            owners.append(np.full(len(cuts), number))
        self.thresholds = np.concatenate(thresholds)
        self.owners: IntArray = np.concatenate(owners).astype(np.int64)
        self.costs = np.append(costs, 0.0)[self.owners]  # owner -1: a trivial classifier costs 0
        self._ends = np.cumsum([2, *map(len, self._cuts)]).tolist()

    def counts(self, weights: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """Return false and true positives of every threshold, int64 (thresholds,)."""
        if weights is None:
            weights = np.ones(len(self.positive), dtype=np.int64)
        hits, alarms = weights * self.positive, weights * ~self.positive
        fp, tp = [np.array([0, alarms.sum()])], [np.array([0, hits.sum()])]
        for order, cuts in zip(self._orders, self._cuts, strict=True):
            fp.append(np.cumsum(alarms[order])[cuts - 1])
            tp.append(np.cumsum(hits[order])[cuts - 1])
        return np.concatenate(fp), np.concatenate(tp)

    def own_corners(self, fp: IntArray, tp: IntArray) -> IntArray:
        """Return the trivial classifiers and the corners of the hull of each model, in O(n)."""
        chains = [np.array([NEVER, ALWAYS])]
        for start, end in zip(self._ends[:-1], self._ends[1:], strict=True):
            path = np.concatenate([[NEVER], np.arange(start, end), [ALWAYS]])
            chain = _chain(fp, tp, path)
            chains.append(chain[chain > ALWAYS])
        return np.concatenate(chains)

    def table(self, weights: IntArray | None = None) -> Table | None:
        """Return the candidates for best mixtures; None if a class has no weight."""
        fp, tp = self.counts(weights)
        return _table(self, self.own_corners(fp, tp), fp, tp)

    def at(self, numbers: IntArray, weights: IntArray | None = None) -> Table | None:
        """Return the table of some thresholds under weights; None if a class has no weight."""
        return _table(self, numbers, *self.counts(weights))

    def corners(self, *, priced: bool) -> IntArray:
        """Return the corners of the hull of all thresholds of all models."""
        fp, tp = self.counts()
        of_each = self.own_corners(fp, tp)
        if priced:
            return priced_corners(fp, tp, self.costs, of_each)
        return of_each[roc_corners(fp[of_each], tp[of_each])]


def _table(curves: Curves, numbers: IntArray, fp: IntArray, tp: IntArray) -> Table | None:
    if not (fp[ALWAYS] and tp[ALWAYS]):
        return None
    return Table(
        numbers,
        fp[numbers] / fp[ALWAYS],
        1.0 - tp[numbers] / tp[ALWAYS],
        curves.costs[numbers],
    )


@dataclass(frozen=True)
class Wish:
    """The objective and the limits of a mixture.

    Attributes
    ----------
    false_positive, miss, cost : float
        Prices of the false positive rate, the false negative rate and the mean cost, whose weighted
        sum is minimised.
    limits : tuple of (str, float)
        Upper limits of ``false_positives``, ``missed`` or ``costs``.
    """

    false_positive: float
    miss: float
    cost: float = 0.0
    limits: tuple[tuple[str, float], ...] = ()

    def prices(self, table: Table) -> FloatArray:
        """Return the weighted sum of each candidate, (c,)."""
        return np.asarray(
            self.false_positive * table.false_positives
            + self.miss * table.missed
            + self.cost * table.costs
        )


def best_mixture(wish: Wish, table: Table) -> FloatArray | None:
    """Return the chance of each candidate, (c,); None if no mixture keeps the limits.

    Without limits one candidate is enough, and two are with one limit. With more limits the chances
    are the solution of a linear program. Of mixtures of the same price, it is the one of the least
    sum of both rates and the share of the highest cost, so that none is better in all of them.
    """
    prices, others = wish.prices(table), table.false_positives + table.missed
    others = others + table.costs / (float(table.costs.max()) or 1.0)
    if not wish.limits:
        return np.asarray(np.arange(len(prices)) == _least(prices, others), dtype=np.float64)
    if len(wish.limits) == 1:
        return _best_pair(prices, others, getattr(table, wish.limits[0][0]), wish.limits[0][1])
    solved = best_chances(
        prices,
        [Condition(name, "<=", limit) for name, limit in wish.limits],
        [getattr(table, name) for name, _ in wish.limits],
        others,
    )
    if solved is None:
        return None
    chances = np.zeros(len(prices))
    chances[solved[0]] = solved[1]
    return chances


def _least(prices: FloatArray, others: FloatArray) -> int:
    """Return where the lowest price is, and of equal ones where ``others`` are lowest."""
    tied = np.flatnonzero(prices <= prices.min() * (1.0 + _ROUNDING))  # none is below 0
    return int(tied[others[tied].argmin()])


def _best_pair(
    prices: FloatArray, others: FloatArray, values: FloatArray, limit: float
) -> FloatArray | None:
    """Return the chances of the one or two candidates that are cheapest under a limit."""
    within, beyond = np.flatnonzero(values <= limit), np.flatnonzero(values > limit)
    if not len(within):
        return None
    low, high = values[within][:, np.newaxis], values[beyond]
    share = np.concatenate([np.zeros_like(low), (limit - low) / (high - low)], axis=1)
    second = np.concatenate([within[:1], beyond])  # the first has no share

    def mixed(column: FloatArray) -> FloatArray:
        first = (1 - share) * column[within][:, np.newaxis]
        return np.ravel(first + share * column[second])

    i, j = np.unravel_index(_least(mixed(prices), mixed(others)), share.shape)
    chances = np.zeros(len(prices))
    chances[second[j]] = share[i, j]
    chances[within[i]] += 1 - share[i, j]
    return chances


def rates_of(table: Table, chances: FloatArray) -> dict[str, float]:
    """Return the rates and the cost of a mixture."""
    names = ("false_positives", "missed", "costs")
    return {name: float(chances @ getattr(table, name)) for name in names}
