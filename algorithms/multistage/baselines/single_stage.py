"""One classifier on all features that always answers: what a budgeted one is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algorithms.multistage.model import MultiStageClassifier
from framework.arrays import FloatArray


class SingleStage(MultiStageClassifier):
    """Acquires every feature for every record and never rejects (EMSCO, Section 4.3).

    Parameters
    ----------
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        None: l2-penalised logistic regression with C = 1.

    Attributes
    ----------
    As of :class:`~algorithms.multistage.model.MultiStageClassifier`, with one stage.
    """

    def __init__(
        self, costs: Sequence[float] | FloatArray | None = None, classifier: Any = None
    ) -> None:
        super().__init__(costs=costs, threshold=0.0, classifier=classifier)
