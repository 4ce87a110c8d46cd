"""Optuna's NSGA-II, one trial for each candidate, to compare with."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import NSGAIISampler
from optuna.trial import TrialState
from pydantic import Field

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Partition


class OptunaNSGAII(Algorithm):
    """NSGA-II as users of Optuna have it on whole numbers, to compare with.

    It is ``NSGAIISampler`` with its defaults. It knows nothing of partitions: what is no genome is
    repaired to a similar one. Time grows with the square of the number of evaluations.

    Parameters
    ----------
    population : int
        Number of parents, and of trials in each generation.
    """

    spaces = (Partition,)

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Annotated[int, Field(ge=2)] = 50,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        bounds = zip(self.space.lower.tolist(), self.space.upper.tolist(), strict=True)
        self._genes: dict[str, BaseDistribution] = {
            f"gene {j}": IntDistribution(*ends) for j, ends in enumerate(bounds)
        }
        self.population = population
        self._trials: list[optuna.Trial] = []
        sampler = NSGAIISampler(population_size=population, seed=int(self.rng.integers(2**32)))
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # it would announce the study
        self._study = optuna.create_study(
            directions=["minimize"] * len(roles.objectives), sampler=sampler
        )
        optuna.logging.set_verbosity(verbosity)

    def propose(self) -> Array:
        assert isinstance(self.space, Partition)
        self._trials = [self._study.ask(self._genes) for _ in range(self.population)]
        rows = [[trial.params[gene] for gene in self._genes] for trial in self._trials]
        return self.space.repaired(np.array(rows))

    def learn(self, batch: Evaluated) -> None:
        losses = self.roles.losses(batch.values).tolist()
        violations = self.roles.violation(batch.values).tolist()
        results = zip(self._trials, losses, violations, batch.ok.tolist(), strict=True)
        for trial, row, violation, ok in results:
            if not ok:
                self._study.tell(trial, state=TrialState.FAIL)
                continue
            if self.roles.constraints:
                trial.set_constraint("violation", violation)
            self._study.tell(trial, row)
