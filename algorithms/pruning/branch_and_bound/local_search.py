"""Iterated local search over members, each tried with its best threshold.

It gives branch and bound its first incumbent, and better ones from fractional solutions. A climb
adds, drops and swaps members while that helps; then a few random members are flipped, and the next
climb starts from there (iterated local search: Lourenço, Martin and Stützle 2003).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Instance, Pruned, best_threshold
from algorithms.pruning.diversity import TOLERANCE
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

_FLIPS = 6  # members that a perturbation flips, at most


class Rules(NamedTuple):
    """What a climb goes by.

    Attributes
    ----------
    columns : numpy.ndarray of uint8, shape (K, P)
        Positive votes of each classifier.
    gains, takes, caps :
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
    caps: FloatArray
    majority: bool
    costs: FloatArray
    limits: FloatArray
    credit: FloatArray
    tau: float
    gamma: float
    fewest: int
    most: int


@njit
def admitted(x: Array, rules: Rules) -> bool:
    """Return whether members keep to sizes, costs and diversity."""
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
            credit = 0.0
            for other in range(len(x)):
                if x[other]:
                    credit += rules.credit[k, other]
            if credit / (size - 1) < rules.tau:  # as it is reported, to the last bit
                return False
            every += credit
    return every / (size * (size - 1)) >= rules.gamma


@njit
def climb(
    x: Array,
    votes: IntArray,
    rules: Rules,
    value: float,
    short: float,
    looks: int,
    rng: np.random.Generator,
) -> int:
    """Add, drop and swap members, the first improvement at a time, until none is left.

    Better is what breaks the caps less than ``short``, then what is worth more than ``value``.
    ``x``, shape (K,), and ``votes``, shape (P,), are changed in place. Returns the looks left of
    ``looks`` (candidates whose value is computed).
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
                    reached, _, less = best_threshold(
                        votes, rules.gains, rules.takes, rules.caps, new_size, rules.majority
                    )
                    if less < short or (less == short and reached > value):
                        value, short, size, better = reached, less, new_size, True
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
    return looks


@njit
def perturb(x: Array, swaps: int, rng: np.random.Generator) -> None:
    """Flip so many random members, in place; never to nothing."""
    for _ in range(swaps):
        i = int(rng.random() * len(x))
        if x[i] and int((x > 0).sum()) == 1:
            continue
        x[i] = 1 - x[i]


def improve(instance: Instance, x: Array, looks: int, rng: np.random.Generator) -> Pruned | None:
    """Climb from members ``x``, shape (K,), then from perturbed optima, looking so often.

    Parameters
    ----------
    looks : int
        Ensembles whose value is computed, at most; O(P) each.

    Returns
    -------
    Pruned or None
        The best that was found; None where ``x`` is not admitted, or none keeps to the caps.
    """
    if not instance.requirements.admits(x):
        return None
    best = np.asarray(x, dtype=np.int8)
    standing = _standing(instance, best)
    current, rules = best.copy(), _rules(instance)
    while True:
        votes = current.astype(np.int64) @ instance.columns
        short, worth = _standing(instance, current)
        looks = climb(current, votes, rules, -worth, short, looks, rng)
        reached = _standing(instance, current)
        if reached < standing:
            best, standing = current.copy(), reached
        if looks <= 0:
            return instance.best_threshold(best) if standing[0] == 0 else None
        current = best.copy()
        perturb(current, 2 + int(rng.integers(_FLIPS - 1)), rng)
        looks -= 1
        if not instance.requirements.admits(current):
            current = best.copy()


def _standing(instance: Instance, x: Array) -> tuple[float, float]:
    """Return by how much members break the caps at best, and less what they are then worth."""
    votes = np.asarray(x, dtype=np.int64) @ instance.columns
    value, _, short = instance.best_sum(votes, int(np.sum(x)))
    return float(short), -float(value)


def first_members(instance: Instance) -> Array | None:
    """Return members that are admitted, if some are easily found; shape (K,).

    The best of: each classifier alone, all of them, each pair where diversity is asked for, the
    best and the cheapest where several are. If an ensemble meets a demand of diversity then some
    pair does, since tau <= gamma and a mean over pairs is at most the greatest of them. They may
    break the caps.
    """
    k, requirements = instance.k, instance.requirements
    credit, demand = requirements.credit, requirements.demand
    tries = [np.ones(k, dtype=np.int8)]
    if demand is None:
        tries += list(np.eye(k, dtype=np.int8))
    elif credit is not None:
        for flat in np.argsort(-credit, axis=None, kind="stable").tolist():
            i, j = divmod(flat, k)
            if i == j or credit[i, j] < demand.gamma - TOLERANCE:
                continue
            x = np.zeros(k, dtype=np.int8)
            x[[i, j]] = 1
            tries.append(x)
            if len(tries) > 2 * k:
                break
    fewest = requirements.min_members
    if requirements.fewest > 1:
        alone = [_standing(instance, x) for x in np.eye(k, dtype=np.int8)]
        orders = [np.array(sorted(range(k), key=alone.__getitem__))]
        orders += [np.argsort(budget.costs, kind="stable") for budget in requirements.budgets]
        for order in orders:
            x = np.zeros(k, dtype=np.int8)
            x[order[:fewest]] = 1
            tries.append(x)
    admitted_members = [x for x in tries if requirements.admits(x)]
    return min(admitted_members, key=lambda x: _standing(instance, x), default=None)


def _rules(instance: Instance) -> Rules:
    requirements, k = instance.requirements, instance.k
    demand, credit, budgets = requirements.demand, requirements.credit, requirements.budgets
    return Rules(
        instance.columns,
        instance.gains,
        instance.takes,
        instance.caps,
        requirements.majority,
        np.array([budget.costs for budget in budgets], dtype=np.float64).reshape(-1, k),
        np.array([budget.limit for budget in budgets], dtype=np.float64),
        np.zeros((1, 1)) if credit is None else credit,
        -1.0 if demand is None else demand.tau,
        0.0 if demand is None else demand.gamma,
        requirements.min_members,
        instance.max_members,
    )
