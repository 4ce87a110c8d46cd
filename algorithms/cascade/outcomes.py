"""How cascades do on each record, and their metrics under weights of the records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit
from framework.outcomes import RecordOutcomes, weighted_sums

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
    enter : numpy.ndarray of int64, shape (n, K)
        A record begins at the first model that it reaches the router's level of, or at the last;
        0 asks no router.
    abstains : bool
        Whether the last model's threshold counts too.
    """

    models: IntArray
    stages: IntArray
    accept: IntArray
    refuse: IntArray
    enter: IntArray
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
    route : numpy.ndarray of int64, shape (K, N)
        The router's levels, by model; none, shape (K, 0), without one.
    route_costs : numpy.ndarray of int64, shape (costs,)
        Of each level that is asked for.
    scale : numpy.ndarray of float64, shape (costs,)
        One such multiple, in the unit of the cost.
    """

    level: IntArray
    right: Array
    tens: IntArray
    said: IntArray
    costs: IntArray
    fixed: IntArray
    route: IntArray
    route_costs: IntArray
    scale: FloatArray


@njit
def walk(
    models: IntArray,
    stages: IntArray,
    accept: IntArray,
    refuse: IntArray,
    enter: IntArray,
    abstains: bool,
    level: IntArray,
    right: Array,
    tens: IntArray,
    said: IntArray,
    costs: IntArray,
    fixed: IntArray,
    route: IntArray,
    route_costs: IntArray,
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
                paid[kind, c] += fixed[kind, models[c, j]]
                if j < length - 1 and enter[c, j] > 0:
                    paid[kind, c] += route_costs[kind]
        for r in range(records):
            planes[4, c, r] = -1
            start = 0
            while start < length - 1 and enter[c, start] > 0:
                if route[models[c, start], r] >= enter[c, start]:
                    break
                start += 1
            for j in range(start, length):
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


class CascadeOutcomes(RecordOutcomes):
    """How cascades do on each record.

    ``calibrated_accuracy`` moves, under weights, as ``accuracy`` does: calibrated outcomes lack the
    luck of single answers, and a range made of them would be too narrow.

    Parameters
    ----------
    policies : Policies
    facts : Facts
    names : collection of str
        The metrics that the problem reports.
    costs : sequence of str
        Names of the costs, in the order of ``facts.costs``.
    limit : float, optional
        Of the first cost, for the share of records above it.
    error_costs : numpy.ndarray of int64, shape (labels + 1, labels + 1), optional
        What it costs, in 1e-9, to say a label (column) of a true one (row); the last column is no
        answer, the last row a truth that is not known.
    truth : numpy.ndarray of int64, shape (N,), optional
    units : numpy.ndarray of int64, shape (N,), optional
    """

    def __init__(
        self,
        policies: Policies,
        facts: Facts,
        names: Collection[str],
        costs: Sequence[str],
        *,
        limit: float | None = None,
        error_costs: IntArray | None = None,
        truth: IntArray | None = None,
        units: IntArray | None = None,
    ) -> None:
        super().__init__(len(policies.models), facts.level.shape[1], names, units)
        self._policies, self._facts, self._costs = policies, facts, tuple(costs)
        self._limit, self._error_costs, self._truth = limit, error_costs, truth

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        wanted = set(self.names if names is None else names)
        p, f = self._policies, self._facts
        rows = [np.ascontiguousarray(part[candidates]) for part in p[:5]]
        planes, paid = walk(
            *(rows[0], rows[1], rows[2], rows[3], rows[4], p.abstains),
            *(f.level, f.right, f.tens, f.said, f.costs, f.fixed, f.route, f.route_costs),
        )
        total = weights.sum(axis=0, dtype=np.float64)
        answered = weighted_sums(planes[ANSWERED], weights)
        right = weighted_sums(planes[RIGHT], weights)
        values = {
            "accuracy": right / total,
            "conclusive_accuracy": right / np.maximum(answered, 1),
            "coverage": answered / total,
            "models_asked": weighted_sums(planes[ASKED], weights) / total,
        }
        if "calibrated_accuracy" in wanted:
            n = planes.shape[2]
            tens, ones = (planes[plane].sum(axis=1)[:, None] / n for plane in (CALIBRATED, RIGHT))
            moved = values["accuracy"] - ones
            values["calibrated_accuracy"] = np.clip(tens / 10 + moved, 0.0, 1.0)
        if "chain_length" in wanted:
            sizes = (p.models[candidates] >= 0).sum(axis=1).astype(np.float64)
            values["chain_length"] = np.repeat(sizes[:, None], len(total), axis=1)
        for i, name in enumerate(self._costs):
            if name in wanted:
                values[name] = weighted_sums(paid[i], weights) * f.scale[i] / total
            if f"p95_{name}" in wanted:
                found = upper_quantile(paid[i], np.ascontiguousarray(weights, dtype=np.float64))
                values[f"p95_{name}"] = found * f.scale[i]
        if self._limit is not None and "over_limit" in wanted:
            above = paid[0] > round(self._limit / f.scale[0])
            values["over_limit"] = weighted_sums(above, weights) / total
        if self._error_costs is not None and "error_cost" in wanted:
            assert self._truth is not None
            each = self._error_costs[self._truth[None, :], planes[SAID]]  # -1 is the last column
            values["error_cost"] = weighted_sums(each, weights) / (1e9 * total)
        return {name: values[name] for name in self.names if name in values}
