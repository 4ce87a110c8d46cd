"""What the convex-hull searches share: R, whole-numbered losses, children of random parents."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.hull.reference import reference_of
from algorithms.moves.variation import SPACES, variation
from framework.algorithm import Algorithm
from framework.arrays import Array, BoolArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

Reference = Annotated[list[tuple[Rate, Rate, Rate]], Field(min_length=3)]


class HullSearch(Algorithm):
    """Base of 3DFCH-EMOA and 3DCH-EMOA: a population whose hull with R is to grow.

    Parameters
    ----------
    problem : Problem
        With three objectives that have a best and a worst value.
    roles : Roles
        Infeasible rows are members, but never corners of the hull.
    seed : int
    population : int
        Members, and random genomes at the start; at least as many as R has points.
    batch : int
        Children of one state of the population; they are taken in one by one.
    mutation_rate, crossover_rate : float, optional
        What suits the space if None (:func:`~algorithms.moves.variation.variation`).
    reference : sequence of three floats each, optional
        R, as shares of each objective's way from best (0) to worst (1); the problem's own
        (``anchors``) if None, else those of three classes.

    Raises
    ------
    InputError
        Not three bounded objectives, an R that is no R, or a population smaller than R.
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
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
        reference: Reference | None = None,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.population, self.batch = population, batch
        self.reference = reference_of(problem, roles, reference)
        corners = len(reference or problem.anchors(roles.names) or range(3))
        if population < corners:
            raise InputError(
                f"algorithm.population: expected at least as many as R has points ({corners}), "
                f"found {population}"
            )
        low, high = roles.bounds().T
        self._low, self._span = low, high - low
        self._moves = variation(self.space, mutation_rate, crossover_rate)
        self._first = True

    def propose(self) -> Array:
        """Return random genomes first, shape (population, d), then children, shape (batch, d)."""
        slots = self.members()
        if self._first or not len(slots):
            self._first = False
            drawn = self._moves.first(self.population, self.rng)
        else:
            picks = (self.rng.random(2 * self.batch) * len(slots)).astype(np.int64)
            parents = self.genomes[slots[picks]]
            drawn = self._moves.children(parents[: self.batch], parents[self.batch :], self.rng)
        return drawn.astype(self.space.dtype)

    def scored(self, batch: Evaluated) -> tuple[Evaluated, IntArray, BoolArray]:
        """Return the rows that succeeded, their whole-numbered points, and which may be corners."""
        rows = batch.take(batch.ok) if batch.errors else batch
        losses = (self.roles.losses(rows.values) - self._low) / self._span
        points, usable = self.reference.whole(losses)
        if self.roles.constraints:
            usable &= self.roles.violation(rows.values) == 0.0
        return rows, points, usable

    @abstractmethod
    def members(self) -> IntArray:
        """Return where in ``genomes`` the members are."""
