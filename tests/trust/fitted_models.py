"""One fitted model of each kind that users deploy, small and quick."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np
from sklearn import (
    calibration,
    compose,
    discriminant_analysis,
    dummy,
    ensemble,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.base import clone

CLASSES = {
    "adaboost": ensemble.AdaBoostClassifier(n_estimators=3),
    "bagging": ensemble.BaggingClassifier(n_estimators=3, max_features=2),
    "calibrated": calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method="isotonic"),
    "calibrated_svm": calibration.CalibratedClassifierCV(svm.SVC(), ensemble=False),
    "categories": ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[2]),
    "dummy": dummy.DummyClassifier(),
    "extra_trees": ensemble.ExtraTreesClassifier(3),
    "forest": ensemble.RandomForestClassifier(3),
    "gaussian_process": gaussian_process.GaussianProcessClassifier(),
    "boosting": ensemble.GradientBoostingClassifier(n_estimators=3),
    "histogram": ensemble.HistGradientBoostingClassifier(max_iter=3),
    "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
    "linear": linear_model.LogisticRegression(),
    "naive_bayes": naive_bayes.GaussianNB(),
    "near": neighbors.KNeighborsClassifier(),
    "near_ball": neighbors.KNeighborsClassifier(algorithm="ball_tree", p=3),
    "near_brute": neighbors.KNeighborsClassifier(algorithm="brute"),
    "network": neural_network.MLPClassifier((4,), max_iter=5),
    "pipeline": pipeline.make_pipeline(
        impute.SimpleImputer(),
        preprocessing.StandardScaler(),
        compose.ColumnTransformer([("s", preprocessing.MinMaxScaler(), [0, 1])]),
        linear_model.LogisticRegression(),
    ),
    "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "sgd": linear_model.SGDClassifier(loss="log_loss"),
    "stacking": ensemble.StackingClassifier([("t", tree.DecisionTreeClassifier(max_depth=2))]),
    "tree": tree.DecisionTreeClassifier(max_depth=3),
    "voting": ensemble.VotingClassifier([("b", naive_bayes.GaussianNB())], voting="soft"),
}
VALUES = {
    "boosting": ensemble.GradientBoostingRegressor(n_estimators=3),
    "forest": ensemble.RandomForestRegressor(3),
    "histogram": ensemble.HistGradientBoostingRegressor(max_iter=3),
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1),
    "linear": linear_model.Ridge(),
    "near": neighbors.KNeighborsRegressor(),
    "network": neural_network.MLPRegressor(hidden_layer_sizes=(4,), max_iter=5),
    "standardised": compose.TransformedTargetRegressor(
        svm.SVR(), transformer=preprocessing.StandardScaler()
    ),
}


def records() -> tuple[Any, Any]:
    """Return 90 records of 3 features and 3 classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=90) > 0) + (X[:, 1] > 0.5).astype(int)
    X[:, 2] = np.arange(90) % 2 + 2 * y  # as good as categories
    return X, y


def without_zeros() -> Any:
    """Return a linear model whose coefficients are a sparse array."""
    return linear_model.SGDClassifier(penalty="l1", random_state=0).fit(*records()).sparsify()


def selected() -> Any:
    """Return a selection of features by a tree."""
    return feature_selection.SelectFromModel(tree.DecisionTreeClassifier()).fit(*records())


def fitted(models: Mapping[str, Any], name: str) -> Any:
    """Return a fitted model of ``CLASSES`` or ``VALUES``."""
    X, y = records()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations are enough
        return clone(models[name]).fit(X, y if models is CLASSES else X @ [1.0, 2.0, 3.0])
