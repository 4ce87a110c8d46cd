"""Costs and sizes of ensembles, and similarity of their members by losses and configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.ensembling.means import add_members, sums_in_order
from framework.arrays import Array, BoolArray, FloatArray, IntArray

_ONE = 2.0**31  # a similarity of 1 in fixed point: sums of whole numbers are exact in any order
_PAIRS = 512  # pairs of models whose products of losses are in memory at a time
_CONSTANT = 1e-6  # standard deviation of a loss, relative to its size, that is only rounding


def fixed_similarities(alike: Array) -> IntArray:
    """Return similarities (K, K) from 0 to 1 in fixed point, with 0 on the diagonal."""
    fixed = np.rint(np.asarray(alike, dtype=np.float64) * _ONE).astype(np.int64)
    np.fill_diagonal(fixed, 0)
    return fixed


def traits(
    X: Array, costs: FloatArray, alike: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sizes, costs and similarities of ensembles.

    Parameters
    ----------
    X : numpy.ndarray, shape (n, K)
        Counts; the members of an ensemble are the models with a count above 0.
    costs : numpy.ndarray of float64, shape (K, m)
    alike : numpy.ndarray of int64, shape (s, K, K)
        :func:`fixed_similarities` of pairs of models, symmetric.

    Returns
    -------
    sizes : numpy.ndarray of float64, shape (n, 2)
        Numbers of members and of picks.
    sums : numpy.ndarray of float64, shape (n, m)
        Costs, each member counted once: the paper's b2 (HAPEns, Section 3).
    means : numpy.ndarray of float64, shape (n, s)
        Mean similarity over unordered pairs of members, 1 for a single member. For loss
        correlations it is the paper's b1.

    Notes
    -----
    O(members K) per row.
    """
    members = X > 0
    sizes = np.stack([members.sum(axis=1), X.sum(axis=1)], axis=1).astype(np.float64)
    pairs = members.sum(axis=1) * (members.sum(axis=1) - 1) // 2
    means = np.ones((len(X), len(alike)))
    for s, table in enumerate(alike):
        twice = np.where(members, add_members(members, table, np.int64), 0).sum(axis=1)
        np.divide(twice // 2, _ONE * pairs, out=means[:, s], where=pairs > 0)
    return sizes, add_members(members, costs, np.float64), means


def loss_vectors(P: Array, y: Array, classification: bool) -> FloatArray:
    """Return the loss of each model on each record, shape (K, N).

    The loss is one minus the probability of the true class (as in QDO-ES, and so in HAPEns), or the
    squared error for regression.
    """
    if not classification:
        return np.asarray((P.astype(np.float64) - y) ** 2)
    if P.ndim == 2:
        return np.asarray(np.where(y == 1, 1.0 - P.astype(np.float64), P))
    return np.asarray(1.0 - P[:, np.arange(len(y)), y].astype(np.float64))


def loss_correlation(losses: FloatArray) -> Array:
    """Return |Pearson correlation| of each pair of loss vectors, float32 (K, K).

    It is 0 if one of the two is constant, and 1 on the diagonal.
    """
    centred = losses - losses.mean(axis=1, keepdims=True)
    length = np.sqrt((centred * centred).sum(axis=1))
    constant = length <= 1e-12 * np.abs(losses).max(axis=1) * np.sqrt(losses.shape[1])
    centred /= np.where(constant, 1.0, length)[:, None]
    centred[constant] = 0.0
    correlation = np.asarray(np.minimum(np.abs(centred @ centred.T), 1.0), dtype=np.float32)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def mean_correlations(losses: FloatArray, members: BoolArray, weights: Array) -> FloatArray:
    """Return the mean |Pearson correlation| of members' losses under weights, shape (n, b).

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (K, N)
    members : numpy.ndarray of bool, shape (n, K)
    weights : numpy.ndarray, shape (N, b)

    Returns
    -------
    numpy.ndarray of float64, shape (n, b)
        The mean over unordered pairs, as in :func:`traits`: a pair with a constant loss counts 0,
        and a single member has 1.

    Notes
    -----
    O(pairs (N + n) b), with pairs among the models that are members of any row.
    """
    used = np.flatnonzero(members.any(axis=0))
    members, losses = members[:, used], losses[used]
    # centred first, as a great mean would hide the variance
    centred = losses - losses.mean(axis=1, keepdims=True)
    total = weights.sum(axis=0, dtype=np.float64)
    means = sums_in_order(centred, weights) / total
    spread = sums_in_order(centred * centred, weights) / total - means * means
    size = np.abs(centred).max(axis=1, keepdims=True)
    constant = spread <= (_CONSTANT * size) ** 2
    length = np.sqrt(np.where(constant, 1.0, spread))
    first, second = np.triu_indices(len(used), 1)
    sums = np.zeros((len(members), weights.shape[1]))
    for start in range(0, len(first), _PAIRS):
        i, j = first[start : start + _PAIRS], second[start : start + _PAIRS]
        both = members[:, i] & members[:, j]
        some = np.flatnonzero(both.any(axis=0))
        i, j = i[some], j[some]
        correlation = sums_in_order(centred[i] * centred[j], weights) / total - means[i] * means[j]
        correlation = np.minimum(np.abs(correlation / (length[i] * length[j])), 1.0)
        correlation[constant[i] | constant[j]] = 0.0
        # whole numbers: their sums are exact in any order
        sums += both[:, some].astype(np.float64) @ np.rint(correlation * _ONE)
    sizes = members.sum(axis=1)
    pairs = (sizes * (sizes - 1) // 2)[:, None]
    return np.where(pairs > 0, sums / (_ONE * np.maximum(pairs, 1)), 1.0)


def config_similarity(configs: Sequence[Mapping[str, Any]]) -> Array:
    """Return the Gower similarity of each pair of configurations, float32 (K, K).

    It is the mean over the keys that both have of one minus their difference: for numbers, the
    distance divided by the range of the key in all configurations; for anything else, 0 or 1 (Gower
    1971; as in QDO-ES). Without a common key it is 0.
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
    similarity = (total / np.maximum(shared, 1.0)).astype(np.float32)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return bool(number and math.isfinite(value))


def _flat(config: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return a configuration without nested mappings, whose keys are joined by dots."""
    by_key: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            by_key |= _flat(value, f"{place}{key}.")
        else:
            by_key[f"{place}{key}"] = value
    return by_key
