"""One measure for every fitted classifier with a price: coverage, accuracy and cost."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from framework.arrays import Array, BoolArray, FloatArray


class Budgeted(Protocol):
    """A fitted classifier that knows its price and whether it is sure."""

    classes_: Array
    costs_: FloatArray

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability (n, K) of each class."""
        ...

    def conclusive(self, X: Any) -> BoolArray:
        """Return whether each record (n,) gets an answer."""
        ...

    def acquisition_cost(self, X: Any) -> FloatArray:
        """Return the cost (n,) of the features each record needs."""
        ...


class Measured(NamedTuple):
    """What a classifier is worth on some records.

    coverage : share of records that get an answer (EMSCO, Equation 3, g1).
    accuracy : share of the answers that are right (Equation 4, g2); 0 without any answer.
    cost : mean acquisition cost a record, rejected ones included (g3*).
    aggregate : ``g1 + g2 + 1 - g3* / sum of all costs`` (Section 4.3), from 0 to 3.
    plain_accuracy : share of records whose most likely class is right, rejected or not.
    plain_aggregate : ``plain accuracy + 1 - g3* / sum of all costs``, from 0 to 2: what methods
        that know of no rejection are tuned by.
    """

    coverage: float
    accuracy: float
    cost: float
    aggregate: float
    plain_accuracy: float
    plain_aggregate: float


def measure(classifier: Budgeted, X: pd.DataFrame | Array, y: Array) -> Measured:
    """Measure a fitted classifier, whatever it is, with its own thresholds and costs.

    Parameters
    ----------
    classifier : Budgeted
        Any of the baselines, or a fitted
        :class:`~algorithms.multistage.model.MultiStageClassifier`.
    X : DataFrame or array (n, d), n >= 1
    y : (n,)
        Labels as in ``fit``.
    """
    answered = classifier.conclusive(X)
    best = classifier.classes_[classifier.predict_proba(X).argmax(axis=1)]
    right = best == np.asarray(y)
    coverage = float(answered.mean())
    accuracy = int((answered & right).sum()) / max(int(answered.sum()), 1)
    plain = float(right.mean())
    mean, total = float(classifier.acquisition_cost(X).mean()), float(classifier.costs_.sum())
    cost = min(mean, total)  # rounding must not lift it above all costs
    saved = saved_share(cost, total)
    return Measured(coverage, accuracy, cost, coverage + accuracy + saved, plain, plain + saved)


def saved_share(cost: float, total: float) -> float:
    """Return ``1 - cost / total``, the share of all costs that is not spent; 1 where all are 0."""
    return 1.0 - (cost / total if total else 0.0)
