"""Weighted ensembles of fitted models in a few lines: a front, and one ensemble to deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.ensembling.model import WeightedEnsemble
from algorithms.ensembling.problem import EnsembleProblem
from framework.arrays import Array
from framework.errors import InputError
from framework.estimators.pool import PoolEstimator
from framework.front import Front
from framework.libraries.library import Library


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoEnsemble(PoolEstimator[WeightedEnsemble]):
    """Search the weighted ensembles of models for the front of loss against costs.

    Parameters
    ----------
    models
        Classifiers with ``predict_proba`` and the same classes, or regressors.
    costs
        An ensemble pays for every member once. ``'measured'``: inference time, memory and disk.
        None: the number of ``members``.
    objectives
        By default the ``metric`` and all costs.
    metric : str or sequence of str, optional
        One or more scores of :class:`~algorithms.ensembling.problem.EnsembleProblem`; ROC AUC, or
        RMSE for regressors, if None.
    max_count : int
        Greatest number of times that one model is picked.

    The others are those of :class:`~framework.estimators.pool.PoolEstimator` and
    :class:`~framework.estimators.front.FrontEstimator`.

    Attributes
    ----------
    front_ : pandas.DataFrame
        The solutions; the last columns are the counts of the models.
    model_ : WeightedEnsembleClassifier or WeightedEnsembleRegressor
    models_ : dict of str to estimator
        The fitted models.
    library_ : Library
        The models' predictions for the records, out-of-fold if the models were not fitted before.
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

    metric: str | Sequence[str] | None = None
    algorithm: str | Mapping[str, Any] | None = "pareto_es"
    max_count: int = 50

    def ensemble(self, counts: Sequence[int] | Array) -> WeightedEnsemble:
        """Return the ensemble with these counts of the models, shape (K,).

        Raises
        ------
        InputError
            They are no candidate of the search: too few counts, a negative one, or none above 0.
        """
        self._recommended()
        genome, space = np.asarray(counts), self.problem_.space
        if genome.shape != (space.d,) or not space.contains(genome[np.newaxis]).all():
            raise InputError(
                f"counts: expected {space!r}, one of them or more, found {genome.tolist()}"
            )
        model: WeightedEnsemble = self._model_of(genome, self.problem_)
        return model

    def _problem_from(self, library: Library) -> EnsembleProblem:
        asked = {"score": self.metric, **self._rated}
        return EnsembleProblem(library, max_count=self.max_count, **asked)

    def _usual_objectives(self, problem: EnsembleProblem) -> Sequence[str]:
        return [*problem.score, *(problem.costs or ["members"])]

    def _design_columns(self, front: Front) -> Mapping[str, Any]:
        return dict(zip(self.library_.ids, front.X.T, strict=True))
