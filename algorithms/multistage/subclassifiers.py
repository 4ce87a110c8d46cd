"""Training of sub-classifiers: a feature set becomes bits for each record, and a stored model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms.multistage.component_table import features_of, words_for
from algorithms.multistage.kernels import logistic
from algorithms.multistage.kernels.out_of_fold import out_of_fold
from framework.arrays import FloatArray, IntArray, WordArray, frozen
from framework.components import Components
from framework.models.classifiers import LOGISTIC_REGRESSION, CalibrationMethod, make_estimator
from framework.models.confidence import CONFIDENCE_SLACK

LARGEST_MODEL = 65536  # bytes; of a larger model only the bits are kept
MOST_COLUMNS = 200  # with which a fit on all of them is worth its while as a start
_NOT_CONVERGED = "logistic regression did not converge; lower C"


@dataclass(frozen=True)
class StageData:
    """The records in the form in which sub-classifiers are trained and scored.

    Attributes
    ----------
    design : float64 (D, training records)
        A row an encoded column.
    y : int64 (training records,)
        Class codes.
    held : float64 (D, validation + test records)
    y_held : int64
    n_validation : int
    first : int64 (features + 1,)
        Feature ``i`` has the encoded columns ``first[i]`` to ``first[i + 1] - 1``.
    thresholds : float64 (classes,)
        Confidence that a prediction of each class needs.
    positive : int
        Code of the positive class, -1 for none.
    copy_of : int64 (training records,), optional
        Equal for copies of one record, which cross-validation keeps together; None: no copies.
    """

    design: FloatArray
    y: IntArray
    held: FloatArray
    y_held: IntArray
    n_validation: int
    first: IntArray
    thresholds: FloatArray
    positive: int
    copy_of: IntArray | None = None
    _starts: dict[float, FloatArray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        # As arrays come out of Ray's object store: kernels are compiled once for both.
        for name in ("design", "y", "held", "y_held", "first", "thresholds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def start(self, C: float) -> FloatArray:
        """Return where logistic regressions on subsets start: the one on all columns.

        Shape (free directions, D + 1), the intercept last; zeros where it does not converge or
        there are very many columns. Of the data alone, and fitted once.
        """
        if C not in self._starts:
            basis, S = logistic.class_basis(len(self.thresholds)), _with_ones(self.design)
            theta = np.zeros((basis.shape[1], len(S)))
            few = len(self.design) <= MOST_COLUMNS
            if not (few and logistic.fit(S, self.y, basis, C, theta)):
                theta[:] = 0.0
            self._starts[C] = theta
        return self._starts[C]

    @property
    def n_features(self) -> int:
        """Number of features, each of one encoded column or more."""
        return len(self.first) - 1

    @property
    def planes(self) -> int:
        """Bits kept a record: conclusive, right, and called positive where that has a meaning."""
        return 2 if self.positive < 0 else 3

    @property
    def validation_words(self) -> int:
        """Words of 64 bits that the validation records take."""
        return words_for(self.n_validation)

    @property
    def words(self) -> int:
        """Words a plane: those of the validation records, then those of the test records."""
        return self.validation_words + words_for(len(self.y_held) - self.n_validation)


def train(
    data: StageData,
    kind: str,
    parameters: dict[str, Any],
    keys: WordArray,
    calibration: CalibrationMethod = "none",
    *,
    keep_all: bool = False,
) -> Components:
    """Train a sub-classifier for each feature set, each independently of the others.

    Parameters
    ----------
    keys : numpy.ndarray of uint64, shape (m, key words)
    calibration : str
        How probabilities are calibrated, by cross-validation within the training records.
    keep_all : bool
        Return large models too.

    Returns
    -------
    Components
        A model is, for ``logistic_regression``, the coefficients as little-endian float64,
        (free directions, D + 1); else the estimator in skops's format. With calibration it is
        what :func:`framework.models.calibration.join` makes of that. A model of more than
        ``LARGEST_MODEL`` bytes is left out, empty: it is sooner trained again than thousands are
        kept.
    """
    bits = np.zeros((len(keys), data.planes, data.words), dtype=np.uint64)
    if kind != LOGISTIC_REGRESSION:
        parts = _scikit_learn(data, kind, parameters, keys, bits, calibration)
    elif calibration == "none":
        parts = _logistic(data, float(parameters.get("C", 1.0)), keys, bits)
    else:
        parts = _calibrated_logistic(data, float(parameters.get("C", 1.0)), keys, bits, calibration)
    if keep_all:
        return parts
    kept = [model if len(model) <= LARGEST_MODEL else b"" for model in parts.models]
    return Components(parts.keys, parts.bits, kept, parts.errors)


def _logistic(data: StageData, C: float, keys: WordArray, bits: WordArray) -> Components:
    basis = logistic.class_basis(len(data.thresholds))
    models = np.zeros((len(keys), basis.shape[1], len(data.design) + 1))
    training = logistic.Fit(data.design, data.y, data.first, basis, C, data.start(C))
    held = logistic.HeldOut(
        data.held, data.y_held, data.n_validation, data.thresholds, data.positive, CONFIDENCE_SLACK
    )
    failed = logistic.fit_subsets(keys.copy(), training, held, bits, models)
    errors = dict.fromkeys(np.flatnonzero(failed).tolist(), _NOT_CONVERGED)
    return Components(keys, bits, [model.astype("<f8").tobytes() for model in models], errors)


def _calibrated_logistic(
    data: StageData, C: float, keys: WordArray, bits: WordArray, method: str
) -> Components:
    from framework.models.calibration import fit_calibration, folds_of, join

    basis, folds = logistic.class_basis(len(data.thresholds)), folds_of(data.y, data.copy_of)
    errors: dict[int, str] = {}
    models: list[bytes] = []
    for i, key in enumerate(keys):
        columns = columns_of(data.first, key)
        S, E = _with_ones(data.design[columns]), _with_ones(data.held[columns])
        theta = np.zeros((basis.shape[1], len(S)))
        unseen, P = np.empty((len(basis), len(data.y))), np.empty((len(basis), len(data.y_held)))
        if not (
            out_of_fold(S, data.y, folds, basis, C, unseen)
            and logistic.fit(S, data.y, basis, C, theta)
        ):
            errors[i] = _NOT_CONVERGED
            models.append(b"")
            continue
        logistic.probabilities(E, theta, basis, P)
        calibration = fit_calibration(method, unseen.T, data.y)
        _decide(data, calibration.apply(P.T), bits[i])
        model = np.zeros((len(theta), len(data.design) + 1))
        model[:, [*columns, -1]] = theta
        models.append(join(model.astype("<f8").tobytes(), calibration))
    return Components(keys, bits, models, errors)


def _scikit_learn(
    data: StageData,
    kind: str,
    parameters: dict[str, Any],
    keys: WordArray,
    bits: WordArray,
    method: CalibrationMethod,
) -> Components:
    from threadpoolctl import threadpool_limits

    make_estimator(kind, parameters)  # loads the library whose threads are limited
    errors: dict[int, str] = {}
    models: list[bytes] = []
    with threadpool_limits(1):  # some sums over records depend on the number of threads
        for i, key in enumerate(keys):
            try:
                P, model = _fitted(data, kind, parameters, key, method)
            except Exception as error:  # whatever an estimator raises is the part's error
                errors[i] = f"{type(error).__name__}: {error}"
                models.append(b"")
                continue
            models.append(model)
            _decide(data, P, bits[i])
    return Components(keys, bits, models, errors)


def _fitted(
    data: StageData,
    kind: str,
    parameters: dict[str, Any],
    key: WordArray,
    method: CalibrationMethod,
) -> tuple[FloatArray, bytes]:
    """Return the probabilities of the held records, shape (n, classes), and the stored model."""
    import skops.io

    columns = columns_of(data.first, key)
    X = data.design[columns].T
    estimator = make_estimator(kind, parameters).fit(X, data.y)
    P = np.asarray(estimator.predict_proba(data.held[columns].T), dtype=np.float64)
    model = skops.io.dumps(estimator)
    if method != "none":
        P, model = _calibrated(data, kind, parameters, X, P, model, method)
    if not np.isfinite(P).all():
        raise ValueError("predict_proba gave NaN")
    return P, model


def _calibrated(
    data: StageData,
    kind: str,
    parameters: dict[str, Any],
    X: FloatArray,
    P: FloatArray,
    model: bytes,
    method: str,
) -> tuple[FloatArray, bytes]:
    """Return calibrated probabilities of the held records, and the model with its calibration."""
    from framework.models.calibration import fit_calibration, folds_of, join

    folds = folds_of(data.y, data.copy_of)
    unseen = np.empty((len(data.y), P.shape[1]))
    for fold in range(folds.max() + 1):
        others = folds != fold
        estimator = make_estimator(kind, parameters).fit(X[others], data.y[others])
        unseen[~others] = estimator.predict_proba(X[~others])
    calibration = fit_calibration(method, unseen, data.y)
    return calibration.apply(P), join(model, calibration)


def _decide(data: StageData, P: FloatArray, bits: WordArray) -> None:
    """Set the bits of one part from the probabilities (held records, classes)."""
    n, words = data.n_validation, data.validation_words
    for start, stop, w in ((0, n, slice(0, words)), (n, len(P), slice(words, None))):
        logistic.decide(
            np.ascontiguousarray(P[start:stop].T),
            data.thresholds,
            data.y_held[start:stop],
            data.positive,
            CONFIDENCE_SLACK,
            bits[:, w],
        )


def _with_ones(columns: FloatArray) -> FloatArray:
    """Return the design of a fit: columns (d, N) and the intercept's."""
    return np.concatenate([columns, np.ones((1, columns.shape[1]))])


def columns_of(first: IntArray, key: WordArray) -> IntArray:
    """Return the encoded columns of a feature set, ascending."""
    features = features_of(key, len(first) - 1)
    return np.concatenate([np.arange(first[f], first[f + 1]) for f in features])
