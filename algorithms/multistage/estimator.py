"""Multi-stage classifiers in a few lines: a data frame in, a front and a deployable model out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from algorithms.multistage.data import MultiStageSettings, prepare_table
from algorithms.multistage.model import MultiStageClassifier
from algorithms.multistage.problem import MultiStageProblem
from framework.arrays import Array, FloatArray, IntArray
from framework.data.columns import FrameOptions
from framework.data.splits import FOLDS
from framework.data.tables import Raw, Table, assemble
from framework.errors import InputError
from framework.experiment.config import check
from framework.experiment.front_estimator import FrontEstimator, roles_for, search
from framework.models.checks import (
    Threshold,
    copies_for,
    records_for,
    training_records,
)
from framework.models.classifiers import (
    LOGISTIC_REGRESSION,
    ClassifierConfig,
    holds_records_back,
    make_estimator,
)

_LOCAL_SEARCH = {"kind": "local_search", "neighbours": 10}
_OBJECTIVES, _BY_COST = ("coverage", "accuracy", "cost"), ("risk", "cost")
_PLACE = "ParetoMultiStage"
_CELL_BYTES = 16  # of a value in the table, and encoded
_PARAMETER = {"split": "validation", "costs.values": "costs"}  # of the settings they go to
_ADVICE = {
    "raise train, stratify, or choose another seed": "lower validation, or change random_state",
    "raise train": "lower validation",
    "give them, or a default": "give them",
}


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoMultiStage(ClassifierMixin, FrontEstimator[MultiStageClassifier]):  # type: ignore[misc]
    """Search multi-stage classifiers for the front of coverage, accuracy and feature cost.

    A multi-stage classifier asks for a few cheap features first, answers when it is sure, and
    asks for more when it is not. ``fit`` measures designs out-of-fold: each record is answered by
    classifiers that were trained on the other folds of the records, and the models that are handed
    out are trained on all of them. ``front_`` lists the best trade-offs and ``choose`` returns one
    of them as a model. The estimator itself predicts with the recommended one, ``model_``.

    Parameters
    ----------
    costs : mapping of feature name to float, Series, or sequence of float, optional
        What it costs to acquire each feature: by name, or in the order of the columns. The
        features of an array are called ``x0``, ``x1``, ... None: 1 each.
    threshold : float or mapping of class label to float
        The probability that an answer needs, above 0 and at most 1; labels that a mapping leaves
        out need 0.5.
    decision : mapping, optional
        Costs by which stages decide, in place of the threshold, as in a configuration:
        ``{"errors": {"ill": {"well": 50}, "well": 1}, "no_answer": 2}``. Each stage says the class
        of least expected cost, and stops where that is low enough. The metrics ``risk`` and
        ``total_cost`` are then there; labels spelled as texts are found.
    max_stages : int, optional
        Greatest number of stages; half the number of features, at most 10, if None.
    remove_features : bool
        Whether a design may leave features out for good; else every design has a stage for each,
        which few records reach.
    classifier : str or mapping
        What is trained for each stage: ``logistic_regression``, ``random_forest``, ..., or with
        parameters ``{"kind": "logistic_regression", "C": 0.1}``; as in a configuration.
    calibration : {'none', 'sigmoid', 'isotonic', 'softmax'}, optional
        How the probabilities of each stage are calibrated, by cross-validation within the
        training records. None: softmax with a decision by costs, else none.
    objectives : sequence of str, optional
        Metrics that span the front; see
        :class:`~algorithms.multistage.problem.MultiStageProblem` for all of them. None: coverage,
        accuracy and cost, or with a decision by costs risk and cost.
    constraints : str or sequence of str
        Bounds that every design of the front keeps to, such as ``false_positive_rate<=0.1``.
    algorithm : str or mapping, optional
        A search over partitions: its registered name (``local_search``, ``emsco``, ``exact``,
        ``nsga2``, ...), or with parameters ``{"kind": "emsco", "population": 100}``. None: local
        search, ten neighbours at a time.
    budget : int or mapping
        Number of designs evaluated, or limits such as ``{"generations": 50, "seconds": 60}``.
    validation : float
        With ``measure="holdout"``: share of the records, between 0 and 1, that the designs are
        measured on; the others train.
    measure : {'cross_validation', 'holdout'} or mapping
        What designs are measured on: all records out-of-fold, in five folds (fewer where a class
        has fewer records), or the share ``validation``. Or with parameters
        ``{"kind": "cross_validation", "folds": 10}``; as in a configuration.
    split : mapping, optional
        What divides the records, by columns of the frame that are then no features:
        ``{"group": "patient"}``, ``{"time": "admitted"}``, ``{"fold": "block"}``; as in a
        configuration. For groups that are no column see ``fit``.
    where : str or sequence of str
        Conditions that the recommended design meets, such as ``cost<=50``.
    best : str, optional
        The metric that the recommended design is the best in. None: of the designs that meet
        ``where``, the one nearest to the best value of every objective.
    reject_label : label, optional
        What ``predict`` returns for records that no stage is sure about. None: the most likely
        class.
    random_state : int
        Seed of the split and of the search.
    verbose : bool
        Whether ``fit`` shows its progress, in a notebook or a terminal.

    Attributes
    ----------
    front_ : pandas.DataFrame
        One row per design, best in the first objective first, indexed by ``id``: its metrics
        out-of-fold (or on the validation records), and ``features``, the names that each stage
        acquires.
    model_ : MultiStageClassifier
        The recommended design.
    classes_ : numpy.ndarray, shape (n_classes,)
    problem_ : MultiStageProblem
    algorithm_ : Algorithm
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of str, shape (n_features_in_,)
        If fitted on a data frame with column names.

    Notes
    -----
    A front holds the luckiest of many designs: on new records expect somewhat less coverage and
    accuracy than it says, and measure the chosen design on records kept apart from ``fit``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture", "mean area", "worst area", "worst concavity"]]
    >>> costs = {name: 5 if name.startswith("worst") else 1 for name in X}
    >>> search = ParetoMultiStage(costs=costs, threshold=0.9, remove_features=True, budget=300)
    >>> model = search.fit(X, y).choose(where="cost<=4", best="accuracy")
    >>> len(model.predict(X))
    569
    """

    costs: Mapping[str, float] | pd.Series[Any] | Sequence[float] | FloatArray | None = None
    threshold: Threshold = 0.75
    decision: Mapping[str, Any] | None = None
    max_stages: int | None = None
    remove_features: bool = False
    classifier: str | Mapping[str, Any] = "logistic_regression"
    calibration: str | None = None
    objectives: Sequence[str] | None = None
    constraints: str | Sequence[str] = ()
    algorithm: str | Mapping[str, Any] | None = None
    budget: int | Mapping[str, Any] = 10_000
    validation: float = 0.3
    measure: str | Mapping[str, Any] = "cross_validation"
    split: Mapping[str, Any] | None = None
    where: str | Sequence[str] = ()
    best: str | None = None
    reject_label: Any = None
    random_state: int = 0
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> ParetoMultiStage:
        """Train and search.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Missing values are allowed; in a frame, so are text and categories. Texts that are
            numbers with marks, such as ``9,009`` or ``$5``, are read as numbers, with a warning.
        y : array (n,)
            Labels of two classes or more, each of three records or more.
        sample_weight : array (n,), optional
            How often each record counts, in training and in measuring: whole numbers, 0 leaves it
            out. Records are divided before they are counted, and copies stay together wherever
            records are divided again, so no record is measured on a copy of itself.
        groups : array (n,), optional
            The group of each record, such as its patient: none is trained on and measured on.

        Raises
        ------
        InputError
            Records, weights or parameters that cannot be used, or no design that meets ``where``.
        ValueError
            What scikit-learn refuses, and labels of one class.
        """
        X, y = training_records(self, X, y)
        copies = copies_for(sample_weight, y, _CELL_BYTES * X.shape[1])
        if groups is not None:
            groups = np.asarray(column_or_1d(groups))
            check_consistent_length(X, groups)
        if copies is not None:
            kept = copies > 0
            X, y, copies = X[kept], y[kept], copies[kept]
            groups = None if groups is None else groups[kept]
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError("y: expected labels of two classes or more, found one class")
        named = hasattr(self, "feature_names_in_")
        with _called_as_parameters():
            frame, names = _frame(X, named), dict(self.split or {})
            if groups is not None:
                names = {"group": _unused("groups", frame), **names}
                frame = frame.assign(**{names["group"]: groups})
            settings = self._settings(named, names, np.unique(y, return_counts=True)[1])
            table = _table(frame, y, settings.split.columns)
            prepared = prepare_table(table, settings, _PLACE, named=named, copies=copies)
        for note in table.notes:
            warnings.warn(note, stacklevel=2)
        if copies is not None:
            _refuse_dividing(settings.classifier, len(prepared["data"].y))
        self.problem_ = MultiStageProblem(**prepared)
        bounds = [self.constraints] if isinstance(self.constraints, str) else self.constraints
        objectives = self.objectives
        if objectives is None:
            objectives = _OBJECTIVES if self.decision is None else _BY_COST
        self.algorithm_, self._front = search(
            self.problem_,
            roles_for(self.problem_, objectives, bounds),
            _LOCAL_SEARCH if self.algorithm is None else self.algorithm,
            self.budget,
            self.random_state,
            verbose=self.verbose,
        )
        order = np.lexsort(self._front.losses.T[::-1])
        columns: dict[str, Any] = self._metric_columns()
        columns["features"] = list(map(self._names, self._front.X))
        ids = pd.Index(self._front.ids, name="id")
        self.front_ = pd.DataFrame(columns, index=ids).iloc[order]
        self.model_ = self.choose(self.where, self.best)
        return self

    def predict(self, X: Any) -> Array:
        """Return the label (n,) of each record, ``reject_label`` for those without an answer."""
        return self._recommended().predict(records_for(self, X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n, n_classes) at the stage where each record leaves."""
        return self._recommended().predict_proba(records_for(self, X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the answers that are right, 0 where no record gets an answer.

        See :meth:`~algorithms.multistage.model.MultiStageClassifier.score`.
        """
        return self._recommended().score(records_for(self, X), y, sample_weight)

    def _recommended(self) -> MultiStageClassifier:
        check_is_fitted(self)
        return self.model_

    def _settings(
        self, named: bool, split: Mapping[str, Any], counts: IntArray
    ) -> MultiStageSettings:
        share, seed = self.validation, self.random_state
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1:
            raise InputError(f"validation: expected a share above 0 and below 1, found {share!r}")
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise InputError(f"random_state: expected a whole number from 0, found {seed!r}")
        if self.split and not named:
            raise InputError("split: expected a data frame with the columns that it names")
        classifier, measure = self.classifier, self.measure
        if isinstance(measure, str):
            measure = {"kind": measure}
            if measure["kind"] == "cross_validation":
                measure["folds"] = max(2, min(FOLDS, int(counts.min())))
        raw = {
            "split": {
                "train": 1 - self.validation,
                "validation": self.validation,
                "test": 0.0,
                "seed": self.random_state,
                **split,
            },
            "measure": measure,
            "costs": None if self.costs is None else {"values": _plain_costs(self.costs, named)},
            "threshold": self.threshold,
            "max_stages": self.max_stages,
            "remove_features": self.remove_features,
            "classifier": {"kind": classifier} if isinstance(classifier, str) else classifier,
        }
        if self.calibration is not None:
            raw["calibration"] = self.calibration
        if self.decision is not None:
            raw["decision"] = self.decision
        settings: MultiStageSettings = check(MultiStageSettings, raw, _PLACE)
        return settings

    def _model_of(self, genome: Array) -> MultiStageClassifier:
        model: MultiStageClassifier = self.problem_.decode(genome.astype(self.problem_.space.dtype))
        model.reject_label = self.reject_label
        return model

    def _names(self, genome: Array) -> list[list[str]]:
        """Return the names of the features that each stage of a genome acquires."""
        names = np.array(self.problem_.feature_names, dtype=object)
        genome = genome[: len(names)]
        return [names[genome == stage].tolist() for stage in range(int(genome.max()) + 1)]


def _frame(X: Any, named: bool) -> pd.DataFrame:
    """Return records as a frame; the features of an array are called ``x0``, ``x1``, ..."""
    frame = pd.DataFrame(X).reset_index(drop=True)
    if not named:
        frame.columns = pd.Index([f"x{i}" for i in range(frame.shape[1])])
    return frame


def _unused(name: str, frame: pd.DataFrame) -> str:
    """Return a name that no column has."""
    while name in frame.columns:
        name += "_"
    return name


def _table(frame: pd.DataFrame, y: Array, aside: Mapping[str, str]) -> Table:
    """Return checked records."""
    target = _unused("target", frame)
    frame, options = frame.assign(**{target: y}), FrameOptions(target=target)
    table = assemble(Raw(frame, "records", "the records of fit"), _PLACE, options, aside)
    return replace(table, left_out=())  # y is no column of the user's


@contextmanager
def _called_as_parameters() -> Iterator[None]:
    """Let errors call settings as the parameters that they come from."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for key, name in _PARAMETER.items():
            text = re.sub(rf"(?m)^{_PLACE}(\.|: ){re.escape(key)}\b", rf"{_PLACE}\1{name}", text)
        for ours, instead in _ADVICE.items():
            text = text.replace(ours, instead)
        raise InputError(text) from error


def _refuse_dividing(classifier: ClassifierConfig, records: int) -> None:
    """Refuse weights where a stage's classifier would divide the copies of a record.

    Raises
    ------
    InputError
    """
    kind, parameters = classifier.kind, classifier.parameters
    if kind == LOGISTIC_REGRESSION or not holds_records_back(
        make_estimator(kind, parameters), records
    ):
        return
    raise InputError(
        "sample_weight: expected a classifier that trains on all records it is given, found "
        f"{kind}, which holds some back (early stopping, or probabilities by cross-validation) and "
        "would have copies of a record on both sides; switch that off, or take another classifier"
    )


def _plain_costs(costs: Any, named: bool) -> dict[str, float] | list[float]:
    """Return costs as a configuration has them: by feature name, or in order."""
    if isinstance(costs, pd.Series):
        costs = costs.to_dict()
        if not named and set(costs) == set(range(len(costs))):
            costs = [costs[i] for i in range(len(costs))]
    if isinstance(costs, Mapping):
        costs = dict(costs)
        try:
            return {str(name): float(cost) for name, cost in costs.items()}
        except (TypeError, ValueError) as error:
            raise InputError(f"costs: expected numbers by feature, found {costs!r}") from error
    try:
        return [float(cost) for cost in costs]
    except (TypeError, ValueError) as error:
        raise InputError(f"costs: expected numbers, found {costs!r}") from error
