"""Convex-hull-based evolutionary searches: 3DFCH-EMOA, 3DCH-EMOA, and for two to six objectives."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import Field

from algorithms.hull.kernels import hull3d, populations
from algorithms.hull.kernels.hull_nd import HullND
from algorithms.hull.reference import (
    ExactReference,
    GridReference,
    exact_reference,
    grid_reference,
)
from algorithms.moves.steady_state import SteadyState
from framework.algorithm import MaxPending, Outcome
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.jit import copy, njit
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

Points3D = Annotated[list[tuple[Rate, Rate, Rate]], Field(min_length=3)]
Points = Annotated[list[list[Rate]], Field(min_length=2)]
"""R as a configuration gives it: for three objectives, and for any number."""

_MODES = {"oldest": populations.OLDEST, "birth": populations.BIRTH, "random": populations.RANDOM}

R = TypeVar("R", bound=ExactReference | GridReference)


class HullSearch(SteadyState, Generic[R]):
    """Base of the convex-hull searches: a population whose hull with R is to grow.

    Parameters
    ----------
    problem : Problem
        Its objectives have a best and a worst value.
    roles : Roles
        Infeasible candidates are members, but never vertices of the hull.
    seed : int
    population : int
        Members, and random genomes at the start; at least as many as R has points.
    batch : int
        Children of one state of the population; they are taken in one by one. 1 is the papers';
        more give workers something to do at once.
    max_pending : int, optional
        Number of candidates that may be pending while the search goes on; it waits for each batch
        if None. No genome is proposed twice, and ``batch`` is not used: the steps of
        :meth:`~framework.algorithm.Algorithm.make_asynchronous` take its place.
    mutation_rate, crossover_rate : float, optional
        Probabilities of mutation and of recombination; what suits the space if None.
    reference : sequence of points, optional
        R, as shares of each objective's way from best (0) to worst (1); the problem's own
        (``anchors``) if None, else those of as many classes as there are objectives.

    Raises
    ------
    InputError
        Objectives of another number or without bounds, an R that is no R, or a population
        smaller than R.
    """

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
        super().__init__(
            problem,
            roles,
            seed=seed,
            population=population,
            max_pending=max_pending,
            mutation_rate=mutation_rate,
            crossover_rate=crossover_rate,
        )
        self.batch = batch
        if batch < population:
            self.evaluations_per_generation = population
        self.reference = self.make_reference(roles, reference or problem.anchors(roles.names))
        if population < self.reference.corners:
            raise InputError(
                "algorithm.population: expected at least as many as R has points "
                f"({self.reference.corners}), found {population}"
            )
        self._starts = problem.starts()

    def propose(self) -> Array | None:
        """Return the problem's starts, then random genomes, (population, d), then children."""
        if len(self._starts):
            some = self.step if self.is_steady else len(self._starts)
            starts, self._starts = self._starts[:some], self._starts[some:]
            self._seen.add(starts)
            return starts
        if self.is_steady:
            return self.next_step()
        X = self.children(self.batch) if self._n_bred else None
        if X is None:
            X = self.first(self.population)
        self._n_bred += len(X)
        return X.astype(self.space.dtype, copy=False)

    def children(self, n: int) -> Array | None:
        """Return children of parents that are drawn from the members, each equally likely."""
        slots = self.members()
        if not len(slots):
            return None
        parents = _picked(self.genomes, slots, self.rng.random(2 * n))
        return self._moves.children(parents[:n], parents[n:], self.rng)

    def scored(self, batch: Evaluated) -> tuple[Evaluated, Array, BoolArray]:
        """Return the evaluations that succeeded, their points, and which may be vertices."""
        rows = batch.take(batch.ok) if batch.errors else batch
        points, usable = self.reference.normalised(self.roles.losses(rows.values))
        if self.roles.constraints:
            usable &= self.roles.violation(rows.values) == 0.0
        return rows, points, usable

    @staticmethod
    @abstractmethod
    def make_reference(roles: Roles, points: Sequence[Sequence[float]] | None) -> R:
        """Return the reference points R; the usual ones if ``points`` is None."""

    @abstractmethod
    def members(self) -> IntArray:
        """Return where in ``genomes`` the members are."""


