"""Tells the user that kernels are being compiled, which happens once on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable

SOON = 1.0  # seconds of compiling that are not worth a sentence
SENTENCE = "compiling the search, once on this machine: it takes up to half a minute"


class Compiling:
    """Counts the time that this process spends compiling; tells the latest listener once."""

    def __init__(self) -> None:
        self._tell: Callable[[str], None] | None = None
        self._depth, self._spent, self._begun, self._said = 0, 0.0, 0.0, False

    def watched_by(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with a sentence when compiling takes more than a second."""
        self._tell = tell

    def clock(self) -> float:
        """Return seconds of a clock that stands still while kernels are compiled."""
        return (self._begun if self._depth else time.perf_counter()) - self._spent

    def begin(self) -> None:
        """Start counting: a kernel, or one that it calls, is being compiled."""
        now = time.perf_counter()
        if not self._depth:
            self._begun = now
        self._depth += 1
        spent = self._spent + now - self._begun
        if self._tell is not None and not self._said and spent > SOON:
            self._said = True
            self._tell(SENTENCE)

    def end(self) -> None:
        """Stop counting, unless another kernel is still being compiled."""
        self._depth -= 1
        if not self._depth:
            self._spent += time.perf_counter() - self._begun


COMPILING = Compiling()
