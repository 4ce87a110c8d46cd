"""Indicators of the convex-hull papers: VAS, Gini, IGD and pure diversity.

The last three use objectives scaled to their range in the reference front; in the papers they use
raw ones. On ZED and ZEJD, whose fronts fill [0, 1], that is the same. Elsewhere, the objective with
the largest numbers would decide raw distances, and its unit would decide which method is ahead.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, cKDTree

from algorithms.hull.kernels.hull3d import Hull3D
from algorithms.hull.reference import THREE_CLASSES, ExactReference
from framework.analysis.indicators import Indicator, Judged
from framework.arrays import FloatArray
from framework.jit import njit

_EXPONENT = 0.1  # of the quasi-norm of pure diversity
_FLAT = 1e-9  # points that are better than the plane of R by less count as in it


def vas(shares: FloatArray, reference: ExactReference) -> float:
    """Return the volume above the DET surface (Equation 6); larger is better.

    Parameters
    ----------
    shares : numpy.ndarray, shape (n, 3)
        Losses as shares of the way from best (0) to worst (1). Points beyond the plane of R count
        as points in it; points outside the cube add nothing.
    reference : ExactReference

    Notes
    -----
    The paper does not say how to treat points beyond the plane of R. Without a special treatment,
    a single point near (1, 1, 1) would raise VAS on ZED1 to 0.52, while the best front has 0.357.
    """
    points, usable = reference.normalised(shares)
    return reference.share(Hull3D(np.concatenate([reference.fixed, points[usable]])).volume6)


def vas_of_classes(shares: FloatArray) -> float:
    """Return VAS for any number of losses, with R of as many classes; larger is better.

    R has the classifiers that always answer one class, wrong in all losses but one. Points that
    are not better than the plane of R add nothing.

    Parameters
    ----------
    shares : numpy.ndarray, shape (n, m)
        With m >= 2.

    Notes
    -----
    Computed by Qhull in floating point, in O(n^(m/2)) for m >= 4. For three losses :func:`vas`
    gives the same value exactly.
    """
    m = shares.shape[1]
    usable = (shares.sum(axis=1) < m - 1 - _FLAT) & (shares >= 0).all(axis=1)
    points = shares[usable & (shares <= 1).all(axis=1)]
    if not len(points):
        return 0.0
    return float(ConvexHull(np.concatenate([1.0 - np.eye(m), points])).volume)


def gini(losses: FloatArray) -> float:
    """Return how unequal the distances to the nearest neighbours are: 0 if all are equal, below 1.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n, m)

    Notes
    -----
    The paper prints no formula, but this one gives its numbers: with the distances ``d_(1) <= ...
    <= d_(n)`` to nearest neighbours, ``sum (2 i - n - 1) d_(i) / (n sum d_(i))``. It is NaN for
    fewer than two points.
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
    Coello Coello and Reyes Sierra 2004, with Euclidean distances, not squared (not IGD+).
    """
    if not len(losses):
        return float("inf")
    distance, _ = cKDTree(losses).query(target)
    return float(np.mean(distance))


def pure_diversity(losses: FloatArray) -> float:
    """Return PD, the sum of what each point adds to the diversity of the others; larger is better.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n, m)

    Notes
    -----
    Wang, Jin and Yao 2017, doi:10.1109/TCYB.2016.2550502: ``PD(X) = max over s of PD(X without s)
    + d(s, X without s)``, where d is the distance to the nearest other point in the L_p quasi-norm
    with p = 0.1. As usual it is computed greedily: again and again, the point that is farthest from
    its nearest neighbour is joined to it, unless both are in one tree already. O(n^3) at worst.
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
            # the edge between i and j is used up in both directions
            if distance[j, i] != -np.inf:
                distance[j, i] = np.inf
                near[j] = np.argmin(distance[j])
                gap[j] = distance[j, near[j]]
            if distance[i, j] != -np.inf:
                distance[i, j] = np.inf
                near[i] = np.argmin(distance[i])
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
