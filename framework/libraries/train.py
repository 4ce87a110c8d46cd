"""Trains one model of a pool: out-of-fold and test predictions, and the fitted model itself."""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np

from framework.arrays import Array
from framework.libraries.folds import PoolData
from framework.libraries.members import predictions
from framework.libraries.pool import FAMILIES, PoolPlan
from framework.models.estimators import dump_estimator


class Trained(NamedTuple):
    """The results of training a model.

    Attributes
    ----------
    content : bytes
        The fitted model in skops's format.
    validation : float32 (n,) or (n, C)
        Each training record is predicted by a model that has not seen it; the validation records,
        where there are some, by the model itself.
    test : float32 (m,) or (m, C)
        Predicted by the model itself.
    seconds : float
        Taken by all of it.
    """

    content: bytes
    validation: Array
    test: Array
    seconds: float


def train(plan: PoolPlan, data: PoolData) -> Trained:
    """Train a model on all folds but one, for each fold, and then on all training records.

    One thread, so that the result is the same anywhere.

    Raises
    ------
    Exception
        Whatever the model raises; ValueError where a prediction is not finite.
    """
    from threadpoolctl import threadpool_limits

    family, start = FAMILIES[plan.family], time.perf_counter()
    codes = None if data.classes is None else range(len(data.classes))
    wide = data.classes is not None and len(data.classes) > 2
    asked = len(data.asked)
    shape = (asked, len(data.classes or ())) if wide else (asked,)
    held_out = np.full(shape, np.nan)
    final = family.make(plan, data.task)  # loads what it needs before the threads are limited
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged is a model too
        for fold in data.folds:
            others = np.setdiff1d(np.arange(len(data.y)), fold.held)
            model = family.make(plan, data.task).fit(fold.design[others], data.y[others])
            held_out[fold.held] = predictions(model, fold.design[fold.held], codes)
        final.fit(data.design, data.y)
        if data.validation is not None:
            held_out[:] = predictions(final, data.validation, codes)
        if len(data.test):
            test = predictions(final, data.test, codes)
        else:
            test = np.empty((0, *held_out.shape[1:]))
        content = dump_estimator(final, plan.id)
    if not (np.isfinite(held_out).all() and np.isfinite(test).all()):
        raise ValueError("it predicts values that are not finite")
    seconds = time.perf_counter() - start
    return Trained(content, held_out.astype(np.float32), test.astype(np.float32), seconds)
