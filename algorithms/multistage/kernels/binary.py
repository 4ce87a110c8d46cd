"""Newton's method for the logistic regression of two classes, with as little work as it needs.

One exponential a record and iteration gives the probability, its slope and the residual; the
general method for several classes takes two and builds its Hessian from both.
"""

from __future__ import annotations

import math

import numpy as np

from algorithms.multistage.kernels.sums import combine, dots, exponential, solve_in_place
from framework.arrays import Array
from framework.jit import njit

MAX_ITERATIONS = 200
PATIENCE = 4  # steps without a smaller gradient: full steps may go to and fro for ever


@njit
def probabilities(S: Array, theta: Array, P: Array) -> None:
    """Fill ``P`` (2, N) for the scores ``theta`` (d,) of the rows of ``S`` (d, N)."""
    n = S.shape[1]
    first, second = P[0], P[1]
    power = np.empty(n)
    combine(S, theta, first)
    for i in range(n):
        first[i] = -first[i]
    exponential(first, power)
    for i in range(n):
        second[i] = 1.0 / (1.0 + first[i])
        first[i] *= second[i]


@njit
def newton(S: Array, y: Array, C: float, tolerance: float, theta: Array) -> bool:
    """Minimise ``C * sum of log losses + |weights|^2 / 2`` by full Newton steps.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (d, N)
        The last row is all ones; its weight is not penalised.
    y : numpy.ndarray of int64, shape (N,)
        0 or 1.
    C : float
    tolerance : float
        Greatest component of the gradient at the end.
    theta : numpy.ndarray of float64, shape (d,)
        Where to start; where it ended.

    Returns
    -------
    bool
        False where the gradient grew or did not fall, the Hessian was singular or 200 steps were
        not enough.
    """
    d, n = S.shape
    P, t, g, H = np.empty((2, n)), np.empty(n), np.empty(d), np.empty((d, d))
    first, second = P[0], P[1]
    before, least, idle = np.inf, np.inf, 0
    for _ in range(MAX_ITERATIONS):
        probabilities(S, theta, P)
        for i in range(n):
            first[i] *= second[i]  # the slope
            second[i] -= y[i]  # the residual
        dots(second, S, d, g)
        worst = 0.0
        for a in range(d):
            g[a] *= C
            if a < d - 1:
                g[a] += theta[a]
            if math.isnan(g[a]):
                return False
            worst = max(worst, abs(g[a]))
        if worst < tolerance:
            return True
        idle = 0 if worst < least else idle + 1
        if worst > 2.0 * before or idle == PATIENCE:
            return False
        before, least = worst, min(worst, least)
        for a in range(d):
            s = S[a]
            for i in range(n):
                t[i] = C * first[i] * s[i]
            dots(t, S, a + 1, H[a])
            if a < d - 1:
                H[a, a] += 1.0
        if not solve_in_place(H, g, d):
            return False
        for a in range(d):
            theta[a] -= g[a]
    return False
