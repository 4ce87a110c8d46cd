"""Shared parts: expensive pieces that several candidates are scored from, each built once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, WordArray


@dataclass(frozen=True)
class Components:
    """Expensive pieces that several candidates share, columnar.

    Attributes
    ----------
    keys : numpy.ndarray of uint64, shape (m, key words)
        The name of each part.
    bits : numpy.ndarray of uint64, shape (m, planes, words)
        What scoring reads.
    models : list of bytes, length m
        What :meth:`Problem.decode` reads; empty where the parts were stripped for scoring.
    errors : mapping of int to str
        Why a part could not be built, by its position.
    """

    keys: WordArray
    bits: WordArray
    models: list[bytes] = field(default_factory=list)
    errors: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)


class Demand(NamedTuple):
    """What it takes, roughly, to build some parts.

    Attributes
    ----------
    seconds : float
        Of one processor.
    held : int
        Bytes that each of them takes afterwards.
    meanwhile : int
        Bytes that are needed while they are built, one after the other.
    """

    seconds: float
    held: int
    meanwhile: int


class SharedComponents:
    """The part of a problem's interface that concerns shared parts.

    As defined here, a problem has no parts; a problem whose candidates are scored from shared
    parts overrides all methods but ``demand``, ``open_store`` and ``failed_components``. The
    evaluator asks which parts a batch needs and the problem does not have yet, lets the workers
    build them (in parallel, each once), adds them, and then scores the batch. Without an evaluator,
    ``evaluate`` builds them itself. Components are numbered in the order in which they were added.
    A pickled problem contains neither its parts nor its store: each worker is sent the parts
    that it does not have.

    Attributes
    ----------
    component_name : str
        What parts are called in progress reports, in the plural.
    """

    component_name: str = "parts"

    @property
    def has_components(self) -> bool:
        """Whether the candidates of this class share parts at all."""
        return type(self).build_components is not SharedComponents.build_components

    def open_store(self) -> None:
        """Also keep parts on this machine's disk, and read from there those it already has."""

    @property
    def n_components(self) -> int:
        """Number of parts that the problem has."""
        return 0

    def missing_components(self, X: Array) -> WordArray:
        """Return the keys of the parts that a batch needs and the problem does not have.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, d)

        Returns
        -------
        numpy.ndarray of uint64, shape (m, key words)
        """
        return np.zeros((0, 1), dtype=np.uint64)

    def build_components(self, keys: WordArray) -> Components:
        """Build parts from their keys alone, whatever parts the problem already has."""
        return Components(keys[:0], np.zeros((0, 0, 0), dtype=np.uint64))

    def demand(self, keys: WordArray) -> Demand | None:
        """Return what it would take to build parts, if any; None if that cannot be told."""
        return None

    def add_components(self, parts: Components) -> None:
        """Add parts to those that the problem has; parts that it already has are skipped."""

    def components_since(self, start: int) -> Components:
        """Return the parts from number ``start`` on, without their models: enough to score."""
        return self.build_components(np.zeros((0, 1), dtype=np.uint64))

    def failed_components(self, keys: WordArray, error: str) -> Components:
        """Return parts that could not be built, with the reason of each."""
        bits = np.zeros((len(keys), 0, 0), dtype=np.uint64)
        return Components(keys, bits, [b""] * len(keys), dict.fromkeys(range(len(keys)), error))
