"""Weighted ensembles of fitted models in a few lines: a front, and one ensemble to deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from algorithms.ensembling.model import (
    WeightedEnsemble,
    WeightedEnsembleClassifier,
    WeightedEnsembleRegressor,
)
from algorithms.ensembling.problem import EnsembleProblem
from framework.arrays import Array
from framework.errors import InputError
from framework.experiment.front_estimator import FrontEstimator, roles_for, search
from framework.libraries.importing import (
    copy_bytes,
    cross_fitted,
    from_models,
    measured_costs,
)
from framework.libraries.members import KeepsModels, costs_of, named_models
from framework.models.checks import copies_for


class ParetoEnsemble(KeepsModels, FrontEstimator[WeightedEnsemble]):
    """Search the weighted ensembles of models for the front of loss against costs.

    Fitted models are asked about records that are new to them. Models that are not fitted are
    measured out-of-fold: each record is predicted by models that were fitted on the other folds,
    and the ensembles are made of models that were fitted on all records.

    Parameters
    ----------
    models : mapping of str to estimator, or sequence of (str, estimator)
        All fitted or none: classifiers with ``predict_proba`` of the same classes, or regressors.
    costs : mapping of str to sequence, shape (K,), or 'measured', optional
        What each model costs, in one currency or several; an ensemble pays for every member once.
        A sequence is in the order of ``models``, a mapping or a pandas Series goes by their
        names; a DataFrame has one row per model and one column per cost. ``'measured'``: inference
        time, memory and disk are measured, each model in a process of its own. None:
        ``members``, their number.
    score : str, optional
        See :class:`~algorithms.ensembling.problem.EnsembleProblem`; ROC AUC, or RMSE of regressors,
        if None.
    objectives : sequence of str, optional
        Metrics that span the front; the score and all costs if None.
    algorithm : str or mapping
        A search over counts: its registered name (``pareto_es``, ``hapens``, ``ges``, ...), or the
        section ``algorithm`` of a configuration, such as ``{"kind": "ges", "iterations": 50}``.
    budget : int or mapping
        Number of evaluations, or the section ``budget`` of a configuration.
    max_count : int
        Greatest number of times that one model is picked.
    folds : int
        Of the cross-validation of models that are not fitted.
    random_state : int
        Seed of the search, and of the folds.
    verbose : bool
        Whether ``fit`` shows its progress, in a notebook or a terminal.

    Attributes
    ----------
    front_ : pandas.DataFrame
        One row per ensemble, best score first: its metrics, then the count of each model.
    models_ : dict of str to estimator
        Fitted.
    library_ : Library
        What the models predict of the records, out-of-fold if they were not fitted.
    problem_ : EnsembleProblem
    algorithm_ : Algorithm

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(300, random_state=0)
    >>> models = {"linear": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=3)}
    >>> for model in models.values():
    ...     _ = model.fit(X[:200], y[:200])
    >>> search = ParetoEnsemble(models, costs={"memory": [1, 3]}, budget=200)
    >>> best = search.fit(X[200:], y[200:]).choose(where="memory<=4", best="roc_auc")
    >>> len(best.predict(X[200:]))
    100
    """

    def __init__(
        self,
        models: Mapping[str, Any] | Sequence[tuple[str, Any]],
        *,
        costs: Mapping[str, Any] | Literal["measured"] | None = None,
        score: str | None = None,
        objectives: Sequence[str] | None = None,
        algorithm: str | Mapping[str, Any] = "pareto_es",
        budget: int | Mapping[str, Any] = 5000,
        max_count: int = 50,
        folds: int = 5,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.models = models
        self.costs = costs
        self.score = score
        self.objectives = objectives
        self.algorithm = algorithm
        self.budget = budget
        self.max_count = max_count
        self.folds = folds
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Array, sample_weight: Any = None) -> ParetoEnsemble:
        """Search ensembles. Fitted models only predict; others are fitted ``folds`` + 1 times.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Records that no model was fitted on.
        y : (n,)
        sample_weight : array (n,), optional
            How often each record counts: whole numbers, 0 leaves it out.

        Raises
        ------
        InputError
            Models, costs, metrics, weights or parameters that cannot be used.
        """
        given = named_models(self.models)
        copies = copies_for(sample_weight, y, copy_bytes(given))
        models, out_of_fold = cross_fitted(
            given, X, y, folds=self.folds, seed=self.random_state, copies=copies
        )
        self.models_ = models
        costs = measured_costs(models, X) if isinstance(self.costs, str) else self.costs
        self.library_ = from_models(
            models,
            X,
            y,
            costs=costs,
            configs=_configs(models),
            copies=copies,
            out_of_fold=out_of_fold,
        )
        self.problem_ = EnsembleProblem(self.library_, max_count=self.max_count, score=self.score)
        for name in self.library_.ids:
            if name in self.problem_.metric_names:
                raise InputError(f"models: expected names that no metric has, found {name!r}")
        objectives = self.objectives
        if objectives is None:
            objectives = [*self.problem_.score, *(self.problem_.costs or ["members"])]
        self.algorithm_, self._front = search(
            self.problem_,
            roles_for(self.problem_, objectives),
            self.algorithm,
            self.budget,
            self.random_state,
            verbose=self.verbose,
        )
        order = np.lexsort(self._front.losses.T[::-1])
        counts = pd.DataFrame(self._front.X, columns=list(self.library_.ids))
        values = pd.DataFrame(self._metric_columns())
        self.front_ = pd.concat([values, counts], axis=1).iloc[order].reset_index(drop=True)
        return self

    def ensemble(self, counts: Sequence[int] | Array) -> WeightedEnsemble:
        """Return the ensemble with these counts of the models, shape (K,)."""
        check_is_fitted(self)
        library, models = self.library_, self.models_
        x = np.asarray(counts)
        picked = np.flatnonzero(x).tolist()
        members = {library.ids[i]: models[library.ids[i]] for i in picked}
        costs = costs_of(library, picked, list(library.costs))
        if library.classes is None:
            return WeightedEnsembleRegressor.from_fitted(members, x[picked], costs=costs)
        return WeightedEnsembleClassifier.from_fitted(
            members, x[picked], library.classes, costs=costs
        )

    def _model_of(self, genome: Array) -> WeightedEnsemble:
        return self.ensemble(genome)


def _configs(models: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each model's class, for similarity."""
    return [{"family": type(model).__name__} for model in models.values()]
