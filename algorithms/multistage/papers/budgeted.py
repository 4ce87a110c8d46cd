"""Budgeted classifiers: their base class, and the baselines that are multi-stage classifiers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from algorithms.multistage.model import MultiStageClassifier
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.data.encoding import Encoder
from framework.models.calibration import decide
from framework.models.checks import (
    Threshold,
    costs_for,
    records_for,
    thresholds_for,
    training_records,
    with_rejects,
)


@dataclass(eq=False, repr=False, kw_only=True)
class BudgetedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers that pay for the features a record needs, and reject by confidence.

    A subclass is a dataclass of its own parameters, with ``eq=False, repr=False``. It implements
    :meth:`_learn`, :meth:`_probabilities` and :meth:`_needs` on encoded records: numbers imputed
    and standardised, categories one-hot.

    Parameters
    ----------
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each.
    threshold : float or mapping of class label to float
        The probability that an answer needs (the paper's p_hat); labels left out need 0.5.
    reject_label : label, optional
        What ``predict`` returns for records without an answer. None: the most likely class.

    Attributes
    ----------
    classes_ : (K,)
    encoder_ : Encoder
    costs_ : float64 (n_features_in_,)
    thresholds_ : float64 (K,)
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,), if fitted on a frame with column names
    """

    costs: Sequence[float] | FloatArray | None = None
    threshold: Threshold = 0.75
    reject_label: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: pd.DataFrame | Array, y: Array) -> Self:
        """Fit the encoder and the classifier.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Missing values are allowed; in a frame, so are categories.
        y : (n,)

        Raises
        ------
        InputError
            Costs or thresholds do not fit the data, or values cannot be encoded.
        ValueError
            There is only one class, or scikit-learn refuses the records.
        """
        X, y = training_records(self, X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"expected two classes or more, found one class: {self.classes_[0]}")
        self.encoder_ = Encoder.fit(X)
        self.costs_ = costs_for(self.costs, len(self.encoder_.feature_names))
        self.thresholds_ = thresholds_for(self.threshold, self.classes_)
        self._learn(self.encoder_.transform(X), codes.astype(np.int64))
        return self

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label (n,) of each record, ``reject_label`` for those without an answer."""
        best, confident = decide(self.predict_proba(X), self.thresholds_)
        return with_rejects(self.classes_[best], confident, self.reject_label)

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the probability (n, K) of each class."""
        return self._probabilities(self._encoded(X))

    def conclusive(self, X: pd.DataFrame | Array) -> BoolArray:
        """Return whether each record (n,) gets an answer."""
        return decide(self.predict_proba(X), self.thresholds_)[1]

    def acquired(self, X: pd.DataFrame | Array) -> BoolArray:
        """Return which features each record needs, (n, n_features_in_)."""
        return self._needs(self._encoded(X))

    def acquisition_cost(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the cost (n,) of the features that the prediction of each record reads."""
        return np.asarray(self.acquired(X) @ self.costs_)

    def _encoded(self, X: pd.DataFrame | Array) -> FloatArray:
        X = records_for(self, X)
        return self.encoder_.transform(X)

    def _feature_of(self) -> IntArray:
        """Return the feature to which each encoded column (D,) belongs."""
        widths = [len(span) for span in self.encoder_.spans]
        return np.repeat(np.arange(len(widths), dtype=np.int64), widths)

    def _targets(self, codes: IntArray) -> FloatArray:
        """Return 1 for the class of each record, else 0: one column of two classes, or all."""
        targets = np.eye(len(self.classes_))[codes]
        return targets[:, 1:] if len(self.classes_) == 2 else targets

    def _shares(self, factor: float) -> FloatArray:
        """Return ``factor`` times the cost of each feature, in shares of that of all features."""
        return factor * self.costs_ / (self.costs_.sum() or 1.0)

    @abstractmethod
    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        """Fit to encoded records (n, D) and the positions (n,) of their classes."""

    @abstractmethod
    def _probabilities(self, Z: FloatArray) -> FloatArray:
        """Return the probability (n, K) of each class for encoded records (n, D)."""

    @abstractmethod
    def _needs(self, Z: FloatArray) -> BoolArray:
        """Return which features encoded records (n, D) need, (n, n_features_in_)."""


class CostOrdered(MultiStageClassifier):
    """A multi-stage classifier whose stages follow from the costs alone (EMSCO, Section 4.3).

    Features of equal cost make a stage; stages are in the order of increasing cost. For parameters
    and attributes see :class:`~algorithms.multistage.model.MultiStageClassifier`.
    """

    def __init__(
        self,
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        classifier: Any = None,
        reject_label: Any = None,
    ) -> None:
        super().__init__(None, costs, threshold, classifier, reject_label)

    def _stages_of(self, encoder: Encoder) -> tuple[IntArray, ...]:
        levels = np.unique(self.costs_)
        return tuple(np.flatnonzero(self.costs_ == cost).astype(np.int64) for cost in levels)


class SingleStage(MultiStageClassifier):
    """Acquires every feature for every record and never rejects (EMSCO, Section 4.3).

    For parameters and attributes see :class:`~algorithms.multistage.model.MultiStageClassifier`.
    """

    def __init__(
        self, costs: Sequence[float] | FloatArray | None = None, classifier: Any = None
    ) -> None:
        super().__init__(costs=costs, threshold=0.0, classifier=classifier)
