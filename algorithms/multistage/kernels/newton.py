"""Steps of Newton's method whose Hessian stays for a while.

What a fit costs is its Hessians, O(N d^2) each beside O(N d) of a gradient. Of more than a few
coefficients a Hessian stays therefore while each step leaves at most ``REST`` of the gradient, and
is corrected by the steps that were made with it: limited-memory BFGS (J. Nocedal, S. Wright,
Numerical Optimization, Algorithm 7.4). Where the mean products of the columns are known, the first
one costs no pass over the records: it is what would be expected of normally distributed columns.
"""

from __future__ import annotations

import numpy as np

from algorithms.multistage.kernels.sums import dot, solve
from framework.arrays import Array
from framework.jit import njit

MAX_ITERATIONS = 200
REST = 0.5  # of a gradient that a step may leave where the Hessian stays,
FEW = 12  # which it does of more coefficients: of fewer it is as soon made as a gradient
PATIENCE = 4  # steps without a smaller gradient, as full steps may go to and fro for ever
MEMORY = 16  # steps that are remembered


@njit
def is_due(stays: bool, made: int, worst: float, before: float) -> bool:
    """Return whether the next step needs a Hessian of its own.

    Where it ``stays``, that is before the first one is ``made``, and where the step before left
    too much of the gradient, whose largest component went from ``before`` to ``worst``.
    """
    return not stays or made == 0 or worst > REST * before


@njit
def add(steps: Array, changes: Array, count: int, step: Array, last: Array, g: Array) -> int:
    """Add a step (d,) and the change of the gradient, from ``last`` to ``g``; return the number.

    One along which the gradient did not grow, as happens where rounding is all that is left, is
    left out.
    """
    if count == len(steps):
        return count
    for a in range(len(g)):
        steps[count, a] = step[a]
        changes[count, a] = g[a] - last[a]
    return count + 1 if dot(steps[count], changes[count]) > 0.0 else count


@njit
def direct(L: Array, steps: Array, changes: Array, count: int, g: Array) -> None:
    """Replace a gradient ``g`` (d,) by the corrected inverse of ``L L'`` times it.

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
