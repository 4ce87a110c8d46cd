"""The walk of every record through a cascade, and the metrics that cannot be computed from sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from framework.answers import Sums
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit
from framework.roles import Metric

RIGHT_CODE, WRONG_CODE = range(2)
"""Codes of answers, of which only matters whether they are right."""
TENTHS = "tenths"
"""Name of the column with the calibrated probability, in tenths, that an answer is right."""
RIGHT, CALIBRATED, ANSWERED, ASKED, SAID = range(5)
"""Positions of the planes that :func:`walk` returns."""


class Policies(NamedTuple):
    """Cascades as arrays: each row lists the models in the order of asking, then -1 to its end.

    Attributes
    ----------
    models : numpy.ndarray of int64, shape (n, K)
        Positions in the table of calls.
    stages : numpy.ndarray of int64, shape (n, K)
        Row of :class:`Facts` that holds after each of these models.
    accept, refuse : numpy.ndarray of int64, shape (n, K)
        A record with a level of at least ``accept`` is answered; otherwise, one with a level of at
        most ``refuse`` is given up.
    abstains : bool
        Whether the last model's thresholds apply too; if not, it answers whatever reaches it.
    """

    models: IntArray
    stages: IntArray
    accept: IntArray
    refuse: IntArray
    abstains: bool


class Facts(NamedTuple):
    """The state of each record at each stage, and the costs of calls.

    Attributes
    ----------
    level, right, said : numpy.ndarray, shape (stages, N)
        See :class:`~algorithms.cascade.stages.Stage`.
    tens : numpy.ndarray of int64, shape (stages, N)
        See :meth:`~algorithms.cascade.stages.Stages.tens`.
    costs : numpy.ndarray of int64, shape (costs, K, N)
        What each call costs, in multiples of ``scale``.
    fixed : numpy.ndarray of int64, shape (costs, K)
        What each record pays for every model of the cascade, whether or not that model is asked;
        in multiples of ``scale``.
    scale : numpy.ndarray of float64, shape (costs,)
        The value of 1 in ``costs`` and ``fixed``, in the unit of the cost.
    """

    level: IntArray
    right: Array
    tens: IntArray
    said: IntArray
    costs: IntArray
    fixed: IntArray
    scale: FloatArray


@njit
def walk(policies: Policies, facts: Facts) -> tuple[Array, IntArray]:
    """Send every record through every cascade.

    Returns
    -------
    planes : numpy.ndarray of int32, shape (5, n, N)
        Whether the answer is right, its calibrated tenths, whether there is an answer, how many
        models were asked, and the answer itself (-1 without one).
    paid : numpy.ndarray of int64, shape (costs, n, N)
        In multiples of ``Facts.scale``.

    Notes
    -----
    O(n N K).
    """
    models, stages, accept, refuse, abstains = policies
    level, right, tens, said, costs, fixed, _ = facts
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
            planes[SAID, c, r] = -1
            for j in range(length):
                m, s = models[c, j], stages[c, j]
                planes[ASKED, c, r] += 1
                for kind in range(costs.shape[0]):
                    paid[kind, c, r] += costs[kind, m, r]
                last = j == length - 1 and not abstains
                if last or level[s, r] >= accept[c, j]:
                    planes[RIGHT, c, r] = right[s, r]
                    planes[CALIBRATED, c, r] = tens[s, r]
                    planes[ANSWERED, c, r] = 1
                    planes[SAID, c, r] = said[s, r]
                    break
                if level[s, r] <= refuse[c, j]:
                    break
    return planes, paid


def limits_of(models: IntArray, facts: Facts) -> list[tuple[IntArray, IntArray] | None]:
    """Return the least and the most that a record can pay, (n,) each, for each cost.

    It is None if a model's calls cost different amounts: those of new records are then not known.
    ``models`` (n, K) are the chains of :class:`Policies`.
    """
    members = models >= 0
    limits: list[tuple[IntArray, IntArray] | None] = []
    for costs, fixed in zip(facts.costs, facts.fixed, strict=True):
        always = (fixed[models] * members).sum(axis=1)
        each = costs[:, 0][models] * members
        flat = bool((costs == costs[:, :1]).all())
        limits.append((always + each[:, 0], always + each.sum(axis=1)) if flat else None)
    return limits


@njit
def _upper_quantile(paid: IntArray, ascending: IntArray, weights: FloatArray) -> FloatArray:
    """Return the least amount that records with 95% of the weight do not exceed, shape (n, b).

    ``paid`` is (n, N), ``ascending`` (n, N) has the records by what they pay, and ``weights``
    (N, b) are whole numbers, so that every sum is exact.
    """
    n, b = len(paid), weights.shape[1]
    out = np.zeros((n, b))
    for c in range(n):
        order = ascending[c]
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
        Name of the column of answers with what each record pays.
    """

    metric: Metric
    paid: str

    def of(self, sums: Sums) -> FloatArray:
        """Return the values of n candidates under b columns of weights, shape (n, b)."""
        weights = np.ascontiguousarray(sums.weights, dtype=np.float64)
        paid = sums.answers.paid[self.paid]
        units = _upper_quantile(np.ascontiguousarray(paid), np.argsort(paid, axis=1), weights)
        return np.asarray(units * sums.answers.scale.get(self.paid, 1.0))


@dataclass(frozen=True)
class CalibratedAccuracy:
    """The mean calibrated probability that an answer is right.

    When records are weighted, the value changes by as much as the accuracy does. Calibrated
    outcomes lack the luck of single answers, so their own spread would give too narrow a range.
    """

    metric: Metric
    follows_weights: ClassVar[bool] = False  # weighting a record differs from repeating it

    def of(self, sums: Sums) -> FloatArray:
        """Return the values of n candidates under b columns of weights, shape (n, b)."""
        answers, n = sums.answers, len(sums.answers.records)
        accuracy = (answers.codes == answers.records.labels).sum(axis=1)[:, np.newaxis] / n
        tenths = answers.paid[TENTHS].sum(axis=1)[:, np.newaxis] / n
        change = sums.cells("outcomes")[0] / sums.total - accuracy
        return np.asarray(np.clip(tenths / 10 + change, 0.0, 1.0))
