"""Shared components: expensive pieces that several candidates need, each built only once.

A problem declares them (:class:`SharedComponents`), the workers build them, and a
:class:`ComponentStore` keeps them on disk for later runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, WordArray
from framework.errors import InputError
from framework.store import KeyValue

_PUT_OFF: ContextVar[list[str] | None] = ContextVar("put off", default=None)


@contextmanager
def building_nothing() -> Iterator[list[str]]:
    """Put off expensive work in the block, such as building a library.

    Yields
    ------
    list of str
        The names of what would have been built are added to it.
    """
    put_off: list[str] = []
    token = _PUT_OFF.set(put_off)
    try:
        yield put_off
    finally:
        _PUT_OFF.reset(token)


def is_put_off(what: str) -> bool:
    """Return whether something expensive must not be built now, and if so, note its name."""
    put_off = _PUT_OFF.get()
    if put_off is None:
        return False
    if what not in put_off:
        put_off.append(what)
    return True


@dataclass(frozen=True)
class Components:
    """A table of shared components: keys, what scoring reads, models and errors.

    Attributes
    ----------
    keys : numpy.ndarray of uint64, shape (m, key words)
        The key that identifies each component.
    bits : numpy.ndarray of uint64, shape (m, planes, words)
        The data that scoring reads.
    models : list of bytes, length m
        The data that :meth:`Deployable.decode` reads; empty where components are only for scoring.
    errors : mapping of int to str
        Why a component could not be built, by its position.
    """

    keys: WordArray
    bits: WordArray
    models: list[bytes] = field(default_factory=list)
    errors: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)


class BuildCost(NamedTuple):
    """A rough estimate of what it takes to build some components.

    Attributes
    ----------
    seconds : float
        Time on one processor.
    bytes_stored : int
        Memory that each component takes afterwards.
    bytes_building : int
        Memory that is needed while components are built in one process.
    """

    seconds: float
    bytes_stored: int
    bytes_building: int


class SharedComponents:
    """How a problem declares components that its candidates share.

    A component is an expensive piece, such as a trained classifier, that several candidates are
    scored from. By default a problem has none. A problem that has some overrides all methods
    except ``build_cost``, ``open_store`` and ``failed_components``.

    For each batch, the evaluator

    1. asks which components the batch needs and the problem does not have yet
       (:meth:`missing_components`),
    2. has the workers build these in parallel, each only once (:meth:`build_components`),
    3. adds them to the problem (:meth:`add_components`), and
    4. scores the batch.

    Without an evaluator, ``evaluate`` builds them itself. Components are numbered in the order in
    which they were added. A pickled problem contains neither its components nor its store: each
    worker is sent those that it does not have (:meth:`components_since`).

    Attributes
    ----------
    component_name : str
        What components are called in progress reports, in the plural.
    """

    component_name: str = "parts"

    @property
    def has_components(self) -> bool:
        """Whether the candidates of this class share components at all."""
        return type(self).build_components is not SharedComponents.build_components

    def open_store(self) -> None:
        """Also keep components on this machine's disk, and read those that are already there."""

    @property
    def n_components(self) -> int:
        """Number of components that the problem has."""
        return 0

    def missing_components(self, X: Array) -> WordArray:
        """Return the keys of the components that a batch needs and the problem does not have.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, d)

        Returns
        -------
        numpy.ndarray of uint64, shape (m, key words)
        """
        return np.zeros((0, 1), dtype=np.uint64)

    def build_components(self, keys: WordArray) -> Components:
        """Build components from their keys alone, whatever the problem already has."""
        return Components(keys[:0], np.zeros((0, 0, 0), dtype=np.uint64))

    def build_cost(self, keys: WordArray) -> BuildCost | None:
        """Return what it would take to build components; None if that is unknown."""
        return None

    def add_components(self, components: Components) -> None:
        """Add components to the problem; those that it already has are skipped."""

    def components_since(self, start: int) -> Components:
        """Return the components from number ``start`` on, without models: enough to score."""
        return self.build_components(np.zeros((0, 1), dtype=np.uint64))

    def failed_components(self, keys: WordArray, error: str) -> Components:
        """Return components that could not be built, with the reason of each."""
        bits = np.zeros((len(keys), 0, 0), dtype=np.uint64)
        return Components(keys, bits, [b""] * len(keys), dict.fromkeys(range(len(keys)), error))


class ComponentStore:
    """Shared components on disk, so that none is built twice: one file per fingerprint.

    Several processes may use a file at once. Where it cannot be read or written, a warning is
    printed once and the run continues without it.

    Parameters
    ----------
    folder : pathlib.Path
    fingerprint : str
    planes, words : int
        Shape of a component's bits.
    name : str
        What the components are called, in the plural.
    """

    def __init__(
        self, folder: Path, fingerprint: str, planes: int, words: int, name: str = "parts"
    ) -> None:
        self._name = name
        self.path = folder / f"parts-{fingerprint[:32]}.bin"
        self._shape = (planes, words)
        self._store: KeyValue | None = None
        with self._if_usable():
            folder.mkdir(parents=True, exist_ok=True)
            self._store = KeyValue(self.path, f"{fingerprint} {planes} {words}", shared=True)

    def get(self, keys: WordArray) -> Components:
        """Return the components with some keys, shape (m, key words), as far as they are stored."""
        values: dict[bytes, bytes] = {}
        if self._store is not None:
            with self._if_usable():
                values = self._store.get(_names(keys))
        planes, words = self._shape
        size = 8 * planes * words
        bits = np.frombuffer(b"".join(value[:size] for value in values.values()), dtype="<u8")
        return Components(
            np.frombuffer(b"".join(values), "<u8").reshape(-1, keys.shape[1]),
            bits.reshape(len(values), planes, words),
            [value[size:] for value in values.values()],
        )

    def put(self, components: Components) -> None:
        """Store components; failed ones are left out."""
        if self._store is None:
            return
        values = {
            name: components.bits[i].astype("<u8").tobytes() + components.models[i]
            for i, name in enumerate(_names(components.keys))
            if i not in components.errors
        }
        with self._if_usable():
            self._store.put(values)

    @contextmanager
    def _if_usable(self) -> Iterator[None]:
        """Continue without the file if it cannot be used."""
        try:
            yield
        except (OSError, InputError) as error:
            print(
                f"paretolab: {self._name} are not kept on disk: {self.path}: {error}",
                file=sys.stderr,
            )
            self._store = None


def _names(keys: WordArray) -> Sequence[bytes]:
    return [row.tobytes() for row in keys.astype("<u8")]
