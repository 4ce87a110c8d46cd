"""Grid search: every genome of a small space, once."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.batch import Evaluated
from framework.errors import Unfit
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Bits, Counts, Integers, Partition

MOST_GENOMES = 10_000_000
"""Greatest number of combinations of genes that are gone through."""


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
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        batch: Annotated[int, Field(ge=1)] = 300,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        space = self.space
        self.batch = batch
        self.max_pending = 4 * batch
        self._shape = tuple(
            int(high) - int(low) + 1 for low, high in zip(space.lower, space.upper, strict=True)
        )
        self._total = 1
        for values in self._shape:
            self._total *= values
        if self._total > MOST_GENOMES:
            raise Unfit(
                f"algorithm.kind: grid goes through at most {MOST_GENOMES:,} combinations, found "
                f"{self._total:,}"
            )
        self._next = 0

    def propose(self) -> Array | None:
        """Return the next genomes, shape (at most batch, d); None after the last."""
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

    def learn(self, batch: Evaluated) -> None:
        """Ignore the answers."""
