"""What a person would do without a search: one classifier with a reject threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.moves.bits import pack
from algorithms.multistage.decision import confidences_of
from algorithms.multistage.records import StageData
from algorithms.multistage.stage_classifiers import Recipe, fitted, out_of_fold
from framework.arrays import FloatArray, IntArray
from framework.errors import InputError
from framework.models.calibration import CONFIDENCE_SLACK
from framework.models.classifiers import LOGISTIC_REGRESSION

FEW_ANSWERS = 0.25  # a classifier that answers a smaller share of records is no alternative


def with_thresholds(
    data: StageData, recipe: Recipe, classes: Sequence[Any]
) -> Iterator[tuple[str, Mapping[str, IntArray]]]:
    """Yield the answers of one classifier on all features at several reject thresholds.

    The classifier is of the kind that stages have; if that is not logistic regression, one of
    logistic regression follows.

    Yields
    ------
    str
        Its name.
    mapping of str to numpy.ndarray of int64, shape (scored and test records,)
        Class codes by threshold; -1 for no answer. Thresholds with few answers are left out.
    """
    plain = Recipe(LOGISTIC_REGRESSION, {}, recipe.calibration)
    default = confidences_of(len(classes)).tolist()
    thresholds = sorted({*default, *data.thresholds.tolist(), *data.rule.limits.tolist()})
    for trained in (recipe,) if recipe.kind == plain.kind else (recipe, plain):
        try:
            P = on_all_features(data, trained, classes)
        except InputError:  # it cannot be trained
            continue
        title = f"{trained.kind.replace('_', ' ')} on all {data.n_features} features"
        by_name = {f"threshold {t:g}": with_threshold(P, t) for t in thresholds}
        n = data.n_validation
        answering = {name: a for name, a in by_name.items() if (a[:n] >= 0).mean() >= FEW_ANSWERS}
        if answering:
            yield f"{title} with a reject threshold", answering


def on_all_features(data: StageData, recipe: Recipe, classes: Sequence[Any]) -> FloatArray:
    """Return the probabilities of one classifier on all features: (scored + test records, classes).

    In a cross-validation, scored records are answered out-of-fold. Raises InputError if a
    classifier cannot be trained.
    """
    key, base = pack(np.ones(data.n_features, dtype=bool)), data.final
    P = np.zeros((0, len(classes)))
    if data.folds:
        P = out_of_fold(data, recipe, key, classes)
    # the final classifier is asked about records that no fold answers
    asked = base.held[:-1, base.n_validation if data.folds else 0 :].T
    if len(asked):
        classifier = fitted(base, recipe, key, classes)
        P = np.concatenate([P, classifier.predict_proba(asked)])
    P[data.stopped] = 0.0  # no answer at any threshold
    return P


def with_threshold(P: FloatArray, threshold: float) -> IntArray:
    """Return the most likely class of each record, (n,); -1 if it is below the threshold."""
    return np.where(P.max(axis=1) >= threshold - CONFIDENCE_SLACK, P.argmax(axis=1), -1)
