"""Populations of the exact hull searches: a hull with a queue (3DFCH-EMOA), layers (3DCH-EMOA).

The paper's symbols, and their names here:

- CH, the convex hull of R and the frontal members: ``Population.hull``
- FS-set, the frontal members: the members that are vertices of the hull
- AgingQueue, which stores the non-FS-set: ``queue``, the oldest first
- RV(q), the vertices that share a facet with q (Equation 7): ``around``
- CH.p.contribution, by Fast dVAS (CH, p, r): ``lost[p]``, exact (Equation 8)
- n: ``size``
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.hull.kernels import hull3d
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import copy, njit, njit_lean

OLDEST, BIRTH, RANDOM = range(3)
_MEMBERS, _QUEUE, _FREE, _STEPS, _BY_QUEUE = range(5)
_ROW_OF_MEMBERS = 8


class Population(NamedTuple):
    """A hull and its members. Slots are for the fixed points first, then for members and a child.

    Attributes
    ----------
    hull : State
    lost : int64 (capacity,)
        Six times the volume that the hull would lose with a frontal member; 0 for other members.
    ids : int64 (capacity,)
        Id of the candidate of each member.
    queue : int64 (capacity,)
        Slots of the members that are not vertices, in the order in which they became so.
    members, position : int64 (capacity,)
        Slots in use, and the position of each slot among them.
    free : int64 (capacity,)
        Slots that are not in use.
    around : int64 (capacity,)
        Scratch space for the neighbours of a vertex.
    counts : int64 (5,)
        Numbers of members, queued members, free slots, deletions, and deletions from the queue.
    """

    hull: hull3d.State
    lost: IntArray
    ids: IntArray
    queue: IntArray
    members: IntArray
    position: IntArray
    free: IntArray
    around: IntArray
    counts: IntArray


class Arrays(NamedTuple):
    """The arrays of a population as rows of six: a kernel is called sooner with few arrays.

    Attributes
    ----------
    points, planes
        Those of the hull.
    triangles : int64 (2, facets, 3)
        ``corners`` and ``across``.
    facets : int64 (3, facets)
        ``free``, ``stack`` and ``mark``.
    slots : int64 (12, capacity)
        ``facet_of`` to ``gone`` of the hull, then ``lost`` to ``around`` of the population.
    counts : int64 (2, 5)
    """

    points: IntArray
    planes: IntArray
    triangles: IntArray
    facets: IntArray
    slots: IntArray
    counts: IntArray


def empty_arrays(fixed: IntArray, size: int) -> Arrays:
    """Return a population with room for ``size`` members and a child, over fixed points (k, 3)."""
    capacity = len(fixed) + size + 1
    hull = hull3d.empty_state(capacity)
    hull.points[: len(fixed)] = fixed
    hull3d.build(hull, len(fixed))
    slots = np.zeros((12, capacity), dtype=np.int64)
    slots[:5] = hull.facet_of, hull.ring, hull.outer, hull.other, hull.gone
    triangles = np.stack([hull.corners, hull.across])
    facets = np.stack([hull.free, hull.stack, hull.mark])
    counts = np.array([hull.counts, [0, 0, size + 1, 0, 0]])
    arrays = Arrays(hull.points, hull.planes, triangles, facets, slots, counts)
    population(arrays).free[: size + 1] = np.arange(capacity - 1, len(fixed) - 1, -1)
    return arrays


def population(arrays: Arrays) -> Population:
    """Return the population whose arrays are these and their rows."""
    points, planes, triangles, facets, slots, counts = arrays
    hull = hull3d.State(
        points=points,
        planes=planes,
        corners=triangles[0],
        across=triangles[1],
        facet_of=slots[0],
        free=facets[0],
        stack=facets[1],
        mark=facets[2],
        ring=slots[1],
        outer=slots[2],
        other=slots[3],
        gone=slots[4],
        counts=counts[0],
    )
    return Population(
        hull,
        lost=slots[5],
        ids=slots[6],
        queue=slots[7],
        members=slots[_ROW_OF_MEMBERS],
        position=slots[9],
        free=slots[10],
        around=slots[11],
        counts=counts[1],
    )


_population = njit_lean(population)


def frontal_ids(arrays: Arrays) -> IntArray:
    """Return the ids of the members that are vertices of the hull, ascending."""
    pop, slots = population(arrays), members(arrays)
    return np.sort(pop.ids[slots[pop.hull.facet_of[slots] >= 0]])


@njit_lean
def absorb(
    arrays: Arrays,
    size: int,
    mode: int,
    genomes: Array,
    X: Array,
    points: IntArray,
    usable: BoolArray,
    ids: IntArray,
    draws: FloatArray,
) -> None:
    """Add candidates one by one; beyond ``size`` members, one is deleted for each (Algorithm 7).

    ``genomes`` has a row for each slot. Candidates that are not ``usable`` never become vertices.
    ``draws`` has a number in [0, 1) for each candidate, which only the mode ``RANDOM`` reads.

    Notes
    -----
    Lines 10 to 21, for each q_t that was evaluated::

        if q_t is inside CH:                    _join
            add q_t to the end of AgingQueue
        else:
            add q_t to CH (Algorithm 5)
        if AgingQueue is not empty:             _shrink
            delete its first element (Algorithm 2)
        else:
            delete the q of least contribution from CH (Algorithm 6)

    The first n candidates join in the same way without a deletion, with the same result as lines 1
    to 7 for P_0.
    """
    pop = _population(arrays)
    first = len(pop.hull.facet_of) - size - 1
    for r in range(len(ids)):
        pop.counts[_FREE] -= 1
        slot = pop.free[pop.counts[_FREE]]
        copy(X[r], genomes[slot])
        pop.ids[slot] = ids[r]
        copy(points[r], pop.hull.points[slot])
        _join(pop, slot, first, usable[r])
        if pop.counts[_MEMBERS] > size:
            _shrink(pop, first, mode, draws[r] if mode == RANDOM else 0.0)


@njit_lean
def _join(pop: Population, slot: int, first: int, usable: bool) -> None:
    """Add a member: a vertex (Algorithm 5), or at the end of the queue.

    Algorithm 5 with q = ``slot``::

        CH <- add q to CH                                  hull3d.insert
        for each p of FS-set that is no vertex any more:   hull.gone
            add p to the end of AgingQueue                 _enqueue
        q.contribution <- dVAS(q)                          _weigh_around
        for each p of RV(q): p.contribution <- dVAS(p)
    """
    pop.members[pop.counts[_MEMBERS]] = slot
    pop.position[slot] = pop.counts[_MEMBERS]
    pop.counts[_MEMBERS] += 1
    gone = hull3d.insert(pop.hull, slot) if usable else -1
    if gone < 0:
        _enqueue(pop, slot)
        return
    # the flood over facets meets them in any order, but in the queue only their age counts
    _sort_by_age(pop.hull.gone, gone, pop.ids)
    for k in range(gone):
        if pop.hull.gone[k] >= first:
            _enqueue(pop, pop.hull.gone[k])
    _weigh_around(pop, slot, first)


@njit_lean
def _sort_by_age(slots: IntArray, n: int, ids: IntArray) -> None:
    """Sort the first ``n`` slots, which are few, by the ids of their candidates (by insertion)."""
    for k in range(1, n):
        slot, i = slots[k], k
        while i > 0 and ids[slots[i - 1]] > ids[slot]:
            slots[i] = slots[i - 1]
            i -= 1
        slots[i] = slot


@njit_lean
def _enqueue(pop: Population, slot: int) -> None:
    pop.lost[slot] = 0
    pop.queue[pop.counts[_QUEUE]] = slot
    pop.counts[_QUEUE] += 1


@njit_lean
def _weigh_around(pop: Population, v: int, first: int) -> None:
    """Compute the contributions of vertex v and of its neighbours (Algorithm 5, lines 10 to 14)."""
    n = _take_link(pop, v)
    if v >= first:
        pop.lost[v] = hull3d.contribution(pop.hull, v)
    _weigh(pop, n, first)


@njit_lean
def _take_link(pop: Population, v: int) -> int:
    """Put the neighbours of vertex v into ``around``; return how many there are."""
    n = hull3d.link(pop.hull, v)
    for k in range(n):
        pop.around[k] = pop.hull.ring[k]
    return n


@njit_lean
def _weigh(pop: Population, n: int, first: int) -> None:
    for k in range(n):
        w = pop.around[k]
        if w >= first and pop.hull.facet_of[w] >= 0:
            pop.lost[w] = hull3d.contribution(pop.hull, w)


@njit_lean
def _shrink(pop: Population, first: int, mode: int, draw: float) -> None:
    """Delete a member: from the queue (Algorithm 2), else the least contributor (Algorithm 6).

    Algorithm 6, where AgingQueue is empty::

        q <- the vertex of least contribution              _least
        RV <- the related vertices of q                    _take_link
        rebuild CH without q                               hull3d.delete: its hole is closed
        for each p of RV: p.contribution <- dVAS(p)        _weigh
    """
    pop.counts[_STEPS] += 1
    if pop.counts[_QUEUE] > 0:
        pop.counts[_BY_QUEUE] += 1
        at = _queued(pop, mode, draw)
        slot = pop.queue[at]
        for k in range(at, pop.counts[_QUEUE] - 1):
            pop.queue[k] = pop.queue[k + 1]
        pop.counts[_QUEUE] -= 1
    else:
        slot = _least(pop)
        n = _take_link(pop, slot)
        hull3d.delete(pop.hull, slot)
        _weigh(pop, n, first)
        # a point of R may have been inside because of this member; the hull must contain R again
        for v in range(first):
            if pop.hull.facet_of[v] < 0 and hull3d.insert(pop.hull, v) >= 0:
                _weigh_around(pop, v, first)
    last = pop.members[pop.counts[_MEMBERS] - 1]
    pop.members[pop.position[slot]] = last
    pop.position[last] = pop.position[slot]
    pop.counts[_MEMBERS] -= 1
    pop.free[pop.counts[_FREE]] = slot
    pop.counts[_FREE] += 1


@njit_lean
def _queued(pop: Population, mode: int, draw: float) -> int:
    """Return the position in the queue of the member to delete."""
    if mode == RANDOM:
        return int(draw * pop.counts[_QUEUE])
    at = 0
    if mode == BIRTH:
        for k in range(1, pop.counts[_QUEUE]):
            if pop.ids[pop.queue[k]] < pop.ids[pop.queue[at]]:
                at = k
    return at


@njit_lean
def _least(pop: Population) -> int:
    """Return the member that contributes least to the hull; of equal ones the oldest."""
    best = pop.members[0]
    for k in range(1, pop.counts[_MEMBERS]):
        v = pop.members[k]
        if pop.lost[v] < pop.lost[best] or (
            pop.lost[v] == pop.lost[best] and pop.ids[v] < pop.ids[best]
        ):
            best = v
    return int(best)


def deletions(arrays: Arrays) -> tuple[int, int]:
    """Return how many members were deleted, and how many of these from the queue."""
    counts = population(arrays).counts
    return int(counts[_STEPS]), int(counts[_BY_QUEUE])


def members(arrays: Arrays) -> IntArray:
    """Return the slots in use, shape (n,); a view."""
    return arrays.slots[_ROW_OF_MEMBERS, : arrays.counts[1, _MEMBERS]]


@njit
def worst(
    state: hull3d.State, fixed: IntArray, points: IntArray, usable: BoolArray, ids: IntArray
) -> int:
    """Return the position of the member that 3DCH-EMOA deletes: the worst of the last layer.

    If members have the point of another one, the oldest of these is deleted; else, if some are not
    ``usable``, the oldest of those. Otherwise the members are divided into layers: the vertices of
    the hull of all members and fixed points, then those of the hull of the other members and the
    fixed points, and so on. The member of the last layer that contributes least to its hull is
    deleted, of equal ones the oldest.

    Parameters
    ----------
    state : State
        With room for all fixed points and members; its content is overwritten.
    fixed : int64 (k, 3)
    points : int64 (n, 3)
    usable : bool (n,)
    ids : int64 (n,)

    Notes
    -----
    The hulls of all layers, and the contributions to the last one, are computed again each time.
    """
    rest = np.flatnonzero(usable)
    vertices, inside = level(state, fixed, points, rest)
    same = _redundant(points, rest, inside)
    if len(same):
        return int(same[ids[same].argmin()])  # the oldest
    if len(rest) < len(points):
        unusable = np.flatnonzero(~usable)
        return int(unusable[ids[unusable].argmin()])
    while len(inside):
        rest = rest[inside]
        vertices, inside = level(state, fixed, points, rest)
        if len(vertices) == 0:  # only points on the boundary of the fixed points' hull are left
            return int(rest[ids[rest].argmin()])
    best, least = -1, hull3d.MOST_LOST
    for k in vertices:
        lost = hull3d.contribution(state, len(fixed) + k, least)
        row = rest[k]
        if best < 0 or lost < least or (lost == least and ids[row] < ids[best]):
            best, least = row, lost
    return int(best)


@njit
def level(
    state: hull3d.State, fixed: IntArray, points: IntArray, rows: IntArray
) -> tuple[IntArray, IntArray]:
    """Make the hull of some members with the fixed points; return its vertices, and the others."""
    state.planes[:3] = 0
    state.planes[3] = -1
    state.facet_of[:] = -1
    state.counts[:] = 0
    first, placed = len(fixed), state.points
    for k in range(first):
        copy(fixed[k], placed[k])
    for k in range(len(rows)):
        copy(points[rows[k]], placed[first + k])
    hull3d.build(state, first + len(rows))
    vertex = state.facet_of[first : first + len(rows)] >= 0
    return np.flatnonzero(vertex), np.flatnonzero(~vertex)


@njit
def _redundant(points: IntArray, rows: IntArray, inside: IntArray) -> IntArray:
    """Return the members of ``rows[inside]`` with the same point as an earlier one of ``rows``."""
    positions = np.empty(len(inside), dtype=np.int64)
    n = 0
    for k in inside:
        i = rows[k]
        for j in rows[:k]:
            if hull3d.same(points, i, j):
                positions[n] = i
                n += 1
                break
    return positions[:n]
