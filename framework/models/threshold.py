"""A fitted classifier with a threshold of its own, and one model for each subgroup."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from framework.arrays import Array, FloatArray
from framework.data.columns import to_texts
from framework.errors import InputError
from framework.models.checks import as_frame, stored_labels
from framework.models.files import ModelFiles, SubFolder
from framework.models.model import Card, DeployableModel
from framework.models.store import cell
from framework.registry import check_names, load

_MODEL_FILE = "model.skops"


def scores_of(model: Any, X: Any, positive: Any) -> FloatArray:
    """Return how much a fitted classifier takes each record for positive, float64 (n,).

    The probability of the positive class, or else the decision function.

    Raises
    ------
    InputError
        The model is no classifier of two classes, of which ``positive`` is one, or has neither.
    """
    classes = np.asarray(getattr(model, "classes_", [])).tolist()
    if len(classes) != 2 or positive not in classes:
        raise InputError(
            f"model: expected a fitted classifier of two classes, {positive!r} and another, found "
            f"{type(model).__name__} of {classes or 'none'}"
        )
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, classes.index(positive)]
    if not hasattr(model, "decision_function"):
        raise InputError(
            "model: expected a classifier with predict_proba or decision_function, found "
            f"{type(model).__name__}"
        )
    found = np.asarray(model.decision_function(X), dtype=np.float64)
    return found if classes[1] == positive else -found


class ThresholdClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """A fitted classifier of two classes that says "positive" from a threshold on.

    Attributes
    ----------
    model_ : fitted classifier
    name_ : str
    threshold_ : float
        Of the probability of the positive class, or else of the decision function.
    positive_ : one of ``classes_``
    classes_ : (2,)
    columns_ : list of str or None
        The columns that the model takes, where it is asked with an array; None: all there are.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,), if they are known by name
        What a record is known by; the model may read a part of it.
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
        features : sequence of str, or int, optional
            What a record is known by, or how many values it has; what the model itself says if
            None.

        Raises
        ------
        InputError
            The model has not two classes, or the threshold is no finite number.
        """
        if isinstance(threshold, bool) or not math.isfinite(threshold):
            raise InputError(f"threshold: expected a finite number, found {threshold!r}")
        made = cls()
        made.classes_ = np.asarray(getattr(model, "classes_", []))
        if len(made.classes_) != 2 or positive not in made.classes_.tolist():
            raise InputError(
                f"model: expected a fitted classifier of two classes, {positive!r} and another, "
                f"found {type(model).__name__} of {made.classes_.tolist() or 'none'}"
            )
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
        """Refuse: the model is fitted, and its threshold chosen."""
        raise InputError("fit: this model has its threshold, it is not trained here; see ROCHull")

    def scores(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return what the threshold is compared with, (n,)."""
        check_is_fitted(self)
        return scores_of(self.model_, self._taken(X), self.positive_)

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the label (n,): positive where the score is at least the threshold."""
        return self._labels(self.scores(X))

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the model's probabilities (n, 2); of one without, 1 for its answer."""
        check_is_fitted(self)
        if hasattr(self.model_, "predict_proba"):
            return np.asarray(self.model_.predict_proba(self._taken(X)), dtype=np.float64)
        return np.asarray(self.predict(X)[:, np.newaxis] == self.classes_, dtype=np.float64)

    def predict_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``label``, ``confidence`` and ``score`` of the records of a table.

        The confidence is the model's probability of the label, NaN where it has none.
        """
        check_is_fitted(self)
        self.check_columns(frame.columns)
        scores = np.zeros(0)
        if len(frame):
            try:
                scores = self.scores(frame)
            except ValueError as error:
                raise InputError(
                    f"data: expected records that {self.name_} takes: {error}"
                ) from error
        labels = self._labels(scores)
        confidence = np.where(labels == self.positive_, scores, 1.0 - scores)
        if not hasattr(self.model_, "predict_proba"):
            confidence[:] = np.nan
        columns = {"label": labels, "confidence": confidence, "score": scores}
        return pd.DataFrame(columns, index=frame.index)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        """Write the model."""
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
        """Return the classifier that ``save_into`` wrote."""
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
        """Return what the README says of the model."""
        return Card(
            title=f"{cell(self.name_)} with a threshold of {self.threshold_:.6g}",
            text=f"A {type(self.model_).__name__} that answers {cell(self.positive_)} where its "
            f"score of that class is at least {self.threshold_:.6g}.",
            answers="the columns `label`, `confidence` and `score`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`, `scores`",
        )

    def _labels(self, scores: FloatArray) -> Array:
        labels = self.classes_.tolist()
        at = labels.index(self.positive_)
        return np.asarray(self.classes_[np.where(scores >= self.threshold_, at, 1 - at)])

    def _taken(self, X: Any) -> Any:
        """Return the records as the model takes them."""
        X = as_frame(X)
        if not isinstance(X, pd.DataFrame):
            return X
        self.check_columns(X.columns)
        known = getattr(self.model_, "feature_names_in_", None)
        if known is not None:
            return X[list(known)]
        return X.to_numpy() if self.columns_ is None else X[self.columns_].to_numpy()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


class GroupwiseClassifier(ClassifierMixin, BaseEstimator, DeployableModel):  # type: ignore[misc]
    """Answers the records of each subgroup by a model of their own.

    So rates can be equal in all subgroups (equalised odds: Hardt, Price and Srebro 2016). Whether
    a subgroup may be treated by another rule than the next is a question of law, too.

    Attributes
    ----------
    column_ : str
        The column that says which subgroup a record belongs to.
    members_ : dict of str to deployable classifier
    classes_ : (C,)
    """

    kind = "by_group"

    @classmethod
    def from_fitted(cls, column: str, members: Mapping[str, Any]) -> GroupwiseClassifier:
        """Return one model of several, by subgroup.

        Raises
        ------
        InputError
            Members that are none, or differ in their classes.
        """
        made = cls()
        made.column_ = str(column)
        made.members_ = {str(name): member for name, member in members.items()}
        if not members:
            raise InputError("members: expected a model of each subgroup, found none")
        for name, member in made.members_.items():
            if not isinstance(member, DeployableModel) or not hasattr(member, "predict_proba"):
                raise InputError(
                    f"members: {name}: expected a deployable classifier, found "
                    f"{type(member).__name__}"
                )
        classes = [member.classes_.tolist() for member in made.members_.values()]
        if any(found != classes[0] for found in classes):
            raise InputError("members: expected the same classes, found others")
        made.classes_ = next(iter(made.members_.values())).classes_
        return made

    def fit(self, X: Any, y: Any = None) -> GroupwiseClassifier:
        """Refuse: the members are fitted."""
        raise InputError("fit: this model is made of fitted ones, it is not trained here")

    def predict(self, X: pd.DataFrame) -> Array:
        """Return the label (n,) that the model of each record's subgroup gives."""
        labels = np.empty(len(X), dtype=self.classes_.dtype)
        for name, rows in self._parts(X):
            labels[rows] = self.members_[name].predict(X.iloc[rows])
        return labels

    def predict_proba(self, X: pd.DataFrame) -> FloatArray:
        """Return the chances of each label (n, C), of the model of each record's subgroup."""
        found = np.zeros((len(X), len(self.classes_)))
        for name, rows in self._parts(X):
            found[rows] = self.members_[name].predict_proba(X.iloc[rows])
        return found

    def check_columns(self, names: Collection[str]) -> None:
        """Check that the column of subgroups is there, and what each member needs."""
        check_names([self.column_], names)
        for member in self.members_.values():
            member.check_columns(names)

    def predict_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``label`` and ``group`` of the records of a table, whatever else is in it."""
        labels = np.empty(len(frame), dtype=self.classes_.dtype)
        groups = np.empty(len(frame), dtype=object)
        for name, rows in self._parts(frame):
            labels[rows] = self.members_[name].predict_table(frame.iloc[rows])["label"].to_numpy()
            groups[rows] = name
        return pd.DataFrame({"label": labels, "group": groups}, index=frame.index)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        """Write each member into a folder of its own."""
        members = []
        for number, (name, member) in enumerate(self.members_.items()):
            description = member.save_into(SubFolder(files, f"groups/{number}"))
            members.append({"group": name, "kind": member.kind, "model": description})
        return {"column": self.column_, "members": members}

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> GroupwiseClassifier:
        """Return the model that ``save_into`` wrote."""
        members: dict[str, Any] = {}
        for number, plain in enumerate(description["members"]):
            if plain["kind"] == cls.kind or str(plain["group"]) in members:
                raise InputError("members: expected one model of each subgroup, found others")
            kind = load("models", str(plain["kind"]))
            folder = SubFolder(files, f"groups/{number}")
            members[str(plain["group"])] = kind.load_from(folder, plain["model"])
        return cls.from_fitted(str(description["column"]), members)

    def card(self) -> Card:
        """Return what the README says of the model."""
        rows = [
            f"| {cell(name)} | {cell(member.card().title)} |"
            for name, member in self.members_.items()
        ]
        return Card(
            title=f"A model of {len(rows)} subgroups",
            text=f"The column {cell(self.column_)} says which subgroup a record belongs to; each "
            "is answered by a model of its own.\n\n| subgroup | model |\n| --- | --- |\n"
            + "\n".join(rows),
            answers="the columns `label` and `group`",
            methods="a scikit-learn classifier: `predict`, `predict_proba`",
        )

    def _parts(self, X: pd.DataFrame) -> list[tuple[str, Array]]:
        """Return each subgroup that occurs, and its records."""
        check_is_fitted(self)
        if not isinstance(X, pd.DataFrame) or self.column_ not in X.columns:
            raise InputError(f"data: expected a column {self.column_!r} (subgroup), found none")
        texts, gaps = to_texts(cast("pd.Series[Any]", X[self.column_]))
        names = np.where(gaps, "", texts)
        for name in np.unique(names[~np.isin(names, list(self.members_))]).tolist():
            raise InputError(
                f"data: {self.column_}: expected one of {', '.join(self.members_)}, found "
                f"{name or 'nothing'!r}"
            )
        return [(str(name), np.flatnonzero(names == name)) for name in np.unique(names).tolist()]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")
