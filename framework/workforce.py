"""Workforces build shared parts and compute what an algorithm needs before its first batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from framework.arrays import WordArray
from framework.components import SharedComponents

_PARTS = 4096  # parts built in this process at a time


class Workforce(Protocol):
    """Workers that compute what an algorithm needs before its first batch.

    The results do not depend on who computes them.
    """

    def build(self, keys: WordArray) -> Iterator[int]:
        """Build shared parts and add them to the problem.

        Parameters
        ----------
        keys : numpy.ndarray of uint64, shape (m, key words)
            Keys of parts that the problem does not have yet. Nothing is built where the problem
            has no shared parts.

        Yields
        ------
        int
            How many parts were added since the last time.
        """
        ...

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield ``function(shared, piece)`` for each piece, in order.

        ``function`` is pure and defined in a module, so that it, ``shared`` and the pieces can be
        sent to other processes. An exception of the function is raised here.
        """
        ...


class InProcess:
    """A :class:`Workforce` that works in this process.

    Parameters
    ----------
    problem : SharedComponents, optional
        The problem whose parts are built.
    """

    def __init__(self, problem: SharedComponents | None = None) -> None:
        self._builder = SharedComponents() if problem is None else problem

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`Workforce.build`."""
        if not self._builder.has_components:
            return
        for start in range(0, len(keys), _PARTS):
            some = keys[start : start + _PARTS]
            built = self._builder.build_components(some)
            self._builder.add_components(built)
            yield len(built)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`Workforce.map`."""
        for piece in pieces:
            yield function(shared, piece)
