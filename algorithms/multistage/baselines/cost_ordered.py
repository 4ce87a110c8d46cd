"""CO-T: a stage for each cost class, cheap features first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.multistage.model import MultiStageClassifier
from framework.arrays import FloatArray
from framework.data.encoding import Encoder
from framework.models.checks import Threshold


class CostOrdered(MultiStageClassifier):
    """A multi-stage classifier whose stages follow from the costs alone (EMSCO, Section 4.3).

    Features of equal cost make a stage; the stages come in the order of increasing cost, the last
    one rejects.

    Parameters
    ----------
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each, and so one stage.
    threshold : float or mapping of class label to float
        The probability that an answer needs; labels left out need 0.5.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Cloned for each stage. None: l2-penalised logistic regression with C = 1.
    reject_label : label, optional
        What ``predict`` returns for rejected records. None: the most likely class.

    Attributes
    ----------
    As of :class:`~algorithms.multistage.model.MultiStageClassifier`.
    """

    def __init__(
        self,
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        classifier: Any = None,
        reject_label: Any = None,
    ) -> None:
        super().__init__(None, costs, threshold, classifier, reject_label)

    def _set(self, encoder: Encoder) -> None:
        super()._set(encoder)
        self.stages_ = tuple(
            np.flatnonzero(self.costs_ == cost).astype(np.int64) for cost in np.unique(self.costs_)
        )
