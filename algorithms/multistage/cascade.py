"""How records go through the stages of a fitted multi-stage classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from algorithms.multistage.config import MissingPolicy
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.data.costs import CostGroups
from framework.data.encoding import Encoder
from framework.models.confidence import decide


class Staged(Protocol):
    """A fitted multi-stage classifier, as those that store, describe and run it see it.

    The attributes are those of :class:`~algorithms.multistage.model.MultiStageClassifier`.
    """

    reject_label: Any
    cost_groups: CostGroups | None
    missing: MissingPolicy
    encoder_: Encoder
    stages_: Sequence[IntArray]
    classifiers_: list[Any]
    classes_: Array
    thresholds_: FloatArray
    costs_: FloatArray

    def stage_costs(self) -> FloatArray:
        """Return the cost of each stage, shape (stages,)."""
        ...

    def cumulative_costs(self) -> FloatArray:
        """Return the cost of each stage and those before it, shape (stages,)."""
        ...


class Outcome(NamedTuple):
    """How records (n of them) went through the stages.

    probabilities : float64 (n, K), at the stage where each left.
    best : int64 (n,), position of the most likely class.
    stage : int64 (n,), the stage where each left, from 1 as wherever a stage is named.
    conclusive : bool (n,), whether it left with enough confidence.
    """

    probabilities: FloatArray
    best: IntArray
    stage: IntArray
    conclusive: BoolArray


def acquired(model: Staged, number: int) -> IntArray:
    """Return the features (m,) acquired by the end of a stage, from 1, in ascending order."""
    return np.sort(np.concatenate(model.stages_[:number]))


def cascade(model: Staged, X: pd.DataFrame | Array, *, stop: bool = False) -> Outcome:
    """Send records (n, d) through the stages, reading only the features that are acquired.

    A frame may have its columns in any order and may have further columns. Columns of features
    that no stage acquires may be missing. With ``stop`` a record ends at the first stage that
    it has not all values of, with the probabilities of the stage before, or zeros.
    """
    n, encoder = len(X), model.encoder_
    probabilities = np.zeros((n, len(model.classes_)))
    best, stage = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    conclusive = np.zeros(n, dtype=bool)
    undecided = np.arange(n)
    encoded = np.empty((n, encoder.width))
    steps = zip(model.stages_, model.classifiers_, strict=True)
    for number, (features, classifier) in enumerate(steps, start=1):
        if len(undecided) == 0:
            break
        if stop:
            known = ~encoder.missing(X, features, undecided).any(axis=1)
            stage[undecided[~known]] = number
            undecided, encoded = undecided[known], encoded[known]
            if len(undecided) == 0:  # nobody has the features: the columns may not be there
                break
        values = encoder.transform_features(X, features, undecided)
        encoded[:, encoder.columns_of(features)] = values
        columns = encoder.columns_of(acquired(model, number))
        found = classifier.predict_proba(encoded[:, columns])
        likely, confident = decide(found, model.thresholds_)
        probabilities[undecided], best[undecided] = found, likely
        stage[undecided], conclusive[undecided] = number, confident
        undecided, encoded = undecided[~confident], encoded[~confident]
    return Outcome(probabilities, best, stage, conclusive)
