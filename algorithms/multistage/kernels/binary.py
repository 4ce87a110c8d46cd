"""Newton's method for the logistic regression of two classes.

One exponential per record gives its probability, its residual and its weight in the Hessian.
"""

from __future__ import annotations

import math

import numpy as np

from algorithms.multistage.kernels import newton
from algorithms.multistage.kernels.sums import combine, dots, exponential, factor
from framework.arrays import Array
from framework.jit import copy, njit

BLOCK = 512  # records at a time: their columns stay in the cache
LARGE = 65536  # with so many records, a part of them gives the start and the first Hessian
HESSIAN_PART = 4  # that Hessian reads one block of records in so many


@njit
def binary_probabilities(S: Array, rows: Array, theta: Array, P: Array, start: int) -> None:
    """Fill ``P`` (2, m) with the class probabilities of the ``m`` records from ``start`` on.

    ``S`` is (D, N); ``theta`` (d,) has the coefficients of its ``rows``.
    """
    n = P.shape[1]
    first, second = P[0], P[1]
    power = np.empty(n)
    combine(S, rows, theta, first, start)
    for i in range(n):
        first[i] = -first[i]
    exponential(first, power)
    for i in range(n):
        second[i] = 1.0 / (1.0 + first[i])
        first[i] *= second[i]


@njit
def binary_newton(
    S: Array,
    rows: Array,
    y: Array,
    weights: Array,
    C: float,
    tolerance: float,
    products: Array,
    theta: Array,
) -> bool:
    """Minimise ``C * sum of log losses + |weights|^2 / 2`` of two classes by full Newton steps.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (D, N)
    rows : numpy.ndarray of int64, shape (d,)
        The columns of the fit; the last one is all ones, and its coefficient is not penalised.
    y : numpy.ndarray of int64, shape (N,)
        0 or 1.
    weights : numpy.ndarray of float64, shape (N,)
        How much each record counts.
    tolerance : float
        Greatest component of the gradient at the end.
    products : numpy.ndarray of float64, shape (D, D)
        Weighted mean products of the rows of ``S``; (0, 0) where they are not known.
    theta : numpy.ndarray of float64, shape (d,)
        Where to start; overwritten with the coefficients.

    Returns
    -------
    bool
        False where the gradient grew or no longer fell, the Hessian was not positive definite or
        200 steps were not enough.

    Notes
    -----
    With p the probabilities of the second class, w the weights of records, and I without the
    intercept, each step is::

        g      = C X' (w (p - y)) + I theta
        H      = C X' diag(w p (1 - p)) X + I
        theta -= H^-1 g

    With ``LARGE`` records or more, the first H that is summed over records takes only a part of
    them; g always takes all.
    """
    d, n = len(rows), S.shape[1]
    slope, g, H = np.empty(n), np.empty(d), np.empty((d, d))
    large, hessians, reused = n >= LARGE, 0, d > newton.FEW
    # the first Hessian, from the products
    estimated = (large or reused) and len(products) > 0
    before, least, idle, pairs, exact = np.inf, np.inf, 0, 0, 0
    step, last = np.empty(d), np.empty(d)
    steps, changes = np.empty((newton.MEMORY, d)), np.empty((newton.MEMORY, d))
    for _ in range(newton.MAX_ITERATIONS):
        worst = _gradient(S, rows, y, weights, C, theta, slope, g)
        if worst < tolerance:
            return True
        if math.isnan(worst):
            return False
        idle = 0 if worst < least else idle + 1
        if worst > 2.0 * before or idle == newton.PATIENCE:
            return False
        if newton.is_due(reused, hessians, worst, before):
            if estimated and not hessians:
                _expected_hessian(rows, theta, weights, C, products, H)
            else:
                every = HESSIAN_PART if large and hessians == (1 if estimated else 0) else 1
                _hessian(S, rows, slope, C, every, H)
                exact = exact + 1 if every == 1 else 0
            hessians, pairs = hessians + 1, 0
            if not factor(H, d):
                return False
        elif reused:
            pairs, exact = newton.add(steps, changes, pairs, step, last, g), 0
        lands = exact > 1 and newton.lands(worst, before, tolerance)
        before, least = worst, min(worst, least)
        copy(g, last)
        newton.direct(H, steps, changes, pairs, g)
        for a in range(d):
            step[a] = -g[a]
            theta[a] += step[a]
        if lands:
            return True
    return False


