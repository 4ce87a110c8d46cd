"""What a multi-stage problem is made of: records to train on and to score, costs, their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from algorithms.multistage.bit_planes import words_for
from algorithms.multistage.kernels import decisions, logistic
from algorithms.multistage.kernels.starts import Start, mean_products
from framework.arrays import BoolArray, FloatArray, IntArray, WordArray, frozen
from framework.data.costs import Panels

MOST_COEFFICIENTS = 1000  # of a fit on all columns that pays as a start for the others
_KEPT = 1 << 23  # bytes of the coefficients of one fold
_OBJECTS = 256  # bytes beside the numbers of each


class LogisticFits:
    """Logistic regressions of the same training records, each fitted once.

    Whatever they are asked about, and however often, they are the same. What is above 8 MiB is
    fitted again, and so it is in another process.

    Attributes
    ----------
    starts : dict of float to Start
        See :meth:`StageData.start`.
    """

    def __init__(self) -> None:
        self.starts: dict[float, Start] = {}
        self._coefficients: dict[tuple[float, bytes], FloatArray] = {}
        self._bytes = 0

    def __getstate__(self) -> dict[float, Start]:
        return self.starts

    def __setstate__(self, starts: dict[float, Start]) -> None:
        LogisticFits.__init__(self)
        self.starts = starts

    def fill(self, C: float, keys: WordArray, models: FloatArray) -> BoolArray:
        """Fill in the coefficients (m, free, D + 1) of keys (m, words); return which are there."""
        ready = np.zeros(len(keys), dtype=bool)
        for i, key in enumerate(keys):
            model = self._coefficients.get((C, key.tobytes()))
            if model is not None:
                ready[i], models[i] = True, model
        return ready

    def keep(self, C: float, keys: WordArray, models: FloatArray) -> None:
        """Keep coefficients that were fitted, as long as there is room."""
        for key, model in zip(keys, models, strict=True):
            self._bytes += model.nbytes + _OBJECTS
            if self._bytes > _KEPT:
                return
            self._coefficients[C, key.tobytes()] = model.copy()


@dataclass(frozen=True)
class Fold:
    """One fold of a cross-validation.

    Attributes
    ----------
    data : StageData
        Trains on the other folds; its validation records are those of this fold. Encoded by what
        the other folds say: the number of columns may differ from fold to fold.
    rows : int64 (records of the fold,)
        Where they are among all records that are scored.
    trained : int64 (training records,)
        Where those that it trains on are among the records of the problem.
    """

    data: StageData
    rows: IntArray
    trained: IntArray


@dataclass(frozen=True)
class StageData:
    """The records in the form in which sub-classifiers are trained and scored.

    In a cross-validation, ``design`` and ``y`` are the training and validation records together,
    on which models are fitted that are handed out; ``folds`` train those that are scored.

    Attributes
    ----------
    design : float64 (D, training records)
        One row per encoded column, so that sums over records run along memory.
    y : int64 (training records,)
        Class codes.
    held : float64 (D, validation + test records)
        In a cross-validation, the test records alone: the others are in the folds.
    y_held : int64
        Of the records that are scored, then of the test records.
    n_validation : int
        Records that are scored: the validation records, or each record of a cross-validation as
        often as it is repeated (without those before the first fold, where folds follow in time).
    first : int64 (features + 1,)
        Feature ``i`` has the encoded columns ``first[i]`` to ``first[i + 1] - 1``.
    thresholds : float64 (classes,)
        Confidence that a prediction of each class needs; of several to choose from, the least.
    positive : int
        Code of the positive class, -1 for none.
    rule : RiskRule
        Makes the answers in place of the thresholds where errors have costs; has the thresholds to
        choose from.
    copy_of : int64 (training records,), optional
        Equal for copies of one record and for records of one group, which the folds of a
        calibration keep together; None: each is on its own.
    folds : tuple of Fold
        Of a cross-validation, those of each repeat in turn; empty where there are validation
        records.
    units : int64 (n_validation,), optional
        Code of each record that is scored, from 0; a resample draws those of one code together:
        the records of a group, the copies of a record, a record in each repeat. None: each on its
        own.
    class_weights : tuple of float
        How much a training record of each class counts in the built-in logistic regression;
        empty: all count 1.
    codes : int
        Bits per record that say which class an answer is; 0 where it does not matter.
    sample_weights : float64 (training records,), optional
        How much each counts in training, beside its class.
    logistic_fits : LogisticFits
        Those of the training records; what is asked about other records has the same.
    """

    design: FloatArray
    y: IntArray
    held: FloatArray
    y_held: IntArray
    n_validation: int
    first: IntArray
    thresholds: FloatArray
    positive: int
    rule: decisions.RiskRule = decisions.BY_CONFIDENCE
    copy_of: IntArray | None = None
    folds: tuple[Fold, ...] = ()
    units: IntArray | None = None
    class_weights: tuple[float, ...] = ()
    codes: int = 0
    sample_weights: FloatArray | None = None
    logistic_fits: LogisticFits = field(
        default_factory=LogisticFits, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        # As arrays come out of Ray's object store: kernels are compiled once for both.
        for name in ("design", "y", "held", "y_held", "first", "thresholds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @cached_property
    def weights(self) -> FloatArray:
        """How much each training record counts in a fit: by its class, and on its own."""
        each = np.array(self.class_weights or (1.0,) * len(self.thresholds))
        of_records = 1.0 if self.sample_weights is None else self.sample_weights
        return frozen(each[self.y] * of_records)

    def start(self, C: float) -> Start:
        """Return what logistic regressions on subsets start from: the one on all columns.

        Zeros where it does not converge, nothing where there are very many columns. Of the data
        alone, and fitted once.
        """
        if C not in self.logistic_fits.starts:
            basis, products = logistic.class_basis(len(self.thresholds)), np.zeros((0, 0))
            theta = np.zeros((basis.shape[1], len(self.design) + 1))
            along = products
            if theta.size <= MOST_COEFFICIENTS and self.weights.sum() > 0:
                S = with_intercept(self.design)
                if not logistic.fit(S, self.y, self.weights, basis, C, theta):
                    theta[:] = 0.0
                products = mean_products(S, self.weights)
                along = np.einsum("ab,jb->ja", products, theta)
            self.logistic_fits.starts[C] = Start(theta, products, along)
        return self.logistic_fits.starts[C]

    @cached_property
    def refit(self) -> StageData:
        """Of a cross-validation: what trains on all its records, and is asked about the tests."""
        return self.asked(self.held, self.y_held[self.n_validation :], 0)

    def asked(self, held: FloatArray, y_held: IntArray, n_validation: int) -> StageData:
        """Return what trains on the same records, and is asked about others: its fits are these."""
        other = replace(
            self, held=held, y_held=y_held, n_validation=n_validation, folds=(), units=None
        )
        object.__setattr__(other, "logistic_fits", self.logistic_fits)
        return other

    @cached_property
    def fold_of(self) -> IntArray | None:
        """The fold of the first repeat that has each record, in whose others it is trained on.

        None without folds, or where they are no division of the records.
        """
        folds = np.full(len(self.y), -1, dtype=np.int64)
        for number, fold in enumerate(self.folds):
            if folds.min(initial=0) >= 0:  # a further repeat
                break
            if len(fold.rows) + len(fold.trained) != len(self.y):
                return None
            folds[fold.rows] = number
        return folds if len(self.folds) and folds.min() >= 0 else None

    @property
    def n_test(self) -> int:
        """Number of test records."""
        return len(self.y_held) - self.n_validation

    @property
    def n_features(self) -> int:
        """Number of features, each of one encoded column or more."""
        return len(self.first) - 1

    @property
    def answer_planes(self) -> int:
        """Bits per record: conclusive, right, called positive where a class is, and the class."""
        return (2 if self.positive < 0 else 3) + self.codes

    @property
    def planes(self) -> int:
        """Bits per record: those of answers, then of errors and thresholds where these count."""
        errors: int = self.rule.parts.shape[2]
        return self.answer_planes + errors + max(len(self.rule.limits) - 1, 0)

    @property
    def validation_words(self) -> int:
        """Words of 64 bits that the validation records take."""
        return words_for(self.n_validation)

    @property
    def words(self) -> int:
        """Words per plane: those of the validation records, then those of the test records."""
        return self.validation_words + words_for(self.n_test)

    @property
    def nbytes(self) -> int:
        """Bytes that the records take, those of folds included."""
        arrays = (self.design, self.held, self.y, self.y_held)
        return sum(a.nbytes for a in arrays) + sum(fold.data.nbytes for fold in self.folds)


def with_intercept(columns: FloatArray) -> FloatArray:
    """Return the design of a fit: columns (d, N) and the intercept's."""
    return np.concatenate([columns, np.ones((1, columns.shape[1]))])


