"""The convex hull of a front: which solutions are its corners, and which one to recommend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.analysis.choose import choose
from framework.arrays import FloatArray, IntArray
from framework.errors import InputError
from framework.front import Front

_BEYOND = 1e-6  # distance of the viewpoint beyond the ideal point, which may itself be a solution


def facing_hull(points: FloatArray) -> IntArray:
    """Return the facets of a convex hull that are visible from just beyond the origin.

    Parameters
    ----------
    points : numpy.ndarray, shape (n, m)
        Losses and reference points, scaled from best (0) to worst (1): the origin is the ideal
        point.

    Returns
    -------
    numpy.ndarray of int64, shape (facets, m)
        The positions of the corners of each facet; no facets where the points span no volume.

    Notes
    -----
    Computed by Qhull, with its tolerances, for figures and recommendations. Searches and indicators
    have exact hulls of their own. O(n log n) for two and three dimensions.
    """
    from scipy.spatial import ConvexHull, QhullError

    none = np.zeros((0, points.shape[1]), dtype=np.int64)
    if len(points) <= points.shape[1]:
        return none
    try:
        hull = ConvexHull(points, qhull_options="Qt")
    except QhullError:  # all points lie in one plane
        return none
    normals, offsets = hull.equations[:, :-1], hull.equations[:, -1]
    seen = offsets - _BEYOND * normals.sum(axis=1) > _BEYOND * 1e-3
    return np.asarray(hull.simplices[seen], dtype=np.int64)


def shares_of(front: Front) -> FloatArray | None:
    """Return the losses of a front, scaled from best (0) to worst (1), shape (n, m).

    None if the front has no solutions, or an objective has no bounds.
    """
    low, high = front.roles.bounds().T
    if not len(front) or not np.isfinite([low, high]).all() or (low >= high).any():
        return None
    return np.asarray((front.losses - low) / (high - low))


def hull_with(front: Front, reference: FloatArray | None) -> tuple[FloatArray, IntArray]:
    """Return a front's losses with reference points, scaled as by :func:`shares_of`, and facets.

    There are no facets unless there are reference points and three bounded objectives: only then
    are the corners of the hull better than the other solutions.
    """
    shares = shares_of(front)
    if shares is None or shares.shape[1] != 3 or reference is None or not len(reference):
        return np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)
    points = np.concatenate([shares, reference])
    return points, facing_hull(points)


def hull_corners(front: Front, reference: FloatArray | None) -> IntArray:
    """Return the positions of the solutions that are corners of the hull with reference points."""
    corners = np.unique(hull_with(front, reference)[1])
    return corners[corners < len(front)]


def recommend(
    front: Front,
    reference: FloatArray | None,
    *,
    where: Sequence[str] = (),
    within: Sequence[str] = (),
) -> int:
    """Return the position of the solution nearest to the ideal point, under conditions.

    Where the front has a hull with reference points, it is the nearest corner of the hull, because
    mixtures of corners are better than all other solutions. If no corner meets the conditions, it
    is the nearest of all solutions.

    Raises
    ------
    InputError
        As raised by :func:`~framework.analysis.choose.choose`.
    """
    corners = hull_corners(front, reference)
    if len(corners):
        hull = Front(front.rows.take(corners), front.roles, front.gene_names)
        try:
            return int(corners[choose(hull, where=where, within=within)])
        except InputError:  # then choose among all solutions, which may raise it again
            pass
    return choose(front, where=where, within=within)
