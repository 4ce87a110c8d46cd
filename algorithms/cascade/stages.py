"""What a cascade knows after each model that it asked: an answer and the confidence in it.

A *stage* stands for the models asked so far. Its thresholds are the different confidences of the
tuning records, so that a cut never divides records that tie; records of others are placed among
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.libraries.calls import CallTable

AnswerRule = Literal["own", "cumulative_mean", "vote"]
Calibration = Literal["confidences", "consensus"]

TENS = 10
"""Whole numbers to a calibrated outcome of 1."""

_STEPS, _LEAST = 50, 1e-6  # of Newton's method
_FOLDS, _RARE = 5, 0.01  # of a consensus; probabilities below and above it are not told apart


@dataclass(frozen=True)
class Stage:
    """The state of each record once the models of a stage have been asked.

    Attributes
    ----------
    cuts : numpy.ndarray of float64, shape (U,)
        The different confidences on the tuning records, ascending.
    level : numpy.ndarray of int64, shape (N,)
        How many of ``cuts`` a record's confidence reaches, at least 1.
    right : numpy.ndarray of bool, shape (N,)
    said : numpy.ndarray of int64, shape (N,), or None
        Positions of the answers among the labels.
    """

    cuts: FloatArray
    level: IntArray
    right: Array
    said: IntArray | None


class Stages:
    """The stages of a table of calls, each made when it is first asked for.

    Parameters
    ----------
    table : CallTable
    answer : {'own', 'cumulative_mean', 'vote'}
        What a stage answers: as its last model does; with the mean probabilities of all models
        asked so far; or with the answer that most of them gave, of equals the one that came first,
        its confidence being the mean confidence of all asked, 0 for those that say otherwise.
    tuning : Stages, optional
        Those whose confidences are the thresholds; its own if None.
    calibrate : {'confidences', 'consensus'}
        See :meth:`tens`.

    Raises
    ------
    InputError
        The rule needs probabilities or answers that the table does not have.
    """

    def __init__(
        self,
        table: CallTable,
        answer: AnswerRule = "own",
        tuning: Stages | None = None,
        calibrate: Calibration = "confidences",
    ) -> None:
        self.table, self.answer, self._tuning = table, answer, tuning
        self._known: dict[tuple[int, ...], Stage] = {}
        self._tens: dict[tuple[int, ...], IntArray] = {}
        self._consensus: FloatArray | None = None
        if calibrate == "consensus" and tuning is None:
            if table.probabilities is None or table.truth is None or table.truth.min() < 0:
                raise InputError(
                    f"{table.name}: calibrate: expected a table with probabilities of each class "
                    "and the true ones for consensus, found none; take confidences"
                )
            self._consensus = consensus_of(table.probabilities, table.truth, table.groups)
        if answer == "cumulative_mean" and table.probabilities is None:
            raise InputError(
                f"{table.name}: answer: expected a table with probabilities of each class for "
                "cumulative_mean, found none; take own"
            )
        if answer == "vote":
            sure = table.confidence
            if table.answers is None or table.truth is None:
                raise InputError(
                    f"{table.name}: answer: expected a table with the answers and the true ones "
                    "for vote, found none; take own"
                )
            if sure.min() < 0 or sure.max() > 1:
                raise InputError(
                    f"{table.name}: answer: expected confidences from 0 to 1 for vote, found "
                    f"{sure.min():g} to {sure.max():g}; take own"
                )

    def key(self, asked: Sequence[int]) -> tuple[int, ...]:
        """Return what tells stages apart, of the positions of the models asked, in their order."""
        if self.answer == "own":
            return (asked[-1],)
        return tuple(asked)

    def __getitem__(self, key: tuple[int, ...]) -> Stage:
        """Return the stage of a :meth:`key`."""
        if key not in self._known:
            confidence, right, said = self._state(key)
            cuts = np.unique(confidence) if self._tuning is None else self._tuning[key].cuts
            level = np.maximum(np.searchsorted(cuts, confidence, side="right"), 1)
            self._known[key] = Stage(cuts, level.astype(np.int64), right, said)
        return self._known[key]

    def tens(self, key: tuple[int, ...]) -> IntArray:
        """Return the calibrated outcomes of a stage, whole tenths from 0 to 10, shape (N,).

        Whether an answer is right is replaced by how probable that is, by a logistic regression on
        the ranks of all models' confidences. What is left out is luck, which a search would take
        for skill. By ``consensus`` an answer counts half as right or wrong, and half with its
        probability by all models (:func:`consensus_of`), which also tells stages apart that are
        right as often.
        """
        if self._tuning is not None:
            raise ValueError("calibrated outcomes are of tuning records alone")
        if key not in self._tens and self._consensus is not None:
            stage = self[key]
            assert stage.said is not None  # of a table with probabilities
            agreed = self._consensus[np.arange(len(stage.right)), stage.said]
            self._tens[key] = np.rint(TENS / 2 * (agreed + stage.right)).astype(np.int64)
        if key not in self._tens:
            self._tens[key] = calibrated(self.table.confidence, self[key].right)
        return self._tens[key]

    def _state(self, key: tuple[int, ...]) -> tuple[FloatArray, Array, IntArray | None]:
        table = self.table
        if self.answer == "own":
            m = key[0]
            return table.confidence[m], table.right[m], _row(table.answers, m)
        if self.answer == "cumulative_mean":
            assert table.probabilities is not None
            mean = mean_of(table.probabilities[list(key)])
            said = mean.argmax(axis=1)
            return mean.max(axis=1), said == table.truth, said
        assert table.answers is not None
        said, confidence = vote_of(table.answers[list(key)], table.confidence[list(key)])
        return confidence, said == table.truth, said


def mean_of(probabilities: Array) -> FloatArray:
    """Return the mean (N, C) of probabilities (models, N, C), added up in the order of models."""
    total = np.zeros(probabilities.shape[1:])
    for part in probabilities:
        total += part
    return total / len(probabilities)


def vote_of(answers: IntArray, confidence: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return what most models say and the confidence in it, both (N,), of answers (models, N)."""
    votes = (answers[:, None, :] == answers[None, :, :]).sum(axis=1)
    first = votes.argmax(axis=0)  # of equals the first
    said = np.take_along_axis(answers, first[None], axis=0)[0]
    agreed = np.zeros(answers.shape[1])
    for answer, sure in zip(answers, confidence, strict=True):
        agreed += np.where(answer == said, sure, 0.0)
    return said, agreed / len(answers)


