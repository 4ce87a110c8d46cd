"""Workforces: who builds shared parts and does what an algorithm needs before it can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from framework.arrays import WordArray
from framework.parts import SharedParts

_PARTS = 4096  # parts built in this process at a time


class Workforce(Protocol):
    """Work that an algorithm needs done before it can ask.

    What comes out does not depend on who does it.
    """

    def build(self, keys: WordArray) -> Iterator[int]:
        """Have the problem hold shared parts: keys, shape (m, key words), none of them held yet.

        Yields how many more are there, now and then. Nothing is built where the problem has no
        shared parts.
        """
        ...

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield ``function(shared, piece)`` for each piece, in order.

        ``function`` is a module's own and pure: it, ``shared`` and the pieces may travel. What it
        raises is raised here.
        """
        ...


class InProcess:
    """A :class:`Workforce` that is this process.

    Parameters
    ----------
    problem : SharedParts, optional
        Whose parts to build.
    """

    def __init__(self, problem: SharedParts | None = None) -> None:
        self._builder = SharedParts() if problem is None else problem

    def build(self, keys: WordArray) -> Iterator[int]:
        """See :meth:`Workforce.build`."""
        for start in range(0, len(keys), _PARTS):
            some = keys[start : start + _PARTS]
            built = self._builder.build_parts(some)
            self._builder.add_parts(built)
            yield len(built)

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        """See :meth:`Workforce.map`."""
        for piece in pieces:
            yield function(shared, piece)
