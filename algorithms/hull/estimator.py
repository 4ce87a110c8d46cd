"""The ROC convex hull of any classifiers: every threshold, and what to do at given costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.utils import column_or_1d

from algorithms.hull.operating_points import COST, RATES, Mixtures, OperatingPoint, ThresholdProblem
from algorithms.hull.roc import Wish
from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError, RecordsError
from framework.estimators.front import group_codes
from framework.estimators.pool import PoolEstimator, costs_by_name
from framework.estimators.search import Searched
from framework.experiment.choice import costs_asked_for
from framework.front import Front, Promise
from framework.libraries.checks import checked_cost, plain_labels
from framework.libraries.importing import copy_bytes, cross_fitted, measured_costs
from framework.libraries.members import as_taken
from framework.models.checks import copies_for
from framework.models.constant import ConstantClassifier
from framework.models.mixture import MixtureClassifier
from framework.models.threshold import ThresholdClassifier, scores_of
from framework.roles import Roles

_MOST = 1 << 31
_ERRORS = {"fp": 1.0, "fn": 1.0}


@dataclass(eq=False, repr=False, kw_only=True)
class ROCHull(PoolEstimator[Any]):
    """The best of several classifiers and of all their thresholds, for all costs of errors.

    Every threshold of every model is a candidate, and so are the two trivial classifiers. The best
    candidate at some price is a corner of their convex hull, which is exact. Between two corners, a
    record is answered by one of them at random.

    Parameters
    ----------
    models
        Classifiers of the same two classes; with ``predict_proba``, or fitted with
        ``decision_function``. Their predictions alone may be any scores: a higher one is more
        positive.
    costs
        What an answer of each model costs: a third objective. ``'measured'``: milliseconds for a
        batch of 1,000 records. The trivial classifiers cost 0.
    objectives
        By default both rates, and the cost if models have one.
    where, best
        By default the least share of errors on the records of ``fit``.
    algorithm, budget, workers
        Not used: there is no search.

    The others are those of :class:`~framework.estimators.pool.PoolEstimator` and
    :class:`~framework.estimators.front.FrontEstimator`.

    Attributes
    ----------
    front_ : pandas.DataFrame
        One row per corner; the last columns are ``model`` and ``threshold``.
    point_ : OperatingPoint
        The point with the least share of errors on the records of ``fit``.
    model_ : deployable classifier
    classes_ : (2,)

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(600, flip_y=0.2, random_state=0)
    >>> hull = ROCHull([LogisticRegression(), DecisionTreeClassifier(max_depth=3)]).fit(X, y)
    >>> model = hull.choose(costs={"fp": 1, "fn": 5}, prior=0.1)
    >>> bool(hull.mix(fpr=0.02).of["false_positive_rate"].claimed <= 0.02)
    True
    >>> hull.deploy(hull.mix(fpr=0.02)).predict(X).shape
    (600,)
    """

    def operating_point(
        self,
        costs: Mapping[str, float] | None = None,
        prior: float | None = None,
        per_unit: Mapping[str, float] | None = None,
    ) -> OperatingPoint:
        """Return the model and the threshold with the least expected cost, and their promises.

        The expected cost is ``prior fn FNR + (1 - prior) fp FPR + per_unit cost``, in the unit of
        ``costs``. Promises come from resamples in which every threshold of every model competes.

        Parameters
        ----------
        costs : mapping with ``fp`` and ``fn``, optional
            Costs of a false positive and of a false negative; 1 each if None.
        prior : float, optional
            Share of positive records in production; that of the records of ``fit`` if None.
        per_unit : mapping, optional
            ``{"cost": x}``: the value of a unit of the models' cost.

        Raises
        ------
        InputError
            A cost is below 0 or has another name, or the prior is not a share.
        """
        return self._fitted().best(self._wish(costs, prior, per_unit), priced=True)

    @cached_property
    def point_(self) -> OperatingPoint:
        """The point with the least share of errors on the records of ``fit``."""
        return self.operating_point()

    def expected(
        self, where: str | Sequence[str] = (), best: str | None = None, **rule: Any
    ) -> dict[str, Promise]:
        """Return the promises of the solution that a rule picks, as the base class does.

        A rule of ``costs`` picks :meth:`operating_point`.
        """
        if "costs" in rule and rule.keys() <= {"costs", "prior", "per_unit"} and not where:
            return dict(self.operating_point(**rule).of)
        return super().expected(where, best, **rule)

    def mix(
        self, fpr: float | None = None, fnr: float | None = None, cost: float | None = None
    ) -> OperatingPoint:
        """Return the best mixture under a limit of one rate, and perhaps of the cost.

        Parameters
        ----------
        fpr : float, optional
            Upper limit of the false positive rate; the false negative rate is minimised.
        fnr : float, optional
            Upper limit of the false negative rate; the false positive rate is minimised.
        cost : float, optional
            Upper limit of the mean cost of an answer.

        Raises
        ------
        InputError
            Both rates are limited or neither, or a limit is out of range.
        """
        mixtures = self._fitted()
        if (fpr is None) == (fnr is None):
            raise InputError("mix: expected fpr or fnr, one of them, found both or none")
        name, limit = ("false_positives", fpr) if fnr is None else ("missed", fnr)
        if not isinstance(limit, Real) or not 0 <= limit <= 1:
            raise InputError(f"mix: expected a rate from 0 to 1, found {limit!r}")
        limits = [(name, float(limit))]
        if cost is not None:
            if not mixtures.priced or not cost >= 0:
                raise InputError(
                    f"mix: cost: expected a number from 0 and models with costs, found {cost!r}"
                )
            limits.append(("costs", float(cost)))
        return mixtures.best(Wish(float(fnr is not None), float(fnr is None), limits=tuple(limits)))

    def deploy(self, point: OperatingPoint) -> Any:
        """Return an operating point as one deployable classifier, to be saved and served.

        Of several models, a keyed hash of the record draws the one that answers
        (:class:`~framework.models.mixture.MixtureClassifier`).

        Raises
        ------
        InputError
            There are only scores, no models.
        """
        self._fitted()
        if not self._has_models:
            raise InputError("deploy: expected models, found scores alone; use fit with the models")
        return self._deployed(
            point.members, {name: promise.claimed for name, promise in point.of.items()}
        )

    def _fitted(self) -> Mixtures:
        if not self.__sklearn_is_fitted__():
            self._picked()  # raises that there was no fit
        return self._mixtures

    def _problem_of_table(
        self, names: Sequence[str], table: Array, y: Any, classes: Any, weights: Any, groups: Any
    ) -> ThresholdProblem:
        y = self._labels(y, classes)
        if table.shape[2:] == (2,):
            classes, table = self.classes_, table[:, :, 1]
        if classes is not None and self.positive_ == self.classes_[0]:
            table = 1.0 - table  # it has the probability of the second class
        copies = copies_for(weights, y, 16 * len(names))
        return self._scored(names, table, y, copies, group_codes(groups, y))

    def _problem_of(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> ThresholdProblem:
        X, y = self._taken(X, y, sample_weight)
        models = self._pool(X, y)
        for name, model in models.items():
            if not is_classifier(model):
                raise InputError(
                    f"model {name!r}: expected a classifier, found {type(model).__name__}"
                )
        y = self._labels(y)
        copies, units = copies_for(sample_weight, y, copy_bytes(models)), group_codes(groups, y)
        self.models_, out_of_fold = cross_fitted(
            models, X, y, folds=self.folds, seed=self.random_state, copies=copies, groups=units
        )
        if not self.models_:
            raise InputError("models: expected a classifier or more, found none")
        if out_of_fold is None:
            scores = np.stack([self._scores_of(name, X) for name in self.models_])
        else:  # the probability of the second class
            scores = out_of_fold.predictions.astype(np.float64)
            if self.positive_ == self.classes_[0]:
                scores = 1.0 - scores
        self._take_features(X)
        self._seen = X.columns.tolist() if isinstance(X, pd.DataFrame) else None
        folds = 0 if out_of_fold is None else out_of_fold.folds
        return self._scored(list(self.models_), scores, y, copies, units, X, folds)

    def _scored(
        self,
        names: Sequence[str],
        scores: FloatArray,
        y: Array,
        copies: IntArray | None,
        units: IntArray | None,
        X: Any = None,
        folds: int = 0,
    ) -> ThresholdProblem:
        """Return the problem of scores (models, n)."""
        if scores.shape != (len(names), len(y)) or not np.isfinite(scores).all():
            raise InputError(
                f"scores: expected finite numbers, one for each of {len(names)} models and "
                f"{len(y)} records, found others"
            )
        positive = np.asarray(y == self.positive_)
        if copies is not None:
            units = np.repeat(np.arange(len(y)) if units is None else units, copies)
            scores, positive = np.repeat(scores, copies, axis=1), np.repeat(positive, copies)
        if len(positive) >= _MOST:
            raise InputError(f"y: expected fewer than 2^31 records, found {len(positive)}")
        if not 0 < positive.sum() < len(positive):
            raise InputError("sample_weight: expected records of both classes that count")
        by_name = costs_by_name(self._given_costs(X)) or {COST: np.zeros(len(names))}
        if list(by_name) != [COST]:
            raise InputError(f"costs: expected one number a model, found {', '.join(by_name)}")
        costs = checked_cost(by_name[COST], tuple(names), COST, "costs")
        other = next(label for label in plain_labels(self.classes_) if label != self.positive_)
        about = (other, self.positive_), units, folds, self._rated["rates"]
        made = ThresholdProblem(names, scores, positive, costs, *about)
        self._mixtures = Mixtures(made, self.random_state)
        self.__dict__.pop("point_", None)
        return made

    def _measured(self, X: Any) -> Any:
        return {COST: measured_costs(self.models_, X)["inference_time"].values}

    def _with_prices(self, prices: Mapping[str, Any]) -> ThresholdProblem:
        old: ThresholdProblem = self.problem_
        before = dict(zip(old.names, old.curves.of_models.tolist(), strict=True))
        values = before | {str(name): value for name, value in prices.items()}
        costs = checked_cost(values, tuple(old.names), COST, "prices")
        about = old.classes, old.units, old.folds, old.rates
        return ThresholdProblem(old.names, old.scores, old.curves.positive, costs, *about)

    def _usual_objectives(self, problem: ThresholdProblem) -> Sequence[str]:
        return [*RATES, COST] if problem.priced else [*RATES]

    def _searched(self, problem: Any, roles: Roles) -> Searched:
        if self.algorithm is not None:
            raise InputError(
                f"algorithm: expected none, as the hull is exact, found {self.algorithm!r}"
            )
        X = np.arange(len(problem.numbers))[:, np.newaxis].astype(problem.space.dtype)
        every = Evaluated(X[:, 0].astype(np.int64), X, problem.evaluate(X))
        rates = {FALSE_POSITIVES, FALSE_NEGATIVES}
        if not rates <= set(roles.names) <= rates | {COST}:
            return Searched(None, Front.of([every], roles, problem.gene_names), [every])
        corners = every.take(problem.corners(priced=COST in roles.names)[:, 0])
        feasible = corners.take(roles.violation(corners.values) == 0.0)
        return Searched(None, Front(feasible, roles, problem.gene_names), [every])

    def _recommendation(self) -> Mapping[str, Any]:
        rule = super()._recommendation()
        return rule if self.where or self.best is not None else {**rule, "costs": _ERRORS}

    def _usual_prior(self) -> float | None:
        return float(self._mixtures.curves.positive.mean())

    def _design_columns(self, front: Front) -> Mapping[str, Any]:
        numbers = self.problem_.numbers[front.X[:, 0]].tolist()
        models, thresholds = zip(*map(self.problem_.member, numbers), strict=True)
        return {"model": list(models), "threshold": list(thresholds)}

    def _model_of(self, genome: Array, problem: Any) -> Any:
        number = int(problem.numbers[genome[0]])
        values = problem.evaluate(genome[np.newaxis])
        claimed = {name: float(column[0]) for name, column in values.items()}
        return self._deployed([(*problem.member(number), 1.0)], claimed)

    @property
    def _classifies(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _labels(self, y: Any, order: Any = None) -> Array:
        """Set the classes of labels, in the ``order`` given if not None; return the labels."""
        labels = np.asarray(column_or_1d(y))
        classes = np.unique(labels)
        if len(classes) != 2:
            raise RecordsError(
                f"y: expected two classes, found {len(classes)}. Only binary classification is "
                "supported."
            )
        plain = plain_labels(classes if order is None else order)
        if sorted(map(str, plain)) != sorted(map(str, classes)):
            raise InputError(
                f"classes: expected the labels of y, {classes.tolist()}, found {plain}"
            )
        self.classes_ = np.array(plain, dtype=classes.dtype)
        self.positive_ = plain[1] if self.positive is None else self.positive
        if self.positive_ not in plain:
            raise InputError(f"positive: expected one of {plain}, found {self.positive!r}")
        return labels

    def _scores_of(self, name: str, X: Any) -> FloatArray:
        model = self.models_[name]
        try:
            return scores_of(model, as_taken(model, X), self.positive_)
        except Exception as error:  # a user's model may fail in any way
            raise InputError(f"model {name!r}: cannot score the records: {error}") from error

    def _wish(
        self,
        costs: Mapping[str, float] | None,
        prior: float | None,
        per_unit: Mapping[str, float] | None,
    ) -> Wish:
        self._fitted()
        if per_unit and set(per_unit) != {COST}:
            raise InputError(f"per_unit: expected cost, found {', '.join(map(str, per_unit))}")
        error_costs = _ERRORS if costs is None else costs
        _, rule = costs_asked_for(error_costs, prior, per_unit, usual_prior=self._usual_prior)
        if rule is None:
            raise InputError(f"costs: expected fp and fn, found {', '.join(map(str, error_costs))}")
        per_cost = rule.per_unit.get(COST, 0.0)
        return Wish((1 - rule.prior) * rule.fp, rule.prior * rule.fn, per_cost)

    def _deployed(
        self, members: Sequence[tuple[str, float, float]], claimed: Mapping[str, float]
    ) -> Any:
        made: list[Any] = []
        for name, threshold, _ in members:
            if np.isinf(threshold):
                other = [label for label in plain_labels(self.classes_) if label != self.positive_]
                label = self.positive_ if threshold < 0 else other[0]
                made.append(ConstantClassifier.from_label(label, self.classes_))
                continue
            made.append(
                ThresholdClassifier.from_fitted(
                    self.models_[name],
                    threshold,
                    self.positive_,
                    name=name,
                    features=self.n_features_in_ if self._seen is None else self._seen,
                    columns=self._seen,
                )
            )
        if len(made) == 1:
            return made[0]
        chances = [chance for _, _, chance in members]
        return MixtureClassifier.from_fitted(
            made, chances, seed=self.random_state, expected=dict(claimed)
        )
