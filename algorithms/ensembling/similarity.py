"""How alike the models of a library are: by their losses, and by their configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.arrays import Array, FloatArray


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
