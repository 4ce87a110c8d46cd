"""Multi-stage classifiers with early exit and a terminal reject (EMSCO, Section 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted, column_or_1d

from algorithms.multistage.config import MissingPolicy
from algorithms.multistage.decision import decision_for, stage_thresholds
from algorithms.multistage.model_files import card_of, read_model, write_model, write_onnx
from algorithms.multistage.routing import RoutedRecords, acquired, next_step, route
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.data.costs import Panels
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.models.checks import (
    Threshold,
    costs_for,
    records_for,
    training_records,
    weights_for,
    with_rejects,
)
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.registry import require_columns


@dataclass(eq=False, repr=False)
class MultiStageClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """Acquires features stage by stage, and stops for each record once it is sure of the class.

    A record passes the stages in order. At each stage, its features are acquired, and a classifier
    trained on all features acquired so far predicts. The record leaves with the most likely class
    once the probability of that class reaches its threshold. After the last stage it leaves in any
    case: with ``reject_label`` if there is one, else with the most likely class. Features of later
    stages are neither read nor encoded for records that have left.

    Parameters
    ----------
    stages : sequence of sequences of feature positions or names, optional
        Disjoint and not empty. None: one stage with all features. A feature of no stage is never
        acquired.
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each.
    threshold : float, mapping of class label to float, or sequence of float
        The probability that an answer needs, from 0 to 1; labels left out need 0.5. A sequence has
        one for each stage.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Cloned for each stage. None: l2-penalised logistic regression with C = 1.
    reject_label : label, optional
        What ``predict`` returns for records that no stage is confident about. None: the most
        likely class.
    panels : Panels, optional
        Features that share a cost, which is paid once, with the first of them.
    missing : {'impute', 'ask', 'inconclusive'}
        What ``predict_table`` does where a value is missing in a stage that is reached: take the
        median (``impute``), or stop there without a label (``ask``) or with the reject label. The
        column ``missing`` of its answer names the features in any case.
    stage_cost : float
        What it costs to ask the classifier of a stage, besides its features; at least 0.
    decision : mapping, optional
        Costs by which stages decide, instead of by ``threshold``. ``errors`` has what a wrong
        answer costs by the label of the true class: one number, or a mapping by the label of the
        answer. ``no_answer`` is the cost of a record without an answer. ``thresholds`` are risks,
        one for each stage but the last or one for all of them (``no_answer`` unless given). Each
        stage picks the class of least expected cost. The record leaves where this cost is at most
        the threshold of the stage or, at the last stage, ``no_answer``.

    Attributes
    ----------
    classes_ : (K,)
    stages_ : tuple of int64 arrays, the features acquired at each stage
    classifiers_ : list, one per stage; each takes the encoded columns of all features acquired up
        to its stage, in ascending order of features
    encoder_ : Encoder
    costs_ : float64 (n_features_in_,)
    thresholds_ : float64 (stages, K)
    decision_ : DecisionCosts or None
    stops_ : float64 (stages,), the greatest risk of an answer at each stage; empty without costs
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,), if fitted on a frame with column names

    References
    ----------
    EMSCO (evolutionary multi-stage classifier optimisation), Section 2.
    """

    kind: ClassVar[str] = "multistage"

    stages: Sequence[Sequence[int | str]] | None = None
    costs: Sequence[float] | FloatArray | None = None
    threshold: Threshold | Sequence[float] = 0.75
    classifier: Any = None
    reject_label: Any = None
    panels: Panels | None = None
    missing: MissingPolicy = "impute"
    decision: Mapping[str, Any] | None = None
    stage_cost: float = 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: pd.DataFrame | Array, y: Array) -> MultiStageClassifier:
        """Fit the encoder, and each stage's classifier on the features acquired up to it.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Missing values are allowed; in a frame, so are categories.
        y : (n,)

        Raises
        ------
        InputError
            Stages, costs or thresholds do not fit the data, or values cannot be encoded.
        ValueError
            scikit-learn refuses the records.
        """
        X, y = training_records(self, X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._set(Encoder.fit(X))
        encoded = self.encoder_.transform(X)
        template = self.classifier
        if template is None:
            template = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-8, max_iter=1000)
        self.classifiers_ = [
            clone(template).fit(encoded[:, columns], self.classes_[codes])
            for columns in self._columns()
        ]
        return self

    @classmethod
    def from_fitted(
        cls,
        encoder: Encoder,
        stages: Sequence[Sequence[int | str] | IntArray],
        classifiers: Sequence[Any],
        classes: Sequence[Any] | Array,
        costs: Sequence[float] | FloatArray | None,
        threshold: Threshold | Sequence[float],
        reject_label: Any = None,
        panels: Panels | None = None,
        missing: MissingPolicy = "impute",
        decision: Mapping[str, Any] | None = None,
        stage_cost: float = 0.0,
    ) -> MultiStageClassifier:
        """Return a fitted model from fitted classifiers, without training.

        Each classifier takes the encoded columns of all features acquired up to its stage, in
        ascending order of features. It returns probabilities in the order of ``classes``; labels
        of its own are ignored.

        Raises
        ------
        InputError
            The arguments do not fit together.
        """
        plain = [[f if isinstance(f, str) else int(f) for f in stage] for stage in stages]
        setting = reject_label, panels, missing, decision, stage_cost
        model = cls(plain, costs, threshold, None, *setting)
        model.classes_ = np.asarray(classes)
        model.n_features_in_ = len(encoder.feature_names)
        if encoder.named:
            model.feature_names_in_ = np.array(encoder.feature_names, dtype=object)
        model._set(encoder)
        if len(classifiers) != len(model.stages_):
            wanted, count = len(model.stages_), len(classifiers)
            raise InputError(f"classifiers: expected {wanted}, one per stage, found {count}")
        for j, (classifier, columns) in enumerate(zip(classifiers, model._columns(), strict=True)):
            width = getattr(classifier, "n_features_in_", len(columns))
            if width != len(columns):
                raise InputError(
                    f"classifier of stage {j + 1}: expected {len(columns)} columns, found {width}"
                )
        model.classifiers_ = list(classifiers)
        return model

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label (n,) of each record, ``reject_label`` for those without an answer."""
        return self.labels_of(self.outcome(X))

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the probabilities (n, K) at the stage where each record leaves."""
        return self.outcome(X).probabilities

    def score(self, X: pd.DataFrame | Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return the share of the answers that are right, 0 where no record gets an answer.

        If ``reject_label`` is None, every record has an answer, and this is scikit-learn's
        accuracy. Otherwise, records that get the reject label are left out, as in the metric
        ``accuracy`` of a front; see ``conclusive(X).mean()`` for the share of the others.

        Parameters
        ----------
        X : DataFrame or array (n, d)
        y : (n,)
        sample_weight : (n,), optional
            How much each record counts.

        Returns
        -------
        float
            From 0 to 1.
        """
        outcome, y = self.outcome(X), column_or_1d(y, warn=True)
        answered = outcome.conclusive | (self.reject_label is None)
        right = self.classes_[outcome.best] == y
        weights = weights_for(sample_weight, y)
        total = weights[answered].sum()
        return float(weights[answered & right].sum() / total) if total else 0.0

    def confidence(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the probability (n,) of the class that each record gets at the stage it leaves."""
        return self.outcome(X).confidence

    def risk(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the expected cost (n,) of the answer at the stage where each record leaves.

        Raises
        ------
        InputError
            The stages do not decide by costs.
        """
        check_is_fitted(self)
        if self.decision_ is None:
            raise InputError("risk: expected a model that decides by costs, found decision=None")
        return self.decision_.said(self.outcome(X).probabilities)[1]

    def stage_of(self, X: pd.DataFrame | Array) -> IntArray:
        """Return the stage (n,), from 1, where each record leaves."""
        return self.outcome(X).stage

    def conclusive(self, X: pd.DataFrame | Array) -> BoolArray:
        """Return whether each record (n,) leaves with enough confidence."""
        return self.outcome(X).conclusive

    def acquisition_cost(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the cost (n,) of the features acquired for each record and of its stages."""
        return self.cumulative_costs()[self.outcome(X).stage - 1]

    def cumulative_costs(self) -> FloatArray:
        """Return the cost (stages,) of a record that leaves at each stage."""
        return np.cumsum(self.stage_costs())

    def stage_costs(self) -> FloatArray:
        """Return the cost (stages,) of each stage: features, their panels, its classifier."""
        check_is_fitted(self)
        panels = self.panels or Panels.none(len(self.costs_))
        begun = panels.begun_at(self.stages_)
        costs = [
            self.costs_[stage].sum() + self.stage_cost + panels.costs[new].sum()
            for stage, new in zip(self.stages_, begun, strict=True)
        ]
        return np.array(costs, dtype=np.float64)

    def labels_of(self, outcome: RoutedRecords) -> Array:
        """Return the labels (n,) that ``predict`` gives for an outcome."""
        labels = self.classes_[outcome.best]
        return with_rejects(labels, outcome.conclusive, self.reject_label)

    def outcome(self, X: pd.DataFrame | Array) -> RoutedRecords:
        """Send records (n, d) through the stages; the other methods return parts of the result.

        Raises
        ------
        InputError
            A value that was acquired cannot be encoded.
        ValueError
            The features are not those of ``fit``.
        """
        return route(self, records_for(self, X))

    def check_columns(self, names: Collection[str]) -> None:
        """Check that the columns of the first stage are there, if missing values are imputed."""
        if not self.encoder_.named:
            super().check_columns(names)
        elif self.missing == "impute":
            require_columns((self.encoder_.feature_names[i] for i in self.stages_[0]), names)
        else:
            require_columns(set(self.encoder_.feature_names) & set(names), names)

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Send the records of a table through the stages.

        Parameters
        ----------
        frame : DataFrame (n, any)
            Has a column for each feature of the stages that records reach. If missing values are
            not imputed, a column that is not there counts as missing in all records.

        Returns
        -------
        DataFrame (n, 5 or 6), indexed as ``frame``
            ``label`` (or the reject label), ``confidence`` (NaN where no stage had all its values),
            ``stage`` (from 1), ``cost``, and ``missing``, the names of features that were needed
            and have no value. With a decision by costs also ``risk``, the expected cost of the
            answer.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """
        outcome = route(self, frame, stop=self.missing != "impute")
        missing = self._missing_values(frame, outcome)
        stopped = (missing != "") & (self.missing != "impute")
        labels = self.labels_of(outcome)
        if stopped.any():
            labels = labels.astype(object)
            labels[stopped] = None if self.missing == "ask" else self.reject_label
        confidence = outcome.confidence
        nothing = stopped & (outcome.stage == 1)
        confidence[nothing] = np.nan
        costs = np.concatenate([[0.0], self.cumulative_costs()])
        columns = {
            "label": labels,
            "confidence": confidence,
            "stage": outcome.stage,
            "cost": costs[outcome.stage - stopped],
            "missing": missing,
        }
        if self.decision_ is not None:
            risk = self.decision_.said(outcome.probabilities)[1]
            columns["risk"] = np.where(nothing, np.nan, risk)
        return pd.DataFrame(columns, index=frame.index)

    def _missing_values(self, frame: pd.DataFrame, outcome: RoutedRecords) -> Array:
        """Return the names (n,) of features without a value in the stages each record entered."""
        names = np.full(len(frame), "", dtype=object)
        for number, features in enumerate(self.stages_, start=1):
            here = np.flatnonzero(outcome.stage >= number)
            gaps = self.encoder_.missing(frame, features, here)
            for column, position in enumerate(features):
                rows = here[gaps[:, column]]
                name = self.encoder_.feature_names[position]
                names[rows] = np.where(names[rows] == "", name, names[rows] + f"; {name}")
        return names

    def next_features(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a record of which some values are known, or what to acquire next.

        See :func:`~algorithms.multistage.routing.next_step`.
        """
        return next_step(self, record)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        return write_model(self, files)

    def save_onnx(self, folder: str | PathLike[str]) -> list[Path]:
        """Write each stage's classifier as an ONNX file, and ``stages.json`` about them.

        A graph takes the encoded columns of the features that its stage ``reads``, in that order,
        as float32. It returns a label and the probabilities, in the order of ``classes``.
        ``stages.json`` says what each column is and when a record leaves.

        Returns
        -------
        list of pathlib.Path
            One file per stage.

        Raises
        ------
        InputError
            skl2onnx is not installed, or cannot convert a classifier.
        """
        check_is_fitted(self)
        return write_onnx(self, Path(folder))

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> MultiStageClassifier:
        model: MultiStageClassifier = read_model(cls, files, description)
        return model

    def card(self) -> Card:
        return card_of(self)

    def _set(self, encoder: Encoder) -> None:
        """Check the parameters and set the attributes that follow from them."""
        self.encoder_ = encoder
        self.costs_ = costs_for(self.costs, len(encoder.feature_names))
        if not 0 <= self.stage_cost < np.inf:
            raise InputError(
                f"stage_cost: expected a finite number from 0, found {self.stage_cost!r}"
            )
        self.stages_ = self._stages_of(encoder)
        self.thresholds_ = stage_thresholds(self.threshold, self.classes_, len(self.stages_))
        self.decision_, self.stops_ = decision_for(
            self.decision, self.classes_.tolist(), len(self.stages_)
        )

    def _stages_of(self, encoder: Encoder) -> tuple[IntArray, ...]:
        """Return the features that each stage acquires; subclasses may read ``costs_``."""
        if self.stages is None:
            return (np.arange(len(encoder.feature_names), dtype=np.int64),)
        if len(self.stages) == 0:
            raise InputError("stages: expected one or more, found none")
        parts: list[IntArray] = []
        seen: set[int] = set()
        for j, stage in enumerate(self.stages, start=1):
            positions = [encoder.position(feature) for feature in stage]
            if not positions:
                raise InputError(
                    f"stages: expected features in each stage, found none in stage {j}"
                )
            for position in positions:
                if position in seen:
                    raise InputError(
                        f"stages: expected each feature once, found "
                        f"{encoder.feature_names[position]!r} again in stage {j}"
                    )
                seen.add(position)
            parts.append(np.array(positions, dtype=np.int64))
        return tuple(parts)

    def _columns(self) -> list[IntArray]:
        """Return the encoded columns that each stage's classifier takes."""
        numbers = range(1, len(self.stages_) + 1)
        return [self.encoder_.columns_of(acquired(self, number)) for number in numbers]
