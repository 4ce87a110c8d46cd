"""Peers by decomposition: MOEA/DD and MPSO/D, over regions around a lattice of directions."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from algorithms.hull.papers.peers import PeerSearch, Size, crowding, lattice, neighbours, unit
from algorithms.moves import reals
from framework.algorithm import Outcome, known_horizon
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.jit import njit
from framework.pareto import nondominated, pareto_layers
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate
from framework.space import Bits, Box


class MOEADD(PeerSearch):
    """MOEA/DD: each child replaces a member, by dominance, crowding of regions and PBI.

    Parameters
    ----------
    **options
        See :class:`~algorithms.hull.papers.peers.PeerSearch`.
    batch : int
        Number of children made from one state of the population; 1 in the paper.
    neighbourhood : float
        Chance that both parents come from neighbouring regions (the paper's delta).
    penalty : float
        Theta of the penalty-based boundary intersection.

    Notes
    -----
    Li, Deb, Zhang and Kwong 2015, doi:10.1109/TEVC.2014.2373386, with a tenth of the directions as
    neighbours. Regions are by the angle of the objectives from the origin, PBI is from the least
    value of each objective so far; nothing is normalised beyond the metrics' bounds. O(n^2) for
    each child.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        batch: Annotated[int, Field(ge=1)] = 1,
        neighbourhood: Rate = 0.9,
        penalty: Annotated[float, Field(ge=0)] = 5.0,
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        self.W = lattice(self.m, self.population)
        self.population = len(self.W)
        self.batch, self.near, self.penalty = batch, neighbourhood, penalty
        self._neighbours = neighbours(self.W)
        self._order: list[int] = []
        self._ideal = np.full(self.m, np.inf)
        self._region: IntArray = np.zeros(0, dtype=np.int64)

    def children(self) -> Array:
        """Return a child for each of the next directions of a random order."""
        pairs = np.empty((self.batch, 2), dtype=np.int64)
        for k in range(self.batch):
            if not self._order:
                self._order = self.rng.permutation(len(self.W)).tolist()
            pairs[k] = self._parents(self._order.pop())
        return self._moves.children(self.X[pairs[:, 0]], self.X[pairs[:, 1]], self.rng)

    def _parents(self, direction: int) -> IntArray:
        pool = np.arange(len(self.X))
        if self.rng.random() < self.near:
            here = np.flatnonzero(np.isin(self._region, self._neighbours[direction]))
            pool = here if len(here) >= 2 else pool
        return self.rng.choice(pool, 2, replace=len(pool) < 2)

    def select(self) -> None:
        before = len(self._region)
        fresh = self.F[before:]
        self._region = np.concatenate([self._region, (unit(fresh) @ unit(self.W).T).argmax(axis=1)])
        alive = np.arange(len(self.F)) < before
        for row in range(before, len(self.F)):
            alive[row] = True
            self._ideal = np.minimum(self._ideal, self.F[row])
            rows = np.flatnonzero(alive)
            if len(rows) > self.population:
                alive[rows[self._worst(rows)]] = False
        self.keep(alive)
        self._region = self._region[alive]

    def _worst(self, rows: IntArray) -> int:
        F = np.ascontiguousarray(self.F[rows])
        layers = pareto_layers(F, np.zeros(len(F)))
        region = self._region[rows]
        pbi = _pbi(F, self.W, region, self._ideal, self.penalty)
        return int(_victim(layers, region, pbi, len(self.W)))


@njit
def _pbi(
    F: FloatArray, W: FloatArray, region: IntArray, ideal: FloatArray, theta: float
) -> FloatArray:
    """Return the penalty-based boundary intersection of each row with its region's direction."""
    values = np.empty(len(F))
    for i in range(len(F)):
        w = W[region[i]]
        length = np.sqrt((w * w).sum())
        along = ((F[i] - ideal) * w).sum() / length
        away = F[i] - ideal - along * w / length
        values[i] = along + theta * np.sqrt((away * away).sum())
    return values


@njit
def _victim(layers: IntArray, region: IntArray, pbi: FloatArray, directions: int) -> int:
    """Return the row to delete (the paper's Algorithms 5 and 6)."""
    crowd = np.bincount(region, minlength=directions)
    load = np.bincount(region, weights=pbi, minlength=directions).astype(np.float64)
    among = layers == layers.max()
    place = _most_crowded(region, among, crowd, load)
    if crowd[place] == 1:
        place = _most_crowded(region, layers >= 0, crowd, load)
        there = region == place
        among = layers == layers[there].max()
    return int(np.where(among & (region == place), pbi, -np.inf).argmax())


@njit
def _most_crowded(region: IntArray, among: Array, crowd: IntArray, load: FloatArray) -> int:
    """Return the region of ``among`` with most members; of equals that with the largest PBI sum."""
    best = -1
    for i in range(len(region)):
        r = region[i]
        if among[i] and (
            best < 0 or crowd[r] > crowd[best] or (crowd[r] == crowd[best] and load[r] > load[best])
        ):
            best = r
    return int(best)


class MPSOD(PeerSearch):
    """MPSO/D: one particle for each direction, moved by a personal best and a swarm's best.

    Parameters
    ----------
    horizon : int
        Evaluations over which the inertia falls from 0.9 to 0.1; in a configuration by default
        those of the budget.
    population, mutation_rate
        See :class:`~algorithms.hull.papers.peers.PeerSearch`.
    neighbourhood : float
        Chance that both bests come from neighbouring regions.

    Notes
    -----
    Dai, Wang and Ye 2015, doi:10.1016/j.asoc.2014.12.027, with open points as in PlatEMO. Each
    direction has one member: of the non-dominated candidates in its region, the one that is best in
    direction and nearness. If the region is empty, a random genome is evaluated and is its member
    until the next generation assigns it to a region.

    Each direction has a child. Its parent wins a tournament by crowding distance. Its personal best
    is a random member of the neighbouring directions (of all directions with chance 0.1), and its
    swarm's best is the one of these members that is best in their mean direction. With chance 1/2
    the child is a step of the swarm (c1 = c2 = 2; coordinates that would leave the box stay),
    otherwise a step of differential evolution (F = CR = 0.5); then comes polynomial mutation. The
    paper has real vectors only. For bit strings, particles fly in the unit box and are rounded.
    """

    spaces = (Bits, Box)

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        horizon: Annotated[int, Field(ge=1)] | None = None,
        population: Size = 100,
        mutation_rate: Rate | None = None,
        neighbourhood: Rate = 0.9,
    ) -> None:
        super().__init__(
            problem, roles, seed=seed, population=population, mutation_rate=mutation_rate
        )
        self.W = unit(lattice(self.m, population))
        self.population = len(self.W)
        self.horizon, self.near = known_horizon(horizon), neighbourhood
        self._neighbours = neighbours(self.W)
        binary = isinstance(self.space, Bits)
        self.lower = np.zeros(self.space.d) if binary else self.space.lower
        self.upper = np.ones(self.space.d) if binary else self.space.upper
        self._binary = binary
        self._places: FloatArray = np.zeros((0, self.space.d))
        self._velocity: FloatArray = np.zeros((0, self.space.d))
        self._waiting: tuple[FloatArray, FloatArray] | None = None
        self._direction: IntArray = np.zeros(0, dtype=np.int64)  # of each member
        self._empty: list[int] = []  # directions whose regions wait for a random genome
        self._whole: IntArray = np.zeros(0, dtype=np.int64)  # ids of the last whole generation
        self._ideal = np.full(self.m, np.inf)
        self._evaluated = 0

    def propose(self) -> Array:
        """Return two random genomes per direction at first, and a generation's children later.

        After children, random genomes follow for the regions that are then empty.
        """
        if self._empty or not len(self.X):
            places = self._random(len(self._empty) or 2 * self.population)
            self._waiting = places, np.zeros_like(places)
        else:
            places = self.children()
        genomes = places >= 0.5 if self._binary else places.copy()
        return genomes.astype(self.space.dtype)

    def _random(self, n: int) -> FloatArray:
        return np.asarray(
            self.lower + self.rng.random((n, self.space.d)) * (self.upper - self.lower)
        )

    def children(self) -> FloatArray:
        """Return the place of a child for each direction; it waits there with its velocity."""
        n, d, rng = self.population, self.space.d, self.rng
        share = min(self._evaluated / self.horizon, 1.0)
        weight = 0.9 - 0.8 * share
        parent, personal, best = self._guides()
        here, one, two = self._places[parent], self._places[personal], self._places[best]
        r1, r2 = rng.random((n, 1)), rng.random((n, 1))
        velocity = (
            weight * self._velocity[parent] + 2.0 * r1 * (one - here) + 2.0 * r2 * (two - here)
        )
        moved = here + velocity
        moved = np.where((moved >= self.lower) & (moved <= self.upper), moved, here)
        crossed = rng.random((n, d)) < 0.5
        evolved = np.where(crossed, here + 0.5 * (two - one), here)
        swarm = rng.random((n, 1)) < 0.5
        places = np.clip(np.where(swarm, moved, evolved), self.lower, self.upper)
        velocity = np.where(swarm, velocity, self._velocity[parent])
        reals.mutate_rows(
            places, self.lower, self.upper, self._moves.mutation_rate, rng.random((n, 2 * d))
        )
        self._waiting = places, velocity
        return places

    def _guides(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the positions of the parent, personal best and swarm's best of each direction."""
        n, rng = self.population, self.rng
        lonely = crowding(self.F)
        pairs = rng.integers(len(self.F), size=(n, 2))
        second = lonely[pairs[:, 1]] > lonely[pairs[:, 0]]
        parent = np.where(second, pairs[:, 1], pairs[:, 0])
        near, draws = rng.random(n) < self.near, rng.random(n)
        member = np.full(n, -1)  # of each direction; -1 if its random genome failed
        member[self._direction] = np.arange(len(self.F))
        G = self.F - self._ideal
        length = _length(G)
        personal, best = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        for i in range(n):
            directions = self._neighbours[i] if near[i] else np.arange(n)
            rows = member[directions]
            rows = rows[rows >= 0]
            rows = rows if len(rows) else np.arange(len(self.F))
            personal[i] = rows[int(draws[i] * len(rows))]
            merit = G[rows] @ self.W[directions].mean(axis=0) / length[rows]
            best[i] = rows[merit.argmax()]
        return parent, personal, best

    def learn(self, batch: Evaluated) -> None:
        assert self._waiting is not None
        ok = batch.ok
        self._evaluated += len(batch)
        self._places = np.concatenate([self._places, self._waiting[0][ok]])
        self._velocity = np.concatenate([self._velocity, self._waiting[1][ok]])
        self._waiting = None
        filled = np.array(self._empty, dtype=np.int64)
        if len(filled):
            self._direction = np.concatenate([self._direction, filled[ok]])
        super().learn(batch)
        if len(filled):
            self._empty = []
        if not self._empty or not len(self._whole):
            self._whole = np.sort(self.ids[self._feasible])

    def outcome(self) -> Outcome:
        """Return the feasible members of the last generation whose regions were all filled."""
        return Outcome(returned=self._whole)

    def select(self) -> None:
        if self._empty:  # a random genome is the member of its direction wherever it lies
            return
        fresh = self.F[len(self._direction) :]
        self._ideal = np.minimum(self._ideal, fresh.min(axis=0))
        G = self.F - self._ideal
        region = (G @ self.W.T).argmax(axis=1)
        merit = (G * self.W[region]).sum(axis=1) / _length(G)
        survivors = []
        for r in np.unique(region):
            here = np.flatnonzero(region == r)
            best = here[nondominated(self.F[here])]
            survivors.append(int(best[merit[best].argmax()]))
        rows = np.array(survivors)
        self._places, self._velocity = self._places[rows], self._velocity[rows]
        self._direction = region[rows]
        self._empty = np.setdiff1d(np.arange(self.population), self._direction).tolist()
        self.keep(rows)


def _length(G: FloatArray) -> FloatArray:
    """Return the length of each row to the power of 1.2, which favours rows near the origin."""
    return np.asarray(np.maximum((G * G).sum(axis=1), 1e-300) ** 0.6)
