"""Trains the classifiers of stages, scores them as bits per record, and estimates training times.

The classifier of a feature set is trained on the training records and asked once about the held-out
ones. Its answers are kept as bits and the classifier as bytes, from which :func:`restore` makes it
again. In a cross-validation, each fold has a classifier, which answers the records of the fold. The
classifiers fitted on all records are trained apart, for the few designs whose figures on test
records or whose models are asked for.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from algorithms.moves.bits import pack, unpack, words_for
from algorithms.multistage.bit_planes import features_of
from algorithms.multistage.kernels import binary, decisions, logistic
from algorithms.multistage.records import MOST_COEFFICIENTS, StageData
from framework.arrays import FloatArray, IntArray, WordArray
from framework.components import BuildCost, Components
from framework.errors import InputError
from framework.libraries.checks import probabilities_of
from framework.machine import thread_count
from framework.models.boosted import BoostedTrees, as_plain
from framework.models.calibration import CONFIDENCE_SLACK
from framework.models.classifiers import (
    LOGISTIC_REGRESSION,
    CalibrationMethod,
    Prototype,
    make_estimator,
)
from framework.security import array_of

_ARRAY = b"\x93NUMPY"  # how an array in numpy's format begins
LARGEST_MODEL = 65536  # bytes; larger models are not kept, only their bits
_NOT_CONVERGED = "logistic regression did not converge; lower C"
_ANSWERS = 2**24  # bytes of answers that are unpacked at a time
# how build_cost() times fits
_RECORDS = 500  # records of the first fit
_TIMES = 4  # each further fit has so many times as many
_LONG = 0.05  # seconds that the last fit must take
_MOST = 4e9  # greatest work of a step of the first fit: some tenths of a second
_OF_MANY = 0.35  # share of the time of full Newton steps that a fit on many records takes
_VECTORS = 8  # of all records, that a fit by Newton's method has beside probabilities
_WARM = 0.4  # share of the time of a fit from zero that a fit with a start takes

Fitted = tuple[FloatArray, FloatArray | None, Any]
"""Probabilities (held-out records, classes); those of the training records, out-of-fold, if a
calibration needs them, else None; the classifier, or bytes from which :func:`restore` makes it."""


class Recipe(NamedTuple):
    """How the classifiers of stages are trained.

    Attributes
    ----------
    kind : str
        Of the classifiers.
    parameters : dict
        Those of the configuration, or a ``Prototype``, an estimator of the user's.
    calibration : {'none', 'isotonic', 'sigmoid', 'softmax'}
        How probabilities are calibrated, by cross-validation within the training records.
    """

    kind: str
    parameters: dict[str, Any]
    calibration: CalibrationMethod = "none"

    @property
    def together(self) -> bool:
        """Whether the classifiers of many feature sets are fitted in one call."""
        return self.kind == LOGISTIC_REGRESSION and self.calibration == "none"


def train(
    data: StageData,
    recipe: Recipe,
    keys: WordArray,
    *,
    keep_all: bool = False,
    stored: bool = True,
) -> Components:
    """Train a sub-classifier for each feature set, each independently of the others.

    Parameters
    ----------
    keys : numpy.ndarray of uint64, shape (m, key words)
    keep_all : bool
        Whether to return large models, too.
    stored : bool
        Whether to return models that are slow to write.

    Returns
    -------
    Components
        A model of ``logistic_regression`` is its coefficients as little-endian float64, (free
        directions, D + 1); one of XGBoost or CatBoost is an array; one of another kind is in
        skops's format; one of the user's is empty. With calibration, the model is what
        :func:`framework.models.calibration.join` makes of that. A model of more than
        ``LARGEST_MODEL`` bytes is empty, too: training it again takes less than keeping thousands.
        In a cross-validation, models are empty: users get none of those of the folds.
    """
    if data.folds:
        return _cross_fitted(data, recipe, keys)
    bits = np.zeros((len(keys), data.planes, data.words), dtype=np.uint64)
    if recipe.together:
        trained = _logistic(data, float(recipe.parameters.get("C", 1.0)), keys, bits)
    else:
        trained = _one_by_one(data, recipe, keys, bits, stored)
    if keep_all:
        return trained
    models = [model if len(model) <= LARGEST_MODEL else b"" for model in trained.models]
    return Components(trained.keys, trained.bits, models, trained.errors)


def _cross_fitted(data: StageData, recipe: Recipe, keys: WordArray) -> Components:
    """Train a classifier for each fold."""
    n, words = data.n_validation, data.validation_words
    bits = np.zeros((len(keys), data.planes, words), dtype=np.uint64)
    errors: dict[int, str] = {}
    step = max(1, _ANSWERS // (data.planes * n))
    for start in range(0, len(keys), step):
        some = keys[start : start + step]
        answers = np.zeros((len(some), data.planes, 64 * words), dtype=np.uint8)
        for number, fold in enumerate(data.folds, start=1):
            trained = train(fold.data, recipe, some, stored=False)
            answers[:, :, fold.rows] = unpack(trained.bits, len(fold.rows))
            for i, error in trained.errors.items():
                errors.setdefault(start + i, f"fold {number}: {error}")
        bits[start : start + step] = pack(answers)
    bits[list(errors)] = 0  # a component with an error has no answers
    return Components(keys, bits, [b""] * len(keys), errors)


def out_of_fold(
    data: StageData, recipe: Recipe, key: WordArray, classes: Sequence[Any]
) -> FloatArray:
    """Return the out-of-fold probabilities (records, classes) of classifiers of one feature set.

    Raises
    ------
    InputError
        One of them cannot be trained.
    """
    P = np.zeros((data.n_validation, len(classes)))
    for fold in data.folds:
        classifier = fitted(fold.data, recipe, key, classes)
        P[fold.rows] = classifier.predict_proba(fold.data.held[columns_of(fold.data.first, key)].T)
    return P


def fitted(data: StageData, recipe: Recipe, key: WordArray, classes: Sequence[Any]) -> Any:
    """Return the classifier of one feature set, trained on all training records.

    Raises
    ------
    InputError
        It cannot be trained.
    """
    if not isinstance(recipe.parameters, Prototype):
        trained = train(data, recipe, key[None], keep_all=True)
        if trained.errors:
            raise InputError(f"problem.classifier: {trained.errors[0]}")
        return restore(trained.models[0], data, recipe, classes, key)
    from framework.models.calibration import CalibratedProbability, fit_calibration, folds_of

    folds = None if recipe.calibration == "none" else folds_of(data.y, data.copy_of)
    columns = columns_of(data.first, key)
    try:
        _, unseen, classifier = _fit_estimator(data, recipe, folds, columns)
    except Exception as error:  # whatever an estimator raises
        raise InputError(f"classifier: {type(error).__name__}: {error}") from error
    if unseen is None:
        return classifier
    curves = fit_calibration(recipe.calibration, unseen, data.y, data.sample_weights)
    return CalibratedProbability(classifier, curves, np.asarray(classes))


def _logistic(data: StageData, C: float, keys: WordArray, bits: WordArray) -> Components:
    basis = logistic.class_basis(len(data.thresholds))
    models = np.zeros((len(keys), basis.shape[1], len(data.design)))
    training = logistic.Fit(*data.records, data.first, basis, C, data.start(C))
    decision = data.thresholds, data.positive, CONFIDENCE_SLACK, data.rule
    held = logistic.HeldOut(data.held, data.y_held, data.n_validation, *decision)
    ready = data.logistic_fits.fill(C, keys, models)
    failed = logistic.fit_subsets(keys.copy(), training, held, bits, models, ready)
    fresh = ~ready & (failed == 0)
    data.logistic_fits.keep(C, keys[fresh], models[fresh])
    errors = dict.fromkeys(np.flatnonzero(failed).tolist(), _NOT_CONVERGED)
    return Components(keys, bits, [model.astype("<f8").tobytes() for model in models], errors)


def _one_by_one(
    data: StageData, recipe: Recipe, keys: WordArray, bits: WordArray, stored: bool
) -> Components:
    """Train one estimator after the other: any that :func:`_logistic` does not train."""
    from framework.models.calibration import fit_calibration, folds_of, join

    kind, parameters, method = recipe
    folds = None if method == "none" else folds_of(data.y, data.copy_of)
    fit: Callable[[IntArray], Fitted]
    threads: AbstractContextManager[Any]  # with several, some sums depend on their number
    if kind == LOGISTIC_REGRESSION:
        fit = partial(_fit_logistic, data, float(parameters.get("C", 1.0)), folds)
        threads = nullcontext()
    else:
        make_estimator(kind, parameters)  # load the library first, so that its threads are limited
        fit = partial(_fit_estimator, data, recipe, folds)
        threads = _libraries(len(sys.modules)).limit(limits=1)
    stored = stored and not isinstance(parameters, Prototype)
    errors: dict[int, str] = {}
    models = [b""] * len(keys)
    with threads:
        for i, key in enumerate(keys):
            try:
                P, unseen, classifier = fit(columns_of(data.first, key))
                model = _stored(classifier) if stored else b""
                if unseen is not None:
                    calibration = fit_calibration(method, unseen, data.y, data.sample_weights)
                    P, model = calibration.apply(P), join(model, calibration) if stored else b""
                P = probabilities_of(P, (len(data.y_held), len(data.thresholds)))
            except _NotConvergedError:
                errors[i] = _NOT_CONVERGED
            except Exception as error:  # whatever an estimator raises is the component's error
                errors[i] = f"{type(error).__name__}: {error}"
            else:
                models[i] = model
                _decide(data, P, bits[i])
    return Components(keys, bits, models, errors)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the libraries with threads that so many modules have loaded: to look takes 5 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _NotConvergedError(Exception):
    """Newton's method found no minimum."""


