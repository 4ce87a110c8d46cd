"""Certificates on fresh records: which solutions meet limits, with a finite-sample guarantee.

Solutions are tested in an order that was fixed beforehand, on the records of the search, until one
fails (fixed-sequence testing; Learn then Test, arXiv 2110.01052, Section 3). The order is that of
Pareto Testing (arXiv 2210.07913): of the solutions that no other one beats both in how surely it
meets the limits and in what is wanted beside them, the surest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from framework.analysis.choose import Condition
from framework.arrays import FloatArray, IntArray
from framework.outcomes import Sample

POWER = 0.8  # of what is said to be needed
_MOST = 10**9  # records

Samples = Mapping[str, Sequence[Sample]]


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

    mean, bound = min(max(sample.mean / sample.high, 0.0), 1.0), limit.value / sample.high
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


def joint_p_value(samples: Samples, limits: Sequence[Condition]) -> float:
    """Return the p-value of "some limit is broken": the greatest of the limits' p-values."""
    return max(p_value(sample, c) for c in limits for sample in samples[c.metric])


def order(claims: Sequence[Samples], limits: Sequence[Condition], losses: FloatArray) -> IntArray:
    """Return in which order solutions are tested: those of the chain, the surest first.

    Parameters
    ----------
    claims : sequence of mappings of str to sequences of Sample
        Of each solution, what it did on the records of the search.
    limits : sequence of Condition
    losses : numpy.ndarray, shape (n,)
        What is wanted beside the limits, to minimise.

    Returns
    -------
    numpy.ndarray of int64, shape (chain,)
        Positions. Each one is better in what is wanted, and less sure, than the one before.
    """
    sureness = np.array(
        [max(_log_p(sample, c) for c in limits for sample in drawn[c.metric]) for drawn in claims]
    )
    chain, least = [], math.inf
    for i in np.lexsort((losses, sureness)).tolist():
        if losses[i] < least:
            chain.append(i)
            least = float(losses[i])
    return np.array(chain, dtype=np.int64)


def passed(
    chain: Sequence[int],
    samples: Callable[[int], Samples],
    limits: Sequence[Condition],
    delta: float,
) -> list[tuple[int, Samples, float]]:
    """Return what was tested, with p-values: all but a last one above ``delta`` are certified.

    With a probability of at least ``1 - delta`` over the draw of the fresh records, no solution
    that is certified breaks a limit. ``samples`` returns what a solution did on them.
    """
    tested = []
    for i in chain:
        measured = samples(i)
        p = joint_p_value(measured, limits)
        tested.append((i, measured, p))
        if p > delta:
            break
    return tested


def needed(samples: Samples, limits: Sequence[Condition], records: int, delta: float) -> int | None:
    """Return about how many records would certify such samples in 80% of draws; None: no number.

    The least count at which the figures, each worse by so many standard errors as they are in 80%
    of draws at most, pass. The samples are of so many ``records``.
    """
    from scipy.stats import norm

    tests = [(sample, c) for c in limits for sample in samples[c.metric]]
    behind = float(norm.ppf(POWER ** (1 / len(tests))))
    return _least(tests, records, delta, behind)


def least_records(samples: Samples, limits: Sequence[Condition], delta: float) -> int | None:
    """Return how many records it takes where none of them speaks against the limits."""
    best = [
        (sample._replace(mean=sample.high if c.operator in (">", ">=") else 0.0, records=1), c)
        for c in limits
        for sample in samples[c.metric][:1]
    ]
    return _least(best, 1, delta, 0.0)


def _least(
    tests: Sequence[tuple[Sample, Condition]], records: int, delta: float, behind: float
) -> int | None:
    """Return the least number of records at which samples pass, each behind by standard errors."""

    def passes(n: int) -> bool:
        for sample, limit in tests:
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
