"""Starting points of fits on some of the columns, derived from the classifier on all columns."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from algorithms.multistage.kernels.sums import dot, dots, factor, solve
from framework.arrays import FloatArray, IntArray
from framework.jit import njit


class Start(NamedTuple):
    """What starting points are computed from; the last column is the intercept.

    Attributes
    ----------
    theta : shape (free, D + 1)
        Coefficients of the classifier on all columns; zeros if there is none.
    products : shape (D + 1, D + 1)
        Weighted means of the products of two columns; (0, 0) if they are not known.
    along : shape (free, D + 1)
        ``products`` times the coefficients; (0, 0) if they are not known.
    """

    theta: FloatArray
    products: FloatArray
    along: FloatArray


def mean_products(S: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted mean products (D, D) of the rows of ``S`` (D, N).

    Unlike those of a matrix product, these sums do not depend on the number of threads.
    """
    products, rows, shares = np.empty((len(S), len(S))), np.arange(len(S)), weights / weights.sum()
    for row, column in zip(products, S, strict=True):
        dots(shares * column, S, rows, len(S), row, 0)
    return products


@njit
def expected_start(start: Start, rows: IntArray, classes: int, strength: float) -> FloatArray:
    """Return where a fit on some columns is expected to end, shape (free, d).

    Columns that are left out are replaced by their regression on the others, with the penalty of
    the fit. What the regression does not explain is noise of the logit. For normal noise of
    variance v, the logistic function has about the mean that it has without noise at the logit
    divided by sqrt(1 + pi v / 8).

    Notes
    -----
    With G the ``products``, K the columns of the fit, O those left out and R the penalty::

        part     = (G_KK + R)^-1 G_KO theta_O
        v        = theta_O' G_OO theta_O - (G_KO theta_O)' part
        returned = (theta_K + part) / sqrt(1 + pi v / 8)

    Products with O follow from those with all columns, ``along``, less those with K.
    O(free d^2 + d^3 / 6).
    """
    free, d, products = len(start.theta), len(rows), start.products
    theta, variance = np.empty((free, d)), 0.0
    L, block = np.empty((d, d)), len(products) > 0
    if block:
        # the Hessian of the fit is about strength / 4 * G + I: the slope of the logistic function
        # is at most 1 / 4, and that of softmax at equal probabilities 1 / classes
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
    if classes > 2:  # the mean over pairs of classes of the variance of the logit between them
        variance *= 2.0 / free
    shrinkage = math.sqrt(1.0 + math.pi / 8.0 * max(variance, 0.0))
    for j in range(free):
        for a in range(d):
            theta[j, a] /= shrinkage
    return theta
