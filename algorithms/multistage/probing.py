"""What sub-classifiers will take, told from fitting one of them to a few records."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from algorithms.multistage.component_table import features_of, pack, words_for
from algorithms.multistage.subclassifiers import MOST_COLUMNS, StageData, columns_of, train
from framework.arrays import FloatArray, WordArray
from framework.components import BuildCost
from framework.models.classifiers import LOGISTIC_REGRESSION, CalibrationMethod

_RECORDS = 500  # of the first fit
_TIMES = 4  # as many the next one has
_LONG = 0.05  # seconds after which a fit tells enough
_MOST = 4e9  # work of a step of the first fit: some tenths of a second
_WARM = 0.7  # steps of a fit that starts at the classifier on all columns, of those from zero


def demand(
    data: StageData,
    kind: str,
    parameters: dict[str, Any],
    keys: WordArray,
    calibration: CalibrationMethod,
) -> BuildCost:
    """Return what it takes to train sub-classifiers; arguments as of ``train``.

    Of a feature set of middle size, as many features as make a short fit are fitted to more and
    more of the training records, until that takes a while. The time is scaled by the work.
    """
    held = 8 * (words_for(data.n_features) + data.planes * data.words)
    if not len(keys):
        return BuildCost(0.0, held, _meanwhile(data, kind))
    widths = np.diff(data.first)
    columns = np.array([widths[list(features_of(key, data.n_features))].sum() for key in keys])
    middle = list(features_of(keys[np.argsort(columns)[len(keys) // 2]], data.n_features))
    while len(middle) > 1 and work(data, kind, widths[middle].sum(), _RECORDS) > _MOST:
        del middle[len(middle) // 2 :]

    def seconds(step: int) -> float:
        few = _some(data, middle, step)
        began = time.process_time()  # a busy machine makes no difference
        train(few, kind, parameters, pack(np.ones(len(middle), dtype=bool))[None], calibration)
        return time.process_time() - began

    n, step = len(data.y), max(1, len(data.y) // _RECORDS)
    seconds(max(1, n // 50))  # libraries load, kernels compile
    while (took := seconds(step)) < _LONG and step > 1:
        step = max(1, step // _TIMES)
    one = work(data, kind, widths[middle].sum(), n / step)
    whole = float(work(data, kind, columns, n).sum())
    if kind == LOGISTIC_REGRESSION and calibration == "none" and widths.sum() <= MOST_COLUMNS:
        # each starts at the classifier on all columns; so did the one timed, and was there
        whole = _WARM * whole + float(work(data, kind, widths.sum(), n))
    return BuildCost(took * whole / float(one), held, _meanwhile(data, kind))


def work(data: StageData, kind: str, columns: Any, records: float) -> Any:
    """Return to what the time of a fit is proportional; of Newton's method, that of a step.

    A step makes the Hessian and solves for it; see :mod:`~algorithms.multistage.kernels.logistic`.
    The unit is a multiplication in the sums over records, of which several are done at once; the
    other numbers are what else takes beside it, as measured with 3 to 100 classes.
    """
    if kind != LOGISTIC_REGRESSION:
        return records * (columns + 1.0)
    classes = len(data.thresholds)
    free, d = classes - 1, columns + 1.0
    sums = free**2 * records * (d**2 / 2 + 4.5 * d + 3.3 * classes)
    return sums + 10 * (free * d) ** 3 / 3


def _some(data: StageData, features: list[int], step: int) -> StageData:
    """Return some features of every so many records, of each class its share."""
    rows = np.sort(np.argsort(data.y, kind="stable")[::step])
    held = np.arange(0, len(data.y_held), step)
    columns = columns_of(data.first, pack(np.isin(np.arange(data.n_features), features)))

    def part(design: FloatArray, records: Any) -> FloatArray:
        return np.ascontiguousarray(design[np.ix_(columns, records)])

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
    )


def _meanwhile(data: StageData, kind: str) -> int:
    """Return how many bytes a fit takes: its columns, probabilities, and for Newton's method."""
    classes, records = len(data.thresholds), len(data.y) + len(data.y_held)
    newton = ((classes - 1) * (len(data.design) + 1)) ** 2 if kind == LOGISTIC_REGRESSION else 0
    return 8 * (records * (len(data.design) + classes + 2) + newton)
