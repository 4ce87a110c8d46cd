"""The answers of every sub-classifier of a multi-stage problem, as exact searches read them."""

from __future__ import annotations

from dataclasses import dataclass

from framework.arrays import WordArray


@dataclass(frozen=True)
class StageTables:
    """The answers of the sub-classifier of each feature set to each validation record.

    Attributes
    ----------
    conclusive, right : numpy.ndarray of uint64, shape (2^n, words)
        Row ``s`` belongs to the set with bit ``i`` of ``s`` for feature ``i``; bit ``j % 64`` of
        word ``j // 64`` tells whether record ``j`` gets an answer, and whether it is right. Row 0
        and what lies behind the last record are 0.
    everyone : numpy.ndarray of uint64, shape (words,)
        A bit a record.
    records : int
    """

    conclusive: WordArray
    right: WordArray
    everyone: WordArray
    records: int
