"""The convex hull of a changing set of points in two to six dimensions, in exact whole numbers.

Points have int64 coordinates from 0 to :func:`most_steps`. Normals then fit into 64 bits, and the
height of a point over a hyperplane is summed in two parts of 32 bits, so that its sign is exact:
points that are equal or lie in one hyperplane are no special cases. Volumes are sums of floats.
A *ridge* is what two neighbouring facets share: m - 1 vertices.

A facet is a simplex of ``m`` vertices, its ``corners``; ``across[f, i]`` is the facet beyond the
ridge of all corners of f but the i-th. :mod:`algorithms.hull.kernels.hull3d` is the form for three
dimensions, several times as fast.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.jit import njit, njit_inline, njit_lean

MOST_DIMENSIONS = 6

_HALF = np.int64(32)  # a normal's coordinate is split into its upper and lower 32 bits
_LOW = np.int64((1 << 32) - 1)
_FULL = -2
"""Returned, with nothing changed, where there is no room for the facets that would be made."""

_STAYS, _GOES = 2, 1
"""Marks of facets: one that an insertion keeps, and one that it removes."""

_TOP, _FREE, _STACK, _POINTS = range(4)
"""Positions in ``State.counts``."""


def most_steps(m: int) -> int:
    """Return the greatest coordinate in ``m`` dimensions with which all minors fit into int64."""
    bits = (62 - math.ceil(math.log2(math.factorial(m - 1)))) // (m - 1)
    return 1 << min(bits, 20)


class State(NamedTuple):
    """The arrays of a hull, which the functions of this module change in place.

    Attributes
    ----------
    points : int64 (capacity, m)
    normals : int64 (facets, m)
        Outward; their length is (m - 1)! times the (m - 1)-dimensional volume of the facet.
    corners, across : int64 (facets, m)
        ``corners[f, 0]`` is -1 if the number f is not in use.
    ridges : int64 (m facets, 2)
        Scratch space: the ridges between removed facets and others, each as the removed facet and
        the position of the corner that the ridge lacks.
    facet_of : int64 (capacity,)
        One of the facets at each vertex; -1 for a point that is not a vertex.
    free : int64 (facets,)
        Numbers of removed facets, to be used again.
    stack, mark : int64 (facets,)
        Scratch space: the facets that an insertion removes or that a vertex has, and their marks.
    vertices : int64 (capacity,)
        Scratch space: the vertices that an insertion displaced, or the neighbours of a vertex.
    steps : int64 (steps, 3)
        How minors are computed from smaller ones (:func:`_minor_steps`).
    levels : int64 (m,)
        Where in ``steps`` the minors of each size begin.
    minors : int64 (2^m,)
        Scratch space: the minor of the first rows for each set of as many columns.
    counts : int64 (4,)
        Facet numbers ever used, length of ``free``, length of ``stack``, and, in the hull of a
        vertex's neighbours, their number (0 if they lie in one hyperplane).
    """

    points: IntArray
    normals: IntArray
    corners: IntArray
    across: IntArray
    ridges: IntArray
    facet_of: IntArray
    free: IntArray
    stack: IntArray
    mark: IntArray
    vertices: IntArray
    steps: IntArray
    levels: IntArray
    minors: IntArray
    counts: IntArray


def _minor_steps(m: int) -> tuple[IntArray, IntArray]:
    """Return how to compute all minors of a matrix of m - 1 rows, expanded along their last rows.

    A set of columns is a whole number with a bit for each column. A minor of k + 1 rows has k + 1
    steps, ``(columns, j, columns without j)`` for each of its columns j, ascending. The steps of
    these minors begin at ``levels[k]``; ``levels[m - 1]`` is the number of all steps.
    """
    steps, levels = [], [0]
    for size in range(1, m):
        for columns in range(1, 1 << m):
            if columns.bit_count() == size:
                for j in range(m):
                    if columns >> j & 1:
                        steps.append((columns, j, columns ^ 1 << j))
        levels.append(len(steps))
    return np.array(steps, dtype=np.int64), np.array(levels, dtype=np.int64)


def _empty_state(capacity: int, m: int, facets: int) -> State:
    """Return a hull with room for ``capacity`` points and some facets; it has no facet yet."""
    steps, levels = _minor_steps(m)

    def numbers(*shape: int) -> IntArray:
        return np.full(shape, -1, dtype=np.int64)

    return State(
        points=np.zeros((capacity, m), dtype=np.int64),
        normals=np.zeros((facets, m), dtype=np.int64),
        corners=numbers(facets, m),
        across=numbers(facets, m),
        ridges=numbers(m * facets, 2),
        facet_of=numbers(capacity),
        free=numbers(facets),
        stack=numbers(facets),
        mark=np.zeros(facets, dtype=np.int64),
        vertices=numbers(capacity),
        steps=steps,
        levels=levels,
        minors=np.zeros(1 << m, dtype=np.int64),
        counts=np.zeros(4, dtype=np.int64),
    )


def _with_room(s: State) -> State:
    """Return the same hull with room for twice as many facets."""
    more = _empty_state(len(s.points), s.points.shape[1], 2 * len(s.free))
    for old, new in zip(s, more, strict=True):
        new[: len(old)] = old
    return more


@njit_inline
def _above(s: State, f: int, p: int) -> float:
    """Return the height of point p over facet f, times the length of its normal.

    The sign is exact, the value rounded once. Each product of a normal's upper or lower 32 bits
    with a coordinate is below 2^52, so that the two sums are exact.
    """
    base = s.corners[f, 0]
    high = low = np.int64(0)
    for j in range(s.points.shape[1]):
        n, step = s.normals[f, j], s.points[p, j] - s.points[base, j]
        high += (n >> _HALF) * step
        low += (n & _LOW) * step
    return float(high + (low >> _HALF)) * 4294967296.0 + float(low & _LOW)


@njit_inline
def _add_row(s: State, k: int, a: int, b: int) -> bool:
    """Compute the minors of k + 1 rows from those of k; the last row is the vector from a to b.

    Returns whether one of them is not 0, that is, whether the rows are linearly independent.
    """
    independent, minor, left = False, np.int64(0), k
    for t in range(s.levels[k], s.levels[k + 1]):
        j = s.steps[t, 1]  # the signs of an expansion alternate; that of the last column is plus
        minor = (s.points[b, j] - s.points[a, j]) * s.minors[s.steps[t, 2]] - minor
        if left:
            left -= 1
        else:
            s.minors[s.steps[t, 0]] = minor
            independent |= minor != 0
            minor, left = np.int64(0), k
    return independent


@njit_inline
def _turn(s: State, f: int, below: int) -> bool:
    """Compute the normal of facet f so that a point lies below; return False if it lies on it."""
    m = s.points.shape[1]
    s.minors[0] = 1
    for k in range(m - 1):
        _add_row(s, k, s.corners[f, 0], s.corners[f, k + 1])
    for j in range(m):
        minor = s.minors[((1 << m) - 1) ^ (1 << j)]
        s.normals[f, j] = -minor if j % 2 else minor
    height = _above(s, f, below)
    if height > 0.0:
        for j in range(m):
            s.normals[f, j] = -s.normals[f, j]
    return height != 0.0


@njit_lean
def _new_facet(s: State) -> int:
    """Return the number of a facet that is not in use."""
    if s.counts[_FREE] > 0:
        s.counts[_FREE] -= 1
        return int(s.free[s.counts[_FREE]])
    s.counts[_TOP] += 1
    return int(s.counts[_TOP] - 1)


@njit_lean
def _drop_stack(s: State) -> None:
    """Remove the facets of ``stack``, so that their numbers can be used again."""
    for k in range(s.counts[_STACK]):
        f = s.stack[k]
        s.corners[f, 0] = -1
        s.mark[f] = 0
        s.free[s.counts[_FREE]] = f
        s.counts[_FREE] += 1


@njit_lean
def _room(s: State, n: int) -> bool:
    """Return whether there is room for n more facets."""
    return bool(s.counts[_FREE] + len(s.free) - s.counts[_TOP] >= n)


@njit_lean
def _position(table: IntArray, f: int, number: int) -> int:
    """Return the position of a number in row f of ``corners`` or ``across``, which has it."""
    i = 0
    while table[f, i] != number:
        i += 1
    return i


@njit_lean
def _start(s: State, slots: IntArray) -> bool:
    """Make a simplex of the first points that span a volume; return False if all are flat."""
    m, n = s.points.shape[1], len(slots)
    s.minors[0] = 1
    s.vertices[0] = slots[0]
    size, k = 1, 1
    while k < n and size < m:
        if _add_row(s, size - 1, slots[0], slots[k]):
            s.vertices[size] = slots[k]
            size += 1
        k += 1
    if size < m:
        return False
    for i in range(m):
        s.corners[0, i] = s.vertices[i]
    while k < n and not _turn(s, 0, slots[k]):
        k += 1
    if k >= n:
        s.corners[0, 0] = -1
        return False
    s.vertices[m] = slots[k]
    s.counts[_TOP] = m + 1
    for f in range(m + 1):  # facet f has all vertices of the simplex but number m - f
        for i in range(m):
            v = i if i < m - f else i + 1
            s.corners[f, i] = s.vertices[v]
            s.across[f, i] = m - v
            s.facet_of[s.vertices[v]] = f
        _turn(s, f, s.vertices[m - f])
    return True


@njit_lean
def _build(s: State, slots: IntArray) -> int:
    """Make the hull of some points; return 1, 0 if they lie in one hyperplane, or ``_FULL``."""
    for f in range(s.counts[_TOP]):
        s.corners[f, 0] = -1
    for p in range(len(s.facet_of)):
        s.facet_of[p] = -1
    s.counts[_TOP] = s.counts[_FREE] = 0
    if not _start(s, slots):
        return 0
    for p in slots:
        if s.facet_of[p] < 0 and _insert(s, p) == _FULL:
            return _FULL
    return 1


@njit_lean
def _insert(s: State, p: int) -> int:
    """Add point p; return how many vertices it displaced (they are in ``vertices``).

    The result is -1, and nothing changes, if p lies in the hull or on its boundary. It can also be
    ``_FULL``.

    Facets whose hyperplane contains p are replaced too. Beyond each ridge around the removed facets
    then lies a facet that p is strictly below. Hence each of these ridges spans a simplex with p,
    and all vertices are extreme points.
    """
    m, first = s.points.shape[1], 0
    while first < s.counts[_TOP] and (s.corners[first, 0] < 0 or _above(s, first, p) <= 0.0):
        first += 1
    if first == s.counts[_TOP]:
        return -1
    s.stack[0], s.mark[first] = first, _GOES
    size, looked, ridges = 1, 0, 0
    while looked < size:  # flood over the facets that p sees or is in the hyperplane of
        f = s.stack[looked]
        looked += 1
        for i in range(m):
            g = s.across[f, i]
            if s.mark[g] == 0:
                s.mark[g] = _GOES if _above(s, g, p) >= 0.0 else _STAYS
                if s.mark[g] == _GOES:
                    s.stack[size] = g
                    size += 1
            if s.mark[g] == _STAYS:
                s.ridges[ridges, 0], s.ridges[ridges, 1] = f, i
                ridges += 1
    s.counts[_STACK] = size
    for k in range(ridges):
        s.mark[s.across[s.ridges[k, 0], s.ridges[k, 1]]] = 0
    if not _room(s, ridges):
        for k in range(size):
            s.mark[s.stack[k]] = 0
        return _FULL
    for k in range(ridges):
        _cone(s, p, s.ridges[k, 0], s.ridges[k, 1])
    for k in range(ridges):
        _join_around(s, s.ridges[k, 0], s.ridges[k, 1])
    gone = 0
    for k in range(size):
        for i in range(m):
            v = s.corners[s.stack[k], i]
            if s.facet_of[v] >= 0 and s.mark[s.facet_of[v]] == _GOES:  # no new facet has it
                s.facet_of[v] = -1
                s.vertices[gone] = v
                gone += 1
    _drop_stack(s)
    return gone


@njit_lean
def _cone(s: State, p: int, f: int, i: int) -> None:
    """Make the facet of point p and the i-th ridge of the removed facet f, and put it across f."""
    g, h = s.across[f, i], _new_facet(s)
    for j in range(s.points.shape[1]):
        s.corners[h, j] = p if j == i else s.corners[f, j]
        s.across[h, j] = -1
        s.facet_of[s.corners[h, j]] = h
    back = _position(s.across, g, f)
    s.across[h, i], s.across[g, back], s.across[f, i] = g, h, h
    _turn(s, h, s.corners[g, back])  # a vertex that is not on the ridge lies below


@njit_lean
def _join_around(s: State, f: int, i: int) -> None:
    """Join the new facet h at the i-th ridge of f to the new facets that are its neighbours.

    The neighbour that lacks corner j of h shares all other corners of the ridge with it. The
    removed facets which have these corners form a fan. It begins with f, and the neighbour lies
    across the last ridge of its last facet.
    """
    h = s.across[f, i]
    for j in range(s.points.shape[1]):
        if j == i or s.across[h, j] >= 0:
            continue
        g, enter, leave = f, i, j
        while s.mark[s.across[g, leave]] == _GOES:
            beyond, pivot = s.across[g, leave], s.corners[g, enter]
            enter = _position(s.across, beyond, g)
            leave = _position(s.corners, beyond, pivot)
            g = beyond
        s.across[h, j] = s.across[g, leave]
        s.across[s.across[g, leave], enter] = h


@njit_lean
def _neighbours(s: State, v: int) -> int:
    """Put the vertices that share a facet with v into ``vertices``; return how many there are.

    ``stack`` gets the facets at v, without marks.
    """
    s.stack[0], s.mark[s.facet_of[v]] = s.facet_of[v], 1
    size, looked, n = 1, 0, 0
    while looked < size:  # flood over the facets at v
        f = s.stack[looked]
        looked += 1
        for i in range(s.points.shape[1]):
            w, g = s.corners[f, i], s.across[f, i]
            if w == v:
                continue
            if s.mark[g] == 0:  # the ridge without w has v in it, and so has g
                s.mark[g] = 1
                s.stack[size] = g
                size += 1
            if s.facet_of[w] >= 0:
                s.vertices[n] = w
                n += 1
                s.facet_of[w] = -1 - s.facet_of[w]  # negative: seen already; turned back below
    s.counts[_STACK] = size
    for k in range(size):
        s.mark[s.stack[k]] = 0
    for k in range(n):
        s.facet_of[s.vertices[k]] = -1 - s.facet_of[s.vertices[k]]
    return n


@njit
def _losses(s: State, local: State, slots: IntArray, vertices: IntArray, losses: FloatArray) -> int:
    """Replace each negative entry of ``losses`` by the loss of its vertex; return 1, or ``_FULL``.

    Afterwards ``local`` is the hull of the neighbours of the last vertex, ``stack`` has the facets
    at that vertex and ``vertices`` its neighbours, for :func:`_close`. ``slots`` are 0, 1, 2 ...
    """
    for k in range(len(vertices)):
        if losses[k] < 0.0:
            losses[k] = _loss(s, local, slots, vertices[k])
            if losses[k] < 0.0:
                return _FULL
    return 1


@njit_lean
def _loss(s: State, local: State, slots: IntArray, v: int) -> float:
    """Return m! times the volume that the hull loses with vertex v (Equation 8), or ``_FULL``.

    Points inside the hull are ignored. The neighbours of v close the hole (Equation 9), so the
    loss is the volume of the simplices between v and each facet of the neighbours' hull that v
    sees. If the neighbours lie in one hyperplane, it is the whole hull of them and v.
    """
    n = _neighbours(s, v)
    for k in range(n + 1):
        p = s.vertices[k] if k < n else v
        for j in range(s.points.shape[1]):
            local.points[k, j] = s.points[p, j]
    made = _build(local, slots[:n])
    if made == 0:
        made = _build(local, slots[: n + 1])
        n = 0
    if made == _FULL:
        return float(_FULL)
    local.counts[_POINTS] = n
    lost = 0.0
    for f in range(local.counts[_TOP]):
        if local.corners[f, 0] >= 0:
            height = _above(local, f, n)
            lost += max(height, 0.0) if n else -height
    return lost


@njit
def _close(s: State, local: State, v: int) -> int:
    """Remove vertex v and close the hole with facets of ``local``, the hull of its neighbours.

    Returns 1 or ``_FULL``; or 0, with nothing changed, if these facets have another border than the
    hole. That can happen where more than m vertices lie in one hyperplane, which may be divided
    into simplices in several ways.
    """
    n, closing, fits = local.counts[_POINTS], 0, True
    if n == 0:
        return 0
    for f in range(local.counts[_TOP]):
        local.mark[f] = local.corners[f, 0] >= 0 and _above(local, f, n) >= 0.0
        closing += local.mark[f]
    if not _room(s, closing):
        return _FULL
    for f in range(local.counts[_TOP]):
        for i in range(s.points.shape[1]):
            if local.mark[f] == 1 and local.mark[local.across[f, i]] == 0:
                star = _outside(s, local, f, i)
                fits &= star >= 0
                local.across[f, i] = -1 - star
    if fits:  # every border ridge is one of the hole, and as both borders are closed they are equal
        _replace(s, local, v)
    for f in range(local.counts[_TOP]):
        local.mark[f] = 0
    return int(fits)


@njit_lean
def _outside(s: State, local: State, f: int, i: int) -> int:
    """Return the facet in ``stack`` that has the i-th ridge of a facet of ``local``, or -1."""
    m = s.points.shape[1]
    for k in range(s.counts[_STACK]):
        shared = 0
        for j in range(m):
            if j != i:
                w = s.vertices[local.corners[f, j]]
                for c in range(m):
                    shared += s.corners[s.stack[k], c] == w
        if shared == m - 1:
            return int(s.stack[k])
    return -1


@njit_lean
def _replace(s: State, local: State, v: int) -> None:
    """Replace the facets at vertex v by the marked facets of ``local``."""
    m = s.points.shape[1]
    for f in range(local.counts[_TOP]):
        if local.mark[f] == 1:
            local.stack[f] = h = _new_facet(s)
            for i in range(m):
                s.corners[h, i] = s.vertices[local.corners[f, i]]
                s.normals[h, i] = local.normals[f, i]
                s.facet_of[s.corners[h, i]] = h
    for f in range(local.counts[_TOP]):
        if local.mark[f] == 1:
            h = local.stack[f]
            for i in range(m):
                if local.across[f, i] >= 0:
                    s.across[h, i] = local.stack[local.across[f, i]]
                else:
                    star = -1 - local.across[f, i]
                    g = s.across[star, _position(s.corners, star, v)]
                    s.across[h, i], s.across[g, _position(s.across, g, star)] = g, h
    s.facet_of[v] = -1
    _drop_stack(s)


@njit
def _volume(s: State) -> float:
    """Return m! times the volume: that of the simplices between one vertex and all facets."""
    total, p = 0.0, -1
    for f in range(s.counts[_TOP]):
        if s.corners[f, 0] >= 0:
            p = s.corners[f, 0] if p < 0 else p
            total -= _above(s, f, p)
    return total


class HullND:
    """The convex hull of points that are inserted and deleted, out of a fixed number of slots.

    Parameters
    ----------
    capacity : int
        Number of points.
    m : int
        Dimensions, 2 to 6.

    Attributes
    ----------
    points : int64 (capacity, m)
        The caller fills them in, with numbers from 0 to ``most_steps(m)``. The point of a vertex
        must not change.

    Notes
    -----
    Insertion is incremental (Clarkson, Mehlhorn and Seidel 1993): O(facets) with a small factor.
    A deletion or a loss costs a hull of the vertex's neighbours. Where that hull does not close the
    hole exactly, a deletion makes the whole hull again.
    """

    def __init__(self, capacity: int, m: int) -> None:
        self._state = _empty_state(capacity, m, 256)
        self._local = _empty_state(capacity + 1, m, 64)
        self._slots = np.arange(capacity + 1)
        self.points = self._state.points

    @property
    def is_flat(self) -> bool:
        """Whether there is no hull, or none yet."""
        return not self._state.counts[_TOP]

    def is_vertex(self, p: int) -> bool:
        """Return whether point p is a vertex of the hull."""
        return bool(self._state.facet_of[p] >= 0)

    def build(self, slots: IntArray) -> bool:
        """Make the hull of some points; return False, and make none, if they are flat."""
        while (made := _build(self._state, slots)) == _FULL:
            self._grow()
        return made == 1

    def insert(self, p: int) -> IntArray | None:
        """Add point p; return the vertices that it displaces, or None if it lies in the hull."""
        while (gone := _insert(self._state, p)) == _FULL:
            self._grow()
        return None if gone < 0 else self._state.vertices[:gone].copy()

    def delete(self, v: int) -> None:
        """Remove vertex v; the others must span a volume. Points inside do not become vertices."""
        self.losses(np.array([v]))
        while (closed := _close(self._state, self._local, v)) == _FULL:
            self._grow()
        if not closed:
            others = np.flatnonzero(self._state.facet_of >= 0)
            self.build(others[others != v])

    def neighbours(self, v: int) -> IntArray:
        """Return the vertices that share a facet with v."""
        return self._state.vertices[: _neighbours(self._state, v)].copy()

    def losses(self, vertices: IntArray) -> FloatArray:
        """Return the volume that is lost with each of some vertices; points inside are ignored."""
        losses = np.full(len(vertices), -1.0)
        while _losses(self._state, self._local, self._slots, vertices, losses) == _FULL:
            self._grow()
        return losses / math.factorial(self.points.shape[1])

    @property
    def volume(self) -> float:
        """The volume; 0 if there is no hull."""
        return _volume(self._state) / math.factorial(self.points.shape[1])

    def _grow(self) -> None:
        self._state, self._local = _with_room(self._state), _with_room(self._local)
        self.points = self._state.points
