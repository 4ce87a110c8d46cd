"""The base of all estimators that search: ``fit`` finds a front, ``choose`` picks from it."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import (
    ClassifierTags,
    RegressorTags,
    check_consistent_length,
    column_or_1d,
    estimator_html_repr,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.estimators.search import Searched, roles_for, search
from framework.experiment.choice import Chooser, Pick, Source, listed
from framework.experiment.expected import Evidence, beside_of, evidence, with_expected
from framework.experiment.export import noted_of
from framework.front import Front, why_empty
from framework.models.checks import as_frame, native
from framework.problem import Problem
from framework.roles import Roles

if TYPE_CHECKING:
    import pandas as pd

Model = TypeVar("Model")

_SHOWN = 20  # rows and columns in a notebook


@dataclass(eq=False, repr=False, kw_only=True)
class FrontEstimator(BaseEstimator, Chooser, Generic[Model]):  # type: ignore[misc]
    """An estimator whose ``fit`` finds a front of solutions that are models.

    A subclass defines the problem to search (:meth:`_problem_of`) and the model that a genome
    stands for (:meth:`_model_of`).

    Parameters
    ----------
    objectives : sequence of str, optional
        Metrics that span the front; the family's usual ones if None.
    constraints : str or sequence of str
        Bounds that every solution of the front keeps to, such as ``accuracy>=0.8``.
    where : str or sequence of str
        Conditions that the recommended solution meets, such as ``cost<=50``.
    best : str, optional
        The metric in which the recommended solution is the best. If None, it is the solution
        nearest to the best value of every objective, among those that meet ``where``.
    sure : float, optional
        The percentage of resamples of the records, such as 90, in which all conditions of ``where``
        must hold together.
    rates : str or sequence of str
        Further metrics, as a configuration names them: ``precision``, ``recall:CLASS``,
        ``matthews``, ... (:func:`framework.measures.rates`).
    positive : optional
        Label of the positive class of two; the second in sorted order if None.
    algorithm : str or mapping, optional
        A registered search, or the section ``algorithm`` of a configuration, such as
        ``{"kind": "local_search"}``; the family's usual one if None.
    budget : int or mapping
        Number of evaluations, or the section ``budget`` of a configuration, such as
        ``{"generations": 50, "seconds": 60}``.
    workers : 'serial', 'auto', 'all' or int
        Where candidates are evaluated: in this process, on Ray if that is faster, or on all or so
        many workers of Ray. The front does not depend on it.
    random_state : int
        Seed of the search, of folds and of resamples.
    verbose : bool, optional
        Whether ``fit`` shows its progress in a terminal or a notebook. If None, a bar appears in a
        terminal when a fit takes more than two seconds.
    """

    objectives: Sequence[str] | None = None
    constraints: str | Sequence[str] = ()
    where: str | Sequence[str] = ()
    best: str | None = None
    sure: float | None = None
    rates: str | Sequence[str] = ()
    positive: Any = None
    algorithm: str | Mapping[str, Any] | None = None
    budget: int | Mapping[str, Any] = 5000
    workers: int | str = "serial"
    random_state: int = 0
    verbose: bool | None = None
    problem_: Any = field(init=False)
    algorithm_: Algorithm | None = field(init=False)
    model_: Model = field(init=False)
    chosen_: int = field(init=False)
    _front: Front = field(init=False)
    _evaluated: Sequence[Evaluated] = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search, and recommend a solution.

        Parameters
        ----------
        X : DataFrame (of pandas or polars) or array (n, d)
        y : (n,)
        sample_weight : (n,), optional
            How often each record counts, in whole numbers; 0 leaves a record out. Copies of a
            record stay together wherever records are divided. Some families accept fractions, too.
        groups : (n,), optional
            The group of each record, such as its patient: groups are never divided by folds, and
            resamples draw them whole.

        Raises
        ------
        InputError
            Records, weights or parameters cannot be used, or no solution keeps to the constraints
            or meets ``where``.
        """
        seed = self.random_state
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise InputError(f"random_state: expected a whole number from 0, found {seed!r}")
        return self._search(self._problem_of(as_frame(X), native(y), sample_weight, groups))

    @abstractmethod
    def _problem_of(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Problem:
        """Return the problem that records define, and set the attributes of a fitted estimator."""

    @abstractmethod
    def _usual_objectives(self, problem: Any) -> Sequence[str]:
        """Return the metrics that span the front unless the user names others."""

    @abstractmethod
    def _design_columns(self, front: Front) -> Mapping[str, Any]:
        """Return the columns of ``front_`` that describe the design of each solution."""

    def _asked(self, problem: Any) -> tuple[str | Mapping[str, Any], int | Mapping[str, Any]]:
        """Return the search and its budget."""
        if self.algorithm is None:
            raise InputError("algorithm: expected a search, found None")
        return self.algorithm, self.budget

    @property
    def _rated(self) -> dict[str, Any]:
        """The arguments of a problem that say which rates it has."""
        return {"rates": [*map(str, listed(self.rates))], "positive": self.positive}

    def _bounds(self, problem: Any) -> list[str]:
        """Return the constraints."""
        return listed(self.constraints)

    def _scored_by(
        self, prices: Mapping[str, Any] | None, errors: Mapping[str, float] | None
    ) -> Problem:
        """Return the problem with other prices or costs of errors; genomes keep their meaning."""
        raise NotImplementedError

    def _recommendation(self) -> Mapping[str, Any]:
        """Return the rule by which ``fit`` recommends a solution."""
        return {"where": self.where, "best": self.best, "sure": self.sure}

    @property
    def _has_models(self) -> bool:
        """Whether solutions are models; False if there are only predictions."""
        return True

    @property
    def _classifies(self) -> bool:
        return True

    def _searched(self, problem: Problem, roles: Roles) -> Searched:
        return search(
            problem,
            roles,
            *self._asked(problem),
            self.random_state,
            verbose=self.verbose,
            workers=self.workers,
        )

    def _search(self, problem: Problem) -> Self:
        """Search a problem and recommend a solution."""
        for name in ("front_", "model_"):
            self.__dict__.pop(name, None)
        objectives = listed(self.objectives) or list(self._usual_objectives(problem))
        roles = roles_for(problem, objectives, self._bounds(problem))
        self.algorithm_, self._front, self._evaluated = self._searched(problem, roles)
        self.problem_ = problem
        if not len(self._front):
            raise InputError(f"constraints: {why_empty(self._evaluated, roles)}")
        design_columns, front_columns = self._design_columns(self._front), self._front.columns()
        for name in design_columns:
            if name in front_columns:
                raise InputError(f"models: expected names that no metric has, found {name!r}")
        source, pick = self._picked(**self._recommendation())
        self.chosen_ = pick.id
        if self._has_models:
            self.model_ = self._made(source, pick)
        return self

    @cached_property
    def front_(self) -> pd.DataFrame:
        """One row per solution, the best in the first objective first, indexed by ``id``.

        Its columns are those of ``front.csv``: the metrics on the records of ``fit`` (sizes are
        whole numbers); what to expect of them on new records (``expected_METRIC``, ``METRIC_low``,
        ``METRIC_high``, ``firm``, ``tied_with``: see :func:`framework.front.expected_columns`); and
        the design of the solution, beginning with settings such as ``threshold``.
        """
        import pandas as pd

        check_is_fitted(self)
        front = self._with_expected()
        metrics = front.roles.metrics
        columns: dict[str, Any] = {
            name: values.astype(np.int64) if metrics[name].size else values
            for name, values in front.rows.values.items()
        }
        columns |= {**(front.expected or {}), **self.problem_.settings(front.X)}
        columns |= self._design_columns(front)
        order = np.lexsort(front.losses.T[::-1])
        return pd.DataFrame(columns, index=pd.Index(front.ids, name="id")).iloc[order]

    def _usual_prior(self) -> float | None:
        """Return the default share of positive records; None if the user must give it."""
        return None

    def _source(self) -> Source:
        check_is_fitted(self)
        return _Fitted(self)

    def _made(self, source: Source, pick: Pick) -> Any:
        if not self._has_models:
            raise InputError(
                "choose: expected models, found predictions alone; `front_` and `expected(...)` "
                f"tell of solution {pick.id}, `fit` with the models makes it"
            )
        return super()._made(source, pick)

    def _with_expected(self) -> Front:
        if self._front.expected is None:
            try:
                evidence = self._source().evidence()
            except InputError as error:
                warnings.warn(f"front_: what to expect is not known: {error}", stacklevel=3)
                return self._front
            if evidence is not None:
                self._front = with_expected(self._front, evidence)[0]
        return self._front

    def _recommended(self, method: str = "card") -> Any:
        """Return the recommended model; raise InputError if it does not have a method."""
        check_is_fitted(self)
        model = getattr(self, "model_", None)
        if not hasattr(model, method):
            raise InputError(
                f"{'save' if method == 'card' else method}: expected models, found predictions "
                "alone; use fit with the models"
            )
        return model

    def _records(self, X: Any) -> Any:
        """Return records in the form that the recommended model takes."""
        return as_frame(X)

    def predict(self, X: Any) -> Array:
        """Return the answer (n,) of the recommended solution, ``model_``, to each record."""
        return np.asarray(self._recommended("predict").predict(self._records(X)))

    @available_if(lambda self: self._classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n, classes) of the recommended solution, ``model_``."""
        return np.asarray(self._recommended("predict_proba").predict_proba(self._records(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the recommended solution, ``model_``: see its method ``score``."""
        return float(self._recommended("score").score(self._records(X), y, sample_weight))

    def save(self, directory: str | os.PathLike[str], example: Any = None) -> None:
        """Write the recommended solution in open formats, to be loaded or served.

        :func:`framework.models.store.load_model` and the command read it. A solution that
        ``choose`` returned is saved by :func:`framework.models.store.save_model`.

        Parameters
        ----------
        directory : path-like
            Created if necessary; a model that is already there is replaced.
        example : DataFrame, optional
            Some records to try the model on.

        Raises
        ------
        InputError
            A part has no open format, or the directory holds something other than a model.
        """
        import pandas as pd

        from framework.models.store import save_model

        model, about = self._recommended(), {"seed": self.random_state}
        if self.chosen_ in self._front.ids:
            position = int(np.searchsorted(self._front.ids, self.chosen_))
            solution, promises = noted_of(self._with_expected(), position)
            model.take_promises(promises)
            about |= solution
        shown = None if example is None else pd.DataFrame(as_frame(example))
        save_model(model, directory, about, None, shown)

    def to_onnx(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the recommended solution as ONNX files, where it has such a form.

        Returns
        -------
        list of Path

        Raises
        ------
        InputError
            The solution has no ONNX form, or skl2onnx is not installed.
        """
        model = self._recommended()
        if not hasattr(model, "save_onnx"):
            raise InputError(
                f"to_onnx: expected a solution with an ONNX form, found {model.card().title!r}, "
                "which has none; save(directory) writes it in open formats"
            )
        files: list[Path] = model.save_onnx(folder)
        return files

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the front and the chosen solution or, unfitted, a diagram."""
        if not self.__sklearn_is_fitted__():
            return str(estimator_html_repr(self))
        text = f"{type(self).__name__}: solution {self.chosen_}"
        if self._has_models:
            text += f", {self._recommended().card().title}"
        return f"{self.front_.to_html(max_rows=_SHOWN, max_cols=_SHOWN)}<p>{escape(text)}</p>"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_front")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self._classifies:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags


class _Fitted(Source):
    """The front of an estimator after ``fit``."""

    def __init__(self, estimator: FrontEstimator[Any]) -> None:
        super().__init__()
        self._of = estimator
        self.front, self.seed = estimator._front, estimator.random_state
        self.usual_prior = estimator._usual_prior

    def base(self) -> Problem:
        problem: Problem = self._of.problem_
        return problem

    def _changed(
        self, prices: Mapping[str, Any] | None, errors: Mapping[str, float] | None
    ) -> Problem:
        return self._of._scored_by(prices, errors)

    def _roles(self, problem: Problem) -> Roles:
        return roles_for(problem, self.front.roles.names, self._of._bounds(problem))

    def _evidence(self, problem: Problem, **more: Any) -> Evidence | None:
        of, beside = self._of, None
        if of.algorithm_ is not None:
            algorithm, _ = of._asked(of.problem_)
            beside = beside_of(algorithm, self.front, of.problem_, self.seed)
        return evidence(of._evaluated, problem, self.seed, beside, **more)


def group_codes(groups: Any, y: Any) -> IntArray | None:
    """Return the code of each record's group, int64 (n,); None if ``groups`` is None."""
    if groups is None:
        return None
    import pandas as pd

    labels: Array = native(column_or_1d(np.asarray(groups)))
    check_consistent_length(y, labels)
    codes, first = pd.factorize(labels)
    if len(first) < 2:
        raise InputError(
            f"groups: expected two groups or more, found {len(first)}; leave groups out where each "
            "record stands for itself"
        )
    return codes.astype(np.int64)
