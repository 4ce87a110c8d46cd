"""Shared parts: expensive pieces that several candidates are scored from, each built once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from framework.arrays import Array, WordArray


@dataclass(frozen=True)
class Parts:
    """Expensive pieces that several candidates share, columnar.

    Attributes
    ----------
    keys : numpy.ndarray of uint64, shape (m, key words)
        What names a part.
    bits : numpy.ndarray of uint64, shape (m, planes, words)
        What scoring needs.
    models : list of bytes, length m
        What decoding needs; empty where the parts were stripped for scoring.
    errors : mapping of int to str
        Why a part could not be built, by position.
    """

    keys: WordArray
    bits: WordArray
    models: list[bytes] = field(default_factory=list)
    errors: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)


class SharedParts:
    """The part of a problem's interface that concerns shared parts.

    The answers here are those of a problem without parts; a problem whose candidates are scored
    from shared parts overrides all but ``open_store`` and ``failed_parts``. The evaluator asks
    which parts a batch is missing, has them built (in parallel, each once), adds them, and then
    scores. ``evaluate`` itself builds what is missing where nobody did. Parts are numbered in the
    order in which they were added. A problem pickles without its parts and without the store:
    workers are sent what they lack.

    Attributes
    ----------
    part_name : str
        What parts are called in progress reports, in the plural.
    """

    part_name: str = "parts"

    def open_store(self) -> None:
        """Keep parts on this machine's disk too, and take them from there."""

    @property
    def n_parts(self) -> int:
        """Number of parts held."""
        return 0

    def missing_parts(self, X: Array) -> WordArray:
        """Return the keys that the batch needs and the problem does not hold, each once.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, d)

        Returns
        -------
        numpy.ndarray of uint64, shape (m, key words)
        """
        return np.zeros((0, 1), dtype=np.uint64)

    def build_parts(self, keys: WordArray) -> Parts:
        """Build parts; pure and independent of the parts held."""
        return Parts(keys[:0], np.zeros((0, 0, 0), dtype=np.uint64))

    def add_parts(self, parts: Parts) -> None:
        """Hold parts (those already held are skipped)."""

    def parts_since(self, start: int) -> Parts:
        """Return the parts numbered ``start`` and up, without models: what a scorer lacks."""
        return self.build_parts(np.zeros((0, 1), dtype=np.uint64))

    def failed_parts(self, keys: WordArray, error: str) -> Parts:
        """Return parts that say why they could not be built."""
        bits = np.zeros((len(keys), 0, 0), dtype=np.uint64)
        return Parts(keys, bits, [b""] * len(keys), dict.fromkeys(range(len(keys)), error))
