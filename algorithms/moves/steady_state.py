"""Base of searches that breed children of a pool, in generations or one step after the other."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.moves.seen import Seen
from algorithms.moves.variation import SPACES, variation
from framework.algorithm import Algorithm, MaxPending
from framework.arrays import Array
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

_ATTEMPTS = 16  # rounds of new children, and then of two kinds of random genomes
SHARE_OF_POOL = 0.2
"""Without generations, the pool is formed again after so many evaluations, of the population."""

_NOTHING_LEFT = "no new genome from mating"


class SteadyState(Algorithm):
    """Base of searches that breed children of a pool of evaluated candidates.

    With ``max_pending`` there are no generations: whenever candidates were evaluated,
    :meth:`next_step` proposes children of the current pool, none of which was proposed before
    (:meth:`~framework.algorithm.Algorithm.make_asynchronous`).

    Parameters
    ----------
    problem : Problem
    roles : Roles
    seed : int
    population : int
        Number of survivors, and of children in each generation.
    mutation_rate, crossover_rate : float, optional
        Probabilities of mutation and of recombination. If None they suit the space: 0.075 and 0.8
        on ordered partitions and on counts, one gene in a genome and 0.9 on subsets, one gene in a
        genome and 1 on boxes. On counts, a child gets one move, and one more each time with
        probability ``mutation_rate``.
    beta : float
        Bias of mutation to early stages; the greater, the stronger.
    max_pending : int, optional
        Number of candidates that may be pending while the search goes on; if None, it waits for
        each generation. With it, children are made in steps, and compete with the members of the
        pool whenever a fifth of the population has been evaluated. No genome is proposed twice.

    Attributes
    ----------
    population : int
    is_steady : bool
        Whether the search has no generations.
    step : int
        Number of candidates that are proposed together: those of a step, or the population.
    """

    spaces = SPACES

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Annotated[int, Field(ge=2)] = 300,
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
        beta: Annotated[float, Field(gt=0)] = 2.0,
        max_pending: MaxPending = None,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.population, self.is_steady = population, max_pending is not None
        self.step = population
        if max_pending is not None:
            self.step = self.make_asynchronous(max_pending, population)
        self._moves = variation(self.space, mutation_rate, crossover_rate, beta)
        self._seen, self._n_bred = Seen(), 0
        self._gathered: list[Evaluated] = []  # since the pool was last formed
        self._n_gathered = 0

    @abstractmethod
    def children(self, n: int) -> Array | None:
        """Return ``n`` children of members of the pool, (n, d); None where it is empty."""

    def first(self, n: int) -> Array:
        """Return ``n`` genomes without parents, shape (n, d)."""
        return self._moves.first(n, self.rng)

    def bred(self, n: int) -> Array:
        """Return ``n`` children; until a whole population was proposed, genomes without parents."""
        X = self.children(n) if self._n_bred >= self.population else None
        return self.first(n) if X is None else X

    def next_step(self) -> Array | None:
        """Return genomes that were not proposed before, shape (at most step, d).

        Children that were proposed before are replaced: first by other children, and after some
        attempts by random genomes. The search ends if these were all proposed before, too.
        """
        X = self.bred(self.step)
        new = self._seen.add(X)
        if not new.all():
            pieces, missing = [X[new]], len(X) - int(new.sum())
            for attempt in range(3 * _ATTEMPTS):
                if attempt < _ATTEMPTS:
                    X = self.bred(missing)
                elif attempt < 2 * _ATTEMPTS:
                    X = self._moves.scatter(missing, self.rng)
                else:  # on some spaces, the others pick each item at most once
                    X = self.space.sample(self.rng, missing)
                X = X.astype(pieces[0].dtype)
                pieces.append(X[self._seen.add(X)])
                missing -= len(pieces[-1])
                if not missing:
                    break
            X = np.concatenate(pieces)
        self._n_bred += len(X)
        return X.astype(self.space.dtype, copy=False) if len(X) else self.give_up(_NOTHING_LEFT)

    def gathered(self, batch: Evaluated) -> Evaluated | None:
        """Collect evaluations; return those without errors when the pool is to be formed again.

        That is after each generation or, without generations, whenever a fifth of the population
        has been evaluated, because sorting a pool for one candidate costs as much as for many.
        """
        self._gathered.append(batch.take(batch.ok) if batch.errors else batch)
        self._n_gathered += len(batch)
        if self.is_steady and self._n_gathered < self.population * SHARE_OF_POOL:
            return None
        rows = Evaluated.concat(self._gathered)
        self._gathered, self._n_gathered = [], 0
        return rows