def _fit_logistic(data: StageData, C: float, folds: IntArray | None, columns: IntArray) -> Fitted:
    assert folds is not None  # without calibration, many are fitted at a time
    basis = logistic.class_basis(len(data.thresholds))
    rows = [*columns, -1]
    S, E = data.design[rows], data.held[rows]
    theta = np.zeros((basis.shape[1], len(S)))
    unseen, P = np.empty((len(basis), len(data.y))), np.empty((len(basis), len(data.y_held)))
    if not (
        logistic.out_of_fold(S, data.y, data.weights, folds, basis, C, unseen)
        and logistic.fit(S, data.y, data.weights, basis, C, theta)
    ):
        raise _NotConvergedError
    logistic.probabilities(E, theta, basis, P)
    model = np.zeros((len(theta), len(data.design)))
    model[:, rows] = theta
    return P.T, unseen.T, model.astype("<f8").tobytes()


def _fit_estimator(
    data: StageData, recipe: Recipe, folds: IntArray | None, columns: IntArray
) -> Fitted:
    from sklearn.exceptions import ConvergenceWarning

    X = data.design[columns].T

    def fit(records: Any) -> Any:
        estimator = make_estimator(recipe.kind, recipe.parameters)
        weights = data.sample_weights
        weighted = {} if weights is None else {"sample_weight": weights[records]}
        return as_plain(estimator.fit(X[records], data.y[records], **weighted))

    # a network that has not converged is a classifier, too; of thousands, each would say so
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        estimator = fit(slice(None))
        P = np.zeros((0, len(data.thresholds)))
        if len(data.y_held):  # estimators refuse a table without records
            P = np.asarray(estimator.predict_proba(data.held[columns].T), dtype=np.float64)
        if folds is None:
            return P, None, estimator
        unseen = np.empty((len(data.y), P.shape[1]))
        for fold in range(folds.max() + 1):
            here = folds == fold
            unseen[here] = fit(~here).predict_proba(X[here])
    return P, unseen, estimator


