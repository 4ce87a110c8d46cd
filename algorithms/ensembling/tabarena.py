"""An ensembler for TabArena's simulation of post-hoc ensembling; it does not import TabArena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.ensembling.problem import EnsembleProblem
from framework.analysis import choose as decide
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError
from framework.estimators.search import search
from framework.libraries.library import Library
from framework.roles import Objective, Roles

_BINARY, _MULTICLASS, _REGRESSION = "binary", "multiclass", "regression"
_SCORES = {  # AutoGluon's names that differ from this package's or scikit-learn's
    "roc_auc_ovr": "roc_auc",
    "root_mean_squared_error": "rmse",
    "mean_squared_error": "neg_mean_squared_error",
    "mean_absolute_error": "mae",
    "median_absolute_error": "neg_median_absolute_error",
    "mean_absolute_percentage_error": "neg_mean_absolute_percentage_error",
    "mcc": "matthews_corrcoef",
}
_AGREEMENT = 0.05
"""Greatest relative difference of two errors of one model: metrics clip small probabilities at
different places, and nothing else should make a difference."""
_EVALUATIONS, _PICKS = 5000, 100
_MOST_OF_ONE = 50
_PARETO, _GREEDY = "pareto_es", {"kind": "ges", "iterations": _PICKS}
_COMPARED = 8  # models whose two errors are compared


class ParetoEnsembler:
    """The chosen ensemble of a front, with the interface of TabArena's ``WeightedEnsembler``.

    Pass the class as ``ensembler_cls``, and the parameters after ``metric`` as
    ``ensembler_kwargs``.

    Parameters
    ----------
    problem_type : str
        ``binary``, ``multiclass`` or ``regression``.
    metric : object
        A scorer of AutoGluon. Its ``name`` selects the score to search by (``roc_auc``,
        ``log_loss``, ``accuracy``, ``root_mean_squared_error`` and so on); its ``error(labels,
        prediction)`` is compared with that score.
    costs : mapping of str to sequence, shape (K,), optional
        The costs of each model, in the order in which TabArena passes the models, as it does not
        pass names. The number of members if None.
    where, best
        Conditions such as ``inference_time<=0.2``, and the metric in which the chosen ensemble is
        the best; the score if None. See :func:`framework.analysis.choose.choose`.
    algorithm : str or mapping, optional
        As for :class:`~algorithms.ensembling.estimator.ParetoEnsemble`. If None, ``pareto_es`` if
        there are costs or conditions, and otherwise greedy selection of 100 picks, as TabArena
        does: only the best score matters then, and a search for a front would spend most of its
        evaluations elsewhere.
    budget : int or mapping, optional
        Number of evaluations, or the section ``budget`` of a configuration. If None, 5000, or as
        many as 100 picks take.
    random_state : int

    Attributes
    ----------
    weights_ : numpy.ndarray, shape (K,)
        The weight of each model in the chosen ensemble; they add up to one.

    Notes
    -----
    TabArena's fast log loss (its default) passes each record's probability of the *true* class
    only, with the original labels and ``problem_type="binary"``; the metric's
    ``post_problem_type`` tells so. In the search every record then has the label 1, the class that
    the probability is of.
    """

    linear = True

    def __init__(
        self,
        *,
        problem_type: str,
        metric: Any,
        costs: Mapping[str, Any] | None = None,
        where: str | Sequence[str] = (),
        best: str | None = None,
        algorithm: str | Mapping[str, Any] | None = None,
        budget: int | Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.problem_type, self.metric = problem_type, metric
        self.costs, self.where, self.best = costs, where, best
        self.algorithm, self.budget, self.random_state = algorithm, budget, random_state

    def fit(
        self, *, predictions: Any, labels: Any, time_limit: float | None = None
    ) -> ParetoEnsembler:
        """Search and choose.

        Parameters
        ----------
        predictions : array_like, shape (K, N) or (K, N, C)
        labels : array_like, shape (N,)
            Positions of the classes, or values.
        time_limit : float, optional
            Ignored: the budget is a number of evaluations, so that results are reproducible.

        Raises
        ------
        InputError
            Predictions, costs or conditions cannot be used, the metric is unknown, or its errors of
            the models differ from those that would be searched by.
        """
        problem = self._problem(np.asarray(predictions), np.asarray(labels))
        self._check_metric(problem, predictions, labels)
        score = problem.score[0]
        senses = {metric.name: metric.sense for metric in problem.metrics}
        names = [score, *(problem.costs or ["members"])]
        roles = Roles(problem.metrics, [Objective(n, senses[n]) for n in names])
        algorithm, budget = self._search(len(predictions))
        front = search(problem, roles, algorithm, budget, self.random_state).front
        conditions = [self.where] if isinstance(self.where, str) else list(self.where)
        counts = front.X[decide.choose(front, where=conditions, best=self.best or score)]
        self.weights_: FloatArray = counts / counts.sum()
        return self

    def predict_proba(self, predictions: Any) -> Array:
        """Return the weighted mean of predictions, shape (N,) or (N, C)."""
        used = np.flatnonzero(self.weights_)
        if len(predictions) != len(self.weights_):
            raise InputError(
                f"predictions: expected {len(self.weights_)} models, found {len(predictions)}"
            )
        parts = [np.asarray(predictions[i]) * self.weights_[i] for i in used]
        return np.asarray(np.sum(parts, axis=0))

    def predict(self, predictions: Any, *, problem_type: str | None = None) -> Array:
        """Return values, or the positions of the likeliest classes, shape (N,)."""
        return _answers(self.predict_proba(predictions), problem_type or self.problem_type)

    def model_weights(self) -> FloatArray:
        """Return the weights, shape (K,)."""
        return self.weights_

    def models_used(self) -> BoolArray:
        """Return which models a prediction runs, shape (K,)."""
        return np.asarray(self.weights_ != 0)

    def info(self) -> dict[str, Any]:
        """Return further information: there is none."""
        return {}

    def _is_greedy(self) -> bool:
        """Return whether only the best score matters."""
        return self.algorithm is None and not self.costs and not self.where

    def _search(self, models: int) -> tuple[str | Mapping[str, Any], int | Mapping[str, Any]]:
        """Return the algorithm and its budget."""
        if self._is_greedy():
            return _GREEDY, self.budget or _PICKS * models
        return self.algorithm or _PARETO, self.budget or _EVALUATIONS

    def _problem(self, tables: Array, labels: Array) -> EnsembleProblem:
        if self.problem_type not in (_BINARY, _MULTICLASS, _REGRESSION):
            raise InputError(
                f"problem_type: expected {_BINARY}, {_MULTICLASS} or {_REGRESSION}, found "
                f"{self.problem_type!r}"
            )
        name = str(self.metric.name)
        if getattr(self.metric, "post_problem_type", None) is not None:
            if name != "log_loss" or tables.ndim != 2:
                raise InputError(
                    f"metric: expected predictions as the models made them, or for the log loss "
                    f"each record's probability of its true class, found others, prepared for "
                    f"{name!r}; pass use_fast_metrics=False to TabArena"
                )
            labels = np.ones(tables.shape[1], dtype=np.int64)
        elif name == "log_loss" and tables.ndim == 3:  # scikit-learn clips by the dtype's epsilon
            tables = np.clip(tables, np.finfo(np.result_type(tables, np.float32)).eps, 1.0)
        classes = None
        if self.problem_type != _REGRESSION:
            classes = list(range(tables.shape[2] if tables.ndim == 3 else 2))
        ids = [f"model_{i}" for i in range(len(tables))]
        library = Library.from_arrays(ids, tables, labels, classes, self.costs, every_class=False)
        most = _PICKS if self._is_greedy() else _MOST_OF_ONE
        return EnsembleProblem(library, score=_SCORES.get(name, name), max_count=most)

    def _check_metric(self, problem: EnsembleProblem, predictions: Any, labels: Any) -> None:
        """Raise InputError if a model's error by the metric differs from the problem's score.

        TabArena may prepare what it passes for its metric in an unknown way. The search would then
        optimise something else without anyone noticing.
        """
        score = problem.metrics[0]
        ours = np.asarray(problem.evaluate(np.eye(len(predictions), dtype=np.int32))[score.name])
        if score.sense == "max":
            ours = self.metric.optimum - ours
        by_class = self.metric.needs_pred and self.problem_type != _REGRESSION
        for j, table in enumerate(predictions[:_COMPARED]):
            averaged = _answers(np.asarray(table), self.problem_type) if by_class else table
            theirs = float(self.metric.error(labels, averaged))
            if not np.isclose(ours[j], theirs, rtol=_AGREEMENT, atol=1e-6, equal_nan=True):
                raise InputError(
                    f"metric {self.metric.name!r}: expected errors that are those of "
                    f"{score.name}, found {theirs:.6g} for model {j}, where {score.name} has "
                    f"{ours[j]:.6g}; pass use_fast_metrics=False to TabArena, or another metric"
                )


def _answers(predictions: Array, problem_type: str) -> Array:
    """Return values, or the likeliest classes: of equally likely ones the first, as AutoGluon."""
    if problem_type == _REGRESSION:
        return predictions
    return (
        predictions.argmax(axis=1)
        if predictions.ndim == 2
        else (predictions > 0.5).astype(np.int64)
    )
