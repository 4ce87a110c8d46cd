"""What a pool of workers does: work that can be divided, and how much of it makes a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, Protocol

from framework.run.requests import request_size

_SPLIT = 8  # pieces of a chunk whose worker died


@dataclass(eq=False)
class Work:
    """Something to do, of one or several items.

    Attributes
    ----------
    kind : str
        The method that does it, of what the workers hold.
    columns : tuple of sequences
        Of equal lengths; divided where the work is divided.
    strikes : list of str
        The nodes whose workers died of it, each time.
    failed_on : list of str
        The nodes that could not do it for reasons of their own, each time.
    out : int
        Requests under way that do it.
    settled : bool
        Whether it is done, or given up.
    """

    kind: str
    columns: tuple[Any, ...]
    strikes: list[str] = field(default_factory=list)
    failed_on: list[str] = field(default_factory=list)
    out: int = 0
    settled: bool = False

    def __len__(self) -> int:
        return len(self.columns[0])

    def slice(self, start: int, stop: int) -> Work:
        """Return the work of some of the items."""
        columns = tuple(column[start:stop] for column in self.columns)
        return Work(self.kind, columns, list(self.strikes), list(self.failed_on))

    def split(self) -> list[Work]:
        """Return the same work in a few pieces."""
        step = ceil(len(self) / _SPLIT)
        return [self.slice(start, start + step) for start in range(0, len(self), step)]


class Owner(Protocol):
    """Whoever gave work to a pool."""

    def arguments(self, work: Work, parts: int) -> tuple[tuple[Any, ...], int]:
        """Return what the worker's method is called with, and how many parts it holds then.

        ``parts`` is how many it holds now.
        """
        ...

    def answered(self, work: Work, answer: Any) -> None:
        """Take what the method returned."""
        ...

    def expects(self, work: Work) -> bool:
        """Tell whether the method may raise; a worker that raises unexpectedly is replaced."""
        ...

    def raised(self, work: Work, error: Exception) -> None:
        """Take what the method raised; an EnvironmentFailure where that persists on all nodes."""
        ...

    def killed(self, work: Work, reason: str) -> None:
        """Take work, of one item, of which workers died again and again, and what to say."""
        ...


class DispatchCost:
    """Seconds per item as measured, recent requests weighing most."""

    def __init__(self) -> None:
        self._seconds = self._rows = 0.0

    def add(self, seconds: float, rows: int) -> None:
        self._seconds = self._seconds / 2 + seconds
        self._rows = self._rows / 2 + rows

    @property
    def per_row(self) -> float | None:
        """Seconds; None before the first measurement."""
        return self._seconds / self._rows if self._rows else None

    def chunk(self, rows: int, workers: int) -> int:
        """Return how many of ``rows`` waiting rows the next request takes."""
        if not self._rows:
            return 1  # a probe: better than an hour in one request
        return request_size(rows, workers, max(self._seconds / self._rows, 1e-9))
