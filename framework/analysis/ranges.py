"""95% ranges of what to expect of solutions: of how many records, and what fitting anew changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from framework.analysis.refits import changes
from framework.arrays import FloatArray, IntArray
from framework.front import Promise
from framework.jit import njit_ieee
from framework.outcomes import RecordOutcomes, Refits
from framework.roles import Metric

NORMAL = 1.96  # standard errors on each side of a range
_FEWEST_RECORDS = 2.0  # that a range is of
_MEASURED, _REFITTED = 0.5, 2.0  # how much of the variance of the gain a range has

Ends = tuple[float, float] | None


class Spread(NamedTuple):
    """What the range of a solution's figure is made of, beside the gain of choosing.

    Attributes
    ----------
    variance : float
        Of the figure over resamples.
    about : float
        How many units it is about.
    ends : tuple of float, or None
        The least and the highest value of a record; None for what is no mean of records.
    luck : float
        How much of the variance of the gain of choosing the range has.
    moved, left : float
        Mean and variance of what fitting anew changes: see :mod:`framework.analysis.refits`.
    """

    variance: float
    about: float
    ends: Ends
    luck: float
    moved: float = 0.0
    left: float = 0.0


def spreads(
    outcomes: RecordOutcomes,
    units: int,
    positions: IntArray,
    resampled: Mapping[str, FloatArray],
    metrics: Mapping[str, Metric],
    refits: Refits | None = None,
) -> dict[str, list[Spread]]:
    """Return what the ranges of solutions are made of, by metric.

    Parameters
    ----------
    outcomes : RecordOutcomes
    units : int
        How many are drawn in a resample.
    positions : numpy.ndarray of int64, shape (n,)
        The solutions', among the outcomes.
    resampled : mapping of str to numpy.ndarray of float64, shape (n, B)
        Their values in resamples.
    metrics : mapping of str to Metric
    refits : Refits, optional
        Of the same solutions.
    """
    n = len(positions)
    variances = {
        name: np.array([moments(row)[1] for row in resampled[name]])
        for name in outcomes.names
        if name in metrics and name in resampled
    }
    shares = outcomes.shares(np.ones((outcomes.records, 1), dtype=np.float32), positions)
    ends = outcomes.ends(positions)
    changed = {} if refits is None else changes(refits, variances)
    luck = 0.0 if changed else gain_share(outcomes.refitted)
    by_metric = {}
    for name, variance in variances.items():
        metric = metrics[name]
        about = units * (shares[name][:, 0] if name in shares else np.ones(n))
        limits: list[Ends] = [_limits(metric)] * n
        if name in ends:
            limits = list(zip(*(end.tolist() for end in ends[name]), strict=True))
        moved, left = changed.get(name, np.zeros((2, n)))
        columns = variance, about, moved, left
        by_metric[name] = [
            Spread(design_variance, many, limit, luck, by, rest)
            for limit, design_variance, many, by, rest in zip(
                limits, *(column.tolist() for column in columns), strict=True
            )
        ]
    return by_metric


def _limits(metric: Metric) -> Ends:
    return (metric.low, metric.high) if metric.kind == "bounded" else None


def mixed_spread(
    parts: Sequence[Spread], chances: FloatArray, variance: float, metric: Metric
) -> Spread:
    """Return that of a mixture of solutions, whose changes may all go one way.

    Parameters
    ----------
    parts : sequence of Spread
        Theirs; none where trivial classifiers alone are mixed.
    chances : numpy.ndarray of float64, shape (len(parts),)
    variance : float
        Of the mixture's figure over resamples.
    metric : Metric
    """
    if not parts:
        return Spread(variance, math.inf, None, 0.0)
    about, luck, moved, left = np.array([(p.about, p.luck, p.moved, p.left) for p in parts]).T
    changed = float(chances @ moved), float(chances @ np.sqrt(left)) ** 2
    return Spread(variance, float(about.min()), _limits(metric), float(luck[0]), *changed)


def promised(
    claimed: float,
    gained: FloatArray,
    metric: Metric,
    spread: Spread,
    again: FloatArray | None = None,
) -> Promise:
    """Return what a solution claims in one metric, what to expect of it, and a 95% range.

    To expect is the claim, less the optimism, and moved by what fitting anew changes. The range is
    that of half as many records as the figure is about, and one more at each end: that all of three
    answers are right does not say that all will be. It is wider where the luck of choosing, or what
    is not known of fitting anew, has more variance than those records.

    Parameters
    ----------
    claimed : float
    gained : numpy.ndarray, shape (n,)
        How much better picks are in their resample than on all records; NaN where there is none.
    metric : Metric
    spread : Spread
        No figure lies outside its ends, or the metric's: what all records pay is known.
    again : numpy.ndarray, shape (m,), optional
        Likewise of picks in resamples of the resamples, how much better they are than in these.
    """
    gained = gained[~np.isnan(gained)]
    if not len(gained):
        return Promise(claimed, math.nan, math.nan, math.nan)
    optimism, luck = moments(gained)
    if again is not None and not np.isnan(again).all():
        optimism *= _undiluted(optimism, moments(again[~np.isnan(again)])[0])
    low, high = spread.ends or (metric.low, metric.high)
    expected = min(max(claimed - optimism + spread.moved, low), high)
    ends = _range(claimed, expected, spread, spread.left + spread.luck * luck)
    return Promise(claimed, expected, *(min(max(x, low), high) for x in ends))


def _range(claimed: float, expected: float, spread: Spread, left: float) -> tuple[float, float]:
    """Return the ends of a 95% range; ``left`` is a variance beside that of the figure."""
    variance, ends = spread.variance, spread.ends
    more = max(left - variance, 0.0)  # beyond that of half the records
    if ends is None or (not variance and claimed not in ends):
        half = NORMAL * math.sqrt(2 * variance + more)
        return expected - half, expected + half
    records, each = max(spread.about / 2, _FEWEST_RECORDS), variance * spread.about
    there, here = ((x - ends[0]) * (ends[1] - x) for x in (claimed, expected))
    if not variance:
        each = here
    elif there > 0:  # a share further from its ends varies more
        each *= max(here / there, 1.0)
    total = records + 2
    mean = (records * expected + sum(ends)) / total
    # products, as a power that is too large raises: bounds may be those of a forged run
    squares = records * (each + expected * expected) + sum(end * end for end in ends)
    half = NORMAL * math.sqrt(max(squares / total - mean * mean, 0.0) / total + more)
    return mean - half, mean + half


def _undiluted(gain: float, again: float) -> float:
    """Return how many times the gain in resamples the luck of choosing is: from 1 to sqrt(2).

    Resamples choose among figures that differ by luck already, so that what they add weighs less.
    Where true figures differ by a variance t and luck has s, what is chosen gains in proportion to
    s / sqrt(t + s); in resamples it gains s / sqrt(t + 2 s), in theirs s / sqrt(t + 3 s). So the
    inverse of the square goes up by equal steps.
    """
    if gain * again <= 0:
        return 1.0
    return 1 / math.sqrt(min(max(2 - (gain / again) ** 2, 0.5), 1.0))


def gain_share(refitted: bool) -> float:
    """Return how much of the variance of the gain of choosing a range has."""
    return _REFITTED if refitted else _MEASURED


def moments(values: FloatArray) -> tuple[float, float]:
    """Return mean and variance, the same to the bit on every machine."""
    mean, variance = _moments(np.array(values, dtype=np.float64))
    return float(mean), float(variance)


@njit_ieee
def _moments(values: FloatArray) -> tuple[float, float]:
    mean, squares = _sum(values) / len(values), np.empty(len(values))
    for i in range(len(values)):
        squares[i] = (values[i] - mean) * (values[i] - mean)
    return mean, _sum(squares) / len(values)


@njit_ieee
def _sum(values: FloatArray) -> float:
    """Return the sum in the order of the values, and what each addition rounded off (Neumaier)."""
    total, rest = 0.0, 0.0
    for value in values:
        added = total + value
        larger, smaller = (total, value) if abs(total) >= abs(value) else (value, total)
        rest += (larger - added) + smaller
        total = added
    return total + rest
