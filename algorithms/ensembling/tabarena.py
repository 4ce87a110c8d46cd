"""An ensembler for TabArena's simulation of post-hoc ensembling, without depending on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.ensembling.problem import EnsembleProblem
from framework.analysis import choose as decide
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError
from framework.experiment.front_estimator import search
from framework.libraries.library import Library
from framework.roles import Objective, Roles

_REGRESSION = "regression"
_SCORES = {"root_mean_squared_error": "rmse", "mean_absolute_error": "mae"}


class ParetoEnsembler:
    """The chosen ensemble of a front, by the interface of TabArena's ``WeightedEnsembler``.

    Pass it as ``ensembler_cls``, and what follows ``metric`` as ``ensembler_kwargs``.

    Parameters
    ----------
    problem_type : str
        ``binary``, ``multiclass`` or ``regression``.
    metric : object
        Its ``name`` says which score is searched for: ``roc_auc``, ``roc_auc_ovr_macro``,
        ``log_loss``, ``accuracy``, ``root_mean_squared_error``, ...
    costs : mapping of str to sequence, shape (K,), optional
        What each model costs; the number of members if None.
    where, best
        Conditions such as ``inference_time<=0.2``, and the metric that the chosen ensemble is the
        best in; the score if None. See :func:`framework.analysis.choose.choose`.
    search, evaluations, seed
        As for :class:`~algorithms.ensembling.estimator.ParetoEnsemble`.

    Attributes
    ----------
    weights_ : numpy.ndarray, shape (K,)
        Of each model in the chosen ensemble; they add to one.

    Notes
    -----
    For the log loss TabArena may hand over the true class's probabilities alone, all labels one:
    a library needs records of every class, and says so.
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
        search: str = "pareto_es",
        evaluations: int = 5000,
        seed: int = 0,
    ) -> None:
        self.problem_type, self.metric = problem_type, metric
        self.costs, self.where, self.best = costs, where, best
        self.search, self.evaluations, self.seed = search, evaluations, seed

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
            Predictions, costs or conditions that cannot be used.
        """
        tables = np.asarray(predictions)
        many = tables.shape[2] if tables.ndim == 3 else 2
        classes = None if self.problem_type == _REGRESSION else list(range(many))
        ids = [f"model_{i}" for i in range(len(tables))]
        library = Library.from_arrays(ids, tables, labels, classes, self.costs)
        name = str(self.metric.name)
        score = "roc_auc" if name.startswith("roc_auc") else _SCORES.get(name, name)
        problem = EnsembleProblem(library, score=score)
        senses = {metric.name: metric.sense for metric in problem.metrics}
        names = [score, *(problem.costs or ["members"])]
        roles = Roles(problem.metrics, [Objective(n, senses[n]) for n in names])
        _, front = search(problem, roles, self.search, self.evaluations, self.seed)
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
        found = self.predict_proba(predictions)
        if (problem_type or self.problem_type) == _REGRESSION:
            return found
        return found.argmax(axis=1) if found.ndim == 2 else (found >= 0.5).astype(np.int64)

    def model_weights(self) -> FloatArray:
        """Return the weights, shape (K,)."""
        return self.weights_

    def models_used(self) -> BoolArray:
        """Tell which models a prediction runs, shape (K,)."""
        return np.asarray(self.weights_ != 0)

    def info(self) -> dict[str, Any]:
        """Return nothing further to say."""
        return {}
