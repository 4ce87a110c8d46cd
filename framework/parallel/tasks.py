"""Tasks for a pool of workers: how they are divided into requests, and when a request is late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Protocol

import numpy as np

CHUNK_SECONDS = 0.2  # of work in a request: two hundred times what sending it costs
_SMALL_SECONDS = 0.005  # less work than this is never divided
_LATE_SECONDS = 2.0  # a request is never late before this,
_LATE_TIMES = 3.0  # nor before this multiple of the time that it should take
_SPLIT = 8  # pieces into which a task is divided when its worker has died


@dataclass(eq=False)
class Task:
    """Work for a pool of workers: a method to call, for one or several items.

    Attributes
    ----------
    kind : str
        Name of the method to call; the object that the workers hold has it.
    columns : tuple of sequences
        Arguments of the method, each a sequence with one entry per item.
    attempts : list of str
        Ids of the nodes on which a worker died while it did this task, one for each attempt.
    failed_on : list of str
        Ids of the nodes that were themselves at fault when the task failed, one for each attempt.
    in_flight : int
        Number of workers that have been sent the task and have not answered.
    finished : bool
        Whether its result has arrived, or it was given up.
    divided : bool
        Whether it is a part of a task that may have killed its worker.
    suspect : bool
        Whether a worker was lost while it did this task, so that no other one is to repeat it.
    """

    kind: str
    columns: tuple[Any, ...]
    attempts: list[str] = field(default_factory=list)
    failed_on: list[str] = field(default_factory=list)
    in_flight: int = 0
    finished: bool = False
    divided: bool = False
    suspect: bool = False

    def __len__(self) -> int:
        return len(self.columns[0])

    def slice(self, start: int, stop: int) -> Task:
        """Return a task for the items from ``start`` up to ``stop``."""
        columns = tuple(column[start:stop] for column in self.columns)
        histories = list(self.attempts), list(self.failed_on)
        return Task(self.kind, columns, *histories, divided=self.divided)

    @staticmethod
    def joined(tasks: Sequence[Task]) -> Task:
        """Return one task for all items of new tasks of one kind, whose columns are arrays."""
        columns = zip(*(task.columns for task in tasks), strict=True)
        return Task(tasks[0].kind, tuple(map(np.concatenate, columns)))

    @property
    def is_new(self) -> bool:
        """Whether no worker and no node has failed at it, so that it may be joined with others."""
        return not (self.attempts or self.failed_on or self.divided)

    def split(self) -> list[Task]:
        """Return tasks that have a few of the items each, and are not joined again."""
        self.divided = True
        step = ceil(len(self) / _SPLIT)
        return [self.slice(start, start + step) for start in range(0, len(self), step)]


class TaskOwner(Protocol):
    """The object that gives tasks to a pool and takes their results."""

    def arguments(self, task: Task, n_components: int) -> tuple[tuple[Any, ...], int]:
        """Return the arguments of the method, and how many components the worker has afterwards.

        ``n_components`` is how many it has before the call.
        """
        ...

    def work(self, task: Task) -> Callable[[], Any]:
        """Return a function that does the task without Ray."""
        ...

    def answered(self, task: Task, answer: Any) -> None:
        """Take what the method returned."""
        ...

    def raised(self, task: Task, error: Exception) -> None:
        """Take what the method raised: an EnvironmentFailure if every node was at fault."""
        ...

    def killed(self, task: Task, reason: str) -> None:
        """Give up a task of one item, since every process that did it died, for this reason."""
        ...


class DispatchCost:
    """Mean seconds per item; each request counts half as much as the one after it."""

    def __init__(self) -> None:
        self._seconds = self._items = 0.0

    def add(self, seconds: float, items: int) -> None:
        self._seconds = self._seconds / 2 + seconds
        self._items = self._items / 2 + items

    @property
    def per_item(self) -> float | None:
        """Seconds; None before the first measurement."""
        return max(self._seconds / self._items, 1e-9) if self._items else None

    def seconds(self, items: int) -> float:
        """Return the expected seconds of some items; 0 before the first measurement."""
        return (self.per_item or 0.0) * items

    def chunk(self, items: int, share: float) -> int:
        """Return how many of the items that wait to put into the next request.

        Parameters
        ----------
        items : int
            How many wait.
        share : float
            Seconds of work that the worker lacks to have as much as the others.
        """
        if not self.per_item:
            return 1  # until the first measurement: an item may take an hour
        if self.seconds(items) <= _SMALL_SECONDS:
            return items
        seconds = min(max(share, _SMALL_SECONDS), CHUNK_SECONDS)
        return max(1, min(items, round(seconds / self.per_item)))

    def late_after(self, items: int) -> float:
        """Return the seconds after which a request is late, and an idle worker may repeat it."""
        return max(_LATE_SECONDS, _LATE_TIMES * items * (self.per_item or 0.0))
