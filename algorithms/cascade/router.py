"""A router: where models are right, learned from the records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError


class Router(BaseEstimator):  # type: ignore[misc]
    """How probable it is that each model is right, from the records alone.

    Parameters
    ----------
    classifier : classifier with ``predict_proba``, optional
        Fitted for each model to say where it is right. None: a logistic regression, on columns of
        texts by TF-IDF.

    Attributes
    ----------
    classifiers_ : dict of str to classifier or float
        By model; a number where the model was always right, or never.
    """

    def __init__(self, classifier: Any = None) -> None:
        self.classifier = classifier

    def fit(self, X: Any, right: Mapping[str, BoolArray]) -> Router:
        """Learn where models are right, (n,) each, on records (n, d)."""
        made = _regression(X) if self.classifier is None else self.classifier
        if not hasattr(made, "predict_proba"):
            raise InputError(
                f"router: expected a classifier with predict_proba, found {type(made).__name__}"
            )
        self.classifiers_ = {
            name: clone(made).fit(X, y) if 0 < y.sum() < len(y) else float(y[0])
            for name, y in right.items()
        }
        return self

    def scores(self, X: Any, names: Sequence[str]) -> dict[str, FloatArray]:
        """Return the probabilities (n,) that some models are right about records (n, d)."""
        return {name: score_of(self.classifiers_[name], X) for name in names}


def score_of(classifier: Any, X: Any) -> FloatArray:
    """Return the probability (n,) of being right, of a router's classifier or constant."""
    if isinstance(classifier, float):
        return np.full(len(X), classifier)
    found = np.asarray(classifier.predict_proba(X), dtype=np.float64)
    return found[:, list(classifier.classes_).index(True)]


def cross_fitted_scores(
    router: Router, X: Any, right: Mapping[str, BoolArray], folds: int, seed: int
) -> dict[str, FloatArray]:
    """Return the scores (n,) of each model by routers that were fitted on the other folds."""
    from sklearn.model_selection import KFold

    found = {name: np.zeros(len(y)) for name, y in right.items()}
    for train, held in KFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(X))):
        fitted = clone(router).fit(_rows(X, train), {name: y[train] for name, y in right.items()})
        for name, scores in fitted.scores(_rows(X, held), list(right)).items():
            found[name][held] = scores
    return found


def _regression(X: Any) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    encoder: Any = make_pipeline(SimpleImputer(), StandardScaler())
    if isinstance(X, pd.DataFrame):
        numbers = X.select_dtypes(["number", "bool"]).columns.tolist()
        texts = [(TfidfVectorizer(), name) for name in X.columns if name not in numbers]
        encoder = make_column_transformer((encoder, numbers), *texts)
    return make_pipeline(encoder, LogisticRegression(max_iter=500))


def _rows(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else np.asarray(X)[rows]
