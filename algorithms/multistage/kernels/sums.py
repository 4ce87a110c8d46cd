"""Sums over records, the exponential and Cholesky's method: where fits spend their time.

All run in vector code: arrays are contiguous along the records, and several sums are taken side by
side so that each pass over memory serves more than one. The order of a sum is left to the compiler.
"""

from __future__ import annotations

import math

import numpy as np

from framework.arrays import Array
from framework.jit import njit, njit_sum

_ROUNDER = 1.5 * 2.0**52
"""Added to a number, it rounds that to a whole number, which is then in the lowest bits."""


@njit_sum
def dot(a: Array, b: Array) -> float:
    """Return the scalar product of two vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit_sum
def _dot_four(t: Array, a: Array, b: Array, c: Array, d: Array) -> tuple[float, ...]:
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for i in range(len(t)):
        s0 += t[i] * a[i]
        s1 += t[i] * b[i]
        s2 += t[i] * c[i]
        s3 += t[i] * d[i]
    return s0, s1, s2, s3


@njit_sum
def _dot_two(t: Array, a: Array, b: Array) -> tuple[float, ...]:
    s0, s1 = 0.0, 0.0
    for i in range(len(t)):
        s0 += t[i] * a[i]
        s1 += t[i] * b[i]
    return s0, s1


@njit
def dots(t: Array, S: Array, rows: Array, count: int, out: Array, start: int) -> None:
    """Fill ``out[:count]`` with the scalar products of ``t`` (m,) and the first ``rows`` of ``S``.

    Each row takes part with its ``m`` entries from ``start`` on.
    """
    stop = start + len(t)
    a = 0
    while a + 3 < count:  # four at a time: t is read once for all of them
        s0, s1 = S[rows[a]][start:stop], S[rows[a + 1]][start:stop]
        s2, s3 = S[rows[a + 2]][start:stop], S[rows[a + 3]][start:stop]
        out[a], out[a + 1], out[a + 2], out[a + 3] = _dot_four(t, s0, s1, s2, s3)
        a += 4
    if a + 1 < count:
        s0, s1 = S[rows[a]][start:stop], S[rows[a + 1]][start:stop]
        out[a], out[a + 1] = _dot_two(t, s0, s1)
        a += 2
    if a < count:
        out[a] = dot(t, S[rows[a]][start:stop])


@njit_sum
def combine(S: Array, rows: Array, theta: Array, z: Array, start: int) -> None:
    """Fill ``z`` (m,) with the sum of some rows of ``S``, weighted by ``theta`` (d,).

    Each row takes part with its ``m`` entries from ``start`` on.
    """
    d, n = len(rows), len(z)
    stop = start + n
    z[:] = 0.0
    a = 0
    while a + 3 < d:
        t0, t1, t2, t3 = theta[a], theta[a + 1], theta[a + 2], theta[a + 3]
        s0, s1 = S[rows[a]][start:stop], S[rows[a + 1]][start:stop]
        s2, s3 = S[rows[a + 2]][start:stop], S[rows[a + 3]][start:stop]
        for i in range(n):
            z[i] += t0 * s0[i] + t1 * s1[i] + t2 * s2[i] + t3 * s3[i]
        a += 4
    while a < d:
        t, s = theta[a], S[rows[a]][start:stop]
        for i in range(n):
            z[i] += t * s[i]
        a += 1


@njit
def exponential(x: Array, power: Array) -> None:
    """Replace ``x`` by its exponential, within 2 units in the last place.

    Only plain arithmetic is used, so the result is the same on every machine, unlike that of a
    library's ``exp``. ``power`` is scratch of the same length.
    """
    # exp(v) = 2^k exp(r), where k = round(v / log 2) and r = v - k log 2 is so small (at most
    # log(2) / 2) that a Taylor polynomial is exact; log 2 is subtracted in two parts, a short one
    # first, whose multiples are exact
    bits = power.view(np.int64)
    for i in range(len(x)):
        v = min(max(x[i], -700.0), 700.0)
        rounded = v * 1.4426950408889634 + _ROUNDER
        k = rounded - _ROUNDER
        r = (v - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
        p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[i] = p * r + 1.0
        power[i] = rounded
    for i in range(len(x)):  # k plus the bias, moved to where a float has its exponent, is 2^k
        bits[i] = (bits[i] + 1023) << 52
    for i in range(len(x)):
        x[i] *= power[i]


@njit_sum
def factor(H: Array, m: int) -> bool:
    """Replace the lower triangle of ``H`` by its Cholesky factor; return False if it has none."""
    for j in range(m):
        s = H[j, j]
        for p in range(j):
            s -= H[j, p] * H[j, p]
        if not s > 0.0:  # also true of NaN
            return False
        root = math.sqrt(s)
        H[j, j] = root
        for i in range(j + 1, m):
            t = H[i, j]
            for p in range(j):
                t -= H[i, p] * H[j, p]
            H[i, j] = t / root
    return True


@njit_sum
def solve(L: Array, g: Array, m: int) -> None:
    """Replace ``g`` by the solution ``x`` of ``L L' x = g``, with ``L`` from :func:`factor`."""
    for i in range(m):
        t = g[i]
        for p in range(i):
            t -= L[i, p] * g[p]
        g[i] = t / L[i, i]
    for i in range(m - 1, -1, -1):
        g[i] /= L[i, i]
        for p in range(i):
            g[p] -= L[i, p] * g[i]
