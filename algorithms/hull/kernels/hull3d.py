"""The convex hull of a changing set of points in space, in exact whole numbers.

Equal, collinear and coplanar points are no special cases: a facet is a triangle of positive area,
and the vertices are the extreme points and nothing else. ``facets.py`` has the arrays.
"""

from __future__ import annotations

import numpy as np

from algorithms.hull.kernels.facets import (
    BLOCK,
    DROPPED,
    MADE,
    TOP,
    VOLUME,
    State,
    above,
    collinear,
    corner,
    drop_facet,
    height,
    join,
    link,
    new_facet,
    normal,
    same,
)
from framework.arrays import BoolArray, IntArray
from framework.jit import njit, njit_lean

MOST_LOST = (1 << 63) - 1
"""More than any volume."""


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
    """Make the hull of the first ``n`` points; False, and no facet, where they lie in a plane.

    Quickhull (Barber, Dobkin and Huhdanpaa 1996) in whole numbers: each point outside waits at a
    facet that it is above, the highest one of a facet joins the hull, and those that wait at the
    facets that go look at the new ones alone. Of equal points the first is the vertex.
    O(n log n) as a rule.
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
    head = np.full(len(s.free), -1, dtype=np.int64)  # the last point that waits at a facet ...
    after = np.full(n, -1, dtype=np.int64)  # ... and the one that waits behind each
    for k in range(4):
        s.outer[k] = k
    for p in range(n):
        if p != 0 and p != b and p != c and p != d:
            _wait(s, head, after, p, 4)
    todo = np.empty(len(s.free), dtype=np.int64)  # facets that points may wait at, each once
    listed = np.zeros(len(s.free), dtype=np.bool_)
    left = _list(s, head, todo, listed, 0, 4)
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
    """Have point p wait at the first of the new facets that it is above, if there is one."""
    for k in range(made):
        f = s.outer[k]
        if above(s, f, p) > 0:
            after[p] = head[f]
            head[f] = p
            return


@njit_lean
def _list(s: State, head: IntArray, todo: IntArray, listed: BoolArray, left: int, made: int) -> int:
    """Put the new facets that points wait at on the list ``todo``; return how long it is."""
    for k in range(made):
        f = s.outer[k]
        if head[f] >= 0 and not listed[f]:
            todo[left] = f
            listed[f] = True
            left += 1
    return left


@njit_lean
def _take_highest(s: State, head: IntArray, after: IntArray, f: int) -> int:
    """Remove from those that wait at facet f the highest point, of equal ones the first."""
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

    -1: p lies in the hull or on its boundary, or equals a vertex; nothing changed. Facets that p
    is coplanar with are replaced too: what p sees is then bounded by one simple cycle, and no
    facet without area and no vertex that is not extreme ever comes about.

    O(facets) to find a facet that p sees, O(facets seen) for the rest.
    """
    first = _seen(s, p)
    return -1 if first < 0 else _attach(s, p, first)


@njit_lean
def _attach(s: State, p: int, first: int) -> int:
    """Add point p, which lies strictly above a facet; return how many vertices it displaced."""
    held, count, gain = 1, 0, 0
    s.stack[0], s.mark[first] = first, 1
    while count < held:  # flood over what p sees or is coplanar with
        f = s.stack[count]
        count += 1
        gain += above(s, f, p)
        for i in range(3):
            g = s.across[f, i]
            if s.mark[g] == 0 and above(s, g, p) >= 0:
                s.mark[g] = 1
                s.stack[held] = g
                held += 1
    s.counts[VOLUME] += gain
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
        drop_facet(s, s.stack[k])
    _cone(s, p, n)
    for k in range(n):
        s.other[s.ring[k]] = -1
    s.counts[DROPPED], s.counts[MADE] = held, n
    return gone


@njit_lean
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


@njit_lean
def _cone(s: State, p: int, n: int) -> None:
    """Join point p to the closed polygon ``ring`` of length n; ``outer`` gets the new facets."""
    first, before = -1, -1
    for k in range(n):
        a, b = s.ring[k], s.ring[(k + 1) % n]
        f = new_facet(s, a, b, p)
        g = s.outer[k]
        s.across[f, 0] = g
        s.across[g, corner(s, g, b)] = f
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
    """Return the middle of three neighbours in ``ring`` whose plane bounds the hull without v.

    v lies on or above it, all other neighbours on or below.
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
        while holds and k < n:  # a, b and c lie on their plane exactly
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

    What is more than ``most`` is not counted to its end.

    The hull is that of its vertices alone: points inside are not looked at. Closing the hole
    that v leaves takes v's neighbours only, so the cost is Equation 9's: O(neighbours^2) as a
    rule, on spheres six neighbours in the mean.
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
    """Take vertex v out and close the hole from its neighbours.

    Points that were inside may be vertices now: the caller inserts them again. What stays must
    span a volume.
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
