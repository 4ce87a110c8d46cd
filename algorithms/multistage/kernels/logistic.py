"""Many l2-penalised logistic regressions on subsets of columns, by Newton's method.

The model is scikit-learn's ``LogisticRegression``: minimise ``C * sum of log losses + |W|^2 / 2``
with an unpenalised intercept; sigmoid for two classes, softmax for more. Every fit ends when no
component of the gradient of that sum exceeds 1e-9, or 1e-12 for each record if there are more than
a thousand, as the curvature of the sum grows with their number (or what rounding leaves of it,
where C times the number of records is in the millions). No prediction depends on where a solver
stopped. A single fit starts at zero. One of many starts where the classifier on all columns lets
expect its end (see :mod:`~algorithms.multistage.kernels.starts`). Either way a fit depends only on
its columns and the data, not on what was fitted before.

Two classes have a method of their own, :mod:`~algorithms.multistage.kernels.binary`, which takes
half the exponentials of the general one, :mod:`~algorithms.multistage.kernels.softmax`.

Design matrices have one row per column of the data (``(D, N)``), so that sums over records run
along contiguous memory; a fit is told which rows it uses. The order of these sums is left to the
compiler (two to three times faster). What that changes is far below the tolerance of the fits and
the slack of decisions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from algorithms.moves.bits import words_for
from algorithms.multistage.kernels.binary import LARGE, binary_newton, binary_probabilities
from algorithms.multistage.kernels.decisions import BY_CONFIDENCE, RiskRule, decide, decide_by_risk
from algorithms.multistage.kernels.softmax import softmax, softmax_newton
from algorithms.multistage.kernels.starts import Start, expected_start
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray, frozen
from framework.jit import njit
from framework.machine import in_threads

GRADIENT_TOLERANCE = 1e-9  # with up to ``FEW_RECORDS``; of more, it grows with their number
FEW_RECORDS = 1024.0
ROUNDING = 2.0**-52
START_PART = 16  # of ``LARGE`` records or more, one in so many is fitted first, to give a start


def class_basis(n_classes: int) -> FloatArray:
    """Return the directions in which logits may move, shape (classes, free directions).

    Two classes: the second class alone, as scikit-learn has it. More: an orthonormal basis of the
    vectors that sum to zero.
    """
    if n_classes == 2:
        return np.array([[0.0], [1.0]])
    basis = np.zeros((n_classes, n_classes - 1))
    for j in range(1, n_classes):  # Helmert contrasts
        basis[:j, j - 1] = 1.0 / math.sqrt(j * (j + 1))
        basis[j, j - 1] = -j / math.sqrt(j * (j + 1))
    return basis


def probabilities(S: Array, theta: Array, basis: FloatArray, P: Array) -> None:
    """Fill ``P`` (classes, N) with class probabilities.

    ``S`` is (d, N), its last row all ones; ``theta`` is (free directions, d).
    """
    _probabilities(S, np.arange(len(S)), theta, _several(basis), P)


def _several(basis: FloatArray) -> FloatArray | None:
    """Return the basis as kernels expect it: None if there are two classes.

    Numba leaves out the branches that None rules out, so that a search compiles one method only.
    """
    return None if len(basis) == 2 else basis


@njit
def _probabilities(S: Array, rows: Array, theta: Array, basis: Array | None, P: Array) -> None:
    if basis is None:
        binary_probabilities(S, rows, theta[0], P, 0)
    else:
        softmax(S, rows, theta, basis, P)


def fit(S: Array, y: Array, weights: Array, basis: FloatArray, C: float, theta: Array) -> bool:
    """Fit one classifier from a start; return whether it converged.

    Full Newton steps are tried first, from ``theta`` and then from zero. Where the gradient grows
    or no longer falls (rare), steps with a line search follow.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (d, N)
        One row per column of the data; the last row is all ones (the intercept).
    y : numpy.ndarray of int64, shape (N,)
        Class codes.
    weights : numpy.ndarray of float64, shape (N,)
        How much each record counts.
    basis : numpy.ndarray, shape (classes, free)
        See :func:`class_basis`.
    C : float
        Inverse strength of the penalty.
    theta : numpy.ndarray of float64, shape (free, d)
        Where to start; overwritten with the coefficients.

    Notes
    -----
    O(iterations * free^2 * N d^2 / 2); four to six iterations are usual.
    """
    first, nothing = frozen(np.arange(len(S))), frozen(np.empty((0, 0)))
    start = Start(frozen(theta.copy()), nothing, nothing)
    training = Fit(*with_part(S, y, weights), first, basis, C, start)
    unscored = frozen(np.empty((len(S), 0))), frozen(y[:0]), 0, frozen(np.zeros(len(basis)))
    every = np.full((1, words_for(len(S) - 1)), ~np.uint64(0))  # the kernel of many fits one, too
    bits, models = np.zeros((1, 2, 0), dtype=np.uint64), np.zeros((1, *theta.shape))
    held = HeldOut(*unscored, positive=-1, slack=0.0)
    failed = fit_subsets(every, training, held, bits, models, np.zeros(1, dtype=bool))
    theta[:] = models[0]
    return not failed.any()


class Records(NamedTuple):
    """The records of a fit.

    Attributes
    ----------
    design : shape (D + 1, n)
        The last row is all ones (the intercept).
    y : shape (n,)
        Class codes.
    weights : shape (n,)
        How much each record counts.
    """

    design: FloatArray
    y: IntArray
    weights: FloatArray


def with_part(design: FloatArray, y: IntArray, weights: FloatArray) -> tuple[Records, Records]:
    """Return records, and one in ``START_PART`` if there are ``LARGE`` of them, else all again."""
    records = Records(frozen(design), frozen(y), frozen(weights))
    if len(y) < LARGE:
        return records, records
    part = design[:, ::START_PART], y[::START_PART], weights[::START_PART]
    return records, Records(*(frozen(np.ascontiguousarray(array)) for array in part))


@njit
def _fit(
    records: Records,
    part: Records,
    rows: Array,
    basis: Array | None,
    C: float,
    products: Array,
    theta: Array,
) -> bool:
    """Do as :func:`fit` does; ``part`` gives the start if it has fewer records.

    Two classes are fitted without a line search where ``basis`` is None, otherwise only with it.
    """
    # the loss is convex: a start decides how many steps a fit takes, not where they end
    done = False
    for every, (S, y, weights) in ((START_PART, part), (1, records)):
        if every > 1 and len(part.y) == len(records.y):
            continue
        strength, warm = C * every, False
        for j in range(theta.shape[0]):
            for a in range(theta.shape[1]):
                warm = warm or theta[j, a] != 0.0
        # each method is called in one place only, as the compiler copies it into every caller
        for attempt in range(0 if warm else 1, 3):
            if basis is None and attempt == 2:
                return False
            if basis is not None and len(basis) == 2 and attempt < 2:
                continue
            if attempt > 0:
                theta[:] = 0.0
            tolerance = _tolerance(strength, weights)
            if basis is None:
                setting = S, rows, y, weights, strength, tolerance, products
                done = binary_newton(*setting, theta[0])
            else:
                several = S, rows, y, weights, basis, strength, tolerance, products
                done = softmax_newton(*several, theta, attempt == 2)
            if done:
                break
    return done


@njit
def _tolerance(C: float, weights: Array) -> float:
    greatest = 0.0
    for weight in weights:
        greatest = max(greatest, weight)
    limit = GRADIENT_TOLERANCE * max(1.0, len(weights) / FEW_RECORDS)
    return max(limit, ROUNDING * C * greatest * len(weights))


def out_of_fold(
    S: FloatArray,
    y: IntArray,
    weights: FloatArray,
    folds: IntArray,
    basis: FloatArray,
    C: float,
    P: FloatArray,
) -> bool:
    """Fill ``P`` with class probabilities, those of each record by the fit on the other folds.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (d, N)
        One row per column of the data; the last row is all ones.
    y, folds : numpy.ndarray of int64, shape (N,)
        Class codes; fold of each record, from 0.
    weights, basis, C
        See :func:`fit`.
    P : numpy.ndarray of float64, shape (classes, N)

    Returns
    -------
    bool
        Whether all fits converged.
    """
    for f in range(folds.max() + 1):
        inside, outside = np.flatnonzero(folds != f), np.flatnonzero(folds == f)
        theta = np.zeros((basis.shape[1], len(S)))
        seen, unseen = np.take(S, inside, axis=1), np.take(S, outside, axis=1)
        if not fit(seen, frozen(y[inside]), frozen(weights[inside]), basis, C, theta):
            return False
        Q = np.empty((len(P), len(outside)))
        probabilities(unseen, theta, basis, Q)
        P[:, outside] = Q
    return True


class Fit(NamedTuple):
    """The training records and settings of all fits.

    Attributes
    ----------
    part : Records
        See :func:`with_part`.
    first : shape (n + 1,)
        Feature ``i`` has the rows ``first[i]`` to ``first[i + 1] - 1`` of the design.
    basis : shape (classes, free)
        See :func:`class_basis`.
    C : float
        Inverse strength of the penalty.
    start : Start
        What the starting points are computed from.
    """

    records: Records
    part: Records
    first: IntArray
    basis: FloatArray
    C: float
    start: Start


class HeldOut(NamedTuple):
    """Records that classifiers are scored on, and how probabilities become answers.

    Attributes
    ----------
    design : shape (D + 1, records)
        The last row is all ones (the intercept).
    y : shape (records,)
        Class codes.
    n_validation : int
        The first so many records are for validation, the others for tests.
    thresholds : shape (classes,)
    positive : int
        Code of the positive class, -1 for none.
    slack : float
        How far below its threshold a probability may be.
    rule : RiskRule
        Decides instead of the thresholds if it has classes, that is, if errors have costs.
    """

    design: FloatArray
    y: IntArray
    n_validation: int
    thresholds: FloatArray
    positive: int
    slack: float
    rule: RiskRule = BY_CONFIDENCE


def fit_subsets(
    keys: WordArray,
    training: Fit,
    held: HeldOut,
    bits: WordArray,
    models: FloatArray,
    ready: BoolArray,
) -> IntArray:
    """Fit one classifier per key and score it on the validation and the test records, in threads.

    Parameters
    ----------
    keys : shape (m, key words)
        Feature sets, bit ``i`` of word ``i // 64`` for feature ``i``.
    bits : shape (m, planes, words), zeros
        Filled by :func:`decide`: the words of the validation records, then those of the test
        records.
    models : shape (m, free, D + 1), zeros
        Filled with the coefficients at their rows of the design; the intercept is last.
    ready : shape (m,)
        Whether ``models`` already has the coefficients, so that the classifier is only scored.

    Returns
    -------
    numpy.ndarray of int64
        1 for each fit that did not converge, shape (m,).
    """
    basis, rule = _several(training.basis), held.rule if len(held.rule.errors) else None
    setting = training, basis, held, rule

    def fitted(part: slice) -> Array:
        return _fit_subsets(keys[part], *setting, bits[part], models[part], ready[part])

    failed = np.concatenate(in_threads(fitted, len(keys)))
    if basis is None and failed.any():  # rare
        again = np.flatnonzero(failed)
        answers, refitted = bits[again], models[again]
        safely = training, training.basis, held, rule
        failed[again] = _fit_subsets(keys[again], *safely, answers, refitted, ready[again])
        bits[again], models[again] = answers, refitted
    return failed


@njit
def _fit_subsets(
    keys: WordArray,
    training: Fit,
    basis: FloatArray | None,
    held: HeldOut,
    rule: RiskRule | None,
    bits: WordArray,
    models: FloatArray,
    ready: BoolArray,
) -> IntArray:
    """Do as :func:`fit_subsets` does; ``rule`` is None where thresholds decide."""
    first, cut, records = training.first, held.n_validation, training.records
    n_features, n_columns = len(first) - 1, len(records.design) - 1
    k, free = training.basis.shape  # not that of ``basis``, which may be None
    n_held = held.design.shape[1]
    words = (cut + 63) // 64
    chosen = np.empty(n_columns + 1, dtype=np.int64)
    products, strength = training.start.products, 0.0
    for weight in records.weights:
        strength += training.C * weight
    failed = np.zeros(len(keys), dtype=np.int64)
    for m in range(len(keys)):
        d = 0
        for i in range(n_features):
            if (keys[m, i >> 6] >> np.uint64(i & 63)) & np.uint64(1):
                for c in range(first[i], first[i + 1]):
                    chosen[d] = c
                    d += 1
        chosen[d] = n_columns
        rows, P = chosen[: d + 1], np.empty((k, n_held))
        theta = expected_start(training.start, rows, k, strength)
        if ready[m]:
            for j in range(free):
                for a in range(d + 1):
                    theta[j, a] = models[m, j, chosen[a]]
        elif not _fit(records, training.part, rows, basis, training.C, products, theta):
            failed[m] = 1
            continue
        _probabilities(held.design, rows, theta, basis, P)
        limits, positive, slack = held.thresholds, held.positive, held.slack
        if rule is None:
            grid = held.rule.limits
            decide(P[:, :cut], limits, held.y[:cut], positive, slack, grid, bits[m, :, :words])
            decide(P[:, cut:], limits, held.y[cut:], positive, slack, grid, bits[m, :, words:])
        else:
            decide_by_risk(P[:, :cut], rule, held.y[:cut], positive, bits[m, :, :words])
            decide_by_risk(P[:, cut:], rule, held.y[cut:], positive, bits[m, :, words:])
        for j in range(free):
            for a in range(d + 1):
                models[m, j, chosen[a]] = theta[j, a]
    return failed
