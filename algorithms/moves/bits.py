"""Recombination and mutation of bit strings."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, FloatArray
from framework.jit import njit


@njit
def recombine_rows(A: Array, B: Array, U: FloatArray) -> Array:
    """Return a child of each pair of rows by single-point crossover: the head of A, the tail of B.

    Both parts have at least one gene, if there are two. ``U`` are random numbers in [0, 1), shape
    (n,).
    """
    out = A.copy()
    d = A.shape[1]
    for r in range(len(A)):
        point = 1 + int(U[r] * (d - 1))
        for j in range(point, d):
            out[r, j] = B[r, j]
    return out


@njit
def mutate_rows(X: Array, rate: float, U: FloatArray) -> None:
    """Flip each bit with probability ``rate``, in place.

    One number of ``U``, shape (n, d), is used for each flip and one more: it gives the way to the
    next bit that flips (the geometric distribution), so a row costs O(rate d).
    """
    n, d = X.shape
    if rate <= 0.0:
        return
    scale = np.log1p(-rate) if rate < 1.0 else -np.inf
    for r in range(n):
        j = -1
        for k in range(d):
            skip = np.log1p(-U[r, k]) / scale if rate < 1.0 else 0.0
            if skip >= d:
                break
            j += 1 + int(skip)
            if j >= d:
                break
            X[r, j] = 1 - X[r, j]
