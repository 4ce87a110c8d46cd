"""Scores of ensembles on a set of records, computed for a whole batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from algorithms.ensembling import means, ranks
from framework import registry
from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.outcomes import weighted_sums
from framework.roles import Metric, Sense

LEAST = 2.0**-52
"""Probabilities are clipped to this and 1 less this, as in scikit-learn, for finite logarithms."""

_Scorer = Callable[[FloatArray, "Truth"], FloatArray]
_SLACK = 1 + 1e-9  # factor of bounds, so that rounding cannot break them


class Truth(NamedTuple):
    """The true labels or values that predictions are compared with.

    Attributes
    ----------
    y : numpy.ndarray, shape (N,)
        Index of each record's class, or its value.
    classes : int
        Number of classes; 0 for regression.
    positive : int
        The class (0 or 1) that scores of one class, such as ``f1``, are about.
    """

    y: Array
    classes: int
    positive: int = 1


class _Weighted(NamedTuple):
    """Records under ``b`` columns of weights.

    Attributes
    ----------
    truth : Truth
    weights : numpy.ndarray, shape (N, b)
    total : numpy.ndarray, shape (b,)
        Sums of weights.
    codes : numpy.ndarray, shape (N,)
        The true classes.
    of_class : numpy.ndarray, shape (C, N)
        Which records are of each class; times the weights if these are one column.
    counts : numpy.ndarray, shape (b, C)
        Weight of each class.
    spread : numpy.ndarray, shape (b,)
        Variance of the true values, NaN where it is 0.
    """

    truth: Truth
    weights: Array
    total: FloatArray
    codes: Array
    of_class: Array
    counts: FloatArray
    spread: FloatArray


def _weighted(truth: Truth, weights: Array) -> _Weighted:
    y, total = truth.y, weights.sum(axis=0, dtype=np.float64)
    if truth.classes:
        codes = y.astype(np.int8 if truth.classes == 2 else np.int16)
        places = y == np.arange(truth.classes)[:, np.newaxis]
        # the narrowest type that holds sums of weights, which are whole numbers, exactly
        exact = np.float32 if total.max() < 2**24 else np.float64
        of_class = places * weights.T.astype(exact) if weights.shape[1] == 1 else places
        counts = weighted_sums(weights.T, places.T)
        return _Weighted(truth, weights, total, codes, of_class, counts, np.full(1, np.nan))
    centred = (y - y.mean())[np.newaxis]
    mean, square = (means.sums_in_order(x, weights)[0] / total for x in (centred, centred**2))
    spread = np.maximum(square - mean * mean, 0.0)
    spread[spread == 0.0] = np.nan
    nothing = np.zeros((len(y), 0))
    return _Weighted(truth, weights, total, nothing, nothing, nothing, spread)


class _Rows:
    """Statistics of the mean predictions of n ensembles, each computed when it is first read.

    ``table`` has the models' probabilities (of the second of two classes, of each class, or of the
    true class only), or by how much their values exceed the true ones.
    """

    def __init__(self, table: means.FixedPoint, X: Array, records: _Weighted) -> None:
        self.records, self.truth = records, records.truth
        self._sums, picks = means.whole_sums(table, X)
        # the sum that stands for a mean of 1, and the mean that a sum of 1 stands for
        self._one, self._unit = picks * means.ONE, table.unit / picks

    def _mean(self, plane: FloatArray) -> FloatArray:
        """Return the weighted mean of values of each record, (n, N), as (n, b)."""
        sums = means.sums_in_order(plane, self.records.weights)
        return np.asarray(sums / self.records.total)

    @cached_property
    def said(self) -> Array:
        """The likeliest class of each record, (n, N); of equally likely ones the first."""
        if self.truth.classes == 2:
            return (self._sums > self._one // 2).view(np.int8)
        best, *others = np.split(self._sums, self.truth.classes, axis=1)
        codes = np.zeros(best.shape, dtype=np.int16)
        for c, sums in enumerate(others, start=1):
            np.maximum(codes, (sums > best) * np.int16(c), out=codes)  # c exceeds all codes so far
            best = np.maximum(best, sums)
        return codes

    @cached_property
    def hits(self) -> FloatArray:
        """Weight of the records of each class that are answered correctly, (n, b, C)."""
        records, weights = self.records, self.records.weights
        right = self.said == records.codes
        if weights.shape[1] == 1:  # in searches: one product for all classes is fastest
            hits = np.einsum("rn,cn->rc", right.astype(records.of_class.dtype), records.of_class)
            return np.asarray(hits[:, np.newaxis])
        places = [np.flatnonzero(records.codes == c) for c in range(self.truth.classes)]
        return np.stack([weighted_sums(right[:, i], weights[i]) for i in places], axis=2)

    @cached_property
    def log_losses(self) -> FloatArray:
        """-log(probability of the true class) of each record, (n, N)."""
        sums = self._sums
        if self.truth.classes == 2:
            sums = np.where(self.truth.y == 1, sums, self._one - sums)
        return -np.log(np.clip(sums / self._one, LEAST, 1.0 - LEAST))

    @property
    def minus_log(self) -> FloatArray:
        """Mean of :attr:`log_losses`, (n, b)."""
        return self._mean(self.log_losses)

    @cached_property
    def mean_square(self) -> FloatArray:
        """Mean squared deviation, summed over the classes if there are more than two, (n, b)."""
        y, classes = self.truth.y, self.truth.classes
        if classes < 3:
            deviations = self._sums - self._one * y if classes else self._sums
            return self._mean((deviations * self._unit) ** 2)
        parts = np.split(self._sums, classes, axis=1)
        squares = [((p - self._one * (y == c)) * self._unit) ** 2 for c, p in enumerate(parts)]
        return self._mean(np.add.reduce(squares))

    @cached_property
    def absolute(self) -> FloatArray:
        """Mean absolute deviation, (n, b)."""
        return self._mean(np.abs(self._sums) * self._unit)


class _Score(NamedTuple):
    """How a score, shape (n, b), follows from statistics, with its sense and its meaning.

    A score to minimise is convex: no ensemble exceeds the loss of its worst member.
    """

    sense: Sense
    f: Callable[[_Rows], FloatArray]
    text: str


def _accuracy(rows: _Rows) -> FloatArray:
    return np.asarray(rows.hits.sum(axis=-1) / rows.records.counts.sum(axis=-1))


def _balanced_accuracy(rows: _Rows) -> FloatArray:
    hits, counts = rows.hits, rows.records.counts
    recalls = np.divide(hits, counts, out=np.zeros(hits.shape), where=counts > 0)
    return np.asarray(recalls.sum(axis=-1) / (counts > 0).sum(axis=-1))


def _rmse(rows: _Rows) -> FloatArray:
    return np.sqrt(rows.mean_square)


def _r2(rows: _Rows) -> FloatArray:
    return np.asarray(1.0 - rows.mean_square / rows.records.spread)


def _of_confusion(rows: _Rows, name: str) -> FloatArray:
    """Return precision, recall or F1 of two classes, as scikit-learn defines them."""
    positive, counts = rows.truth.positive, rows.records.counts
    right = rows.hits[..., positive]
    missed = counts[..., positive] - right
    false = counts[..., 1 - positive] - rows.hits[..., 1 - positive]
    times, falsely, missing = {"precision": (1, 1, 0), "recall": (1, 0, 1), "f1": (2, 1, 1)}[name]
    whole = times * right + falsely * false + missing * missed
    share = np.divide(times * right, whole, out=np.zeros(whole.shape), where=whole > 0)
    return np.asarray(share)


OF_CONFUSION = ("f1", "precision", "recall")  # scorers that follow from counts of two classes
MEANS_OF_LOSSES = {"log_loss", "brier", "rmse", "mae", "r2"}
AUC = "roc_auc"
BALANCED = "balanced_accuracy"
_AUC_TEXT = "area under the ROC curve; of several classes, the mean of each against the rest"

CLASSIFICATION: dict[str, _Score] = {
    "log_loss": _Score(
        "min", attrgetter("minus_log"), "mean of -log(probability of the true class)"
    ),
    "accuracy": _Score("max", _accuracy, "share of records whose likeliest class is right"),
    BALANCED: _Score("max", _balanced_accuracy, "mean recall of the classes"),
    "brier": _Score("min", attrgetter("mean_square"), "mean squared error of the probabilities"),
}
REGRESSION: dict[str, _Score] = {
    "rmse": _Score("min", _rmse, "root of the mean squared error"),
    "mae": _Score("min", attrgetter("absolute"), "mean absolute error"),
    "r2": _Score("max", _r2, "share of the variance explained"),
}


class Scores:
    """Scores of ensembles on one set of records.

    Parameters
    ----------
    names : sequence of str
        For classification ``roc_auc``, ``log_loss``, ``accuracy``, ``balanced_accuracy`` and
        ``brier``; for regression ``rmse``, ``mae`` and ``r2``. For both, scorers of scikit-learn,
        which are slow; greater is better with these, and classes are their indices.
    P : numpy.ndarray of float32, shape (K, N) or (K, N, C)
        Predictions of the models: the probabilities of the second class or of each class, or
        values.
    truth : Truth
    exact : bool
        Whether ``roc_auc`` is without the rounding of :func:`algorithms.ensembling.ranks.auc`.

    Raises
    ------
    InputError
        A score is unknown, or is for the other kind of task.
    """

    def __init__(
        self, names: Sequence[str], P: Array, truth: Truth, *, exact: bool = False
    ) -> None:
        self._builtin = CLASSIFICATION if truth.classes else REGRESSION
        self.names, self.truth, self.exact, self._P = tuple(names), truth, exact, P
        self._unweighted = _weighted(truth, np.ones((len(truth.y), 1)))
        self._ranks = ranks.rank_table(P, truth.y) if AUC in names else None
        self._tables: dict[str, means.FixedPoint] = {}
        counted = OF_CONFUSION if truth.classes == 2 else ()
        self._summed = [name for name in names if name in self._builtin or name in counted]
        for name in self._summed:
            self._table(name)
        self._scorers = {
            name: _scorer(name, truth)
            for name in names
            if name not in self._summed and not (name == AUC and truth.classes)
        }

    def __call__(self, X: Array, names: Sequence[str] | None = None) -> dict[str, FloatArray]:
        """Return scores (all or those named), (n,) each, of rows of counts (n, K), none empty."""
        names = self.names if names is None else names
        by_name: dict[str, FloatArray] = {}
        if self._ranks is not None and AUC in names:
            by_name[AUC] = (ranks.exact_auc if self.exact else ranks.auc)(self._ranks, X)
        summed = [name for name in names if name in self._summed]
        columns = self._from_sums(summed, X, self._unweighted)
        by_name |= {name: column[:, 0] for name, column in columns.items()}
        scorers = {name: self._scorers[name] for name in names if name in self._scorers}
        if scorers:
            by_name |= self._from_scorers(scorers, X)
        return {name: by_name[name] for name in names}

    def greatest_log_loss(self, X: Array) -> FloatArray:
        """Return the greatest -log(probability of the true class) of a record, shape (n,)."""
        table, greatest = self._table("log_loss"), np.empty(len(X))
        for block in means.blocks(len(X), table.whole[0].nbytes):
            greatest[block] = _Rows(table, X[block], self._unweighted).log_losses.max(axis=1)
        return greatest

    def _table(self, name: str) -> means.FixedPoint:
        """Return the predictions in fixed point that a score is computed from, made once."""
        classes, y = self.truth.classes, self.truth.y
        kind = "true class" if classes > 2 and name == "log_loss" else "all"
        if kind not in self._tables:
            if not classes:
                self._tables[kind] = means.of_values(self._P, y)
            elif kind == "all":
                self._tables[kind] = means.of_probabilities(self._P)
            else:
                self._tables[kind] = means.of_probabilities(self._P[:, np.arange(len(y)), y])
        return self._tables[kind]

    def _from_sums(
        self, names: Sequence[str], X: Array, records: _Weighted
    ) -> dict[str, FloatArray]:
        """Return scores that follow from sums over the records, under weights, (n, b) each."""
        shape = (len(X), records.weights.shape[1])
        by_name = {name: np.empty(shape) for name in names}
        by_table: dict[int, list[str]] = {}
        for name in names:
            by_table.setdefault(id(self._table(name)), []).append(name)
        for of_table in by_table.values():
            table = self._table(of_table[0])
            for block in means.blocks(len(X), table.whole[0].nbytes):
                rows = _Rows(table, X[block], records)
                for name in of_table:
                    score = self._builtin.get(name)
                    by_name[name][block] = score.f(rows) if score else _of_confusion(rows, name)
        return by_name

    @property
    def weighable(self) -> bool:
        """Whether all scores can be computed under weights of the records."""
        return not self._scorers

    def weighted(self, X: Array, weights: Array, wanted: Collection[str]) -> dict[str, FloatArray]:
        """Return the scores of each row under each column of weights, (n, b) each.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, K)
            Counts; no row is empty.
        weights : numpy.ndarray, shape (N, b)
            Whole numbers, not all 0 in a column.
        wanted : collection of str
            Names of the scores to return; the scores must be ``weighable``.

        Notes
        -----
        Scores made from ranks and counts are exact; means of losses are rounded.
        """
        by_name: dict[str, FloatArray] = {}
        if AUC in wanted and self._ranks is not None:
            by_name[AUC] = ranks.weighted_auc(self._ranks, X, weights)
        others = [name for name in self.names if name in wanted and name not in by_name]
        return by_name | self._from_sums(others, X, _weighted(self.truth, weights))

    def said(self, X: Array) -> IntArray:
        """Return the class (code) with which each row answers each record, int64 (n, N)."""
        table = self._table("accuracy")
        codes = np.empty((len(X), len(self.truth.y)), dtype=np.int64)
        for block in means.blocks(len(X), table.whole[0].nbytes):
            codes[block] = _Rows(table, X[block], self._unweighted).said
        return codes

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metric of each score; other bounds follow from the scores of single models."""
        singles = self(np.eye(len(self._P), dtype=np.int32))
        return tuple(self._measure(name, singles[name]) for name in self.names)

    def _measure(self, name: str, singles: FloatArray) -> Metric:
        if name == AUC:
            return Metric(name, "max", text=_AUC_TEXT)
        if name in self._builtin:
            score = self._builtin[name]
            if score.sense == "max":
                low = min(0.0, float(singles.min()) * _SLACK)
                is_open = name == "r2"
                return Metric(name, "max", low=low, high=1.0, text=score.text, scale=is_open)
            return Metric(name, "min", high=_above(singles), text=score.text, scale=True)
        low, high = float(np.nanmin(singles)), float(np.nanmax(singles))
        if low >= 0.0 and high <= 1.0 and self.truth.classes:
            return Metric(name, "max", text="scikit-learn's score")
        spread = (high - low) or 1.0
        metric = Metric(name, "max", low=low - spread, high=high + spread, scale=True)
        return metric._replace(text="scikit-learn's score")

    def _from_scorers(self, scorers: Mapping[str, _Scorer], X: Array) -> dict[str, FloatArray]:
        """Return scikit-learn's scores, (n,) each."""
        P = self._P.reshape(len(self._P), -1)
        by_name = {name: np.empty(len(X)) for name in scorers}
        for block in means.blocks(len(X), 8 * P.shape[1]):
            M = means.add_members(X[block], P, np.float64) / X[block].sum(axis=1, keepdims=True)
            for name, f in scorers.items():
                by_name[name][block] = f(M, self.truth)
        return by_name


