"""Newton's method for the logistic regression of K classes, in K - 1 free directions.

Adding the same vector to the coefficients of all classes changes no probability. The penalty is
least where the coefficients of the classes sum to zero, so it is enough to search there: an
orthonormal basis of these directions gives a smaller Hessian that is not singular.
"""

from __future__ import annotations

import math

import numpy as np

from algorithms.multistage.kernels import newton
from algorithms.multistage.kernels.sums import combine, dot, dots, exponential, factor
from framework.arrays import Array
from framework.jit import copy, njit


@njit
def softmax(S: Array, rows: Array, theta: Array, basis: Array, P: Array) -> None:
    """Fill ``P`` (classes, N) with class probabilities.

    ``S`` is (D, N); ``theta`` (free, d) has the coefficients of its ``rows`` along ``basis``
    (classes, free).
    """
    k, free = basis.shape
    n = S.shape[1]
    P[:] = 0.0
    z, top, power = np.empty(n), np.empty(n), np.empty(n)
    for j in range(free):
        combine(S, rows, theta[j], z, 0)
        for c in range(k):
            w = basis[c, j]
            if w != 0.0:
                for i in range(n):
                    P[c, i] += w * z[i]
    copy(P[0], top)
    for c in range(1, k):
        for i in range(n):
            top[i] = max(top[i], P[c, i])
    z[:] = 0.0
    for c in range(k):
        for i in range(n):
            P[c, i] -= top[i]
        exponential(P[c], power)
        for i in range(n):
            z[i] += P[c, i]
    for c in range(k):
        for i in range(n):
            P[c, i] /= z[i]


@njit
def _loss(P: Array, y: Array, weights: Array, theta: Array, C: float) -> float:
    total = 0.0
    for i in range(len(y)):
        total -= weights[i] * math.log(max(P[y[i], i], 1e-300))
    penalty = 0.0
    d = theta.shape[1]
    for j in range(theta.shape[0]):
        for a in range(d - 1):
            penalty += theta[j, a] * theta[j, a]
    return C * total + 0.5 * penalty


@njit
def _gradient(
    S: Array,
    rows: Array,
    P: Array,
    y: Array,
    weights: Array,
    basis: Array,
    theta: Array,
    C: float,
    g: Array,
    r: Array,
) -> float:
    """Fill the gradient ``g`` (free * d); return its largest absolute component, inf for NaN.

    ``r`` is (N,) scratch, used for the residuals along one direction.
    """
    d, n = len(rows), S.shape[1]
    k, free = basis.shape
    worst = 0.0
    for j in range(free):
        for i in range(n):
            r[i] = -basis[y[i], j]
        for c in range(k):
            w = basis[c, j]
            if w != 0.0:
                for i in range(n):
                    r[i] += w * P[c, i]
        for i in range(n):
            r[i] *= weights[i]
        piece = g[j * d : (j + 1) * d]
        dots(r, S, rows, d, piece, 0)
        for a in range(d):
            value = C * piece[a]
            if a < d - 1:
                value += theta[j, a]
            piece[a] = value
            if math.isnan(value):
                return math.inf
            worst = max(worst, abs(value))
    return worst


@njit
def _slopes(P: Array, weights: Array, basis: Array, p: int, q: int, T: Array) -> None:
    """Fill ``T[0]`` with the weight of each record in block (p, q) of the Hessian.

    For record i it is ``w_i b_p' (diag(P_i) - P_i P_i') b_q``, with b the columns of ``basis``.
    """
    m, left, right = T[0], T[1], T[2]
    m[:], left[:], right[:] = 0.0, 0.0, 0.0
    for c in range(len(basis)):
        u, v = basis[c, p], basis[c, q]
        if u != 0.0 or v != 0.0:
            for i in range(len(m)):
                m[i] += u * v * P[c, i]
                left[i] += u * P[c, i]
                right[i] += v * P[c, i]
    for i in range(len(m)):
        m[i] = (m[i] - left[i] * right[i]) * weights[i]


