"""Newton's method with a Hessian that serves several steps.

Most of the time of a fit goes into its Hessians, O(N d^2) each, where a gradient takes O(N d). With
more than a few coefficients a Hessian therefore stays while each step leaves at most ``REST`` of
the gradient. It is corrected by the steps that were made with it, as in limited-memory BFGS
(J. Nocedal, S. Wright, Numerical Optimization, Algorithm 7.4). Where the mean products of the
columns are known, the first Hessian takes no pass over the records: it is an estimate from them.
"""

from __future__ import annotations

import numpy as np

from algorithms.multistage.kernels.sums import dot, solve
from framework.arrays import Array
from framework.jit import njit

MAX_ITERATIONS = 200
REST = 0.5  # a Hessian stays while a step leaves at most this share of the gradient
FEW = 12  # with so few coefficients a Hessian is as cheap as a gradient, so each step has its own
PATIENCE = 4  # steps without a new least gradient: full steps may oscillate for ever
CAUTION = 100.0  # a gradient that is so much smaller than the tolerance need not be computed
MEMORY = 16  # greatest number of steps that correct a Hessian


@njit
def is_due(reused: bool, hessians: int, worst: float, before: float) -> bool:
    """Return whether the next step needs a new Hessian.

    It does unless Hessians are ``reused``. If they are, the first step does (no ``hessians`` yet),
    and each step after one that left too much of the gradient, whose largest component went from
    ``before`` to ``worst``.
    """
    return not reused or hessians == 0 or worst > REST * before


@njit
def lands(worst: float, before: float, tolerance: float) -> bool:
    """Return whether a step with a Hessian of its own surely makes the gradient small enough.

    The step before it, with a Hessian of its own too, took the largest component of the gradient
    from ``before`` to ``worst``. Newton's method converges quadratically, so that the next one is
    about ``worst * (worst / before)^2``; here it may be ``CAUTION`` times that.
    """
    return CAUTION * worst * (worst / before) ** 2 < tolerance


@njit
def add(steps: Array, changes: Array, count: int, step: Array, last: Array, g: Array) -> int:
    """Add a step (d,) and the change of the gradient from ``last`` to ``g``; return their number.

    A step along which the gradient did not grow is left out: BFGS needs positive curvature, and
    rounding can hide it near the optimum.
    """
    if count == len(steps):
        return count
    for a in range(len(g)):
        steps[count, a] = step[a]
        changes[count, a] = g[a] - last[a]
    return count + 1 if dot(steps[count], changes[count]) > 0.0 else count


@njit
def direct(L: Array, steps: Array, changes: Array, count: int, g: Array) -> None:
    """Replace a gradient ``g`` (d,) by the corrected inverse of the Hessian ``L L'`` times ``g``.

    Notes
    -----
    O(d^2 + d count).
    """
    shares, curvatures = np.empty(count), np.empty(count)
    for k in range(count - 1, -1, -1):
        curvatures[k] = dot(steps[k], changes[k])
        shares[k] = dot(steps[k], g) / curvatures[k]
        for a in range(len(g)):
            g[a] -= shares[k] * changes[k, a]
    solve(L, g, len(g))
    for k in range(count):
        share = shares[k] - dot(changes[k], g) / curvatures[k]
        for a in range(len(g)):
            g[a] += share * steps[k, a]
