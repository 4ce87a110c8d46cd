"""Metrics that look at each class on its own, for data where some classes are rare.

All are over the records that leave with an answer: whoever leaves without one is counted by the
coverage alone. They follow from two counts a class, records answered and answered rightly.
"""

from __future__ import annotations

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.roles import Metric

POSITIVE = (
    Metric(
        "false_positive_rate",
        "min",
        text="share of the answered negatives that are called positive",
    ),
    Metric(
        "false_negative_rate",
        "min",
        text="share of the answered positives that are called something else",
    ),
    Metric("recall", "max", text="share of the answered positives that are called positive"),
    Metric("f1", "max", text="harmonic mean of precision and recall of the positive class"),
)
"""Only where there is a positive class."""

BALANCED = Metric(
    "balanced_accuracy", "max", text="mean over the classes of the share of answers that are right"
)
WORST = Metric("worst_recall", "max", text="the least of the classes' shares of right answers")
ERROR_COST = Metric(
    "error_cost", "min", "ratio", text="mean cost a record of wrong answers, by true class"
)
"""Only where errors have costs."""


def by_class(answered: IntArray, right: IntArray, present: IntArray) -> dict[str, FloatArray]:
    """Return the metrics over all classes.

    Parameters
    ----------
    answered, right : numpy.ndarray of int64, shape (n, K)
        Records of each class with an answer, and with the right one.
    present : numpy.ndarray of int64, shape (K,)
        All records of each class; a class without any does not count. One whose records get no
        answer counts 0.
    """
    shares = (right / np.maximum(answered, 1))[:, present > 0]
    return {"balanced_accuracy": shares.mean(axis=1), "worst_recall": shares.min(axis=1)}


def of_positive(
    called: IntArray, false: IntArray, negatives: IntArray, answered: IntArray
) -> dict[str, FloatArray]:
    """Return the metrics of the positive class.

    Parameters
    ----------
    called, false : numpy.ndarray of int64, shape (n,)
        Records called positive, and those of them that are not.
    negatives, answered : numpy.ndarray of int64, shape (n,)
        Negatives with an answer, and all records with one.
    """
    hits, positives = called - false, answered - negatives
    misses = positives - hits
    return {
        "false_positive_rate": false / np.maximum(negatives, 1),
        "false_negative_rate": misses / np.maximum(positives, 1),
        "recall": hits / np.maximum(positives, 1),
        "f1": 2 * hits / np.maximum(2 * hits + false + misses, 1),
    }


def error_cost(answered: IntArray, right: IntArray, costs: FloatArray, records: int) -> FloatArray:
    """Return the mean cost of wrong answers: ``costs`` (K,) are those of each true class."""
    return np.asarray((answered - right) @ costs / records)
