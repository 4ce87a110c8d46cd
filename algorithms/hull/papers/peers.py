"""Base of the searches that the 3DFCH-EMOA paper compares with, and lattices of directions."""

from __future__ import annotations

from abc import abstractmethod
from itertools import combinations
from math import comb
from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.moves.variation import SPACES, variation
from framework.algorithm import Algorithm, Outcome, name_of
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError, Unfit
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

Size = Annotated[int, Field(ge=4)]


class PeerSearch(Algorithm):
    """Base of the peers: a population on any space with moves.

    Parameters
    ----------
    problem : Problem
    roles : Roles
        At least two objectives. An infeasible candidate counts as worse than all feasible ones in
        every objective, by its violation.
    seed : int
    population : int
        Number of members, and of random genomes at the start. Methods with directions have as many
        members as the finest simplex lattice of at most that many points (91 for 100 and three
        objectives).
    mutation_rate, crossover_rate : float, optional
        Probabilities of mutation and of recombination; by default those that suit the space.

    Raises
    ------
    InputError
        There is only one objective, or there are fewer members than objectives.

    Notes
    -----
    Losses are scaled to [0, 1] by the metrics' bounds, if they have any. Failed candidates are left
    out; if a whole generation fails, the next one is made from the same parents.
    """

    spaces = SPACES

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Size = 100,
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.m = len(roles.objectives)
        if self.m < 2:
            kind = name_of(type(self))
            raise Unfit(f"objectives: {kind} needs at least two, found one")
        if population < self.m:
            raise InputError(
                f"algorithm.population: expected at least {self.m} for {self.m} objectives, found "
                f"{population}"
            )
        self.population = population
        self._moves = variation(self.space, mutation_rate, crossover_rate)
        self.X: Array = np.zeros((0, self.space.d), dtype=self._moves.dtype)
        self.F: FloatArray = np.zeros((0, self.m))
        self.ids: IntArray = np.zeros(0, dtype=np.int64)
        self._feasible = np.zeros(0, dtype=bool)

    def propose(self) -> Array:
        drawn = self.children() if len(self.X) else self._moves.first(self.population, self.rng)
        return drawn.astype(self.space.dtype)

    def learn(self, batch: Evaluated) -> None:
        rows = batch.take(batch.ok) if batch.errors else batch
        if not len(rows):
            return
        losses = self.roles.scaled_losses(rows.values)
        violation = self.roles.violation(rows.values)
        bad = violation > 0
        losses[bad] = 2.0 + np.maximum(losses.max(initial=0.0), 0.0) + violation[bad, np.newaxis]
        self.X = np.concatenate([self.X, rows.X.astype(self._moves.dtype)])
        self.F = np.concatenate([self.F, losses])
        self.ids = np.concatenate([self.ids, rows.ids])
        self._feasible = np.concatenate([self._feasible, ~bad])
        self.select()

    def keep(self, rows: Array) -> None:
        """Keep only the members at these positions (or under this mask), in this order."""
        self.X, self.F, self.ids = self.X[rows], self.F[rows], self.ids[rows]
        self._feasible = self._feasible[rows]

    @abstractmethod
    def children(self) -> Array:
        """Return genomes made from the members."""

    @abstractmethod
    def select(self) -> None:
        """Choose the survivors; the latest candidates are at the end of the members."""

    def returned(self) -> IntArray:
        """Return the positions of the members that the method returns."""
        return np.arange(len(self.ids))

    def outcome(self) -> Outcome:
        rows = self.returned()
        return Outcome(returned=np.sort(self.ids[rows][self._feasible[rows]]))


def lattice(m: int, most: int) -> FloatArray:
    """Return the finest simplex lattice of at most ``most`` points (Das and Dennis 1998), (n, m).

    Coordinates add up to 1; zeros are replaced by 1e-6, so that no direction lies in a face.
    """
    cuts = 1
    while comb(cuts + m, m - 1) <= most:
        cuts += 1
    bars = np.array(list(combinations(range(cuts + m - 1), m - 1)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), cuts + m - 1)])
    return np.asarray(np.maximum((np.diff(edges, axis=1) - 1) / cuts, 1e-6))


def neighbours(W: FloatArray) -> IntArray:
    """Return the nearest tenth of the directions for each direction, by angle, itself first."""
    cosine = unit(W) @ unit(W).T
    return np.argsort(-cosine, axis=1, kind="stable")[:, : -(-len(W) // 10)]


def unit(V: FloatArray) -> FloatArray:
    """Return vectors scaled to length 1; a vector of zeros stays."""
    return np.asarray(V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300))


def crowding(F: FloatArray) -> FloatArray:
    """Return the crowding distance of each row (Deb et al. 2002); it is infinite at the ends."""
    n, m = F.shape
    total = np.zeros(n)
    for j in range(m):
        order = np.argsort(F[:, j], kind="stable")
        column = F[order, j]
        gap = np.full(n, np.inf)
        span = column[-1] - column[0]
        gap[1:-1] = (column[2:] - column[:-2]) / (span if span > 0 else 1.0)
        total[order] += gap
    return total
