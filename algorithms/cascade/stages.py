"""What a cascade knows after each model that it asked: an answer and the confidence in it.

A *stage* stands for the models asked so far. Its thresholds are the different confidences of the
tuning records, so that a threshold never divides records with equal confidence. Test records are
placed between these thresholds.
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
"""A calibrated outcome of 1 as a whole number."""

_STEPS, _LEAST = 50, 1e-6  # greatest number of Newton's steps, and least share of a step
_FOLDS, _RARE = 5, 0.01  # of a consensus; probabilities are clipped to 0.01 to 0.99


@dataclass(frozen=True)
class Stage:
    """The state of each of N records once the models of a stage have been asked.

    Attributes
    ----------
    cuts : numpy.ndarray of float64, shape (U,)
        The different confidences on the tuning records, ascending.
    level : numpy.ndarray of int64, shape (N,)
        How many of ``cuts`` a record's confidence reaches, at least 1.
    right : numpy.ndarray of bool, shape (N,)
        Whether the answer is right.
    said : numpy.ndarray of int64, shape (N,), or None
        The answer as a position among the labels; None if the table has no answers.
    """

    cuts: FloatArray
    level: IntArray
    right: Array
    said: IntArray | None


class Stages:
    """The stages of a table of calls, each computed when it is first asked for.

    Parameters
    ----------
    answer : {'own', 'cumulative_mean', 'vote'}
        How a stage answers: ``own`` as its last model does; ``cumulative_mean`` by the mean
        probabilities of all models asked so far; ``vote`` with the answer that most of them gave,
        of equals the first given. The confidence of a vote is the mean confidence of all models
        asked, where a model with another answer counts as 0.
    tuning : Stages, optional
        The stages whose thresholds to use; their own if None.
    calibrate : {'confidences', 'consensus'}
        See :meth:`tens`.

    Raises
    ------
    InputError
        The table lacks probabilities or answers that a rule needs, or it has confidences outside
        0 to 1 for a vote.
    """

    def __init__(
        self,
        table: CallTable,
        answer: AnswerRule = "own",
        tuning: Stages | None = None,
        calibrate: Calibration = "confidences",
    ) -> None:
        self.table, self.answer, self._tuning = table, answer, tuning
        self._stages: dict[tuple[int, ...], Stage] = {}
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
        """Return the key of the stage after some models, by position, were asked in that order."""
        if self.answer == "own":
            return (asked[-1],)
        return tuple(asked)

    def __getitem__(self, key: tuple[int, ...]) -> Stage:
        """Return the stage of a :meth:`key`."""
        if key not in self._stages:
            confidence, right, said = self._state(key)
            cuts = np.unique(confidence) if self._tuning is None else self._tuning[key].cuts
            level = np.maximum(np.searchsorted(cuts, confidence, side="right"), 1)
            self._stages[key] = Stage(cuts, level.astype(np.int64), right, said)
        return self._stages[key]

    def tens(self, key: tuple[int, ...]) -> IntArray:
        """Return the calibrated outcomes of a stage, whole tenths from 0 to 10, shape (N,).

        They say how probable it is that an answer is right, instead of whether it is: this leaves
        out luck, which a search would take for skill. By ``confidences``, the probability comes
        from a logistic regression on the ranks of all models' confidences. By ``consensus``, an
        answer counts half as right or wrong, and half with its probability by all models
        (:func:`consensus_of`), which also distinguishes stages that are right equally often.

        Raises
        ------
        ValueError
            The records are not the tuning records.
        """
        if self._tuning is not None:
            raise ValueError("expected the stages of tuning records, found those of test records")
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
            said = None if table.answers is None else table.answers[m]
            return table.confidence[m], table.right[m], said
        if self.answer == "cumulative_mean":
            assert table.probabilities is not None
            mean = mean_of(table.probabilities[list(key)])
            said = mean.argmax(axis=1)
            return mean.max(axis=1), said == table.truth, said
        assert table.answers is not None
        said, confidence = vote_of(table.answers[list(key)], table.confidence[list(key)])
        return confidence, said == table.truth, said


def mean_of(probabilities: Array) -> FloatArray:
    """Return the mean (N, C) of probabilities (models, N, C), added in the order of models."""
    total = np.zeros(probabilities.shape[1:])
    for part in probabilities:
        total += part
    return total / len(probabilities)


def vote_of(answers: IntArray, confidence: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the most frequent of answers (models, N) and the confidence in it, both (N,)."""
    votes = (answers[:, None, :] == answers[None, :, :]).sum(axis=1)
    first = votes.argmax(axis=0)  # of equally frequent answers the first given
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
    if right.all() or not right.any():  # no regression; as if half a record more were right
        share = (right.sum() + 0.5) / (n + 1)
        return np.full(n, round(TENS * share), dtype=np.int64)
    from scipy.stats import rankdata

    ranks = (rankdata(confidence, axis=1) - 0.5) / n
    features = np.log(ranks / (1 - ranks)).T
    return np.asarray(np.rint(TENS * _logistic(features, right)), dtype=np.int64)


def consensus_of(probabilities: Array, truth: IntArray, groups: IntArray | None) -> FloatArray:
    """Return how probable each class is by all models together, shape (N, C).

    This is a logarithmic pool: a weighted sum of the models' log-probabilities plus a bias for each
    class, normalised. The weights for a fold are fitted to the other folds by maximum likelihood,
    with a ridge penalty that pulls them to 1/K.

    Parameters
    ----------
    probabilities : numpy.ndarray, shape (K, N, C)
    truth : numpy.ndarray of int64, shape (N,)
    groups : numpy.ndarray of int64, shape (N,), or None
        A group is never divided among folds.
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
    """Return the weights (K,) of models and the biases (C,) of classes; the first bias is 0.

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
    """Return the probabilities (N,) fitted by logistic regression with a ridge penalty of 1/2.

    Newton's method halves a step until the loss falls; the intercept is not penalised.
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
