"""What the convex-hull searches share: R, losses as points, children of random parents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Generic, Protocol, TypeVar

import numpy as np
from pydantic import Field

from algorithms.moves.seen import Seen
from algorithms.moves.unseen import unseen
from algorithms.moves.variation import SPACES, variation
from framework.algorithm import Algorithm, MaxPending
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.jit import njit
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

_NONE = np.zeros(0, dtype=np.int64)


class Hanging(Protocol):
    """Reference points that a hull hangs from.

    Attributes
    ----------
    corners : int
        How many points R has.
    """

    corners: int

    def placed(self, shares: FloatArray) -> tuple[Array, BoolArray]:
        """Return losses, shape (n, m), as points of the hull's cube, and which may be corners."""
        ...


R = TypeVar("R", bound=Hanging)


class HullSearch(Algorithm, Generic[R]):
    """Base of the convex-hull searches: a population whose hull with R is to grow.

    Parameters
    ----------
    problem : Problem
        Its objectives have a best and a worst value.
    roles : Roles
        Infeasible rows are members, but never corners of the hull.
    seed : int
    population : int
        Members, and random genomes at the start; at least as many as R has points.
    batch : int
        Children of one state of the population; they are taken in one by one.
    max_pending : int, optional
        None: a batch waits for the one before. Else so many rows may be out while the search goes
        on, no genome is asked for twice, and ``batch`` is not used: the steps of
        :meth:`~framework.algorithm.Algorithm.make_asynchronous` take its place.
    mutation_rate, crossover_rate : float, optional
        What suits the space if None (:func:`~algorithms.moves.variation.variation`).
    reference : sequence of points, optional
        R, as shares of each objective's way from best (0) to worst (1); the problem's own
        (``anchors``) if None, else those of as many classes as there are objectives.

    Raises
    ------
    InputError
        Objectives of another number or without bounds, an R that is no R, or a population
        smaller than R.
    """

    spaces = SPACES
    genomes: Array

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Annotated[int, Field(ge=1)] = 100,
        batch: Annotated[int, Field(ge=1)] = 1,
        max_pending: MaxPending = None,
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
        reference: Sequence[Sequence[float]] | None = None,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.population, self.batch = population, batch
        if batch < population:
            self.evaluations_per_generation = population
        self._seen: Seen | None = None
        if max_pending is not None:
            self.batch, self._seen = self.make_asynchronous(max_pending, population), Seen()
        self.reference = self.hung(roles, reference or problem.anchors(roles.names))
        if population < self.reference.corners:
            raise InputError(
                "algorithm.population: expected at least as many as R has points "
                f"({self.reference.corners}), found {population}"
            )
        low, high = roles.bounds().T
        self._low, self._span = low, high - low
        self._moves = variation(self.space, mutation_rate, crossover_rate)
        self._started = 0

    def propose(self) -> Array | None:
        """Return random genomes first, shape (population, d), then children, shape (batch, d)."""
        if self._seen is None:
            drawn = self._drawn(self.batch if len(self._parents()) else self.population)
        else:
            drawn = unseen(
                self._seen, self.batch, self._drawn, lambda n: self._moves.scatter(n, self.rng)
            )
            if not len(drawn):
                return self.give_up("no new genome from mating")
        self._started += len(drawn)
        return drawn.astype(self.space.dtype, copy=False)

    def _parents(self) -> IntArray:
        """Return where in ``genomes`` the parents of the next children are."""
        return self.members() if self._started >= self.population else _NONE

    def _drawn(self, n: int) -> Array:
        """Return children of uniform parents, random genomes where there are none."""
        slots = self._parents()
        if not len(slots):
            return self._moves.first(n, self.rng)
        parents = _picked(self.genomes, slots, self.rng.random(2 * n))
        return self._moves.children(parents[:n], parents[n:], self.rng)

    def scored(self, batch: Evaluated) -> tuple[Evaluated, Array, BoolArray]:
        """Return the rows that succeeded, their points, and which may be corners."""
        rows = batch.take(batch.ok) if batch.errors else batch
        losses = self.roles.losses(rows.values)
        losses -= self._low
        losses /= self._span
        points, usable = self.reference.placed(losses)
        if self.roles.constraints:
            usable &= self.roles.violation(rows.values) == 0.0
        return rows, points, usable

    @abstractmethod
    def hung(self, roles: Roles, points: Sequence[Sequence[float]] | None) -> R:
        """Return the reference of the points of R; of the usual ones if None."""

    @abstractmethod
    def members(self) -> IntArray:
        """Return where in ``genomes`` the members are."""


@njit
def _picked(genomes: Array, slots: IntArray, U: FloatArray) -> Array:
    """Return the genome of a slot for each number in [0, 1), all slots equally likely."""
    picked = np.empty((len(U), genomes.shape[1]), dtype=genomes.dtype)
    for r in range(len(U)):
        picked[r] = genomes[slots[int(U[r] * len(slots))]]
    return picked
