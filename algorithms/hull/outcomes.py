"""How masked networks answer each record, and their metrics under weights of the records."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.outcomes import RecordOutcomes, weighted_sums


class NetworkOutcomes(RecordOutcomes):
    """The answers of masked networks to each record.

    Parameters
    ----------
    answers : numpy.ndarray of uint8, shape (n, ceil(records / 8))
        Which records a network calls positive, as packed bits.
    positive : numpy.ndarray of bool, shape (records,)
        Which are.
    kept : numpy.ndarray of int64, shape (n,)
        Connections that each network keeps.
    connections : int
        How many there are.
    names : collection of str
        The metrics that the problem reports.
    units : numpy.ndarray of int64, shape (records,), optional
    """

    def __init__(
        self,
        answers: Array,
        positive: BoolArray,
        kept: IntArray,
        connections: int,
        names: Collection[str],
        units: IntArray | None = None,
    ) -> None:
        super().__init__(len(answers), len(positive), names, units)
        self._answers, self._positive = answers, positive
        self._kept, self._connections = kept, connections

    def called(self, candidates: slice | IntArray = slice(None)) -> Array:
        """Return which records are called positive, 0 or 1, (n, records)."""
        return np.unpackbits(self._answers[candidates], axis=1, count=self.records)

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        wanted = set(self.names if names is None else names)
        positive = self._positive
        called = self.called(candidates)
        negatives, positives = (
            weights[of].sum(axis=0, dtype=np.float64) for of in (~positive, positive)
        )
        values: dict[str, FloatArray] = {}
        if wanted & {"false_positive_rate", "false_negative_rate", "accuracy"}:
            false = weighted_sums(called[:, ~positive], weights[~positive])
            missed = positives - weighted_sums(called[:, positive], weights[positive])
            # a resample may lack a class: none of it is wrong
            values["false_positive_rate"] = false / np.maximum(negatives, 1)
            values["false_negative_rate"] = missed / np.maximum(positives, 1)
            values["accuracy"] = 1.0 - (false + missed) / (negatives + positives)
        kept = np.repeat(self._kept[candidates][:, np.newaxis], weights.shape[1], axis=1)
        values["complexity"], values["connections"] = kept / self._connections, kept.astype(float)
        return {name: values[name] for name in self.names if name in values}
