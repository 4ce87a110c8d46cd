"""Iterated local search over members, each with its best threshold: loops over patterns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit


class Rules(NamedTuple):
    """What a climb goes by.

    Attributes
    ----------
    columns : numpy.ndarray of uint8, shape (K, P)
        Positive votes of each classifier.
    gains, takes, cap :
        As for :func:`best_threshold`.
    majority : bool
    costs, limits : numpy.ndarray, shapes (C, K), (C,)
        What members may add up to.
    credit : numpy.ndarray, shape (K, K)
        Of pairs, zeros on the diagonal.
    tau, gamma : float
        Least mean credit of each member and of all; a negative tau asks for none.
    fewest, most : int
        Numbers of members.
    """

    columns: Array
    gains: FloatArray
    takes: FloatArray
    cap: float
    majority: bool
    costs: FloatArray
    limits: FloatArray
    credit: FloatArray
    tau: float
    gamma: float
    fewest: int
    most: int


@njit
def best_threshold(
    votes: IntArray, gains: FloatArray, takes: FloatArray, cap: float, members: int, majority: bool
) -> tuple[float, int]:
    """Return the best sum of gains of the patterns above a threshold, and that threshold.

    Of equally good thresholds the highest; minus infinity where none keeps to the cap.

    Parameters
    ----------
    votes : numpy.ndarray of int64, shape (P,)
    gains, takes : numpy.ndarray of float64, shape (P,)
    cap : float
        Bound of the sum of ``takes`` over the patterns above the threshold.
    members : int
        Thresholds go from 0 to this.
    majority : bool
        Whether ``members // 2`` is the only threshold.
    """
    gain, take = np.zeros(members + 1), np.zeros(members + 1)
    for p in range(len(votes)):
        gain[votes[p]] += gains[p]
        take[votes[p]] += takes[p]
    best, at, value, taken = -np.inf, members, 0.0, 0.0
    for threshold in range(members, -1, -1):
        if threshold < members:
            value += gain[threshold + 1]
            taken += take[threshold + 1]
        if taken > cap:
            break
        if value > best and (not majority or threshold == members // 2):
            best, at = value, threshold
    return best, at


@njit
def admitted(x: Array, rules: Rules) -> bool:
    """Tell whether members keep to sizes, costs and diversity."""
    size = int((x > 0).sum())
    if size < rules.fewest or size > rules.most:
        return False
    for c in range(len(rules.limits)):
        total = 0.0
        for k in range(len(x)):
            if x[k]:
                total += rules.costs[c, k]
        if total > rules.limits[c]:
            return False
    if rules.tau < 0:
        return True
    every = 0.0
    for k in range(len(x)):
        if x[k]:
            own = 0.0
            for other in range(len(x)):
                if x[other]:
                    own += rules.credit[k, other]
            if own / (size - 1) < rules.tau:  # as it is reported, to the last bit
                return False
            every += own
    return every / (size * (size - 1)) >= rules.gamma


@njit
def climb(
    x: Array, votes: IntArray, rules: Rules, value: float, looks: int, rng: np.random.Generator
) -> tuple[float, int]:
    """Add, drop and swap members, the first improvement at a time, until none is left.

    ``x``, shape (K,), and ``votes``, shape (P,), are changed in place. Returns the value reached
    and the looks left of ``looks`` (candidates whose value is computed).
    """
    k = len(x)
    size = int((x > 0).sum())
    better = True
    while better and looks > 0:
        better = False
        order = rng.permutation(k * (k + 1))
        # single moves first: they are few, and cheap to try anew after each step
        for phase in range(2):
            if better:
                break
            for code in order:
                i, j = code // (k + 1), code % (k + 1) - 1
                if (j < 0) != (phase == 0):
                    continue
                if j >= 0 and (x[i] == 0 or x[j] == 1):
                    continue
                if looks <= 0:
                    break
                if j < 0:
                    x[i] = 1 - x[i]
                else:
                    x[i], x[j] = 0, 1
                if admitted(x, rules):
                    sign = 1 if x[i] else -1
                    for p in range(len(votes)):
                        votes[p] += sign * rules.columns[i, p]
                    if j >= 0:
                        for p in range(len(votes)):
                            votes[p] += rules.columns[j, p]
                    new_size = size + (sign if j < 0 else 0)
                    looks -= 1
                    found, _ = best_threshold(
                        votes, rules.gains, rules.takes, rules.cap, new_size, rules.majority
                    )
                    if found > value:
                        value, size, better = found, new_size, True
                        if phase == 1:
                            break
                        continue
                    for p in range(len(votes)):
                        votes[p] -= sign * rules.columns[i, p]
                    if j >= 0:
                        for p in range(len(votes)):
                            votes[p] -= rules.columns[j, p]
                if j < 0:
                    x[i] = 1 - x[i]
                else:
                    x[i], x[j] = 1, 0
    return value, looks


@njit
def perturb(x: Array, swaps: int, rng: np.random.Generator) -> None:
    """Flip so many random members, in place; never to nothing."""
    for _ in range(swaps):
        i = int(rng.random() * len(x))
        if x[i] and int((x > 0).sum()) == 1:
            continue
        x[i] = 1 - x[i]
