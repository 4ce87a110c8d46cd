"""Where a cost-sensitive tree of classifiers is started, and how its loss is minimised.

The loss has many local minima: which features a gate reads is decided early. So several starts are
followed while the mixed norm is smooth, and the best of them on while it is made sharp.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from algorithms.multistage.baselines.cstc_loss import Data, Tree, gate_places, loss
from framework.arrays import FloatArray

SMOOTHINGS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""Of the mixed norm, one after the other; a weight is in units of a standardised feature."""
GRADIENT_TOLERANCE = 1e-5
"""Greatest component of the gradient at the end."""
_DECREASE = 1e-12  # relative; what is left of it is rounding
_ROUGH = 10.0  # times these tolerances on the way there
_FIRST_LOOK = 100  # iterations after which starts are compared
_FINALISTS = 3
_SAME = 1e-5  # relative difference of losses below which two starts went to one place
_MAX_ITERATIONS = 20_000  # at each smoothing
_PAIRS = 20  # of steps and gradients that L-BFGS remembers


class Minimum(NamedTuple):
    """Where a descent ended: the tree, its loss, and whether it is a stationary point."""

    tree: Tree
    value: float
    converged: bool


def fit_tree(
    weights: FloatArray, depth: int, data: Data, starts: int, rng: np.random.Generator
) -> Minimum:
    """Return the tree of least loss among those that several starts lead to.

    Parameters
    ----------
    weights : float64 (R, D + 1)
        A linear classifier of all features.
    depth, starts : int
    data : Data
    rng : numpy.random.Generator

    Warns
    -----
    ConvergenceWarning
        The best one is no stationary point.
    """
    looks = [
        _descended(tree, data, SMOOTHINGS[0], _FIRST_LOOK, _ROUGH)
        for tree in _starts(weights, depth, starts, data, rng)
    ]
    finalists: list[Minimum] = []
    for look in sorted(looks, key=lambda minimum: minimum.value):
        if not finalists or look.value > finalists[-1].value * (1.0 + _SAME):
            finalists.append(look)
    near = [_sharpened(look.tree, data) for look in finalists[:_FINALISTS]]
    best = min(near, key=lambda minimum: minimum.value)
    best = _descended(best.tree, data, SMOOTHINGS[-1], _MAX_ITERATIONS, 1.0)
    if not best.converged:
        warnings.warn(
            f"CSTC did not converge in {_MAX_ITERATIONS} iterations; its tree may depend on that "
            "limit",
            ConvergenceWarning,
            stacklevel=2,
        )
    return best


def _sharpened(tree: Tree, data: Data) -> Minimum:
    """Follow a minimum, roughly, down to the last smoothing but one."""
    for smoothing in SMOOTHINGS[:-1]:
        found = _descended(tree, data, smoothing, _MAX_ITERATIONS, _ROUGH)
        tree = found.tree
    return found


def _descended(
    tree: Tree, data: Data, smoothing: float, iterations: int, tolerance: float
) -> Minimum:
    """Minimise the loss jointly over all of the tree by L-BFGS."""

    def flat_loss(flat: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(tree.like(flat), data, smoothing)
        return value, gradient.flat()

    found = minimize(
        flat_loss,
        tree.flat(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "gtol": tolerance * GRADIENT_TOLERANCE,
            "ftol": tolerance * _DECREASE,
            "maxcor": _PAIRS,
        },
    )
    return Minimum(tree.like(found.x), float(found.fun), bool(found.success))


def _starts(
    weights: FloatArray, depth: int, count: int, data: Data, rng: np.random.Generator
) -> Iterator[Tree]:
    """Yield trees to start from.

    First the same classifier at every node: gates that divide its scores into as many ranges as
    there are leaves, then gates that all cut them in half. After these random classifiers and
    gates at 0.
    """
    nodes, inner = 2 ** (depth + 1) - 1, 2**depth - 1
    level = np.log2(np.arange(inner) + 1).astype(np.int64)
    place = np.arange(inner) + 1 - 2**level
    shares = [(2 * place + 1) / 2 ** (level + 1), np.full(inner, 0.5)]
    scores = data.Z @ weights.T
    for number in range(count):
        tree = Tree(np.tile(weights, (nodes, 1, 1)), np.zeros(inner))
        if number < len(shares):
            tree.gates[:] = [
                np.quantile(scores[:, score], 1.0 - share)  # the first child has the greater scores
                for score, share in zip(gate_places(tree)[1], shares[number], strict=True)
            ]
            yield tree
        else:
            yield tree._replace(weights=rng.normal(size=(nodes, *weights.shape)))
        if not depth:
            return  # convex: there is one minimum
