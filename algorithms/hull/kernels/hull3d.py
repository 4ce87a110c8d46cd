"""The convex hull of a changing set of points in space, in exact whole numbers.

Points have int64 coordinates in ``[0, X] x [0, Y] x [0, Z]`` with ``X Y Z <= 2^60``. Every plane,
every height over a plane and every volume is then exact, and equal, collinear and coplanar points
are no special cases: a facet is a triangle of positive area, and the vertices are the extreme
points and nothing else.

Facets are kept as structures of arrays: ``planes`` (4, F) holds ``a, b, c, d`` with
``a x + b y + c z + d > 0`` outside, ``corners`` (F, 3) the vertices counter-clockwise seen from
outside, ``across`` (F, 3) the facet beyond the edge from corner ``i`` to corner ``i + 1``. A dead
facet has the plane ``0, 0, 0, -1``: no point sees it, so that loops over facets need no test of
which are alive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import BoolArray, IntArray
from framework.errors import InputError
from framework.jit import njit, njit_lean

MOST_VOLUME = 1 << 60
"""Greatest product of the three extents; up to it all arithmetic is exact."""

MOST_STEPS = 1 << 20
"""Steps of the grid that real values are rounded to: three such axes reach ``MOST_VOLUME``."""

MOST_LOST = (1 << 63) - 1
"""The greatest int64: more than any volume."""

BLOCK = 64
"""Facets that one loop tests without a branch; arrays of facets have a multiple of it as length."""
TOP, FREE, VOLUME, DROPPED, MADE = range(5)
"""Positions in ``State.counts``."""


class State(NamedTuple):
    """The arrays of a hull, which the functions of this module change in place.

    Attributes
    ----------
    points : int64 (capacity, 3)
    planes : int64 (4, facets)
        The number of facets is a multiple of ``BLOCK``.
    corners, across : int64 (facets, 3)
    facet_of : int64 (capacity,)
        One of the facets at each vertex; -1 for a point that is not a vertex.
    free : int64 (facets,)
        Numbers of dropped facets, to be used again.
    stack, mark : int64 (facets,)
        Scratch space: the facets that an insertion drops, and a 1 for each of them.
    ring, outer, other : int64 (capacity,)
        Scratch space: a closed polygon, the facets beyond its edges, and for each vertex the edge
        of the horizon that starts there (-1 for none).
    gone : int64 (capacity,)
        Vertices that the last insertion displaced.
    counts : int64 (5,)
        Facet numbers ever used, length of ``free``, six times the volume, and how many facets the
        last insertion dropped (in ``stack``) and made (in ``outer``).
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
def _vector(points: IntArray, a: int, b: int) -> tuple[int, int, int]:
    """Return the vector from point a to point b."""
    return (
        points[b, 0] - points[a, 0],
        points[b, 1] - points[a, 1],
        points[b, 2] - points[a, 2],
    )


@njit_lean
def normal(points: IntArray, a: int, b: int, c: int) -> tuple[int, int, int]:
    """Return the normal of the triangle a, b, c; its length is twice the area."""
    ux, uy, uz = _vector(points, a, b)
    vx, vy, vz = _vector(points, a, c)
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


@njit_lean
def height(points: IntArray, a: int, b: int, c: int, p: int) -> int:
    """Return six times the signed volume of a tetrahedron; positive if p is above a, b, c."""
    nx, ny, nz = normal(points, a, b, c)
    wx, wy, wz = _vector(points, a, p)
    return int(wx * nx + wy * ny + wz * nz)


@njit_lean
def above(s: State, f: int, p: int) -> int:
    """Return six times the signed volume between facet f and point p; positive if f sees p."""
    points, planes = s.points, s.planes
    return int(
        planes[0, f] * points[p, 0]
        + planes[1, f] * points[p, 1]
        + planes[2, f] * points[p, 2]
        + planes[3, f]
    )


@njit_lean
def new_facet(s: State, a: int, b: int, c: int) -> int:
    """Make the facet a, b, c and return its number; the caller fills in ``across``."""
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
    """Remove facet f, so that its number can be used again."""
    s.planes[0, f], s.planes[1, f], s.planes[2, f], s.planes[3, f] = 0, 0, 0, -1
    s.corners[f, 0] = -1
    s.free[s.counts[FREE]] = f
    s.counts[FREE] += 1


@njit_lean
def corner(s: State, f: int, v: int) -> int:
    """Return which corner of facet f the vertex v is: 0, 1 or 2."""
    if s.corners[f, 0] == v:
        return 0
    return 1 if s.corners[f, 1] == v else 2


