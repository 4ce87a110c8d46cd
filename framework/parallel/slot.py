"""A worker as the pool sees it: what it has been asked, and why it died."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from framework.parallel.work import Work

_IN_FLIGHT = 3  # requests queued at a worker, so that it never waits for the next


@dataclass(eq=False)
class Slot:
    """A worker, what it holds, and what it has been asked, oldest first."""

    actor: Any
    avoided: frozenset[str] = frozenset()  # the nodes where it may not start
    pid: int | None = None  # None until the worker is ready
    node: str = ""
    parts: int = 0
    asked: deque[tuple[Any, Work]] = field(default_factory=deque)  # references and their work
    since: float = 0.0  # when it began with the oldest
    alone: bool = False  # what it works on is long, or a suspect

    def takes(self, alone: bool) -> bool:
        """Tell whether to send a request, which may have to be alone; others queue up."""
        if self.pid is None or not self.asked:
            return self.pid is not None
        return not (alone or self.alone) and len(self.asked) < _IN_FLIGHT


def death_reason(error: Exception) -> str:
    """Return the telling line of what Ray says about a death."""
    text = str(error)
    detail = re.search(r"exit detail: (.+?)(?:\. |\.$|\n|$)", text)
    if detail:
        return detail.group(1)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
