"""Indicators of the convex-hull papers: VAS, Gini, IGD and pure diversity.

The last three are of objectives scaled to their range in the reference front, the papers' of raw
ones. On ZED and ZEJD, whose fronts fill [0, 1], that is the same; elsewhere, raw distances are
those of the objective with the largest numbers, and another unit of it would change who is ahead.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, cKDTree

from algorithms.hull.kernels.hull3d import Hull3D
from algorithms.hull.reference import THREE_CLASSES, ExactReference
from framework.analysis.indicators import Indicator, Judged
from framework.arrays import FloatArray
from framework.jit import njit

_EXPONENT = 0.1  # of the distances of pure diversity
_FLAT = 1e-9  # how near to R's plane a point is no better than it


def vas(shares: FloatArray, reference: ExactReference) -> float:
    """Return the volume above the DET surface (Equation 6); larger is better.

    Parameters
    ----------
    shares : numpy.ndarray, shape (n, 3)
        Losses, as shares of the way from best (0) to worst (1). Points beyond the plane of R
        count as points in it; points outside the cube add nothing.
    reference : ExactReference

    Notes
    -----
    The paper does not say what becomes of points beyond R's plane. Taken as they are, a single
    one near (1, 1, 1) makes VAS of ZED1 0.52 where the best front has 0.357.
    """
    points, usable = reference.normalised(shares)
    return reference.share(Hull3D(np.concatenate([reference.fixed, points[usable]])).volume6)


def vas_of_classes(shares: FloatArray) -> float:
    """Return VAS for any number of losses, with R of as many classes; larger is better.

    R are the classifiers that always answer one class, wrong in all losses but one. Points that
    are no better than their plane add nothing.

    Parameters
    ----------
    shares : numpy.ndarray, shape (n, m)
        m >= 2.

    Notes
    -----
    By Qhull in floating point: O(n^(m/2)) from four losses on. For three losses :func:`vas` gives
    the same, exactly.
    """
    m = shares.shape[1]
    usable = (shares.sum(axis=1) < m - 1 - _FLAT) & (shares >= 0).all(axis=1)
    points = shares[usable & (shares <= 1).all(axis=1)]
    if not len(points):
        return 0.0
    return float(ConvexHull(np.concatenate([1.0 - np.eye(m), points])).volume)


def gini(losses: FloatArray) -> float:
    """Return how unequal the distances to the nearest neighbour are: 0 for all alike, below 1.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n, m)

    Notes
    -----
    The paper prints no formula; this one gives its figures: with ``d_(1) <= ... <= d_(n)`` the
    distances to nearest neighbours, ``sum (2 i - n - 1) d_(i) / (n sum d_(i))``. NaN for fewer than
    two points.
    """
    n = len(losses)
    if n < 2:
        return float("nan")
    distance, _ = cKDTree(losses).query(losses, k=2)
    ordered = np.sort(distance[:, 1])
    total = float(ordered.sum())
    weights = 2.0 * np.arange(1, n + 1) - n - 1
    return float((weights * ordered).sum() / (n * total)) if total > 0 else 0.0


def igd(losses: FloatArray, target: FloatArray) -> float:
    """Return the mean distance from points of a target front to the nearest loss.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n, m)
    target : numpy.ndarray, shape (r, m)

    Notes
    -----
    Coello Coello and Reyes Sierra 2004, Euclidean and not squared (the plain form, not IGD+).
    """
    if not len(losses):
        return float("inf")
    distance, _ = cKDTree(losses).query(target)
    return float(np.mean(distance))


def pure_diversity(losses: FloatArray) -> float:
    """Return PD: how much each point adds that the others do not have; larger is better.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n, m)

    Notes
    -----
    Wang, Jin and Yao 2017, doi:10.1109/TCYB.2016.2550502: ``PD(X) = max over s of PD(X without s)
    + d(s, X without s)``, the distance to the nearest other, L_p quasi-norm with p = 0.1. By the
    usual greedy way: the point farthest from its nearest one is joined to that one, again and
    again, but never within what is joined already. O(n^3) at worst.
    """
    n = len(losses)
    if n < 2:
        return 0.0
    return float(_diversity(np.ascontiguousarray(losses, dtype=np.float64)))


@njit
def _diversity(F: FloatArray) -> float:
    n, m = F.shape
    distance = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(m):
                total += abs(F[i, k] - F[j, k]) ** _EXPONENT
            distance[i, j] = total ** (1.0 / _EXPONENT)
        distance[i, i] = np.inf
    near, gap = np.empty(n, dtype=np.int64), np.empty(n)
    for i in range(n):
        near[i] = np.argmin(distance[i])
        gap[i] = distance[i, near[i]]
    tree = np.arange(n)
    score = 0.0
    for _ in range(n - 1):
        while True:
            i = int(np.argmax(gap))
            j = near[i]
            for a, b in ((j, i), (i, j)):  # neither is the other's way out again
                if distance[a, b] != -np.inf:
                    distance[a, b] = np.inf
                    near[a] = np.argmin(distance[a])
                    gap_a = distance[a, near[a]]
                    if a == j:
                        gap[a] = gap_a
            if tree[i] != tree[j]:
                break
            gap[i] = distance[i, near[i]]
        score += gap[i]
        distance[i] = -np.inf
        near[i], gap[i] = 0, -np.inf
        old, new = tree[i], tree[j]
        for k in range(n):
            if tree[k] == old:
                tree[k] = new
    return score


def _shares(judged: Judged) -> FloatArray:
    low, high = judged.roles.bounds().T
    return np.asarray((judged.losses - low) / (high - low))


def _vas(judged: Judged) -> float:
    bounds = judged.roles.bounds()
    if len(bounds) < 2 or not np.isfinite(bounds).all() or not len(judged.losses):
        return float("nan")
    if len(bounds) != 3:
        return vas_of_classes(_shares(judged))
    points = THREE_CLASSES if judged.anchors is None else judged.anchors.tolist()
    steps = [judged.roles.metrics[name].steps for name in judged.roles.names]
    return vas(_shares(judged), ExactReference(points, steps))


VAS = Indicator(
    "VAS",
    "high",
    "volume of the convex hull of the solutions and the reference points",
    _vas,
    on_request=True,
)
GINI = Indicator(
    "Gini",
    "low",
    "inequality of the distances to nearest neighbours",
    lambda judged: gini(judged.scaled),
    on_request=True,
)
IGD = Indicator(
    "IGD",
    "low",
    "mean distance from the reference front to the nearest solution, each objective scaled to its "
    "range there",
    lambda judged: igd(judged.scaled, judged.target),
    on_request=True,
)
PURE_DIVERSITY = Indicator(
    "PD",
    "high",
    "pure diversity: what each solution adds that the others do not have",
    lambda judged: pure_diversity(judged.scaled),
    on_request=True,
)
