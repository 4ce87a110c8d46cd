"""The arrays of a convex hull in space and its facets, in exact whole numbers.

Points have int64 coordinates in ``[0, X] x [0, Y] x [0, Z]`` with ``X Y Z <= 2^60``. Every plane,
every height over a plane and every volume is then exact.

Facets are kept as structures of arrays: ``planes`` (4, F) holds ``a, b, c, d`` with
``a x + b y + c z + d > 0`` outside, ``corners`` (F, 3) the vertices counter-clockwise seen from
outside, ``across`` (F, 3) the facet beyond the edge from corner ``i`` to corner ``i + 1``. A dead
facet has the plane ``0, 0, 0, -1``: no point sees it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import IntArray
from framework.jit import njit_lean

MOST_STEPS = 1 << 20
"""Steps of a coordinate that suit floats: three such axes keep every volume exact."""

BLOCK = 64
"""Facets looked at together; arrays of facets are a multiple of it long."""
TOP, FREE, VOLUME, DROPPED, MADE = range(5)
"""Places in ``State.counts``."""


class State(NamedTuple):
    """A hull's arrays; whoever changes one changes the hull.

    Attributes
    ----------
    points : int64 (capacity, 3)
    planes : int64 (4, facets), a multiple of 64 facets
    corners, across : int64 (facets, 3)
    facet_of : int64 (capacity,)
        A facet at each vertex; -1 for a point that is none.
    free, stack, mark : int64 (facets,)
        Facets to use again; two workplaces.
    ring, outer, other : int64 (capacity,)
        Workplaces: a closed polygon, the facets beyond its edges, a polygon more.
    gone : int64 (capacity,)
        Vertices that the last insertion displaced.
    counts : int64 (5,)
        Facets ever used, facets to use again, six times the volume; how many facets the last
        insertion dropped (in ``stack``) and made (in ``outer``).
    """

    points: IntArray
    planes: IntArray
    corners: IntArray
    across: IntArray
    facet_of: IntArray
    free: IntArray
    stack: IntArray
    mark: IntArray
    ring: IntArray
    outer: IntArray
    other: IntArray
    gone: IntArray
    counts: IntArray


def empty_state(capacity: int) -> State:
    """Return a hull with room for ``capacity`` points, and no facet yet."""
    facets = BLOCK * -(-(2 * capacity + 8) // BLOCK)
    planes = np.zeros((4, facets), dtype=np.int64)
    planes[3] = -1

    def numbers(*shape: int) -> IntArray:
        return np.full(shape, -1, dtype=np.int64)

    return State(
        points=np.zeros((capacity, 3), dtype=np.int64),
        planes=planes,
        corners=numbers(facets, 3),
        across=numbers(facets, 3),
        facet_of=numbers(capacity),
        free=numbers(facets),
        stack=numbers(facets),
        mark=np.zeros(facets, dtype=np.int64),
        ring=numbers(capacity),
        outer=numbers(capacity),
        other=numbers(capacity),
        gone=numbers(capacity),
        counts=np.zeros(5, dtype=np.int64),
    )


@njit_lean
def _from(points: IntArray, a: int, b: int) -> tuple[int, int, int]:
    """Return the vector from point a to point b."""
    return (
        points[b, 0] - points[a, 0],
        points[b, 1] - points[a, 1],
        points[b, 2] - points[a, 2],
    )


@njit_lean
def normal(points: IntArray, a: int, b: int, c: int) -> tuple[int, int, int]:
    """Return the normal of the triangle a, b, c; its length is twice the area."""
    ux, uy, uz = _from(points, a, b)
    vx, vy, vz = _from(points, a, c)
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


@njit_lean
def height(points: IntArray, a: int, b: int, c: int, p: int) -> int:
    """Return six times the signed volume of a tetrahedron; positive with p above a, b, c."""
    nx, ny, nz = normal(points, a, b, c)
    wx, wy, wz = _from(points, a, p)
    return int(wx * nx + wy * ny + wz * nz)


@njit_lean
def above(s: State, f: int, p: int) -> int:
    """Return the height of point p over facet f, times twice the facet's area."""
    points, planes = s.points, s.planes
    return int(
        planes[0, f] * points[p, 0]
        + planes[1, f] * points[p, 1]
        + planes[2, f] * points[p, 2]
        + planes[3, f]
    )


@njit_lean
def new_facet(s: State, a: int, b: int, c: int) -> int:
    """Make the facet a, b, c; the facets beyond its edges are the caller's business."""
    if s.counts[FREE] > 0:
        s.counts[FREE] -= 1
        f = s.free[s.counts[FREE]]
    else:
        f = s.counts[TOP]
        s.counts[TOP] += 1
    points = s.points
    nx, ny, nz = normal(points, a, b, c)
    s.planes[0, f], s.planes[1, f], s.planes[2, f] = nx, ny, nz
    s.planes[3, f] = -(nx * points[a, 0] + ny * points[a, 1] + nz * points[a, 2])
    s.corners[f, 0], s.corners[f, 1], s.corners[f, 2] = a, b, c
    s.facet_of[a], s.facet_of[b], s.facet_of[c] = f, f, f
    return int(f)


@njit_lean
def drop_facet(s: State, f: int) -> None:
    """Take facet f out; its number may be used again."""
    s.planes[0, f], s.planes[1, f], s.planes[2, f], s.planes[3, f] = 0, 0, 0, -1
    s.corners[f, 0] = -1
    s.free[s.counts[FREE]] = f
    s.counts[FREE] += 1


@njit_lean
def corner(s: State, f: int, v: int) -> int:
    """Return which corner of facet f is v: 0, 1 or 2."""
    if s.corners[f, 0] == v:
        return 0
    return 1 if s.corners[f, 1] == v else 2


@njit_lean
def join(s: State, f: int, i: int, g: int, at: int) -> None:
    """Make g the facet beyond edge i of f; in g the edge starts at vertex ``at``."""
    s.across[f, i] = g
    s.across[g, corner(s, g, at)] = f


@njit_lean
def link(s: State, v: int) -> int:
    """Put v's neighbours into ``ring``, counter-clockwise from outside; return their number.

    ``outer`` gets the facet beyond each edge of that polygon. O(neighbours).
    """
    first = s.facet_of[v]
    f, n = first, 0
    while True:
        i = corner(s, f, v)
        s.ring[n] = s.corners[f, (i + 1) % 3]
        s.outer[n] = s.across[f, (i + 1) % 3]
        n += 1
        f = s.across[f, (i + 2) % 3]
        if f == first:
            return n


@njit_lean
def same(points: IntArray, a: int, b: int) -> bool:
    """Tell whether points a and b are equal."""
    return bool(
        points[a, 0] == points[b, 0]
        and points[a, 1] == points[b, 1]
        and points[a, 2] == points[b, 2]
    )


@njit_lean
def collinear(points: IntArray, a: int, b: int, c: int) -> bool:
    """Tell whether three points lie on a line."""
    nx, ny, nz = normal(points, a, b, c)
    return nx == 0 and ny == 0 and nz == 0
