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

TENS = 10
"""Whole numbers to a calibrated outcome of 1."""

_STEPS, _LEAST = 50, 1e-6  # of Newton's method


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
    scores : numpy.ndarray of float64, shape (K, N), optional
        A router's, by which outcomes are calibrated, too.

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
        scores: FloatArray | None = None,
    ) -> None:
        self.table, self.answer, self._tuning, self._scores = table, answer, tuning, scores
        self._known: dict[tuple[int, ...], Stage] = {}
        self._tens: dict[tuple[int, ...], IntArray] = {}
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
        the ranks of all models' confidences, and of a router's scores where there is one. What is
        left out is luck, which a search would take for skill.
        """
        if self._tuning is not None:
            raise ValueError("calibrated outcomes are of tuning records alone")
        if key not in self._tens:
            known = self.table.confidence
            if self._scores is not None:
                known = np.concatenate([known, self._scores])
            self._tens[key] = calibrated(known, self[key].right)
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
    for own, sure in zip(answers, confidence, strict=True):
        agreed += np.where(own == said, sure, 0.0)
    return said, agreed / len(answers)


def calibrated(confidence: FloatArray, right: Array) -> IntArray:
    """Return the probability that an answer is right, in tenths, given the ranks of confidences.

    Parameters
    ----------
    confidence : numpy.ndarray, shape (K, N)
        Of all models, or whatever else tells where answers are right.
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
