"""Thresholds of scores, the corners of their convex hull, and the best mixtures of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.hull.kernels.hull3d import MOST_STEPS, MOST_VOLUME, Hull3D
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.jit import njit

NEVER, ALWAYS = 0, 1
"""The numbers of the two trivial classifiers; every other one is a threshold of a model."""


class Table(NamedTuple):
    """Thresholds that a mixture is made of, with what they are worth under some weights.

    Attributes
    ----------
    numbers : int64 (c,)
    false_positives, missed : float64 (c,)
        Rates: shares of the negative and of the positive records.
    costs : float64 (c,)
    """

    numbers: IntArray
    false_positives: FloatArray
    missed: FloatArray
    costs: FloatArray


@njit
def _chain(fp: IntArray, tp: IntArray, order: IntArray) -> IntArray:
    """Return the corners of the upper hull of points, ``order`` being by fp and then falling tp."""
    chain = np.empty(len(order), dtype=np.int64)
    n = 0
    for c in order:
        if n > 0 and tp[c] <= tp[chain[n - 1]]:  # no better, and no fewer false alarms
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
    """Return which points are corners of the ROC convex hull, from (0, 0) to all positive.

    Parameters
    ----------
    fp, tp : int64 (n,)
        Records called positive, wrongly and rightly: whole numbers below 2^31. The trivial
        classifiers' are among them.

    Returns
    -------
    int64 (corners,)
        By false positives. Exact: points on an edge are no corners, of equal ones the first is.
        None is dominated: where a model finds some positive record without a false alarm, "never"
        is not among them.

    Notes
    -----
    Provost and Fawcett (2001); a sort and one pass (Andrew 1979), O(n log n).
    """
    order = np.lexsort((np.arange(len(fp)), -tp, fp))
    return _chain(fp, tp, order)


def priced_corners(fp: IntArray, tp: IntArray, costs: FloatArray, among: IntArray) -> IntArray:
    """Return which points are best for some prices of false positives, misses and costs.

    The vertices of the convex hull of three losses, with all that is worse than a point: whole
    numbers of records, and costs in 2^20 steps of the highest (those that are nearer are equal).

    Parameters
    ----------
    fp, tp : int64 (n,)
        The trivial classifiers come first; their costs are the least.
    costs : float64 (n,)
    among : int64 (m,)
        Only these are looked at: the corners of each model's own hull will do.
    """
    negatives, positives = int(fp[ALWAYS]), int(tp[ALWAYS])
    missed = positives - tp[among]
    # what is no better than chance is no better than a lottery of the trivial ones, which are free
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
    above[:, 2] = steps + 1  # dearer twins: only what is cheapest for its rates is a vertex below
    vertices = Hull3D(np.concatenate([points, above])).vertices
    corners = candidates[vertices[(vertices > 2) & (vertices < len(points))] - len(trivial)]
    return np.concatenate([[NEVER, ALWAYS], corners])


class Curves:
    """Every threshold of some scores, and how many records of each class it calls positive.

    Parameters
    ----------
    scores : float64 (models, n)
        The higher, the more positive.
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
            middle = low + (high - low) / 2
            thresholds.append(np.where(middle > low, middle, high))
            owners.append(np.full(len(cuts), number))
        self.thresholds = np.concatenate(thresholds)
        self.owners: IntArray = np.concatenate(owners).astype(np.int64)
        self.costs = np.append(costs, 0.0)[self.owners]  # -1, of the trivial ones, is the last
        self._ends = np.cumsum([2, *map(len, self._cuts)]).tolist()

    def counts(self, weights: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """Return false and true positives of every threshold, int64 (thresholds,)."""
        one = np.ones(len(self.positive), dtype=np.int64) if weights is None else weights
        hits, alarms = one * self.positive, one * ~self.positive
        fp, tp = [np.array([0, alarms.sum()])], [np.array([0, hits.sum()])]
        for order, cuts in zip(self._orders, self._cuts, strict=True):
            fp.append(np.cumsum(alarms[order])[cuts - 1])
            tp.append(np.cumsum(hits[order])[cuts - 1])
        return np.concatenate(fp), np.concatenate(tp)

    def own_corners(self, fp: IntArray, tp: IntArray) -> IntArray:
        """Return the trivial classifiers and the corners of each model's own hull: O(n)."""
        chains = [np.array([NEVER, ALWAYS])]
        for start, end in zip(self._ends[:-1], self._ends[1:], strict=True):
            path = np.concatenate([[NEVER], np.arange(start, end), [ALWAYS]])
            chain = _chain(fp, tp, path)
            chains.append(chain[chain > ALWAYS])
        return np.concatenate(chains)

    def table(self, weights: IntArray | None = None) -> Table | None:
        """Return what a best mixture can be made of; None where a class has no weight."""
        fp, tp = self.counts(weights)
        if not (fp[ALWAYS] and tp[ALWAYS]):
            return None
        return _table(self, self.own_corners(fp, tp), fp, tp)

    def at(self, numbers: IntArray, weights: IntArray | None = None) -> Table | None:
        """Return some thresholds under weights; None where a class has no weight."""
        fp, tp = self.counts(weights)
        return _table(self, numbers, fp, tp) if fp[ALWAYS] and tp[ALWAYS] else None

    def corners(self, *, priced: bool) -> IntArray:
        """Return the corners of the hull of all thresholds of all models."""
        fp, tp = self.counts()
        of_each = self.own_corners(fp, tp)
        if priced:
            return priced_corners(fp, tp, self.costs, of_each)
        return of_each[roc_corners(fp[of_each], tp[of_each])]


def _table(curves: Curves, numbers: IntArray, fp: IntArray, tp: IntArray) -> Table:
    return Table(
        numbers,
        fp[numbers] / fp[ALWAYS],
        1.0 - tp[numbers] / tp[ALWAYS],
        curves.costs[numbers],
    )


@dataclass(frozen=True)
class Wish:
    """What a mixture shall be the best in, and what it keeps to.

    Attributes
    ----------
    false_positive, miss, cost : float
        Prices of a unit of the mean rates and of the mean cost.
    limits : tuple of (str, float)
        Upper limits of mean ``false_positives``, ``missed`` or ``costs``.
    """

    false_positive: float
    miss: float
    cost: float = 0.0
    limits: tuple[tuple[str, float], ...] = ()

    def prices(self, table: Table) -> FloatArray:
        """Return what each threshold costs."""
        return np.asarray(
            self.false_positive * table.false_positives
            + self.miss * table.missed
            + self.cost * table.costs
        )


def best_mixture(wish: Wish, table: Table) -> FloatArray | None:
    """Return the chance of each threshold; None where no mixture keeps to the limits.

    One threshold is enough without limits and two are with one limit; with more limits it is a
    linear programme over the chances.
    """
    from scipy.optimize import linprog

    prices = wish.prices(table)
    if not wish.limits:
        return np.asarray(np.arange(len(prices)) == prices.argmin(), dtype=np.float64)
    if len(wish.limits) == 1:
        return _best_pair(prices, getattr(table, wish.limits[0][0]), wish.limits[0][1])
    solved = linprog(
        prices,
        A_ub=np.array([getattr(table, name) for name, _ in wish.limits]),
        b_ub=[limit for _, limit in wish.limits],
        A_eq=np.ones((1, len(prices))),
        b_eq=[1.0],
        method="highs-ds",
    )
    if solved.x is None:
        return None
    chances = np.where(solved.x > 1e-9, solved.x, 0.0)  # below it is the solver's rounding
    return np.asarray(chances / chances.sum())


def _best_pair(prices: FloatArray, values: FloatArray, limit: float) -> FloatArray | None:
    """Return the chances of the one or two thresholds that are cheapest with a mean value."""
    within, beyond = np.flatnonzero(values <= limit), np.flatnonzero(values > limit)
    if not len(within):
        return None
    chances = np.zeros(len(prices))
    best = int(within[prices[within].argmin()])
    chances[best] = 1.0
    if len(beyond):
        low, high = values[within][:, np.newaxis], values[beyond]
        share = (limit - low) / (high - low)
        mixed = (1 - share) * prices[within][:, np.newaxis] + share * prices[beyond]
        i, j = np.unravel_index(int(mixed.argmin()), mixed.shape)
        if mixed[i, j] < prices[best]:
            chances[best] = 0.0
            chances[within[i]], chances[beyond[j]] = 1 - share[i, j], share[i, j]
    return chances


def rates_of(table: Table, chances: FloatArray) -> dict[str, float]:
    """Return the rates and the cost of a mixture."""
    names = ("false_positives", "missed", "costs")
    return {name: float(chances @ getattr(table, name)) for name in names}
