"""From the bits of sub-classifiers to the metrics of ordered partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from algorithms.multistage import class_metrics
from algorithms.multistage.component_table import PartTable
from algorithms.multistage.kernels import scoring as kernels
from algorithms.multistage.subclassifiers import StageData
from framework.arrays import Array, FloatArray, IntArray, WordArray


@dataclass(frozen=True)
class Measuring:
    """The records of one part of the data, and what is needed to score genomes on them.

    Attributes
    ----------
    data : StageData
    table : PartTable
        Has every sub-classifier that the genomes need.
    charges : Charges
    cost_scale : int
    error_costs : numpy.ndarray of float64, shape (K,), or None
    classes : int
    everyone, negatives : numpy.ndarray of uint64, shape (words,)
        All records; those whose true class is not the positive one.
    part : 0 for validation records, 1 for test records
    """

    data: StageData
    table: PartTable
    charges: kernels.Charges
    cost_scale: int
    error_costs: FloatArray | None
    classes: int
    everyone: WordArray
    negatives: WordArray
    part: Literal[0, 1]

    def of(self, X: Array) -> dict[str, FloatArray]:
        """Return the metrics of genomes (n, d); NaN where a sub-classifier could not be built."""
        counts = kernels.score(
            X, self.table.held, self._first, self.charges, self.everyone, self.negatives
        )
        records = len(self._labels)
        conclusive = counts[:, kernels.CONCLUSIVE]
        values = {
            "coverage": conclusive / records,
            "accuracy": counts[:, kernels.RIGHT] / np.maximum(conclusive, 1),
            "cost": counts[:, kernels.COST] / (self.cost_scale * records),
            "stages": counts[:, kernels.STAGES].astype(np.float64),
            "inconclusive_rate": (records - conclusive) / records,
            **self._by_class(X, counts),
        }
        failed = counts[:, kernels.FAILED] == 1
        if failed.any():
            values = {name: np.where(failed, np.nan, column) for name, column in values.items()}
        return values

    @property
    def _first(self) -> int:
        """The word where the bits of these records begin."""
        return self.data.validation_words * self.part

    @property
    def _labels(self) -> IntArray:
        cut = self.data.n_validation
        return self.data.y_held[:cut] if self.part == 0 else self.data.y_held[cut:]

    def _by_class(self, X: Array, counts: IntArray) -> dict[str, FloatArray]:
        """Return the metrics that look at each class on its own."""
        called, false = counts[:, kernels.POSITIVE], counts[:, kernels.FALSE_POSITIVE]
        negatives, conclusive = counts[:, kernels.NEGATIVE], counts[:, kernels.CONCLUSIVE]
        positive, values = self.data.positive, {}
        if positive >= 0:
            values = class_metrics.of_positive(called, false, negatives, conclusive)
        if positive >= 0 and self.classes == 2:  # what was counted tells it
            order = [0, 1] if positive == 1 else [1, 0]
            answered = np.column_stack([negatives, conclusive - negatives])[:, order]
            right = np.column_stack([negatives - false, called - false])[:, order]
        else:
            answered, right = self._class_counts(X)
        present = np.bincount(self._labels, minlength=self.classes)
        values |= class_metrics.by_class(answered, right, present)
        if self.error_costs is not None:
            values["error_cost"] = class_metrics.error_cost(
                answered, right, self.error_costs, len(self._labels)
            )
        return values

    def _class_counts(self, X: Array) -> tuple[IntArray, IntArray]:
        return kernels.class_counts(X, self.table.held, self._first, self._labels, self.classes)