def default_score(classes: int) -> str:
    return AUC if classes else "rmse"


def _above(singles: FloatArray) -> float:
    return float(singles.max()) * _SLACK or 1.0


def _scorer(name: str, truth: Truth) -> _Scorer:
    """Return one of scikit-learn's scorers as a function of mean predictions (n, N or C * N)."""
    from sklearn.metrics import get_scorer, get_scorer_names

    names = [AUC, *CLASSIFICATION] if truth.classes else list(REGRESSION)
    other = list(REGRESSION) if truth.classes else [AUC, *CLASSIFICATION]
    if name in other:
        task = "classification" if truth.classes else "regression"
        raise InputError(
            f"problem.score: expected a score for {task} ({', '.join(names)}), found {name!r}"
        )
    if name not in get_scorer_names():
        raise InputError(
            f"problem.score: expected one of {', '.join(names)} or a scorer of scikit-learn, found "
            f"{name!r}{registry.nearest(name, [*names, *get_scorer_names()])}"
        )
    scorer = get_scorer(name)

    def f(M: FloatArray, truth: Truth) -> FloatArray:
        estimator = PrecomputedEstimator(truth.classes, first=not truth.positive)
        y = truth.y if truth.positive else 1 - truth.y  # for scorers, class 1 is the positive one
        return np.array(
            [scorer(estimator, estimator.shaped(row), y) for row in M], dtype=np.float64
        )

    try:  # a scorer of another task fails on any prediction
        width = len(truth.y) * (truth.classes if truth.classes > 2 else 1)
        f(np.full((1, width), 1.0 / (truth.classes or 1)), truth)
    except Exception as error:
        raise InputError(
            f"problem.score: expected a scorer that takes such predictions, found {name!r}: {error}"
        ) from error
    return f


