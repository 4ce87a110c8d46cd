"""Scores of ensembles on a set of records, for a whole batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from algorithms.ensembling.kernels import auc as ranks
from algorithms.ensembling.kernels import deviations as kernels
from algorithms.ensembling.kernels import weighted
from algorithms.ensembling.kernels.multiplicities import Multiplicities, multiplicities_of
from algorithms.ensembling.kernels.traits import combine
from framework import registry
from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.outcomes import weighted_sums
from framework.roles import Metric, Sense

_BLOCK_BYTES = 400_000  # mean predictions held at a time
_SLACK = 1 + 1e-9  # a bound that rounding cannot break


class Truth(NamedTuple):
    """The true labels or values that predictions are compared with.

    y : numpy.ndarray, shape (N,)
        Index of each record's class, or its value.
    classes : int
        Number of classes; 0 for regression.
    positive : int
        Of two classes the one that scores of one class, such as ``f1``, are about.
    """

    y: Array
    classes: int
    positive: int = 1


class _Facts(NamedTuple):
    """What scores need to know of the truth, computed once.

    counts : records of each class; spread : variance of the values, NaN where it is 0. Under
    weights of the records, one column each, they are of shapes (b, C) and (b,).
    """

    y: Array
    classes: int
    positive: int
    counts: Array
    spread: float | FloatArray


def _facts(truth: Truth) -> _Facts:
    if truth.classes:
        counts = np.bincount(truth.y, minlength=truth.classes)
        return _Facts(truth.y, truth.classes, truth.positive, counts, np.nan)
    spread = float(np.mean((truth.y - truth.y.mean()) ** 2)) or np.nan
    return _Facts(truth.y, 0, truth.positive, np.zeros(0, dtype=np.int64), spread)


def _weighted_facts(truth: Truth, weights: Array) -> _Facts:
    total = weights.sum(axis=0, dtype=np.float64)
    if truth.classes:
        classes = [
            weights[truth.y == c].sum(axis=0, dtype=np.float64) for c in range(truth.classes)
        ]
        return _Facts(truth.y, truth.classes, truth.positive, np.stack(classes, axis=1), np.nan)
    centred = (truth.y - truth.y.mean())[None, :]
    mean, square = (weighted.sums_in_order(x, weights)[0] / total for x in (centred, centred**2))
    spread = np.maximum(square - mean * mean, 0.0)
    return _Facts(truth.y, 0, truth.positive, np.zeros(0), np.where(spread > 0, spread, np.nan))


class _Table(NamedTuple):
    """Deviations, and where scores are made of their squares the products of each two models'."""

    deviations: kernels.Deviations
    products: IntArray | None


class _Rows:
    """What the scores of rows are made of: each thing when it is first read, once."""

    def __init__(self, table: _Table, multiplicities: Multiplicities, truth: _Facts) -> None:
        self.table, self.multiplicities, self.truth = table.deviations, multiplicities, truth
        self._products = table.products

    @cached_property
    def mean_square(self) -> FloatArray:
        return kernels.mean_square(self.table, self.multiplicities, self._products)

    @cached_property
    def hits(self) -> Array:
        """Records of each class that are answered right, (n, C)."""
        return kernels.hits(self.table, self.multiplicities, self.truth.y, self.truth.classes)

    @cached_property
    def minus_log(self) -> FloatArray:
        return kernels.mean_minus_log(self.table, self.multiplicities)

    @cached_property
    def absolute(self) -> FloatArray:
        return kernels.mean_absolute(self.table, self.multiplicities)


