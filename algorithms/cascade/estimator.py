"""Cascades of scikit-learn classifiers in a few lines: a front, and one cascade to deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from algorithms.cascade.calling import CalledModel, called
from algorithms.cascade.model import CascadeClassifier
from algorithms.cascade.problem import Abstain, CascadeProblem
from algorithms.cascade.router import Router, cross_fitted_scores
from algorithms.cascade.routing import Routing
from algorithms.cascade.stages import AnswerRule
from framework.analysis.expectations import Resamples
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError
from framework.experiment.front_estimator import FrontEstimator, roles_for, search
from framework.libraries.calls import CallTable
from framework.libraries.importing import from_models, measured_costs
from framework.libraries.library import Cost, Library
from framework.libraries.members import named_models, predictions

_FOLDS = 5  # of a router, where the models have none


class ParetoCascade(ClassifierMixin, FrontEstimator[CascadeClassifier]):  # type: ignore[misc]
    """Which of some classifiers to ask first, and from which confidence on to believe it.

    Parameters
    ----------
    models : mapping of str to classifier, or sequence of (str, classifier)
        With ``predict_proba``; they are trained, unless ``cv`` is ``'prefit'``. Functions and
        async functions too, of records to probabilities: see
        :class:`~algorithms.cascade.calling.CalledModel`, which they are wrapped in.
    costs : mapping of str to float, sequence of float, or 'measured'
        What a prediction of each costs. ``'measured'``: milliseconds for a batch of 1,000 records
        on one thread, each model in a process of its own; a model that a cascade has costs its
        share of a call for every record, and the rest for those that it is asked for.
    answer : {'own', 'cumulative_mean', 'vote'}
        See :class:`~algorithms.cascade.problem.CascadeProblem`.
    abstain : {'no', 'last', 'early'}
    router : classifier or 'auto', optional
        Learns, cross-fitted, from the records where each model is right; a cascade may send records
        past its first model by that, which costs a score for each. ``'auto'``: a logistic
        regression, on columns of texts by TF-IDF. With ``answer='own'``.
    router_cost : float
        What a score costs, where ``costs`` are not measured.
    cv : int or 'prefit'
        Folds: the calls are of models that were not trained on the record. ``'prefit'``: the models
        are fitted, on other records than those of ``fit``.
    algorithm : str or mapping
        A registered search or the section ``algorithm`` of a configuration.
    budget : int or mapping
        Of the search.
    random_state : int

    Attributes
    ----------
    front_ : pandas.DataFrame
        One row per cascade, the cheapest first: its metrics, then the gene of each model.
    calls_ : CallTable
    problem_ : CascadeProblem
    model_ : CascadeClassifier
        What predicts: the best by its promise, or that of :meth:`set_budget`.
    classes_ : (C,)

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(400, random_state=0)
    >>> models = {"linear": LogisticRegression(), "forest": RandomForestClassifier(random_state=0)}
    >>> cascade = ParetoCascade(models, costs={"linear": 1, "forest": 40}).fit(X[:300], y[:300])
    >>> len(cascade.set_budget(20).predict(X[300:]))
    100
    """

    def __init__(
        self,
        models: Mapping[str, Any] | Sequence[tuple[str, Any]],
        costs: Mapping[str, float] | Sequence[float] | Literal["measured"] = "measured",
        *,
        answer: AnswerRule = "own",
        abstain: Abstain = "no",
        router: Any = None,
        router_cost: float = 0.0,
        cv: int | Literal["prefit"] = 5,
        algorithm: str | Mapping[str, Any] = "cascade_exact",
        budget: int | Mapping[str, Any] = 5000,
        random_state: int = 0,
    ) -> None:
        self.models = models
        self.costs = costs
        self.answer = answer
        self.abstain = abstain
        self.router = router
        self.router_cost = router_cost
        self.cv = cv
        self.algorithm = algorithm
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Array) -> ParetoCascade:
        """Ask every model about every record, by cross-fitting, and search the cascades.

        Parameters
        ----------
        X : DataFrame or array (n, d)
        y : (n,)

        Raises
        ------
        InputError
            Models, costs or parameters that cannot be used, or too few records of a class.
        """
        check_classification_targets(y)
        models = {name: called(model) for name, model in named_models(self.models).items()}
        targets = np.asarray(y)
        self.classes_ = np.unique(targets)
        if self.cv == "prefit":
            self.models_ = {
                name: clone(model).fit(X, y) if isinstance(model, CalledModel) else model
                for name, model in models.items()
            }
            validation = None
        else:
            validation = self._cross_fitted(models, X, targets)
            self.models_ = {name: clone(model).fit(X, y) for name, model in models.items()}
        costs, fixed = self._costs(models, X)
        self.library_ = (
            from_models(self.models_, X, targets, costs=costs)
            if validation is None
            else Library.from_arrays(
                list(models), validation, targets, self.classes_.tolist(), costs
            )
        )
        self.calls_ = CallTable.of(self.library_, fixed=fixed)
        routing = None if self.router is None else self._routing(X)
        self.problem_ = CascadeProblem(
            self.calls_, answer=self.answer, abstain=self.abstain, routing=routing
        )
        objectives = ["calibrated_accuracy", "cost"]
        if self.abstain != "no":
            objectives.insert(1, "coverage")
        self.algorithm_, self._front = search(
            self.problem_,
            roles_for(self.problem_, objectives),
            self.algorithm,
            self.budget,
            self.random_state,
        )
        order = np.argsort(self._front.rows.values["cost"], kind="stable")
        genes = pd.DataFrame(self._front.X, columns=list(self.problem_.gene_names))
        values = pd.DataFrame(self._metric_columns())
        self.front_ = pd.concat([values, genes], axis=1).iloc[order].reset_index(drop=True)
        return self.set_budget(np.inf)

    def set_budget(self, cost: float, sure: float | None = None) -> ParetoCascade:
        """Choose the best cascade that costs at most so much on average; no search is made.

        Parameters
        ----------
        cost : float
        sure : float, optional
            Per cent, such as 95: of resamples of the records, in so many it costs no more.

        Raises
        ------
        InputError
            None does.
        """
        check_is_fitted(self, "front_")
        values = self._front.rows.values
        kept = values["cost"] <= cost
        if sure is not None:
            kept &= kept_in_resamples(self.problem_, self._front.X, cost, self.random_state, sure)
        within = np.flatnonzero(kept)
        if not len(within):
            often = "" if sure is None else f" in {sure:g}% of the resamples"
            raise InputError(
                f"cost: expected at least what the cheapest cascade costs{often}, "
                f"{values['cost'].min():.6g} on average, found {cost:g}"
            )
        best = within[np.argmax(values["calibrated_accuracy"][within])]
        self.model_ = self._model_of(self._front.X[best])
        return self

    def predict(self, X: Any) -> Array:
        """Return the class (n,) of records (n, d); None where the cascade abstains."""
        check_is_fitted(self)
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n, C) of whatever answered each record."""
        check_is_fitted(self)
        return self.model_.predict_proba(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _cross_fitted(self, models: Mapping[str, Any], X: Any, y: Array) -> Array:
        fewest = int(np.unique(y, return_counts=True)[1].min())
        if not isinstance(self.cv, int) or self.cv < 2 or self.cv > fewest:
            raise InputError(
                f"cv: expected 'prefit' or a number of folds from 2 to {fewest}, the records of "
                f"the rarest class, found {self.cv!r}"
            )
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        labels = self.classes_.tolist()
        tables: list[Any] = [None] * len(models)
        for train, held in folds.split(np.zeros(len(y)), y):
            for i, model in enumerate(models.values()):
                found = predictions(
                    clone(model).fit(_rows(X, train), y[train]), _rows(X, held), labels
                )
                failed = int(np.isnan(found).reshape(len(held), -1).any(axis=1).sum())
                if failed:
                    raise InputError(
                        f"models: expected answers of {list(models)[i]!r} to all records, found "
                        f"{failed} whose calls failed"
                    )
                if tables[i] is None:
                    tables[i] = np.zeros((len(y), *found.shape[1:]))
                tables[i][held] = found
        return np.stack(tables).astype(np.float32)

    def _costs(
        self, models: Mapping[str, Any], X: Any
    ) -> tuple[dict[str, Cost | Any], dict[str, FloatArray]]:
        """Return what a call of each model costs, and what of that is paid for any batch."""
        if isinstance(self.costs, str):
            if self.costs != "measured":
                raise InputError(f"costs: expected numbers or 'measured', found {self.costs!r}")
            if any(isinstance(model, CalledModel) for model in models.values()):
                raise InputError(
                    "costs: expected numbers for models that are functions, found 'measured'; give "
                    "what a call of each model costs"
                )
            found = measured_costs(self.models_, X, call_time=True)
            return {"cost": found["inference_time"]}, {"cost": found["call_time"].values}
        if isinstance(self.costs, Mapping):
            lacks = [name for name in models if name not in self.costs]
            if lacks:
                raise InputError(f"costs: expected one of each model, found none of {lacks[0]!r}")
            return {"cost": [float(self.costs[name]) for name in models]}, {}
        return {"cost": list(self.costs)}, {}

    def _model_of(self, genome: Array) -> CascadeClassifier:
        bare = self.problem_.policy(genome)
        models = {name: self.models_[name] for name in bare.policy.models}
        router = {name: self.router_.classifiers_[name] for name in bare.policy.routed}
        return CascadeClassifier.of_policy(
            models, bare.policy, self.classes_, cases=bare.cases, router=router
        )

    def _routing(self, X: Any) -> Routing:
        """Fit the router, and return what routers fitted on other folds say of the records."""
        router = Router(None if isinstance(self.router, str) else self.router)
        if isinstance(self.router, str) and self.router != "auto":
            raise InputError(f"router: expected 'auto' or a classifier, found {self.router!r}")
        right = dict(zip(self.calls_.ids, self.calls_.right, strict=True))
        folds = _FOLDS if isinstance(self.cv, str) else self.cv
        scores = cross_fitted_scores(router, X, right, folds, self.random_state)
        self.router_ = router.fit(X, right)
        cost = float(self.router_cost)
        learned = [m for m in self.router_.classifiers_.values() if not isinstance(m, float)]
        if isinstance(self.costs, str) and learned:
            cost = float(measured_costs({"router": learned[0]}, X)["inference_time"].values[0])
        return Routing(scores, {"cost": cost})


def kept_in_resamples(
    problem: CascadeProblem, X: Array, cost: float, seed: int, sure: float
) -> BoolArray:
    """Return which cascades (n, d) cost at most so much in ``sure`` per cent of the resamples."""
    if not 0 < sure < 100:
        raise InputError(f"sure: expected a percentage between 0 and 100, found {sure:g}")
    resamples = Resamples(problem.outcomes(X), seed)
    name = problem.costs[0]
    found = resamples.outcomes.metrics(resamples.weights, np.arange(len(X)), [name])[name]
    return np.asarray((found <= cost).mean(axis=1) >= sure / 100)


def _rows(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else np.asarray(X)[rows]
