"""Training of sub-classifiers: from feature sets to bits per record and a model to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.arrays import FloatArray, IntArray, WordArray, frozen
from framework.kernels import logistic
from framework.models.confidence import CONFIDENCE_SLACK
from framework.problem import Parts
from framework.problems.classifiers import LOGISTIC_REGRESSION, make_estimator
from framework.problems.part_table import features_of, words_for


@dataclass(frozen=True)
class StageData:
    """Records in the form that training wants.

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
    """

    design: FloatArray
    y: IntArray
    held: FloatArray
    y_held: IntArray
    n_validation: int
    first: IntArray
    thresholds: FloatArray
    positive: int

    def __post_init__(self) -> None:
        # As arrays come out of Ray's object store: kernels are compiled once for both.
        for name in ("design", "y", "held", "y_held", "first", "thresholds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def n_features(self) -> int:
        return len(self.first) - 1

    @property
    def planes(self) -> int:
        """Bits kept a record: conclusive, right, and called positive where that has a meaning."""
        return 2 if self.positive < 0 else 3

    @property
    def validation_words(self) -> int:
        return words_for(self.n_validation)

    @property
    def words(self) -> int:
        """Words a plane: those of the validation records, then those of the test records."""
        return self.validation_words + words_for(len(self.y_held) - self.n_validation)


def train(data: StageData, kind: str, parameters: dict[str, Any], keys: WordArray) -> Parts:
    """Train a sub-classifier for each feature set; pure, each alone.

    Parameters
    ----------
    keys : numpy.ndarray of uint64, shape (m, key words)

    Returns
    -------
    Parts
        A model is, for ``logistic_regression``, the coefficients as little-endian float64,
        (free directions, D + 1); else the estimator in skops's format.
    """
    bits = np.zeros((len(keys), data.planes, data.words), dtype=np.uint64)
    if kind == LOGISTIC_REGRESSION:
        return _logistic(data, float(parameters.get("C", 1.0)), keys, bits)
    return _scikit_learn(data, kind, parameters, keys, bits)


def _logistic(data: StageData, C: float, keys: WordArray, bits: WordArray) -> Parts:
    basis = logistic.class_basis(len(data.thresholds))
    columns = np.arange(len(data.design))
    models = np.zeros((len(keys), basis.shape[1], len(columns) + 1))
    failed = logistic.fit_subsets(
        keys.copy(), data.first, columns, data.design, data.y, basis, C, data.held, data.y_held,
        data.n_validation, data.thresholds, data.positive, CONFIDENCE_SLACK, bits, models,
    )  # fmt: skip
    message = "logistic regression did not converge; lower C"
    errors = dict.fromkeys(np.flatnonzero(failed).tolist(), message)
    return Parts(keys, bits, [model.astype("<f8").tobytes() for model in models], errors)


def _scikit_learn(
    data: StageData, kind: str, parameters: dict[str, Any], keys: WordArray, bits: WordArray
) -> Parts:
    import skops.io

    errors: dict[int, str] = {}
    models: list[bytes] = []
    n, words = data.n_validation, data.validation_words
    for i, key in enumerate(keys):
        columns = columns_of(data.first, key)
        try:
            estimator = make_estimator(kind, parameters)
            estimator.fit(data.design[columns].T, data.y)
            P = np.ascontiguousarray(estimator.predict_proba(data.held[columns].T).T)
            if not np.isfinite(P).all():
                raise ValueError("predict_proba gave NaN")
            models.append(skops.io.dumps(estimator))
        except Exception as error:  # whatever an estimator raises is the part's error
            errors[i] = f"{type(error).__name__}: {error}"
            models.append(b"")
            continue
        for start, stop, w in ((0, n, slice(0, words)), (n, P.shape[1], slice(words, None))):
            part = np.ascontiguousarray(P[:, start:stop]), bits[i, :, w]
            logistic.decide(
                part[0], data.thresholds, data.y_held[start:stop], data.positive,
                CONFIDENCE_SLACK, part[1],
            )  # fmt: skip
    return Parts(keys, bits, models, errors)


def columns_of(first: IntArray, key: WordArray) -> IntArray:
    """Return the encoded columns of a feature set, ascending."""
    features = features_of(key, len(first) - 1)
    return np.concatenate([np.arange(first[f], first[f + 1]) for f in features])
