"""The convex hull of a changing set of points in two to six dimensions, in exact whole numbers.

Points have int64 coordinates from 0 to :func:`most_steps`. Normals then fit into 64 bits, and the
height of a point over a hyperplane is summed in two parts of 32 bits, so that its sign is exact:
points that are equal or lie in one hyperplane are no special cases. Volumes are sums of floats.

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

_HALF = np.int64(32)
_LOW = np.int64((1 << 32) - 1)
_FULL = -2
"""What :func:`_insert` returns where the facets need more room; nothing changed."""

_STAYS, _GOES = 2, 1
"""Marks of facets that a point does not see, and of those that it does."""

_TOP, _FREE, _STACK, _POINTS = range(4)
"""Places in ``State.counts``."""


def most_steps(m: int) -> int:
    """Return the greatest coordinate in ``m`` dimensions: all minors of a normal fit into int64."""
    bits = (62 - math.ceil(math.log2(math.factorial(m - 1)))) // (m - 1)
    return 1 << min(bits, 20)


class State(NamedTuple):
    """A hull's arrays; whoever changes one changes the hull.

    Attributes
    ----------
    points : int64 (capacity, m)
    normals : int64 (facets, m)
        Outward; as long as (m - 1)! times the facet's content.
    corners, across : int64 (facets, m)
        ``corners[f, 0]`` is -1 where f is no facet.
    ridges : int64 (m facets, 2)
        Workplace: facet and number of each ridge between what goes and what stays.
    facet_of : int64 (capacity,)
        A facet at each vertex; -1 for a point that is none.
    free, stack, mark : int64 (facets,)
        Facets to use again; the facets that were looked for last, ``counts[2]`` many; which.
    vertices : int64 (capacity,)
        Workplace: vertices displaced, or neighbours of one.
    steps : int64 (steps, 3)
        How minors come from smaller ones (:func:`_minor_steps`).
    levels : int64 (m,)
        Where in ``steps`` the minors of each size begin.
    minors : int64 (2^m,)
        Workplace: the minor of the first rows in each set of as many columns.
    counts : int64 (4,)
        Facets ever used, facets to use again, length of ``stack``, points of a hull of neighbours
        (0 where these are flat).
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
    """Return how the minors of m - 1 rows are expanded by their last rows, the small ones first.

    Sets of columns are whole numbers with a bit for each. A minor of k + 1 rows has k + 1 steps,
    ``(columns, j, columns without j)`` for each of its columns, ascending. ``levels[k]`` is where
    those of row k begin, and ``levels[m - 1]`` the number of all.
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
    """Return a hull with room for ``capacity`` points and some facets, and none yet."""
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
    """Make the minors of k + 1 rows from those of k: the last row is the vector from a to b.

    Returns whether one of them is not 0, so that the rows are independent.
    """
    independent, minor, left = False, np.int64(0), k
    for t in range(s.levels[k], s.levels[k + 1]):
        j = s.steps[t, 1]  # signs alternate, the last column's is plus
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
    """Compute the normal of facet f, so that a point lies below it; False where it lies in it."""
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
    """Take the facets of ``stack`` out; their numbers may be used again."""
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
def _position(of: IntArray, f: int, number: int) -> int:
    """Return at which place the row of facet f has a number that is in it."""
    i = 0
    while of[f, i] != number:
        i += 1
    return i


@njit_lean
def _start(s: State, slots: IntArray) -> bool:
    """Make the simplex of the first points that are independent; False where none are."""
    m, n = s.points.shape[1], len(slots)
    s.minors[0] = 1
    s.vertices[0] = slots[0]
    size, at = 1, 1
    while at < n and size < m:
        if _add_row(s, size - 1, slots[0], slots[at]):
            s.vertices[size] = slots[at]
            size += 1
        at += 1
    if size < m:
        return False
    for i in range(m):
        s.corners[0, i] = s.vertices[i]
    while at < n and not _turn(s, 0, slots[at]):
        at += 1
    if at >= n:
        s.corners[0, 0] = -1
        return False
    s.vertices[m] = slots[at]
    s.counts[_TOP] = m + 1
    for f in range(m + 1):  # facet f has all vertices but the one at m - f
        for i in range(m):
            at = i if i < m - f else i + 1
            s.corners[f, i] = s.vertices[at]
            s.across[f, i] = m - at
            s.facet_of[s.vertices[at]] = f
        _turn(s, f, s.vertices[m - f])
    return True


@njit_lean
def _build(s: State, slots: IntArray) -> int:
    """Make the hull of some points; 1 if it is one, 0 if they are flat, else ``_FULL``."""
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
    """Add point p; return how many vertices it displaced, which are in ``vertices``.

    -1: p lies in the hull or on its boundary; nothing changed. ``_FULL``: nor did it.

    Facets in whose hyperplanes p lies are replaced too. On the other side of the ridges that bound
    what goes are then facets that p lies strictly below, so that each of these ridges and p make a
    simplex, and all vertices are extreme points.
    """
    m, first = s.points.shape[1], 0
    while first < s.counts[_TOP] and (s.corners[first, 0] < 0 or _above(s, first, p) <= 0.0):
        first += 1
    if first == s.counts[_TOP]:
        return -1
    s.stack[0], s.mark[first] = first, _GOES
    size, looked, ridges = 1, 0, 0
    while looked < size:  # flood over what p sees or lies in the hyperplane of
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
            if s.facet_of[v] >= 0 and s.mark[s.facet_of[v]] == _GOES:  # at no new facet
                s.facet_of[v] = -1
                s.vertices[gone] = v
                gone += 1
    _drop_stack(s)
    return gone


@njit_lean
def _cone(s: State, p: int, f: int, i: int) -> None:
    """Make the facet of point p and the i-th ridge of f, which goes and has it across from now."""
    g, h = s.across[f, i], _new_facet(s)
    for j in range(s.points.shape[1]):
        s.corners[h, j] = p if j == i else s.corners[f, j]
        s.across[h, j] = -1
        s.facet_of[s.corners[h, j]] = h
    at = _position(s.across, g, f)
    s.across[h, i], s.across[g, at], s.across[f, i] = g, h, h
    _turn(s, h, s.corners[g, at])


@njit_lean
def _join_around(s: State, f: int, i: int) -> None:
    """Join the new facet at the i-th ridge of f to the other new facets, which share p with it.

    Around what the ridge has without its corner j, the facets that go are a fan: it begins with f
    and ends with the facet that has the neighbour across its last ridge.
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
def _star(s: State, v: int) -> int:
    """Put the facets at vertex v into ``stack`` and mark them; return their number."""
    s.stack[0], s.mark[s.facet_of[v]] = s.facet_of[v], 1
    size, looked = 1, 0
    while looked < size:
        f = s.stack[looked]
        looked += 1
        for i in range(s.points.shape[1]):
            g = s.across[f, i]
            if s.corners[f, i] != v and s.mark[g] == 0:
                s.mark[g] = 1
                s.stack[size] = g
                size += 1
    s.counts[_STACK] = size
    return size


