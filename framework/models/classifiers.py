"""The classifier of a stage: our own logistic regression, or any of scikit-learn."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from framework import registry
from framework.errors import InputError

LOGISTIC_REGRESSION = "logistic_regression"
CalibrationMethod = Literal["none", "isotonic", "sigmoid"]

KNOWN = {
    "adaboost": "sklearn.ensemble.AdaBoostClassifier",
    "decision_tree": "sklearn.tree.DecisionTreeClassifier",
    "extra_trees": "sklearn.ensemble.ExtraTreesClassifier",
    "gaussian_nb": "sklearn.naive_bayes.GaussianNB",
    "gradient_boosting": "sklearn.ensemble.GradientBoostingClassifier",
    "hist_gradient_boosting": "sklearn.ensemble.HistGradientBoostingClassifier",
    "k_neighbors": "sklearn.neighbors.KNeighborsClassifier",
    "lda": "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    "mlp": "sklearn.neural_network.MLPClassifier",
    "qda": "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
    "random_forest": "sklearn.ensemble.RandomForestClassifier",
}


class ClassifierConfig(BaseModel):
    """``{kind: logistic_regression, C: 1.0}``, or any scikit-learn classifier with probabilities.

    ``kind`` is ``logistic_regression`` (l2, our own solver), one of ``KNOWN``, or the dotted path
    of a class; the other keys are that class's parameters. A ``random_state`` is 0 unless given,
    so that training is a function of the records and the features alone.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = LOGISTIC_REGRESSION

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind != LOGISTIC_REGRESSION and kind not in KNOWN and "." not in kind:
            names = [LOGISTIC_REGRESSION, *KNOWN]
            raise ValueError(
                f"expected one of {', '.join(names)}, or the dotted path of a scikit-learn "
                f"class; found {kind!r}{registry.nearest(kind, names)}"
            )
        return kind

    @model_validator(mode="after")
    def _parameters(self) -> ClassifierConfig:
        if self.kind == LOGISTIC_REGRESSION:
            unknown = [key for key in self.parameters if key != "C"]
            if unknown:
                raise ValueError(f"expected no parameter but C, found {unknown[0]!r}")
            c = self.parameters.get("C", 1.0)
            if not isinstance(c, int | float) or isinstance(c, bool) or not 0 < c <= 1e6:
                raise ValueError(f"expected C above 0 and at most 1e6, found {c!r}")
            return self
        try:
            make_estimator(self.kind, self.parameters)
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """Every key but ``kind``."""
        return dict(self.model_extra or {})


def make_estimator(kind: str, parameters: dict[str, Any]) -> Any:
    """Return an unfitted scikit-learn classifier.

    Raises
    ------
    InputError
        No such class, no ``predict_proba``, or an unknown parameter.
    """
    path = KNOWN.get(kind, kind)
    module, _, name = path.rpartition(".")
    try:
        cls = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"expected a class at {path!r}, found none ({error})") from error
    accepted = list(inspect.signature(cls).parameters)
    for key in parameters:
        if key not in accepted:
            raise InputError(
                f"expected a parameter of {name} ({', '.join(accepted)}), found {key!r}"
                f"{registry.nearest(key, accepted)}"
            )
    if "random_state" in accepted:
        parameters = {"random_state": 0, **parameters}
    estimator = cls(**parameters)
    if not hasattr(estimator, "predict_proba"):
        raise InputError(f"expected a classifier with predict_proba, found {name} without one")
    return estimator
