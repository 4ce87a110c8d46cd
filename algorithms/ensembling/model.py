"""Deployable weighted ensembles of fitted models (HAPEns, Equation 1).

In files, each member is a ``.skops`` in a separate folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.validation import check_is_fitted

from framework.arrays import Array, FloatArray
from framework.data.encoding import Encoder
from framework.errors import InputError, first_line
from framework.libraries.checks import by_model
from framework.libraries.library import Cost
from framework.models.checks import (
    check_labels,
    checked_answers,
    named_records,
    records_and_targets,
    records_for,
    stored_labels,
    total_weight,
)
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.models.store import cell, markdown_table

MEMBERS, MEMBER_FILE = "members", "model.skops"

_TEXT = """\
It {answer}, weighted by how often each was picked. A prediction runs every member{cost}.

{members}"""


class WeightedEnsemble(BaseEstimator, DeployableModel):  # type: ignore[misc]
    """Base of classifiers and regressors: members, weights, and the mean of predictions."""

    names_: list[str]
    models_: list[Any]
    weights_: FloatArray
    from_fitted: ClassVar[Callable[..., Any]]
    _member_method: ClassVar[str]
    _answer: ClassVar[str]
    _columns: ClassVar[str]
    _methods: ClassVar[str]

    def __init__(
        self,
        estimators: Sequence[tuple[str, Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.estimators = estimators
        self.weights = weights

    @classmethod
    def _default(cls) -> Any:
        raise NotImplementedError

    def fit(self, X: pd.DataFrame | Array, y: Array) -> Any:
        """Fit a clone of each member whose weight is above 0.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            A frame is passed to the members unchanged.
        y : (n,)

        Raises
        ------
        InputError
            The weights do not fit the members, or are not numbers of at least 0.
        ValueError
            scikit-learn or a member refuses the data.
        """
        X, y = records_and_targets(self, X, y)
        y = self._targets(y)
        pairs = [("model", self._default())] if self.estimators is None else list(self.estimators)
        self._set([name for name, _ in pairs], [clone(model) for _, model in pairs], self.weights)
        for model in self.models_:
            model.fit(X, y)
        return self

    def _targets(self, y: Array) -> Array:
        return y

    def _set(
        self, names: Sequence[str], models: Sequence[Any], weights: Sequence[float] | Array | None
    ) -> list[int]:
        """Keep the members with a weight above 0; return their positions."""
        of_models = (
            np.ones(len(models)) if weights is None else np.asarray(weights, dtype=np.float64)
        )
        if len(names) == 0 or of_models.shape != (len(names),) or len(set(names)) < len(names):
            raise InputError(
                f"estimators: expected one or more with different names and a weight each, found "
                f"{len(names)} named {list(names)} and {of_models.size} weights"
            )
        total_weight(of_models)
        members = np.flatnonzero(of_models).tolist()
        self.names_ = [str(names[i]) for i in members]
        self.models_ = [models[i] for i in members]
        self.weights_ = of_models[members]
        self.encoder_: Encoder | None = None
        self.costs_: dict[str, Cost] = {}
        return members

    def _adopt(
        self,
        models: Mapping[str, Any],
        weights: Sequence[float] | Array,
        costs: Mapping[str, Cost] | None,
        encoder: Encoder | None,
    ) -> None:
        """Take fitted models, costs and encoder, and set which features the models expect."""
        members = self._set(list(models), list(models.values()), weights)
        self.encoder_ = encoder
        for name, cost in (costs or {}).items():
            values = np.asarray(
                by_model(cost.values, list(models), f"costs: {name}"), dtype=np.float64
            )
            if values.shape != (len(models),):
                raise InputError(
                    f"costs: expected {len(models)} values of {name!r}, one per model, found shape "
                    f"{values.shape}"
                )
            self.costs_[name] = Cost(values[members], cost.unit)
        if encoder is not None:
            self.n_features_in_ = len(encoder.feature_names)
            if encoder.named:
                self.feature_names_in_ = np.array(encoder.feature_names, dtype=object)
            return
        widths = {int(m.n_features_in_) for m in self.models_ if hasattr(m, "n_features_in_")}
        if len(widths) > 1:
            raise InputError(
                f"models: expected members of the same features, found numbers of features "
                f"{sorted(widths)}"
            )
        if widths:
            self.n_features_in_ = widths.pop()
        named = [m.feature_names_in_ for m in self.models_ if hasattr(m, "feature_names_in_")]
        if named:
            self.feature_names_in_ = np.array(named[0], dtype=object)

    def predict_cost(self) -> dict[str, float]:
        """Return the costs of a prediction: the sum of each cost over the members."""
        check_is_fitted(self)
        return {name: float(cost.values.sum()) for name, cost in self.costs_.items()}

    def _records(self, X: Any) -> Any:
        """Return records (n, d) in the form that the members expect."""
        return self._encoded(records_for(self, X))

    def _encoded(self, X: Any) -> Any:
        return X if self.encoder_ is None else self.encoder_.transform(X)

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``label`` and ``confidence``, the probability of that label, or ``value``."""
        names = getattr(self, "feature_names_in_", None)
        records: Any = frame if names is None else frame[list(names)]
        if names is None and self.encoder_ is None:
            records = records.to_numpy()  # models fitted without names warn of names
        try:
            records = self._encoded(records)
            with named_records(frame.index):
                columns = self._answers(records)
        except ValueError as error:
            raise InputError(
                f"data: expected records that the members take, found: {first_line(error)}"
            ) from error
        return pd.DataFrame(columns, index=frame.index)

    def _answers(self, records: Any) -> dict[str, Array]:
        """Return the columns of the answers for encoded records (n, d); n may be 0."""
        raise NotImplementedError

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        for name, member in zip(self.names_, self.models_, strict=True):
            files.write_estimator(_file(name), member)
        return {
            "members": self.names_,
            "weights": self.weights_.tolist(),
            "costs": {
                name: {"unit": cost.unit, "values": cost.values.tolist()}
                for name, cost in self.costs_.items()
            },
            "encoder": None if self.encoder_ is None else self.encoder_.to_json(),
        }

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> Any:
        stored = description["costs"].items()
        costs = {name: Cost(cost["values"], cost["unit"]) for name, cost in stored}
        encoder = description["encoder"]
        members = {}
        for name in map(str, description["members"]):
            members[name] = files.read_estimator(_file(name))
            if not hasattr(members[name], cls._member_method):
                raise InputError(
                    f"member {name!r}: expected a model with {cls._member_method}, found "
                    f"{type(members[name]).__name__}"
                )
        return cls.from_fitted(
            members,
            description["weights"],
            *cls._labels(description),
            costs=costs,
            encoder=None if encoder is None else Encoder.from_json(encoder),
        )

    @classmethod
    def _labels(cls, description: Mapping[str, Any]) -> list[Array]:
        """Return the positional arguments of ``from_fitted`` after members and weights."""
        return []

    def card(self) -> Card:
        count = len(self.names_)
        costs = self.cost_text()
        shares = {"weight": [f"{w / self.weights_.sum():.4g}" for w in self.weights_]}
        return Card(
            title=f"A weighted ensemble of {f'{count} models' if count > 1 else 'one model'}",
            text=_TEXT.format(
                answer=self._answer,
                cost=f" and costs, all of them together: {costs}" if costs else "",
                members=self.member_table(shares),
            ),
            answers=self._columns,
            methods=f"a scikit-learn estimator: {self._methods}, `predict_cost`",
        )

    def cost_text(self) -> str:
        """Return the costs of a prediction as a list in words; empty without costs."""
        return ", ".join(
            f"{cell(name)} {value:.6g} {cell(self.costs_[name].unit)}".rstrip()
            for name, value in self.predict_cost().items()
        )

    def member_table(self, more: Mapping[str, Sequence[str]] | None = None) -> str:
        """Return the members with their kinds and costs as a Markdown table.

        Parameters
        ----------
        more : mapping of str to sequence of str, optional
            Further columns after the names, one entry per member.
        """
        columns = {"member": [cell(name) for name in self.names_], **(more or {})}
        columns["kind"] = [type(model).__name__ for model in self.models_]
        for name, cost in self.costs_.items():
            unit = f" ({cell(cost.unit)})" if cost.unit else ""
            columns[f"{cell(name)}{unit}"] = [f"{value:.6g}" for value in cost.values]
        return markdown_table(list(columns), zip(*columns.values(), strict=True))

    def _mean(self, predictions: Sequence[FloatArray]) -> FloatArray:
        total = self.weights_[0] * predictions[0]
        for weight, prediction in zip(self.weights_[1:], predictions[1:], strict=True):
            total += weight * prediction
        return np.asarray(total / self.weights_.sum())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "models_")


