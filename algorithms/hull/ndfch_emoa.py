"""3DFCH-EMOA's rules for any number of objectives, over hulls by Qhull."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import permutations
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.spatial import ConvexHull, QhullError

from algorithms.hull.base import HullSearch
from algorithms.hull.open_reference import NEAR, OpenReference, open_reference_of
from framework.algorithm import MaxPending, Outcome
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

Points = Annotated[list[list[Rate]], Field(min_length=2)]
"""R as a configuration gives it."""


class NDFCHEMOA(HullSearch[OpenReference]):
    """The rules of 3DFCH-EMOA in any number of objectives, at the speed of Qhull.

    Parameters
    ----------
    population, batch, max_pending, mutation_rate, crossover_rate, reference
        See :class:`~algorithms.hull.base.HullSearch`.

    Notes
    -----
    - Beyond the paper, which has three objectives; for these take
      :class:`~algorithms.hull.fch_emoa.FCHEMOA`, which is exact and tens of times as fast.
    - Each child joins the hull, or else the queue; then one member goes: the head of the queue,
      or, where the queue is empty, the corner whose loss costs the hull least (of equal ones the
      oldest).
    - Floating point: what is within 1e-9 of the hull is inside.
    - ``outcome()`` has what FCHEMOA's has.

    A row that joins costs a hull of the corners, O(n^(m/2)); where a corner has to go, each whose
    neighbours changed costs two hulls of its neighbours.
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
        k, room = self.reference.corners, population + 1
        self.genomes = np.zeros((room, self.space.d), dtype=self.space.dtype)
        self._ids = np.zeros(room, dtype=np.int64)
        self._points = np.zeros((k + room, len(roles.objectives)))  # R, then the members'
        self._points[:k] = self.reference.fixed
        self._touch = np.zeros((k + room, k + room), dtype=bool)  # whether two share a facet
        self._empty = list(range(room))
        self._queue: deque[int] = deque()
        self._frontal: list[int] = []  # in the order in which they joined
        self._planes: FloatArray | None = None  # of the hull's facets; None before the first corner
        self._costs: dict[int, tuple[BoolArray, float]] = {}  # of corners, with their neighbours
        self._told = self._deleted = self._by_queue = 0
        self.vas = 0.0
        self._history: list[tuple[int, float]] = []

    def hung(self, roles: Roles, points: Sequence[Sequence[float]] | None) -> OpenReference:
        """Return R in the unit cube."""
        return open_reference_of(roles, points)

    def members(self) -> IntArray:
        """Return where in ``genomes`` the members are."""
        return np.array(sorted([*self._frontal, *self._queue]), dtype=np.int64)

    def learn(self, batch: Evaluated) -> None:
        """Take the rows in, one by one."""
        rows, points, usable = self.scored(batch)
        for r in range(len(rows)):
            slot = self._empty.pop()
            self.genomes[slot], self._ids[slot] = rows.X[r], rows.ids[r]
            self._points[self.reference.corners + slot] = points[r]
            if not (usable[r] and self._outside(points[r]) and self._join(slot)):
                self._queue.append(slot)
            if not self._empty:
                self._drop()
        before, self._told = self._told, self._told + len(batch)
        if self._told // self.population > before // self.population:
            self._history.append((self._told, self.vas))

    def outcome(self) -> Outcome:
        """Return VAS, also on the way, the frontal members, and the share of queue deletions."""
        findings = {"vas": self.vas, "by_queue": self._by_queue / max(self._deleted, 1)}
        evaluations, volumes = zip(*self._history, strict=True) if self._history else ((), ())
        columns = {"evaluations": np.array(evaluations, dtype=np.int64), "vas": np.array(volumes)}
        returned = np.sort(self._ids[self._frontal])
        return Outcome(findings, returned=returned, tables={"hull": columns})

    def _outside(self, point: FloatArray) -> bool:
        if self._planes is None:
            return True
        return bool((self._planes[:, :-1] @ point + self._planes[:, -1] > NEAR).any())

    def _join(self, slot: int) -> bool:
        """Make a point a corner, and what it hides non-frontal; False where Qhull sees no gain."""
        places = self._places([*self._frontal, slot])
        try:
            hull = ConvexHull(self._points[places])
        except QhullError:  # flat in floating point
            return False
        corners = set((places[hull.vertices] - self.reference.corners).tolist())
        if slot not in corners or hull.volume < self.vas:
            return False
        self._queue.extend(s for s in self._frontal if s not in corners)
        self._frontal = [s for s in [*self._frontal, slot] if s in corners]
        self._keep(places, hull)
        return True

    def _drop(self) -> None:
        """Take one member out."""
        self._deleted += 1
        if self._queue:
            self._by_queue += 1
            self._release(self._queue.popleft())
            return
        gone = min(self._frontal, key=lambda slot: (self._cost(slot), int(self._ids[slot])))
        self._frontal.remove(gone)
        self._release(gone)
        places = self._places(self._frontal)
        self._keep(places, ConvexHull(self._points[places]))

    def _release(self, slot: int) -> None:
        """Give a place free, and forget the costs that were counted with its point."""
        self._empty.append(slot)
        place = self.reference.corners + slot
        self._costs = {
            corner: known
            for corner, known in self._costs.items()
            if slot != corner and not known[0][place]
        }

    def _places(self, slots: Sequence[int]) -> IntArray:
        """Return where the points of R and of some members are."""
        k = self.reference.corners
        return np.concatenate([np.arange(k), k + np.array(slots, dtype=np.int64)])

    def _keep(self, places: IntArray, hull: ConvexHull) -> None:
        """Note the hull of some points."""
        self._planes, self.vas = hull.equations, float(hull.volume)
        facets = places[hull.simplices]
        self._touch[:] = False
        for a, b in permutations(range(facets.shape[1]), 2):
            self._touch[facets[:, a], facets[:, b]] = True

    def _cost(self, slot: int) -> float:
        """Return what the hull loses with a corner (Equation 8): its neighbours close the hole."""
        place = self.reference.corners + slot
        near = self._touch[place]
        known = self._costs.get(slot)
        if known is None or (known[0] != near).any():
            around = self._points[near]
            with_it = _volume(np.concatenate([around, self._points[place : place + 1]]))
            self._costs[slot] = near.copy(), with_it - _volume(around)
        return self._costs[slot][1]


def _volume(points: FloatArray) -> float:
    """Return the volume of a hull; 0 of what is flat."""
    try:
        return float(ConvexHull(points).volume)
    except QhullError:
        return 0.0
