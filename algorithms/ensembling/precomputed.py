"""An estimator that returns its input as predictions, for scikit-learn's scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from framework.arrays import Array, FloatArray, IntArray


class PrecomputedEstimator(BaseEstimator):  # type: ignore[misc]
    """Returns its input, which are predictions.

    Parameters
    ----------
    classes : int
        Their number, labelled 0, 1, ...; 0 for regression.
    first : bool
        Whether the first of two classes is labelled 1 instead of the second.
    """

    def __init__(self, classes: int, first: bool = False) -> None:
        self.classes, self.first = classes, first
        self.classes_: IntArray = np.arange(classes)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if self.classes else "regressor"
        tags.classifier_tags = ClassifierTags() if self.classes else None
        tags.regressor_tags = None if self.classes else RegressorTags()
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Array, y: Array) -> PrecomputedEstimator:
        """Do nothing."""
        return self

    def shaped(self, row: FloatArray) -> FloatArray:
        """Return flat predictions of N records as (N, C), or (N,) for regression.

        Probabilities of several classes in float32 add up to one within its rounding. Here they
        are scaled to add up to one within the rounding of float64, as scorers require.
        """
        if self.classes == 2:
            return np.column_stack([row, 1.0 - row] if self.first else [1.0 - row, row])
        if not self.classes:
            return row
        shaped = row.reshape(-1, self.classes)
        return np.asarray(shaped / shaped.sum(axis=1, keepdims=True))

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return ``X`` (N, C)."""
        return X

    def predict(self, X: FloatArray) -> Array:
        """Return the likeliest class of each record, or ``X`` itself for regression; (N,)."""
        if self.first:  # a tie is the first class's
            return np.asarray((X[:, 1] >= X[:, 0]).astype(np.int64))
        return np.asarray(X.argmax(axis=1)) if self.classes else X
