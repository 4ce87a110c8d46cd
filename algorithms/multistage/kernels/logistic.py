"""Many l2-penalised logistic regressions on subsets of columns, by Newton's method.

The model is scikit-learn's ``LogisticRegression``: minimise ``C * sum of log losses + |W|^2 / 2``
with an unpenalised intercept; sigmoid for two classes, softmax for more. Every fit ends when no
component of the gradient of that sum exceeds 1e-9 (or what rounding leaves of it, where C times the
number of records is in the millions), so that no solver's tolerance decides a prediction. It starts
at zero, or where it is one of many at the coefficients of the classifier on all columns (two of
six or seven iterations less): either way it depends on its own columns and the data alone, not on
what was fitted before.

Two classes have a method of their own with as little work as it needs: one exponential per record
and iteration gives the probability, its slope and the residual. The general one for several classes
takes two and builds its Hessian from both. Softmax is fitted in ``K - 1`` free directions that span
the weights summing to zero, where the optimum lies (the penalty is least there); that leaves a
smaller and regular Hessian.

Design matrices are passed with one row per column of the data (``(D, N)``), so that the sums over
records run along contiguous memory. The order of those sums is left to the compiler (two to three
times faster); what that changes is far below the tolerance and the slack that decisions have.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from algorithms.multistage.kernels.decisions import (
    BY_CONFIDENCE,
    RiskRule,
    decide,
    decide_by_risk,
)
from algorithms.multistage.kernels.sums import combine, dot, dots, exponential, solve_in_place
from framework.arrays import Array, FloatArray, IntArray, WordArray, frozen
from framework.jit import copy, njit

GRADIENT_TOLERANCE = 1e-9
ROUNDING = 2.0**-52
MAX_ITERATIONS = 200
BLOCK = 4096  # records at a time
LARGE = 65536  # records from which a part of them gives the start and the first Hessian
START_PART = 16  # every so many records,
HESSIAN_PART = 4  # and every so many blocks
KEPT = 0.1  # of a gradient that a step may leave where the Hessian stays
PATIENCE = 4  # steps without a smaller gradient, as full steps may go to and fro for ever


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


@njit
def binary_probabilities(S: Array, theta: Array, P: Array, start: int = 0) -> None:
    """Fill ``P`` (2, m) with the probabilities of two classes; ``S`` (d, N), ``theta`` (d,).

    They are those of the ``m`` records from ``start`` on.
    """
    n = P.shape[1]
    first, second = P[0], P[1]
    power = np.empty(n)
    combine(S, theta, first, start)
    for i in range(n):
        first[i] = -first[i]
    exponential(first, power)
    for i in range(n):
        second[i] = 1.0 / (1.0 + first[i])
        first[i] *= second[i]


@njit
def binary_newton(
    S: Array, y: Array, weights: Array, C: float, tolerance: float, theta: Array
) -> bool:
    """Minimise ``C * sum of log losses + |weights|^2 / 2`` of two classes by full Newton steps.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (d, N)
        The last row is all ones; its weight is not penalised.
    y : numpy.ndarray of int64, shape (N,)
        0 or 1.
    weights : numpy.ndarray of float64, shape (N,)
        How much each record counts.
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

    Notes
    -----
    Of ``LARGE`` records or more, a part gives the start and the Hessian, which stays while each
    step leaves at most ``KEPT`` of the gradient; the gradient is that of all records always.
    """
    d, n = S.shape
    slope, g, H, L = np.empty(n), np.empty(d), np.empty((d, d)), np.empty((d, d))
    large, made = n >= LARGE, 0
    before, least, idle = np.inf, np.inf, 0
    for _ in range(MAX_ITERATIONS):
        worst = _binary_gradient(S, y, weights, C, theta, slope, g)
        if worst < tolerance:
            return True
        if math.isnan(worst):
            return False
        idle = 0 if worst < least else idle + 1
        if worst > 2.0 * before or idle == PATIENCE:
            return False
        if not large or not made or worst > KEPT * before:
            made += 1
            _binary_hessian(S, slope, C, HESSIAN_PART if large and made == 1 else 1, H)
        before, least = worst, min(worst, least)
        for a in range(d):
            copy(H[a], L[a])
        if not solve_in_place(L, g, d):
            return False
        for a in range(d):
            theta[a] -= g[a]
    return False


@njit
def _binary_gradient(
    S: Array, y: Array, weights: Array, C: float, theta: Array, slope: Array, g: Array
) -> float:
    """Fill ``slope`` (N,) and ``g`` (d,); return the largest component of ``g``, or NaN."""
    d, n = S.shape
    P, piece = np.empty((2, min(n, BLOCK))), np.empty(d)
    g[:] = 0.0
    for start in range(0, n, BLOCK):  # a block of all columns stays in the cache
        stop = min(n, start + BLOCK)
        if stop - start < P.shape[1]:
            P = np.empty((2, stop - start))
        binary_probabilities(S, theta, P, start)
        first, second = P[0], P[1]
        s, w, t = slope[start:stop], weights[start:stop], y[start:stop]
        for i in range(len(s)):
            s[i] = first[i] * (second[i] * w[i])
            second[i] = (second[i] - t[i]) * w[i]  # the residual
        dots(second, S, d, piece, start)
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
def _binary_hessian(S: Array, slope: Array, C: float, every: int, H: Array) -> None:
    """Fill the lower triangle of ``H`` from every so many blocks of the records."""
    d, n = S.shape
    t, row = np.empty(min(n, BLOCK)), np.empty(d)
    H[:] = 0.0
    seen = 0
    for start in range(0, n, BLOCK * every):
        stop = min(n, start + BLOCK)
        seen += stop - start
        part = t[: stop - start]
        for a in range(d):
            s, column = slope[start:stop], S[a][start:stop]
            for i in range(len(part)):
                part[i] = C * s[i] * column[i]
            dots(part, S, a + 1, row, start)
            for b in range(a + 1):
                H[a, b] += row[b]
    for a in range(d):
        if seen < n:
            for b in range(a + 1):
                H[a, b] *= n / seen
        if a < d - 1:
            H[a, a] += 1.0


def probabilities(S: Array, theta: Array, basis: FloatArray, P: Array) -> None:
    """Fill ``P`` (classes, N) with class probabilities.

    ``S`` is (d, N), its last row all ones; ``theta`` is (free directions, d).
    """
    _probabilities(S, theta, _several(basis), P)


def _several(basis: FloatArray) -> FloatArray | None:
    """Return the basis for kernels, to which None says that there are two classes.

    Numba takes out what an argument of None rules out, so that a search compiles one method.
    """
    return None if len(basis) == 2 else basis


@njit
def _probabilities(S: Array, theta: Array, basis: Array | None, P: Array) -> None:
    if basis is None:
        binary_probabilities(S, theta[0], P)
    else:
        _softmax(S, theta, basis, P)


@njit
def _softmax(S: Array, theta: Array, basis: Array, P: Array) -> None:
    k, free = basis.shape
    n = S.shape[1]
    P[:] = 0.0
    z, top, power = np.empty(n), np.empty(n), np.empty(n)
    for j in range(free):
        combine(S, theta[j], z)
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
    P: Array,
    y: Array,
    weights: Array,
    basis: Array,
    theta: Array,
    C: float,
    g: Array,
    r: Array,
) -> float:
    """Fill ``g`` (free * d) and return its largest absolute component; ``r`` is (N,) scratch."""
    d, n = S.shape
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
        dots(r, S, d, piece)
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
def _hessian(
    S: Array, P: Array, weights: Array, basis: Array, C: float, H: Array, T: Array
) -> None:
    """Fill the lower triangle of ``H`` (free * d square); ``T`` is (4, N) scratch.

    Block (p, q) is ``C * S diag(m) S'`` with ``m_i = b_p' (diag(P_i) - P_i P_i') b_q`` times
    the weight of the record, symmetric in the columns too, so each block costs half.
    """
    d, n = S.shape
    k, free = basis.shape
    m, left, right, t = T[0], T[1], T[2], T[3]
    row = np.empty(d)
    for p in range(free):
        for q in range(p + 1):  # the lower triangle is all that the solver reads
            m[:], left[:], right[:] = 0.0, 0.0, 0.0
            for c in range(k):
                u, v = basis[c, p], basis[c, q]
                if u != 0.0 or v != 0.0:
                    for i in range(n):
                        m[i] += u * v * P[c, i]
                        left[i] += u * P[c, i]
                        right[i] += v * P[c, i]
            for i in range(n):
                m[i] = C * (m[i] - left[i] * right[i]) * weights[i]
            for a in range(d):
                for i in range(n):
                    t[i] = m[i] * S[a, i]
                dots(t, S, a + 1, row)
                for b in range(a + 1):
                    H[p * d + a, q * d + b] = row[b]
                    H[p * d + b, q * d + a] = row[b]
        for a in range(d - 1):
            H[p * d + a, p * d + a] += 1.0


def fit(S: Array, y: Array, weights: Array, basis: FloatArray, C: float, theta: Array) -> bool:
    """Fit one classifier from a start; return whether it converged.

    Full Newton steps first, from the start and then from zero; where the gradient grows or no
    longer falls (rare), once more with a line search.

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
    data = S, y, weights
    done = _fit(*data, _several(basis), C, theta)
    return done or (len(basis) == 2 and _fit(*data, basis, C, theta))


@njit
def _fit(S: Array, y: Array, weights: Array, basis: Array | None, C: float, theta: Array) -> bool:
    """Do as :func:`fit` does: two classes without a line search, or with a basis only with it."""
    # the loss is convex: a start decides how many steps it takes, not where they end
    done = False
    for every in (START_PART, 1):
        if every > 1 and len(y) < LARGE:
            continue
        part = slice(0, len(y), every)
        few = S if every == 1 else np.ascontiguousarray(S[:, part])
        classes, counts, strength = y[part].copy(), weights[part].copy(), C * every
        warm = False
        for j in range(theta.shape[0]):
            for a in range(theta.shape[1]):
                warm = warm or theta[j, a] != 0.0
        # one place that calls each method: what is called is compiled into it
        for attempt in range(0 if warm else 1, 3):
            if basis is None and attempt == 2:
                return False
            if basis is not None and len(basis) == 2 and attempt < 2:
                continue
            if attempt > 0:
                theta[:] = 0.0
            if basis is None:
                tolerance = _tolerance(strength, counts)
                done = binary_newton(few, classes, counts, strength, tolerance, theta[0])
            else:
                done = _newton(few, classes, counts, basis, strength, theta, attempt == 2)
            if done:
                break
    return done


@njit
def _tolerance(C: float, weights: Array) -> float:
    greatest = 0.0
    for weight in weights:
        greatest = max(greatest, weight)
    return max(GRADIENT_TOLERANCE, ROUNDING * C * greatest * len(weights))


@njit
def _newton(
    S: Array, y: Array, weights: Array, basis: Array, C: float, theta: Array, careful: bool
) -> bool:
    d, n = S.shape
    k, free = basis.shape
    size = free * d
    P, g, r = np.empty((k, n)), np.empty(size), np.empty(n)
    H, T = np.zeros((size, size)), np.empty((4, n))
    old, step = np.empty((free, d)), np.empty(size)
    _softmax(S, theta, basis, P)
    loss = _loss(P, y, weights, theta, C) if careful else 0.0
    before, least, idle = np.inf, np.inf, 0
    tolerance = _tolerance(C, weights)
    for _ in range(MAX_ITERATIONS):
        worst = _gradient(S, P, y, weights, basis, theta, C, g, r)
        if worst < tolerance:
            return True
        idle = 0 if worst < least else idle + 1
        if not careful and (worst > 2.0 * before or idle == PATIENCE):
            return False
        before, least = worst, min(worst, least)
        _hessian(S, P, weights, basis, C, H, T)
        copy(g, step)
        if not solve_in_place(H, step, size):
            return False
        slope = dot(g, step)
        for j in range(free):
            copy(theta[j], old[j])
        length = 1.0
        while True:
            for j in range(free):
                for a in range(d):
                    theta[j, a] = old[j, a] - length * step[j * d + a]
            _softmax(S, theta, basis, P)
            if not careful:
                break
            new = _loss(P, y, weights, theta, C)
            # near the optimum the decrease drowns in rounding; the full step is right there
            if new <= loss - 1e-4 * length * slope or slope <= 1e-10 * (1.0 + abs(loss)):
                loss = new
                break
            length *= 0.5
            if length < 1e-10:
                return False
    return False


def out_of_fold(
    S: FloatArray,
    y: IntArray,
    weights: FloatArray,
    folds: IntArray,
    basis: FloatArray,
    C: float,
    P: FloatArray,
) -> bool:
    """Fill ``P`` with the probabilities of each record by the fit on the other folds.

    Parameters
    ----------
    S : numpy.ndarray of float64, shape (d, N)
        One row per column of the data; the last row is all ones.
    y, folds : numpy.ndarray of int64, shape (N,)
        Class codes; fold of each record, from 0.
    weights, basis, C : see :func:`fit`
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
    design : shape (D, training records)
    y : shape (training records,)
        Class codes.
    weights : shape (training records,)
        How much each record counts.
    first : shape (n + 1,)
        Feature ``i`` has the rows ``first[i]`` to ``first[i + 1] - 1`` of the design.
    basis : shape (classes, free)
        See :func:`class_basis`.
    C : float
        Inverse strength of the penalty.
    start : shape (free, D + 1)
        Coefficients on all columns to start from, the intercept last; zeros for none.
    """

    design: FloatArray
    y: IntArray
    weights: FloatArray
    first: IntArray
    basis: FloatArray
    C: float
    start: FloatArray


class HeldOut(NamedTuple):
    """Records that classifiers are scored on, and what makes an answer.

    Attributes
    ----------
    design : shape (D, records)
    y : shape (records,)
        Class codes.
    n_validation : int
        How many of the records, the first, are for validation; the others are for tests.
    thresholds : shape (classes,)
    positive : int
        Code of the positive class, -1 for none.
    slack : float
        How far below its threshold a probability may be.
    rule : RiskRule
        Makes the answers in place of the thresholds where it has classes.
    """

    design: FloatArray
    y: IntArray
    n_validation: int
    thresholds: FloatArray
    positive: int
    slack: float
    rule: RiskRule = BY_CONFIDENCE


def fit_subsets(
    keys: WordArray, training: Fit, held: HeldOut, bits: WordArray, models: FloatArray
) -> IntArray:
    """Fit one classifier per key and score it on the validation and the test records.

    Parameters
    ----------
    keys : shape (m, key words)
        Feature sets, bit ``i`` of word ``i // 64`` for feature ``i``.
    training : Fit
    held : HeldOut
    bits : shape (m, planes, words), zeros
        Filled by :func:`decide`: the words of the validation records, then those of the test
        records.
    models : shape (m, free, D + 1), zeros
        Filled with the coefficients at their rows of the design; the intercept is last.

    Returns
    -------
    numpy.ndarray of int64
        1 for each fit that did not converge, shape (m,).
    """
    basis, rule = _several(training.basis), held.rule if len(held.rule.errors) else None
    failed: IntArray = _fit_subsets(keys, training, basis, held, rule, bits, models)
    if basis is None and failed.any():  # rare
        again = np.flatnonzero(failed)
        answers, fitted = bits[again], models[again]
        setting = training, training.basis, held, rule
        failed[again] = _fit_subsets(keys[again], *setting, answers, fitted)
        bits[again], models[again] = answers, fitted
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
) -> IntArray:
    """Do as :func:`fit_subsets` does, by :func:`_fit`; ``rule`` is None where thresholds decide."""
    first, start, cut = training.first, training.start, held.n_validation
    n_features, n_columns = len(first) - 1, len(training.design)
    k, free = training.basis.shape  # of two classes too
    n_held = held.design.shape[1]
    words = (cut + 63) // 64
    chosen = np.empty(n_columns, dtype=np.int64)
    room = np.empty((n_columns + 1, len(training.y)))
    room_held = np.empty((n_columns + 1, n_held))
    failed = np.zeros(len(keys), dtype=np.int64)
    for m in range(len(keys)):
        d = 0
        for i in range(n_features):
            if (keys[m, i >> 6] >> np.uint64(i & 63)) & np.uint64(1):
                for c in range(first[i], first[i + 1]):
                    chosen[d] = c
                    d += 1
        S, E = room[: d + 1], room_held[: d + 1]
        for a in range(d):
            copy(training.design[chosen[a]], S[a])
            copy(held.design[chosen[a]], E[a])
        S[d], E[d] = 1.0, 1.0
        theta, P = np.empty((free, d + 1)), np.empty((k, n_held))
        for j in range(free):
            for a in range(d):
                theta[j, a] = start[j, chosen[a]]
            theta[j, d] = start[j, -1]
        if not _fit(S, training.y, training.weights, basis, training.C, theta):
            failed[m] = 1
            continue
        _probabilities(E, theta, basis, P)
        limits, positive, slack = held.thresholds, held.positive, held.slack
        if rule is None:
            grid = held.rule.limits
            decide(P[:, :cut], limits, held.y[:cut], positive, slack, grid, bits[m, :, :words])
            decide(P[:, cut:], limits, held.y[cut:], positive, slack, grid, bits[m, :, words:])
        else:
            decide_by_risk(P[:, :cut], rule, held.y[:cut], positive, bits[m, :, :words])
            decide_by_risk(P[:, cut:], rule, held.y[cut:], positive, bits[m, :, words:])
        for j in range(free):
            for a in range(d):
                models[m, j, chosen[a]] = theta[j, a]
            models[m, j, -1] = theta[j, d]
    return failed
