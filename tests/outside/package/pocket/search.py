"""A search: flip one bit of what was best."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from paretolab import Algorithm, Bits, Outcome


class Climb(Algorithm):
    """Flip one random bit of the row with the least sum of losses."""

    spaces: ClassVar = (Bits,)

    def __init__(self, problem, roles, *, seed: int, batch: Annotated[int, Field(ge=1)] = 20):
        super().__init__(problem, roles, seed=seed)
        self.batch, self.best, self.value = batch, None, np.inf

    def propose(self):
        if self.best is None:
            return self.space.sample(self.rng, self.batch)
        X = np.repeat(self.best[None], self.batch, axis=0)
        rows = np.arange(self.batch)
        X[rows, self.rng.integers(self.space.d, size=self.batch)] ^= 1
        X[~X.any(axis=1), 0] = 1
        return X

    def learn(self, batch):
        sums = self.roles.losses(batch.values).sum(axis=1)
        if sums.min() < self.value:
            at = int(sums.argmin())
            self.best, self.value, self.id = batch.X[at].copy(), float(sums[at]), batch.ids[at]

    def outcome(self):
        return Outcome({"sum": self.value}, returned=np.array([self.id]))
