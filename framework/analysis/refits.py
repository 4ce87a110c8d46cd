"""How much of a figure fitting the models anew changes: from the folds' models to those handed out.

Out-of-fold figures are of the folds' models; those handed out are fitted on all records, and may
answer more often, or cost more. What is to be seen of it are the records that both were trained on:
the *shift* is the figure of the final models there, less that of the folds' models. How much of a
shift is also one on records that were not seen, the slope *beta*, is measured on pairs of folds'
models, on records that neither and that both of them have seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray
from framework.outcomes import RecordOutcomes, Refits


class Change(NamedTuple):
    """What fitting anew changes of a metric of solutions, (n,) each.

    Attributes
    ----------
    moved : numpy.ndarray of float64
        How much greater the figure of the final models is, on average.
    variance : numpy.ndarray of float64
        Of what remains unknown of it.
    """

    moved: FloatArray
    variance: FloatArray


def changes(refits: Refits, variances: Mapping[str, FloatArray]) -> dict[str, Change]:
    """Return what fitting anew changes of each metric of solutions.

    Parameters
    ----------
    refits : Refits
        Of the n solutions that are shown.
    variances : mapping of str to numpy.ndarray of float64, shape (n,)
        Of the out-of-fold figures over resamples of the records, by metric.

    Notes
    -----
    Of K folds, ``D[k]`` is how far model k is above the others on fold k, which they were trained
    on and it was not; ``C[k]`` is how far it is above them on the records that both were trained
    on. Beta is the slope of D on C through the origin, since a solution's C add up to 0, of all
    solutions together, from 0 to 1. What it leaves unexplained is a share of the variance between
    the folds' models: half that of the solution, half what solutions have on average for their
    variance. It is counted once for the final models, and once for the mean of the folds' models.
    """
    fold_of, folds = refits.fold_of, int(refits.fold_of.max()) + 1
    pairs = list(combinations(range(folds), 2))
    held_out = fold_of == np.arange(folds)[:, None]
    columns = [
        np.ones((1, len(fold_of))),
        held_out,
        ~held_out,
        *(~held_out[[i]] & ~held_out[[j]] for i, j in pairs),
    ]
    weights = np.concatenate(columns).T.astype(np.float32)
    models = [_figures(model, weights, variances) for model in refits.models]
    by_metric = {}
    for name, variance in variances.items():
        of = np.stack([model[name] for model in models])  # models, solutions, columns
        parts, whole = of[:folds], of[folds, :, 0]
        on_held_out = parts[:, :, 1 : folds + 1]
        trained = np.stack([parts[k, :, 1 + folds + k] for k in range(folds)])
        ahead = np.zeros((folds, len(variance)))
        for column, (i, j) in enumerate(pairs, start=1 + 2 * folds):
            gap = (parts[i, :, column] - parts[j, :, column]) / (folds - 1)
            ahead[i] += gap
            ahead[j] -= gap
        alone = np.stack([on_held_out[k, :, k] for k in range(folds)])
        others = (on_held_out.sum(axis=0).T - alone) / (folds - 1)
        beta = _slope(ahead, alone - others)
        spread = parts[:, :, 0].var(axis=0, ddof=1)
        usable = np.isfinite(spread) & (variance > 0)
        total = math.fsum(variance[usable])
        share = math.fsum(spread[usable]) / total if total else 0.0
        left = (1 + 1 / folds) * (1 - beta) * (spread + share * variance) / 2
        moved = beta * (whole - trained.mean(axis=0))
        by_metric[name] = Change(np.nan_to_num(moved), np.nan_to_num(left))
    return by_metric


def _figures(
    model: RecordOutcomes, weights: Array, names: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return metrics (n, b); NaN where no record is what they are about."""
    values, about = model.figures(weights, slice(None), names)
    return {
        name: np.where(about[name] > 0, values[name], np.nan) if name in about else values[name]
        for name in names
    }


def _slope(of: FloatArray, on: FloatArray) -> float:
    """Return the slope of a line through the origin, at least 0 and at most 1."""
    both = np.isfinite(of) & np.isfinite(on)
    square = math.fsum(of[both] ** 2)
    return min(max(math.fsum(of[both] * on[both]) / square, 0.0), 1.0) if square else 0.0
