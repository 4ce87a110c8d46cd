"""The classifiers that a configuration may name, the linear one of paretolab, and their files.

A configuration can name the classifiers of a fixed table, those that packages register, and those
that the user trusts. Fitted linear classifiers are stored as plain numbers, calibrated ones as two
files.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, PrivateAttr, field_validator, model_validator
from scipy.special import expit, softmax

from framework import registry
from framework.arrays import Array, FloatArray
from framework.errors import InputError, damaged, first_line
from framework.extras import missing
from framework.models.boosted import ALWAYS, PARAMETERS, BoostedTrees
from framework.models.calibration import CalibratedProbability, Calibration
from framework.models.files import ModelFiles
from framework.security import load_estimator, trusted
from framework.settings import SectionOfKind

LOGISTIC_REGRESSION = "logistic_regression"
CalibrationMethod = Literal["none", "isotonic", "sigmoid", "softmax"]

KNOWN = {
    "adaboost": "sklearn.ensemble.AdaBoostClassifier",
    "catboost": "catboost.CatBoostClassifier",
    "decision_tree": "sklearn.tree.DecisionTreeClassifier",
    "extra_trees": "sklearn.ensemble.ExtraTreesClassifier",
    "gaussian_nb": "sklearn.naive_bayes.GaussianNB",
    "gradient_boosting": "sklearn.ensemble.GradientBoostingClassifier",
    "hist_gradient_boosting": "sklearn.ensemble.HistGradientBoostingClassifier",
    "k_neighbors": "sklearn.neighbors.KNeighborsClassifier",
    "lda": "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    "lightgbm": "lightgbm.LGBMClassifier",
    "mlp": "sklearn.neural_network.MLPClassifier",
    "qda": "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
    "random_forest": "sklearn.ensemble.RandomForestClassifier",
    "xgboost": "xgboost.XGBClassifier",
}
_MORE = (
    "sklearn.dummy.DummyClassifier",
    "sklearn.ensemble.BaggingClassifier",
    "sklearn.gaussian_process.GaussianProcessClassifier",
    "sklearn.linear_model.LogisticRegression",
    "sklearn.linear_model.SGDClassifier",
    "sklearn.naive_bayes.BernoulliNB",
    "sklearn.naive_bayes.ComplementNB",
    "sklearn.naive_bayes.MultinomialNB",
    "sklearn.svm.LinearSVC",
    "sklearn.svm.NuSVC",
    "sklearn.svm.SVC",
    "sklearn.tree.ExtraTreeClassifier",
)
PATHS = {**KNOWN, **{path: path for path in (*KNOWN.values(), *_MORE)}}
"""The dotted path of each classifier of the table, by short name and by dotted path."""

_ARRAY, _CALIBRATED, _SKOPS = ".npy", ".calibrated.json", ".skops"  # ends of names of files
_TREES = ".trees.npy"
_WORD = re.compile(r"[\w.+-]*")  # LightGBM reads further parameters after a blank
_LONGEST = 1000  # numbers or words in a parameter
_MANY = 10_000  # records above which early_stopping="auto" of scikit-learn means yes


class ClassifierConfig(SectionOfKind):
    """``{kind: logistic_regression, C: 1.0}``, or a known classifier with probabilities.

    kind : a known classifier, such as ``random_forest`` or ``xgboost``, or the dotted path of one
        (``sklearn.svm.SVC``); all further keys are its parameters.

    ``kind`` is ``logistic_regression`` (l2, our solver), a key of ``PATHS``, a name registered
    under ``paretolab.classifiers``, or the dotted path of a class that the user trusts
    (``--trust``); the other keys are that class's parameters: numbers, words, lists of them. A
    ``random_state`` is 0 unless given, so that training is a function of the records and the
    features alone.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = LOGISTIC_REGRESSION

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind != LOGISTIC_REGRESSION:
            try:
                check_kind(kind)
            except InputError as error:
                raise ValueError(str(error)) from error
        return kind

    @model_validator(mode="after")
    def _parameters(self) -> ClassifierConfig:
        if self.kind == LOGISTIC_REGRESSION:
            unknown = [key for key in self.parameters if key not in ("C", "class_weight")]
            if unknown:
                raise ValueError(
                    f"expected no parameter but C and class_weight, found {unknown[0]!r}"
                )
            _check_class_weight(self.parameters.get("class_weight"))
            c = self.parameters.get("C", 1.0)
            if not isinstance(c, int | float) or isinstance(c, bool) or not 0 < c <= 1e6:
                raise ValueError(f"expected C above 0 and at most 1e6, found {c!r}")
            return self
        try:
            estimator = make_estimator(self.kind, self.parameters)
        except InputError as error:
            raise ValueError(str(error)) from error
        if hasattr(estimator, "_parameter_constraints"):  # of scikit-learn, which checks in fit
            try:
                estimator._validate_params()
            except ValueError as error:
                raise ValueError(
                    f"expected values that {type(estimator).__name__} takes, found: "
                    f"{first_line(error)}"
                ) from error
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """Every key but ``kind``; class weights by the texts of their labels."""
        by_name = dict(self.model_extra or {})
        weights = by_name.get("class_weight")
        if isinstance(weights, Mapping):
            by_name["class_weight"] = {str(label): weight for label, weight in weights.items()}
        return by_name


