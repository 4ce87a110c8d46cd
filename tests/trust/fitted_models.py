"""Fitted models of kinds that users deploy, small and quick."""

import warnings
from typing import Any

import lightgbm
import numpy as np
from sklearn import calibration, ensemble, feature_selection, linear_model, neighbors, svm, tree
from sklearn.base import clone

CLASSES = {
    "calibrated_svm": calibration.CalibratedClassifierCV(svm.SVC(), ensemble=False),
    "categories": ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[2]),
    "forest": ensemble.RandomForestClassifier(3),
    "boosting": ensemble.GradientBoostingClassifier(n_estimators=3),
    "histogram": ensemble.HistGradientBoostingClassifier(max_iter=3),
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
    "linear": linear_model.LogisticRegression(),
    "near": neighbors.KNeighborsClassifier(),
    "near_ball": neighbors.KNeighborsClassifier(algorithm="ball_tree", p=3),
    "near_brute": neighbors.KNeighborsClassifier(algorithm="brute"),
    "stacking": ensemble.StackingClassifier([("t", tree.DecisionTreeClassifier(max_depth=2))]),
    "tree": tree.DecisionTreeClassifier(max_depth=3),
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


def fitted(name: str) -> Any:
    """Return a fitted model of ``CLASSES``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations are enough
        return clone(CLASSES[name]).fit(*records())
