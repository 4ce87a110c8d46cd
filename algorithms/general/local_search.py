"""Pareto local search: neighbours and children of the best candidates so far."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.moves.seen import Seen
from algorithms.moves.variation import SPACES, variation
from framework.algorithm import Algorithm, MaxPending
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.pareto import pareto_layers
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate
from framework.space import Partition

_FEWEST_STEPS, _ATTEMPTS = 2, 16
_MATES = 4  # members of the front among which a parent finds the one that is most like it
_LISTED = 1 << 24  # greatest number of genes in a neighbourhood that is listed to sample it
_NOTHING_NEW = "random walks and random genomes led to no new candidate"


class ParetoLocalSearch(Algorithm):
    """Evaluate children and neighbours of non-dominated candidates, and the layers behind them.

    An archive keeps candidates with distinct objective vectors, the best Pareto layer first. A
    batch begins with children of pairs from the first layer: a random member, and of four others
    the one with the most similar objectives. Then it takes members of the archive that are not
    explored yet, from the best layer that has some, and evaluates samples of their neighbourhoods
    (or all of them). No genome is evaluated twice: the fewer children are new, the more neighbours
    there are. When the whole archive is explored, the search continues from the ends of random
    walks that start at its members, and where these are known, from random genomes.

    The neighbours depend on the space. Ordered partitions: an item moves to another stage or to a
    new one, two items are swapped, two neighbouring stages are merged, an item is left out or taken
    in. Counts and subsets: one pick more or less, a member is dropped or swapped for another model.
    Whole numbers: one gene is one more or one less; members are dropped and swapped, too. Boxes:
    one gene moves by 1/2, 1/8, ... of its range.

    Parameters
    ----------
    problem : Problem
        Over a :class:`~framework.space.Partition`, :class:`~framework.space.Counts`,
        :class:`~framework.space.Bits`, :class:`~framework.space.Integers` or
        :class:`~framework.space.Box`.
    roles : Roles
    seed : int
    batch : int
        Least number of candidates in a batch; its last neighbourhood is evaluated completely.
    archive : int
        Size of the archive. Non-dominated candidates always stay; those of the next layers help to
        leave local optima.
    perturbation : int
        Greatest number of steps in the random walk of a restart; it grows where walks end at
        genomes that were proposed before.
    neighbours : int, optional
        How many random neighbours of a member are evaluated before it is the turn of the next one
        of its layer; None: all of them.
    crossover_rate : float
        Share of a batch that has two parents. With 0, None for ``neighbours`` and an archive of 1
        it is a plain Pareto local search.
    max_pending : int, optional
        Number of candidates that may be pending while the search goes on; if None, it waits for
        each batch. With it, batches are proposed in steps
        (:meth:`~framework.algorithm.Algorithm.make_asynchronous`), ``batch`` evaluations count as a
        generation, and the archive at the first step of a batch decides what is in it.

    Notes
    -----
    On partitions of features, the designs that one could have without a search
    (:meth:`~framework.problem.Problem.starts`) are evaluated first. The run ends when neither
    random walks nor random genomes are new: all or nearly all candidates were evaluated. Of a
    neighbourhood with more than 2^24 genes, samples are the ends of single random moves.

    Infeasible candidates rank below all feasible ones, by violation; failed ones are left out. Of
    candidates with equal objectives and violation the first stays.

    Pareto local search is by Paquete, Chiarandini and Stuetzle (2004); the layers behind the front
    and children are additions. Children are recombined as in ``nsga2``
    (:class:`~algorithms.general.nsga2.NSGAII`) and not mutated. A batch costs O(neighbourhood) and
    one non-dominated sort of the archive and the evaluations since the last batch.
    """

    spaces = SPACES

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        batch: Annotated[int, Field(ge=1)] = 100,
        archive: Annotated[int, Field(ge=1)] = 1000,
        perturbation: Annotated[int, Field(ge=_FEWEST_STEPS)] = 4,
        neighbours: Annotated[int, Field(ge=1)] | None = 10,
        crossover_rate: Rate = 0.8,
        max_pending: MaxPending = None,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self._moves = variation(self.space, crossover_rate=1.0)
        self._starts: Array = np.zeros((0, self.space.d), dtype=self.space.dtype)
        if isinstance(self.space, Partition):
            self._starts = problem.starts()
        self.batch, self.archive, self.perturbation = batch, archive, perturbation
        self.neighbours, self.crossover_rate = neighbours, crossover_rate
        self._proposed, self._vectors = Seen(), Seen()
        self._X: Array = np.zeros((0, self.space.d), dtype=self.space.dtype)
        self._losses: FloatArray = np.zeros((0, len(roles.objectives)))
        self._violation: FloatArray = np.zeros(0)
        self._layer: IntArray = np.zeros(0, dtype=np.int64)
        self._explored: BoolArray = np.zeros(0, dtype=bool)
        self._evaluated: list[tuple[Array, FloatArray, FloatArray]] = []  # not in the archive yet
        self._queue: Array | None = None  # rest of a batch; None if not asynchronous
        if max_pending is not None:
            self._step, self._queue = self.make_asynchronous(max_pending, batch), self._X

    def propose(self) -> Array | None:
        if self._queue is None:
            drawn = self._next_batch()
        else:
            while len(self._queue) < self._step and len(more := self._next_batch()):
                self._queue = np.concatenate([self._queue, more])
            size = min(self._step, self.max_pending - self._pending)
            drawn, self._queue = self._queue[:size], self._queue[size:]
        return drawn if len(drawn) else self.give_up(_NOTHING_NEW)

    def _next_batch(self) -> Array:
        self._take_in()
        starts, self._starts = self._starts, self._starts[:0]
        pieces = [starts[self._proposed.add(starts)]] if len(starts) else []
        pieces.append(self._children(round(self.crossover_rate * self.batch)))
        pieces += self._explore(self.batch - sum(map(len, pieces)))
        pieces += self._restart(self.batch - sum(map(len, pieces)))
        return np.concatenate(pieces)

    def learn(self, batch: Evaluated) -> None:
        """Collect the candidates that have new objective vectors."""
        rows = batch.take(batch.ok)
        losses, violation = self.roles.losses(rows.values), self.roles.violation(rows.values)
        new = self._vectors.add(np.column_stack([losses, violation]).view(np.int64))
        self._evaluated.append((rows.X[new], losses[new], violation[new]))

    def _take_in(self) -> None:
        """Add evaluated candidates to the archive and drop its worst layers.

        This is delayed until the next batch: most steps of an asynchronous search begin none.
        """
        if not self._evaluated:
            return
        before = (self._X, self._losses, self._violation)
        X, losses, violation = map(np.concatenate, zip(before, *self._evaluated, strict=True))
        layer = pareto_layers(losses, violation)
        archived = np.argsort(layer, kind="stable")
        archived = archived[: max(self.archive, int((layer == 0).sum()))]
        explored = np.zeros(len(X), dtype=bool)
        explored[: len(self._explored)] = self._explored
        self._X, self._explored = X[archived], explored[archived]
        self._losses, self._violation = losses[archived], violation[archived]
        self._layer, self._evaluated = layer[archived], []

    def _children(self, count: int) -> Array:
        """Return the new ones among ``count`` children of members that are alike in objectives."""
        front = np.flatnonzero(self._layer == 0)
        if len(front) < 2:
            return self._X[:0]
        losses = self._losses[front]
        span = np.ptp(losses, axis=0)
        losses = losses / np.where(span > 0, span, 1.0)
        first = self.rng.integers(len(front), size=count)
        mates = self.rng.integers(len(front), size=(count, _MATES))
        distance = np.abs(losses[mates] - losses[first, np.newaxis]).sum(axis=2)
        distance[mates == first[:, np.newaxis]] = np.inf
        second = mates[np.arange(count), distance.argmin(axis=1)]
        children = self._moves.crossed(self._X[front[first]], self._X[front[second]], self.rng)
        children = children.astype(self.space.dtype)
        return children[self._proposed.add(children)]

    def _explore(self, size: int) -> list[Array]:
        """Return ``size`` or more new neighbours of unexplored members, best layer first."""
        waiting = self.rng.permutation(np.flatnonzero(~self._explored))
        waiting = waiting[np.argsort(self._layer[waiting], kind="stable")]
        pieces: list[Array] = []
        count = 0
        for i in waiting.tolist():
            if count >= size:
                break
            pieces.append(self._sampled_neighbours(i))
            count += len(pieces[-1])
        return pieces

    def _sampled_neighbours(self, i: int) -> Array:
        """Return new neighbours of an archive member; mark it as explored if these are the last."""
        x = self._X[i]
        size = self._moves.room(x)
        if self.neighbours is not None and size * self.space.d > _LISTED:
            neighbours = np.repeat(x[np.newaxis], self.neighbours, axis=0)
            self._moves.wander(neighbours, 1, 1, self.rng)
            return neighbours[self._proposed.add(neighbours)]
        room = np.empty((size, self.space.d), dtype=self.space.dtype)
        neighbours = room[: self._moves.neighbours(x, room)]
        if self.neighbours is not None:
            neighbours = neighbours[~self._proposed.knows(neighbours)]
        self._explored[i] = self.neighbours is None or len(neighbours) <= self.neighbours
        if not self._explored[i]:
            neighbours = neighbours[self.rng.permutation(len(neighbours))[: self.neighbours]]
        return neighbours[self._proposed.add(neighbours)]

    def _restart(self, count: int) -> list[Array]:
        """Return up to ``count`` new ends of walks from archive members, or random genomes."""
        pieces: list[Array] = []
        for longer in range(2 * _ATTEMPTS):
            if count <= 0 or (longer >= _ATTEMPTS and any(map(len, pieces))):
                break
            if longer >= _ATTEMPTS:  # walks do not leave a small archive, scatter prefers some
                rows = self.space.sample(self.rng, count)
            elif len(self._X):
                rows = self._X[self.rng.integers(len(self._X), size=count)]
                self._moves.wander(rows, _FEWEST_STEPS, self.perturbation + longer, self.rng)
            else:
                rows = self._moves.scatter(count, self.rng)
            pieces.append(rows[self._proposed.add(rows)])
            count -= len(pieces[-1])
        return pieces
