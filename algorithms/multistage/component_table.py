"""The sub-classifiers in the memory of a process: a growing table, indexed by feature set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from algorithms.multistage.kernels import scoring as kernels
from framework.arrays import Array, BoolArray, WordArray
from framework.components import Components


class PartTable:
    """Components numbered in the order of adding.

    Parameters
    ----------
    key_words, planes, words : int
        Shape of a key and of a part's bits.

    Notes
    -----
    Models are not kept. A part takes ``8 * (key words + planes * words)`` bytes, up to twice that
    because the table grows in steps; ``words`` is the number of words of the parts added.
    """

    def __init__(self, key_words: int, planes: int, words: int) -> None:
        self.n = 0
        self.stripped = False  # whether some parts came without their last words
        self.errors: dict[int, str] = {}
        self._keys = np.zeros((64, key_words), dtype=np.uint64)
        self._words = words
        self._bits = np.zeros((64, planes, 0), dtype=np.uint64)
        self._failed = np.zeros(64, dtype=bool)
        self.slots = np.full(256, -1, dtype=np.int64)

    @property
    def held(self) -> kernels.Held:
        """All of it, as the kernels read it."""
        return kernels.Held(self.slots, self._keys, self._bits, self._failed)

    @property
    def keys(self) -> WordArray:
        """Keys held, shape (n, key words); at least one row is there to compile against."""
        return self._keys

    @property
    def bits(self) -> WordArray:
        """Bits held, shape (capacity, planes, words)."""
        return self._bits

    def find(self, key: WordArray) -> int:
        """Return the number of a part, or a negative number if it is not held."""
        return kernels.find(self.slots, self._keys, key)

    def add(self, parts: Components) -> None:
        """Add parts; those that are in the table already are skipped."""
        keys = np.array(parts.keys)  # writeable, as the kernels' other arguments of that type
        fresh = [i for i in range(len(parts)) if self.find(keys[i]) < 0]
        if not fresh:
            return
        rows = np.array(fresh)
        start, stop = self.n, self.n + len(fresh)
        self._reserve(stop)
        self._keys[start:stop] = keys[rows]
        for number, i in enumerate(fresh, start):
            if i in parts.errors:
                self.errors[number] = parts.errors[i]
                self._failed[number] = True
        good = ~self._failed[start:stop]
        if good.any():
            width = parts.bits.shape[2]
            self.stripped |= width < self._words
            self._widen(width)
            self._bits[start:stop, :, :width][good] = parts.bits[rows[good]]
        kernels.insert(self.slots, self._keys, start, stop)
        self.n = stop

    def slice(self, start: int, words: int) -> Components:
        """Return the parts from ``start`` on, their first ``words`` words, without models."""
        errors = {i - start: error for i, error in self.errors.items() if i >= start}
        bits = np.ascontiguousarray(self._bits[start : self.n, :, :words])
        return Components(self._keys[start : self.n], bits, errors=errors)

    def _widen(self, width: int) -> None:
        room, planes, words = self._bits.shape
        if width > words:
            wider = np.zeros((room, planes, width), dtype=np.uint64)
            wider[:, :, :words] = self._bits
            self._bits = wider

    def _reserve(self, n: int) -> None:
        if n > len(self._keys):
            room = max(n, 2 * len(self._keys))
            self._keys = _longer(self._keys, room)
            self._bits = _longer(self._bits, room)
            self._failed = _longer(self._failed, room)
        if 2 * n > len(self.slots):  # at most half full: short probes
            size = len(self.slots)
            while 2 * n > size:
                size *= 2
            self.slots = np.full(2 * size, -1, dtype=np.int64)
            kernels.insert(self.slots, self._keys, 0, self.n)


def _longer(array: Array, room: int) -> Array:
    longer = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def words_for(n: int) -> int:
    """Return how many 64-bit words hold ``n`` bits."""
    return (n + 63) // 64


def pack(mask: BoolArray) -> WordArray:
    """Pack a boolean vector, bit ``i % 64`` of word ``i // 64`` for entry ``i``."""
    padded = np.zeros(64 * words_for(len(mask)), dtype=bool)
    padded[: len(mask)] = mask
    return np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64)


def features_of(key: WordArray, n: int) -> Iterator[int]:
    """Yield the features in a key, ascending."""
    return (i for i in range(n) if int(key[i >> 6]) >> (i & 63) & 1)
