"""95% ranges of the expected figures of solutions, and the parts that they are computed from.

Out-of-fold figures measure the models of the folds. The exported models are fitted on all records
and may, say, answer more often or cost more. The two can be compared only on records that both were
trained on: the *shift* is the figure of the exported models there, less that of the models of the
folds. Which share *beta* of a shift carries over to new records is estimated from pairs of models
of folds, by their differences on records that both of them, or only one of them, was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from framework.arrays import BoolArray, FloatArray, IntArray
from framework.front import Promise
from framework.jit import njit_ieee
from framework.outcomes import RecordOutcomes, Refits
from framework.roles import Metric

if TYPE_CHECKING:
    from framework.analysis.resamples import Resamples

NORMAL = 1.96  # standard errors on each side of a range
_SQUARES = 2.0**39  # what squares of weights add up to, in steps
_FEWEST_RECORDS = 2.0  # records that a range is computed from, at least
# factors on the variance of the gain of choosing, for measured models and for refitted ones
_MEASURED, _REFITTED = 0.5, 2.0
_SELDOM = 0.975  # share of resamples in which subgroups part by less
_LAST_BITS = 1e-12  # relative difference of equal figures

Ends = tuple[float, float] | None


class Spread(NamedTuple):
    """What the range of a solution's figure is computed from, beside the gain of choosing.

    Attributes
    ----------
    variance : float
        The variance of the figure over resamples.
    about : float
        How many units the figure is taken over; of weighted records as many as vary as much.
    ends : tuple of float, or None
        The least and the highest value of a record, which are equal for a size that no record
        decides; None where the figure is no mean of records.
    luck : float
        The factor with which the variance of the gain of choosing enters the range.
    moved, left : float
        Mean and variance of what refitting changes: see :func:`changes`.
    drawn : tuple of float, or None
        The least and the highest figure in resamples, for a quantile of the records' values. It
        moves in jumps, which no variance describes.
    chance : float
        What a difference between subgroups seldom exceeds by chance alone; 0 for other figures.
    offset : float
        How much greater the figure is that this one estimates; 0 where it estimates no other.
    """

    variance: float
    about: float
    ends: Ends
    luck: float
    moved: float = 0.0
    left: float = 0.0
    drawn: Ends = None
    chance: float = 0.0
    offset: float = 0.0


def spreads(
    resamples: Resamples,
    positions: IntArray,
    resampled: Mapping[str, FloatArray],
    metrics: Mapping[str, Metric],
    refits: Refits | None = None,
) -> dict[str, list[Spread]]:
    """Return what the ranges of solutions are computed from, by metric.

    Parameters
    ----------
    resamples : Resamples
    positions : numpy.ndarray of int64, shape (n,)
        The positions of the solutions among the outcomes.
    resampled : mapping of str to numpy.ndarray of float64, shape (n, B)
        The metrics of the solutions in resamples.
    metrics : mapping of str to Metric
    refits : Refits, optional
        What refitting changes for the same solutions.
    """
    n, outcomes, units = len(positions), resamples.outcomes, resamples.units
    variances = {
        name: np.array([moments(row)[1] for row in resampled[name]])
        for name in outcomes.names
        if name in metrics and name in resampled
    }
    taken, whole = taken_over(outcomes, positions)
    ends = outcomes.ends(positions)
    changed = {} if refits is None else changes(refits, variances)
    luck = 0.0 if changed else gain_share(outcomes.refitted)
    apart = _apart(resamples, positions, [metrics[name] for name in variances])
    estimated = any(metrics[name].estimates for name in variances)
    claimed = resamples.claimed(positions) if estimated else {}
    by_metric = {}
    for name, variance in variances.items():
        metric = metrics[name]
        about = units * taken.get(name, np.full(n, whole))
        limits = [_limits(metric)] * n
        if name in ends:
            limits = list(zip(*(end.tolist() for end in ends[name]), strict=True))
        moved, left = changed.get(name, np.zeros((2, n)))
        offset = np.zeros(n)
        if metric.estimates in claimed:
            offset = claimed[metric.estimates] - claimed[name]
        numbers = np.column_stack([variance, about, moved, left, offset]).tolist()
        drawn: list[Ends] = [None] * n
        if metric.statistic == "quantile":
            least, highest = resampled[name].min(axis=1), resampled[name].max(axis=1)
            drawn = list(zip(least.tolist(), highest.tolist(), strict=True))
        by_chance = apart.get(name, [0.0] * n)
        by_metric[name] = [
            Spread(v, units_about, limit, luck, mean, rest, extremes, seldom, off)
            for limit, extremes, seldom, (v, units_about, mean, rest, off) in zip(
                limits, drawn, by_chance, numbers, strict=True
            )
        ]
    return by_metric


def _apart(
    resamples: Resamples, positions: IntArray, metrics: Sequence[Metric]
) -> dict[str, list[float]]:
    """Return what the differences between subgroups seldom exceed by chance, by metric."""
    if not any(metric.statistic == "difference" for metric in metrics):
        return {}
    outcomes = resamples.outcomes
    weights = np.column_stack([np.ones(outcomes.records, np.float32), resamples.weights])
    return {
        name: np.quantile(column[:, 1:], _SELDOM, axis=1, method="higher").tolist()
        for name, column in outcomes.chance(weights, positions).items()
    }


def taken_over(
    outcomes: RecordOutcomes, positions: IntArray
) -> tuple[dict[str, FloatArray], float]:
    """Return the shares of records that figures are taken over, shape (n,), and that of all.

    If records have weights w, a mean over some of them varies as one over ``sum(w)^2 / sum(w^2)``
    records that count alike (Kish 1965, Section 11.2): one that counts as forty is not forty.
    """
    if outcomes.counted is None:
        all_records = np.zeros(outcomes.records, dtype=np.int64), np.ones((1, 1), dtype=bool)
        shares = outcomes.figures_of_folds(*all_records, (), positions)[1]
        return {name: share[:, 0] for name, share in shares.items()}, 1.0
    weights = outcomes.counted.astype(np.float64)
    # Drawn once, and as often as a record counts, in steps that are rounded up: sums of the weights
    # and at least those of their squares, which are whole numbers far below 2^53.
    step = weights.max() / max(_SQUARES // weights.sum(), 1.0)
    often = np.ceil(weights / step)
    alike = weights.sum() ** 2 / (weights @ often * step) / outcomes.records
    draws = np.column_stack([np.ones(outcomes.records), often])
    shares = outcomes.figures(draws, positions, (), squares=True)[1]
    return {
        name: alike * share[:, 0] ** 2 / np.where(share[:, 1] > 0, share[:, 1], 1.0)
        for name, share in shares.items()
    }, float(alike)


def _limits(metric: Metric) -> Ends:
    return metric.ends if metric.kind == "bounded" and not metric.scale else None


def mixed_spread(
    parts: Sequence[Spread], chances: FloatArray, variance: float, metric: Metric
) -> Spread:
    """Return the spread of a mixture of solutions.

    Refitting may change all solutions in the same direction, so their standard deviations add up.

    Parameters
    ----------
    parts : sequence of Spread
        The spreads of the solutions; empty where only trivial classifiers are mixed.
    chances : numpy.ndarray of float64, shape (len(parts),)
    variance : float
        The variance of the mixture's figure over resamples.
    metric : Metric
    """
    if not parts:
        return Spread(variance, math.inf, None, 0.0)
    about, luck, moved, left = np.array([(p.about, p.luck, p.moved, p.left) for p in parts]).T
    changed = float(chances @ moved), float(chances @ np.sqrt(left)) ** 2
    offset = float(chances @ [part.offset for part in parts])
    sizes = all(part.ends and part.ends[0] == part.ends[1] for part in parts)
    ends = None if sizes else _limits(metric)
    return Spread(variance, float(about.min()), ends, float(luck[0]), *changed, offset=offset)


class Change(NamedTuple):
    """What refitting changes in one metric of n solutions.

    Attributes
    ----------
    moved : numpy.ndarray of float64, shape (n,)
        How much greater the figure of the exported models is expected to be.
    variance : numpy.ndarray of float64, shape (n,)
        The variance of the part of the change that remains unknown.
    """

    moved: FloatArray
    variance: FloatArray


def changes(refits: Refits, variances: Mapping[str, FloatArray]) -> dict[str, Change]:
    """Return what refitting changes in each metric of n solutions.

    Parameters
    ----------
    refits : Refits
        The refits of these solutions.
    variances : mapping of str to numpy.ndarray of float64, shape (n,)
        The variances of the out-of-fold figures over resamples of the records, by metric.

    Notes
    -----
    With K folds, ``D[k]`` is how far model k is above the others on fold k, which they were trained
    on and it was not; ``C[k]`` is how far it is above them on the records that both were trained
    on. Beta is the slope of D on C over all solutions, clipped to 0..1; the line goes through the
    origin, since the C of a solution add up to 0. A part of 1 - beta of the variance between the
    models of the folds remains unexplained. This variance is estimated half from the solution
    itself, half from the average ratio to ``variances``. It counts once for the exported models,
    and 1 / K times for the mean of the models of the folds.
    """
    fold_of, folds = refits.fold_of, int(refits.fold_of.max()) + 1
    pairs = list(combinations(range(folds), 2))
    each, every = np.eye(folds, dtype=bool), np.ones((folds, 1), dtype=bool)
    # sets of records: all, each fold, all but each fold, all but each pair of folds
    unions = np.column_stack([every, each, ~each, *(~each[i] & ~each[j] for i, j in pairs)])
    models = [_figures(model, fold_of, unions, variances) for model in refits.models]
    by_metric = {}
    for name, variance in variances.items():
        figures = np.stack([model[name] for model in models])  # models, solutions, columns
        parts, whole = figures[:folds], figures[folds, :, 0]
        on_held_out = parts[:, :, 1 : folds + 1]  # [j, :, k] is model j on fold k
        trained = np.stack([parts[k, :, 1 + folds + k] for k in range(folds)])
        C = np.zeros((folds, len(variance)))
        for column, (i, j) in enumerate(pairs, start=1 + 2 * folds):
            gap = (parts[i, :, column] - parts[j, :, column]) / (folds - 1)
            C[i] += gap
            C[j] -= gap
        alone = np.stack([on_held_out[k, :, k] for k in range(folds)])
        others = (on_held_out.sum(axis=0).T - alone) / (folds - 1)
        beta = _slope(C, alone - others)
        spread = parts[:, :, 0].var(axis=0, ddof=1)
        usable = np.isfinite(spread) & (variance > 0)
        total = math.fsum(variance[usable])
        share = math.fsum(spread[usable]) / total if total else 0.0
        left = (1 + 1 / folds) * (1 - beta) * (spread + share * variance) / 2
        moved = beta * (whole - trained.mean(axis=0))
        by_metric[name] = Change(np.nan_to_num(moved), np.nan_to_num(left))
    return by_metric


def _figures(
    model: RecordOutcomes, fold_of: IntArray, unions: BoolArray, names: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return metrics, (n, b) each; NaN where a metric is taken over no record."""
    values, about = model.figures_of_folds(fold_of, unions, names)
    return {
        name: np.where(about[name] > 0, values[name], np.nan) if name in about else values[name]
        for name in names
    }


