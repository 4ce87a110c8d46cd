"""How much refitting changes a figure: from the models of the folds to the exported ones.

Out-of-fold figures measure the models of the folds. The exported models are fitted on all records
and may, say, answer more often or cost more. The two can be compared only on records that both were
trained on: the *shift* is the figure of the exported models there, less that of the models of the
folds. Which share *beta* of a shift carries over to new records is estimated from pairs of models
of folds, by their differences on records that both of them, or only one of them, was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from framework.arrays import BoolArray, FloatArray, IntArray
from framework.outcomes import RecordOutcomes, Refits


class Change(NamedTuple):
    """What refitting changes in one metric of n solutions.

    Attributes
    ----------
    moved : numpy.ndarray of float64, shape (n,)
        How much greater the figure of the exported models is expected to be.
    variance : numpy.ndarray of float64, shape (n,)
        The variance of the part of the change that remains unknown.
    """

    moved: FloatArray
    variance: FloatArray


def changes(refits: Refits, variances: Mapping[str, FloatArray]) -> dict[str, Change]:
    """Return what refitting changes in each metric of n solutions.

    Parameters
    ----------
    refits : Refits
        The refits of these solutions.
    variances : mapping of str to numpy.ndarray of float64, shape (n,)
        The variances of the out-of-fold figures over resamples of the records, by metric.

    Notes
    -----
    With K folds, ``D[k]`` is how far model k is above the others on fold k, which they were trained
    on and it was not; ``C[k]`` is how far it is above them on the records that both were trained
    on. Beta is the slope of D on C over all solutions, clipped to 0..1; the line goes through the
    origin, since the C of a solution add up to 0. A part of 1 - beta of the variance between the
    models of the folds remains unexplained. This variance is estimated half from the solution
    itself, half from the average ratio to ``variances``. It counts once for the exported models,
    and 1 / K times for the mean of the models of the folds.
    """
    fold_of, folds = refits.fold_of, int(refits.fold_of.max()) + 1
    pairs = list(combinations(range(folds), 2))
    each, every = np.eye(folds, dtype=bool), np.ones((folds, 1), dtype=bool)
    # sets of records: all, each fold, all but each fold, all but each pair of folds
    unions = np.column_stack([every, each, ~each, *(~each[i] & ~each[j] for i, j in pairs)])
    models = [_figures(model, fold_of, unions, variances) for model in refits.models]
    by_metric = {}
    for name, variance in variances.items():
        figures = np.stack([model[name] for model in models])  # models, solutions, columns
        parts, whole = figures[:folds], figures[folds, :, 0]
        on_held_out = parts[:, :, 1 : folds + 1]  # [j, :, k] is model j on fold k
        trained = np.stack([parts[k, :, 1 + folds + k] for k in range(folds)])
        C = np.zeros((folds, len(variance)))
        for column, (i, j) in enumerate(pairs, start=1 + 2 * folds):
            gap = (parts[i, :, column] - parts[j, :, column]) / (folds - 1)
            C[i] += gap
            C[j] -= gap
        alone = np.stack([on_held_out[k, :, k] for k in range(folds)])
        others = (on_held_out.sum(axis=0).T - alone) / (folds - 1)
        beta = _slope(C, alone - others)
        spread = parts[:, :, 0].var(axis=0, ddof=1)
        usable = np.isfinite(spread) & (variance > 0)
        total = math.fsum(variance[usable])
        share = math.fsum(spread[usable]) / total if total else 0.0
        left = (1 + 1 / folds) * (1 - beta) * (spread + share * variance) / 2
        moved = beta * (whole - trained.mean(axis=0))
        by_metric[name] = Change(np.nan_to_num(moved), np.nan_to_num(left))
    return by_metric


def _figures(
    model: RecordOutcomes, fold_of: IntArray, unions: BoolArray, names: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return metrics, (n, b) each; NaN where a metric is taken over no record."""
    values, about = model.figures_of_folds(fold_of, unions, names)
    return {
        name: np.where(about[name] > 0, values[name], np.nan) if name in about else values[name]
        for name in names
    }


def _slope(x: FloatArray, y: FloatArray) -> float:
    """Return the least-squares slope of a line through the origin, clipped to 0..1."""
    both = np.isfinite(x) & np.isfinite(y)
    square = math.fsum(x[both] ** 2)
    return min(max(math.fsum(x[both] * y[both]) / square, 0.0), 1.0) if square else 0.0
