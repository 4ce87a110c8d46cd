"""Small problems that tests search: numpy alone, no data."""

from collections.abc import Mapping

import numpy as np

from framework.arrays import Array
from framework.problem import Problem
from framework.roles import Metric
from framework.space import Counts, Partition, Space
from framework.streams import CandidateStreams

COVERAGE_ACCURACY_COST = (
    Metric("coverage", "max"),
    Metric("accuracy", "max"),
    Metric("cost", "min", "ratio", high=100.0),
)


class OddSpace(Space):
    """A space that nothing is known of."""

    def __init__(self) -> None:
        self.d, self.dtype = 2, np.dtype(np.int64)
        self.lower, self.upper = np.zeros(2, int), np.ones(2, int)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.integers(0, 2, size=(size, 2))


class StagesToy(Problem):
    """An ordered partition scored like a multi-stage classifier: coverage, accuracy, cost.

    Item ``i`` costs ``1 + i % 3`` and is worth ``i + 1``; late items are seldom paid for.
    """

    def __init__(self, n: int = 8, k: int = 4, removal: bool = False) -> None:
        self.space = Partition(n, k, removal)
        costs = 1.0 + np.arange(n) % 3
        worth = np.arange(n) + 1.0
        self.costs, self.worth = costs, worth / worth.sum()
        self.metrics = (
            *COVERAGE_ACCURACY_COST[:2],
            Metric("cost", "min", "ratio", high=float(costs.sum())),
        )
        self.fingerprint = f"stages-toy/{n}/{k}/{removal}"

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        reached = np.where(X >= 0, 0.6 ** np.maximum(X, 0), 0.0)
        used = X >= 0
        return {
            "coverage": (reached * self.worth).sum(axis=1),
            "accuracy": (used * (1.0 - 0.5 * reached) * self.worth).sum(axis=1),
            "cost": (reached * self.costs).sum(axis=1),
        }


class EnsembleToy(Problem):
    """Counts of ``n`` models whose predictions are made up, scored as ensembles are.

    Members' costs add up; better models cost more. ``alike`` gives all models one prediction.
    """

    def __init__(
        self, n: int = 9, most: int = 20, seed: int = 0, alike: bool = False, records: int = 40
    ) -> None:
        rng = np.random.default_rng(seed)
        self.space = Counts(n, most, empty=False)
        y = np.arange(records) % 2
        noise = rng.normal(size=(n, records)) * rng.uniform(0.8, 2.5, size=(n, 1))
        noise = np.tile(noise[:1], (n, 1)) if alike else noise
        # whole multiples of powers of 2: sums are exact, whatever the batch
        self.predictions = np.round(2**20 / (1.0 + np.exp(0.5 - y - noise))) / 2**20
        self.y = y == 1
        loss = np.where(self.y, 1.0 - self.predictions, self.predictions)
        self.alike = np.abs(np.nan_to_num(np.corrcoef(loss).reshape(n, n)))
        self.similar = 1.0 / (1.0 + np.abs(np.arange(n)[:, None] - np.arange(n)))
        self.costs = {
            "inference_time": rng.integers(1, 99, n) / 64,
            "memory": rng.integers(1, 9, n).astype(float),
        }
        self.metrics = (
            Metric("roc_auc", "max"),
            *(
                Metric(name, "min", "ratio", high=float(cost.sum()))
                for name, cost in self.costs.items()
            ),
            Metric("members", "min", "ratio", high=float(n)),
            Metric("loss_correlation", "min"),
            Metric("config_similarity", "min"),
        )
        self.fingerprint = f"ensemble-toy/{n}/{most}/{seed}/{alike}"

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        used = X > 0
        with np.errstate(invalid="ignore"):  # no member at all: a failed row
            mean = X @ self.predictions / X.sum(axis=1, keepdims=True)
        above = (mean[:, self.y, None] - mean[:, None, ~self.y]).round(12)
        costs = {name: used @ cost for name, cost in self.costs.items()}
        return {
            "roc_auc": np.where(np.isnan(above), np.nan, (np.sign(above) + 1) / 2).mean((1, 2)),
            **costs,
            "members": used.sum(axis=1).astype(float),
            "loss_correlation": _pair_mean(used, self.alike),
            "config_similarity": _pair_mean(used, self.similar),
        }


def _pair_mean(used: Array, table: Array) -> Array:
    """Return the mean of ``table`` over each row's pairs of members; 1 where there is none."""
    pairs = used[:, :, None] & used[:, None, :] & ~np.eye(len(table), dtype=bool)
    number = pairs.sum(axis=(1, 2))
    total = (pairs * table).sum(axis=(1, 2))
    return np.minimum(np.where(number == 0, 1.0, total / np.maximum(number, 1)), 1.0)


def two_of_mixed(x: float, n: int, kind: str, c: float) -> tuple[float, float]:
    """Return two values of a real number, a whole one, a choice and a logarithmic one."""
    return x * x + n, (x - 1.0) ** 2 + (kind == "a") + abs(c - 1.0)