@njit
def _picked(genomes: Array, slots: IntArray, U: FloatArray) -> Array:
    """Return the genome of a slot for each number in [0, 1), all slots equally likely."""
    picked = np.empty((len(U), genomes.shape[1]), dtype=genomes.dtype)
    for r in range(len(U)):
        copy(genomes[slots[int(U[r] * len(slots))]], picked[r])
    return picked


class CHEMOA(HullSearch[ExactReference]):
    """3DCH-EMOA, the reference: rank the population in layers of hulls, delete from the last one.

    Parameters
    ----------
    reference, **options
        See :class:`HullSearch`.

    Notes
    -----
    - Zhao et al., 3D convex-hull-based evolutionary multiobjective optimisation, as Sections 3.1
      to 3.3 of the 3DFCH-EMOA paper describe it: (mu + 1), layers of convex hulls with R without
      redundancy, contributions by Equation 8. Every candidate has all hulls computed anew.
    - Of two equal points the later member is redundant; redundant members are the last level.
    - Points beyond the plane of R are never vertices (see :class:`FCHEMOA`); without that rule a
      point near (1, 1, 1) stays.
    - ``outcome().returned`` has the ids of the first layer.

    A candidate costs a hull of n points for each layer, and n contributions.
    """

    make_reference = staticmethod(exact_reference)

    def __init__(
        self, problem: Problem, roles: Roles, *, reference: Points3D | None = None, **options: Any
    ) -> None:
        super().__init__(problem, roles, reference=reference, **options)
        n = self.population + 1
        self._state = hull3d.empty_state(len(self.reference.fixed) + n)
        self.genomes = np.zeros((n, self.space.d), dtype=self.space.dtype)
        self._points = np.zeros((n, 3), dtype=np.int64)
        self._usable = np.zeros(n, dtype=bool)
        self._ids = np.zeros(n, dtype=np.int64)
        self._n = 0

    def members(self) -> IntArray:
        return np.arange(self._n)

    def learn(self, batch: Evaluated) -> None:
        rows, points, usable = self.scored(batch)
        for r in range(len(rows)):
            at = self._n
            self.genomes[at], self._points[at] = rows.X[r], points[r]
            self._usable[at], self._ids[at] = usable[r], rows.ids[r]
            self._n += 1
            if self._n > self.population:
                self._drop()

    def _drop(self) -> None:
        gone = populations.worst(
            self._state, self.reference.fixed, self._points, self._usable, self._ids
        )
        self._n -= 1
        for column in (self.genomes, self._points, self._usable, self._ids):
            column[gone] = column[self._n]

    def outcome(self) -> Outcome:
        """Return VAS and the ids of the first layer."""
        rows = np.flatnonzero(self._usable[: self._n])
        layer, _ = populations.level(self._state, self.reference.fixed, self._points, rows)
        vas = self.reference.share(int(self._state.counts[hull3d.VOLUME]))
        return Outcome({"vas": vas}, returned=np.sort(self._ids[rows[layer]]))


class _FastHullSearch(HullSearch[R]):
    """A hull kept up to date: vertices are frontal members, a queue has the others.

    ``outcome().returned`` has the ids of the frontal members, which the method returns. The
    Pareto front of a run, over everything evaluated, is another set. ``by_queue`` is the share of
    deletions that were not by contribution; the table ``hull`` has VAS after every
    ``population`` evaluations.
    """

    def __init__(self, problem: Problem, roles: Roles, **options: Any) -> None:
        super().__init__(problem, roles, **options)
        self._evaluated = 0
        self._history: list[tuple[int, float]] = []

    def learn(self, batch: Evaluated) -> None:
        self.absorb(*self.scored(batch))
        before, self._evaluated = self._evaluated, self._evaluated + len(batch)
        if self._evaluated // self.population > before // self.population:
            self._history.append((self._evaluated, self.vas))

    def outcome(self) -> Outcome:
        deleted, by_queue = self.deletions()
        findings = {"vas": self.vas, "by_queue": by_queue / max(deleted, 1)}
        evaluations, volumes = zip(*self._history, strict=True) if self._history else ((), ())
        columns = {"evaluations": np.array(evaluations, dtype=np.int64), "vas": np.array(volumes)}
        return Outcome(findings, returned=self.frontal_ids(), tables={"hull": columns})

    @property
    @abstractmethod
    def vas(self) -> float:
        """Volume above the DET surface (Equation 6), as a share of the cube."""

    @abstractmethod
    def absorb(self, rows: Evaluated, points: Array, usable: BoolArray) -> None:
        """Take in what :meth:`scored` returns, one by one."""

    @abstractmethod
    def deletions(self) -> tuple[int, int]:
        """Return how many members were deleted, and how many of these from the queue."""

    @abstractmethod
    def frontal_ids(self) -> IntArray:
        """Return the ids of the frontal members, ascending; a copy."""


