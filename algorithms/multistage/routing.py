"""Sending records through a multi-stage classifier, to see where they leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.multistage.cascade import acquired
from algorithms.multistage.subclassifiers import StageData
from framework.arrays import Array, FloatArray, IntArray
from framework.models.confidence import decide
from framework.models.routing import StageWalk, Walk

_BINS = 10


def walk_held_records(model: Any, data: StageData, calibration: str) -> Walk:
    """Return how the validation records go through a model, and its answers to the test records.

    Parameters
    ----------
    model : MultiStageClassifier
    data : StageData
    calibration : {'none', 'isotonic', 'sigmoid'}
        How the probabilities of its stages were calibrated.
    """
    n, about = data.n_validation, (calibration, len(data.y))
    walk = walk_records(model, data.held[:, :n].T, data.y_held[:n], *about)
    if len(data.y_held) == n:
        return walk
    unseen = walk_records(model, data.held[:, n:].T, data.y_held[n:], *about)
    return replace(walk, confusions={**walk.confusions, "test": unseen.confusions["validation"]})


def walk_records(
    model: Any, encoded: FloatArray, truth: IntArray, calibration: str, training_records: int
) -> Walk:
    """Send encoded records through a model and note what happens at each stage.

    Parameters
    ----------
    model : MultiStageClassifier
    encoded : numpy.ndarray of float64, shape (n, columns of the encoder)
    truth : numpy.ndarray of int64, shape (n,)
        Class codes, in the order of ``model.classes_``.
    calibration, training_records
        See :class:`Walk`.
    """
    names, waiting = model.encoder_.feature_names, np.arange(len(encoded))
    costs, stages = model.cumulative_costs(), []
    given = np.full(len(encoded), len(model.classes_))  # the last column: no answer
    for j, features in enumerate(model.stages_):
        columns = model.encoder_.columns_of(acquired(model, j + 1))
        entering = len(waiting)
        found = np.zeros((0, len(model.classes_)))
        if entering:
            found = model.classifiers_[j].predict_proba(encoded[np.ix_(waiting, columns)])
        best, sure = decide(found, model.thresholds_)
        answers, confidence = best[sure], found[sure].max(axis=1, initial=0.0)
        right = answers == truth[waiting[sure]]
        counts = np.bincount(answers, minlength=len(model.classes_)).tolist()
        stages.append(
            StageWalk(
                features=tuple(str(names[i]) for i in features),
                cost=float(model.stage_costs()[j]),
                cost_so_far=float(costs[j]),
                entering=entering,
                answers=dict(zip(map(str, model.classes_.tolist()), counts, strict=True)),
                right=int(right.sum()),
                confidence=float(confidence.mean()) if len(confidence) else 0.0,
                calibration_error=calibration_error(confidence, right),
                p_value=_p_value(confidence, right),
            )
        )
        given[waiting[sure]] = answers
        waiting = waiting[~sure]
    confusion = _confusion(truth, given, len(model.classes_))
    return Walk(
        len(encoded), training_records, calibration, tuple(stages), {"validation": confusion}
    )


def _confusion(truth: IntArray, given: IntArray, classes: int) -> tuple[tuple[int, ...], ...]:
    """Count the answers to the records of each class, those without one last."""
    pairs = np.bincount(truth * (classes + 1) + given, minlength=classes * (classes + 1))
    return tuple(map(tuple, pairs.reshape(classes, classes + 1).tolist()))


def calibration_error(confidence: FloatArray, right: Array) -> float:
    """Return the expected calibration error over ten equal bins of confidence; 0 without any.

    Parameters
    ----------
    confidence : numpy.ndarray of float64, shape (n,)
    right : numpy.ndarray of bool, shape (n,)

    References
    ----------
    Naeini, Cooper and Hauskrecht 2015.
    """
    if not len(confidence):
        return 0.0
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def _p_value(confidence: FloatArray, right: Array) -> float:
    if not len(confidence):
        return 1.0
    from scipy.stats import binomtest

    claimed = min(float(confidence.mean()), 1.0)
    return float(binomtest(int(right.sum()), len(right), claimed).pvalue)
