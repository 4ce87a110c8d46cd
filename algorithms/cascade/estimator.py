"""Cascades of scikit-learn classifiers in a few lines: a front, and one cascade to deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from algorithms.cascade.calling import CalledModel, called
from algorithms.cascade.config import Abstain
from algorithms.cascade.model import CascadeClassifier
from algorithms.cascade.problem import CascadeProblem
from algorithms.cascade.stages import AnswerRule, Calibration
from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.estimators.pool import COST, PoolEstimator
from framework.front import Front
from framework.libraries.calls import CallTable
from framework.libraries.importing import is_fitted, measured_costs
from framework.libraries.library import Library
from framework.models.checks import check_labels

_PROMISE = "calibrated_accuracy"  # what cascades are chosen by, unless the user says otherwise


@dataclass(eq=False, repr=False, kw_only=True)
class ParetoCascade(PoolEstimator[CascadeClassifier]):
    """Search cascades: which classifier to ask first, and from which confidence on to believe it.

    Parameters
    ----------
    models
        Classifiers with ``predict_proba``. Functions and async functions from records to
        probabilities are accepted, too: they are wrapped in
        :class:`~algorithms.cascade.calling.CalledModel` and never trained.
    costs
        What a prediction of each model costs. ``'measured'``: milliseconds for 1,000 records in one
        batch on one thread. The part that does not depend on the number of records is paid by every
        record for each model of the cascade, the rest only for the models that it reaches.
    objectives
        By default calibrated accuracy and the cost; if cascades may abstain, the accuracy of the
        answers, coverage and the cost.
    best
        By default calibrated accuracy.
    answer : {'own', 'cumulative_mean', 'vote'}
    abstain : {'no', 'last', 'early'}
    calibrate : {'confidences', 'consensus'}
        See :class:`~algorithms.cascade.config.CascadeConfig`.
    The others are those of :class:`~framework.estimators.pool.PoolEstimator` and
    :class:`~framework.estimators.front.FrontEstimator`.

    Attributes
    ----------
    front_ : pandas.DataFrame
        The solutions; the last columns are the genes of the models.
    calls_ : CallTable
    problem_ : CascadeProblem
    model_ : CascadeClassifier
        The cascade that predicts: the recommended one, or that of :meth:`set_budget`. After
        ``from_predictions`` it is a bare policy.
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

    costs: Any = field(default="measured", kw_only=False)
    algorithm: str | Mapping[str, Any] | None = "cascade_exact"
    answer: AnswerRule = "own"
    abstain: Abstain = "no"
    calibrate: Calibration = "confidences"
    _fixed: Mapping[str, FloatArray] | None = field(init=False)

    def set_budget(self, cost: float, sure: float | None = None) -> ParetoCascade:
        """Choose the best cascade of the front whose mean cost keeps a budget, without a search.

        Parameters
        ----------
        cost : float
            Greatest mean cost of a record.
        sure : float, optional
            The cascade must keep the budget in so many per cent of the resamples of the records,
            such as 95.

        Raises
        ------
        InputError
            No cascade keeps the budget.
        """
        condition = f"{self.problem_.costs[0]}<={cost}"
        source, pick = self._picked(condition, _PROMISE, sure=sure)
        self.model_, self.chosen_ = self._made(source, pick), pick.id
        return self

    def _pool(self, X: Any, y: Any) -> dict[str, Any]:
        check_labels(y)
        models = {name: called(model) for name, model in super()._pool(X, y).items()}
        functions = {n: clone(m) for n, m in models.items() if isinstance(m, CalledModel)}
        if functions and isinstance(self.costs, str):
            raise InputError(
                "costs: expected numbers for models that are functions, found 'measured'; give "
                "what a call of each model costs"
            )
        if all(is_fitted(model) for name, model in models.items() if name not in functions):
            functions = {name: model.fit(X, y) for name, model in functions.items()}
        return {name: functions.get(name, model) for name, model in models.items()}

    @property
    def _has_models(self) -> bool:
        return True  # a bare policy is a model, too

    def _measured(self, X: Any) -> Any:
        costs = measured_costs(self.models_, X, call_time=True)
        self._fixed = {COST: costs["call_time"].values}
        return {COST: costs["inference_time"]}

    def _problem_of(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        self._fixed = None
        return super()._problem_of(X, y, sample_weight, groups)

    def _problem_from(self, library: Library) -> CascadeProblem:
        self.calls_ = CallTable.of(library, fixed=getattr(self, "_fixed", None))
        return CascadeProblem(
            self.calls_,
            answer=self.answer,
            abstain=self.abstain,
            calibrate=self.calibrate,
            library=library,
            **self._rated,
        )

    def _model_of(self, genome: Array, problem: Any) -> Any:
        bare = problem.policy(genome)
        if not hasattr(self, "models_"):
            return bare
        models = {name: self.models_[name] for name in bare.policy.models}
        return CascadeClassifier.of_policy(models, bare.policy, self.classes_, cases=bare.cases)

    def _usual_objectives(self, problem: CascadeProblem) -> Sequence[str]:
        if self.abstain == "no":
            return [_PROMISE, problem.costs[0]]
        # accuracies of all records never gain by an answer that is not given
        return ["conclusive_accuracy", "coverage", problem.costs[0]]

    def _recommendation(self) -> Mapping[str, Any]:
        return {**super()._recommendation(), "best": self.best or _PROMISE}

    def _design_columns(self, front: Front) -> Mapping[str, Any]:
        return dict(zip(self.problem_.gene_names, front.X.T, strict=True))
