"""Sums of models' predictions, each taken as often as it is picked, which all scores come from.

Predictions are stored in fixed point if ties matter: sums of whole numbers are exact in any order.
Other sums are added in the order of the models, or of the records, so that the value of a row
depends neither on the batch nor on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, frozen
from framework.jit import njit

ONE = 1 << 51
"""A probability of 1 in fixed point: probabilities are rounded by at most 2^-52."""

MAX_TOTAL = 1023
"""Greatest number of picks with which sums fit into 64 bits; for more, the mean is rounded."""

_BLOCK_BYTES = 400_000  # size of the sums of a block: they stay in the second-level cache
_PIECE = 2048  # records that are added at a time: they stay in the first-level cache


class FixedPoint(NamedTuple):
    """Predictions of ``K`` models as whole numbers.

    Attributes
    ----------
    whole : numpy.ndarray of int64, shape (K, W)
        At most 2^51 in absolute value.
    unit : float
        The value of 1 in ``whole``, a power of two.
    """

    whole: IntArray
    unit: float


def of_probabilities(P: Array) -> FixedPoint:
    """Return probabilities (K, N), or (K, N, C) class by class as (K, C * N), in fixed point."""
    whole = np.empty((len(P), P[0].size), dtype=np.int64)
    for j, p in enumerate(P):  # one row at a time: float64 takes memory
        whole[j] = np.rint(np.clip(p.T.ravel(), 0.0, 1.0) * np.float64(ONE))
    return FixedPoint(whole, 1.0 / ONE)


def of_values(P: Array, y: FloatArray) -> FixedPoint:
    """Return by how much predicted values (K, N) exceed the true ones, in fixed point."""
    largest = max(float(np.abs(P).max()), float(np.abs(y).max())) or 1.0
    unit = 2.0 ** (math.ceil(math.log2(largest)) + 1) / ONE
    true = np.rint(y / unit).astype(np.int64)
    whole = np.stack([np.rint(p / np.float64(unit)).astype(np.int64) - true for p in P])
    return FixedPoint(whole, unit)


def blocks(n: int, row_bytes: int) -> list[slice]:
    """Return slices of ``n`` rows, each so small that its sums stay in the cache."""
    size = max(1, _BLOCK_BYTES // row_bytes)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def add_members(X: Array, P: Array, kind: Any) -> Array:
    """Return ``X @ P`` as numbers of type ``kind``, with the models added in their order.

    Parameters
    ----------
    X : numpy.ndarray, shape (n, K)
        Counts, most of them 0.
    P : numpy.ndarray, shape (K, W)
    kind : dtype

    Returns
    -------
    numpy.ndarray, shape (n, W)

    Notes
    -----
    O(members W) per row.
    """
    sums: Array = np.empty((len(X), P.shape[1]), dtype=kind)
    _add_members(np.ascontiguousarray(X, dtype=kind), frozen(P), sums)
    return sums


@njit
def _add_members(X: Array, P: Array, out: Array) -> None:
    for r in range(len(out)):
        (models,) = np.nonzero(X[r])
        for start in range(0, out.shape[1], _PIECE):
            row = out[r, start : start + _PIECE]
            row[:] = 0
            for j in models:
                count, model = X[r, j], P[j, start : start + _PIECE]
                if count == 1:
                    for i in range(len(row)):
                        row[i] += model[i]
                else:
                    for i in range(len(row)):
                        row[i] += count * model[i]


def whole_sums(table: FixedPoint, X: Array) -> tuple[IntArray, IntArray]:
    """Return sums of fixed-point numbers, and the picks to divide them by for a mean.

    Returns
    -------
    sums : numpy.ndarray of int64, shape (n, W)
    picks : numpy.ndarray of int64, shape (n, 1)
        1 for rows with more than :data:`MAX_TOTAL` picks, whose ``sums`` are rounded means.
    """
    picks = X.sum(axis=1, dtype=np.int64)[:, np.newaxis]
    many = picks[:, 0] > MAX_TOTAL
    if not many.any():
        return add_members(X, table.whole, np.int64), picks
    sums = np.empty((len(X), table.whole.shape[1]), dtype=np.int64)
    sums[~many] = add_members(X[~many], table.whole, np.int64)
    sums[many] = np.rint(add_members(X[many], table.whole, np.float64) / picks[many])
    return sums, np.where(many[:, np.newaxis], 1, picks)


def sums_in_order(plane: FloatArray, weights: Array) -> FloatArray:
    """Return ``plane @ weights``, each sum in the order of the records, shape (n, b).

    Parameters
    ----------
    plane : numpy.ndarray of float64, shape (n, N)
    weights : numpy.ndarray, shape (N, b)
    """
    out = np.zeros((len(plane), weights.shape[1]))
    _sums_in_order(np.ascontiguousarray(plane), np.ascontiguousarray(weights), out)
    return out


@njit
def _sums_in_order(plane: FloatArray, weights: Array, out: FloatArray) -> None:
    for r in range(len(out)):
        row = out[r]
        for i in range(plane.shape[1]):
            value, of_record = plane[r, i], weights[i]
            for b in range(len(row)):
                row[b] += value * np.float64(of_record[b])
