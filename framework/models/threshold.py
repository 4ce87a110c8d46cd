"""A fitted classifier of two classes with a threshold of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from framework.arrays import Array, FloatArray
from framework.errors import InputError, first_line
from framework.models.checks import (
    as_frame,
    checked_answers,
    named_as,
    named_records,
    stored_labels,
)
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.models.store import cell

_MODEL_FILE = "model.skops"


def scores_of(model: Any, X: Any, positive: Any) -> FloatArray:
    """Return a fitted classifier's score of the positive class for each record, float64 (n,).

    The score is the probability or, for a classifier without ``predict_proba``, the decision
    function with the sign that makes larger values mean positive.

    Raises
    ------
    InputError
        The model has no such method, or is no classifier of two classes with ``positive`` as one.
    """
    classes = _two_classes(model, positive)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, classes.index(positive)]
    if not hasattr(model, "decision_function"):
        raise InputError(
            "model: expected a classifier with predict_proba or decision_function, found "
            f"{type(model).__name__}"
        )
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    return scores if classes[1] == positive else -scores


def _two_classes(model: Any, positive: Any) -> list[Any]:
    """Return the classes of a fitted classifier, which must be two with ``positive`` among them."""
    classes: list[Any] = np.asarray(getattr(model, "classes_", [])).tolist()
    if len(classes) != 2 or positive not in classes:
        raise InputError(
            f"model: expected a fitted classifier of two classes, {positive!r} and another, found "
            f"{type(model).__name__} of {classes or 'none'}"
        )
    return classes


class ThresholdClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """A fitted classifier of two classes that answers "positive" if the score reaches a threshold.

    Attributes
    ----------
    model_ : fitted classifier
    name_ : str
    threshold_ : float
        Threshold of the score, see :func:`scores_of`.
    positive_ : one of ``classes_``
    classes_ : (2,)
    columns_ : list of str or None
        The columns of a frame that are passed to a model which takes an array; None for all.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,), if they have names
        The features of a record; the model may read only some of them.
    """

    kind = "threshold"

    @classmethod
    def from_fitted(
        cls,
        model: Any,
        threshold: float,
        positive: Any,
        *,
        name: str = "model",
        features: Sequence[str] | int | None = None,
        columns: Sequence[str] | None = None,
    ) -> ThresholdClassifier:
        """Return a fitted classifier with a threshold.

        Parameters
        ----------
        model : fitted classifier
        threshold : float
        positive : one of the model's classes
        name : str
            Name of the model in messages and the README.
        features : sequence of str, or int, optional
            The names of a record's features, or their number; by default those of the model.
        columns : sequence of str, optional
            The columns of a frame that are passed to a model which takes an array.

        Raises
        ------
        InputError
            The model does not have two classes with ``positive`` as one, the threshold is not
            finite, or the model reads other columns than the features.
        """
        if isinstance(threshold, bool) or not math.isfinite(threshold):
            raise InputError(f"threshold: expected a finite number, found {threshold!r}")
        _two_classes(model, positive)
        made = cls()
        made.classes_ = np.asarray(model.classes_)
        made.model_, made.name_, made.positive_ = model, str(name), positive
        made.threshold_ = float(threshold)
        if features is None:
            features = getattr(model, "feature_names_in_", None)
            features = model.n_features_in_ if features is None else list(features)
        if isinstance(features, int):
            made.n_features_in_ = features
        else:
            made.n_features_in_ = len(features)
            made.feature_names_in_ = np.array(features, dtype=object)
        made.columns_ = None if columns is None else list(columns)
        read = getattr(model, "feature_names_in_", columns)
        if read is not None and not set(read) <= set(getattr(made, "feature_names_in_", ())):
            raise InputError(
                f"features: expected those that the model reads ({', '.join(map(str, read))}), "
                "found others"
            )
        return made

    def fit(self, X: Any, y: Any = None) -> ThresholdClassifier:
        """Raise InputError: the model is already fitted, and its threshold chosen."""
        raise InputError("fit: this model has its threshold, it is not trained here; see ROCHull")

    def scores(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the scores (n,), which are compared with the threshold."""
        check_is_fitted(self)
        scores = scores_of(self.model_, self._taken(X), self.positive_)
        sure = hasattr(self.model_, "predict_proba")
        return checked_answers(scores, self.name_, probabilities=sure)

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label of each record (n,): positive if its score is at least the threshold."""
        return self._labels(self.scores(X))

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the model's probabilities (n, 2); if it has none, 1 for the label and 0 else."""
        check_is_fitted(self)
        if hasattr(self.model_, "predict_proba"):
            return np.asarray(self.model_.predict_proba(self._taken(X)), dtype=np.float64)
        return np.asarray(self.predict(X)[:, np.newaxis] == self.classes_, dtype=np.float64)

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``label``, ``confidence`` and ``score`` of the records of a table.

        The confidence is the model's probability of the label, NaN if the model has none.
        """
        scores = np.zeros(0)
        if len(frame):
            try:
                with named_records(frame.index):
                    scores = self.scores(frame)
            except ValueError as error:
                raise InputError(
                    f"data: expected records that {self.name_} takes, found: {first_line(error)}"
                ) from error
        labels = self._labels(scores)
        confidence = np.where(labels == self.positive_, scores, 1.0 - scores)
        if not hasattr(self.model_, "predict_proba"):
            confidence[:] = np.nan
        columns = {"label": labels, "confidence": confidence, "score": scores}
        return pd.DataFrame(columns, index=frame.index)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        files.write_estimator(_MODEL_FILE, self.model_)
        names = getattr(self, "feature_names_in_", None)
        return {
            "name": self.name_,
            "threshold": self.threshold_,
            "classes": self.classes_.tolist(),
            "positive": self.classes_.tolist().index(self.positive_),
            "features": self.n_features_in_ if names is None else list(names),
            "columns": self.columns_,
        }

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> ThresholdClassifier:
        model = files.read_estimator(_MODEL_FILE)
        classes = stored_labels(description["classes"]).tolist()
        if np.asarray(getattr(model, "classes_", [])).tolist() != classes:
            raise InputError(f"classes: expected those of the model, found {classes}")
        features = description["features"]
        return cls.from_fitted(
            model,
            float(description["threshold"]),
            classes[int(description["positive"])],
            name=str(description["name"]),
            features=int(features) if isinstance(features, int) else [str(f) for f in features],
            columns=None if description["columns"] is None else list(description["columns"]),
        )

    def card(self) -> Card:
        return Card(
            title=f"{cell(self.name_)} with a threshold of {self.threshold_:.6g}",
            text=f"A {type(self.model_).__name__} that answers {cell(self.positive_)} where its "
            f"score of that class is at least {self.threshold_:.6g}.",
            answers="the columns `label`, `confidence` and `score`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`, `scores`",
        )

    def _labels(self, scores: FloatArray) -> Array:
        labels = self.classes_.tolist()
        positive = labels.index(self.positive_)
        codes = np.where(scores >= self.threshold_, positive, 1 - positive)
        return np.asarray(self.classes_[codes])

    def _taken(self, X: Any) -> Any:
        """Return the records in the form that the model takes."""
        X = named_as(self, as_frame(X))
        if not isinstance(X, pd.DataFrame):
            return X
        self.check_columns(X.columns)
        names = getattr(self.model_, "feature_names_in_", None)
        if names is not None:
            return X[list(names)]
        return X.to_numpy() if self.columns_ is None else X[self.columns_].to_numpy()