def _slope(x: FloatArray, y: FloatArray) -> float:
    """Return the least-squares slope of a line through the origin, clipped to 0..1."""
    both = np.isfinite(x) & np.isfinite(y)
    square = math.fsum(x[both] ** 2)
    return min(max(math.fsum(x[both] * y[both]) / square, 0.0), 1.0) if square else 0.0


def promised(
    claimed: float,
    gained: FloatArray,
    metric: Metric,
    spread: Spread,
    again: FloatArray | None = None,
) -> Promise:
    """Return what a solution claims in one metric, what to expect of it, and a 95% range.

    The expected figure is the claimed one, less the optimism, plus what refitting changes on
    average. The range is computed from half as many records as the figure is taken over, and one
    further record at each end: that three answers of three are right does not mean that all will
    be. A figure over no record at all may be anything. The range is wider where the luck of
    choosing, or the unknown effect of refitting, has more variance than half the records explain.
    A quantile is expected between its least and its highest figure in resamples.

    Parameters
    ----------
    claimed : float
    gained : numpy.ndarray, shape (n,)
        How much greater the metric of picks is in their resample than on all records; NaN where a
        resample has no pick.
    metric : Metric
    spread : Spread
        No figure lies outside its ``ends`` or, without these, outside the bounds of the metric.
    again : numpy.ndarray, shape (m,), optional
        The same for picks in resamples of the resamples, relative to the latter.
    """
    optimism, luck = moments(gained)
    if math.isnan(optimism):
        return Promise(claimed, math.nan, math.nan, math.nan)
    if again is not None and not math.isnan(more := moments(again)[0]):
        optimism *= _undiluted(optimism, more)
    low, high = (  # ends are computed in another order than claims, so the last bit may differ
        claimed if math.isclose(end, claimed, rel_tol=_LAST_BITS) else end
        for end in spread.ends or metric.ends
    )
    expected = min(max(claimed - optimism + spread.moved, low), high)
    if spread.drawn is not None:
        change = NORMAL * math.sqrt(spread.left)
        low = max(low, min(spread.drawn[0], claimed) + min(spread.moved - change, 0.0))
        high = min(high, max(spread.drawn[1], claimed) + max(spread.moved + change, 0.0))
        return Promise(claimed, min(max(expected, low), high), low, high)
    if spread.about == 0 and math.isfinite(low) and math.isfinite(high):
        return Promise(claimed, expected, low, high)  # of no record: nothing is known
    ends = _range(claimed, expected, spread, spread.left + spread.luck * luck)
    if spread.chance:  # the greatest of many differences is above 0 where there is none
        ends = min(ends[0], claimed - spread.chance), ends[1]
    if spread.offset:  # wherever the truth is, about this figure or about the one it estimates
        ends = ends[0] + min(spread.offset, 0.0), ends[1] + max(spread.offset, 0.0)
    return Promise(claimed, expected, *(min(max(x, low), high) for x in ends))


