"""MOEA/DD: decomposition and dominance together, a child at a time."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.hull.peers.base import PeerSearch, Size, lattice, neighbours, unit
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit
from framework.pareto import pareto_layers
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate


class MOEADD(PeerSearch):
    """MOEA/DD: one member goes for each child, by dominance, crowding of regions and PBI.

    Parameters
    ----------
    population, mutation_rate, crossover_rate
        See :class:`~algorithms.hull.peers.base.PeerSearch`.
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
        seed: int,
        population: Size = 100,
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
        batch: Annotated[int, Field(ge=1)] = 1,
        neighbourhood: Rate = 0.9,
        penalty: Annotated[float, Field(ge=0)] = 5.0,
    ) -> None:
        super().__init__(
            problem,
            roles,
            seed=seed,
            population=population,
            mutation_rate=mutation_rate,
            crossover_rate=crossover_rate,
        )
        self.W = lattice(self.m, population)
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
        held = len(self._region)
        fresh = self.F[held:]
        self._region = np.concatenate([self._region, (unit(fresh) @ unit(self.W).T).argmax(axis=1)])
        alive = np.arange(len(self.F)) < held
        for row in range(held, len(self.F)):
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