@njit_lean
def _neighbours(s: State, v: int) -> int:
    """Put the vertices that share a facet with v into ``vertices``; return their number.

    ``stack`` has the facets at v, which are not marked.
    """
    size, n = _star(s, v), 0
    for k in range(size):
        f = s.stack[k]
        s.mark[f] = 0
        for i in range(s.points.shape[1]):
            w = s.corners[f, i]
            if w != v and s.facet_of[w] >= 0:
                s.vertices[n] = w
                n += 1
                s.facet_of[w] = -1 - s.facet_of[w]  # seen; turned back below
    for k in range(n):
        s.facet_of[s.vertices[k]] = -1 - s.facet_of[s.vertices[k]]
    return n


@njit
def _losses(s: State, local: State, slots: IntArray, vertices: IntArray, losses: FloatArray) -> int:
    """Fill in what is lost with some vertices where it is negative; return 1, or ``_FULL``.

    ``local`` gets the hull of the neighbours of the last vertex, ``stack`` the facets at it and
    ``vertices`` its neighbours, which :func:`_close` reads. ``slots`` are 0, 1, 2 ...
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

    Points inside are not looked at. The neighbours close the hole (Equation 9): the simplices of
    v and each facet of their hull that it sees. If they lie in one hyperplane, that is all of the
    hull of them and v.
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
    """Take vertex v out and close the hole from its neighbours, whose hull ``local`` has.

    Returns 1; or 0, with nothing changed, where the facets that close it have another border than
    the hole, as they can where more than m vertices lie in one hyperplane; or ``_FULL``.
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
    if fits:  # a border that lies in another one is all of it, as both are closed
        _replace(s, local, v)
    for f in range(local.counts[_TOP]):
        local.mark[f] = 0
    return int(fits)


@njit_lean
def _outside(s: State, local: State, f: int, i: int) -> int:
    """Return the facet of the star in ``stack`` that has the i-th ridge of a facet of ``local``."""
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
    """Put the marked facets of ``local`` in the place of those at vertex v."""
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
    """Return m! times the volume: the simplices of one vertex and all facets."""
    total, p = 0.0, -1
    for f in range(s.counts[_TOP]):
        if s.corners[f, 0] >= 0:
            p = s.corners[f, 0] if p < 0 else p
            total -= _above(s, f, p)
    return total


class HullND:
    """The convex hull of some of many points, which joins and loses vertices.

    Parameters
    ----------
    capacity : int
        Number of points.
    m : int
        Dimensions, 2 to 6.

    Attributes
    ----------
    points : int64 (capacity, m)
        To be filled in; from 0 to ``most_steps(m)``. What is a vertex may not change.

    Notes
    -----
    Insertion is incremental (Clarkson, Mehlhorn and Seidel 1993): O(facets) with a small factor.
    Deletion and losses cost a hull of the neighbours; where that one does not close the hole, the
    hull is made anew.
    """

    def __init__(self, capacity: int, m: int) -> None:
        self._state = _empty_state(capacity, m, 256)
        self._local = _empty_state(capacity + 1, m, 64)
        self._slots = np.arange(capacity + 1)
        self.points = self._state.points

    @property
    def is_flat(self) -> bool:
        """Whether there is no hull yet."""
        return not self._state.counts[_TOP]

    def is_vertex(self, p: int) -> bool:
        """Return whether point p is one."""
        return bool(self._state.facet_of[p] >= 0)

    def build(self, slots: IntArray) -> bool:
        """Make the hull of some points; False, and no hull, if they lie in a hyperplane."""
        while (made := _build(self._state, slots)) == _FULL:
            self._grow()
        return made == 1

    def insert(self, p: int) -> IntArray | None:
        """Add point p; return the vertices that it displaces, None where it lies in the hull."""
        while (gone := _insert(self._state, p)) == _FULL:
            self._grow()
        return None if gone < 0 else self._state.vertices[:gone].copy()

    def delete(self, v: int) -> None:
        """Take vertex v out; the others must not be flat. Points inside are not looked at."""
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
        """Return the volume that is lost with each of some vertices, were no points inside."""
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
