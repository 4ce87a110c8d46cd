"""The convex hull of a changing set of points in space, in exact whole numbers.

Points have int64 coordinates in ``[0, X] x [0, Y] x [0, Z]`` with ``X Y Z <= 2^60``. Every plane,
every height over a plane and every volume is then exact, so that equal, collinear and coplanar
points are no special cases: a facet is a triangle of positive area, and the vertices are the
extreme points and nothing else.

Facets are kept as structures of arrays: ``planes`` (4, F) holds ``a, b, c, d`` with
``a x + b y + c z + d > 0`` outside, ``corners`` (F, 3) the vertices counter-clockwise seen from
outside, ``across`` (F, 3) the facet beyond the edge from corner ``i`` to corner ``i + 1``. A dead
facet has the plane ``0, 0, 0, -1``: no point sees it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import IntArray
from framework.jit import njit

MOST_STEPS = 1 << 20
"""Steps of a coordinate that suit floats: three such axes keep every volume exact."""

BLOCK = 64
_TOP, _FREE, _VOLUME = range(3)


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
    counts : int64 (3,)
        Facets ever used, facets to use again, six times the volume.
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
        counts=np.zeros(3, dtype=np.int64),
    )


@njit
def _from(points: IntArray, a: int, b: int) -> tuple[int, int, int]:
    """Return the vector from point a to point b."""
    return (
        points[b, 0] - points[a, 0],
        points[b, 1] - points[a, 1],
        points[b, 2] - points[a, 2],
    )


@njit
def _normal(points: IntArray, a: int, b: int, c: int) -> tuple[int, int, int]:
    """Return the normal of the triangle a, b, c; its length is twice the area."""
    ux, uy, uz = _from(points, a, b)
    vx, vy, vz = _from(points, a, c)
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


@njit
def height(points: IntArray, a: int, b: int, c: int, p: int) -> int:
    """Return six times the signed volume of a tetrahedron; positive with p above a, b, c."""
    nx, ny, nz = _normal(points, a, b, c)
    wx, wy, wz = _from(points, a, p)
    return int(wx * nx + wy * ny + wz * nz)


@njit
def _above(s: State, f: int, p: int) -> int:
    """Return the height of point p over facet f, times twice the facet's area."""
    points, planes = s.points, s.planes
    return int(
        planes[0, f] * points[p, 0]
        + planes[1, f] * points[p, 1]
        + planes[2, f] * points[p, 2]
        + planes[3, f]
    )


@njit
def _new_facet(s: State, a: int, b: int, c: int) -> int:
    """Make the facet a, b, c; the facets beyond its edges are the caller's business."""
    if s.counts[_FREE] > 0:
        s.counts[_FREE] -= 1
        f = s.free[s.counts[_FREE]]
    else:
        f = s.counts[_TOP]
        s.counts[_TOP] += 1
    points = s.points
    nx, ny, nz = _normal(points, a, b, c)
    s.planes[0, f], s.planes[1, f], s.planes[2, f] = nx, ny, nz
    s.planes[3, f] = -(nx * points[a, 0] + ny * points[a, 1] + nz * points[a, 2])
    s.corners[f, 0], s.corners[f, 1], s.corners[f, 2] = a, b, c
    s.facet_of[a], s.facet_of[b], s.facet_of[c] = f, f, f
    return int(f)


@njit
def _drop_facet(s: State, f: int) -> None:
    s.planes[0, f], s.planes[1, f], s.planes[2, f], s.planes[3, f] = 0, 0, 0, -1
    s.corners[f, 0] = -1
    s.free[s.counts[_FREE]] = f
    s.counts[_FREE] += 1


@njit
def _corner(s: State, f: int, v: int) -> int:
    """Return which corner of facet f is v: 0, 1 or 2."""
    if s.corners[f, 0] == v:
        return 0
    return 1 if s.corners[f, 1] == v else 2