class WeightedEnsembleClassifier(ClassifierMixin, WeightedEnsemble):  # type: ignore[misc]
    """Predicts the weighted mean of its members' probabilities, and the likeliest class.

    ``from_fitted`` makes an ensemble of fitted models; ``fit`` trains the members. Only members
    with a weight above 0 are kept.

    Parameters
    ----------
    estimators : sequence of (str, classifier with ``predict_proba``), optional
        The members; a logistic regression if None.
    weights : sequence of float, optional
        One for each member, at least 0; equal if None.

    Attributes
    ----------
    classes_ : (C,)
    names_ : list of str, the members' names
    models_ : list of fitted classifiers
    weights_ : float64 (members,), not normalised
    costs_ : mapping of str to Cost, what each member costs
    encoder_ : Encoder or None, which turns records into the features of the members
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,), if the features have names
    """

    kind = "weighted_ensemble"
    _member_method = "predict_proba"
    _answer = "answers with the likeliest class by the mean of its members' probabilities"
    _columns = "the columns `label` and `confidence`"
    _methods = "`predict`, `predict_proba`"

    @classmethod
    def _default(cls) -> Any:
        return LogisticRegression(max_iter=1000)

    @classmethod
    def from_fitted(
        cls,
        models: Mapping[str, Any],
        weights: Sequence[float] | Array,
        classes: Sequence[Any] | Array,
        *,
        costs: Mapping[str, Cost] | None = None,
        encoder: Encoder | None = None,
    ) -> Self:
        """Return an ensemble of fitted models, without training.

        Parameters
        ----------
        models : mapping of str to classifier
            Each has classes of ``classes``, or positions in ``classes``.
        weights : sequence of float
            One per model, at least 0; models with 0 are left out.
        classes : sequence, length C
        costs : mapping of str to Cost, optional
            One value per model.
        encoder : Encoder, optional
            Turns records into the features of the models.

        Raises
        ------
        InputError
            The parts do not fit together.
        """
        ensemble = cls()
        ensemble.classes_ = np.asarray(classes)
        ensemble._adopt(models, weights, costs, encoder)
        for name, model in zip(ensemble.names_, ensemble.models_, strict=True):
            places_of(model, ensemble.classes_, name)
        return ensemble

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        return {"classes": list(self.classes_.tolist()), **super().save_into(files)}

    @classmethod
    def _labels(cls, description: Mapping[str, Any]) -> list[Array]:
        return [stored_labels(description["classes"])]

    def _targets(self, y: Array) -> Array:
        check_labels(y)
        self.classes_ = np.unique(y)
        return y

    def predict_proba(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the weighted mean of the members' probabilities (n, C) for records (n, d)."""
        return self._probabilities(self._records(X))

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the likeliest class (n,) of each record; of equally likely ones the first."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def _answers(self, records: Any) -> dict[str, Array]:
        empty = np.zeros((0, len(self.classes_)))
        probabilities = self._probabilities(records) if len(records) else empty
        return {
            "label": self.classes_[probabilities.argmax(axis=1)],
            "confidence": probabilities.max(axis=1),
        }

    def _probabilities(self, records: Any) -> FloatArray:
        return self._mean(list(self._of_members(records)))

    def _of_members(self, records: Any) -> Iterator[FloatArray]:
        """Yield the probabilities (n, C) of each member, in the order of the classes."""
        for name, model in zip(self.names_, self.models_, strict=True):
            probabilities = np.zeros((len(records), len(self.classes_)))
            places = places_of(model, self.classes_, name)
            of_model = np.asarray(model.predict_proba(records), dtype=np.float64)
            if of_model.shape[1:] != (len(places),):
                raise InputError(
                    f"member {name!r}: expected {len(places)} probabilities of each record, found "
                    f"an array of shape {of_model.shape}"
                )
            checked_answers(of_model, f"member {name!r}", probabilities=True)
            probabilities[:, places] = of_model
            yield probabilities


class WeightedEnsembleRegressor(RegressorMixin, WeightedEnsemble):  # type: ignore[misc]
    """Predicts the weighted mean of its members' values.

    Parameters and attributes are those of :class:`WeightedEnsembleClassifier`, without classes; the
    default member is a ridge regression.
    """

    kind = "weighted_ensemble_regressor"
    _member_method = "predict"
    _answer = "answers with the mean of its members' values"
    _columns = "the column `value`"
    _methods = "`predict`"

    @classmethod
    def _default(cls) -> Any:
        return Ridge()

    @classmethod
    def from_fitted(
        cls,
        models: Mapping[str, Any],
        weights: Sequence[float] | Array,
        *,
        costs: Mapping[str, Cost] | None = None,
        encoder: Encoder | None = None,
    ) -> Self:
        """Return an ensemble of fitted models; see the classifier's method."""
        ensemble = cls()
        ensemble._adopt(models, weights, costs, encoder)
        return ensemble

    def _targets(self, y: Array) -> Array:
        return np.asarray(y, dtype=np.float64)

    def predict(self, X: pd.DataFrame | Array) -> FloatArray:
        """Return the weighted mean of the members' predictions (n,) for records (n, d)."""
        return self._values(self._records(X))

    def _answers(self, records: Any) -> dict[str, Array]:
        return {"value": self._values(records) if len(records) else np.zeros(0)}

    def _values(self, records: Any) -> FloatArray:
        return self._mean(
            [
                checked_answers(np.asarray(model.predict(records), np.float64), f"member {name!r}")
                for name, model in zip(self.names_, self.models_, strict=True)
            ]
        )


def places_of(model: Any, classes: Array, name: str) -> list[int]:
    """Return the ensemble's column of probabilities for each of a member's classes.

    Raises
    ------
    InputError
        The member has other classes than the ensemble.
    """
    labels, of_model = classes.tolist(), np.asarray(model.classes_).tolist()
    different = len(set(of_model)) == len(of_model)
    if different and set(of_model) <= set(labels):
        return [labels.index(label) for label in of_model]
    if different and set(of_model) <= set(range(len(labels))):
        return [int(position) for position in of_model]
    raise InputError(f"member {name!r}: expected the classes {labels}, found {of_model}")


def _file(name: str) -> str:
    """Return the file of a member; a name that leads to another folder is refused."""
    if "/" in name:
        raise InputError(f"members: expected names that can name a folder, found {name!r}")
    return f"{MEMBERS}/{name}/{MEMBER_FILE}"