def _stored(classifier: Any) -> bytes:
    """Return a classifier as bytes, from which :func:`restore` makes it again."""
    if isinstance(classifier, bytes):
        return classifier
    if isinstance(classifier, BoostedTrees):
        file = BytesIO()
        np.save(file, classifier.to_array(), allow_pickle=False)
        return file.getvalue()
    import skops.io

    content: bytes = skops.io.dumps(classifier)
    return content


def _decide(data: StageData, P: FloatArray, bits: WordArray) -> None:
    """Set the bits of one component from the probabilities (held records, classes)."""
    n, words = data.n_validation, data.validation_words
    for start, stop, w in ((0, n, slice(0, words)), (n, len(P), slice(words, None))):
        part, y, positive = np.ascontiguousarray(P[start:stop].T), data.y_held, data.positive
        if len(data.rule.errors):
            decisions.decide_by_risk(part, data.rule, y[start:stop], positive, bits[:, w])
            continue
        about = positive, CONFIDENCE_SLACK, data.rule.limits
        decisions.decide(part, data.thresholds, y[start:stop], *about, bits[:, w])


def columns_of(first: IntArray, key: WordArray) -> IntArray:
    """Return the encoded columns of a feature set, ascending."""
    return np.flatnonzero(np.repeat(unpack(key, len(first) - 1), np.diff(first)))


