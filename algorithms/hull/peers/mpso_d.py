"""MPSO/D: particle swarms over regions of the objective space."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.hull.peers.base import PeerSearch, Size, crowding, lattice, neighbours, unit
from algorithms.moves import reals
from framework.algorithm import known_horizon
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.pareto import nondominated
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate
from framework.space import Bits, Box


class MPSOD(PeerSearch):
    """MPSO/D: one particle a direction, moved by its own and a neighbour's best.

    Parameters
    ----------
    horizon : int
        Evaluations over which the inertia falls from 0.9 to 0.1; in a configuration those of the
        budget if left out.
    population, mutation_rate
        See :class:`~algorithms.hull.peers.base.PeerSearch`.
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
        self._told = 0

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
        share = min(self._told / self.horizon, 1.0)
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
        """Take in the rows that succeeded, with their places and velocities."""
        assert self._waiting is not None
        ok = batch.ok
        self._told += len(batch)
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
