"""Tells whoever watches that kernels are being compiled, which happens once on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable

SOON = 1.0  # seconds of compiling that are not worth a sentence
SENTENCE = "compiling the search, once on this machine: it takes up to half a minute"


class Compiling:
    """Counts the time that a process compiles; says so once, to whoever watched last."""

    def __init__(self) -> None:
        self._tell: Callable[[str], None] | None = None
        self._depth, self._spent, self._begun, self._said = 0, 0.0, 0.0, False

    def watched_by(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with a sentence when compiling takes longer."""
        self._tell = tell

    def begin(self) -> None:
        """Count from here on: a kernel, or one that it calls, is compiled."""
        now = time.perf_counter()
        if not self._depth:
            self._begun = now
        self._depth += 1
        spent = self._spent + now - self._begun
        if self._tell is not None and not self._said and spent > SOON:
            self._said = True
            self._tell(SENTENCE)

    def end(self) -> None:
        """Count no further, if nothing else is being compiled."""
        self._depth -= 1
        if not self._depth:
            self._spent += time.perf_counter() - self._begun


COMPILING = Compiling()
