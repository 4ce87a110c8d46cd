"""Uniform random search: the baseline that works on every space."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles


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
        ``uniform`` draws every genome with the same probability. ``by_size`` first draws the size,
        for ordered partitions the number of stages, which makes designs of one stage frequent.
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
        """Draw the next batch, shape (batch, d)."""
        if self.sampling == "by_size":
            return self.space.sample_by_size(self.rng, self.batch)
        return self.space.sample(self.rng, self.batch)

    def learn(self, batch: Evaluated) -> None:
        """Ignore the answers."""