def _range(claimed: float, expected: float, spread: Spread, left: float) -> tuple[float, float]:
    """Return the ends of a 95% range; ``left`` is the variance of choosing and refitting."""
    variance, ends = spread.variance, spread.ends
    more = max(left - variance, 0.0)  # half the records already double the variance of the figure
    if ends is None:
        half = NORMAL * math.sqrt(2 * variance + more)
        return expected - half, expected + half
    records, each = max(spread.about / 2, _FEWEST_RECORDS), variance * spread.about
    # The most variance that a value between the ends can have, by its mean. The variance of a
    # record is scaled with it, because a share further from its ends varies more; a difference
    # between subgroups does not.
    of_claimed, of_expected = ((x - ends[0]) * (ends[1] - x) for x in (claimed, expected))
    if variance and of_claimed > 0 and not spread.chance:
        each *= max(of_expected / of_claimed, 1.0)
    elif of_claimed <= 0 and not variance:  # between the ends it may be a mean of shares 0 and 1
        each = of_expected
    total = records + 2
    mean = (records * expected + sum(ends)) / total
    # x * x rather than x**2, which raises where it overflows: a forged run may have huge bounds
    squares = records * (each + expected * expected) + sum(end * end for end in ends)
    half = NORMAL * math.sqrt(max(squares / total - mean * mean, 0.0) / total + more)
    return mean - half, mean + half


