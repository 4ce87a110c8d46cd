"""Peers with archives: AR-MOEA adapts its reference points to an archive, Two_Arch2 has two."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.hull.papers.peers import PeerSearch, lattice, unit
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import njit
from framework.pareto import nondominated, pareto_layers
from framework.problem import Problem
from framework.roles import Roles

_LEAST = 1e-6  # least scaled loss, so that no direction lies in a face
_KAPPA = 0.05  # scale of the epsilon indicator (Zitzler and Kuenzli 2004)


class ARMOEA(PeerSearch):
    """AR-MOEA: survival and mating by IGD-NS, whose reference points follow the front's shape.

    Parameters
    ----------
    **options
        See :class:`~algorithms.hull.papers.peers.PeerSearch`.

    Notes
    -----
    Tian, Cheng, Zhang, Cheng and Jin 2018, doi:10.1109/TEVC.2017.2749619. IGD-NS is the sum of the
    distances from each reference point to its nearest member, and from each member that is not
    nearest to any reference point to its nearest one. An archive holds non-dominated candidates, at
    most three times the lattice's size. The reference points are the lattice's directions that
    some archive member is nearest to, then the archive members that are farthest from these by
    angle. Objectives are not scaled: the lattice's directions are, by the members' range. A
    deletion takes O(n^2), which makes this the slowest of the peers.
    """

    def __init__(self, problem: Problem, roles: Roles, **options: Any) -> None:
        super().__init__(problem, roles, **options)
        self.W = lattice(self.m, self.population)
        self._archive: FloatArray = np.zeros((0, self.m))
        self._points = self.W
        self._ideal = np.full(self.m, np.inf)
        self._worst: FloatArray | None = None
        self._seen = 0

    def children(self) -> Array:
        """Return children of winners of binary tournaments by IGD-NS without each member."""
        n = self.population
        distance = _distances(self.F - self._ideal, self._points)
        loss = np.array([_without(distance, k) for k in range(len(distance))])
        pairs = self.rng.integers(len(distance), size=(2 * n, 2))
        winners = np.where(loss[pairs[:, 0]] >= loss[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
        return self._moves.children(self.X[winners[:n]], self.X[winners[n:]], self.rng)

    def select(self) -> None:
        """Adapt the reference points, then delete by IGD-NS from the front that does not fit."""
        fresh = self.F[self._seen :]
        self._ideal = np.minimum(self._ideal, fresh.min(axis=0))
        self._adapt(np.concatenate([self._archive, fresh]))
        if len(self.F) > self.population:
            layers = pareto_layers(np.ascontiguousarray(self.F), np.zeros(len(self.F)))
            last = int(np.sort(layers)[self.population - 1])
            chosen = np.flatnonzero(layers < last)
            front = np.flatnonzero(layers == last)
            distance = _distances(self.F[front] - self._ideal, self._points)
            chosen_of_front = _least_igd_ns(distance, self.population - len(chosen))
            self.keep(np.sort(np.concatenate([chosen, front[chosen_of_front]])))
            worst = self.F.max(axis=0)
            self._worst = np.where(worst - self._ideal < _LEAST, 1.0, worst)
        self._seen = len(self.F)

    def _adapt(self, archive: FloatArray) -> None:
        archive = np.unique(archive[nondominated(archive)], axis=0)
        if self._worst is None:
            self._worst = archive.max(axis=0)
        if len(archive) == 1:
            self._archive, self._points = archive, self.W
            return
        moved, W = archive - self._ideal, self.W * (self._worst - self._ideal)
        distance = _distances(moved, np.maximum(W, _LEAST))
        contributing = np.unique(distance.argmin(axis=0))
        valid = np.unique(distance[contributing].argmin(axis=1))
        chosen = contributing.tolist()
        angle = unit(moved) @ unit(moved).T
        most = min(3 * len(self.W), len(archive))
        chosen = _farthest(angle, chosen, most)
        points = np.concatenate([W[valid], moved[chosen]])
        between = unit(points) @ unit(points).T
        wanted = min(len(self.W), len(points))
        rows = _farthest(between, list(range(len(valid))), wanted)
        self._archive, self._points = archive[chosen], np.maximum(points[rows], _LEAST)


def _farthest(cosine: FloatArray, chosen: list[int], size: int) -> list[int]:
    """Extend ``chosen`` to ``size`` rows, always by the row with the largest angle to them."""
    rows: IntArray = _extended(np.ascontiguousarray(cosine), np.array(chosen, np.int64), size)
    return [int(row) for row in rows]


@njit
def _extended(cosine: FloatArray, chosen: IntArray, size: int) -> IntArray:
    n = len(cosine)
    out = np.empty(max(size, len(chosen)), dtype=np.int64)
    nearest = np.full(n, -2.0)
    for k in range(len(out)):
        row = chosen[k] if k < len(chosen) else int(np.argmin(nearest))
        out[k] = row
        for i in range(n):
            nearest[i] = max(nearest[i], cosine[i, row])
        nearest[row] = np.inf
    return out


@njit
def _distances(F: FloatArray, R: FloatArray) -> FloatArray:
    """Return the distance of each member to each reference point moved to its nearest member.

    A reference point is moved along its direction to the projection of the member that is nearest
    to that direction (the paper's Algorithm 3). Shape (members, points).
    """
    n, m = F.shape
    out = np.empty((n, len(R)))
    for j in range(len(R)):
        length = np.sqrt((R[j] * R[j]).sum())
        best, foot = np.inf, 0.0
        for i in range(n):
            along, square = 0.0, 0.0
            for k in range(m):
                x = max(F[i, k], _LEAST)
                along += x * R[j, k] / length
                square += x * x
            away = square - along * along
            if away < best:
                best, foot = away, along
        for i in range(n):
            total = 0.0
            for k in range(m):
                gap = max(F[i, k], _LEAST) - foot * R[j, k] / length
                total += gap * gap
            out[i, j] = np.sqrt(total)
    return out


@njit
def _igd_ns(distance: FloatArray, alive: Array) -> float:
    n, r = distance.shape
    used = np.zeros(n, dtype=np.bool_)
    total = 0.0
    for j in range(r):
        best = -1
        for i in range(n):
            if alive[i] and (best < 0 or distance[i, j] < distance[best, j]):
                best = i
        total += distance[best, j]
        used[best] = True
    for i in range(n):
        if alive[i] and not used[i]:
            total += distance[i].min()
    return total


@njit
def _without(distance: FloatArray, gone: int) -> float:
    alive = np.ones(len(distance), dtype=np.bool_)
    if len(distance) == 1:
        return 0.0
    alive[gone] = False
    return _igd_ns(distance, alive)


@njit
def _least_igd_ns(distance: FloatArray, size: int) -> Array:
    """Delete the member without which IGD-NS is least, until ``size`` are left.

    The nearest and second nearest members of each reference point are kept up to date, so that the
    change of IGD-NS by each deletion is a sum of differences.
    """
    n, r = distance.shape
    alive = np.ones(n, dtype=np.bool_)
    idle = np.empty(n)  # what each member adds if it is nearest to no reference point
    for i in range(n):
        idle[i] = distance[i].min()
    one, two = np.empty(r, dtype=np.int64), np.empty(r, dtype=np.int64)  # nearest, second nearest
    for j in range(r):
        _two_nearest(distance, alive, j, one, two)
    for left in range(n, size, -1):
        if left == 1:
            alive[:] = False
            break
        uses = np.zeros(n, dtype=np.int64)
        for j in range(r):
            uses[one[j]] += 1
        change = np.zeros(n)
        for i in range(n):
            if uses[i] == 0:
                change[i] = -idle[i]
        for j in range(r):
            change[one[j]] += distance[two[j], j] - distance[one[j], j]
        for i in range(n):  # an idle member that is second nearest would be idle no longer
            if alive[i] and uses[i] == 0:
                for j in range(r):
                    if two[j] == i and _first_with(one, two, j, i):
                        change[one[j]] -= idle[i]
        gone = -1
        for i in range(n):
            if alive[i] and (gone < 0 or change[i] < change[gone]):
                gone = i
        alive[gone] = False
        for j in range(r):
            if one[j] == gone or two[j] == gone:
                _two_nearest(distance, alive, j, one, two)
    return np.flatnonzero(alive)


@njit
def _first_with(one: IntArray, two: IntArray, j: int, i: int) -> bool:
    """Return whether no earlier reference point has the same two nearest members."""
    return not bool(((two[:j] == i) & (one[:j] == one[j])).any())


@njit
def _two_nearest(distance: FloatArray, alive: Array, j: int, one: IntArray, two: IntArray) -> None:
    first, second = -1, -1
    for i in range(len(distance)):
        if not alive[i]:
            continue
        if first < 0 or distance[i, j] < distance[first, j]:
            first, second = i, first
        elif second < 0 or distance[i, j] < distance[second, j]:
            second = i
    one[j], two[j] = first, (second if second >= 0 else first)


class TwoArch2(PeerSearch):
    """Two_Arch2: an archive by the epsilon indicator, and one of distant non-dominated members.

    Parameters
    ----------
    **options
        See :class:`~algorithms.hull.papers.peers.PeerSearch`; ``population`` is the size of either
        archive.

    Notes
    -----
    Wang, Jiao and Yao 2015, doi:10.1109/TEVC.2014.2350987. A generation has ``population``
    recombined children (with one parent from the convergence archive by binary tournament, and one
    from the diversity archive) and as many mutants of the convergence archive. Distances are in the
    L(1/m) norm. The diversity archive is returned. O(n^2) for a generation, O(n) for a deletion.
    """

    def __init__(self, problem: Problem, roles: Roles, **options: Any) -> None:
        super().__init__(problem, roles, **options)
        self._convergent: BoolArray = np.zeros(0, dtype=bool)
        self._diverse: BoolArray = np.zeros(0, dtype=bool)

    def children(self) -> Array:
        n, rng = self.population, self.rng
        convergent, diverse = np.flatnonzero(self._convergent), np.flatnonzero(self._diverse)
        pairs = convergent[rng.integers(len(convergent), size=(n, 2))]
        one, two = self.F[pairs[:, 0]], self.F[pairs[:, 1]]
        second = (two <= one).all(axis=1) & (two < one).any(axis=1)
        first = (one <= two).all(axis=1) & (one < two).any(axis=1)
        lot = rng.random(n) < 0.5
        winner = np.where(first | (lot & ~second), pairs[:, 0], pairs[:, 1])
        other = diverse[rng.integers(len(diverse), size=n)]
        crossed = self._moves.crossed(self.X[winner], self.X[other], rng)
        mutants = self.X[convergent[rng.integers(len(convergent), size=n)]]
        return np.concatenate([crossed, self._moves.mutate(mutants.copy(), rng)])

    def select(self) -> None:
        new = len(self.X) - len(self._convergent)
        grown = np.ones(new, dtype=bool)
        convergent = np.flatnonzero(np.concatenate([self._convergent, grown]))
        diverse = np.flatnonzero(np.concatenate([self._diverse, grown]))
        chosen = [
            convergent[_convergence(self.F[convergent], self.population)],
            diverse[_diversity(self.F[diverse], self.population, self.rng)],
        ]
        masks = []
        for rows in chosen:
            mask = np.zeros(len(self.X), dtype=bool)
            mask[rows] = True
            masks.append(mask)
        in_archives = masks[0] | masks[1]
        self._convergent, self._diverse = masks[0][in_archives], masks[1][in_archives]
        self.keep(in_archives)

    def returned(self) -> IntArray:
        return np.flatnonzero(self._diverse)


@njit
def _least_epsilon(F: FloatArray, size: int) -> BoolArray:
    """Delete the row with the least fitness by the epsilon indicator until ``size`` are left."""
    n, m = F.shape
    loss = np.empty((n, n))
    fitness = np.empty(n)
    for j in range(n):
        worst = 0.0
        for i in range(n):
            gap = F[i, 0] - F[j, 0]
            for k in range(1, m):
                gap = max(gap, F[i, k] - F[j, k])
            loss[i, j] = gap
            worst = max(worst, abs(gap))
        fitness[j] = 1.0
        for i in range(n):
            loss[i, j] = np.exp(-loss[i, j] / (worst if worst > 0.0 else 1.0) / _KAPPA)
            fitness[j] -= loss[i, j]
    alive = np.ones(n, dtype=np.bool_)
    for _ in range(n - size):
        gone = -1
        for j in range(n):
            if alive[j] and (gone < 0 or fitness[j] < fitness[gone]):
                gone = j
        alive[gone] = False
        for j in range(n):
            fitness[j] += loss[gone, j]
    return alive


def _convergence(F: FloatArray, size: int) -> BoolArray:
    span = np.ptp(F, axis=0)
    scaled = (F - F.min(axis=0)) / np.where(span > 0, span, 1.0)
    members: BoolArray = _least_epsilon(np.ascontiguousarray(scaled), size)
    return members


def _diversity(F: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Return the non-dominated rows: all, or the ends and then those farthest from all chosen."""
    best = np.flatnonzero(nondominated(F))
    if len(best) <= size:
        return best
    G = F[best]
    ends = np.unique(np.concatenate([G.argmin(axis=0), G.argmax(axis=0)]))
    if len(ends) > size:
        ends = np.sort(rng.permutation(ends)[:size])
    rows: IntArray = _spread(np.ascontiguousarray(G), ends, size, 1.0 / G.shape[1])
    return best[rows]


@njit
def _spread(F: FloatArray, ends: IntArray, size: int, p: float) -> IntArray:
    """Return ``size`` rows: ``ends``, then always the row farthest from all chosen (L_p)."""
    n = len(F)
    chosen = np.empty(size, dtype=np.int64)
    nearest = np.full(n, np.inf)
    count = 0
    while count < size:
        row = ends[count] if count < len(ends) else int(np.argmax(nearest))
        chosen[count] = row
        count += 1
        for i in range(n):
            total = 0.0
            for k in range(F.shape[1]):
                total += abs(F[i, k] - F[row, k]) ** p
            nearest[i] = min(nearest[i], total)
        nearest[row] = -1.0
    return chosen
