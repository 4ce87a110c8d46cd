"""What a trial is worth on its way, at fixed numbers of evaluations, and whether it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from framework.arrays import FloatArray
from framework.front import Front
from framework.roles import Sense

BEST, SHARE = "best_", "share_of_reference"

_DIGITS = 9  # to which vectors of the front and of the reference are compared


@dataclass(frozen=True)
class FrontValue:
    """A number read off a front: ``hypervolume``, ``front_size``, ``best_METRIC`` or the share.

    Attributes
    ----------
    name : str
    reference : numpy.ndarray, shape (n, objectives)
        Losses of the reference front; of no rows where the share is not asked for.
    """

    name: str
    reference: FloatArray

    def __call__(self, front: Front) -> float:
        """Return the number; NaN where the front has none."""
        if self.name == "hypervolume":
            return front.hypervolume()
        if self.name == "front_size":
            return float(len(front))
        if self.name == SHARE:
            wanted = _vectors(self.reference, self.reference)
            return len(wanted & _vectors(front.losses, self.reference)) / len(wanted)
        metric, roles = self.name.removeprefix(BEST), front.roles
        senses = {objective.metric: objective.sense for objective in roles.objectives}
        column = front.rows.values[metric]
        if not len(column):
            return math.nan
        sense = senses.get(metric, roles.metrics[metric].sense)
        return float(column.max() if sense == "max" else column.min())


@dataclass
class Rungs:
    """Looks at a trial on its way, and ends it where it is too bad; a stopping criterion.

    Attributes
    ----------
    value : FrontValue
    sense : str
    at : sequence of int
        Evaluations after which it looks, rising: after the first batch that reaches them.
    limits : mapping of int to float
        By evaluations, the worst value with which the trial goes on there.
    found : dict of int to float
        What it saw, where there was a value.
    pruned : int
        The evaluations after which it ended the trial; 0 where it did not.
    looks : int
        How many there were.
    """

    value: FrontValue
    sense: Sense
    at: Sequence[int]
    limits: Mapping[int, float]
    found: dict[int, float] = field(default_factory=dict)
    pruned: int = 0
    looks: int = 0

    def __call__(self, evaluations: int, front: Callable[[], Front]) -> str:
        """See :data:`framework.run.driver.StoppingCriterion`."""
        while self.looks < len(self.at) and evaluations >= self.at[self.looks]:
            step, value = self.at[self.looks], self.value(front())
            self.looks += 1
            if math.isnan(value):
                continue
            self.found[step] = value
            limit = self.limits.get(step, value)
            if value < limit if self.sense == "max" else value > limit:
                self.pruned = step
                return f"pruned at {step:,} evaluations"
        return ""


def _vectors(losses: FloatArray, scale: FloatArray) -> set[tuple[float, ...]]:
    """Return distinct vectors, rounded as a share of the reference's largest values."""
    largest = np.abs(scale).max(axis=0)
    rounded = np.round(losses / np.where(largest > 0, largest, 1.0), _DIGITS) + 0.0
    return set(map(tuple, rounded.tolist()))
