"""How ordered partitions do on each record, and their metrics under weights of the records."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import POSITIVE, RISKS, HeldOutRecords, by_class, of_positive
from framework.arrays import Array, BoolArray, FloatArray, IntArray, frozen, sum_in_order
from framework.outcomes import RecordOutcomes, weighted_sums
from framework.rates import FAILED, NO_ANSWER

_ANSWERED, _RIGHT, _CALLED = range(3)  # planes of record_outcomes()
_BY_CLASS = {"balanced_accuracy", "worst_recall", "error_cost"}
_RISKS = {metric.name for metric in RISKS}
_OF_POSITIVE = {metric.name for metric in POSITIVE}
_Sent = tuple[Array, IntArray, IntArray, BoolArray]


class StageOutcomes(RecordOutcomes):
    """How ordered partitions do on each record.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)
        Genomes. Records are sent through them when metrics are asked for: nothing is kept.
    table : Held
        Has every stage classifier that the genomes need.
    records : HeldOutRecords
    charges, cost_scale, error_costs
        As of :func:`~algorithms.multistage.metrics.measure`.
    names : collection of str
        The metrics that the problem reports.
    units : numpy.ndarray of int64, shape (records,), optional
        See :class:`~framework.outcomes.RecordOutcomes`.
    """

    def __init__(
        self,
        X: Array,
        table: scoring.Held,
        records: HeldOutRecords,
        charges: scoring.Charges,
        cost_scale: int,
        error_costs: FloatArray | None,
        names: Collection[str],
        units: IntArray | None = None,
    ) -> None:
        super().__init__(len(X), len(records.labels), names, units)
        self._X, self._table, self._of = X, table, records
        self._charges, self._cost_scale, self._error_costs = charges, cost_scale, error_costs

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        wanted = set(self.names if names is None else names)
        labels = self._of.labels
        planes, paid, stages, failed = self._sent(candidates)
        total = weights.sum(axis=0, dtype=np.float64)
        answered = weighted_sums(planes[_ANSWERED], weights)
        values = {"coverage": answered / total, "inconclusive_rate": (total - answered) / total}
        if "accuracy" in wanted:
            right = weighted_sums(planes[_RIGHT], weights)
            values["accuracy"] = right / np.maximum(answered, 1)
        if "cost" in wanted:
            values["cost"] = weighted_sums(paid, weights) / (self._cost_scale * total)
        if wanted & _RISKS:
            loss = self._losses(planes)
            values["risk"] = weighted_sums(loss, weights) / (self._cost_scale * total)
            values["total_cost"] = weighted_sums(loss + paid, weights) / (self._cost_scale * total)
        if "stages" in wanted:
            values["stages"] = np.repeat(stages.astype(np.float64)[:, None], len(total), axis=1)
        if wanted & _OF_POSITIVE:
            false = weights * (labels != self._of.positive)[:, None]
            sums = (
                weighted_sums(planes[_CALLED], weights),
                weighted_sums(planes[_CALLED], false),
                weighted_sums(planes[_ANSWERED], false),
            )
            values |= of_positive(*sums, answered)
        if wanted & _BY_CLASS:
            values |= self._by_class(planes, weights)
        if failed.any():
            values = {name: np.where(failed[:, None], np.nan, of) for name, of in values.items()}
        return {name: values[name] for name in self.names if name in values}

    def said(self, candidates: slice | IntArray = slice(None)) -> IntArray:
        """Return what is said of each record, int64 (n, records); see :mod:`framework.rates`.

        Of several classes, where no bits tell the class, a wrong answer is any other one.
        """
        planes, _, _, failed = self._sent(candidates)
        labels, classes, positive = self._of.labels, self._of.classes, self._of.positive
        first, codes = (2 if positive < 0 else 3), self._of.codes
        if codes:
            said = np.zeros(planes.shape[1:], dtype=np.int64)
            for p in range(codes):
                said |= planes[first + p].astype(np.int64) << p
        else:
            said = np.where(planes[_RIGHT], labels, (labels + 1) % classes)
        said[planes[_ANSWERED] == 0] = NO_ANSWER
        said[failed] = FAILED
        return said

    def reached(self, most: int) -> IntArray:
        """Return how many records of each class come to each of ``most`` stages.

        Shape (most, classes, n).
        """
        X, of = np.ascontiguousarray(self._X), self._of
        features, n = len(self._charges.of_feature), len(X)
        one = np.ones(features, dtype=np.int64), np.full(features, -1), np.zeros(0, dtype=np.int64)
        each = scoring.Charges(*map(frozen, one))  # what is paid is the number of features
        paid = scoring.record_outcomes(X, self._table, of.first_word, each, self.records)[1]
        rows = np.arange(n)
        cells = (rows[:, None] * of.classes + of.labels) * (features + 1) + paid
        shape = n, of.classes, features + 1
        counts = np.bincount(cells.ravel(), minlength=n * of.classes * (features + 1))
        upwards = counts.reshape(shape)[..., ::-1].cumsum(axis=-1)[..., ::-1]
        stages = X[:, :features]
        found = np.zeros((most, of.classes, n), dtype=np.int64)
        for stage in range(most):
            known = ((stages >= 0) & (stages <= stage)).sum(axis=1)
            there = (stages == stage).any(axis=1)
            found[stage, :, there] = upwards[rows[there], :, known[there]]
        return found

    def _losses(self, planes: Array) -> IntArray:
        """Return what errors and no answers cost, by record; fixed point, (n, records)."""
        rule = self._table.rule
        loss: IntArray = rule.no_answer * (1 - planes[_ANSWERED].astype(np.int64))
        for plane, weight in zip(planes[rule.errors :], rule.weights, strict=True):
            loss += weight * plane.astype(np.int64)
        return loss

    def _sent(self, candidates: slice | IntArray) -> _Sent:
        """Send all records through candidates; what came of it."""
        X = np.ascontiguousarray(self._X[candidates])
        of = self._of
        return scoring.record_outcomes(X, self._table, of.first_word, self._charges, self.records)

    def _by_class(self, planes: Array, weights: Array) -> dict[str, FloatArray]:
        """Return the metrics that look at each class on its own."""
        labels, classes = self._of.labels, self._of.classes
        shape = planes.shape[1], weights.shape[1]
        answered, right = np.empty((2, *shape, classes))
        present = np.empty((weights.shape[1], classes))
        for k in range(classes):
            of_class = weights * (labels == k)[:, None]
            present[:, k] = of_class.sum(axis=0, dtype=np.float64)
            answered[..., k] = weighted_sums(planes[_ANSWERED], of_class)
            right[..., k] = weighted_sums(planes[_RIGHT], of_class)
        values = {name: np.empty(shape) for name in ("balanced_accuracy", "worst_recall")}
        patterns, which = np.unique(present > 0, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):  # nearly always one: each class is there
            alike = np.flatnonzero(which.ravel() == number)
            flat = [of[:, alike].reshape(-1, classes) for of in (answered, right)]
            for name, column in by_class(flat[0], flat[1], pattern).items():
                values[name][:, alike] = column.reshape(-1, len(alike))
        if self._error_costs is not None:
            total = weights.sum(axis=0, dtype=np.float64)
            values["error_cost"] = sum_in_order((answered - right) * self._error_costs) / total
        return values


class GivenOutcomes(StageOutcomes):
    """How classifiers do whose answers are given, each of which pays the same for all records.

    Parameters
    ----------
    answers : numpy.ndarray of int64, shape (n, records)
        Class codes; -1 for no answer.
    paid : int
        What each record costs, in units.
    records, cost_scale, error_costs, names, units
        As of :class:`StageOutcomes`.
    """

    def __init__(
        self,
        answers: IntArray,
        paid: int,
        records: HeldOutRecords,
        cost_scale: int,
        error_costs: FloatArray | None,
        names: Collection[str],
        units: IntArray | None = None,
    ) -> None:
        RecordOutcomes.__init__(self, len(answers), answers.shape[1], names, units)
        self._answers, self._paid, self._of = answers, paid, records
        self._cost_scale, self._error_costs = cost_scale, error_costs

    def said(self, candidates: slice | IntArray = slice(None)) -> IntArray:
        return np.asarray(self._answers[candidates], dtype=np.int64)

    def _sent(self, candidates: slice | IntArray) -> _Sent:
        given, of = self._answers[candidates], self._of
        planes = np.stack([given >= 0, given == of.labels, (given == of.positive) & (given >= 0)])
        n = len(given)
        paid = np.full(given.shape, self._paid, dtype=np.int64)
        stages = np.full(n, int(self._paid > 0), dtype=np.int64)
        return planes.astype(np.uint8), paid, stages, np.zeros(n, dtype=bool)
