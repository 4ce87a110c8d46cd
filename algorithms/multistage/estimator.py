"""Multi-stage classifiers in a few lines: a data frame in, a front and a deployable model out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from algorithms.multistage.config import MultiStageSettings
from algorithms.multistage.data import prepare_table
from algorithms.multistage.model import MultiStageClassifier
from algorithms.multistage.problem import MultiStageProblem
from framework.arrays import Array, FloatArray, IntArray
from framework.data.columns import FrameOptions
from framework.data.splits import FOLDS
from framework.data.tables import OTHER, Raw, Table, assemble
from framework.errors import InputError
from framework.estimators.front import FrontEstimator, group_codes
from framework.experiment.config import check
from framework.front import Front
from framework.libraries.checks import checked_classes
from framework.models.checks import (
    Threshold,
    copies_for,
    records_for,
    training_records,
    weights_for,
)
from framework.models.classifiers import (
    LOGISTIC_REGRESSION,
    ClassifierConfig,
    PythonClassifier,
    holds_records_back,
    make_estimator,
)

_LOCAL_SEARCH = {"kind": "local_search"}
_OBJECTIVES, _BY_COST = ("coverage", "accuracy", "cost"), ("risk", "cost")
_PLACE = "ParetoMultiStage"
_CELL_BYTES = 16  # bytes of a value in the table and encoded
_PARAMETER = {"split": "validation", "costs.values": "costs"}  # the parameter of a setting
_ADVICE = {
    "dataset.merge_rare": "merge_rare",
    "raise train, stratify, or choose another seed": "lower validation, or change random_state",
    "raise train": "lower validation",
    "; give them, or a default for the rest; drop what is no feature": "; give them",
}


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoMultiStage(FrontEstimator[MultiStageClassifier]):
    """Search multi-stage classifiers for the front of coverage, accuracy and feature cost.

    A multi-stage classifier asks for a few cheap features first, answers when it is sure, and
    asks for more when it is not. ``fit`` measures candidates out-of-fold: each record is answered
    by classifiers that were trained on the other folds of the records. The models that you get are
    trained on all records. ``front_`` lists the best trade-offs and ``choose`` returns one of them
    as a model. The estimator itself predicts with the recommended one, ``model_``.

    Parameters
    ----------
    objectives
        See :class:`~algorithms.multistage.problem.MultiStageProblem` for all metrics. None:
        coverage, accuracy and cost, or with a decision by costs risk and cost.
    algorithm
        A search over partitions: ``local_search``, ``emsco``, ``exact``, ``nsga2``, ... None: local
        search, ten neighbours at a time.
    costs : mapping of feature name to float, Series, or sequence of float, optional
        What it costs to acquire each feature: by name, or in the order of the columns. The
        features of an array are called ``x0``, ``x1``, ... None: 1 each.
    threshold : float, mapping of class label to float, or sequence of float, optional
        The probability that an answer needs, above 0 and at most 1; labels that a mapping leaves
        out need 0.5. From a sequence, the search chooses a value for each candidate. None: nine
        values from 0.5 to 0.99, and lower ones with more than two classes.
    threshold_per_stage : bool
        Whether each stage of a candidate has a threshold of its own.
    stage_cost : float
        What it costs to ask the classifier of a stage, besides its features.
    decision : mapping, optional
        Costs by which stages decide, instead of by the threshold, as in a configuration:
        ``{"errors": {"ill": {"well": 50}, "well": 1}, "no_answer": 2}``. Each stage picks the class
        of least expected cost, and stops where this cost is low enough. There are then the metrics
        ``risk`` and ``total_cost``. Labels may be spelled as texts.
    max_stages : int, optional
        Greatest number of stages; half the number of features, at most 10, if None.
    remove_features : bool
        Whether a candidate may leave out features. If not, every feature is in some stage, though
        few records may reach it.
    classifier : str, mapping, or estimator
        What is trained for each stage: ``logistic_regression``, ``xgboost``, ..., or with
        parameters ``{"kind": "logistic_regression", "C": 0.1}``, as in a configuration; or any
        scikit-learn estimator with ``predict_proba``, such as a ``Pipeline``.
    calibration : {'none', 'sigmoid', 'isotonic', 'softmax'}, optional
        How the probabilities of each stage are calibrated, by cross-validation within the
        training records. None: softmax with a decision by costs, else none.
    validation : float
        With ``measure="holdout"``: share of the records, between 0 and 1, on which candidates are
        measured; the others train.
    measure : {'cross_validation', 'holdout'} or mapping
        What candidates are measured on: all records out-of-fold, in five folds (fewer where a class
        has fewer records), or the share ``validation``. With parameters, as in a configuration:
        ``{"kind": "cross_validation", "folds": 10}``.
    split : mapping, optional
        How records are divided by columns of the frame, which are then not features, as in a
        configuration: ``{"group": "patient"}``, ``{"time": "admitted"}``, ``{"fold": "block"}``.
        For groups that are not a column see ``fit``.
    categorical : sequence of str
        Columns of categories that look like numbers or dates.
    merge_rare : int, optional
        Classes with fewer records become one class, ``other``.
    missing : sequence of str
        Texts that stand for a missing value.
    keep : sequence of str
        Columns of a frame to take although they look like identifiers, free text or constants.
    reject_label : label, optional
        What ``predict`` returns for records that no stage is sure about. None: the most likely
        class.

    The others are those of :class:`~framework.estimators.front.FrontEstimator`.

    Attributes
    ----------
    front_ : pandas.DataFrame
        Its last column ``features`` has the names that each stage acquires.
    model_ : MultiStageClassifier
        The recommended solution.
    classes_ : numpy.ndarray, shape (n_classes,)
    problem_ : MultiStageProblem
    algorithm_ : Algorithm
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of str, shape (n_features_in_,)
        If fitted on a data frame with column names.

    Notes
    -----
    In ``fit`` missing values are allowed; in a frame, so are text, dates and categories. The types
    of its columns are inferred as the command infers those of a table: texts that are dates, or
    numbers with marks such as ``9,009`` or ``$5``, are read as such; identifiers, free text and
    constants are left out; of more than 100 categories only the most frequent stay apart. A warning
    names each such column. There must be at least two classes, each with at least three records.

    A record with a whole ``sample_weight`` counts as so many copies. Weights that are not whole
    count in training, in every metric and in resamples, but imputing, scaling and costs by
    importance count each record once. The classifier then has to take weights, and exact searches
    refuse them.

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
    threshold: Threshold | Sequence[float] | None = None
    threshold_per_stage: bool = False
    stage_cost: float = 0.0
    decision: Mapping[str, Any] | None = None
    max_stages: int | None = None
    remove_features: bool = False
    classifier: Any = "logistic_regression"
    calibration: str | None = None
    budget: int | Mapping[str, Any] = 10_000
    validation: float = 0.3
    measure: str | Mapping[str, Any] = "cross_validation"
    split: Mapping[str, Any] | None = None
    categorical: Sequence[str] = ()
    merge_rare: int | None = None
    missing: Sequence[str] = ()
    keep: Sequence[str] = ()
    reject_label: Any = None
    classes_: Array = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _problem_of(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> MultiStageProblem:
        X, y = training_records(self, X, y)
        weights = weights_for(sample_weight, y)
        counted: dict[str, Array] = {}
        if (weights != np.rint(weights)).any():
            counted = {"weights": weights}
        elif (copies := copies_for(sample_weight, y, _CELL_BYTES * X.shape[1])) is not None:
            counted = {"copies": copies}
        groups = group_codes(groups, y)
        if counted:
            positive = weights > 0
            X, y = X[positive], y[positive]
            counted = {key: values[positive] for key, values in counted.items()}
            groups = None if groups is None else groups[positive]
        if len(np.unique(y)) < 2:
            raise ValueError("y: expected labels of two classes or more, found one class")
        checked_classes(np.unique(y))
        named = hasattr(self, "feature_names_in_")
        with _called_as_parameters(divided=bool(self.split)):
            frame, names = _frame(X, named), dict(self.split or {})
            if groups is not None:
                names = {"group": _unused("groups", frame), **names}
                frame = frame.assign(**{names["group"]: groups})
            settings = self._settings(frame, named, names, np.unique(y, return_counts=True)[1])
            table = self._table(frame, named, y, settings.split.columns)
            prepare = partial(
                prepare_table,
                table,
                where=_PLACE,
                named=named,
                copies=counted.get("copies"),
                weights=counted.get("weights"),
            )
            prepared = prepare(settings)
        for note in prepared["source"].description.get("notes", ()):
            warnings.warn(note, stacklevel=3)
        if "copies" in counted:
            _refuse_dividing(settings.classifier, len(prepared["data"].y))
        self.classes_ = np.unique(y) if self.merge_rare is None else np.asarray(table.classes)
        if self.classes_.dtype.kind == "U" and not isinstance(y[0], str):
            raise InputError(
                f"merge_rare: expected texts as labels, since rare classes become {OTHER!r}, found "
                f"{y[0]!r}; fit(X, y.astype(str))"
            )
        label = self.reject_label
        if np.ndim(label) or (not pd.isna(label) and label in self.classes_.tolist()):
            raise InputError(
                f"reject_label: expected a label that is no class, found {label!r}; records "
                "without an answer would be among those with one"
            )
        self._prepare, self._settings_of_fit = prepare, settings
        self._take_columns([*settings.split.columns.values(), *table.left_out])
        return MultiStageProblem(**prepared)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of ``model_``; classes that ``fit`` has merged are one for it, too."""
        if self.merge_rare is not None and OTHER in getattr(self, "classes_", ()):
            y = np.where(np.isin(y, self.classes_), y, OTHER)
        return super().score(X, y, sample_weight)

    def _scored_by(
        self, prices: Mapping[str, Any] | None, errors: Mapping[str, float] | None
    ) -> MultiStageProblem:
        problem, section = self.problem_, self._settings_of_fit.model_dump(exclude_unset=True)
        if prices is not None:
            section = problem.with_prices(section, prices)
        if errors is not None:
            section = problem.with_errors(section, errors)
        section["classifier"] = self._settings_of_fit.classifier
        settings = check(MultiStageSettings, section, _PLACE)
        rescored = MultiStageProblem(**self._prepare(settings))
        if rescored.components_fingerprint == problem.components_fingerprint:
            rescored.add_components(problem.components_since(0))
        return rescored

    def _take_columns(self, aside: Collection[str]) -> None:
        """Do not expect in later records the columns ``aside``, which are not features."""
        names: Array = getattr(self, "feature_names_in_", np.empty(0, dtype=object))
        is_aside = np.isin(names, list(aside))
        if is_aside.any():
            self.feature_names_in_ = names[~is_aside]
            self.n_features_in_ = len(self.feature_names_in_)

    def _records(self, X: Any) -> Any:
        return records_for(self, X)

    def _asked(self, problem: Any) -> tuple[str | Mapping[str, Any], int | Mapping[str, Any]]:
        return _LOCAL_SEARCH if self.algorithm is None else self.algorithm, self.budget

    def _usual_objectives(self, problem: Any) -> Sequence[str]:
        return _OBJECTIVES if self.decision is None else _BY_COST

    def _design_columns(self, front: Front) -> Mapping[str, Any]:
        return {"features": list(map(self._names, front.X))}

    def _table(self, frame: pd.DataFrame, named: bool, y: Array, aside: Mapping[str, str]) -> Table:
        """Return the records of a frame as a checked table."""
        target = _unused("target", frame)
        frame = frame.assign(**{target: y})
        keys = ("categorical", "merge_rare", "missing", "keep", "positive")
        options_set = {name: getattr(self, name) for name in keys}
        options = check(FrameOptions, {"target": target, "is_frame": named, **options_set}, _PLACE)
        table = assemble(Raw(frame, "records", "the records of fit"), _PLACE, options, aside)
        left_out = tuple(name for name in table.left_out if name != target)  # y is no column
        return replace(table, left_out=left_out)

    def _settings(
        self, frame: pd.DataFrame, named: bool, split: Mapping[str, Any], counts: IntArray
    ) -> MultiStageSettings:
        share = self.validation
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1:
            raise InputError(f"validation: expected a share above 0 and below 1, found {share!r}")
        if self.split and not named:
            raise InputError("split: expected a data frame with the columns that it names")
        classifier, measure = self.classifier, self.measure
        if isinstance(classifier, str):
            classifier = {"kind": classifier}
        elif not isinstance(classifier, Mapping):
            classifier = PythonClassifier.of(classifier)
        if isinstance(measure, str):
            measure = {"kind": measure}
            if measure["kind"] == "cross_validation":
                measure["folds"] = max(2, min(FOLDS, int(counts.min())))
        costs = None if self.costs is None else _plain_costs(self.costs, named)
        if named and isinstance(costs, list):  # columns may be left out
            columns = [name for name in map(str, frame.columns) if name not in split.values()]
            costs = dict(zip(columns, costs, strict=True)) if len(columns) == len(costs) else costs
        raw = {
            "split": {
                "train": 1 - self.validation,
                "validation": self.validation,
                "test": 0.0,
                "seed": self.random_state,
                **split,
            },
            "measure": measure,
            "costs": None if self.costs is None else {"values": costs},
            "threshold": self.threshold,
            "threshold_per_stage": self.threshold_per_stage,
            "stage_cost": self.stage_cost,
            "max_stages": self.max_stages,
            "remove_features": self.remove_features,
            "classifier": classifier,
            "rates": self._rated["rates"],
        }
        if self.calibration is not None:
            raw["calibration"] = self.calibration
        if self.decision is not None:
            raw["decision"] = self.decision
        return check(MultiStageSettings, raw, _PLACE)

    def _model_of(self, genome: Array, problem: Any) -> MultiStageClassifier:
        model: MultiStageClassifier = problem.decode(genome)
        model.reject_label = self.reject_label
        if self.classes_.dtype.kind == "f":  # not whole numbers, as a table has them
            model.classes_ = self.classes_
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


@contextmanager
def _called_as_parameters(*, divided: bool) -> Iterator[None]:
    """Make errors name the parameters from which settings come; ``split`` is one if it divides."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for key, name in _PARAMETER.items():
            if key == "split" and divided:
                continue
            text = re.sub(rf"(?m)^{_PLACE}(\.|: ){re.escape(key)}\b", rf"{_PLACE}\1{name}", text)
        for ours, instead in _ADVICE.items():
            text = text.replace(ours, instead)
        raise InputError(text) from error


def _refuse_dividing(classifier: ClassifierConfig, records: int) -> None:
    """Raise InputError where the classifier of a stage would divide the copies of a record."""
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
