"""3DFCH-EMOA: evolve the corners of one convex hull, kept up to date and never rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from algorithms.hull.base import HullSearch
from algorithms.hull.kernels import frontal
from algorithms.hull.reference import Points, Reference, reference_of
from framework.algorithm import MaxPending, Outcome
from framework.arrays import IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

_MODES = {"oldest": frontal.OLDEST, "birth": frontal.BIRTH, "random": frontal.RANDOM}


class FCHEMOA(HullSearch[Reference]):
    """3DFCH-EMOA: maximise the volume of the convex hull of the population and R (Equation 6).

    Each child joins the hull, or else the queue of non-frontal members; then one member goes:
    the head of the queue, or, where the queue is empty, the corner whose loss costs the hull
    least. The volume never falls from one row to the next.

    Parameters
    ----------
    population, batch, max_pending, mutation_rate, crossover_rate, reference
        See :class:`~algorithms.hull.base.HullSearch`. ``batch`` 1 is the paper; more give workers
        something to do at once.
    non_frontal : {'oldest', 'birth', 'random'}
        Which non-frontal member goes: the one that was so the longest (a queue, Algorithms 2, 5
        and 7), the one born first (Section 3.2's words), or any (Section 4.3).

    Notes
    -----
    - Zhao, Jiao, Liu, Basto Fernandes, Yevseyeva, Xia and Emmerich: 3D Fast Convex-Hull-Based
      Evolutionary Multiobjective Optimization Algorithm, Algorithms 1 to 7.
    - Equal points, points inside the hull and points on its boundary are non-frontal.
    - Points beyond the plane of R never are corners: the paper does not say so, but its fast
      contribution with r = (1, 1, 1) has the same effect.
    - Contributions are exact (Equation 8), at the cost of Equation 9: where the queue is empty,
      the hole that a corner leaves is closed by its neighbours alone.
    - Parents are uniform over all members; the first queue is in the order of the rows.
    - Losses are counted in whole steps, 2^20 of them unless the metrics have their own, so that
      every decision is exact; points nearer than a step are equal.
    - ``outcome().returned`` has the ids of the frontal members, which the method returns. The
      run's front, over everything evaluated, is another set. ``by_queue`` is the share of
      deletions that were not by contribution; the table ``hull`` has VAS after every
      ``population`` rows.

    A row costs O(n) with a small factor (is it seen from a facet?), the rest O(neighbours).
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
        non_frontal: Literal["oldest", "birth", "random"] = "oldest",
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
        self._mode = _MODES[non_frontal]
        self._state = frontal.empty_population(self.reference.fixed, population)
        self.genomes = np.zeros((len(self._state.ids), self.space.d), dtype=self.space.dtype)
        self._told = 0
        self._history: list[tuple[int, float]] = []

    def hung(self, roles: Roles, points: Sequence[Sequence[float]] | None) -> Reference:
        """Return R in the cube of whole numbers."""
        return reference_of(roles, points)

    def members(self) -> IntArray:
        """Return where in ``genomes`` the members are."""
        return frontal.members(self._state)

    def learn(self, batch: Evaluated) -> None:
        """Take the rows in, one by one."""
        rows, points, usable = self.scored(batch)
        draws = self.rng.random(len(rows) if self._mode == frontal.RANDOM else 1)
        frontal.absorb(
            self._state,
            self.population,
            self._mode,
            self.genomes,
            np.ascontiguousarray(rows.X),
            points,
            usable,
            rows.ids,
            draws,
        )
        before, self._told = self._told, self._told + len(batch)
        if self._told // self.population > before // self.population:
            self._history.append((self._told, self.vas))

    @property
    def vas(self) -> float:
        """Volume above the DET surface (Equation 6), of the scaled cube."""
        return self.reference.share(int(self._state.hull.counts[2]))

    def outcome(self) -> Outcome:
        """Return VAS, also on the way, the frontal members, and the share of queue deletions."""
        deleted, by_queue = frontal.tally(self._state)
        ids = self._state.ids[frontal.frontal(self._state)]
        findings = {"vas": self.vas, "by_queue": by_queue / max(deleted, 1)}
        evaluations, volumes = zip(*self._history, strict=True) if self._history else ((), ())
        columns = {"evaluations": np.array(evaluations, dtype=np.int64), "vas": np.array(volumes)}
        return Outcome(findings, returned=ids.copy(), tables={"hull": columns})
