"""Certificates on fresh records: which solutions meet limits, with a finite-sample guarantee.

Solutions are tested in an order that was fixed beforehand, on the records of the search, until one
fails (fixed-sequence testing; Learn then Test, arXiv 2110.01052, Section 3). The order is that of
Pareto Testing (arXiv 2210.07913): of the solutions that no other one beats both in how surely it
meets the limits and in what is wanted beside them, the surest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES, Condition
from framework.arrays import BoolArray, FloatArray, IntArray

POWER = 0.8  # of what is said to be needed
_MOST = 10**9  # records

COVERAGE, ACCURACY, COST, ERROR_COST = "coverage", "accuracy", "cost", "error_cost"
_OF_POSITIVE = (FALSE_POSITIVES, FALSE_NEGATIVES, "recall")


class Sample(NamedTuple):
    """A mean over records.

    Attributes
    ----------
    mean : float
    records : int
        That it is over.
    high : float
        The highest value that a record can have; the least is 0.
    share : bool
        Whether a record has one of the two, so that the sum is binomial.
    """

    mean: float
    records: int
    high: float = 1.0
    share: bool = True


class Answers(NamedTuple):
    """What a model answers to labelled records.

    Attributes
    ----------
    labels : numpy.ndarray of int64, shape (n,)
        Codes of the true classes.
    given : numpy.ndarray of int64, shape (n,)
        Codes of the answers; -1 for none.
    classes : int
    positive : int
        Code of the positive class; -1 for none.
    costs : numpy.ndarray of float64, shape (n,), optional
        What each record's answer cost.
    most_cost : float
        The most that it can cost.
    error_costs : numpy.ndarray of float64, shape (classes,), optional
        What a wrong answer costs, by true class.
    """

    labels: IntArray
    given: IntArray
    classes: int
    positive: int = -1
    costs: FloatArray | None = None
    most_cost: float = math.inf
    error_costs: FloatArray | None = None

    @property
    def answered(self) -> BoolArray:
        """Which records get an answer."""
        return np.asarray(self.given >= 0)


def known_metrics(answers: Answers) -> tuple[str, ...]:
    """Return the metrics on which limits can be certified."""
    names = [COVERAGE, ACCURACY, "inconclusive_rate", "worst_recall"]
    if answers.positive >= 0:
        names += _OF_POSITIVE
    if answers.costs is not None and np.isfinite(answers.most_cost):
        names.append(COST)
    if answers.error_costs is not None:
        names.append(ERROR_COST)
    return tuple(names)


def samples(metric: str, answers: Answers) -> list[Sample]:
    """Return the means that a limit on a metric is about; it holds where it holds for each.

    Raises
    ------
    KeyError
        None of :func:`known_metrics`.
    """
    labels, answered = answers.labels, answers.answered
    wrong = answered & (answers.given != labels)
    positive = labels == answers.positive

    def share(of: BoolArray, among: BoolArray) -> Sample:
        count = int(among.sum())
        return Sample(int((of & among).sum()) / max(count, 1), count)

    everyone = np.ones(len(labels), dtype=bool)
    found: Mapping[str, Callable[[], list[Sample]]] = {
        COVERAGE: lambda: [share(answered, everyone)],
        "inconclusive_rate": lambda: [share(~answered, everyone)],
        ACCURACY: lambda: [share(~wrong, answered)],
        "worst_recall": lambda: [
            share(~wrong, answered & (labels == k)) for k in range(answers.classes)
        ],
        FALSE_POSITIVES: lambda: [share(answers.given == answers.positive, answered & ~positive)],
        FALSE_NEGATIVES: lambda: [share(wrong, answered & positive)],
        "recall": lambda: [share(~wrong, answered & positive)],
        COST: lambda: [_mean(answers.costs, answers.most_cost)],
        ERROR_COST: lambda: [_error_cost(answers, wrong)],
    }
    return found[metric]()


def _mean(values: FloatArray | None, high: float) -> Sample:
    assert values is not None
    return Sample(math.fsum(values) / max(len(values), 1), len(values), high, share=False)


def _error_cost(answers: Answers, wrong: BoolArray) -> Sample:
    assert answers.error_costs is not None
    paid = np.where(wrong, answers.error_costs[answers.labels], 0.0)
    return _mean(paid, float(answers.error_costs.max()))


def p_value(sample: Sample, limit: Condition) -> float:
    """Return how probable so good a sample is, at most, where the true mean breaks the limit.

    Parameters
    ----------
    sample : Sample
    limit : Condition
        With ``>=``, ``>``, ``<=`` or ``<``.

    Notes
    -----
    Of a share: ``P[Bin(records, limit) >= hits]``, the exact binomial test. Of another mean: the
    p-value of Hoeffding and Bentkus (Bates et al. 2021; Learn then Test, Section 3.1).
    """
    return math.exp(_log_p(sample, limit))


def _log_p(sample: Sample, limit: Condition) -> float:
    from scipy.stats import binom

    mean, bound = sample.mean / sample.high, limit.value / sample.high
    if limit.operator in (">", ">="):
        mean, bound = 1 - mean, 1 - bound
    if bound >= 1:  # no mean breaks it
        return -math.inf
    if bound <= 0 or sample.records == 0:
        return 0.0
    n = sample.records
    if sample.share:
        return float(binom.logcdf(round(mean * n), n, bound))
    low = min(mean, bound)
    hoeffding = -n * (
        (low * math.log(low / bound) if low > 0 else 0.0)
        + (1 - low) * math.log((1 - low) / (1 - bound))
    )
    bentkus = 1 + float(binom.logcdf(math.ceil(mean * n - 1e-9), n, bound))
    return min(hoeffding, bentkus, 0.0)


def joint_p_value(answers: Answers, limits: Sequence[Condition]) -> float:
    """Return the p-value of "some limit is broken": the greatest of the limits' p-values."""
    return max(p_value(sample, c) for c in limits for sample in samples(c.metric, answers))


