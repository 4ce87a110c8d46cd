"""The data of a multi-stage problem: records to train on and to score, costs, and their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from algorithms.moves.bits import words_for
from algorithms.multistage.kernels import decisions, logistic
from algorithms.multistage.kernels.starts import Start, mean_products
from framework.arrays import BoolArray, FloatArray, IntArray, WordArray, frozen
from framework.data.costs import Panels

MOST_COEFFICIENTS = 1000  # with more, a fit on all columns does not pay as a start for the others
_CACHE = 1 << 23  # greatest number of bytes of the coefficients of one fold
_OBJECTS = 256  # bytes that an entry takes besides its numbers


class LogisticFits:
    """A cache of logistic regressions on the same training records.

    A fit does not depend on the records that it is asked about, so that it can be used again. Fits
    for which 8 MiB are not enough are made again, as are all of them in another process.

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
        """Fill in the coefficients (m, free, D + 1) of keys (m, words); return which are cached."""
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
            if self._bytes > _CACHE:
                return
            self._coefficients[C, key.tobytes()] = model.copy()


@dataclass(frozen=True)
class Fold:
    """One fold of a cross-validation.

    Attributes
    ----------
    data : StageData
        The records of the other folds to train on, and those of this fold to validate on. The
        encoder is fitted on the former, so the number of columns may differ from fold to fold.
    rows : int64 (records of the fold,)
        Positions of the fold's records among all records that are scored.
    trained : int64 (training records,)
        Positions of its training records among the records of the problem.
    """

    data: StageData
    rows: IntArray
    trained: IntArray


