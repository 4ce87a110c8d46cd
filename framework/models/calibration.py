"""Calibration of a classifier's probabilities, and whether an answer is confident enough.

A classifier that is 90% confident should be right in 90% of the cases. The map from a classifier's
probabilities to calibrated ones is fitted by cross-validation within the training records: on
probabilities of each record from a classifier that was not trained on it. It is then applied to the
classifier that is trained on all training records, as scikit-learn's
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
"""How far below its threshold a probability may be, so that rounding does not decide ties."""

_CLIP = 1e-6  # smallest distance of a probability from 0 and 1, so that logits are finite
_RIDGE = 1e6  # C of the sigmoid's fit: so weak a penalty only matters if all scores are equal
_LENGTH = 8  # bytes that hold the length of a stored classifier


@dataclass(frozen=True)
class Calibration:
    """A map of probabilities to calibrated ones.

    It has a curve for each class, for two classes only one (of the second class), and for the
    method ``softmax`` a single matrix.

    Attributes
    ----------
    method : {'isotonic', 'sigmoid', 'softmax'}
    curves : tuple of numpy.ndarray of float64
        ``isotonic``: shape (2, knots), probabilities before and after, linear in between.
        ``sigmoid``: shape (2,), slope and offset of the calibrated logit as a linear function of
        the logit (Platt 1999).
        ``softmax``: shape (classes, classes + 1). Row k has the weights and the offset by which the
        logarithms of all probabilities give the score of class k (Kull et al. 2019).
    """

    method: str
    curves: tuple[FloatArray, ...]

    def apply(self, P: FloatArray) -> FloatArray:
        """Return calibrated probabilities, shape (n, classes), rows summing to 1.

        With more than two classes, the probability of each is calibrated against the rest and
        divided by their sum; if all of them are 0, the classes are equally likely.
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
        """Return the calibration that :meth:`to_json` wrote; raises InputError for other values."""
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
        Weight of each record.

    Notes
    -----
    Sigmoid: Platt scaling of the logit, with smoothed targets. Isotonic: pool adjacent violators
    (Zadrozny and Elkan 2002). Softmax: Dirichlet calibration (Kull et al. 2019), a multinomial
    regression on the logarithms with an L2 penalty.
    """
    if method == "softmax":
        return Calibration(method, (_softmax(P, y, weights),))
    fit = _isotonic if method == "isotonic" else _sigmoid
    columns = [1] if P.shape[1] == 2 else range(P.shape[1])
    return Calibration(method, tuple(fit(P[:, c], y == c, weights) for c in columns))


def _isotonic(p: FloatArray, positive: Array, weights: FloatArray | None) -> FloatArray:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(p, positive, sample_weight=weights)
    return np.array([model.X_thresholds_, model.y_thresholds_])


def _sigmoid(p: FloatArray, positive: Array, weights: FloatArray | None) -> FloatArray:
    """Fit Platt's sigmoid: targets t = (N+ + 1)/(N+ + 2) of positives, 1/(N- + 2) of the others.

    scikit-learn takes only labels as targets. So each record stands twice: as a positive one of
    weight t and as a negative one of weight 1 - t.
    """
    from sklearn.linear_model import LogisticRegression

    n: float = len(p)
    hits: float = int(positive.sum())
    if weights is not None:
        n, hits = float(weights.sum()), float(weights[positive].sum())
    target = np.where(positive, (hits + 1) / (hits + 2), 1 / (n - hits + 2))
    scores = np.concatenate([_logits(p)] * 2)[:, None]
    labels, shares = np.repeat([1, 0], len(p)), np.concatenate([target, 1 - target])
    if weights is not None:
        shares *= np.concatenate([weights, weights])
    model = LogisticRegression(C=_RIDGE, solver="newton-cholesky", tol=1e-10)
    model.fit(scores, labels, sample_weight=shares)
    return np.array([model.coef_[0, 0], model.intercept_[0]])


def _softmax(P: FloatArray, y: IntArray, weights: FloatArray | None) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    logs = np.log(np.clip(P, _CLIP, 1.0))
    model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(logs, y, sample_weight=weights)
    rows = np.column_stack([model.coef_, model.intercept_])
    return np.vstack([np.zeros_like(rows), rows]) if len(rows) == 1 else rows  # of two classes


def _logits(p: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(p, _CLIP, 1 - _CLIP)))


def folds_of(y: IntArray, copy_of: IntArray | None = None) -> IntArray:
    """Return the fold of each training record, shape (n,); every class is in several of them.

    There are ``FOLDS`` folds, or as many as the smallest class has records. Records with the same
    number in ``copy_of`` (n,), copies or those of one group, are a unit: they are in the same fold.
    Units of several classes are dealt first, each to the fold with the fewest units of its rarest
    class, then of the next one; units of one class fill up what the folds lack.

    Raises
    ------
    InputError
        A class has only one record, or is in one unit or fold alone.
    """
    unit = np.arange(len(y)) if copy_of is None else np.unique(copy_of, return_inverse=True)[1]
    in_unit = np.zeros((int(unit.max()) + 1, int(y.max()) + 1), dtype=bool)
    in_unit[unit.ravel(), y] = True
    units_of = in_unit.sum(axis=0)
    least = apart = int(units_of.min())
    # units of several classes may be in each other's way; another number of folds may part them
    for count in (min(FOLDS, least), *range(2, FOLDS + 1)) if least >= 2 else ():
        folds = _dealt(in_unit, units_of, count)
        apart = min(len(np.unique(folds[units])) for units in in_unit.T)
        if apart >= 2:
            break
    if apart < 2:
        what = "training records" if copy_of is None else "groups or distinct training records"
        raise InputError(
            f"problem.calibration: expected at least 2 {what} of each class, to be kept apart, "
            f"found {apart}; leave calibration out"
        )
    return folds[unit.ravel()]


def _dealt(in_unit: BoolArray, units_of: IntArray, count: int) -> IntArray:
    """Return the fold of each unit, by its classes (units, K) and by how many units have each."""
    folds = np.empty(len(in_unit), dtype=np.int64)
    held = np.zeros((count, len(units_of)), dtype=np.int64)  # units by fold and class
    by_rarity = np.argsort(units_of, kind="stable")
    mixed = np.flatnonzero(in_unit.sum(axis=1) > 1)
    rarest = in_unit[mixed][:, by_rarity].argmax(axis=1)
    for u in mixed[np.argsort(rarest, kind="stable")]:
        classes = by_rarity[in_unit[u, by_rarity]]
        folds[u] = np.lexsort(held[:, classes[::-1]].T)[0]
        held[folds[u], classes] += 1
    for c in range(len(units_of)):
        pure = np.flatnonzero(in_unit[:, c] & (in_unit.sum(axis=1) == 1))
        filled = held[:, c] + np.arange(len(pure))[:, np.newaxis]  # before a unit joins, by fold
        folds[pure] = np.argsort(filled.ravel(), kind="stable")[: len(pure)] % count
    return folds


class CalibratedProbability:
    """A fitted classifier with its calibration.

    Parameters
    ----------
    base : classifier with ``predict_proba``
    calibration : Calibration
    classes : (K,)

    Raises
    ------
    InputError
        The number of curves does not match that of the classes.
    """

    def __init__(self, base: Any, calibration: Calibration, classes: Array) -> None:
        self.base, self.calibration = base, calibration
        self.classes_ = np.asarray(classes)
        joint = calibration.method == "softmax"
        wanted = 1 if joint or len(self.classes_) == 2 else len(self.classes_)
        if len(calibration.curves) != wanted:
            raise InputError(
                f"calibration: expected {wanted} curves for {len(self.classes_)} classes, found "
                f"{len(calibration.curves)}"
            )
        if joint and len(calibration.curves[0]) != len(self.classes_):
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
    """Return the bytes of a classifier and of its calibration, joined."""
    length = len(classifier).to_bytes(_LENGTH, "little")
    return length + classifier + json.dumps(calibration.to_json()).encode()


def split(model: bytes) -> tuple[bytes, Calibration]:
    """Return the bytes of the classifier, and the calibration, that :func:`join` joined."""
    stop = _LENGTH + int.from_bytes(model[:_LENGTH], "little")
    return model[_LENGTH:stop], Calibration.from_json(json.loads(model[stop:]))


def decide(probabilities: FloatArray, thresholds: FloatArray) -> tuple[IntArray, BoolArray]:
    """Return the most likely class of each record, and whether it is confident enough.

    Of equally likely classes the first one is taken.

    Parameters
    ----------
    probabilities : float64 (n, K)
    thresholds : float64 (K,)
        The probability that is enough for an answer of each class.

    Returns
    -------
    best : int64 (n,)
    confident : bool (n,)
    """
    best = probabilities.argmax(axis=1)
    highest = probabilities[np.arange(len(best)), best]
    return best, highest >= thresholds[best] - CONFIDENCE_SLACK