def calibrated(confidence: FloatArray, right: Array) -> IntArray:
    """Return the probability that an answer is right, in tenths, given the ranks of confidences.

    Parameters
    ----------
    confidence : numpy.ndarray, shape (K, N)
        Of all models.
    right : numpy.ndarray of bool, shape (N,)

    Returns
    -------
    numpy.ndarray of int64, shape (N,)
    """
    n = len(right)
    if right.all() or not right.any():  # nothing to tell apart; half a record more of each
        share = (right.sum() + 0.5) / (n + 1)
        return np.full(n, round(TENS * share), dtype=np.int64)
    from scipy.stats import rankdata

    ranks = (rankdata(confidence, axis=1) - 0.5) / n
    features = np.log(ranks / (1 - ranks)).T
    return np.asarray(np.rint(TENS * _logistic(features, right)), dtype=np.int64)


def consensus_of(probabilities: Array, truth: IntArray, groups: IntArray | None) -> FloatArray:
    """Return how probable each class is by all models together, shape (N, C).

    A logarithmic pool: the models' log-probabilities with a weight each, and a bias for each class,
    fitted to the other folds by maximum likelihood with a ridge that draws the weights to the mean.

    Parameters
    ----------
    probabilities : numpy.ndarray, shape (K, N, C)
    truth : numpy.ndarray of int64, shape (N,)
    groups : numpy.ndarray of int64, shape (N,), or None
        Folds divide none.
    """
    logs = np.log(np.clip(probabilities.astype(np.float64), _RARE, 1 - _RARE))
    folds = (np.arange(len(truth)) if groups is None else groups) % _FOLDS
    pooled = np.zeros(logs.shape[1:])
    for fold in np.unique(folds):
        held = folds == fold
        others = ~held if not held.all() else held
        weights, bias = pool_weights(logs[:, others], truth[others])
        pooled[held] = _pooled(logs[:, held], weights, bias)
    return pooled


def pool_weights(logs: FloatArray, truth: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights (K,) of models and the biases (C,) of classes, the first of them 0.

    ``logs`` are log-probabilities, shape (K, N, C).
    """
    from scipy.optimize import minimize

    k, n, c = logs.shape

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        weights, bias = parameters[:k], np.append(0.0, parameters[k:])
        shares = _pooled(logs, weights, bias)
        missed = shares.copy()
        missed[np.arange(n), truth] -= 1
        pull = weights - 1 / k
        value = -np.log(np.maximum(shares[np.arange(n), truth], 1e-300)).sum() + 0.5 * pull @ pull
        return float(value), np.append(
            (logs * missed[None]).sum(axis=(1, 2)) + pull, missed.sum(axis=0)[1:]
        )

    start = np.append(np.full(k, 1 / k), np.zeros(c - 1))
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return best[:k], np.append(0.0, best[k:])


def _pooled(logs: FloatArray, weights: FloatArray, bias: FloatArray) -> FloatArray:
    sums = np.tensordot(weights, logs, 1) + bias
    shares = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _logistic(features: FloatArray, right: Array) -> FloatArray:
    """Return the fitted probabilities (N,) of a logistic regression with a ridge penalty of 1/2.

    Newton's method with halved steps; the intercept is not penalised.
    """
    design = np.column_stack([np.ones(len(features)), features])
    y = right.astype(np.float64)
    ridge = np.append(0.0, np.ones(features.shape[1]))
    w = np.zeros(design.shape[1])

    def loss(w: FloatArray) -> float:
        z = design @ w
        return float(np.logaddexp(0.0, z).sum() - y @ z + 0.5 * (ridge * w * w).sum())

    now = loss(w)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-(design @ w)))
        gradient = design.T @ (p - y) + ridge * w
        hessian = (design * (p * (1 - p))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _LEAST and loss(w - size * step) > now:
            size /= 2
        w = w - size * step
        before, now = now, loss(w)
        if before - now <= 1e-12 * max(abs(now), 1.0):
            break
    return np.asarray(1.0 / (1.0 + np.exp(-(design @ w))))


def _row(array: IntArray | None, m: int) -> IntArray | None:
    return None if array is None else array[m]
