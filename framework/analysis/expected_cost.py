"""Expected cost of a classifier's errors, and for which costs and priors each solution is best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from framework.arrays import FloatArray
from framework.errors import InputError
from framework.front import Front
from framework.registry import nearest

FALSE_POSITIVES, FALSE_NEGATIVES = "false_positive_rate", "false_negative_rate"


class Range(NamedTuple):
    """A solution that is best between two values of a parameter."""

    position: int
    low: float
    high: float


@dataclass(frozen=True)
class ExpectedCost:
    """What a record costs in expectation (Provost and Fawcett 2001).

    ``prior fn FNR + (1 - prior) fp FPR``, and what a metric's unit costs beside it. All of it is
    in the metrics' own units: nothing is normalised.

    Attributes
    ----------
    fp, fn : float
        Cost of a false positive and of a false negative, from 0.
    prior : float
        Share of positive records where the model will run, 0 to 1.
    per_unit : mapping of str to float
        Cost of one unit of a metric, such as complexity.

    Raises
    ------
    InputError
        Costs below 0 or all 0, or a prior that is no share.
    """

    fp: float
    fn: float
    prior: float
    per_unit: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        costs = [self.fp, self.fn, *self.per_unit.values()]
        if not (np.isfinite(costs).all() and min(costs) >= 0 and max(costs) > 0):
            raise InputError(
                f"costs: expected numbers from 0, one above it, found fp={self.fp:g}, "
                f"fn={self.fn:g}" + "".join(f", {k}={v:g}" for k, v in self.per_unit.items())
            )
        if not 0 <= self.prior <= 1:
            raise InputError(f"prior: expected a share from 0 to 1, found {self.prior:g}")

    def of(self, front: Front) -> FloatArray:
        """Return the expected cost of each solution, on validation metrics, shape (n,)."""
        false_positives, false_negatives, rest = self._parts(front)
        return np.asarray(
            self.prior * self.fn * false_negatives
            + (1 - self.prior) * self.fp * false_positives
            + rest
        )

    def by_prior(self, front: Front) -> list[Range]:
        """Return which solution is best for which prior, from 0 to 1; costs as they are."""
        false_positives, false_negatives, rest = self._parts(front)
        start = self.fp * false_positives
        return lower_envelope(start + rest, self.fn * false_negatives - start, 1.0)

    def by_ratio(self, front: Front) -> list[Range]:
        """Return which solution is best for which ratio fn / fp; fp and the prior as they are."""
        false_positives, false_negatives, rest = self._parts(front)
        fixed = (1 - self.prior) * self.fp * false_positives + rest
        return lower_envelope(fixed, self.prior * self.fp * false_negatives, np.inf)

    def _parts(self, front: Front) -> tuple[FloatArray, FloatArray, FloatArray]:
        values = front.rows.values
        for name in (FALSE_POSITIVES, FALSE_NEGATIVES, *self.per_unit):
            if name not in values:
                raise InputError(
                    f"costs: expected a run with the metric {name!r}, found {', '.join(values)}"
                    f"{nearest(name, values)}"
                )
        rest = np.zeros(len(front))
        for name, cost in self.per_unit.items():
            rest = rest + cost * values[name]
        return values[FALSE_POSITIVES], values[FALSE_NEGATIVES], rest


def lower_envelope(starts: FloatArray, slopes: FloatArray, end: float) -> list[Range]:
    """Return which of the lines ``start + slope t`` is lowest for t from 0 to ``end``.

    Of lines that are equal the first counts. O(n) a range.
    """
    t = 0.0
    ranges: list[Range] = []
    best = int(np.lexsort((slopes, starts))[0])
    while True:
        falls = slopes[best] - slopes
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.where(falls > 0, (starts - starts[best]) / falls, np.inf)
        meets = np.where(meets < t, np.where(falls > 0, t, np.inf), meets)
        upto = float(min(meets.min(), end))
        if upto > t or not ranges:
            ranges.append(Range(best, t, upto))
        if upto >= end:
            return ranges
        best = int(np.lexsort((slopes, np.where(meets == upto, 0, 1)))[0])
        t = upto
