"""What estimators that search have in common: ``fit`` finds a front, ``choose`` picks from it."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from framework import registry
from framework.algorithm import Algorithm, make
from framework.analysis import choose as decide
from framework.arrays import Array
from framework.errors import InputError
from framework.experiment.config import check, section
from framework.front import Front
from framework.preparation import PreparationProgress
from framework.problem import Problem
from framework.roles import Constraint, Objective, Roles
from framework.run.driver import Callback, Progress
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget

if TYPE_CHECKING:
    import pandas as pd

Model = TypeVar("Model")

_SHOWN = 20  # rows and columns in a notebook

_FORMAT = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


class FrontEstimator(BaseEstimator, Generic[Model]):  # type: ignore[misc]
    """An estimator whose ``fit`` ends in a front of solutions that are models.

    A subclass sets ``_front`` in ``fit`` and says in ``_model_of`` what model a genome is.
    """

    _front: Front

    def choose(
        self, where: str | Sequence[str] = (), best: str | None = None, **rule: Any
    ) -> Model:
        """Return one solution of the front as a model, fitted and ready to predict.

        Parameters
        ----------
        where : str or sequence of str
            Conditions on the metrics of the front that it meets, such as ``cost<=50``.
        best : str, optional
            The metric that it is the best in.
        **rule
            Other rules of :func:`framework.analysis.choose.choose`: ``within``, ``knee``,
            ``weights``, ``id``. Without any rule: the solution nearest to the ideal point.

        Returns
        -------
        estimator
            With the interface of scikit-learn.

        Raises
        ------
        InputError
            No solution meets the conditions, or a metric is unknown.
        """
        check_is_fitted(self)
        conditions = [where] if isinstance(where, str) else list(where)
        position = decide.choose(self._front, where=conditions, best=best, **rule)
        return self._model_of(self._front.X[position])

    @abstractmethod
    def _model_of(self, genome: Array) -> Model:
        """Return the fitted model that a genome, shape (d,), stands for."""

    def _metric_columns(self) -> dict[str, Array]:
        """Return the metrics of the front; sizes of solutions are whole numbers."""
        metrics = self._front.roles.metrics
        return {
            name: values.astype(np.int64) if metrics[name].size else values
            for name, values in self._front.rows.values.items()
        }

    def _repr_html_(self) -> str:
        """Return the front and the chosen design as a notebook shows them; a diagram before."""
        if not hasattr(self, "front_"):
            return str(estimator_html_repr(self))
        model = getattr(self, "model_", None)
        card = "choose(...) returns one of them as a model" if model is None else model.card().title
        return in_html(self.front_, f"{type(self).__name__}: {card}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_front")


def in_html(front: pd.DataFrame, chosen: str) -> str:
    """Return a table of solutions as a notebook shows it, with a line on the chosen one."""
    return f"{front.to_html(max_rows=_SHOWN, max_cols=_SHOWN)}<p>{escape(chosen)}</p>"


def roles_for(
    problem: Problem, objectives: Sequence[str], constraints: Sequence[str] = ()
) -> Roles:
    """Return the roles in which some metrics are objectives, each in its natural sense.

    Parameters
    ----------
    problem : Problem
    objectives : sequence of str
        Names of metrics.
    constraints : sequence of str
        Bounds that solutions keep to, such as ``cost<=50`` or ``coverage>=0.8``.

    Raises
    ------
    InputError
        The problem has no such metric, or a constraint is no bound.
    """
    senses = {metric.name: metric.sense for metric in problem.metrics}
    bounds = [_constraint(text) for text in constraints]
    used = {"objectives": list(objectives), "constraints": [bound.metric for bound in bounds]}
    for place, names in used.items():
        for name in names:
            if name not in senses:
                raise InputError(
                    f"{place}: expected metrics ({', '.join(senses)}), found {name!r}"
                    f"{registry.nearest(name, senses)}"
                )
    return Roles(problem.metrics, [Objective(name, senses[name]) for name in objectives], bounds)


def _constraint(text: str) -> Constraint:
    condition = decide.parse_condition(text, "constraints")
    if condition.operator not in ("<=", ">="):
        raise InputError(f"constraints: expected METRIC<=NUMBER or METRIC>=NUMBER, found {text!r}")
    side = "at_most" if condition.operator == "<=" else "at_least"
    return Constraint(condition.metric, **{side: condition.value})


def search(
    problem: Problem,
    roles: Roles,
    algorithm: str | Mapping[str, Any],
    budget: int | Mapping[str, Any],
    seed: int,
    *,
    verbose: bool = False,
) -> tuple[Algorithm, Front]:
    """Run a registered search in this process.

    Parameters
    ----------
    problem : Problem
    roles : Roles
    algorithm : str or mapping
        Registered name, or a section ``algorithm`` of a configuration:
        ``{"kind": "local_search", "neighbours": 10}``.
    budget : int or mapping
        Number of evaluations, or a section ``budget``: ``{"generations": 50}``.
    seed : int
    verbose : bool
        Whether a bar shows the progress, in a notebook or a terminal.

    Returns
    -------
    Algorithm, Front
        The search at its end, and the front of all it evaluated.

    Raises
    ------
    InputError
        No such search, or parameters that it or the budget does not know.
    """
    raw = {"kind": algorithm} if isinstance(algorithm, str) else algorithm
    checked = section("algorithms", raw, "algorithm")
    limits = budget if isinstance(budget, Mapping) else {"evaluations": budget}
    ends = check(Budget, limits, "budget")
    kind = registry.load("algorithms", checked.pop("kind"))
    searched = make(kind, problem, roles, seed=seed, **checked)
    evaluator = SerialEvaluator(problem, seed)
    if not verbose:
        return searched, run(problem, searched, evaluator, budget=ends)
    with closing(FitProgress()) as bar:
        return searched, run(problem, searched, evaluator, budget=ends, callbacks=[bar])


class FitProgress(Callback):
    """A bar that fills with the budget and never goes back."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets a notebook has a bar of text
            from tqdm.auto import tqdm
        shown = "ipykernel" in sys.modules or sys.stderr.isatty()
        self._bar: Any = tqdm(total=1.0, bar_format=_FORMAT, disable=not shown)

    def on_preparation(self, work: PreparationProgress) -> None:
        self._bar.set_postfix_str(f"{work.what}: {work.done:,} of {work.total:,}")

    def on_batch(self, progress: Progress) -> None:
        self._show(progress, progress.share or 0.0)

    def on_end(self, progress: Progress) -> None:
        self._show(progress, 1.0)
        self._bar.refresh()
        self.close()

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()

    def _show(self, progress: Progress, share: float) -> None:
        text = f"{progress.evaluations:,} evaluations, {progress.front_size:,} on the front"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(max(0.0, share - self._bar.n))
