"""Asks the classifiers of each fold, and those fitted on all records, about every record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from algorithms.multistage.components import SubClassifiers
from algorithms.multistage.records import Fold, StageData
from framework.arrays import Array
from framework.outcomes import RecordOutcomes, Refits

_HELD = 1 << 24  # bytes of one fold's answers that are held, however quickly they are restored

OutcomesOf = Callable[[Array, SubClassifiers], RecordOutcomes]


class AllRecords:
    """Stage classifiers that are asked about all records of a cross-validation.

    They also answer the records that they were trained on. There the classifiers of a fold and
    those fitted on all records can be compared, to see what the refit changes: both have seen them.

    Parameters
    ----------
    data : StageData
        With folds.
    final : SubClassifiers
        Those fitted on all records.
    make : callable
        Returns an empty table of classifiers that are trained on given records, by its name.
    """

    def __init__(
        self,
        data: StageData,
        final: SubClassifiers,
        make: Callable[[StageData, str], SubClassifiers],
    ) -> None:
        self._fold_of, self._make = data.fold_of, make
        folds = () if self._fold_of is None else data.folds[: int(self._fold_of.max()) + 1]
        self._parts, self._final = [_asked(data, fold) for fold in folds], final
        self._held: dict[int, SubClassifiers] = {}

    def refits(self, X: Array, items: Array, outcomes_of: OutcomesOf) -> Refits | None:
        """Return the outcomes of genomes; None if the folds are not a division of the records.

        Parameters
        ----------
        X, items : numpy.ndarray of int, shape (n, d) and (n, features)
            Genomes, and their partitions without the genes of thresholds.
        outcomes_of : callable
            Returns the outcomes of genomes from classifiers, which have been trained.
        """
        if self._fold_of is None:
            return None
        return Refits(self._models(X, items, outcomes_of), self._fold_of)

    def _models(self, X: Array, items: Array, outcomes_of: OutcomesOf) -> Iterator[RecordOutcomes]:
        for number, part in enumerate(self._parts):
            classifiers = self._held.pop(number, None) or self._make(part, f"all records {number}")
            classifiers.of(items)
            yield outcomes_of(X, classifiers)
            if classifiers.table.bits.nbytes <= _HELD or not classifiers.quickly_restored:
                self._held[number] = classifiers
        self._final.of(items)
        yield outcomes_of(X, self._final)


def _asked(data: StageData, fold: Fold) -> StageData:
    """Return data that train without a fold and ask about all records."""
    n, part = len(data.y), fold.data
    held = np.empty((len(part.design), n))
    held[:, fold.trained], held[:, fold.rows] = part.design, part.held
    return part.asked(held, data.y, n, data.unknown[:, :n])  # scored first, in the first repeat
