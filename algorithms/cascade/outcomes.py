"""How cascades do on each record, and metrics of that which are no ratios of sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from framework.answers import Sums
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit
from framework.roles import Metric

RIGHT_CODE, WRONG_CODE = range(2)
"""Classes of what is said, of which nothing is known but whether it is right."""
TENTHS = "tenths"
"""Calibrated probability of being right, in tenths: a column of what answers pay."""
RIGHT, CALIBRATED, ANSWERED, ASKED, SAID = range(5)
"""Planes of :func:`walk`."""


class Policies(NamedTuple):
    """Cascades as arrays: in each row the models in the order of asking, -1 where it ends.

    Attributes
    ----------
    models, stages : numpy.ndarray of int64, shape (n, K)
        Positions in the table of calls; rows of the tables of stages.
    accept, refuse : numpy.ndarray of int64, shape (n, K)
        A level of at least ``accept`` is answered; else one of at most ``refuse`` is given up.
    abstains : bool
        Whether the last model's threshold counts too.
    """

    models: IntArray
    stages: IntArray
    accept: IntArray
    refuse: IntArray
    abstains: bool


class Facts(NamedTuple):
    """What is known of each record at each stage, and what calls cost.

    Attributes
    ----------
    level, right, tens, said : numpy.ndarray, shape (stages, N)
        See :class:`~algorithms.cascade.stages.Stage`; ``tens`` 0 where they are not asked for.
    costs : numpy.ndarray of int64, shape (costs, K, N)
        In multiples of ``scale``.
    fixed : numpy.ndarray of int64, shape (costs, K)
        Of every record, asked or not, for each model of a cascade.
    scale : numpy.ndarray of float64, shape (costs,)
        One such multiple, in the unit of the cost.
    """

    level: IntArray
    right: Array
    tens: IntArray
    said: IntArray
    costs: IntArray
    fixed: IntArray
    scale: FloatArray


@njit
def walk(
    models: IntArray,
    stages: IntArray,
    accept: IntArray,
    refuse: IntArray,
    abstains: bool,
    level: IntArray,
    right: Array,
    tens: IntArray,
    said: IntArray,
    costs: IntArray,
    fixed: IntArray,
) -> tuple[Array, IntArray]:
    """Send every record through every cascade; see :class:`Policies` and :class:`Facts`.

    Returns
    -------
    planes : numpy.ndarray of int32, shape (5, n, N)
        Right, calibrated tenths, answered, models asked, and the answer (-1 without one).
    paid : numpy.ndarray of int64, shape (costs, n, N)

    Notes
    -----
    O(n N K).
    """
    n, most = models.shape
    records = level.shape[1]
    planes = np.zeros((5, n, records), dtype=np.int32)
    paid = np.zeros((costs.shape[0], n, records), dtype=np.int64)
    for c in range(n):
        length = 0
        while length < most and models[c, length] >= 0:
            length += 1
        for kind in range(costs.shape[0]):
            for j in range(length):
                for r in range(records):
                    paid[kind, c, r] += fixed[kind, models[c, j]]
        for r in range(records):
            planes[4, c, r] = -1
            for j in range(length):
                m, s = models[c, j], stages[c, j]
                planes[3, c, r] += 1
                for kind in range(costs.shape[0]):
                    paid[kind, c, r] += costs[kind, m, r]
                last = j == length - 1 and not abstains
                if last or level[s, r] >= accept[c, j]:
                    planes[0, c, r] = right[s, r]
                    planes[1, c, r] = tens[s, r]
                    planes[2, c, r] = 1
                    planes[4, c, r] = said[s, r]
                    break
                if level[s, r] <= refuse[c, j]:
                    break
    return planes, paid


@njit
def upper_quantile(paid: IntArray, weights: FloatArray) -> FloatArray:
    """Return the least amount that 95% of the weight does not exceed, shape (n, b).

    Parameters
    ----------
    paid : numpy.ndarray of int64, shape (n, N)
    weights : numpy.ndarray of float64, shape (N, b)
        Whole numbers.
    """
    n, b = len(paid), weights.shape[1]
    out = np.zeros((n, b))
    for c in range(n):
        order = np.argsort(paid[c])
        for w in range(b):
            total = 0.0
            for r in order:
                total += weights[r, w]
            reached = 0.0
            for r in order:
                reached += weights[r, w]
                if 20.0 * reached >= 19.0 * total:
                    out[c, w] = paid[c, r]
                    break
    return out


class UpperQuantile(NamedTuple):
    """The amount that 95% of the records do not exceed.

    Attributes
    ----------
    metric : Metric
    paid : str
    """

    metric: Metric
    paid: str

    def of(self, sums: Sums) -> FloatArray:
        """Return its values, shape (n, b)."""
        weights = np.ascontiguousarray(sums.weights, dtype=np.float64)
        units = upper_quantile(sums.answers.paid[self.paid], weights)
        return np.asarray(units * sums.answers.scale[self.paid])


@dataclass(frozen=True)
class CalibratedAccuracy:
    """The mean calibrated probability that an answer is right.

    Under weights it moves as the accuracy does: calibrated outcomes lack the luck of single
    answers, and a range made of them would be too narrow.
    """

    metric: Metric
    follows_weights: ClassVar[bool] = False  # not that of records that are repeated so often

    def of(self, sums: Sums) -> FloatArray:
        """Return its values, shape (n, b)."""
        answers, n = sums.answers, len(sums.answers.records)
        ones = (answers.codes == RIGHT_CODE).sum(axis=1)[:, np.newaxis] / n
        tens = answers.paid[TENTHS].sum(axis=1)[:, np.newaxis] / n
        moved = sums.cells("outcomes")[0] / sums.total - ones
        return np.asarray(np.clip(tens / 10 + moved, 0.0, 1.0))
