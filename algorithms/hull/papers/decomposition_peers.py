"""Peers by decomposition: MOEA/DD and MPSO/D, over regions around a lattice of directions."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from algorithms.hull.papers.peers import PeerSearch, Size, crowding, lattice, neighbours, unit
from algorithms.moves import reals
from framework.algorithm import known_horizon
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.jit import njit
from framework.pareto import nondominated, pareto_layers
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate
from framework.space import Bits, Box


class MOEADD(PeerSearch):
    """MOEA/DD: one member goes for each child, by dominance, crowding of regions and PBI.

    Parameters
    ----------
    **options
        See :class:`~algorithms.hull.papers.peers.PeerSearch`.
    batch : int
        Children of one state of the population; 1 is the paper.
    neighbourhood : float
        Chance that both parents come from neighbouring regions (the paper's delta).
    penalty : float
        Theta of the penalty-based boundary intersection.

    Notes
    -----
    Li, Deb, Zhang and Kwong 2015, doi:10.1109/TEVC.2014.2373386, with a tenth of the directions as
    neighbours. Regions go by the angle of the objectives themselves, PBI from the least value of
    each seen so far; nothing is normalised beyond the metrics' bounds. O(n^2) a child.
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
        """Take the children in one by one, each at the cost of a member."""
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
    found = np.empty(len(F))
    for i in range(len(F)):
        w = W[region[i]]
        length = np.sqrt((w * w).sum())
        along = ((F[i] - ideal) * w).sum() / length
        away = F[i] - ideal - along * w / length
        found[i] = along + theta * np.sqrt((away * away).sum())
    return found


@njit
def _victim(layers: IntArray, region: IntArray, pbi: FloatArray, directions: int) -> int:
    """Return the row to delete (the paper's Algorithms 5 and 6)."""
    crowd = np.zeros(directions, dtype=np.int64)
    load = np.zeros(directions)
    for i in range(len(region)):
        crowd[region[i]] += 1
        load[region[i]] += pbi[i]
    last = layers.max()
    if last > 0:
        among = layers == last
        if among.sum() == 1:
            row = int(np.argmax(among))
            if crowd[region[row]] > 1:
                return row
        else:
            place = _most_crowded(region, among, crowd, load)
            if crowd[place] > 1:
                return _largest(pbi, (region == place) & among)
    everyone = np.ones(len(region), dtype=np.bool_)
    place = _most_crowded(region, everyone, crowd, load)
    there = region == place
    deepest = 0
    for i in range(len(region)):
        if there[i]:
            deepest = max(deepest, layers[i])
    return _largest(pbi, there & (layers == deepest))


@njit
def _most_crowded(region: IntArray, among: Array, crowd: IntArray, load: FloatArray) -> int:
    """Return the region of ``among`` with most members; of equals that of the largest PBI sum."""
    best = -1
    for i in range(len(region)):
        r = region[i]
        if among[i] and (
            best < 0 or crowd[r] > crowd[best] or (crowd[r] == crowd[best] and load[r] > load[best])
        ):
            best = r
    return int(best)


@njit
def _largest(values: FloatArray, among: Array) -> int:
    best = -1
    for i in range(len(values)):
        if among[i] and (best < 0 or values[i] > values[best]):
            best = i
    return best


class MPSOD(PeerSearch):
    """MPSO/D: one particle a direction, moved by its own and a neighbour's best.

    Parameters
    ----------
    horizon : int
        Evaluations over which the inertia falls from 0.9 to 0.1; in a configuration those of the
        budget if left out.
    population, mutation_rate
        See :class:`~algorithms.hull.papers.peers.PeerSearch`.
    neighbourhood : float
        Chance that the bests come from neighbouring regions.

    Notes
    -----
    Dai, Wang and Ye 2015, doi:10.1016/j.asoc.2014.12.027. A child is a swarm's step with chance
    1/2 (c1 = c2 = 2; coordinates that leave the box stay where they were), else a step of
    differential evolution (F = CR = 0.5); then polynomial mutation. A region's member is the
    non-dominated one of best direction and nearness; an empty region gets a random genome a
    generation. On bit strings particles fly in the unit box and stand for their rounding, a
    reading: the paper knows real vectors alone.
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
        self._region: IntArray = np.zeros(0, dtype=np.int64)
        self._ideal = np.full(self.m, np.inf)
        self._evaluated = 0

    def propose(self) -> Array:
        """Return random genomes first, two a direction; then a child a member and random ones."""
        if len(self.X):
            places, velocity = self._flown()
        else:
            places = self._random(2 * self.population)
            velocity = np.zeros_like(places)
        self._waiting = places, velocity
        genomes = places >= 0.5 if self._binary else places.copy()
        return genomes.astype(self.space.dtype)

    def children(self) -> Array:
        """Return the places of a generation's children."""
        return self._flown()[0]

    def _random(self, n: int) -> FloatArray:
        return np.asarray(
            self.lower + self.rng.random((n, self.space.d)) * (self.upper - self.lower)
        )

    def _flown(self) -> tuple[FloatArray, FloatArray]:
        """Return places and velocities of a child a member, and of random genomes."""
        n, d, rng = len(self._places), self.space.d, self.rng
        share = min(self._evaluated / self.horizon, 1.0)
        weight = 0.9 - 0.8 * share
        own, best = self._bests()
        r1, r2 = rng.random((n, 1)), rng.random((n, 1))
        velocity = (
            weight * self._velocity
            + 2.0 * r1 * (own - self._places)
            + 2.0 * r2 * (best - self._places)
        )
        moved = self._places + velocity
        moved = np.where((moved >= self.lower) & (moved <= self.upper), moved, self._places)
        crossed = rng.random((n, d)) < 0.5
        evolved = np.where(crossed, self._places + 0.5 * (best - own), self._places)
        swarm = rng.random((n, 1)) < 0.5
        places = np.clip(np.where(swarm, moved, evolved), self.lower, self.upper)
        velocity = np.where(swarm, velocity, self._velocity)
        reals.mutate_rows(
            places, self.lower, self.upper, self._moves.mutation_rate, rng.random((n, 2 * d))
        )
        empty = self.population - len(np.unique(self._region))
        fresh = self._random(max(empty, 0))
        return np.concatenate([places, fresh]), np.concatenate([velocity, np.zeros_like(fresh)])

    def _bests(self) -> tuple[FloatArray, FloatArray]:
        """Return two guides of each member, winners of tournaments by crowding distance."""
        n, rng = len(self._places), self.rng
        lonely = crowding(self.F)
        guides = np.empty((n, 2), dtype=np.int64)
        near = rng.random(n) < self.near
        for k in range(n):
            pool = np.arange(n)
            if near[k]:
                here = np.flatnonzero(np.isin(self._region, self._neighbours[self._region[k]]))
                pool = here if len(here) else pool
            pairs = pool[rng.integers(len(pool), size=(2, 2))]
            guides[k] = pairs[[0, 1], (lonely[pairs[:, 1]] > lonely[pairs[:, 0]]).astype(int)]
        return self._places[guides[:, 0]], self._places[guides[:, 1]]

    def learn(self, batch: Evaluated) -> None:
        """Add the candidates that succeeded, with their positions and velocities."""
        assert self._waiting is not None
        ok = batch.ok
        self._evaluated += len(batch)
        self._places = np.concatenate([self._places, self._waiting[0][ok]])
        self._velocity = np.concatenate([self._velocity, self._waiting[1][ok]])
        self._waiting = None
        super().learn(batch)

    def select(self) -> None:
        """Keep one member a region: of the non-dominated ones there the best."""
        self._ideal = np.minimum(self._ideal, self.F.min(axis=0))
        G = np.maximum(self.F - self._ideal, 1e-12)
        region = (G @ self.W.T).argmax(axis=1)
        merit = (G * self.W[region]).sum(axis=1) / np.linalg.norm(G, axis=1) ** 1.2
        kept = []
        for r in np.unique(region):
            here = np.flatnonzero(region == r)
            best = here[nondominated(self.F[here])]
            kept.append(int(best[merit[best].argmax()]))
        rows = np.array(kept)
        self._places, self._velocity = self._places[rows], self._velocity[rows]
        self._region = region[rows]
        self.keep(rows)
