"""The ROC convex hull of any classifiers: every threshold, and what to do at given costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.utils import column_or_1d, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from algorithms.hull.roc import (
    ALWAYS,
    Curves,
    Shares,
    Table,
    Wish,
    best_mixture,
    mean_rates,
    shares_of,
)
from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES, ExpectedCost
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.data.columns import to_texts
from framework.errors import InputError
from framework.experiment.front_estimator import in_html
from framework.front import Promise
from framework.libraries.checks import plain_labels
from framework.libraries.importing import cross_fitted, measured_costs
from framework.libraries.members import KeepsModels, as_taken, named_models
from framework.models.constant import ConstantClassifier
from framework.models.mixture import MixtureClassifier
from framework.models.model import DeployableModel
from framework.models.threshold import GroupwiseClassifier, ThresholdClassifier, scores_of
from framework.outcomes import resample_weights
from framework.streams import resample_stream

RESAMPLES = 200
_EVERYONE = ""  # the one subgroup where there are no others
_TRIVIAL = ("always negative", "always positive")
_RATES = {FALSE_POSITIVES: "false_positives", FALSE_NEGATIVES: "missed"}
_MOST = 1 << 31


@dataclass(frozen=True)
class OperatingPoint:
    """Which model answers, from which score on it says "positive", and what to expect of that.

    Attributes
    ----------
    members : mapping of str to tuple of (str, float, float)
        For each subgroup ("" where there are none) the models with their thresholds and the
        chances that a record is answered by them.
    of : mapping of str to Promise
        ``false_positive_rate``, ``false_negative_rate``, ``cost`` where models have one,
        ``expected_cost`` where errors do, and of subgroups the ``_difference`` of the rates: as
        claimed, as to expect on new records, and a 95% range.
    """

    members: Mapping[str, tuple[tuple[str, float, float], ...]]
    of: Mapping[str, Promise]

    def __str__(self) -> str:
        parts = []
        for group, members in self.members.items():
            said = " or ".join(
                (f"{chance:.3g} x " if len(members) > 1 else "")
                + (name if np.isinf(threshold) else f"{name} from {threshold:.4g}")
                for name, threshold, chance in members
            )
            parts.append(f"{group}: {said}" if group else said)
        rates = [
            f"{name} {found.claimed:.4g} (expected {found.expected:.4g}, {found.low:.4g} to "
            f"{found.high:.4g})"
            for name, found in self.of.items()
        ]
        return f"{'; '.join(parts)}: {', '.join(rates)}"


class ROCHull(KeepsModels, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The best of any classifiers and of all their thresholds, for each price of errors.

    Every threshold of every model is a candidate, and so are the two trivial classifiers. What is
    best at some price is a corner of their convex hull, which is exact; between two corners lots
    are drawn. Fitted classifiers are asked about records that are new to them. Classifiers that are
    not fitted are measured out-of-fold and fitted on all records.

    Parameters
    ----------
    models : mapping of str to classifier, or sequence of classifiers or (str, classifier)
        All fitted or none, of the same two classes; with ``predict_proba``, or fitted with
        ``decision_function``.
    costs : mapping of str to float, sequence of float, or 'measured', optional
        What an answer of each costs: a third objective. ``'measured'``: milliseconds for a batch
        of 1,000 records, each model in a process of its own. The trivial classifiers cost 0.
    group : str, optional
        The column of ``X`` that says which subgroup a record belongs to, for
        :meth:`equal_rates`. Models that do not name it never see it.
    positive : optional
        Label of the positive class; the second in sorted order if None.
    folds : int
        Of the cross-validation of classifiers that are not fitted.
    random_state : int
        Seed of folds, resamples, and of the lots of models that are deployed.

    Attributes
    ----------
    front_ : pandas.DataFrame
        One row per corner: ``model``, ``threshold``, the two rates, ``cost`` where there is one.
    point_ : OperatingPoint
        What ``predict`` does: the least share of errors on the records of ``fit``.
    model_ : deployable classifier
    classes_ : (2,)

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(600, flip_y=0.2, random_state=0)
    >>> hull = ROCHull([LogisticRegression(), DecisionTreeClassifier(max_depth=3)]).fit(X, y)
    >>> point = hull.choose(costs={"fp": 1, "fn": 5}, prior=0.1)
    >>> bool(hull.mix(fpr=0.02).of["false_positive_rate"].claimed <= 0.02)
    True
    >>> hull.deploy(point).predict(X).shape
    (600,)
    """

    def __init__(
        self,
        models: Mapping[str, Any] | Sequence[Any],
        *,
        costs: Mapping[str, float] | Sequence[float] | Literal["measured"] | None = None,
        group: str | None = None,
        positive: Any = None,
        folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.models = models
        self.costs = costs
        self.group = group
        self.positive = positive
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ROCHull:
        """Score the records with every model, and find the hull.

        Parameters
        ----------
        X : DataFrame or array (n, d)
            Where models are fitted, records that are new to them.
        y : (n,)

        Raises
        ------
        InputError
            Models that are no classifiers, or fitted and not fitted ones; not two classes; a
            subgroup without records of both.
        """
        models = named_models(self.models)
        for name, model in models.items():
            if not is_classifier(model):
                raise InputError(
                    f"model {name!r}: expected a classifier, found {type(model).__name__}"
                )
        y = self._labels(y)
        groups, seen = self._groups(X), X
        if self.group is not None and not any(self.group in _names(m) for m in models.values()):
            seen = X.drop(columns=self.group)
        self.models_, out_of_fold = cross_fitted(
            models, seen, y, folds=self.folds, seed=self.random_state
        )
        if not self.models_:
            raise InputError("models: expected a classifier or more, found none")
        if out_of_fold is None:
            scores = np.stack([self._scored(name, seen) for name in self.models_])
        else:  # the probability of the second class
            scores = out_of_fold.predictions.astype(np.float64)
            if scores.ndim == 2 and self.classes_.tolist().index(self.positive_) == 0:
                scores = 1.0 - scores
        self.n_features_in_ = X.shape[1] if hasattr(X, "shape") else np.asarray(X).shape[1]
        if isinstance(X, pd.DataFrame):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        self._seen = seen.columns.tolist() if isinstance(seen, pd.DataFrame) else None
        self._take(list(self.models_), scores, y, groups, seen)
        self.model_ = self.deploy(self.point_)
        return self

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: Any,
        *,
        costs: Mapping[str, float] | Sequence[float] | None = None,
        groups: Any = None,
        positive: Any = None,
        random_state: int = 0,
    ) -> ROCHull:
        """Return the hull of tables of scores, where the models are not at hand.

        Parameters
        ----------
        scores : mapping of str to array (n,), DataFrame (n, models), or array (n,) or (n, models)
            The higher, the more positive.
        y : (n,)
        groups : (n,), optional
            The subgroup of each record.

        Raises
        ------
        InputError
            As of :meth:`fit`, or scores that are no finite numbers, one a record.
        """
        names, table = _score_table(scores)
        made = cls(names, costs=costs, positive=positive, random_state=random_state)
        made._take(names, table, made._labels(y), _texts(groups))
        return made

    def choose(
        self,
        costs: Mapping[str, float] | None = None,
        prior: float | None = None,
        per_unit: float = 0.0,
    ) -> OperatingPoint:
        """Return the model and the threshold of least expected cost.

        ``prior fn FNR + (1 - prior) fp FPR + per_unit cost``, each in the unit of ``costs``.

        Parameters
        ----------
        costs : mapping with ``fp`` and ``fn``, optional
            What a false positive and a false negative cost; 1 each if None.
        prior : float, optional
            Share of positive records where it will run; that of ``fit`` if None.
        per_unit : float
            What a unit of the models' own cost is worth.

        Raises
        ------
        InputError
            Costs below 0 or of other names, or a prior that is no share.
        """
        check_is_fitted(self)
        return self._point(self._wish(costs, prior, per_unit), priced=True)

    def mix(
        self, fpr: float | None = None, fnr: float | None = None, cost: float | None = None
    ) -> OperatingPoint:
        """Return the lots with the lowest other rate, under limits of expected ones.

        Parameters
        ----------
        fpr : float, optional
            At most so many of the negative records are called positive: the fewest misses then.
        fnr : float, optional
            At most so many of the positive records are missed: the fewest false positives then.
        cost : float, optional
            What an answer may cost at most, on average.

        Raises
        ------
        InputError
            Both rates or neither, or limits that are out of range.
        """
        check_is_fitted(self)
        if (fpr is None) == (fnr is None):
            raise InputError("mix: expected fpr or fnr, one of them, found both or none")
        name, limit = ("false_positives", fpr) if fnr is None else ("missed", fnr)
        if not isinstance(limit, int | float) or not 0 <= limit <= 1:
            raise InputError(f"mix: expected a rate from 0 to 1, found {limit!r}")
        limits = [(name, float(limit))]
        if cost is not None:
            if not self._priced or not cost >= 0:
                raise InputError(
                    f"mix: cost: expected a number from 0 and models with costs, found {cost!r}"
                )
            limits.append(("costs", float(cost)))
        wish = Wish(float(fnr is not None), float(fnr is None), limits=tuple(limits))
        return self._point(wish)

    def equal_rates(
        self,
        costs: Mapping[str, float] | None = None,
        prior: float | None = None,
        per_unit: float = 0.0,
        rates: Sequence[str] = (FALSE_POSITIVES, FALSE_NEGATIVES),
    ) -> OperatingPoint:
        """Return the mixtures of least expected cost with which all subgroups have equal rates.

        Equal are the expected rates on the records of ``fit`` (equalised odds: Hardt, Price and
        Srebro 2016); on new records each has its own range.

        Parameters
        ----------
        costs, prior, per_unit
            As of :meth:`choose`.
        rates : sequence of str
            ``false_positive_rate``, ``false_negative_rate``, or both.

        Raises
        ------
        InputError
            There are no subgroups, or as of :meth:`choose`.
        """
        check_is_fitted(self)
        if len(self._by_group) < 2:
            raise InputError(
                "equal_rates: expected two subgroups or more, found none; say group=COLUMN"
            )
        if not rates or set(rates) - set(_RATES):
            raise InputError(f"rates: expected some of {', '.join(_RATES)}, found {list(rates)}")
        wish = self._wish(costs, prior, per_unit)
        equal = tuple(_RATES[name] for name in rates)
        asked = Wish(wish.false_positive, wish.miss, wish.cost, equal=equal)
        return self._point(asked, priced=True, groups=self._by_group)

    def deploy(self, point: OperatingPoint) -> Any:
        """Return an operating point as one deployable classifier, to be saved and served.

        Lots are drawn by a keyed hash of the record, and only the model drawn is asked
        (:class:`~framework.models.mixture.MixtureClassifier`).

        Raises
        ------
        InputError
            The models are not at hand.
        """
        check_is_fitted(self)
        if not hasattr(self, "models_"):
            raise InputError("deploy: expected models, found scores alone; use fit with the models")
        made = {name: self._deployed(members, point) for name, members in point.members.items()}
        if list(made) == [_EVERYONE]:
            return made[_EVERYONE]
        assert self.group is not None
        return GroupwiseClassifier.from_fitted(self.group, made)

    def predict(self, X: Any) -> Array:
        """Return the label (n,) of each record, by ``model_``."""
        check_is_fitted(self)
        return np.asarray(self._model().predict(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n, 2) of the model that ``predict`` asks."""
        check_is_fitted(self)
        return np.asarray(self._model().predict_proba(X))

    def _model(self) -> Any:
        if not hasattr(self, "models_"):
            raise InputError(
                "predict: expected models, found scores alone; use fit with the models"
            )
        return self.model_

    def _repr_html_(self) -> str:
        if not hasattr(self, "point_"):
            return str(estimator_html_repr(self))
        return in_html(self.front_, str(self.point_))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "front_")

    def _labels(self, y: Any) -> Array:
        """Keep the classes of labels; return the labels."""
        labels = np.asarray(column_or_1d(y))
        classes = np.unique(labels)
        if len(classes) != 2:
            raise InputError(f"y: expected two classes, found {len(classes)}")
        plain = plain_labels(classes)
        self.classes_, self.positive_ = classes, plain[1]
        if self.positive is not None:
            if self.positive not in plain:
                raise InputError(f"positive: expected one of {plain}, found {self.positive!r}")
            self.positive_ = self.positive
        return labels

    def _groups(self, X: Any) -> Array | None:
        if self.group is None:
            return None
        if not isinstance(X, pd.DataFrame) or self.group not in X.columns:
            raise InputError(f"group: expected a column {self.group!r} of a frame, found none")
        return _texts(X[self.group])

    def _scored(self, name: str, X: Any) -> FloatArray:
        model = self.models_[name]
        try:
            return scores_of(model, as_taken(model, X), self.positive_)
        except Exception as error:  # a model of a user's may fail in any way
            raise InputError(f"model {name!r}: cannot score the records: {error}") from error

    def _take(
        self,
        names: Sequence[str],
        scores: FloatArray,
        y: Array,
        groups: Array | None,
        X: Any = None,
    ) -> None:
        """Find the hull of scores (models, n)."""
        positive = np.asarray(y == self.positive_)
        if scores.shape != (len(names), len(y)) or not np.isfinite(scores).all():
            raise InputError(
                f"scores: expected finite numbers, one for each of {len(names)} models and "
                f"{len(y)} records, found others"
            )
        if len(y) >= _MOST:
            raise InputError(f"y: expected fewer than 2^31 records, found {len(y)}")
        costs = self._costs(names, X)
        self._names, self._priced = list(names), bool(costs.any())
        self._rows = {_EVERYONE: np.arange(len(y))}
        self._curves = {_EVERYONE: Curves(scores, positive, costs)}
        self._by_group = self._grouped(scores, positive, costs, groups)
        corners = self._curves[_EVERYONE].corners(priced=self._priced)
        table = self._curves[_EVERYONE].at(corners)
        assert table is not None  # both classes are there
        columns: dict[str, Any] = {
            "model": [self._member(_EVERYONE, number)[0] for number in corners.tolist()],
            "threshold": self._curves[_EVERYONE].thresholds[corners],
            FALSE_POSITIVES: table.false_positives,
            FALSE_NEGATIVES: table.missed,
        }
        if self._priced:
            columns["cost"] = table.costs
        by = [FALSE_POSITIVES, FALSE_NEGATIVES]
        self.front_ = pd.DataFrame(columns).sort_values(by, ignore_index=True, kind="stable")
        self.point_ = self.choose()

    def _grouped(
        self, scores: FloatArray, positive: BoolArray, costs: FloatArray, groups: Array | None
    ) -> list[str]:
        if groups is None:
            return []
        if len(groups) != len(positive):
            raise InputError(f"groups: expected {len(positive)} of them, found {len(groups)}")
        names = [str(name) for name in np.unique(groups).tolist()]
        for name in names:
            rows = np.flatnonzero(groups == name)
            found = int(positive[rows].sum())
            if name == _EVERYONE or not 0 < found < len(rows):
                raise InputError(
                    f"group: expected subgroups with positive and negative records, found "
                    f"{name or 'nothing'!r} with {found} positive of {len(rows)}"
                )
            self._rows[name] = rows
            self._curves[name] = Curves(scores[:, rows], positive[rows], costs)
        return names

    def _costs(self, names: Sequence[str], X: Any) -> FloatArray:
        if self.costs is None:
            return np.zeros(len(names))
        found: Any = self.costs
        if isinstance(found, str):
            if found != "measured" or X is None:
                raise InputError(f"costs: expected numbers or 'measured', found {found!r}")
            found = measured_costs(self.models_, X)["inference_time"].values
        elif isinstance(found, Mapping):
            if set(found) != set(names):
                raise InputError(
                    f"costs: expected one of each model ({', '.join(names)}), found those of "
                    f"{', '.join(map(str, found)) or 'none'}"
                )
            found = [found[name] for name in names]
        costs = np.asarray(found, dtype=np.float64)
        if costs.shape != (len(names),) or not (np.isfinite(costs).all() and (costs >= 0).all()):
            raise InputError(
                f"costs: expected {len(names)} numbers from 0, one a model, found {costs.tolist()}"
            )
        return costs

    def _wish(
        self, costs: Mapping[str, float] | None, prior: float | None, per_unit: float
    ) -> Wish:
        costs = {"fp": 1.0, "fn": 1.0} if costs is None else costs
        if set(costs) != {"fp", "fn"}:
            raise InputError(f"costs: expected fp and fn, found {', '.join(map(str, costs))}")
        if prior is None:
            prior = float(self._curves[_EVERYONE].positive.mean())
        if not 0 < prior < 1:
            raise InputError(
                f"prior: expected a share above 0 and below 1, found {prior:g}; where one class "
                "never occurs, always say the other"
            )
        rule = ExpectedCost(costs["fp"], costs["fn"], prior, {"cost": per_unit} if per_unit else {})
        return Wish((1 - rule.prior) * rule.fp, rule.prior * rule.fn, per_unit)

    def _point(
        self, wish: Wish, *, priced: bool = False, groups: Iterable[str] = (_EVERYONE,)
    ) -> OperatingPoint:
        """Return the best mixture, and what to expect of it by resamples of the records."""
        names = list(groups)
        curves = [self._curves[name] for name in names]
        rows = [self._rows[name] for name in names]
        found = _solved(wish, curves, [np.ones(len(of), dtype=np.int64) for of in rows])
        if found is None:
            raise InputError(
                "mix: expected limits that a mixture of the models meets, found others"
            )
        picked, claimed = found
        drawn = resample_weights(
            np.arange(len(self._rows[_EVERYONE])), RESAMPLES, resample_stream(self.random_state)
        )
        gained: dict[str, list[float]] = {name: [] for name in claimed}
        fresh: dict[str, list[float]] = {name: [] for name in claimed}
        for b in range(RESAMPLES):
            weights = [drawn[of, b].astype(np.int64) for of in rows]
            again = _solved(wish, curves, weights)
            if again is None:
                continue
            whole = _rates(again[0], curves, [np.ones_like(w) for w in weights])
            left_out = _rates(again[0], curves, [(w == 0).astype(np.int64) for w in weights])
            for name in claimed:
                gained[name].append(again[1][name] - cast(dict[str, float], whole)[name])
                if left_out is not None:
                    fresh[name].append(left_out[name])
        priced_as = partial(_cost_of, wish)
        promises = {}
        shown = dict(_RATES)
        if len(names) > 1:
            shown |= {f"{name}_difference": f"{key}_difference" for name, key in _RATES.items()}
        if self._priced:
            shown["cost"] = "costs"
        columns = {name: (claimed[key], gained[key], fresh[key]) for name, key in shown.items()}
        if priced:
            columns["expected_cost"] = (
                priced_as(claimed),
                [priced_as(dict(zip(gained, row, strict=True))) for row in _rows(gained)],
                [priced_as(dict(zip(fresh, row, strict=True))) for row in _rows(fresh)],
            )
        for name, (value, optimism, new) in columns.items():
            low, high = np.percentile(new, [2.5, 97.5]) if new else (np.nan, np.nan)
            expected = value - float(np.mean(optimism)) if optimism else np.nan
            promises[name] = Promise(value, expected, float(low), float(high))
        members = {
            name: tuple(
                (*self._member(name, number), chance)
                for number, chance in zip(numbers.tolist(), chances.tolist(), strict=True)
            )
            for name, (numbers, chances) in zip(names, picked, strict=True)
        }
        return OperatingPoint(members, promises)

    def _member(self, group: str, number: int) -> tuple[str, float]:
        curves = self._curves[group]
        threshold = float(curves.thresholds[number])
        if number <= ALWAYS:
            return _TRIVIAL[number], threshold
        return self._names[int(curves.owners[number])], threshold

    def _deployed(
        self, members: Sequence[tuple[str, float, float]], point: OperatingPoint
    ) -> DeployableModel:
        made: list[DeployableModel] = []
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
        return MixtureClassifier.from_fitted(
            made,
            [chance for _, _, chance in members],
            seed=self.random_state,
            expected={name: found.claimed for name, found in point.of.items()},
        )


Picked = list[tuple[IntArray, FloatArray]]


def _solved(
    wish: Wish, curves: Sequence[Curves], weights: Sequence[IntArray]
) -> tuple[Picked, dict[str, float]] | None:
    """Return thresholds with their chances for each subgroup, and the rates under the weights."""
    shares = shares_of(curves, weights)
    if shares is None:
        return None
    tables = [cast(Table, of.table(w)) for of, w in zip(curves, weights, strict=True)]
    chances = best_mixture(wish, tables, shares)
    if chances is None:
        return None
    picked = [
        (table.numbers[part > 0], part[part > 0])
        for table, part in zip(tables, chances, strict=True)
    ]
    return picked, mean_rates(tables, chances, shares)


def _rates(
    picked: Picked, curves: Sequence[Curves], weights: Sequence[IntArray]
) -> dict[str, float] | None:
    """Return the rates of a mixture under other weights; None where a class has none."""
    shares: Shares | None = shares_of(curves, weights)
    if shares is None:
        return None
    tables = [
        cast(Table, of.at(numbers, w))
        for of, (numbers, _), w in zip(curves, picked, weights, strict=True)
    ]
    return mean_rates(tables, [chances for _, chances in picked], shares)


def _cost_of(wish: Wish, rates: Mapping[str, float]) -> float:
    return (
        wish.false_positive * rates["false_positives"]
        + wish.miss * rates["missed"]
        + wish.cost * rates["costs"]
    )


def _rows(columns: Mapping[str, list[float]]) -> list[tuple[float, ...]]:
    return list(zip(*columns.values(), strict=True))


def _names(model: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return [] if names is None else list(names)


def _texts(groups: Any) -> Array | None:
    return None if groups is None else to_texts(pd.Series(groups))[0]


def _score_table(scores: Any) -> tuple[list[str], FloatArray]:
    """Return the names of models and their scores, float64 (models, n)."""
    if isinstance(scores, pd.DataFrame):
        scores = {str(name): scores[name] for name in scores.columns}
    elif not isinstance(scores, Mapping):
        table = np.asarray(scores)
        columns = table[:, np.newaxis] if table.ndim == 1 else table
        if columns.ndim != 2:
            raise InputError(f"scores: expected shape (n,) or (n, models), found {table.shape}")
        scores = {f"model_{i}": column for i, column in enumerate(columns.T)}
    try:
        return [str(name) for name in scores], np.stack(
            [np.asarray(column, dtype=np.float64) for column in scores.values()]
        )
    except ValueError as error:
        raise InputError(
            f"scores: expected numbers, one a record and model, found: {error}"
        ) from error