class FCHEMOA(_FastHullSearch[ExactReference]):
    """3DFCH-EMOA: maximise the volume of the convex hull of the population and R (Equation 6).

    Each child joins the hull, or else the queue of non-frontal members; then one member goes:
    the head of the queue, or, where the queue is empty, the vertex whose loss costs the hull
    least. The volume never falls from one evaluation to the next.

    Parameters
    ----------
    non_frontal : {'oldest', 'birth', 'random'}
        Which non-frontal member goes: the one that was so the longest (a queue, Algorithms 2, 5
        and 7), the one born first (Section 3.2's words), or any (Section 4.3).
    reference, **options
        See :class:`HullSearch`.

    Notes
    -----
    - Zhao, Jiao, Liu, Basto Fernandes, Yevseyeva, Xia and Emmerich: 3D Fast Convex-Hull-Based
      Evolutionary Multiobjective Optimization Algorithm, Algorithms 1 to 7.
    - Equal points, points inside the hull and points on its boundary are non-frontal.
    - Points beyond the plane of R never are vertices: the paper does not say so, but its fast
      contribution with r = (1, 1, 1) has the same effect.
    - Contributions are exact (Equation 8), at the cost of Equation 9: where the queue is empty,
      the hole that a vertex leaves is closed by its neighbours alone.
    - Parents are uniform over all members; the first queue is in the order of the evaluations.
    - Losses are counted in whole steps, 2^20 of them unless the metrics have their own, so that
      every decision is exact; points nearer than a step are equal.
    - ``outcome()``: frontal members, ``vas``, ``by_queue`` and the table ``hull``
      (:class:`_FastHullSearch`).

    A candidate costs O(n) with a small factor (is it seen from a facet?), the rest O(neighbours).
    """

    make_reference = staticmethod(exact_reference)

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        reference: Points3D | None = None,
        non_frontal: Literal["oldest", "birth", "random"] = "oldest",
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, reference=reference, **options)
        self._mode = _MODES[non_frontal]
        self._arrays = populations.empty_arrays(self.reference.fixed, self.population)
        slots = self._arrays.slots.shape[1]
        self.genomes = np.zeros((slots, self.space.d), dtype=self.space.dtype)

    def members(self) -> IntArray:
        return populations.members(self._arrays)

    def absorb(self, rows: Evaluated, points: Array, usable: BoolArray) -> None:
        populations.absorb(
            self._arrays,
            self.population,
            self._mode,
            self.genomes,
            rows.X,
            points,
            usable,
            rows.ids,
            self.rng.random(len(rows) if self._mode == populations.RANDOM else 1),
        )

    @property
    def vas(self) -> float:
        return self.reference.share(int(self._arrays.counts[0, hull3d.VOLUME]))

    def deletions(self) -> tuple[int, int]:
        return populations.deletions(self._arrays)

    def frontal_ids(self) -> IntArray:
        return populations.frontal_ids(self._arrays)


