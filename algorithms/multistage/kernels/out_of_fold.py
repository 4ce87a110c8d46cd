"""Predictions for training records by classifiers that have not seen them."""

from __future__ import annotations

import numpy as np

from algorithms.multistage.kernels.logistic import fit, probabilities
from framework.arrays import FloatArray, IntArray
from framework.jit import njit


@njit
def out_of_fold(
    S: FloatArray, y: IntArray, folds: IntArray, basis: FloatArray, C: float, P: FloatArray
) -> bool:
    """Fill ``P`` with the probabilities of each record by the fit on the other folds.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (d, N)
        A row a column of the data; the last row is all ones.
    y, folds : numpy.ndarray of int64, shape (N,)
        Class codes; fold of each record, from 0.
    basis, C : see :func:`algorithms.multistage.kernels.logistic.fit`
    P : numpy.ndarray of float64, shape (classes, N)

    Returns
    -------
    bool
        Whether all fits converged.
    """
    d = len(S)
    theta = np.empty((basis.shape[1], d))
    for f in range(folds.max() + 1):
        inside, outside = np.flatnonzero(folds != f), np.flatnonzero(folds == f)
        seen, unseen = np.empty((d, len(inside))), np.empty((d, len(outside)))
        for a in range(d):
            for i in range(len(inside)):
                seen[a, i] = S[a, inside[i]]
            for i in range(len(outside)):
                unseen[a, i] = S[a, outside[i]]
        theta[:] = 0.0
        if not fit(seen, y[inside], basis, C, theta):
            return False
        Q = np.empty((len(P), len(outside)))
        probabilities(unseen, theta, basis, Q)
        for c in range(len(P)):
            for i in range(len(outside)):
                P[c, outside[i]] = Q[c, i]
    return True
