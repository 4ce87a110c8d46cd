"""Metrics of a front's solutions in resamples of the records, kept beside the front for pages.

``resamples.npz`` has the ``ids`` of the solutions; ``metrics``, positions of metrics among those of
the run; and for each of these ``low``, ``high`` and ``steps``, its values as numbers of 65,534
equal steps from low to high. From this a page tells in how many resamples limits hold, without data
or problem.
"""

from __future__ import annotations

from io import BytesIO
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray
from framework.experiment.expected import Evidence
from framework.experiment.run_dir import RunDir
from framework.files import write_whole
from framework.front import Front
from framework.security import BAD_ARRAYS, JSON_BYTES, arrays_of, read_bytes

STEPS = 65_534  # one more stands for "not known"
_RESAMPLES, _FEWEST = 200, 25  # that are kept, and that are kept of a large front
_VALUES = 2_000_000  # of all solutions, metrics and resamples together, about


class FrontResamples(NamedTuple):
    """What ``resamples.npz`` holds.

    Attributes
    ----------
    names : tuple of str
        The metrics, m of them.
    low, high : numpy.ndarray of float64, shape (m,)
        The values that the steps 0 and 65,534 stand for.
    steps : numpy.ndarray of uint16, shape (m, solutions, resamples)
        65,535 where a solution has no value.
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    steps: Array


def keep_resamples(run_dir: RunDir, front: Front, resampled: Evidence) -> None:
    """Write ``resamples.npz`` of a front: the first 200 resamples or, of a large one, fewer."""
    if not len(front):
        return
    outcomes = resampled.resamples.outcomes
    places = [k for k, name in enumerate(front.roles.metrics) if name in outcomes.names]
    names = [[*front.roles.metrics][k] for k in places]
    count = max(_VALUES // (len(front) * max(len(names), 1)), _FEWEST)
    resamples = resampled.resamples.first(min(count, _RESAMPLES))
    pieces = [drawn for _, drawn in resamples.pieces(resampled.positions(front.ids), names)]
    values = np.empty((len(names), len(front), resamples.count))
    for k, name in enumerate(names):
        values[k] = np.concatenate([drawn[name] for drawn in pieces])
    finite = np.isfinite(values)
    low = np.where(finite, values, np.inf).min(axis=(1, 2), initial=np.inf)
    high = np.where(finite, values, -np.inf).max(axis=(1, 2), initial=-np.inf)
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    span = np.where(high > low, high - low, 1.0)[:, None, None]  # of a constant all steps are 0
    steps = np.full(values.shape, STEPS + 1, dtype=np.uint16)
    steps[finite] = np.rint(((values - low[:, None, None]) / span * STEPS)[finite])
    content = BytesIO()
    np.savez_compressed(
        content,
        ids=front.ids,
        metrics=np.array(places, dtype=np.int64),
        low=low,
        high=high,
        steps=steps,
    )
    write_whole(run_dir.resamples_file, content.getvalue())


def read_resamples(run_dir: RunDir, front: Front) -> FrontResamples | None:
    """Return the resamples of a front; None if there are none, or the file is of another front."""
    if not run_dir.resamples_file.is_file():
        return None
    run_dir.check_written(run_dir.resamples_file)
    try:
        arrays = arrays_of(read_bytes(run_dir.resamples_file, JSON_BYTES), JSON_BYTES)
        low, high, steps = arrays["low"], arrays["high"], arrays["steps"]
        names = tuple([*front.roles.metrics][k] for k in arrays["metrics"].tolist())
        fits = (
            np.array_equal(arrays["ids"], front.ids)
            and len(set(names)) == len(names)
            and arrays["metrics"].min(initial=0) >= 0
            and steps.dtype == np.uint16
            and steps.ndim == 3
            and steps.shape[:2] == (len(names), len(front))
            and steps.shape[2] > 0
            and low.shape == high.shape == (len(names),)
            and low.dtype == high.dtype == np.float64
            and bool(np.isfinite([low, high]).all())
        )
    except BAD_ARRAYS:
        return None
    return FrontResamples(names, low, high, steps) if fits else None
