"""The classifiers of the folds and those of all records, asked about every record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from algorithms.multistage.components import SubClassifiers
from algorithms.multistage.data import digest
from algorithms.multistage.metrics import HeldOutRecords, held_out_records
from algorithms.multistage.records import Fold, StageData
from framework.arrays import Array
from framework.outcomes import RecordOutcomes, Refits

OutcomesOf = Callable[[Array, SubClassifiers, HeldOutRecords], RecordOutcomes]


class AllRecords:
    """Stage classifiers that are asked about all records of a cross-validation.

    They answer the records that they were trained on too. What fitting anew changes is seen there:
    those of the folds and those that are handed out have both seen them.

    Parameters
    ----------
    data : StageData
        With folds.
    make : callable
        An empty table of classifiers that records train.
    """

    def __init__(self, data: StageData, make: Callable[[StageData], SubClassifiers]) -> None:
        self._fold_of = data.fold_of
        folds = () if self._fold_of is None else data.folds[: int(self._fold_of.max()) + 1]
        parts = [_asked(data, fold) for fold in (*folds, None)] if folds else []
        self._tables = [(make(part), held_out_records(part)[0]) for part in parts]

    def open_store(self, fingerprint: str, name: str) -> None:
        """Keep their answers on this machine's disk."""
        for number, (classifiers, _) in enumerate(self._tables):
            classifiers.open_store(digest([fingerprint, "all records", number]), name)

    def refits(self, X: Array, items: Array, outcomes_of: OutcomesOf) -> Refits | None:
        """Return what those of genomes do; None where folds are no division of the records.

        Parameters
        ----------
        X, items : numpy.ndarray of int, shape (n, d) and (n, features)
            Genomes, and their partitions alone.
        outcomes_of : callable
            Outcomes of genomes, whose classifiers are there, on records.
        """
        if self._fold_of is None:
            return None
        of_models = []
        for classifiers, records in self._tables:
            missing = classifiers.missing(items)
            if len(missing):
                classifiers.add(classifiers.build(missing))
            of_models.append(outcomes_of(X, classifiers, records))
        return Refits(of_models[:-1], of_models[-1], self._fold_of)


def _asked(data: StageData, fold: Fold | None) -> StageData:
    """Return what trains without a fold, or on all records, and is asked about all of them."""
    part, held = data, data.design
    if fold is not None:
        part = fold.data
        held = np.empty((len(part.design), len(data.y)))
        held[:, fold.trained], held[:, fold.rows] = part.design, part.held
    return replace(part, held=held, y_held=data.y, n_validation=len(data.y), folds=(), units=None)
