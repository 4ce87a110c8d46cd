"""Where fits on some columns start: what the classifier on all columns lets expect of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from algorithms.multistage.kernels.sums import dot, dots, factor, solve
from framework.arrays import FloatArray, IntArray
from framework.jit import njit


class Start(NamedTuple):
    """What the training records tell of all fits, the intercept as the last column.

    Attributes
    ----------
    theta : shape (free, D + 1)
        Coefficients of the classifier on all columns; zeros for none.
    products : shape (D + 1, D + 1)
        Mean products of the columns, by the weights of records; (0, 0) for none.
    along : shape (free, D + 1)
        ``products`` times the coefficients; (0, 0) for none.
    """

    theta: FloatArray
    products: FloatArray
    along: FloatArray


def mean_products(S: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mean products (D, D) of the rows of ``S`` (D, N), by weight.

    By our own sums, which do not depend on the number of threads.
    """
    products, rows, shares = np.empty((len(S), len(S))), np.arange(len(S)), weights / weights.sum()
    for row, column in zip(products, S, strict=True):
        dots(shares * column, S, rows, len(S), row)
    return products


@njit
def expected_start(start: Start, rows: IntArray, classes: int, strength: float) -> FloatArray:
    """Return where a fit on some columns is expected to end, shape (free, d).

    The columns that are left out are replaced by what the others tell of them, a regression with
    the penalty of the fit. What they do not tell is noise of the logit: of a normal one with
    variance v, the mean of the logistic function is the function of the logit divided by
    sqrt(1 + pi v / 8).

    Notes
    -----
    O(free d^2 + d^3 / 6).
    """
    free, d, products = len(start.theta), len(rows), start.products
    theta, variance = np.empty((free, d)), 0.0
    L, block = np.empty((d, d)), len(products) > 0
    if block:
        ridge = (4.0 if classes == 2 else float(classes)) / strength
        for a in range(d):
            for b in range(a + 1):
                L[a, b] = products[rows[a], rows[b]]
            if a < d - 1:
                L[a, a] += ridge
        block = factor(L, d)
    for j in range(free):
        for a in range(d):
            theta[j, a] = start.theta[j, rows[a]]
        if not block:
            continue
        # products with the columns that are left out: those with all, less those with the others
        variance += dot(start.theta[j], start.along[j])
        part = np.empty(d)
        for a in range(d):
            inside = 0.0
            for b in range(d):
                inside += products[rows[a], rows[b]] * theta[j, b]
            part[a] = start.along[j, rows[a]] - inside
            variance -= theta[j, a] * (2.0 * start.along[j, rows[a]] - inside)
        outside = part.copy()
        solve(L, part, d)
        variance -= dot(outside, part)
        for a in range(d):
            theta[j, a] += part[a]
    if classes > 2:  # of the logit between two classes, on average
        variance *= 2.0 / free
    shrinkage = math.sqrt(1.0 + math.pi / 8.0 * max(variance, 0.0))
    for j in range(free):
        for a in range(d):
            theta[j, a] /= shrinkage
    return theta