def _undiluted(gain: float, again: float) -> float:
    """Return the factor, 1 to sqrt(2), from the gain in resamples to the true luck of choosing.

    Resamples choose among figures that already differ by luck, so that the luck they add weighs
    less. If the true figures have a variance t and luck has a variance s, a choice gains in
    proportion to s / sqrt(t + s); in resamples it gains s / sqrt(t + 2 s), and in resamples of
    resamples s / sqrt(t + 3 s). So the inverse squares grow by equal steps, and the first one
    follows from the two others, ``gain`` and ``again``.
    """
    if gain * again <= 0:
        return 1.0
    return 1 / math.sqrt(min(max(2 - (gain / again) ** 2, 0.5), 1.0))


def gain_share(refitted: bool) -> float:
    """Return the factor with which the variance of the gain of choosing enters a range."""
    return _REFITTED if refitted else _MEASURED


def moments(values: FloatArray) -> tuple[float, float]:
    """Return mean and variance of the values that are not NaN; NaN if there is none.

    They are the same to the bit on every machine.
    """
    mean, variance = _moments(np.array(values, dtype=np.float64))
    return float(mean), float(variance)


@njit_ieee
def _moments(values: FloatArray) -> tuple[float, float]:
    """See :func:`moments`; the values are overwritten."""
    n = 0
    for value in values:  # those that are not NaN move to the beginning
        if not math.isnan(value):
            values[n] = value
            n += 1
    mean = _sum(values[:n]) / n
    for i in range(n):
        values[i] = (values[i] - mean) * (values[i] - mean)
    return mean, _sum(values[:n]) / n


@njit_ieee
def _sum(values: FloatArray) -> float:
    """Return the compensated sum of Neumaier (1974), in the order of the values."""
    total, rest = 0.0, 0.0
    for value in values:
        added = total + value
        larger, smaller = (total, value) if abs(total) >= abs(value) else (value, total)
        rest += (larger - added) + smaller
        total = added
    return total + rest
