"""Calibrated probabilities of a classifier, and whether an answer is confident enough.

A classifier that is 90% confident should be right in 90% of the cases. The map from a classifier's
probabilities to calibrated ones is fitted by cross-validation within the training records, on
probabilities of classifiers that have not seen the record. It is then applied to the classifier
that is trained on all training records, as scikit-learn's
``CalibratedClassifierCV(ensemble=False)`` does. Validation and test records are not used for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError

FOLDS = 5
CONFIDENCE_SLACK = 1e-9
"""How far below its threshold a probability may be, so that a tie does not hang on rounding."""

_CLIP = 1e-6  # probabilities nearer to 0 or 1 count as this near: their logits stay finite
_RIDGE = 1e6  # C of the sigmoid's fit: regular also where the scores are constant
_LENGTH = 8  # bytes that say how long a stored classifier is


@dataclass(frozen=True)
class Calibration:
    """A map of probabilities: a curve for each class, or for the second one of two; or one for all.

    Attributes
    ----------
    method : {'isotonic', 'sigmoid', 'softmax'}
    curves : tuple of numpy.ndarray of float64
        ``isotonic``: shape (2, knots), probabilities before and after, linear in between.
        ``sigmoid``: shape (2,), slope and offset in the logit (Platt 1999).
        ``softmax``: a single one, shape (classes, classes + 1): weights of the logarithms of all
        probabilities, and an offset, for the logarithm of each (Kull et al. 2019).
    """

    method: str
    curves: tuple[FloatArray, ...]

    def apply(self, P: FloatArray) -> FloatArray:
        """Return calibrated probabilities, shape (n, classes), rows summing to 1.

        More than two classes are calibrated one against the rest and divided by their sum; where
        all of them are 0, all classes are as likely.
        """
        if self.method == "softmax":
            logs = np.log(np.clip(P, _CLIP, 1.0))
            weights = self.curves[0]
            return np.asarray(softmax(logs @ weights[:, :-1].T + weights[:, -1], axis=1))
        if P.shape[1] == 2:
            second = self._curve(0, P[:, 1])
            return np.column_stack([1.0 - second, second])
        mapped = np.column_stack([self._curve(c, P[:, c]) for c in range(P.shape[1])])
        total = mapped.sum(axis=1, keepdims=True)
        even = np.full_like(mapped, 1.0 / P.shape[1])
        return np.asarray(np.divide(mapped, total, out=even, where=total > 0))

    def _curve(self, c: int, p: FloatArray) -> FloatArray:
        curve = self.curves[c]
        if self.method == "isotonic":
            return np.asarray(np.interp(p, curve[0], curve[1]))
        return np.asarray(expit(curve[0] * _logits(p) + curve[1]))

    def to_json(self) -> dict[str, Any]:
        """Return method and curves as plain lists."""
        return {"method": self.method, "curves": [curve.tolist() for curve in self.curves]}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Calibration:
        """Return what ``to_json`` wrote.

        Raises
        ------
        InputError
            It is something else.
        """
        try:
            method, points = plain["method"], plain["curves"]
            curves = tuple(np.array(curve, dtype=np.float64) for curve in points)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"calibration: expected method and curves, found {error}") from error
        if (
            method not in ("isotonic", "sigmoid", "softmax")
            or not curves
            or not all(_is_curve(method, curve) for curve in curves)
        ):
            raise InputError("calibration: expected curves of finite numbers, found others")
        return cls(method, curves)


def _is_curve(method: str, curve: FloatArray) -> bool:
    if not np.isfinite(curve).all():
        return False
    if method == "sigmoid":
        return curve.shape == (2,)
    if method == "softmax":
        return curve.ndim == 2 and len(curve) > 1 and curve.shape[1] == len(curve) + 1
    rising = curve.ndim == 2 and len(curve) == 2 and curve.shape[1] > 0
    return rising and bool((np.diff(curve[0]) >= 0).all())


def fit_calibration(
    method: str, P: FloatArray, y: IntArray, weights: FloatArray | None = None
) -> Calibration:
    """Fit the curves.

    Parameters
    ----------
    method : {'isotonic', 'sigmoid', 'softmax'}
    P : numpy.ndarray of float64, shape (n, classes)
        Probabilities from classifiers that were not trained on the records.
    y : numpy.ndarray of int64, shape (n,)
        Class codes.
    weights : numpy.ndarray of float64, shape (n,), optional
        How much each record counts.

    Notes
    -----
    Sigmoid: Platt's, with his targets that keep away from 0 and 1, on the logit of the
    probability. Isotonic: pool adjacent violators (Zadrozny and Elkan 2002). Softmax: Dirichlet
    calibration (Kull et al. 2019), a multinomial regression on the logarithms with a small penalty.
    """
    if method == "softmax":
        return Calibration(method, (_softmax(P, y, weights),))
    fit = _isotonic if method == "isotonic" else _sigmoid
    columns = [1] if P.shape[1] == 2 else range(P.shape[1])
    return Calibration(method, tuple(fit(P[:, c], y == c, weights) for c in columns))


def _isotonic(p: FloatArray, positive: Array, each: FloatArray | None) -> FloatArray:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(p, positive, sample_weight=each)
    return np.array([model.X_thresholds_, model.y_thresholds_])


def _sigmoid(p: FloatArray, positive: Array, each: FloatArray | None) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    n: float = len(p)
    hits: float = int(positive.sum())
    if each is not None:
        n, hits = float(each.sum()), float(each[positive].sum())
    target = np.where(positive, (hits + 1) / (hits + 2), 1 / (n - hits + 2))
    scores = np.concatenate([_logits(p)] * 2)[:, None]
    sides, weights = np.repeat([1, 0], len(p)), np.concatenate([target, 1 - target])
    if each is not None:
        weights *= np.concatenate([each, each])
    model = LogisticRegression(C=_RIDGE, solver="newton-cholesky", tol=1e-10)
    model.fit(scores, sides, sample_weight=weights)
    return np.array([model.coef_[0, 0], model.intercept_[0]])


def _softmax(P: FloatArray, y: IntArray, each: FloatArray | None) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    logs = np.log(np.clip(P, _CLIP, 1.0))
    model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(logs, y, sample_weight=each)
    weights = np.column_stack([model.coef_, model.intercept_])
    return np.vstack([np.zeros_like(weights), weights]) if len(weights) == 1 else weights


def _logits(p: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(p, _CLIP, 1 - _CLIP)))


def folds_of(y: IntArray, copy_of: IntArray | None = None) -> IntArray:
    """Return the fold of each training record, shape (n,): classes dealt out in turn.

    ``FOLDS`` of them, fewer where a class has fewer records. Copies of a record, those with the
    same number in ``copy_of`` (n,), are in one fold.

    Raises
    ------
    InputError
        A class has one record only.
    """
    if copy_of is not None:
        _, first, which = np.unique(copy_of, return_index=True, return_inverse=True)
        return folds_of(y[first])[which]
    counts = np.bincount(y)
    least = int(counts.min())
    if least < 2:
        raise InputError(
            "problem.calibration: expected at least 2 training records of each class, found "
            f"{least}; leave calibration out"
        )
    folds = np.empty(len(y), dtype=np.int64)
    for c, count in enumerate(counts):
        folds[y == c] = np.arange(count) % min(FOLDS, least)
    return folds


class CalibratedProbability:
    """A classifier with its calibration; it can predict, but cannot be fitted.

    Parameters
    ----------
    base : classifier with ``predict_proba``
    calibration : Calibration
    classes : (K,)

    Raises
    ------
    InputError
        Another number of curves than the classes need.
    """

    def __init__(self, base: Any, calibration: Calibration, classes: Array) -> None:
        self.base, self.calibration = base, calibration
        self.classes_ = np.asarray(classes)
        together = calibration.method == "softmax"
        wanted = 1 if together or len(self.classes_) == 2 else len(self.classes_)
        if len(calibration.curves) != wanted:
            raise InputError(
                f"calibration: expected {wanted} curves for {len(self.classes_)} classes, found "
                f"{len(calibration.curves)}"
            )
        if together and len(calibration.curves[0]) != len(self.classes_):
            raise InputError(
                f"calibration: expected weights of {len(self.classes_)} classes, found "
                f"{len(calibration.curves[0])}"
            )
        if hasattr(base, "n_features_in_"):
            self.n_features_in_ = base.n_features_in_

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the calibrated probability (n, K) of each class for encoded records (n, D)."""
        return self.calibration.apply(np.asarray(self.base.predict_proba(X), dtype=np.float64))

    def predict(self, X: FloatArray) -> Array:
        """Return the most likely class (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def join(classifier: bytes, calibration: Calibration) -> bytes:
    """Return a stored classifier and its calibration as one sequence of bytes."""
    length = len(classifier).to_bytes(_LENGTH, "little")
    return length + classifier + json.dumps(calibration.to_json()).encode()


def split(model: bytes) -> tuple[bytes, Calibration]:
    """Return what ``join`` joined."""
    stop = _LENGTH + int.from_bytes(model[:_LENGTH], "little")
    return model[_LENGTH:stop], Calibration.from_json(json.loads(model[stop:]))


def decide(probabilities: FloatArray, thresholds: FloatArray) -> tuple[IntArray, BoolArray]:
    """Return the most likely class of each record (the first of equals), and if that is confident.

    Parameters
    ----------
    probabilities : float64 (n, K)
    thresholds : float64 (K,)
        The probability that an answer of each class needs.

    Returns
    -------
    best : int64 (n,)
    confident : bool (n,)
    """
    best = probabilities.argmax(axis=1)
    highest = probabilities[np.arange(len(best)), best]
    return best, highest >= thresholds[best] - CONFIDENCE_SLACK