class NDFCHEMOA(_FastHullSearch[GridReference]):
    """The rules of 3DFCH-EMOA in two to six objectives.

    Parameters
    ----------
    reference, **options
        See :class:`HullSearch`.

    Notes
    -----
    - Beyond the paper, which has three objectives; for these take :class:`FCHEMOA`, which is five
      times as fast.
    - Each child joins the hull, or else the queue; then one member goes: the head of the queue,
      or, where the queue is empty, the vertex whose loss costs the hull least (of equal ones the
      oldest).
    - Losses are counted in whole steps, 2^20 of them in up to three objectives, 2^19, 2^14 and
      2^11 in four, five and six: what is inside the hull is decided exactly, volumes are floats.
    - ``outcome()`` has what FCHEMOA's has.

    A candidate costs O(facets), of which n points have O(n^(m/2)); one that joins also a hull of
    the neighbours of each vertex whose neighbours changed.
    """

    make_reference = staticmethod(grid_reference)

    def __init__(
        self, problem: Problem, roles: Roles, *, reference: Points | None = None, **options: Any
    ) -> None:
        super().__init__(problem, roles, reference=reference, **options)
        k, slots = self.reference.corners, self.population + 1
        self.genomes = np.zeros((slots, self.space.d), dtype=self.space.dtype)
        self._ids = np.zeros(slots, dtype=np.int64)
        self._hull = HullND(k + slots, len(roles.objectives))  # R, then the members' points
        self._hull.points[:k] = self.reference.fixed
        self._hull.build(np.arange(k))
        self._losses = np.full(slots, -1.0)  # of vertices; -1 where it is not known
        self._empty = list(range(slots))
        self._queue: deque[int] = deque()
        self._frontal: list[int] = []  # in the order in which they joined
        self._deleted = self._by_queue = 0

    def members(self) -> IntArray:
        return np.array(sorted([*self._frontal, *self._queue]), dtype=np.int64)

    def absorb(self, rows: Evaluated, points: Array, usable: BoolArray) -> None:
        for r in range(len(rows)):
            slot = self._empty.pop()
            self.genomes[slot], self._ids[slot] = rows.X[r], rows.ids[r]
            self._hull.points[self.reference.corners + slot] = points[r]
            if not (usable[r] and self._join(slot)):
                self._queue.append(slot)
            if not self._empty:
                self._drop()

    @property
    def vas(self) -> float:
        return self.reference.share(self._hull.volume)

    def deletions(self) -> tuple[int, int]:
        return self._deleted, self._by_queue

    def frontal_ids(self) -> IntArray:
        return np.sort(self._ids[self._frontal])

    def _join(self, slot: int) -> bool:
        """Make a point a vertex, and what it hides non-frontal; False where it lies inside."""
        k = self.reference.corners
        place = k + slot
        if self._hull.is_flat:
            if not self._hull.build(np.append(np.arange(k), place)):
                return False
        else:
            hidden = self._hull.insert(place)
            if hidden is None:
                return False
            gone = set((hidden - k).tolist())
            self._queue.extend(s for s in self._frontal if s in gone)
            self._frontal = [s for s in self._frontal if s not in gone]
        self._frontal.append(slot)
        self._forget(np.append(self._hull.neighbours(place), place))
        return True

    def _drop(self) -> None:
        """Take one member out."""
        self._deleted += 1
        if self._queue:
            self._by_queue += 1
            self._empty.append(self._queue.popleft())
            return
        gone = self._least()
        place = self.reference.corners + gone
        self._forget(self._hull.neighbours(place))
        self._hull.delete(place)
        self._frontal.remove(gone)
        self._empty.append(gone)
        # R may have lain inside thanks to the member alone; the hull must keep it
        for v in range(self.reference.corners):
            if not self._hull.is_vertex(v) and self._hull.insert(v) is not None:
                self._forget(self._hull.neighbours(v))

    def _least(self) -> int:
        """Return the member that contributes least to the hull (Equation 8), the oldest of them."""
        slots = np.array(self._frontal)
        unknown = slots[self._losses[slots] < 0.0]
        self._losses[unknown] = self._hull.losses(self.reference.corners + unknown)
        return int(slots[np.lexsort((self._ids[slots], self._losses[slots]))[0]])

    def _forget(self, vertices: IntArray) -> None:
        """Have the losses of some vertices computed anew when they are asked for."""
        members = vertices[vertices >= self.reference.corners]
        self._losses[members - self.reference.corners] = -1.0
