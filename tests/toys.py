"""Small problems that tests search: numpy alone, no data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framework.arrays import Array
from framework.problem import Problem
from framework.roles import Measure
from framework.space import Partition
from framework.streams import RowStreams


class StagesToy(Problem):
    """An ordered partition scored like a multi-stage classifier: coverage, accuracy, cost.

    Item ``i`` costs ``1 + i % 3`` and is worth ``i + 1``; late items are seldom paid for.
    """

    def __init__(self, n: int = 8, k: int = 4, removal: bool = False) -> None:
        self.space = Partition(n, k, removal)
        costs = 1.0 + np.arange(n) % 3
        worth = np.arange(n) + 1.0
        self.costs, self.worth = costs, worth / worth.sum()
        self.measures = (
            Measure("coverage", "max"),
            Measure("accuracy", "max"),
            Measure("cost", "min", "amount", high=float(costs.sum())),
        )
        self.fingerprint = f"stages-toy/{n}/{k}/{removal}"

    def evaluate(self, X: Array, streams: RowStreams) -> Mapping[str, Array]:
        reached = np.where(X >= 0, 0.6 ** np.maximum(X, 0), 0.0)
        used = X >= 0
        return {
            "coverage": (reached * self.worth).sum(axis=1),
            "accuracy": (used * (1.0 - 0.5 * reached) * self.worth).sum(axis=1),
            "cost": (reached * self.costs).sum(axis=1),
        }