class Prototype(dict[str, Any]):
    """An estimator with scikit-learn's interface in place of parameters; copies of it are fitted.

    As a mapping it holds the estimator's class and parameters as texts, so that problems with
    different estimators differ.

    Raises
    ------
    InputError
        The estimator cannot be copied and fitted, or has no ``predict_proba``.
    """

    def __init__(self, estimator: Any) -> None:
        name = type(estimator).__name__
        if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
            raise InputError(
                "classifier: expected a name, a mapping, or an estimator such as "
                f"RandomForestClassifier(), found {estimator!r}"
            )
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")):
            raise InputError(
                f"classifier: expected an estimator with fit and predict_proba, found {name} "
                "without; CalibratedClassifierCV gives probabilities to a classifier"
            )
        self.estimator, parameters = estimator, sorted(estimator.get_params().items())
        super().__init__({"estimator": name, "parameters": str(parameters)})

    def copy_of(self) -> Any:
        """Return an unfitted copy; its parts have the seed 0 unless they set another."""
        from sklearn.base import clone

        copy: Any = clone(self.estimator)
        for part in (copy, *copy.get_params().values()):
            if hasattr(part, "get_params") and not isinstance(part, type):
                _set_defaults(part)
        return copy


def _set_defaults(part: Any) -> None:
    """Give an estimator the seed 0 and one thread, LightGBM silence, if parameters leave it open.

    For scikit-learn, None already means one thread; LightGBM, XGBoost and CatBoost then take all
    cores, even if the process may use fewer.
    """
    parameters, package = part.get_params(deep=False), type(part).__module__.partition(".")[0]
    if package == "catboost":  # it lists only parameters that were set
        parameters.setdefault("thread_count", None)
    if package == "lightgbm" and "verbosity" not in parameters:
        parameters.setdefault("verbose", None)
    more = {"n_jobs": 1, "thread_count": 1, "verbose": -1}
    usual = {"random_state": 0} | ({} if package == "sklearn" else more)
    part.set_params(**{k: usual[k] for k, v in parameters.items() if v is None and k in usual})


class PythonClassifier(ClassifierConfig):
    """A section with an estimator that was passed in Python; no configuration file can name it."""

    _prototype: Prototype = PrivateAttr()

    @classmethod
    def of(cls, estimator: Any) -> PythonClassifier:
        """Return the section for an estimator."""
        section = cls.model_construct(kind=type(estimator).__name__)
        section._prototype = Prototype(estimator)
        return section

    @property
    def parameters(self) -> dict[str, Any]:
        """The estimator itself."""
        return self._prototype


def _check_class_weight(value: Any) -> None:
    if value is None or value == "balanced":
        return
    if not isinstance(value, Mapping):
        raise ValueError(f"class_weight: expected balanced, or a weight by label, found {value!r}")
    for label, weight in value.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (number and 0 < weight < float("inf")):
            raise ValueError(
                f"class_weight: expected a finite weight above 0 for {label!r}, found {weight!r}"
            )


def check_kind(kind: str) -> None:
    """Raise InputError for a classifier that may not be named; nothing is imported."""
    registered = registry.names("classifiers")
    if kind in PATHS or kind in registered or kind in trusted():
        return
    names = [LOGISTIC_REGRESSION, *KNOWN, *registered]
    hint = registry.nearest(kind, [*names, *PATHS])
    remark = ""
    if "." in kind and not hint:
        remark = (
            "; your class is accepted if it is registered under paretolab.classifiers, or with "
            f"--trust {kind}, which imports and runs it"
        )
    raise InputError(
        f"expected one of {', '.join(names)}, or another classifier of scikit-learn that is known; "
        f"found {kind!r}{hint}{remark}"
    )


def classifier_class(kind: str) -> Any:
    """Return the class of a kind.

    Raises
    ------
    InputError
        It may not be named, or does not exist.
    """
    check_kind(kind)
    if kind in registry.names("classifiers"):
        return registry.load("classifiers", kind)
    path = PATHS.get(kind, kind)
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and (absent := missing(error)):
            raise absent from error
        raise InputError(f"expected a class at {path!r}, found none ({error})") from error