@njit
def start(s: State, a: int, b: int, c: int, d: int) -> None:
    """Make the hull of four points that span a volume."""
    if height(s.points, a, b, c, d) > 0:  # d must lie below a, b, c
        b, c = c, b
    f = _new_facet(s, a, b, c)
    g = _new_facet(s, b, a, d)
    h = _new_facet(s, c, b, d)
    k = _new_facet(s, a, c, d)
    s.across[f, 0], s.across[f, 1], s.across[f, 2] = g, h, k
    s.across[g, 0], s.across[g, 1], s.across[g, 2] = f, k, h
    s.across[h, 0], s.across[h, 1], s.across[h, 2] = f, g, k
    s.across[k, 0], s.across[k, 1], s.across[k, 2] = f, h, g
    s.counts[_VOLUME] = -height(s.points, a, b, c, d)


@njit
def build(s: State, n: int) -> bool:
    """Make the hull of the first ``n`` points; False, and no facet, where they lie in a plane."""
    points, b, c, d = s.points, 1, 2, 3
    while b < n and _same(points, 0, b):
        b += 1
    c = b + 1
    while c < n and _collinear(points, 0, b, c):
        c += 1
    d = c + 1
    while d < n and height(points, 0, b, c, d) == 0:
        d += 1
    if d >= n:
        return False
    start(s, 0, b, c, d)
    for p in range(n):
        if p != 0 and p != b and p != c and p != d:
            insert(s, p)
    return True


@njit
def _same(points: IntArray, a: int, b: int) -> bool:
    return bool((points[a] == points[b]).all())


@njit
def _collinear(points: IntArray, a: int, b: int, c: int) -> bool:
    nx, ny, nz = _normal(points, a, b, c)
    return nx == 0 and ny == 0 and nz == 0


@njit
def _seen(s: State, p: int) -> int:
    """Return a facet that point p lies strictly above; -1 where p is in the hull."""
    x, y, z = s.points[p, 0], s.points[p, 1], s.points[p, 2]
    A, B, C, D = s.planes[0], s.planes[1], s.planes[2], s.planes[3]
    for first in range(0, s.counts[_TOP], BLOCK):
        highest = np.int64(-1)
        for f in range(first, first + BLOCK):
            highest = max(highest, A[f] * x + B[f] * y + C[f] * z + D[f])
        if highest > 0:
            for f in range(first, first + BLOCK):
                if A[f] * x + B[f] * y + C[f] * z + D[f] > 0:
                    return f
    return -1


@njit
def insert(s: State, p: int) -> int:
    """Add point p; return how many vertices it displaced (they are in ``gone``), or -1.

    -1: p lies in the hull or on its boundary, or equals a vertex; nothing changed. Facets that p
    is coplanar with are replaced too: what p sees is then bounded by one simple cycle, and no
    facet without area and no vertex that is not extreme ever comes about.

    O(facets) to find a facet that p sees, O(facets seen) for the rest.
    """
    first = _seen(s, p)
    if first < 0:
        return -1
    held, count, gain = 1, 0, 0
    s.stack[0], s.mark[first] = first, 1
    while count < held:  # flood over what p sees or is coplanar with
        f = s.stack[count]
        count += 1
        gain += _above(s, f, p)
        for i in range(3):
            g = s.across[f, i]
            if s.mark[g] == 0 and _above(s, g, p) >= 0:
                s.mark[g] = 1
                s.stack[held] = g
                held += 1
    s.counts[_VOLUME] += gain
    n = _horizon(s, held)
    gone = 0
    for k in range(held):  # vertices of facets seen that are not on the horizon
        for i in range(3):
            v = s.corners[s.stack[k], i]
            if s.other[v] < 0 and s.facet_of[v] >= 0:
                s.facet_of[v] = -1
                s.gone[gone] = v
                gone += 1
    for k in range(held):
        s.mark[s.stack[k]] = 0
        _drop_facet(s, s.stack[k])
    _cone(s, p, n)
    for k in range(n):
        s.other[s.ring[k]] = -1
    return gone


@njit
def _horizon(s: State, held: int) -> int:
    """Put the border of the facets marked into ``ring`` and what lies beyond into ``outer``.

    ``other`` holds the edge that starts at each of its vertices. Returns the border's length.
    """
    edges = 0
    for k in range(held):
        f = s.stack[k]
        for i in range(3):
            if s.mark[s.across[f, i]] == 0:
                s.other[s.corners[f, i]] = 3 * f + i
                edges += 1
    v = -1
    for k in range(held):
        f = s.stack[k]
        for i in range(3):
            if s.mark[s.across[f, i]] == 0:
                v = s.corners[f, i]
    for k in range(edges):
        f, i = s.other[v] // 3, s.other[v] % 3
        s.ring[k], s.outer[k] = v, s.across[f, i]
        v = s.corners[f, (i + 1) % 3]
    return edges