@dataclass(frozen=True)
class FeatureCosts:
    """What features and stages cost, as fixed-point numbers whose sums are exact.

    Attributes
    ----------
    units : numpy.ndarray of int64, shape (n,)
    scale : int
        A real cost is ``units / scale``.
    panels : Panels, optional
        Features that are paid for together, with the real costs.
    panel_units : numpy.ndarray of int64, shape (m,)
        Those costs.
    stage_units : int
        What it costs to ask the classifier of a stage.
    """

    units: IntArray
    scale: int = 1
    panels: Panels | None = None
    panel_units: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    stage_units: int = 0

    def __post_init__(self) -> None:
        for name in ("units", "panel_units"):
            units = frozen(np.asarray(getattr(self, name), dtype=np.int64))
            object.__setattr__(self, name, units)

    @property
    def total(self) -> float:
        """Cost of all features."""
        return float(self.units.sum() + self.panel_units.sum()) / self.scale


@dataclass(frozen=True)
class Source:
    """Where the records come from, and what models and reports need to know of it.

    Attributes
    ----------
    fingerprint : str
        Of the records, their split and their encoding.
    feature_names : sequence of str
    classes : sequence
        Labels, by class code.
    encoder : mapping
        ``Encoder.to_json()`` of the fitted encoder; empty where models encode for themselves.
    description : mapping
        See :meth:`framework.problem.Described.describe`.
    example : mapping of str to list
        A few raw records, as columns.
    """

    fingerprint: str
    feature_names: Sequence[str]
    classes: Sequence[Any]
    encoder: Mapping[str, Any] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)
    example: Mapping[str, list[Any]] = field(default_factory=dict)
