"""3DCH-EMOA, the reference: hulls in layers, made anew for every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.hull.base import HullSearch
from algorithms.hull.kernels import facets, hull3d, layers
from algorithms.hull.reference import Points, Reference, reference_of
from framework.algorithm import MaxPending, Outcome
from framework.arrays import IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate


class CHEMOA(HullSearch[Reference]):
    """3DCH-EMOA: rank the population in layers of hulls, delete from the last one.

    Parameters
    ----------
    population, batch, max_pending, mutation_rate, crossover_rate, reference
        See :class:`~algorithms.hull.base.HullSearch`.

    Notes
    -----
    - Zhao et al., 3D convex-hull-based evolutionary multiobjective optimisation, as Sections 3.1
      to 3.3 of the 3DFCH-EMOA paper describe it: (mu + 1), layers of convex hulls with R without
      redundancy, contributions by Equation 8.
    - Of two equal points the later member is redundant; redundant members are the last level.
    - Points beyond the plane of R are never corners (see
      :class:`~algorithms.hull.fch_emoa.FCHEMOA`); without that rule a point near (1, 1, 1) stays.
    - ``outcome().returned`` has the ids of the first layer.

    A row costs a hull of n points for each layer, and n contributions.
    """

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
        reference: Points | None = None,
    ) -> None:
        super().__init__(
            problem,
            roles,
            seed=seed,
            population=population,
            batch=batch,
            max_pending=max_pending,
            mutation_rate=mutation_rate,
            crossover_rate=crossover_rate,
            reference=reference,
        )
        self._state = facets.empty_state(len(self.reference.fixed) + population + 1)
        self.genomes = np.zeros((population + 1, self.space.d), dtype=self.space.dtype)
        self._points = np.zeros((population + 1, 3), dtype=np.int64)
        self._usable = np.zeros(population + 1, dtype=bool)
        self._ids = np.zeros(population + 1, dtype=np.int64)
        self._n = 0

    def hung(self, roles: Roles, points: Sequence[Sequence[float]] | None) -> Reference:
        """Return R in the cube of whole numbers."""
        return reference_of(roles, points)

    def members(self) -> IntArray:
        """Return where in ``genomes`` the members are."""
        return np.arange(self._n)

    def learn(self, batch: Evaluated) -> None:
        """Take the rows in, one by one; each costs a member."""
        rows, points, usable = self.scored(batch)
        for r in range(len(rows)):
            at = self._n
            self.genomes[at], self._points[at] = rows.X[r], points[r]
            self._usable[at], self._ids[at] = usable[r], rows.ids[r]
            self._n += 1
            if self._n > self.population:
                self._drop()

    def _drop(self) -> None:
        gone = layers.worst(
            self._state, self.reference.fixed, self._points, self._usable, self._ids
        )
        self._n -= 1
        for column in (self.genomes, self._points, self._usable, self._ids):
            column[gone] = column[self._n]

    def outcome(self) -> Outcome:
        """Return VAS and the ids of the first layer."""
        state = facets.empty_state(len(self.reference.fixed) + self._n)
        first = len(self.reference.fixed)
        state.points[:first] = self.reference.fixed
        hull3d.build(state, first)
        for k in np.flatnonzero(self._usable[: self._n]).tolist():
            state.points[first + k] = self._points[k]
            hull3d.insert(state, first + k)
        ids = np.sort(self._ids[: self._n][state.facet_of[first:] >= 0])
        return Outcome({"vas": self.reference.share(int(state.counts[2]))}, returned=ids)
