"""The base of estimators over a pool of models: fitted, to be fitted, or only predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone, is_regressor
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.validation import validate_data

from framework.arrays import Array, FloatArray
from framework.errors import InputError, RecordsError
from framework.estimators.front import FrontEstimator, Model, group_codes
from framework.libraries.checks import checked_cost, plain_labels
from framework.libraries.importing import copy_bytes, cross_fitted, from_models, measured_costs
from framework.libraries.library import Library
from framework.libraries.members import named_models
from framework.models.checks import copies_for, records_as_taken, targets_as_taken, weights_for
from framework.problem import Problem

COST = "cost"
"""The name of the cost if the user gives just one cost per model."""


@dataclass(eq=False, repr=False, kw_only=True)
class PoolEstimator(FrontEstimator[Model]):
    """An estimator whose solutions consist of models of a pool.

    Fitted models must be given records that are new to them. Models that are not fitted are
    measured out-of-fold, on each record by models fitted on the other folds; the solutions then
    consist of models fitted on all records. Records are passed to the models unchanged.

    Parameters
    ----------
    models : mapping of str to estimator, or sequence of estimators or (str, estimator)
        Either all of them are fitted, or none.
    costs : sequence, mapping, Series, DataFrame or 'measured', optional
        What models cost. One number per model, in the order of ``models`` or by their names,
        defines a cost called ``cost``. Several costs are given by name, such as
        ``{"memory": [1, 3], "price": [2, 5]}``, or as a DataFrame with one row per model.
        ``'measured'`` measures each model in a process of its own.
    folds : int
        Number of folds of the cross-validation, for models that are not fitted.

    Other parameters are those of :class:`~framework.estimators.front.FrontEstimator`.
    """

    models: Mapping[str, Any] | Sequence[Any] = field(kw_only=False)
    costs: Any = field(default=None, kw_only=False)
    folds: int = 5
    models_: dict[str, Any] = field(init=False)
    library_: Library = field(init=False)
    classes_: Array = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: Array = field(init=False)

    @classmethod
    def from_predictions(
        cls,
        predictions: Any,
        y: Any,
        *,
        classes: Sequence[Any] | None = None,
        sample_weight: Any = None,
        groups: Any = None,
        **parameters: Any,
    ) -> Self:
        """Search over predictions of models, without the models themselves.

        The returned estimator has ``front_`` and ``expected``, as after ``fit``.

        Parameters
        ----------
        predictions : mapping of str to array, DataFrame (n, models), or array
            Predictions for records that the models have not seen. For each model, shape (n,): the
            probability of the second class, or a value; or shape (n, classes). The columns of an
            array (n, models) are models.
        y : (n,)
        classes : sequence, optional
            Labels in the order of the probabilities; if None, the values of ``y``, ascending. If
            predictions have shape (n,) and ``y`` has more than two values, they are a regression.
        sample_weight, groups
            As in ``fit``.
        **parameters
            Parameters of the estimator, except ``models``.

        Raises
        ------
        InputError
            Predictions are not numbers, or do not match ``y``; or as in ``fit``.
        """
        names, table = prediction_table(predictions)
        made = cls(names, **parameters)
        return made._search(made._problem_of_table(names, table, y, classes, sample_weight, groups))

    def _problem_of_table(
        self, names: Sequence[str], table: Array, y: Any, classes: Any, weights: Any, groups: Any
    ) -> Problem:
        """Return the problem of predictions, (models, n) or (models, n, classes)."""
        targets = np.asarray(y)
        if classes is None and (table.ndim == 3 or len(np.unique(targets)) == 2):
            classes = plain_labels(np.unique(targets))
        copies = copies_for(weights, targets, 8 * table[:, 0].size)
        units = group_codes(groups, targets)
        if copies is not None:
            table, targets = np.repeat(table, copies, axis=1), np.repeat(targets, copies)
            units = np.repeat(np.arange(len(copies)) if units is None else units, copies)
        library = Library.from_arrays(
            names, table, targets, classes, costs_by_name(self._given_costs(None)), units=units
        )
        return self._pooled(library)

    def _pool(self, X: Any, y: Any) -> dict[str, Any]:
        """Return the models by name."""
        return named_models(self.models)

    def _problem_of(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Problem:
        X, y = self._taken(X, y, sample_weight)
        pool = self._pool(X, y)
        copies = copies_for(sample_weight, y, copy_bytes(pool))
        units = group_codes(groups, y)
        self._take_features(X)
        self.models_, out_of_fold = cross_fitted(
            pool, X, y, folds=self.folds, seed=self.random_state, copies=copies, groups=units
        )
        library = from_models(
            self.models_,
            X,
            y,
            costs=costs_by_name(self._given_costs(X)),
            configs=[{"family": type(model).__name__} for model in self.models_.values()],
            copies=copies,
            groups=units,
            out_of_fold=out_of_fold,
        )
        return self._pooled(library)

    def _taken(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array]:
        """Return records and targets that models can be asked about."""
        X = records_as_taken(X, missing=self._take_missing)
        y = targets_as_taken(y, classes=self._told_to_classify)
        check_consistent_length(X, y)
        if sample_weight is not None and self._told_to_classify:
            counted = y[weights_for(sample_weight, y) > 0]
            if len(counted) and (counted == counted[0]).all():
                lost = next(iter(y[y != counted[0]].tolist()))
                raise RecordsError(
                    "sample_weight: expected records of two classes or more that count, found none "
                    f"of {lost!r}"
                )
        return X, y

    def _records(self, X: Any) -> Any:
        X = records_as_taken(X, missing=self._take_missing)
        if isinstance(X, np.ndarray | pd.DataFrame) and hasattr(self, "n_features_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return X

    def _take_features(self, X: Any) -> None:
        """Set the number of features and, if all columns are called by texts, their names."""
        self.__dict__.pop("feature_names_in_", None)
        shape = np.shape(X)
        if len(shape) == 2:
            self.n_features_in_ = shape[1]
        if isinstance(X, pd.DataFrame) and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.array(X.columns, dtype=object)

    def _pooled(self, library: Library) -> Problem:
        self.library_ = library
        if library.classes is not None:
            self.classes_ = np.asarray(library.classes)
        try:
            return self._problem_from(library)
        except InputError as error:  # it names keys of the problem, which are parameters here
            raise InputError(str(error).removeprefix("problem.")) from error

    def _problem_from(self, library: Library) -> Problem:
        """Return the problem of a library."""
        raise NotImplementedError

    def _given_costs(self, X: Any) -> Any:
        """Return the costs of the models, which are measured if the user asks for that."""
        if not isinstance(self.costs, str):
            return self.costs
        if self.costs != "measured" or X is None:
            wanted = "numbers, with predictions alone" if X is None else "numbers or 'measured'"
            raise InputError(f"costs: expected {wanted}, found {self.costs!r}")
        return self._measured(X)

    def _measured(self, X: Any) -> Any:
        return measured_costs(self.models_, X)

    def _scored_by(
        self, prices: Mapping[str, Any] | None, errors: Mapping[str, float] | None
    ) -> Problem:
        if errors is not None:
            self.problem_.with_errors({}, errors)
        return self._with_prices(prices or {})

    def _with_prices(self, prices: Mapping[str, Any]) -> Problem:
        """Return the problem with other prices of models."""
        library, costs = self.library_, dict(self.library_.costs)
        by_name = costs_by_name(prices) or {}
        if set(by_name) == {COST} and len(costs) == 1:  # one number per model, for the only cost
            by_name = {next(iter(costs)): by_name[COST]}
        for name, values in by_name.items():
            if name not in costs:
                raise InputError(
                    f"prices: expected costs of the models ({', '.join(costs) or 'none'}), "
                    f"found {name!r}"
                )
            cost = costs[name]
            if isinstance(values, Mapping):
                before = dict(zip(library.ids, cost.values.tolist(), strict=True))
                values = before | {str(model): value for model, value in values.items()}
            values = checked_cost(values, library.ids, name, "prices")
            costs[name] = cost._replace(values=values)
        return self._problem_from(replace(library, costs=costs))

    def _model_of(self, genome: Array, problem: Any) -> Any:
        if problem.library.models is None and hasattr(self, "models_"):
            problem.library = replace(problem.library, models=self.models_)
        return problem.decode(genome)

    @property
    def _has_models(self) -> bool:
        return hasattr(self, "models_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._take_missing
        return tags

    @property
    def _given_models(self) -> list[Any]:
        models = self.models.values() if isinstance(self.models, Mapping) else self.models
        return [model[1] if isinstance(model, tuple) else model for model in models or ()]

    @property
    def _take_missing(self) -> bool:
        """Whether all models take missing values, or do not say whether they do."""
        tagged = [m for m in self._given_models if hasattr(m, "__sklearn_tags__")]
        return all(get_tags(model).input_tags.allow_nan for model in tagged)

    @property
    def _classifies(self) -> bool:
        if hasattr(self, "library_"):
            return self.library_.classes is not None
        return self._told_to_classify

    @property
    def _told_to_classify(self) -> bool:
        """Whether the models are classifiers by their type, before they are fitted."""
        return not any(hasattr(m, "fit") and is_regressor(m) for m in self._given_models)

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same models: fitted ones stay fitted."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        models = parameters.pop("models")
        others = {name: clone(value, safe=False) for name, value in parameters.items()}
        made = type(self)(models, **others)
        if hasattr(self, "_metadata_request"):  # as scikit-learn's clone: what is routed to it
            made._metadata_request = deepcopy(self._metadata_request)
        return made


def costs_by_name(costs: Any) -> dict[str, Any] | None:
    """Return costs of models by the name of the cost, from the forms of :class:`PoolEstimator`."""
    if costs is None:
        return None
    if isinstance(costs, pd.DataFrame):
        return {str(name): costs[name] for name in costs.columns}
    if isinstance(costs, Mapping) and not all(map(np.isscalar, costs.values())):
        return {str(name): values for name, values in costs.items()}
    return {COST: costs}


def prediction_table(predictions: Any) -> tuple[list[str], FloatArray]:
    """Return the names of models and their predictions, float64 (models, n) or (models, n, C)."""
    if isinstance(predictions, pd.DataFrame):
        predictions = {str(name): predictions[name] for name in predictions.columns}
    elif not isinstance(predictions, Mapping):
        table = np.asarray(predictions)
        columns = table[:, np.newaxis] if table.ndim == 1 else table
        if columns.ndim != 2:
            raise InputError(
                f"predictions: expected shape (n,) or (n, models), found {table.shape}; a mapping "
                "of names to arrays takes probabilities (n, classes)"
            )
        predictions = {f"model_{i}": column for i, column in enumerate(columns.T)}
    try:
        tables = [np.asarray(column, dtype=np.float64) for column in predictions.values()]
        if any(column.ndim == 1 for column in tables):  # of two classes the second is enough
            tables = [c[:, 1] if c.ndim == 2 and c.shape[1] == 2 else c for c in tables]
        return [str(name) for name in predictions], np.stack(tables)
    except ValueError as error:
        raise InputError(
            f"predictions: expected numbers, one a record and model, found: {error}"
        ) from error