def restore(
    model: bytes,
    data: StageData,
    recipe: Recipe,
    classes: Sequence[Any],
    key: WordArray,
) -> Any:
    """Return the classifier of a stage, ready to predict, from its stored model.

    Parameters
    ----------
    model : bytes
        As :func:`train` returns it.
    data : StageData
    recipe : Recipe
    classes : sequence
        Labels, by class code.
    key : numpy.ndarray of uint64, shape (words,)
        The feature set that it was trained on.
    """
    labels = np.asarray(classes)
    if recipe.calibration != "none":
        from framework.models.calibration import CalibratedProbability, split

        base, curves = split(model)
        plain = restore(base, data, recipe._replace(calibration="none"), classes, key)
        return CalibratedProbability(plain, curves, labels)
    if recipe.kind != LOGISTIC_REGRESSION:
        if model.startswith(_ARRAY):
            return BoostedTrees(labels, array_of(model))
        from framework.models.classifiers import load_classifier

        return load_classifier(model, f"sub-classifier {recipe.kind}")
    from framework.models.classifiers import LinearProbability

    basis = logistic.class_basis(len(labels))
    weights: FloatArray = basis @ np.frombuffer(model, dtype="<f8").reshape(basis.shape[1], -1)
    if len(labels) == 2:  # only the second class has scores
        weights = weights[1:]
    columns = columns_of(data.first, key)
    return LinearProbability(labels, weights[:, columns], weights[:, -1])


