"""Grid search and uniform random search: the baselines for every space."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.errors import Unfit
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Bits, Counts, Integers, Partition, Space

MOST_GENOMES = 10_000_000
"""Greatest number of combinations of genes that grid search goes through."""


def _shape(space: Space) -> tuple[int, ...]:
    """Return the number of values of each gene."""
    bounds = zip(space.lower, space.upper, strict=True)
    return tuple(int(high) - int(low) + 1 for low, high in bounds)


class GridSearch(Algorithm):
    """Evaluate every genome of a space once, in lexicographic order.

    Parameters
    ----------
    problem : Problem
        Over whole-numbered genes with at most 10 million combinations.
    roles : Roles
    seed : int
        Not used, as nothing is random.
    batch : int
        Combinations of genes in a batch; those that are not genomes of the space are left out.

    Raises
    ------
    Unfit
        There are too many combinations.
    """

    spaces = (Partition, Counts, Bits, Integers)

    def __init__(
        self, problem: Problem, roles: Roles, *, seed: int, batch: Annotated[int, Field(ge=1)] = 300
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.batch = batch
        self.max_pending = 4 * batch
        self._shape = _shape(self.space)
        self._total = math.prod(self._shape)
        self._next = 0

    @classmethod
    def check_fit(cls, problem: Problem) -> None:
        super().check_fit(problem)
        if (total := math.prod(_shape(problem.space))) > MOST_GENOMES:
            raise Unfit(
                f"algorithm.kind: grid goes through at most {MOST_GENOMES:,} combinations, found "
                f"{total:,}"
            )

    def propose(self) -> Array | None:
        while self._next < self._total:
            stop = min(self._next + self.batch, self._total)
            digits = np.unravel_index(np.arange(self._next, stop), self._shape)
            self._next = stop
            X = (np.column_stack(digits) + self.space.lower).astype(self.space.dtype)
            X = X[self.space.contains(X)]
            if len(X):
                return X
        self.done, self.reason = True, "every genome was asked for"
        return None


class RandomSearch(Algorithm):
    """Draw random genomes of the space, batch after batch.

    Parameters
    ----------
    problem : Problem
    roles : Roles
    seed : int
    batch : int
        Number of genomes in a batch.
    sampling : {'uniform', 'by_size'}
        ``uniform`` draws every genome with the same probability. ``by_size`` draws sizes first, of
        ordered partitions those of the stages, which makes stages of few features frequent.
        Counts that may not all be zero are always drawn by size.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        batch: Annotated[int, Field(ge=1)] = 300,
        sampling: Literal["uniform", "by_size"] = "uniform",
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.batch, self.sampling = batch, sampling
        self.max_pending = 4 * batch

    def propose(self) -> Array:
        if self.sampling == "by_size":
            return self.space.sample_by_size(self.rng, self.batch)
        return self.space.sample(self.rng, self.batch)
