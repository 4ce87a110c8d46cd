"""The side of a convex hull that looks at the ideal point, for pictures of fronts."""

from __future__ import annotations

import numpy as np

from framework.arrays import FloatArray, IntArray

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
