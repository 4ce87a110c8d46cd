"""The convex hull of a front: which solutions are its corners, and which one to recommend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.analysis.choose import choose
from framework.arrays import FloatArray, IntArray
from framework.errors import InputError
from framework.front import Front

_BEYOND = 1e-6  # how far beyond the ideal point one stands: a front may have the point itself


def facing_hull(points: FloatArray) -> IntArray:
    """Return the facets of a convex hull that are seen from just beyond the origin.

    Parameters
    ----------
    points : numpy.ndarray, shape (n, m)
        Losses and points of reference, as shares of the way from best (0) to worst (1): the origin
        is the ideal point.

    Returns
    -------
    numpy.ndarray of int64, shape (facets, m)
        Each facet by the positions of its corners; none where the points span no volume.

    Notes
    -----
    Qhull, with its tolerances: for looking at. Searches and indicators have exact hulls of their
    own. O(n log n) for two and three dimensions.
    """
    from scipy.spatial import ConvexHull, QhullError

    none = np.zeros((0, points.shape[1]), dtype=np.int64)
    if len(points) <= points.shape[1]:
        return none
    try:
        hull = ConvexHull(points, qhull_options="Qt")
    except QhullError:  # all in one plane
        return none
    normals, offsets = hull.equations[:, :-1], hull.equations[:, -1]
    seen = offsets - _BEYOND * normals.sum(axis=1) > _BEYOND * 1e-3
    return np.asarray(hull.simplices[seen], dtype=np.int64)


def shares_of(front: Front) -> FloatArray | None:
    """Return a front's losses as shares of the way from best (0) to worst (1), shape (n, m).

    None without solutions, or where an objective has no bounds.
    """
    low, high = front.roles.bounds().T
    if not len(front) or not np.isfinite([low, high]).all() or (low >= high).any():
        return None
    return np.asarray((front.losses - low) / (high - low))


def hull_corners(front: Front, reference: FloatArray | None) -> IntArray:
    """Return the positions of solutions that are corners of the hull with points of reference.

    None without points of reference or three bounded objectives: then nothing says that only
    corners count.
    """
    shares = shares_of(front) if reference is not None and len(reference) else None
    if shares is None or reference is None or shares.shape[1] != 3:
        return np.zeros(0, dtype=np.int64)
    corners = np.unique(facing_hull(np.concatenate([shares, reference])))
    return corners[corners < len(front)]


def recommend(
    front: Front,
    reference: FloatArray | None,
    *,
    where: Sequence[str] = (),
    within: Sequence[str] = (),
) -> int:
    """Return the position of the solution nearest to the ideal point, under conditions.

    Where the front has a hull with points of reference it is one of the hull's corners: a mixture
    is better than any other. Where no corner meets the conditions it is the nearest of all.

    Raises
    ------
    InputError
        As of :func:`~framework.analysis.choose.choose`.
    """
    corners = hull_corners(front, reference)
    if len(corners):
        hull = Front(front.rows.take(corners), front.roles, front.gene_names)
        try:
            return int(corners[choose(hull, where=where, within=within)])
        except InputError:  # of all solutions then, and its sentence
            pass
    return choose(front, where=where, within=within)
