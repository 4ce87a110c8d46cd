"""CaCT LASSO: one logistic regression on the features that an l1 penalty leaves.

It is fitted by accelerated proximal gradient steps. These make coefficients exactly zero, so that
the features that are not acquired are well defined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from algorithms.multistage.papers.budgeted import BudgetedClassifier
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.jit import copy, njit, njit_sum
from framework.models.classifiers import LinearProbability

TOLERANCE = 1e-6
MAX_ITERATIONS = 20_000


@njit_sum
def _residuals(Z: Array, target: Array, W: Array, residual: Array) -> None:
    """Write probability minus target, (n, R): by a sigmoid for R = 1, else by softmax."""
    n, width = Z.shape
    rows = W.shape[0]
    for i in range(n):
        top = -np.inf
        for r in range(rows):
            score = W[r, width]
            for j in range(width):
                score += W[r, j] * Z[i, j]
            residual[i, r] = score
            top = max(top, score)
        if rows == 1:
            residual[i, 0] = 1.0 / (1.0 + math.exp(-max(min(top, 700.0), -700.0)))
        else:
            total = 0.0
            for r in range(rows):
                residual[i, r] = math.exp(residual[i, r] - top)
                total += residual[i, r]
            for r in range(rows):
                residual[i, r] /= total
        for r in range(rows):
            residual[i, r] -= target[i, r]


@njit
def _step(Z: Array, residual: Array, V: Array, step: float, penalty: float, out: Array) -> float:
    """Write the proximal gradient step from ``V``; return its greatest change over ``step``."""
    n, width = Z.shape
    out[:] = 0.0
    for i in range(n):
        for r in range(V.shape[0]):
            for j in range(width):
                out[r, j] += residual[i, r] * Z[i, j]
            out[r, width] += residual[i, r]
    moved = 0.0
    for r in range(V.shape[0]):
        for j in range(width + 1):
            value = V[r, j] - step * out[r, j]
            if j < width:  # the intercept is not penalised
                shrunk = max(abs(value) - step * penalty, 0.0)
                value = math.copysign(shrunk, value) if shrunk > 0.0 else 0.0
            moved = max(moved, abs(value - V[r, j]))
            out[r, j] = value
    return moved / step


@njit
def _descend(Z: Array, target: Array, penalty: float, step: float, W: Array) -> None:
    """Minimise from ``W``, in place, by FISTA; momentum starts again where it points uphill."""
    V, new = W.copy(), W.copy()
    residual = np.empty(target.shape)
    momentum = 1.0
    for _ in range(MAX_ITERATIONS):
        _residuals(Z, target, V, residual)
        if _step(Z, residual, V, step, penalty, new) <= TOLERANCE:
            break
        uphill = 0.0
        for r in range(W.shape[0]):
            for j in range(W.shape[1]):
                uphill += (V[r, j] - new[r, j]) * (new[r, j] - W[r, j])
        following = 1.0 if uphill > 0.0 else 0.5 + math.sqrt(0.25 + momentum * momentum)
        pull = 0.0 if uphill > 0.0 else (momentum - 1.0) / following
        for r in range(W.shape[0]):
            for j in range(W.shape[1]):
                V[r, j] = new[r, j] + pull * (new[r, j] - W[r, j])
                W[r, j] = new[r, j]
        momentum = following
    for r in range(W.shape[0]):
        copy(new[r], W[r])


def fit_l1(Z: FloatArray, target: FloatArray, penalty: float) -> FloatArray:
    """Minimise ``sum of log losses + penalty * |W|_1``; the intercept is not penalised.

    Parameters
    ----------
    Z : float64 (n, D)
    target : float64 (n, R)
        1 for the class of the record, else 0. Two classes have one column, that of the second
        class; more have one each.
    penalty : float
        At least 0, in units of the summed log loss; glmnet's lambda is this divided by n.

    Returns
    -------
    float64 (R, D + 1)
        Weights and, as the last column, intercepts.

    Notes
    -----
    Ends when no component of the proximal gradient exceeds 1e-6, or after 20,000 steps of
    O(n D R) each (classes that can be separated have no unpenalised optimum).

    References
    ----------
    Beck and Teboulle 2009 (FISTA); O'Donoghue and Candes 2015 (the restart).
    """
    augmented = np.column_stack([Z, np.ones(len(Z))])
    curvature = 0.25 if target.shape[1] == 1 else 0.5
    largest = float(np.linalg.eigvalsh(augmented.T @ augmented)[-1])
    W = np.zeros((target.shape[1], augmented.shape[1]))
    _descend(np.ascontiguousarray(Z), target, float(penalty), 1.0 / (curvature * largest), W)
    return W


@dataclass(eq=False, repr=False)
class CaCTLasso(BudgetedClassifier):
    """Cost-and-coverage-tuned LASSO, for one value of its penalty (EMSCO, Section 4.3).

    Every record needs the same features: those with a coefficient other than zero. The penalty is
    tuned by :class:`~algorithms.multistage.papers.tuning.Tuned`.

    Parameters
    ----------
    penalty : float
        The paper's lambda, at least 0, as the weight of the l1 norm beside the *summed* log loss
        (scikit-learn's 1 / C). With this scale, the paper's grid from 0 to 100 reaches from no
        penalty to no feature on its data.
    costs, threshold, reject_label
        See :class:`~algorithms.multistage.papers.budgeted.BudgetedClassifier`.

    Attributes
    ----------
    linear_ : LinearProbability
        The fit on encoded columns: a sigmoid for two classes, softmax for more.
    features_ : int64 (m,), the features acquired
    """

    penalty: float = 1.0

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if not 0 <= self.penalty < np.inf:
            raise InputError(f"penalty: expected a number from 0, found {self.penalty}")
        W = fit_l1(Z, self._targets(codes), self.penalty)
        self.linear_ = LinearProbability(self.classes_, W[:, :-1], W[:, -1])
        self.features_ = np.unique(self._feature_of()[(W[:, :-1] != 0).any(axis=0)])

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        return self.linear_.predict_proba(Z)

    def _needs(self, Z: FloatArray) -> BoolArray:
        needed = np.zeros((len(Z), len(self.costs_)), dtype=bool)
        needed[:, self.features_] = True
        return needed
