"""Recombination, mutation and neighbours of real vectors in a box."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, FloatArray
from framework.jit import copy, njit

CROSSOVER_INDEX = MUTATION_INDEX = 20.0
"""The usual distribution indices of SBX and of polynomial mutation."""

SCALES = 6
"""Neighbours lie 1/2, 1/8, ... of a gene's range away, each step a quarter of the one before."""


@njit
def recombine_rows(
    A: FloatArray, B: FloatArray, lower: FloatArray, upper: FloatArray, U: FloatArray
) -> FloatArray:
    """Return a child of each pair of rows by simulated binary crossover.

    Half of the genes are recombined. Each of them lies near one of the parents and within the
    bounds (Deb and Agrawal 1995).

    Parameters
    ----------
    A, B : numpy.ndarray, shape (n, d)
        The parents.
    lower, upper : numpy.ndarray, shape (d,)
    U : numpy.ndarray, shape (n, 2 d)
        Numbers in [0, 1).
    """
    n, d = A.shape
    out = np.empty((n, d))
    power = 1.0 / (CROSSOVER_INDEX + 1.0)
    for r in range(n):
        for j in range(d):
            u, v = U[r, j], U[r, d + j]
            spread = 1.0  # the gene of the first parent
            if v >= 0.5:
                spread = (2.0 * u) ** power if u < 0.5 else (2.0 - 2.0 * u) ** -power
            if v >= 0.75:
                spread = -spread
            x = 0.5 * (A[r, j] + B[r, j]) + 0.5 * spread * (A[r, j] - B[r, j])
            out[r, j] = min(max(x, lower[j]), upper[j])
    return out


@njit
def mutate_rows(
    X: FloatArray, lower: FloatArray, upper: FloatArray, rate: float, U: FloatArray
) -> None:
    """Change each gene with probability ``rate`` by polynomial mutation, in place.

    It is the bounded form in Deb's code (PPSN 2008): a gene next to a bound moves away from it.
    ``U`` (n, 2 d) has random numbers in [0, 1).
    """
    n, d = X.shape
    power = 1.0 / (MUTATION_INDEX + 1.0)
    for r in range(n):
        for j in range(d):
            span = upper[j] - lower[j]
            if U[r, j] >= rate or span <= 0.0:
                continue
            u, x = U[r, d + j], X[r, j]
            if u < 0.5:
                room = 1.0 - (x - lower[j]) / span
                move = (2.0 * u + (1.0 - 2.0 * u) * room ** (MUTATION_INDEX + 1.0)) ** power - 1.0
            else:
                room = 1.0 - (upper[j] - x) / span
                below = 2.0 - 2.0 * u + (2.0 * u - 1.0) * room ** (MUTATION_INDEX + 1.0)
                move = 1.0 - below**power
            X[r, j] = min(max(x + move * span, lower[j]), upper[j])


@njit
def child_rows(
    A: FloatArray, B: FloatArray, lower: FloatArray, upper: FloatArray, rate: float, U: FloatArray
) -> FloatArray:
    """Return a child of each pair of rows: :func:`recombine_rows`, then :func:`mutate_rows`.

    ``U`` (2, n, 2 d) has the random numbers of both.
    """
    children = recombine_rows(A, B, lower, upper, U[0])
    mutate_rows(children, lower, upper, rate, U[1])
    return children


def neighbourhood_size(x: Array) -> int:
    """Return the greatest possible number of neighbours of a vector of shape (d,)."""
    return 2 * SCALES * len(x)


@njit
def neighbours(x: FloatArray, lower: FloatArray, upper: FloatArray, out: FloatArray) -> int:
    """Fill ``out`` with vectors that differ from ``x`` in one gene; return their number.

    A gene moves up and down by 1/2, 1/8, 1/32, ... of its range, as far as the bounds allow
    (compass search on several scales).
    """
    count = 0
    for j in range(len(x)):
        step = 0.5 * (upper[j] - lower[j])
        for _ in range(SCALES):
            for sign in (-1.0, 1.0):
                y = x[j] + sign * step
                if lower[j] <= y <= upper[j] and y != x[j]:
                    copy(x, out[count])
                    out[count, j] = y
                    count += 1
            step *= 0.25
    return count