def build_cost(data: StageData, recipe: Recipe, keys: WordArray) -> BuildCost:
    """Estimate the time and memory of training the sub-classifiers of keys (m, words).

    Some features of a set of middle size, few enough for a short fit, are fitted to more and more
    of the training records, until a fit takes long enough to time. The time is then scaled by the
    :func:`work` of all fits. In a cross-validation, that of the first fold is multiplied by the
    number of folds.
    """
    kind = recipe.kind
    stored = 8 * (words_for(data.n_features) + data.planes * data.words)
    if data.folds:
        fold = data.folds[0].data
        cost = build_cost(fold, recipe, keys)
        building = max(cost.bytes_building, _bytes_of_fits(data, recipe))
        return BuildCost(len(data.folds) * cost.seconds, stored, building)
    if not len(keys):
        return BuildCost(0.0, stored, _bytes_of_fits(data, recipe))
    widths = np.diff(data.first)
    columns = unpack(keys, data.n_features) @ widths
    middle = features_of(keys[np.argsort(columns)[len(keys) // 2]], data.n_features).tolist()
    while len(middle) > 1 and work(data, kind, widths[middle].sum(), _RECORDS) > _MOST:
        del middle[len(middle) // 2 :]

    def seconds(step: int) -> float:
        few = _subset(data, middle, step)
        began = time.process_time()  # unlike wall time, not that of other processes
        train(few, recipe, pack(np.ones(len(middle), dtype=bool))[None])
        return time.process_time() - began

    n, step = len(data.y), max(1, len(data.y) // _RECORDS)
    seconds(max(1, n // 50))  # not timed: libraries load and kernels compile
    while (took := seconds(step)) < _LONG and step > 1:
        step = max(1, step // _TIMES)
    timed = work(data, kind, widths[middle].sum(), n / step)
    total = float(work(data, kind, columns, n).sum())
    coefficients = (len(data.thresholds) - 1) * (widths.sum() + 1)
    if recipe.together and coefficients <= MOST_COEFFICIENTS:
        # fits have a start, which takes a fit on all columns; the timed fit was that fit itself
        total = _WARM * total + float(work(data, kind, widths.sum(), n))
    return BuildCost(took * total / float(timed), stored, _bytes_of_fits(data, recipe))


def work(data: StageData, kind: str, columns: Any, records: float) -> Any:
    """Return a number to which the time of a fit is proportional.

    For logistic regression it is the work of a step of Newton's method, which makes a Hessian and
    solves for it. The unit is one multiplication in the sums over records. The factors 4.5, 3.3 and
    10 were measured with 3 to 100 classes.
    """
    if kind != LOGISTIC_REGRESSION:
        return records * (columns + 1.0)
    classes = len(data.thresholds)
    free, d = classes - 1, columns + 1.0
    sums = free**2 * records * (d**2 / 2 + 4.5 * d + 3.3 * classes)
    if records >= binary.LARGE:
        sums = _OF_MANY * sums
    return sums + 10 * (free * d) ** 3 / 3


def _subset(data: StageData, features: list[int], step: int) -> StageData:
    """Return some features of one in ``step`` records of each class, two of each at least."""
    order = np.argsort(data.y, kind="stable")
    place = np.arange(len(order))
    of_class = place - np.searchsorted(data.y[order], data.y[order])
    rows = np.sort(order[(place % step == 0) | (of_class < 2)])
    held = np.arange(0, len(data.y_held), step)
    columns = columns_of(data.first, pack(np.isin(np.arange(data.n_features), features)))

    def part(design: FloatArray, records: Any) -> FloatArray:
        return np.ascontiguousarray(design[np.ix_([*columns, -1], records)])

    widths = np.diff(data.first)[features]
    return StageData(
        design=part(data.design, rows),
        y=data.y[rows],
        held=part(data.held, held),
        y_held=data.y_held[held],
        n_validation=int((held < data.n_validation).sum()),
        first=np.concatenate([[0], np.cumsum(widths)]),
        thresholds=data.thresholds,
        positive=data.positive,
        rule=data.rule,
        class_weights=data.class_weights,
    )


def _bytes_of_fits(data: StageData, recipe: Recipe) -> int:
    """Return the bytes of the fits that run at a time.

    A fit has its columns, its probabilities and, if it needs one, its Hessian. Fits of many feature
    sets have no columns of their own, but some vectors in each thread.
    """
    classes, records, columns = len(data.thresholds), len(data.y) + len(data.y_held), data.design
    newton = ((classes - 1) * len(columns)) ** 2 if recipe.kind == LOGISTIC_REGRESSION else 0
    if recipe.together:
        return 8 * thread_count() * (records * (classes + _VECTORS) + newton)
    return 8 * (records * (len(columns) + classes + 1) + newton)
