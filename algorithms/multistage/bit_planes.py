"""Answers of stage classifiers as bits per record, indexed by feature set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from algorithms.moves.bits import unpack
from algorithms.multistage.kernels import scoring
from framework.arrays import Array, IntArray, WordArray
from framework.components import Components


class ComponentTable:
    """Stage classifiers' answers in the memory of a process, numbered in the order of adding.

    Parameters
    ----------
    key_words, planes, words : int
        Shape of a key and of a component's bits.
    rule : Rule
        How records go through stages.

    Attributes
    ----------
    n : int
        Number of components in the table.
    keys : numpy.ndarray of uint64, shape (capacity, key words)
    bits : numpy.ndarray of uint64, shape (capacity, planes, words)
    errors : dict of int to str
        Why a component could not be built, by its number.

    Notes
    -----
    Models are not kept. A component takes ``8 * (key words + planes * words)`` bytes, or up to
    twice that because the table grows in steps; ``words`` is the width of the widest one added.
    """

    def __init__(
        self, key_words: int, planes: int, words: int, rule: scoring.Rule = scoring.BY_CONFIDENCE
    ) -> None:
        self.n, self.rule = 0, rule
        self.stripped = False  # whether a component came without its last words
        self.errors: dict[int, str] = {}
        # never empty, so that kernels compile for it
        self.keys = np.zeros((64, key_words), dtype=np.uint64)
        self._words = words
        self.bits = np.zeros((64, planes, 0), dtype=np.uint64)
        self._failed = np.zeros(64, dtype=bool)
        self.slots = np.full(256, -1, dtype=np.int64)

    @property
    def held(self) -> scoring.Held:
        """The table in the form that kernels read."""
        return scoring.Held(self.slots, self.keys, self.bits, self._failed, self.rule)

    def find(self, key: WordArray) -> int:
        """Return the number of a component, or a negative number if it is not there."""
        return scoring.find(self.slots, self.keys, key)

    def add(self, components: Components) -> None:
        """Add components; those that are in the table already are skipped."""
        keys = np.array(components.keys)  # writeable, as the kernels' other arguments of that type
        fresh = [i for i in range(len(components)) if self.find(keys[i]) < 0]
        if not fresh:
            return
        rows = np.array(fresh)
        start, stop = self.n, self.n + len(fresh)
        self._reserve(stop)
        self.keys[start:stop] = keys[rows]
        for number, i in enumerate(fresh, start):
            if i in components.errors:
                self.errors[number] = components.errors[i]
                self._failed[number] = True
        good = ~self._failed[start:stop]
        if good.any():
            width = components.bits.shape[2]
            self.stripped |= width < self._words
            self._widen(width)
            self.bits[start:stop, :, :width][good] = components.bits[rows[good]]
        scoring.insert(self.slots, self.keys, start, stop)
        self.n = stop

    def slice(self, start: int, words: int) -> Components:
        """Return the first ``words`` words of the components from ``start`` on, without models."""
        errors = {i - start: error for i, error in self.errors.items() if i >= start}
        bits = np.ascontiguousarray(self.bits[start : self.n, :, :words])
        return Components(self.keys[start : self.n], bits, errors=errors)

    def _widen(self, width: int) -> None:
        room, planes, words = self.bits.shape
        if width > words:
            wider = np.zeros((room, planes, width), dtype=np.uint64)
            wider[:, :, :words] = self.bits
            self.bits = wider

    def _reserve(self, n: int) -> None:
        if n > len(self.keys):
            room = max(n, 2 * len(self.keys))
            self.keys = longer(self.keys, room)
            self.bits = longer(self.bits, room)
            self._failed = longer(self._failed, room)
        if 2 * n > len(self.slots):  # at most half full: short probes
            size = len(self.slots)
            while 2 * n > size:
                size *= 2
            self.slots = np.full(2 * size, -1, dtype=np.int64)
            scoring.insert(self.slots, self.keys, 0, self.n)


def longer(array: Array, rows: int) -> Array:
    """Return a copy of an array with ``rows`` rows, those after the last one zero."""
    copy = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    copy[: len(array)] = array
    return copy


def features_of(key: WordArray, n: int) -> IntArray:
    """Return the features in a key, ascending."""
    return np.flatnonzero(unpack(key, n))


@dataclass(frozen=True)
class StageTables:
    """The answers of the sub-classifier of each feature set to each validation record.

    Attributes
    ----------
    conclusive, right : numpy.ndarray of uint64, shape (2^n, words)
        Row ``s`` belongs to the set with bit ``i`` of ``s`` for feature ``i``; bit ``j % 64`` of
        word ``j // 64`` says whether record ``j`` gets an answer, and whether it is right. Row 0
        and the bits behind the last record are 0.
    everyone : numpy.ndarray of uint64, shape (words,)
        One bit per record.
    """

    conclusive: WordArray
    right: WordArray
    everyone: WordArray
    records: int
