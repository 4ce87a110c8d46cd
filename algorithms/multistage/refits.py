"""Asks the classifiers of each fold, and those fitted on all records, about every record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from algorithms.multistage.components import SubClassifiers
from algorithms.multistage.data import digest
from algorithms.multistage.metrics import HeldOutRecords, held_out_records
from algorithms.multistage.records import Fold, StageData
from framework.arrays import Array
from framework.outcomes import RecordOutcomes, Refits

_HELD = 1 << 24  # bytes of one fold's answers that are held, however quickly they are restored

OutcomesOf = Callable[[Array, SubClassifiers, HeldOutRecords], RecordOutcomes]


class AllRecords:
    """Stage classifiers that are asked about all records of a cross-validation.

    They also answer the records that they were trained on. There the classifiers of a fold and
    those fitted on all records can be compared, to see what the refit changes: both have seen them.

    Parameters
    ----------
    data : StageData
        With folds.
    make : callable
        Returns an empty table of classifiers that are trained on given records.
    store : tuple of str, optional
        Fingerprint and name of the answers, if they are kept on this machine's disk.
    """

    def __init__(
        self,
        data: StageData,
        make: Callable[[StageData], SubClassifiers],
        store: tuple[str, str] | None,
    ) -> None:
        self._fold_of, self._make, self._store = data.fold_of, make, store
        folds = () if self._fold_of is None else data.folds[: int(self._fold_of.max()) + 1]
        self._parts = [_asked(data, fold) for fold in (*folds, None)] if folds else []
        self._held: dict[int, SubClassifiers] = {}

    def refits(self, X: Array, items: Array, outcomes_of: OutcomesOf) -> Refits | None:
        """Return the outcomes of genomes; None if the folds are not a division of the records.

        Parameters
        ----------
        X, items : numpy.ndarray of int, shape (n, d) and (n, features)
            Genomes, and their partitions without the genes of thresholds.
        outcomes_of : callable
            Returns the outcomes of genomes on records, from a table that has their classifiers.
        """
        if self._fold_of is None:
            return None
        return Refits(self._models(X, items, outcomes_of), self._fold_of)

    def _models(self, X: Array, items: Array, outcomes_of: OutcomesOf) -> Iterator[RecordOutcomes]:
        for number, part in enumerate(self._parts):
            classifiers = self._held.pop(number, None) or self._empty(number)
            classifiers.of(items)
            yield outcomes_of(X, classifiers, held_out_records(part)[0])
            if classifiers.table.bits.nbytes <= _HELD or not classifiers.quickly_restored:
                self._held[number] = classifiers

    def _empty(self, number: int) -> SubClassifiers:
        classifiers = self._make(self._parts[number])
        if self._store is not None:
            fingerprint, name = self._store
            classifiers.open_store(digest([fingerprint, "all records", number]), name)
        return classifiers


def _asked(data: StageData, fold: Fold | None) -> StageData:
    """Return data that train without a fold, or on all records, and ask about all records."""
    part, held = data, data.design
    if fold is not None:
        part = fold.data
        held = np.empty((len(part.design), len(data.y)))
        held[:, fold.trained], held[:, fold.rows] = part.design, part.held
    n = len(data.y)
    return part.asked(held, data.y, n, data.unknown[:, :n])  # scored first, in the first repeat