@njit_lean
def join(s: State, f: int, i: int, g: int, v: int) -> None:
    """Make g the facet beyond edge i of f; in g, that edge starts at vertex v."""
    s.across[f, i] = g
    s.across[g, corner(s, g, v)] = f


@njit_lean
def link(s: State, v: int) -> int:
    """Put v's neighbours into ``ring``, counter-clockwise from outside; return how many there are.

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
    """Return whether points a and b are equal."""
    return bool(
        points[a, 0] == points[b, 0]
        and points[a, 1] == points[b, 1]
        and points[a, 2] == points[b, 2]
    )


@njit_lean
def collinear(points: IntArray, a: int, b: int, c: int) -> bool:
    """Return whether three points lie on a line."""
    nx, ny, nz = normal(points, a, b, c)
    return nx == 0 and ny == 0 and nz == 0


@njit_lean
def start(s: State, a: int, b: int, c: int, d: int) -> None:
    """Make the hull of four points that span a volume."""
    if height(s.points, a, b, c, d) > 0:  # d must lie below a, b, c
        b, c = c, b
    f = new_facet(s, a, b, c)
    g = new_facet(s, b, a, d)
    h = new_facet(s, c, b, d)
    k = new_facet(s, a, c, d)
    s.across[f, 0], s.across[f, 1], s.across[f, 2] = g, h, k
    s.across[g, 0], s.across[g, 1], s.across[g, 2] = f, k, h
    s.across[h, 0], s.across[h, 1], s.across[h, 2] = f, g, k
    s.across[k, 0], s.across[k, 1], s.across[k, 2] = f, h, g
    s.counts[VOLUME] = -height(s.points, a, b, c, d)


@njit
def build(s: State, n: int) -> bool:
    """Make the hull of the first ``n`` points; return False, and make none, if they are coplanar.

    Quickhull (Barber, Dobkin and Huhdanpaa 1996) in whole numbers: each point outside the hull
    waits at one facet that it lies above. The highest point that waits at a facet joins the hull,
    and the points that waited at the facets it replaces are tested against the new facets only.
    Of equal points the first becomes the vertex. O(n log n) as a rule.
    """
    points, b, c, d = s.points, 1, 2, 3
    while b < n and same(points, 0, b):
        b += 1
    c = b + 1
    while c < n and collinear(points, 0, b, c):
        c += 1
    d = c + 1
    while d < n and height(points, 0, b, c, d) == 0:
        d += 1
    if d >= n:
        return False
    start(s, 0, b, c, d)
    # the points that wait at a facet are a linked list: its head, and the point after each point
    head = np.full(len(s.free), -1, dtype=np.int64)
    after = np.full(n, -1, dtype=np.int64)
    for k in range(4):
        s.outer[k] = k
    for p in range(n):
        if p != 0 and p != b and p != c and p != d:
            _wait(s, head, after, p, 4)
    todo = np.empty(len(s.free), dtype=np.int64)  # a stack of facets that points may wait at
    listed = np.zeros(len(s.free), dtype=np.bool_)
    left = _list(s, head, todo, listed, 0, 4)  # length of the stack
    while left > 0:
        f = todo[left - 1]
        if head[f] < 0:
            left -= 1
            listed[f] = False
            continue
        _attach(s, _take_highest(s, head, after, f), f)
        made = s.counts[MADE]
        for k in range(s.counts[DROPPED]):
            g = s.stack[k]
            p = head[g]
            head[g] = -1
            while p >= 0:
                behind = after[p]
                _wait(s, head, after, p, made)
                p = behind
        left = _list(s, head, todo, listed, left, made)
    return True


@njit_lean
def _wait(s: State, head: IntArray, after: IntArray, p: int, made: int) -> None:
    """Make point p wait at the first of the new facets that it is above, if there is one."""
    for k in range(made):
        f = s.outer[k]
        if above(s, f, p) > 0:
            after[p] = head[f]
            head[f] = p
            return


@njit_lean
def _list(s: State, head: IntArray, todo: IntArray, listed: BoolArray, left: int, made: int) -> int:
    """Push the new facets that points wait at onto ``todo``, each once; return its length."""
    for k in range(made):
        f = s.outer[k]
        if head[f] >= 0 and not listed[f]:
            todo[left] = f
            listed[f] = True
            left += 1
    return left


@njit_lean
def _take_highest(s: State, head: IntArray, after: IntArray, f: int) -> int:
    """Remove the highest point that waits at facet f and return it; of equal ones the first."""
    best, best_height, before_best = -1, 0, -1
    before, p = -1, head[f]
    while p >= 0:
        high = above(s, f, p)
        if high > best_height or (high == best_height and p < best):
            best, best_height, before_best = p, high, before
        before, p = p, after[p]
    if before_best < 0:
        head[f] = after[best]
    else:
        after[before_best] = after[best]
    return int(best)


@njit_lean
def _seen(s: State, p: int) -> int:
    """Return a facet that point p lies strictly above; -1 where p is in the hull."""
    x, y, z = s.points[p, 0], s.points[p, 1], s.points[p, 2]
    A, B, C, D = s.planes[0], s.planes[1], s.planes[2], s.planes[3]
    for first in range(0, s.counts[TOP], BLOCK):
        # one maximum over a block has no branch and vectorises; its facet is looked up afterwards
        highest = np.int64(-1)
        for f in range(first, first + BLOCK):
            highest = max(highest, A[f] * x + B[f] * y + C[f] * z + D[f])
        if highest > 0:
            for f in range(first, first + BLOCK):
                if A[f] * x + B[f] * y + C[f] * z + D[f] > 0:
                    return f
    return -1


@njit_lean
def insert(s: State, p: int) -> int:
    """Add point p; return how many vertices it displaced (they are in ``gone``), or -1.

    The result is -1, and nothing changes, if p lies in the hull or on its boundary. Facets that
    are coplanar with p are replaced too. What is removed is then bounded by one simple cycle, and
    neither a facet without area nor a vertex that is not extreme can arise.

    As in the incremental algorithm (Clarkson, Mehlhorn and Seidel 1993): O(facets) with a small
    factor to find a facet that p sees, O(facets seen) for the rest.
    """
    first = _seen(s, p)
    return -1 if first < 0 else _attach(s, p, first)


@njit_lean
def _attach(s: State, p: int, first: int) -> int:
    """Add point p, which lies strictly above facet ``first``; return as :func:`insert` does."""
    visible, count, gain = 1, 0, 0
    s.stack[0], s.mark[first] = first, 1
    while count < visible:  # flood over the facets that p sees or is coplanar with
        f = s.stack[count]
        count += 1
        gain += above(s, f, p)
        for i in range(3):
            g = s.across[f, i]
            if s.mark[g] == 0 and above(s, g, p) >= 0:
                s.mark[g] = 1
                s.stack[visible] = g
                visible += 1
    s.counts[VOLUME] += gain
    n = _horizon(s, visible)
    gone = 0
    for k in range(visible):  # the displaced vertices: corners that are not on the horizon
        for i in range(3):
            v = s.corners[s.stack[k], i]
            if s.other[v] < 0 and s.facet_of[v] >= 0:
                s.facet_of[v] = -1
                s.gone[gone] = v
                gone += 1
    for k in range(visible):
        s.mark[s.stack[k]] = 0
        drop_facet(s, s.stack[k])
    _cone(s, p, n)
    for k in range(n):
        s.other[s.ring[k]] = -1
    s.counts[DROPPED], s.counts[MADE] = visible, n
    return gone


@njit_lean
def _horizon(s: State, visible: int) -> int:
    """Put the border of the marked facets into ``ring`` and the facets beyond it into ``outer``.

    ``other`` gets the edge that starts at each vertex of the border. Returns the border's length.
    """
    edges, v = 0, -1
    for k in range(visible):
        f = s.stack[k]
        for i in range(3):
            if s.mark[s.across[f, i]] == 0:
                v = s.corners[f, i]
                s.other[v] = 3 * f + i
                edges += 1
    for k in range(edges):
        f, i = s.other[v] // 3, s.other[v] % 3
        s.ring[k], s.outer[k] = v, s.across[f, i]
        v = s.corners[f, (i + 1) % 3]
    return edges


@njit_lean
def _cone(s: State, p: int, n: int) -> None:
    """Join point p to the closed polygon ``ring`` of length n; ``outer`` gets the new facets."""
    first, before = -1, -1
    for k in range(n):
        a, b = s.ring[k], s.ring[(k + 1) % n]
        f = new_facet(s, a, b, p)
        join(s, f, 0, s.outer[k], b)
        if before >= 0:
            s.across[f, 2] = before
            s.across[before, 1] = f
        else:
            first = f
        s.outer[k] = f
        before = f
    s.across[first, 2] = before
    s.across[before, 1] = first


@njit_lean
def _ear(s: State, v: int, n: int) -> int:
    """Return the position of an ear in ``ring``, the polygon of the ``n`` neighbours of v.

    An ear and the neighbours before and after it are a facet of the hull without v: v lies on or
    above their plane, all other neighbours on or below. The three are never collinear, since all
    are extreme points.
    """
    points, ring = s.points, s.ring
    x, y, z = points[v, 0], points[v, 1], points[v, 2]
    a, b = ring[n - 1], ring[0]
    for j in range(n):
        c = ring[j + 1] if j + 1 < n else ring[0]
        nx, ny, nz = normal(points, a, b, c)
        plane = nx * points[a, 0] + ny * points[a, 1] + nz * points[a, 2]
        holds = nx * x + ny * y + nz * z >= plane
        k = 0
        while holds and k < n:  # a, b and c pass: arithmetic is exact, and they lie on the plane
            w = ring[k]
            holds = nx * points[w, 0] + ny * points[w, 1] + nz * points[w, 2] <= plane
            k += 1
        if holds:
            return j
        a, b = b, c
    return -1


@njit_lean
def contribution(s: State, v: int, most: int = MOST_LOST) -> int:
    """Return six times the volume that the hull loses with vertex v (Equation 8), exactly.

    Points inside the hull are ignored, although some of them may be vertices without v. The hole
    that v leaves is closed by its neighbours, one ear after the other (Equation 9): O(neighbours^2)
    as a rule, with fewer than six neighbours on average. Once the sum exceeds ``most``, it is
    returned unfinished.
    """
    n = link(s, v)
    lost = 0
    while n >= 3 and lost <= most:
        j = 0 if n == 3 else _ear(s, v, n)
        before, after = s.ring[j - 1 if j else n - 1], s.ring[j + 1 if j + 1 < n else 0]
        lost += height(s.points, before, s.ring[j], after, v)
        for k in range(j, n - 1):
            s.ring[k] = s.ring[k + 1]
        n -= 1
    return lost


@njit_lean
def delete(s: State, v: int) -> None:
    """Remove vertex v and close the hole with facets between its neighbours.

    Points that were inside may be vertices now: the caller inserts them again. If the remaining
    vertices lie in one plane, the facets are the two sides of a polygon.
    """
    n = link(s, v)
    f = s.facet_of[v]
    for _ in range(n):
        after = s.across[f, (corner(s, f, v) + 2) % 3]
        drop_facet(s, f)
        f = after
    s.facet_of[v] = -1
    while n >= 3:
        j = 0 if n == 3 else _ear(s, v, n)
        before, after = (j + n - 1) % n, (j + 1) % n
        a, b, c = s.ring[before], s.ring[j], s.ring[after]
        s.counts[VOLUME] -= height(s.points, a, b, c, v)
        f = new_facet(s, a, b, c)
        join(s, f, 0, s.outer[before], b)
        join(s, f, 1, s.outer[j], c)
        if n == 3:
            join(s, f, 2, s.outer[after], a)
        s.outer[before] = f
        for k in range(j, n - 1):
            s.ring[k], s.outer[k] = s.ring[k + 1], s.outer[k + 1]
        n -= 1


class Hull3D:
    """The convex hull of whole-numbered points, exact whatever their position.

    Parameters
    ----------
    points : numpy.ndarray of int64, shape (n, 3)
        Not negative; the product of the greatest coordinates is at most 2^60. They must span a
        volume.

    Raises
    ------
    InputError
        The shape is wrong, coordinates are out of range, or the points lie in one plane.
    """

    def __init__(self, points: IntArray) -> None:
        grid_points = np.asarray(points, dtype=np.int64)
        if grid_points.ndim != 2 or grid_points.shape[1] != 3:
            raise InputError(f"hull: expected points with shape (n, 3), found {grid_points.shape}")
        extents = np.maximum(grid_points.max(axis=0, initial=1), 1).tolist()
        if grid_points.min(initial=0) < 0 or extents[0] * extents[1] * extents[2] > MOST_VOLUME:
            raise InputError(
                "hull: expected coordinates from 0 to X, Y, Z with X Y Z of at most 2^60, found "
                f"{grid_points.min(initial=0)} to {extents}"
            )
        self._state = empty_state(len(grid_points))
        self._state.points[:] = grid_points
        if not build(self._state, len(grid_points)):
            raise InputError("hull: expected points that span a volume, found points in one plane")

    @property
    def volume6(self) -> int:
        """Six times the volume, a whole number."""
        return int(self._state.counts[VOLUME])

    @property
    def vertices(self) -> IntArray:
        """Numbers of the extreme points, ascending, shape (v,)."""
        return np.flatnonzero(self._state.facet_of >= 0)