class _WeightedRows(_Rows):
    """The same under weights of the records: each with an axis (b,) behind that of the rows."""

    def __init__(
        self, table: _Table, multiplicities: Multiplicities, truth: _Facts, weights: Array
    ) -> None:
        super().__init__(table, multiplicities, truth)
        self._weights, self._total = weights, weights.sum(axis=0, dtype=np.float64)

    @cached_property
    def _planes(self) -> FloatArray:
        """Deviations of the mean prediction, (n, N), or (n, N, C)."""
        planes = kernels.mean_deviations(self.table, self.multiplicities)
        records = len(self.truth.y)
        return planes if planes.shape[1] == records else planes.reshape(len(planes), records, -1)

    def _mean(self, plane: FloatArray) -> FloatArray:
        return np.asarray(weighted.sums_in_order(plane, self._weights) / self._total)

    @cached_property
    def mean_square(self) -> FloatArray:
        squares = self._planes**2
        return self._mean(squares if squares.ndim == 2 else squares.mean(axis=2))

    @cached_property
    def hits(self) -> Array:
        y, classes = self.truth.y, self.truth.classes
        right = kernels.right_answers(self.table, self.multiplicities, y, classes)
        found = np.empty((len(right), self._weights.shape[1], classes))
        for c in range(classes):
            its = np.flatnonzero(y == c)
            found[..., c] = weighted_sums(right[:, its], self._weights[its])
        return found

    @cached_property
    def minus_log(self) -> FloatArray:
        p = np.clip(1.0 + self._planes, kernels.LEAST, 1.0 - kernels.LEAST)
        return self._mean(-np.log(p))

    @cached_property
    def absolute(self) -> FloatArray:
        return self._mean(np.abs(self._planes))


class _Score(NamedTuple):
    """A score of ensembles, (n,), by their deviations.

    ``high`` is None for a loss that no mean exceeds the worst member's of: it is convex.
    """

    sense: Sense
    f: Callable[[_Rows], FloatArray]
    high: float | None
    text: str


def _log_loss(rows: _Rows) -> FloatArray:
    return rows.minus_log


def _brier(rows: _Rows) -> FloatArray:
    a_record = rows.table.whole.shape[1] // len(rows.truth.y)
    return np.asarray(rows.mean_square * a_record)


def _accuracy(rows: _Rows) -> FloatArray:
    return np.asarray(rows.hits.sum(axis=-1) / rows.truth.counts.sum(axis=-1))


def _balanced_accuracy(rows: _Rows) -> FloatArray:
    hits, counts = rows.hits, rows.truth.counts
    recalls = np.divide(hits, counts, out=np.zeros(hits.shape), where=counts > 0)
    return np.asarray(recalls.sum(axis=-1) / (counts > 0).sum(axis=-1))


def _rmse(rows: _Rows) -> FloatArray:
    return np.sqrt(rows.mean_square)


def _mae(rows: _Rows) -> FloatArray:
    return rows.absolute


def _r2(rows: _Rows) -> FloatArray:
    return np.asarray(1.0 - rows.mean_square / rows.truth.spread)


def _of_confusion(rows: _Rows, name: str) -> FloatArray:
    """Return one of scikit-learn's scores that follow from the four counts of two classes."""
    positive, counts = rows.truth.positive, rows.truth.counts
    right = rows.hits[..., positive]
    missed = counts[..., positive] - right
    false = counts[..., 1 - positive] - rows.hits[..., 1 - positive]
    times, falsely, missing = {"precision": (1, 1, 0), "recall": (1, 0, 1), "f1": (2, 1, 1)}[name]
    whole = times * right + falsely * false + missing * missed
    share = np.divide(times * right, whole, out=np.zeros(whole.shape), where=whole > 0)
    return np.asarray(share)


OF_CONFUSION = ("f1", "precision", "recall")  # of two classes
OF_SQUARES = ("brier", "rmse", "r2")
AUC = "roc_auc"
_AUC_TEXT = "area under the ROC curve; of several classes, the mean of each against the rest"

CLASSIFICATION: dict[str, _Score] = {
    "log_loss": _Score("min", _log_loss, None, "mean of -log(probability of the true class)"),
    "accuracy": _Score("max", _accuracy, 1.0, "share of records whose likeliest class is right"),
    "balanced_accuracy": _Score("max", _balanced_accuracy, 1.0, "mean recall of the classes"),
    "brier": _Score("min", _brier, None, "mean squared error of the probabilities"),
}
REGRESSION: dict[str, _Score] = {
    "rmse": _Score("min", _rmse, None, "root of the mean squared error"),
    "mae": _Score("min", _mae, None, "mean absolute error"),
    "r2": _Score("max", _r2, 1.0, "share of the variance explained"),
}