def make_estimator(kind: str, parameters: Mapping[str, Any]) -> Any:
    """Return an unfitted scikit-learn classifier.

    Raises
    ------
    InputError
        The class does not exist, has no ``predict_proba``, or does not accept a parameter.
    """
    if isinstance(parameters, Prototype):
        return parameters.copy_of()
    cls, path = classifier_class(kind), PATHS.get(kind, kind)
    name, arguments = cls.__name__, inspect.signature(cls).parameters.values()
    accepted = [p.name for p in arguments if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    accepted = PARAMETERS.get(path, accepted)
    for key, value in parameters.items():
        if key not in accepted:
            raise InputError(
                f"expected a parameter of {name} ({', '.join(accepted)}), found {key!r}"
                f"{registry.nearest(key, accepted)}"
            )
        if not _is_plain(value):
            raise InputError(
                f"{key}: expected a number, a word, or a list of them, found {value!r}"
            )
    if "random_state" in accepted:
        parameters = {"random_state": 0, **parameters}
    try:
        estimator = cls(**{**ALWAYS.get(path, {}), **parameters})
    except (TypeError, ValueError) as error:
        raise InputError(f"expected parameters that {name} takes, found: {error}") from error
    if not hasattr(estimator, "predict_proba"):
        raise InputError(f"expected a classifier with predict_proba, found {name} without one")
    return estimator


def holds_records_back(estimator: Any, records: int) -> bool:
    """Return whether a scikit-learn classifier, fitted to ``records`` records, splits them itself.

    It does for early stopping, or for probabilities by cross-validation. Copies of a record would
    then be on both sides of the split.
    """
    parameters = estimator.get_params()
    if parameters.get("probability") is True:  # of support vector machines
        return True
    if "early_stopping" in parameters:
        early = parameters["early_stopping"]
        return bool(records > _MANY if early == "auto" else early)
    return parameters.get("n_iter_no_change") is not None  # of gradient boosting


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number or a word, or a short list or mapping of these.

    Such a value cannot name a function, a file or a further parameter.
    """
    if isinstance(value, Mapping):
        return len(value) <= _LONGEST and all(map(_is_word, [*value, *value.values()]))
    if isinstance(value, list | tuple):
        return len(value) <= _LONGEST and all(map(_is_word, value))
    return _is_word(value)


def _is_word(value: Any) -> bool:
    if isinstance(value, str):
        return _WORD.fullmatch(value) is not None
    return value is None or isinstance(value, bool | int | float)


class LinearProbability:
    """A fitted logistic regression that predicts as scikit-learn's does.

    Parameters
    ----------
    classes : (K,)
    coef : float64 (1, D) for two classes (of the second one), else (K, D)
    intercept : float64 (1,) or (K,)

    Raises
    ------
    InputError
        Shapes do not match, or numbers are not finite.
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
        """Return the classifier of an array from :meth:`to_array`; raises as the constructor."""
        if array.ndim != 2 or array.shape[1] < 1 or array.dtype.kind != "f":
            raise InputError(
                f"linear classifier: expected a float array of two dimensions, found "
                f"{array.dtype} of shape {array.shape}"
            )
        return cls(classes, array[:, :-1], array[:, -1])


def write_classifier(files: ModelFiles, stem: str, classifier: Any) -> str:
    """Write a classifier; return the name of its file, which begins with ``stem``.

    ``STEM.npy`` holds the coefficients of a :class:`LinearProbability`, ``STEM.trees.npy`` the
    array of :class:`~framework.models.boosted.BoostedTrees`, ``STEM.calibrated.json`` a calibration
    and the name of the file with its classifier, ``STEM.skops`` any other trusted estimator.

    Raises
    ------
    InputError
        The classifier holds a type that is not trusted.
    """
    if isinstance(classifier, CalibratedProbability):
        base = write_classifier(files, stem, classifier.base)
        plain = {"base": base, "calibration": classifier.calibration.to_json()}
        files.write_json(stem + _CALIBRATED, plain)
        return stem + _CALIBRATED
    if isinstance(classifier, LinearProbability):
        files.write_array(stem + _ARRAY, classifier.to_array())
        return stem + _ARRAY
    if isinstance(classifier, BoostedTrees):
        files.write_array(stem + _TREES, classifier.to_array())
        return stem + _TREES
    files.write_estimator(stem + _SKOPS, classifier)
    return stem + _SKOPS


def read_classifier(files: ModelFiles, name: str, classes: Any) -> Any:
    """Return the classifier that :func:`write_classifier` wrote.

    Raises
    ------
    InputError
        A file is damaged, was changed, holds types that are not trusted, or is no classifier.
    """
    if name.endswith(_TREES):
        return BoostedTrees(np.asarray(classes), files.read_array(name))
    if name.endswith(_ARRAY):
        return LinearProbability.from_array(classes, files.read_array(name))
    if name.endswith(_CALIBRATED):
        return _read_calibrated(files, name, classes)
    return load_classifier(files.read(name), name)


def _read_calibrated(files: ModelFiles, name: str, classes: Any) -> CalibratedProbability:
    plain = files.read_json(name)
    with damaged(name, "a calibrated classifier"):
        base, calibration = str(plain["base"]), Calibration.from_json(plain["calibration"])
    if base.endswith(_CALIBRATED):
        raise InputError(f"{name}: expected another file with its classifier, found {base}")
    return CalibratedProbability(read_classifier(files, base, classes), calibration, classes)


def load_classifier(content: bytes, name: str) -> Any:
    """Load a classifier from skops's format.

    Parameters
    ----------
    content : bytes
    name : str
        Name of the file in messages.

    Raises
    ------
    InputError
        The file is damaged, holds types that are not trusted, or is no classifier.
    """
    classifier = load_estimator(content, name)
    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            f"{name}: expected a classifier with predict_proba, found {type(classifier).__name__}"
        )
    return classifier
