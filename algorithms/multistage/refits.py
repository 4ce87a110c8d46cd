"""The classifiers of the folds and those of all records, asked about every record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from algorithms.multistage.components import SubClassifiers
from algorithms.multistage.data import digest
from algorithms.multistage.metrics import HeldOutRecords, held_out_records
from algorithms.multistage.records import Fold, StageData
from framework.arrays import Array
from framework.outcomes import RecordOutcomes, Refits

_HELD = 1 << 24  # bytes of the answers of one fold's that are held whatever making them takes

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
        self._fold_of, self._make = data.fold_of, make
        folds = () if self._fold_of is None else data.folds[: int(self._fold_of.max()) + 1]
        self._parts = [_asked(data, fold) for fold in (*folds, None)] if folds else []
        self._held: dict[int, SubClassifiers] = {}
        self._store: tuple[str, str] | None = None

    def open_store(self, fingerprint: str, name: str) -> None:
        """Keep their answers on this machine's disk."""
        self._store = fingerprint, name

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
        return Refits(self._models(X, items, outcomes_of), self._fold_of)

    def _models(self, X: Array, items: Array, outcomes_of: OutcomesOf) -> Iterator[RecordOutcomes]:
        for number, part in enumerate(self._parts):
            classifiers = self._held.pop(number, None) or self._empty(number)
            missing = classifiers.missing(items)
            if len(missing):
                classifiers.add(classifiers.build(missing))
            yield outcomes_of(X, classifiers, held_out_records(part)[0])
            if classifiers.table.bits.nbytes <= _HELD or not classifiers.soon_there_again:
                self._held[number] = classifiers

    def _empty(self, number: int) -> SubClassifiers:
        classifiers = self._make(self._parts[number])
        if self._store is not None:
            fingerprint, name = self._store
            classifiers.open_store(digest([fingerprint, "all records", number]), name)
        return classifiers


def _asked(data: StageData, fold: Fold | None) -> StageData:
    """Return what trains without a fold, or on all records, and is asked about all of them."""
    part, held = data, data.design
    if fold is not None:
        part = fold.data
        held = np.empty((len(part.design), len(data.y)))
        held[:, fold.trained], held[:, fold.rows] = part.design, part.held
    return part.asked(held, data.y, len(data.y))
