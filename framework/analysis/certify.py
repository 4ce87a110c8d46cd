"""Certificates on fresh records: which solutions meet limits, with a finite-sample guarantee.

The order of the tests is fixed beforehand, on the records of the search; solutions are then tested
on the fresh records until one fails (fixed-sequence testing; Learn then Test, arXiv 2110.01052,
Section 3). The order is that of Pareto Testing (arXiv 2210.07913): a *chain* of the solutions that
no other one beats both in how surely it meets the limits and in the objective wanted beside them,
the surest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from framework.analysis.choose import Condition
from framework.arrays import FloatArray, IntArray
from framework.outcomes import Sample

POWER = 0.8  # probability that the number of records said to be needed is enough
_MOST = 10**9  # records, beyond which no number is given

Samples = Mapping[str, Sequence[Sample]]


def p_value(sample: Sample, limit: Condition) -> float:
    """Return the p-value of "the true mean breaks the limit", given this sample.

    Parameters
    ----------
    sample : Sample
    limit : Condition
        With ``>=``, ``>``, ``<=`` or ``<``.

    Notes
    -----
    For a share it is ``P[Bin(records, limit) >= hits]``, the exact binomial test; for another mean
    the p-value of Hoeffding and Bentkus (Bates et al. 2021; Learn then Test, Section 3.1).
    """
    return math.exp(_log_p(sample, limit))


def _log_p(sample: Sample, limit: Condition) -> float:
    from scipy.stats import binom

    mean, bound = min(max(sample.mean / sample.high, 0.0), 1.0), limit.value / sample.high
    if limit.operator in (">", ">="):
        mean, bound = 1 - mean, 1 - bound
    if bound >= 1:  # no mean can break this limit
        return -math.inf
    if bound <= 0 or sample.records == 0:
        return 0.0
    n = sample.records
    if sample.share:
        return float(binom.logcdf(round(mean * n), n, bound))
    # min(exp(-n h1(min(mean, bound), bound)), e P[Bin(n, bound) <= ceil(n mean)]), where
    # h1(a, b) = a log(a / b) + (1 - a) log((1 - a) / (1 - b))
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
    """Return the chain of solutions to test, in order: the surest one first.

    Parameters
    ----------
    claims : sequence of mappings of str to sequences of Sample
        The samples of each solution on the records of the search, by metric.
    limits : sequence of Condition
    losses : numpy.ndarray, shape (n,)
        The objective that is wanted beside the limits, to minimise.

    Returns
    -------
    numpy.ndarray of int64, shape (chain,)
        Positions. Each solution has a lower loss, and is less sure, than the one before it.
    """
    sureness = np.array(
        [max(_log_p(sample, c) for c in limits for sample in claim[c.metric]) for claim in claims]
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
    """Return the solutions that were tested, each with its samples and p-value.

    All are certified but the last one if its p-value is above ``delta``. With a probability of at
    least ``1 - delta`` over the draw of the fresh records, no certified solution breaks a limit.
    ``samples`` takes a position and returns the samples of that solution on the fresh records.
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
    """Return about how many fresh records would certify a solution in 80% of draws.

    That is the least number at which its figures still pass when each is worse by as many standard
    errors as all of them stay within in 80% of draws. None if no number below 10^9 is enough.
    ``records`` is the number of records that the samples come from.
    """
    from scipy.stats import norm

    tests = [(sample, c) for c in limits for sample in samples[c.metric]]
    return _least(tests, records, delta, float(norm.ppf(POWER ** (1 / len(tests)))))


def least_records(samples: Samples, limits: Sequence[Condition], delta: float) -> int | None:
    """Return how many records would be needed if every one of them spoke for the limits."""
    best = [
        (sample._replace(mean=sample.high if c.operator in (">", ">=") else 0.0, records=1), c)
        for c in limits
        for sample in samples[c.metric][:1]
    ]
    return _least(best, 1, delta, 0.0)


def _least(
    tests: Sequence[tuple[Sample, Condition]], records: int, delta: float, behind: float
) -> int | None:
    """Return the least number of records at which the samples pass all tests.

    Each mean is taken worse by ``behind`` standard errors.
    """

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
