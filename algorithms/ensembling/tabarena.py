"""An ensembler for TabArena's simulation of post-hoc ensembling, without depending on it."""

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
_SCORES = {  # AutoGluon's names, where ours or scikit-learn's are others
    "roc_auc_ovr": "roc_auc",
    "root_mean_squared_error": "rmse",
    "mean_squared_error": "neg_mean_squared_error",
    "mean_absolute_error": "mae",
    "median_absolute_error": "neg_median_absolute_error",
    "mean_absolute_percentage_error": "neg_mean_absolute_percentage_error",
    "mcc": "matthews_corrcoef",
}
_AGREEMENT = 0.05
"""How far apart two errors of one model may be, relatively: metrics clip small probabilities at
different places, and nothing else should tell them apart."""
_EVALUATIONS, _PICKS = 5000, 100
_MOST_OF_ONE = 50
_PARETO, _GREEDY = "pareto_es", {"kind": "ges", "iterations": _PICKS}
_COMPARED = 8  # models of which two errors are compared


class ParetoEnsembler:
    """The chosen ensemble of a front, by the interface of TabArena's ``WeightedEnsembler``.

    Pass it as ``ensembler_cls``, and what follows ``metric`` as ``ensembler_kwargs``.

    Parameters
    ----------
    problem_type : str
        ``binary``, ``multiclass`` or ``regression``.
    metric : object
        A scorer of AutoGluon: its ``name`` says what is searched for (``roc_auc``, ``log_loss``,
        ``accuracy``, ``root_mean_squared_error``, ...), its ``error(labels, prediction)`` is
        compared with the score that the search uses.
    costs : mapping of str to sequence, shape (K,), optional
        What each model costs, in the order in which TabArena passes the models: it tells no
        names. The number of members if None.
    where, best
        Conditions such as ``inference_time<=0.2``, and the metric that the chosen ensemble is the
        best in; the score if None. See :func:`framework.analysis.choose.choose`.
    algorithm : str or mapping, optional
        As for :class:`~algorithms.ensembling.estimator.ParetoEnsemble`. None: ``pareto_es`` where
        costs or conditions are given; else greedy selection of 100 picks, as TabArena's own,
        since the best score is then all that is asked for, and a search for a front spends most
        of its evaluations elsewhere.
    budget : int or mapping, optional
        Number of evaluations, or the section ``budget`` of a configuration; 5000 if None, or as
        many as 100 picks take.
    random_state : int

    Attributes
    ----------
    weights_ : numpy.ndarray, shape (K,)
        Of each model in the chosen ensemble; they add to one.

    Notes
    -----
    TabArena's fast log loss (its default) hands over each record's probability of the *true*
    class alone, with the labels as they were and ``problem_type="binary"``; the metric tells it
    by ``post_problem_type``. Such a view is searched as what it is: every record's label is the
    class that the probability is of.
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
            Not kept: the number of evaluations is, so that results repeat.

        Raises
        ------
        InputError
            Predictions, costs or conditions that cannot be used; a metric that is not known, or
            whose errors of the models are others than those that would be searched for.
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
        """Return nothing further to say."""
        return {}

    def _is_greedy(self) -> bool:
        """Return whether only the best score is asked for."""
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
        elif name == "log_loss" and tables.ndim == 3:  # scikit-learn clips by the type of numbers
            tables = np.clip(tables, np.finfo(np.result_type(tables, np.float32)).eps, 1.0)
        classes = None
        if self.problem_type != _REGRESSION:
            classes = list(range(tables.shape[2] if tables.ndim == 3 else 2))
        ids = [f"model_{i}" for i in range(len(tables))]
        library = Library.from_arrays(ids, tables, labels, classes, self.costs, every_class=False)
        most = _PICKS if self._is_greedy() else _MOST_OF_ONE
        return EnsembleProblem(library, score=_SCORES.get(name, name), max_count=most)

    def _check_metric(self, problem: EnsembleProblem, predictions: Any, labels: Any) -> None:
        """Refuse a metric by which a model's error is another than by the problem's score.

        What TabArena passes may be prepared for its metric in a way that is not known here; then
        the search would go for the wrong thing and nobody would know.
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
    """Return values as they are, or the likeliest classes: as in AutoGluon the first of equals."""
    if problem_type == _REGRESSION:
        return predictions
    return (
        predictions.argmax(axis=1)
        if predictions.ndim == 2
        else (predictions > 0.5).astype(np.int64)
    )