@njit
def _cone(s: State, p: int, n: int) -> None:
    """Join point p to the closed polygon ``ring`` of length n."""
    first, before = -1, -1
    for k in range(n):
        a, b = s.ring[k], s.ring[(k + 1) % n]
        f = _new_facet(s, a, b, p)
        g = s.outer[k]
        s.across[f, 0] = g
        s.across[g, _corner(s, g, b)] = f
        if before >= 0:
            s.across[f, 2] = before
            s.across[before, 1] = f
        else:
            first = f
        before = f
    s.across[first, 2] = before
    s.across[before, 1] = first


@njit
def link(s: State, v: int) -> int:
    """Put v's neighbours into ``ring``, counter-clockwise from outside; return their number.

    ``outer`` gets the facet beyond each edge of that polygon. O(neighbours).
    """
    first = s.facet_of[v]
    f, n = first, 0
    while True:
        i = _corner(s, f, v)
        s.ring[n] = s.corners[f, (i + 1) % 3]
        s.outer[n] = s.across[f, (i + 1) % 3]
        n += 1
        f = s.across[f, (i + 2) % 3]
        if f == first:
            return n


@njit
def _ear(s: State, v: int, n: int) -> int:
    """Return the middle of three neighbours in ``ring`` whose plane bounds the hull without v.

    v lies on or above it, all other neighbours on or below.
    """
    points = s.points
    for j in range(n):
        a, b, c = s.ring[(j + n - 1) % n], s.ring[j], s.ring[(j + 1) % n]
        if height(points, a, b, c, v) < 0:
            continue
        holds = True
        for k in range(n):
            w = s.ring[k]
            if w != a and w != b and w != c and height(points, a, b, c, w) > 0:
                holds = False
                break
        if holds:
            return j
    return -1


@njit
def contribution(s: State, v: int) -> int:
    """Return six times the volume that the hull loses with vertex v (Equation 8), exactly.

    The hull is that of its vertices alone: points inside are not looked at. Closing the hole
    that v leaves takes v's neighbours only, so the cost is Equation 9's: O(neighbours^2) as a
    rule, on spheres six neighbours in the mean.
    """
    n = link(s, v)
    lost = 0
    while n >= 3:
        j = 0 if n == 3 else _ear(s, v, n)
        lost += height(s.points, s.ring[(j + n - 1) % n], s.ring[j], s.ring[(j + 1) % n], v)
        for k in range(j, n - 1):
            s.ring[k] = s.ring[k + 1]
        n -= 1
    return lost


@njit
def delete(s: State, v: int) -> None:
    """Take vertex v out and close the hole from its neighbours.

    Points that were inside may be vertices now: the caller inserts them again. What stays must
    span a volume.
    """
    n = link(s, v)
    f = s.facet_of[v]
    for _ in range(n):
        after = s.across[f, (_corner(s, f, v) + 2) % 3]
        _drop_facet(s, f)
        f = after
    s.facet_of[v] = -1
    while n >= 3:
        j = 0 if n == 3 else _ear(s, v, n)
        before, after = (j + n - 1) % n, (j + 1) % n
        a, b, c = s.ring[before], s.ring[j], s.ring[after]
        s.counts[_VOLUME] -= height(s.points, a, b, c, v)
        f = _new_facet(s, a, b, c)
        _join(s, f, 0, s.outer[before], b)
        _join(s, f, 1, s.outer[j], c)
        if n == 3:
            _join(s, f, 2, s.outer[after], a)
        s.outer[before] = f
        for k in range(j, n - 1):
            s.ring[k], s.outer[k] = s.ring[k + 1], s.outer[k + 1]
        n -= 1


@njit
def _join(s: State, f: int, i: int, g: int, at: int) -> None:
    """Make g the facet beyond edge i of f; in g the edge starts at vertex ``at``."""
    s.across[f, i] = g
    s.across[g, _corner(s, g, at)] = f
