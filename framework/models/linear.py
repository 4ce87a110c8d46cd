"""A linear classifier made from coefficients, which can predict but not be fitted."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

from framework.arrays import Array, FloatArray
from framework.errors import InputError


class LinearProbability:
    """A logistic regression that predicts as scikit-learn's does.

    Parameters
    ----------
    classes : (K,)
    coef : float64 (1, D) for two classes (of the second one), else (K, D)
    intercept : float64 (1,) or (K,)

    Raises
    ------
    InputError
        Shapes that do not fit, or numbers that are not finite.
    """

    def __init__(self, classes: Array, coef: FloatArray, intercept: FloatArray) -> None:
        self.classes_ = np.asarray(classes)
        self.coef_ = np.asarray(coef, dtype=np.float64)
        self.intercept_ = np.asarray(intercept, dtype=np.float64)
        count = len(self.classes_)
        rows = 1 if count == 2 else count
        if self.coef_.ndim != 2 or len(self.coef_) != rows or self.intercept_.shape != (rows,):
            raise InputError(
                f"linear classifier: expected coef of shape ({rows}, D) and intercept of shape "
                f"({rows},) for {count} classes, found {self.coef_.shape} and "
                f"{self.intercept_.shape}"
            )
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise InputError("linear classifier: expected finite coefficients, found NaN or inf")
        self.n_features_in_ = self.coef_.shape[1]

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probability (n, K) of each class for encoded records (n, D)."""
        scores = X @ self.coef_.T + self.intercept_
        if len(self.classes_) == 2:
            second = expit(scores[:, 0])
            return np.column_stack([1 - second, second])
        return np.asarray(softmax(scores, axis=1), dtype=np.float64)

    def predict(self, X: FloatArray) -> Array:
        """Return the most likely class (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def to_array(self) -> FloatArray:
        """Return coefficients and, as the last column, intercepts: (1 or K, D + 1)."""
        return np.column_stack([self.coef_, self.intercept_])

    @classmethod
    def from_array(cls, classes: Array, array: FloatArray) -> LinearProbability:
        """Return the classifier that ``to_array`` wrote. Raises as the constructor."""
        if array.ndim != 2 or array.shape[1] < 1 or array.dtype.kind != "f":
            raise InputError(
                f"linear classifier: expected a float array of two dimensions, found "
                f"{array.dtype} of shape {array.shape}"
            )
        return cls(classes, array[:, :-1], array[:, -1])
