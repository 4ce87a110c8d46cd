"""Weighted means of predictions; costs of ensembles, and the similarity of their members.

How alike the models of a library are: by their losses, and by their configurations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.ensembling.kernels.multiplicities import Multiplicities, shared
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

_ONE = 2.0**31  # similarities in fixed point


def combine(P: Array, multiplicities: Multiplicities, out: FloatArray) -> None:
    """Set each row of ``out`` to the mean prediction of its members, weighted by the counts.

    Parameters
    ----------
    P : float (K, W)
        Predictions, record by record (and class by class).
    multiplicities : Multiplicities
        Not empty in a row.
    out : float64 (n, W)

    Notes
    -----
    Members are added in ascending order, so a row does not depend on the batch.
    """
    _combine(P, *multiplicities, out)


@njit
def _combine(
    P: Array, models: IntArray, counts: IntArray, starts: IntArray, out: FloatArray
) -> None:
    for r in range(len(out)):
        row = out[r]
        row[:] = 0.0
        total = 0
        for at in range(starts[r], starts[r + 1]):
            total += counts[at]
            one = P[models[at]]
            for i in range(len(row)):
                row[i] += counts[at] * np.float64(one[i])
        for i in range(len(row)):
            row[i] /= total


def fixed_similarities(alike: Array) -> Array:
    """Return similarities from 0 to 1 as fixed-point uint32, whose sums are exact in any order."""
    return np.rint(np.asarray(alike, dtype=np.float64) * _ONE).astype(np.uint32)


def traits(
    multiplicities: Multiplicities, costs: FloatArray, alike: Array
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Measure the ensembles of a batch by their members: the models with a count above 0.

    Parameters
    ----------
    multiplicities : Multiplicities
        n rows.
    costs : float64 (K, m)
    alike : uint32 (s, K, K)
        :func:`fixed_similarities` of pairs of models, symmetric.

    Returns
    -------
    sizes : float64 (n, 2)
        Number of members, and of multiplicities.
    sums : float64 (n, m)
        Costs, each member's once: the paper's b2 (HAPEns, Section 3).
    means : float64 (n, s)
        Mean similarity over unordered pairs of members, 1 where there is but one member: with
        loss correlations the paper's b1.

    Notes
    -----
    O(members) per row for what it adds to the members that all rows share, and O(K members) for
    those, once a batch.
    """
    common = np.flatnonzero(shared(*multiplicities, len(costs)))
    return _traits(*multiplicities, costs, alike, common)


@njit
def _traits(
    models: IntArray,
    counts: IntArray,
    starts: IntArray,
    costs: FloatArray,
    alike: Array,
    common: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, k, kinds = len(starts) - 1, len(costs), len(alike)
    sizes = np.zeros((n, 2))
    sums = np.zeros((n, costs.shape[1]))
    means = np.ones((n, kinds))
    within = np.zeros((kinds, k), dtype=np.int64)  # of each model to the common ones
    base = np.zeros(kinds, dtype=np.int64)
    for s in range(kinds):
        for j in common:
            base[s] += within[s, j]
            for other in range(k):
                within[s, other] += alike[s, j, other]
    taken = np.zeros(k, dtype=np.bool_)
    taken[common] = True
    added = np.empty(k, dtype=np.int64)
    for r in range(n):
        m = 0
        for at in range(starts[r], starts[r + 1]):
            j = models[at]
            sizes[r, 1] += counts[at]
            for c in range(costs.shape[1]):
                sums[r, c] += costs[j, c]
            if not taken[j]:
                added[m] = j
                m += 1
        members = starts[r + 1] - starts[r]
        sizes[r, 0] = members
        if members < 2:
            continue
        for s in range(kinds):
            total = base[s]
            for a in range(m):
                row = alike[s, added[a]]
                total += within[s, added[a]]
                for b in range(a):
                    total += row[added[b]]
            means[r, s] = total / (_ONE * (members * (members - 1) // 2))
    return sizes, sums, means


def loss_vectors(P: Array, y: Array, classification: bool) -> FloatArray:
    """Return the loss of each model on each record, shape (K, N).

    One minus the probability of the true class (QDO-ES, and so HAPEns); the squared error where
    predictions are numbers.
    """
    if not classification:
        return np.asarray((P.astype(np.float64) - y) ** 2)
    if P.ndim == 2:
        return np.asarray(np.where(y == 1, 1.0 - P.astype(np.float64), P))
    return np.asarray(1.0 - P[:, np.arange(len(y)), y].astype(np.float64))


def loss_correlation(losses: FloatArray) -> Array:
    """Return |Pearson correlation| of each pair of loss vectors, float32 (K, K).

    0 where one of the two is constant; 1 on the diagonal.
    """
    centred = losses - losses.mean(axis=1, keepdims=True)
    length = np.sqrt((centred * centred).sum(axis=1))
    constant = length <= 1e-12 * np.abs(losses).max(axis=1) * np.sqrt(losses.shape[1])
    centred /= np.where(constant, 1.0, length)[:, None]
    centred[constant] = 0.0
    found = np.asarray(np.minimum(np.abs(centred @ centred.T), 1.0), dtype=np.float32)
    np.fill_diagonal(found, 1.0)
    return found


def config_similarity(configs: Sequence[Mapping[str, Any]]) -> Array:
    """Return the Gower similarity of each pair of configurations, float32 (K, K).

    Over the keys that both have: numbers differ by their distance over the range of the key in
    all configurations, anything else by 0 or 1 (Gower 1971; as in QDO-ES). 0 without a common key.
    """
    flat = [_flat(config) for config in configs]
    total, shared = np.zeros((2, len(flat), len(flat)))
    for key in dict.fromkeys(key for config in flat for key in config):
        has = np.array([key in config for config in flat])
        values: list[Any] = [config.get(key) for config in flat]
        numeric = np.array([_is_number(value) for value in values])
        numbers = np.array([float(value) if _is_number(value) else 0.0 for value in values])
        names = {name: code for code, name in enumerate(dict.fromkeys(map(repr, values)))}
        codes = np.array([names[repr(value)] for value in values])
        both = has[:, None] & has[None, :]
        span = float(np.ptp(numbers[numeric])) if numeric.any() else 0.0
        apart = np.abs(numbers[:, None] - numbers[None, :]) / (span or 1.0)
        close = np.where(
            numeric[:, None] & numeric[None, :], 1.0 - apart, codes[:, None] == codes[None, :]
        )
        total += np.where(both, close, 0.0)
        shared += both
    found = (total / np.maximum(shared, 1.0)).astype(np.float32)
    np.fill_diagonal(found, 1.0)
    return found


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return bool(number and math.isfinite(value))


def _flat(config: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return a configuration with the keys of mappings inside joined by dots."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{place}{key}.")
        else:
            found[f"{place}{key}"] = value
    return found