def check_names(names: Sequence[str]) -> None:
    """Raise InputError if there is no score, or one is named twice."""
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"problem.score: expected one or more different scores, found {list(names)}"
        )


class PrecomputedEstimator:
    """An estimator for scikit-learn's scorers whose input already is the prediction.

    Parameters
    ----------
    classes : int
        Number of classes, labelled 0, 1 and so on; 0 for regression.
    first : bool
        Whether the first of two classes is labelled 1 instead of the second.
    """

    def __init__(self, classes: int, first: bool = False) -> None:
        self.classes, self.first = classes, first
        self.classes_: IntArray = np.arange(classes)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier" if self.classes else "regressor",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if self.classes else None,
            regressor_tags=None if self.classes else RegressorTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Array, y: Array) -> PrecomputedEstimator:
        """Do nothing."""
        return self

    def shaped(self, row: FloatArray) -> FloatArray:
        """Return flat predictions of N records as (N, C), or (N,) for regression.

        Probabilities of several classes in float32 add up to one within its rounding. Here they
        are scaled to add up to one within the rounding of float64, as scorers require.
        """
        if self.classes == 2:
            return np.column_stack([row, 1.0 - row] if self.first else [1.0 - row, row])
        if not self.classes:
            return row
        shaped = row.reshape(-1, self.classes)
        return np.asarray(shaped / shaped.sum(axis=1, keepdims=True))

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return ``X`` (N, C)."""
        return X

    def predict(self, X: FloatArray) -> Array:
        """Return the likeliest class of each record, or ``X`` itself for regression; (N,)."""
        if self.first:  # in a tie the first class is the answer
            return np.asarray((X[:, 1] >= X[:, 0]).astype(np.int64))
        return np.asarray(X.argmax(axis=1)) if self.classes else X