@dataclass(frozen=True)
class StageData:
    """The records in the form in which sub-classifiers are trained and scored.

    In a cross-validation, ``design`` and ``y`` have the training and validation records together,
    on which the models that users get are fitted; ``folds`` train the models that are scored.

    Attributes
    ----------
    design : float64 (D + 1, training records)
        One row per encoded column, so that sums over records run along memory, and a last row of
        ones, the intercept.
    y : int64 (training records,)
        Class codes.
    held : float64 (D + 1, validation + test records)
        In a cross-validation, the test records alone: the others are in the folds.
    y_held : int64
        Class codes of the records that are scored, then of the test records.
    n_validation : int
        Number of records that are scored: the validation records, or each record of a
        cross-validation once for every repeat (where folds follow in time, without the records
        before the first fold).
    first : int64 (features + 1,)
        Feature ``i`` has the encoded columns ``first[i]`` to ``first[i + 1] - 1``.
    thresholds : float64 (classes,)
        Confidence that an answer of each class needs; the least one if a gene chooses it.
    positive : int
        Code of the positive class, -1 for none.
    rule : RiskRule
        Decides instead of the thresholds where errors have costs; has the thresholds that genes
        choose from.
    copy_of : int64 (training records,), optional
        A code that copies of one record, or records of one group, share: the folds of a calibration
        keep them together. None if every record is on its own.
    folds : tuple of Fold
        The folds of a cross-validation, one repeat after the other; empty where there are
        validation records.
    units : int64 (n_validation,), optional
        A code, from 0, of each record that is scored. A resample draws the records of one code
        together: those of a group, copies of a record, a record in each repeat. None if every
        record is on its own.
    class_weights : tuple of float
        How much a training record of each class counts in the built-in logistic regression; empty
        if all count 1.
    codes : int
        Number of bits per record for the class of an answer; 0 if no metric needs it.
    sample_weights : float64 (training records,), optional
        How much each training record counts; multiplied by the weight of its class.
    unknown : bool (features or 0, records of ``y_held``)
        Whether a record lacks a feature, so that models stop there without an answer. Without rows
        where each record has all features, or models impute them.
    logistic_fits : LogisticFits
        Those of the training records, shared with data that score other records.
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
    unknown: BoolArray = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    logistic_fits: LogisticFits = field(
        default_factory=LogisticFits, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        # arrays from Ray's object store are read-only; kernels are compiled for this type alone
        for name in ("design", "y", "held", "y_held", "first", "thresholds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @cached_property
    def weights(self) -> FloatArray:
        """How much each training record counts in a fit: class weight times sample weight."""
        each = np.array(self.class_weights or (1.0,) * len(self.thresholds))
        of_records = 1.0 if self.sample_weights is None else self.sample_weights
        return frozen(each[self.y] * of_records)

    @cached_property
    def records(self) -> tuple[logistic.Records, logistic.Records]:
        """The training records, and those of them that a fit begins with."""
        return logistic.with_part(self.design, self.y, self.weights)

    def start(self, C: float) -> Start:
        """Return what fits on subsets of columns start from: the fit on all columns, made once.

        The coefficients are zeros if it does not converge or if there are very many columns.
        """
        if C not in self.logistic_fits.starts:
            basis, products = logistic.class_basis(len(self.thresholds)), np.zeros((0, 0))
            theta = np.zeros((basis.shape[1], len(self.design)))
            along = products
            if theta.size <= MOST_COEFFICIENTS and self.weights.sum() > 0:
                if not logistic.fit(self.design, self.y, self.weights, basis, C, theta):
                    theta[:] = 0.0
                products = mean_products(self.design, self.weights)
                along = np.einsum("ab,jb->ja", products, theta)
            self.logistic_fits.starts[C] = Start(frozen(theta), frozen(products), frozen(along))
        return self.logistic_fits.starts[C]

    @property
    def final(self) -> StageData:
        """Data that train the classifiers that users get.

        In a cross-validation they train on all its records, and score these and the test records;
        the latter alone where folds do not divide all records.
        """
        if not self.folds:
            return self
        n, test = 0 if self.fold_of is None else len(self.y), self.n_validation
        held = np.concatenate([self.design[:, :n], self.held], axis=1)
        y_held = np.concatenate([self.y[:n], self.y_held[test:]])
        unknown = np.concatenate([self.unknown[:, :n], self.unknown[:, test:]], axis=1)
        return self.asked(held, y_held, n, unknown)

    def asked(
        self, held: FloatArray, y_held: IntArray, n_validation: int, unknown: BoolArray
    ) -> StageData:
        """Return data that train on the same records, with the same fits, but score others."""
        scored = replace(self, held=held, y_held=y_held, n_validation=n_validation, unknown=unknown)
        other = replace(scored, folds=(), units=None)
        object.__setattr__(other, "logistic_fits", self.logistic_fits)
        return other

    @cached_property
    def fold_of(self) -> IntArray | None:
        """The fold of the first repeat that scores each record, shape (training records,).

        None without folds, or where the folds of a repeat do not divide all records.
        """
        folds = np.full(len(self.y), -1, dtype=np.int64)
        for number, fold in enumerate(self.folds):
            if folds.min(initial=0) >= 0:  # the further folds are those of a second repeat
                break
            if len(fold.rows) + len(fold.trained) != len(self.y):
                return None
            folds[fold.rows] = number
        return folds if len(self.folds) and folds.min() >= 0 else None

    @property
    def stopped(self) -> BoolArray:
        """Whether a classifier on all features stops at each record of ``y_held``, for a value."""
        stopped = np.zeros(len(self.y_held), dtype=bool)
        for lacking in self.unknown:
            stopped |= lacking
        return stopped

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
        """Planes of an answer: conclusive, right, positive (if a class is) and the class code."""
        return (2 if self.positive < 0 else 3) + self.codes

    @property
    def planes(self) -> int:
        """Planes of bits: those of answers, then those of errors and thresholds, if any."""
        errors: int = self.rule.parts.shape[2]
        return self.answer_planes + errors + max(len(self.rule.limits) - 1, 0)

    @property
    def validation_words(self) -> int:
        """Number of 64-bit words of the validation records."""
        return words_for(self.n_validation)

    @property
    def words(self) -> int:
        """Number of words per plane: those of the validation records, then of the test records.

        Classifiers of folds answer no test records; those of :attr:`final` do.
        """
        return self.validation_words + (0 if self.folds else words_for(self.n_test))

    @property
    def nbytes(self) -> int:
        """Bytes that the records take, including those of the folds."""
        arrays = (self.design, self.held, self.y, self.y_held)
        return sum(a.nbytes for a in arrays) + sum(fold.data.nbytes for fold in self.folds)


def with_intercept(columns: FloatArray) -> FloatArray:
    """Return the columns (D, N) and, below them, a row of ones: the intercept."""
    design = np.ones((len(columns) + 1, columns.shape[1]))
    design[:-1] = columns
    return design


@dataclass(frozen=True)
class FeatureCosts:
    """Costs of features, panels and stages, as fixed-point numbers whose sums are exact.

    Attributes
    ----------
    units : numpy.ndarray of int64, shape (n,)
        Cost of each feature; the real one is ``units / scale``.
    panels : Panels, optional
        Features that share a cost, with the real costs.
    panel_units : numpy.ndarray of int64, shape (m,)
        Cost of each panel.
    stage_units : int
        Cost of asking the classifier of a stage.
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
    """What models and reports need to know about the origin of the records.

    Attributes
    ----------
    fingerprint : str
        Identifies the records, their split and their encoding.
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
