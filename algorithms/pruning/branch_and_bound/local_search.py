"""Iterated local search over sets of members, each valued with its best threshold.

It gives branch and bound its first incumbent, and better ones from fractional solutions. A climb
adds, drops and swaps members as long as that helps; then a few random members are flipped, and the
next climb starts from there (iterated local search: Lourenço, Martin and Stützle 2003).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Instance, Pruned, best_threshold
from algorithms.pruning.diversity import TOLERANCE
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit, permutation

_FLIPS = 6  # greatest number of members that a perturbation flips


class Rules(NamedTuple):
    """Objective and requirements of an instance as arrays for compiled code.

    Attributes
    ----------
    columns : numpy.ndarray of uint8, shape (K, P)
        1 for each pattern that a classifier votes positive.
    gains, takes, caps, majority
        See :func:`~algorithms.pruning.branch_and_bound.instance.best_threshold`.
    costs, limits : numpy.ndarray, shapes (C, K), (C,)
        Costs of each classifier, and the limits of their sums over the members.
    credit : numpy.ndarray, shape (K, K)
        Diversity of each pair, zeros on the diagonal.
    tau, gamma : float
        Least mean credit of each member, and of all; a negative tau requires neither.
    fewest, most : int
        Least and greatest number of members.
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
    """Return whether members keep the limits of their number, costs and diversity."""
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
            if credit / (size - 1) < rules.tau:  # rounded as in reports, to the last bit
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
    """Add, drop and swap members, taking each improvement at once, until there is none.

    An improvement breaks the caps by less than ``short``, or by as much and is worth more than
    ``value``. ``x``, shape (K,), and ``votes``, shape (P,), are changed in place. At most ``looks``
    ensembles are valued; returns how many of these are left.
    """
    k = len(x)
    size = int((x > 0).sum())
    better = True
    while better and looks > 0:
        better = False
        order = permutation(k * (k + 1), rng)
        # code i (k + 1) flips member i (phase 0), code i (k + 1) + j + 1 swaps i for j (phase 1);
        # single flips come first: they are few, and cheap to try again after each step
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
def perturb(x: Array, flips: int, rng: np.random.Generator) -> None:
    """Flip some random members in place, but never the last one."""
    for _ in range(flips):
        i = int(rng.random() * len(x))
        if x[i] and int((x > 0).sum()) == 1:
            continue
        x[i] = 1 - x[i]


def improve(instance: Instance, x: Array, looks: int, rng: np.random.Generator) -> Pruned | None:
    """Climb from members ``x``, shape (K,), and then again and again from perturbed optima.

    Parameters
    ----------
    looks : int
        Greatest number of ensembles whose value is computed, in O(P) each.

    Returns
    -------
    Pruned or None
        The best ensemble met; None if ``x`` is not admitted, or if no ensemble met keeps the caps.
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
    """Return a key to compare members by: the least violation of the caps, and minus the worth."""
    votes = np.asarray(x, dtype=np.int64) @ instance.columns
    value, _, short = instance.best_sum(votes, int(np.sum(x)))
    return float(short), -float(value)


def first_members(instance: Instance) -> Array | None:
    """Return admitted members, shape (K,), if some are easily found; they may break the caps.

    They are the best of: all classifiers; each alone or, with a demand of diversity, each pair; and
    the best and the cheapest if several are required. If any ensemble meets the demand, then some
    pair does, since tau <= gamma and a mean over pairs is at most the greatest of them.
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