def order(claims: Sequence[Sequence[tuple[Sample, Condition]]], losses: FloatArray) -> IntArray:
    """Return in which order solutions are tested: those of the chain, the surest first.

    Parameters
    ----------
    claims : sequence of sequences of (Sample, Condition)
        Of each solution, its samples on the records of the search.
    losses : numpy.ndarray, shape (n,)
        What is wanted beside the limits, to minimise.

    Returns
    -------
    numpy.ndarray of int64, shape (chain,)
        Positions. Each one is better in what is wanted, and less sure, than the one before.
    """
    sureness = np.array([max(_log_p(*claim) for claim in own) for own in claims])
    chain, least = [], math.inf
    for i in np.lexsort((losses, sureness)).tolist():
        if losses[i] < least:
            chain.append(i)
            least = float(losses[i])
    return np.array(chain, dtype=np.int64)


def passed(
    chain: Sequence[int],
    answers: Callable[[int], Answers],
    limits: Sequence[Condition],
    delta: float,
) -> list[tuple[int, Answers, float]]:
    """Return what was tested, with p-values: all but a last one above ``delta`` are certified.

    With a probability of at least ``1 - delta`` over the draw of the fresh records, no solution
    that is certified breaks a limit.
    """
    tested = []
    for i in chain:
        own = answers(i)
        p = joint_p_value(own, limits)
        tested.append((i, own, p))
        if p > delta:
            break
    return tested


def needed(found: Sequence[tuple[Sample, Condition]], records: int, delta: float) -> int | None:
    """Return about how many records would certify such samples in 80% of draws; None: no number.

    The least count at which the figures, each worse by so many standard errors as they are in 80%
    of draws at most, pass.

    Parameters
    ----------
    found : sequence of (Sample, Condition)
        On so many ``records``.
    """
    from scipy.stats import norm

    behind = float(norm.ppf(POWER ** (1 / len(found))))
    return _least(found, records, delta, behind)


def least_records(limits: Sequence[Condition], delta: float) -> int | None:
    """Return how many records it takes where none of them speaks against the limits."""
    best = [
        (Sample(1.0 if c.operator in (">", ">=") else 0.0, 1), c)
        for c in limits
        if c.metric not in (COST, ERROR_COST)  # whose highest values are not known here
    ]
    return _least(best, 1, delta, 0.0)


def _least(
    found: Sequence[tuple[Sample, Condition]], records: int, delta: float, behind: float
) -> int | None:
    """Return the least number of records at which samples pass, each behind by standard errors."""

    def passes(n: int) -> bool:
        for sample, limit in found:
            count = int(n * sample.records / max(records, 1))
            mean = sample.mean / sample.high
            error = behind * math.sqrt(mean * (1 - mean) / max(count, 1))
            worse = mean - error if limit.operator in (">", ">=") else mean + error
            worse = sample.high * min(max(worse, 0.0), 1.0)
            if p_value(sample._replace(mean=worse, records=count), limit) > delta:
                return False
        return True

    high = 1
    while not passes(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