@njit
def _hessian(
    S: Array,
    rows: Array,
    P: Array,
    weights: Array,
    basis: Array,
    C: float,
    products: Array,
    H: Array,
    T: Array,
) -> None:
    """Fill the lower triangle of ``H`` (free * d square); ``T`` is (4, N) scratch.

    Block (p, q) is ``C * S diag(m) S'``, with ``m`` from :func:`_slopes`; as it is symmetric, half
    of it is computed. If ``products`` are passed, ``m`` and ``S`` are taken as independent, so that
    the block is ``C * sum(m) * products``.
    """
    d, free = len(rows), basis.shape[1]
    m, t, row = T[0], T[3], np.empty(d)
    for p in range(free):
        for q in range(p + 1):  # the lower triangle is all that the solver reads
            _slopes(P, weights, basis, p, q, T)
            total = 0.0
            for i in range(len(m)):
                total += m[i]
            for a in range(d):
                if len(products):
                    for b in range(a + 1):
                        row[b] = total * products[rows[a], rows[b]]
                else:
                    column = S[rows[a]]
                    for i in range(len(m)):
                        t[i] = m[i] * column[i]
                    dots(t, S, rows, a + 1, row, 0)
                for b in range(a + 1):
                    H[p * d + a, q * d + b] = C * row[b]
                    H[p * d + b, q * d + a] = C * row[b]
        for a in range(d - 1):
            H[p * d + a, p * d + a] += 1.0


@njit
def softmax_newton(
    S: Array,
    rows: Array,
    y: Array,
    weights: Array,
    basis: Array,
    C: float,
    tolerance: float,
    products: Array,
    theta: Array,
    careful: bool,
) -> bool:
    """Minimise ``C * sum of log losses + |theta|^2 / 2``; return whether it converged.

    ``theta`` is (free, d), the rest as of :func:`~.binary.binary_newton`. Steps are full, or, where
    ``careful``, halved until the loss decreases, each with its own Hessian.
    """
    d, n = len(rows), S.shape[1]
    k, free = basis.shape
    size = free * d
    P, g, r = np.empty((k, n)), np.empty(size), np.empty(n)
    H, T = np.zeros((size, size)), np.empty((4, n))
    old, step = np.empty((free, d)), np.empty(size)
    softmax(S, rows, theta, basis, P)
    loss = _loss(P, y, weights, theta, C) if careful else 0.0
    before, least, idle = np.inf, np.inf, 0
    hessians, reused, none = 0, size > newton.FEW and not careful, np.empty((0, 0))
    estimated, pairs, last = reused and len(products) > 0, 0, np.empty(size)
    steps, changes = np.empty((newton.MEMORY, size)), np.empty((newton.MEMORY, size))
    for _ in range(newton.MAX_ITERATIONS):
        worst = _gradient(S, rows, P, y, weights, basis, theta, C, g, r)
        if worst < tolerance:
            return True
        idle = 0 if worst < least else idle + 1
        if not careful and (worst > 2.0 * before or idle == newton.PATIENCE):
            return False
        if newton.is_due(reused, hessians, worst, before):
            from_products = products if estimated and hessians == 0 else none
            _hessian(S, rows, P, weights, basis, C, from_products, H, T)
            hessians, pairs = hessians + 1, 0
            if not factor(H, size):
                return False
        elif reused:
            pairs = newton.add(steps, changes, pairs, step, last, g)
        before, least = worst, min(worst, least)
        copy(g, step)
        copy(g, last)
        newton.direct(H, steps, changes, pairs, step)
        slope = dot(g, step)
        for j in range(free):
            copy(theta[j], old[j])
        length = 1.0
        while True:
            for j in range(free):
                for a in range(d):
                    theta[j, a] = old[j, a] - length * step[j * d + a]
            softmax(S, rows, theta, basis, P)
            if not careful:
                for a in range(size):
                    step[a] = -step[a]
                break
            new = _loss(P, y, weights, theta, C)
            # near the optimum rounding hides the decrease, but there the full step is right
            if new <= loss - 1e-4 * length * slope or slope <= 1e-10 * (1.0 + abs(loss)):
                loss = new
                break
            length *= 0.5
            if length < 1e-10:
                return False
    return False
