"""Uniform random search: the baseline that works on every space."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles


class RandomSearch(Algorithm):
    """Sample the space, batch after batch, and learn nothing.

    Parameters
    ----------
    problem : Problem
    roles : Roles
    seed : int
    batch : int
        Genomes a batch.
    """

    lookahead = 4

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        batch: Annotated[int, Field(ge=1)] = 300,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.batch = batch

    def propose(self) -> Array:
        """Draw the next batch, shape (batch, d)."""
        return self.space.sample(self.rng, self.batch)

    def learn(self, batch: Evaluated) -> None:
        """Ignore the answers."""
