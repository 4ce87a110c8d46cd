"""Iterated local search: the first incumbent, and better ones from fractional solutions."""

from __future__ import annotations

import numpy as np

from algorithms.pruning.diversity import TOLERANCE
from algorithms.pruning.strong import search_kernels as kernels
from algorithms.pruning.strong.instance import Instance, Pruned
from framework.arrays import Array

_FLIPS = 6  # members that a perturbation flips, at most


def improve(instance: Instance, x: Array, looks: int, rng: np.random.Generator) -> Pruned | None:
    """Climb from members ``x``, shape (K,), then from perturbed optima, looking so often.

    Parameters
    ----------
    looks : int
        Ensembles whose value is computed, at most; O(P) each.

    Returns
    -------
    Pruned or None
        The best that was found; None where ``x`` is not admitted.
    """
    if not instance.admits(x):
        return None
    best = instance.best_threshold(x)
    if not np.isfinite(best.value):
        return None
    current, rules = best.x.copy(), _rules(instance)
    while True:
        votes = current.astype(np.int64) @ instance.columns
        start, _ = kernels.best_threshold(
            votes,
            instance.gains,
            instance.takes,
            instance.cap,
            int(current.sum()),
            instance.majority,
        )
        _, looks = kernels.climb(current, votes, rules, float(start), looks, rng)
        found = instance.best_threshold(current)
        if found.value > best.value:
            best = found
        if looks <= 0:
            return best
        current = best.x.copy()
        kernels.perturb(current, 2 + int(rng.integers(_FLIPS - 1)), rng)
        looks -= 1
        if not instance.admits(current):
            current = best.x.copy()


def first_members(instance: Instance) -> Array | None:
    """Return members that are admitted, if some are easily found; shape (K,).

    The best of: each classifier alone, all of them, each pair where diversity is asked for. If an
    ensemble meets a demand of diversity then some pair does, since tau <= gamma and a mean over
    pairs is at most the greatest of them.
    """
    k = instance.k
    tries = [np.ones(k, dtype=np.int8)]
    if instance.demand is None:
        tries += list(np.eye(k, dtype=np.int8))
    elif instance.credit is not None:
        order = np.argsort(-instance.credit, axis=None, kind="stable")
        for flat in order.tolist():
            i, j = divmod(flat, k)
            if i == j or instance.credit[i, j] < instance.demand.gamma - TOLERANCE:
                continue
            x = np.zeros(k, dtype=np.int8)
            x[[i, j]] = 1
            tries.append(x)
            if len(tries) > 2 * k:
                break
    found = [instance.best_threshold(x) for x in tries if instance.admits(x)]
    best = max(found, key=lambda p: p.value, default=None)
    return None if best is None or not np.isfinite(best.value) else best.x


def _rules(instance: Instance) -> kernels.Rules:
    k, demand = instance.k, instance.demand
    return kernels.Rules(
        instance.columns,
        instance.gains,
        instance.takes,
        float(instance.cap),
        instance.majority,
        np.array([budget.costs for budget in instance.budgets], dtype=np.float64).reshape(-1, k),
        np.array([budget.limit for budget in instance.budgets], dtype=np.float64),
        np.zeros((1, 1)) if instance.credit is None else instance.credit,
        -1.0 if demand is None else demand.tau,
        0.0 if demand is None else demand.gamma,
        instance.min_members,
        instance.max_members,
    )
