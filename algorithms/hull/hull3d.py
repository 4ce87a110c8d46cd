"""A convex hull in space that points join and leave."""

from __future__ import annotations

import numpy as np

from algorithms.hull.kernels import facets
from algorithms.hull.kernels import hull3d as kernels
from framework.arrays import IntArray
from framework.errors import InputError

MOST_VOLUME = 1 << 60
"""Greatest product of the three extents; up to it all arithmetic is exact."""


class Hull3D:
    """The convex hull of whole-numbered points, exact whatever their position.

    Parameters
    ----------
    points : numpy.ndarray of int64, shape (n, 3)
        Not negative; the product of the greatest coordinates is at most 2^60. They must span a
        volume.
    room : int
        How many more points :meth:`insert` may bring.

    Raises
    ------
    InputError
        Another shape, coordinates out of range, or points that lie in one plane.

    Notes
    -----
    Insertion as in the incremental algorithm (Clarkson, Mehlhorn and Seidel 1993): O(facets) with
    a small factor, since every facet is tested for being seen. Deletion: O(neighbours^2).
    """

    def __init__(self, points: IntArray, room: int = 0) -> None:
        given = np.asarray(points, dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != 3:
            raise InputError(f"hull: expected points with shape (n, 3), found {given.shape}")
        extents = np.maximum(given.max(axis=0, initial=1), 1).tolist()
        if given.min(initial=0) < 0 or extents[0] * extents[1] * extents[2] > MOST_VOLUME:
            raise InputError(
                "hull: expected coordinates from 0 to X, Y, Z with X Y Z of at most 2^60, found "
                f"{given.min(initial=0)} to {extents}"
            )
        self._state = facets.empty_state(len(given) + room)
        self._state.points[: len(given)] = given
        self._n = len(given)
        if not kernels.build(self._state, self._n):
            raise InputError("hull: expected points that span a volume, found a plane's or fewer")

    def insert(self, point: IntArray) -> int:
        """Add a point; return its number, whether it is a vertex or not."""
        self._state.points[self._n] = point
        kernels.insert(self._state, self._n)
        self._n += 1
        return self._n - 1

    def delete(self, vertex: int) -> None:
        """Take a vertex out for good; points that it hid become vertices."""
        state = self._state
        kernels.delete(state, vertex)
        state.points[vertex] = state.points[self.vertices[0]]  # a duplicate is never a vertex
        for p in np.flatnonzero(state.facet_of[: self._n] < 0).tolist():
            kernels.insert(state, p)

    def contribution(self, vertex: int) -> float:
        """Return the volume lost with a vertex (Equation 8), were there no points inside."""
        return float(kernels.contribution(self._state, vertex)) / 6.0

    @property
    def volume6(self) -> int:
        """Six times the volume, a whole number."""
        return int(self._state.counts[2])

    @property
    def volume(self) -> float:
        """The volume."""
        return self.volume6 / 6.0

    @property
    def vertices(self) -> IntArray:
        """Numbers of the extreme points, ascending."""
        return np.flatnonzero(self._state.facet_of[: self._n] >= 0)

    @property
    def facets(self) -> IntArray:
        """Triangles, counter-clockwise from outside, shape (f, 3)."""
        corners = self._state.corners
        return corners[corners[:, 0] >= 0].copy()
