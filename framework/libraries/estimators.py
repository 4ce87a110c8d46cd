"""Estimators of the pool that are compositions of several scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def svm_classifier(**parameters: Any) -> Any:
    """Return a support vector machine whose scores become probabilities by Platt's sigmoid."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    return CalibratedClassifierCV(SVC(**parameters), ensemble=False, cv=3)


def svm_regressor(**parameters: Any) -> Any:
    """Return a support vector regressor that sees a standardised target."""
    from sklearn.svm import SVR

    return _standardised(SVR(**parameters))


def network_classifier(hidden_layer_sizes: Sequence[int], **parameters: Any) -> Any:
    """Return a multi-layer perceptron; JSON keeps its layers as a list."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(hidden_layer_sizes=tuple(hidden_layer_sizes), **parameters)


def network_regressor(hidden_layer_sizes: Sequence[int], **parameters: Any) -> Any:
    """Return a multi-layer perceptron that sees a standardised target."""
    from sklearn.neural_network import MLPRegressor

    return _standardised(MLPRegressor(hidden_layer_sizes=tuple(hidden_layer_sizes), **parameters))


def _standardised(regressor: Any) -> Any:
    """Wrap a regressor that would be lost on targets far from zero."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler

    return TransformedTargetRegressor(regressor, transformer=StandardScaler())
