"""Majority votes of yes-or-no columns: how often they are right, and how many are asked."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from paretolab import Bits, Deployable, Metric, Problem, Section
from pocket.model import Voter


class VotersConfig(Section):
    columns: int = Field(7, ge=1, le=50)
    seed: int = 0


class Voters(Problem, Deployable):
    """Pick columns of made-up data; a record is positive where most of them say yes."""

    Config = VotersConfig
    known_metrics: ClassVar = (
        Metric("right", "max", text="share of the records that the vote has right"),
        Metric("asked", "min", "ratio", text="columns asked"),
    )

    def __init__(self, columns, seed):
        self.space = Bits(columns)
        self.metrics = (self.known_metrics[0], self.known_metrics[1]._replace(high=float(columns)))
        self.fingerprint = f"voters {columns} {seed}"
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 2, size=400)
        noise = rng.random((400, columns)) < np.linspace(0.1, 0.45, columns)
        self.records = np.where(noise, 1 - self.y[:, None], self.y[:, None])

    @classmethod
    def from_config(cls, config):
        return cls(config.columns, config.seed)

    def evaluate(self, X, streams):
        asked = X.sum(axis=1)
        yes = 2 * self.records[:200] @ X.T.astype(np.int64) > asked
        return {"right": (yes == self.y[:200, None]).mean(axis=0), "asked": asked.astype(float)}

    def evaluate_test(self, X, streams):
        asked = X.sum(axis=1)
        yes = 2 * self.records[200:] @ X.T.astype(np.int64) > asked
        return {"right": (yes == self.y[200:, None]).mean(axis=0), "asked": asked.astype(float)}

    def describe(self):
        return {"name": "voters", "source": "made up", "fingerprint": "v", "records": 400}

    def decode(self, x):
        return Voter([f"q{i}" for i in np.flatnonzero(x)])

    def example(self):
        return {f"q{i}": self.records[:3, i].tolist() for i in range(self.space.d)}