@njit
def _gradient(
    S: Array, rows: Array, y: Array, weights: Array, C: float, theta: Array, slope: Array, g: Array
) -> float:
    """Fill the gradient ``g`` (d,), and ``slope`` (N,) with the records' weights in the Hessian.

    Returns the largest absolute component of ``g``, or NaN if one is NaN.
    """
    d, n = len(rows), S.shape[1]
    P, piece = np.empty((2, min(n, BLOCK))), np.empty(d)
    g[:] = 0.0
    for start in range(0, n, BLOCK):  # a block of all columns stays in the cache
        stop = min(n, start + BLOCK)
        if stop - start < P.shape[1]:
            P = np.empty((2, stop - start))
        binary_probabilities(S, rows, theta, P, start)
        first, second = P[0], P[1]
        s, w, t = slope[start:stop], weights[start:stop], y[start:stop]
        for i in range(len(s)):
            s[i] = first[i] * (second[i] * w[i])
            second[i] = (second[i] - t[i]) * w[i]  # the residual
        dots(second, S, rows, d, piece, start)
        for a in range(d):
            g[a] += piece[a]
    worst = 0.0
    for a in range(d):
        g[a] *= C
        if a < d - 1:  # the intercept, last, is not penalised
            g[a] += theta[a]
        if math.isnan(g[a]):
            return math.nan
        worst = max(worst, abs(g[a]))
    return worst


@njit
def _expected_hessian(
    rows: Array, theta: Array, weights: Array, C: float, products: Array, H: Array
) -> None:
    """Fill the lower triangle of ``H`` as if the columns ``x`` were normally distributed.

    Let ``z = theta' x`` be the logit, ``s(z) = p (1 - p)`` and ``G`` the mean of ``x x'``. By
    Stein's lemma the mean of ``s(z) x x'`` is ``a G + b G theta (G theta)'``. Here ``a`` is the
    mean of ``s(z)``, and ``b`` follows from the mean of ``s(z) z^2``: both by quadrature over z.

    Notes
    -----
    O(d^2): no record is read.
    """
    d, total, square = len(rows), 0.0, 0.0  # square: theta' G theta, the mean of z^2
    along = np.zeros(d)  # G theta
    for weight in weights:
        total += weight
    for a in range(d):
        for b in range(d):
            along[a] += products[rows[a], rows[b]] * theta[b]
        square += theta[a] * along[a]
    center = along[d - 1]  # the mean of z, as the last column is all ones
    spread = math.sqrt(max(square - center * center, 0.0))
    mass, slope, bent = 0.0, 0.0, 0.0
    for k in range(-30, 31):  # the trapezoidal rule is exact to many digits for such functions
        z, weight = center + spread * k / 5.0, math.exp(-0.02 * k * k)
        p = 1.0 / (1.0 + math.exp(-min(max(z, -700.0), 700.0)))
        mass += weight
        slope += weight * p * (1.0 - p)
        bent += weight * p * (1.0 - p) * z * z
    slope, bent = slope / mass, bent / mass
    beside = (bent - slope * square) / (square * square) if square > 0.0 else 0.0
    for a in range(d):
        for b in range(a + 1):
            plain = slope * products[rows[a], rows[b]]
            H[a, b] = C * total * (plain + beside * along[a] * along[b])
        if a < d - 1:
            H[a, a] += 1.0


@njit
def _hessian(S: Array, rows: Array, slope: Array, C: float, every: int, H: Array) -> None:
    """Fill the lower triangle of ``H`` from one in ``every`` blocks of records, scaled to all."""
    d, n = len(rows), S.shape[1]
    t, row = np.empty(min(n, BLOCK)), np.empty(d)
    H[:] = 0.0
    seen = 0
    for start in range(0, n, BLOCK * every):
        stop = min(n, start + BLOCK)
        seen += stop - start
        part = t[: stop - start]
        for a in range(d):
            s, column = slope[start:stop], S[rows[a]][start:stop]
            for i in range(len(part)):
                part[i] = C * s[i] * column[i]
            dots(part, S, rows, a + 1, row, start)
            for b in range(a + 1):
                H[a, b] += row[b]
    for a in range(d):
        if seen < n:
            for b in range(a + 1):
                H[a, b] *= n / seen
        if a < d - 1:
            H[a, a] += 1.0