class Scores:
    """Scores of ensembles on one set of records.

    Parameters
    ----------
    names : sequence of str
        Of ``roc_auc``, ``log_loss``, ``accuracy``, ``balanced_accuracy``, ``brier`` for
        classification, of ``rmse``, ``mae``, ``r2`` for regression, or of scikit-learn's scorers
        (greater is better there; classes are their indices). The latter are slow.
    P : numpy.ndarray of float32, shape (K, N) or (K, N, C)
    truth : Truth
    exact : bool
        Rank without the rounding of :func:`algorithms.ensembling.kernels.auc.auc`.

    Raises
    ------
    InputError
        An unknown score, or one of the other kind of task.
    """

    def __init__(
        self, names: Sequence[str], P: Array, truth: Truth, *, exact: bool = False
    ) -> None:
        own = CLASSIFICATION if truth.classes else REGRESSION
        self.names, self.truth, self.exact = tuple(names), truth, exact
        self._facts = _facts(truth)
        self._P, self._given = P.reshape(len(P), -1), P
        self._ranks = ranks.rank_table(P, truth.y) if AUC in names else None
        self._own = own
        self._answers: kernels.Deviations | None = None
        self._tables: list[tuple[_Table, tuple[str, ...]]] = []
        by_table: dict[Callable[..., kernels.Deviations], list[str]] = {}
        for name in names:
            if name in own:
                by_table.setdefault(_table_for(name, truth.classes), []).append(name)
        for table, its in by_table.items():
            deviations = table(P, truth.y)
            squared = any(name in OF_SQUARES for name in its)
            products = kernels.products_of(deviations) if squared else None
            self._tables.append((_Table(deviations, products), tuple(its)))
        self._scorers = {
            name: _scorer(name, truth)
            for name in names
            if name not in own and not (name == AUC and truth.classes)
        }

    def __call__(self, multiplicities: Multiplicities) -> dict[str, FloatArray]:
        """Return each score of each row, (n,) each; NaN for a row without members."""
        found: dict[str, FloatArray] = {}
        if self._ranks is not None:
            found[AUC] = (ranks.exact_auc if self.exact else ranks.auc)(self._ranks, multiplicities)
        for table, names in self._tables:
            rows = _Rows(table, multiplicities, self._facts)
            found |= {name: self._own[name].f(rows) for name in names}
        if self._scorers:
            found |= self._of_means(multiplicities)
        return {name: found[name] for name in self.names}

    @property
    def weighable(self) -> bool:
        """Whether all scores are known under weights of the records."""
        two = self.truth.classes == 2
        return all(two and name in OF_CONFUSION for name in self._scorers)

    def weighted(
        self, multiplicities: Multiplicities, weights: Array, wanted: Collection[str]
    ) -> dict[str, FloatArray]:
        """Return scores of each row under each column of weights, (n, b) each.

        Parameters
        ----------
        multiplicities : Multiplicities
            No row is empty.
        weights : numpy.ndarray, shape (N, b)
            Whole numbers, not all 0 in a column.
        wanted : collection of str
            Which scores; all of them must be ``weighable``.

        Notes
        -----
        Ranks, hits and what is made of them are exact; means of losses are so but for rounding.
        """
        found: dict[str, FloatArray] = {}
        if AUC in wanted and self._ranks is not None:
            found[AUC] = weighted.auc(self._ranks, multiplicities, weights)
        truth = _weighted_facts(self.truth, weights)
        for table, names in self._tables:
            its = [name for name in names if name in wanted]
            rows = _WeightedRows(table, multiplicities, truth, weights)
            found |= {name: self._own[name].f(rows) for name in its}
        counted = [name for name in self._scorers if name in wanted]
        if counted:
            table = _Table(kernels.of_true_class(self._given, self.truth.y), None)
            rows = _WeightedRows(table, multiplicities, truth, weights)
            found |= {name: _of_confusion(rows, name) for name in counted}
        return found

    def said(self, multiplicities: Multiplicities) -> IntArray:
        """Return the class (code) that each row says of each record, int64 (n, N)."""
        if self._answers is None:
            table = _table_for("accuracy", self.truth.classes)
            self._answers = table(self._given, self.truth.y)
        return kernels.likeliest(self._answers, multiplicities, self.truth.y)

    def metrics(self) -> tuple[Metric, ...]:
        """Return what the scores are; bounds without a theory come from the models' own scores."""
        singles = self(multiplicities_of(np.eye(len(self._P), dtype=np.int32)))
        return tuple(self._measure(name, singles[name]) for name in self.names)

    def _measure(self, name: str, singles: FloatArray) -> Metric:
        if name == AUC:
            return Metric(name, "max", text=_AUC_TEXT)
        if name in self._own:
            score = self._own[name]
            if score.sense == "max":
                low = min(0.0, float(singles.min()) * _SLACK)
                return Metric(name, "max", low=low, high=1.0, text=score.text)
            return Metric(name, "min", high=_above(singles), text=score.text)
        low, high = float(np.nanmin(singles)), float(np.nanmax(singles))
        if low >= 0.0 and high <= 1.0 and self.truth.classes:
            return Metric(name, "max", text="scikit-learn's score")
        spread = (high - low) or 1.0
        return Metric(
            name, "max", low=low - spread, high=high + spread, text="scikit-learn's score"
        )

    def _of_means(self, multiplicities: Multiplicities) -> dict[str, FloatArray]:
        width, n = self._P.shape[1], multiplicities.n
        block = max(1, _BLOCK_BYTES // (8 * width))
        found = {name: np.empty(n) for name in self._scorers}
        M = np.empty((min(block, n), width))
        for start in range(0, n, block):
            stop = min(start + block, n)
            part = multiplicities._replace(starts=multiplicities.starts[start : stop + 1])
            combine(self._P, part, M[: stop - start])
            for name, f in self._scorers.items():
                found[name][start:stop] = f(M[: stop - start], self.truth)
        return found


def _table_for(name: str, classes: int) -> Callable[..., kernels.Deviations]:
    """Return how the deviations that a score is made of come from predictions and truth."""
    if not classes:
        return kernels.of_values
    return kernels.of_true_class if classes == 2 or name == "log_loss" else kernels.of_every_class


def default_score(classes: int) -> str:
    """Return the default score of a task."""
    return AUC if classes else "rmse"


def _above(singles: FloatArray) -> float:
    return float(singles.max()) * _SLACK or 1.0


def _scorer(name: str, truth: Truth) -> Callable[[FloatArray, Truth], FloatArray]:
    """Return one of scikit-learn's scorers, called row by row."""
    from sklearn.metrics import get_scorer, get_scorer_names

    own = [AUC, *CLASSIFICATION] if truth.classes else list(REGRESSION)
    other = list(REGRESSION) if truth.classes else [AUC, *CLASSIFICATION]
    if name in other:
        task = "classification" if truth.classes else "regression"
        raise InputError(
            f"problem.score: expected a score for {task} ({', '.join(own)}), found {name!r}"
        )
    if name not in get_scorer_names():
        raise InputError(
            f"problem.score: expected one of {', '.join(own)} or a scorer of scikit-learn, found "
            f"{name!r}{registry.nearest(name, [*own, *get_scorer_names()])}"
        )
    scorer = get_scorer(name)

    def f(M: FloatArray, truth: Truth) -> FloatArray:
        given = PrecomputedEstimator(truth.classes, first=not truth.positive)
        y = truth.y if truth.positive else 1 - truth.y  # scorers mean the class 1
        return np.array([scorer(given, given.shaped(row), y) for row in M], dtype=np.float64)

    try:  # a scorer of another task fails on any prediction
        width = len(truth.y) * (truth.classes if truth.classes > 2 else 1)
        f(np.full((1, width), 1.0 / (truth.classes or 1)), truth)
    except Exception as error:
        raise InputError(
            f"problem.score: expected a scorer that takes such predictions, found {name!r}: {error}"
        ) from error
    return f


def check_names(names: Sequence[str]) -> None:
    """Raise InputError unless there is a score, and each once."""
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"problem.score: expected one or more different scores, found {list(names)}"
        )


class PrecomputedEstimator:
    """An estimator for scikit-learn's scorers that returns its input, which are predictions.

    Parameters
    ----------
    classes : int
        Their number, labelled 0, 1, ...; 0 for regression.
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
        if self.first:  # a tie is the first class's
            return np.asarray((X[:, 1] >= X[:, 0]).astype(np.int64))
        return np.asarray(X.argmax(axis=1)) if self.classes else X
