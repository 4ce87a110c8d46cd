"""What goes between a run and its journal: rows that are known already, and rows to write."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import numpy as np

from framework.arrays import Array
from framework.batch import Evaluated
from framework.errors import JournalError
from framework.journal import Journal

_GROUP_ROWS = 256
_GROUP_SECONDS = 0.05


class History:
    """The rows that a journal already holds, whatever the order in which they were written.

    Parameters
    ----------
    journal : Journal or None

    Raises
    ------
    JournalError
        It cannot be read, or has a row twice.
    """

    def __init__(self, journal: Journal | None) -> None:
        batches = [] if journal is None else [batch for batch, _ in journal.batches()]
        self._path = "" if journal is None else journal.path
        self._rows = Evaluated.concat(batches) if batches else None
        self._left = 0 if self._rows is None else len(self._rows)
        if self._rows is not None and (np.diff(self._rows.ids) == 0).any():
            raise JournalError(f"{self._path}: expected each row once, found one twice")

    @property
    def over(self) -> bool:
        """Whether all rows were handed out."""
        return self._left == 0

    def take(self, first: int, X: Array) -> Evaluated | None:
        """Return the known rows among ``first``, ``first + 1``, ... whose genomes are ``X``.

        Raises
        ------
        JournalError
            It has other genomes there.
        """
        if self._rows is None or not self._left:
            return None
        start, stop = np.searchsorted(self._rows.ids, [first, first + len(X)]).tolist()
        rows = self._rows.take(np.arange(start, stop))
        if not len(rows):
            return None
        same = (X[rows.ids - first] == rows.X).all(axis=1)
        if not same.all():
            raise JournalError(
                f"{self._path}: expected at row {rows.ids[~same][0]} the genomes that this "
                "algorithm asks for, found others: the journal was written by another version"
            )
        self._left -= len(rows)
        return rows


class Writer:
    """Writes rows down, those that arrive one by one in groups.

    A group is written when it has 256 rows or is 50 ms old. As a context manager it writes what
    is left, also where the run ends by an exception.

    Parameters
    ----------
    journal : Journal or None
        None writes nothing.
    clock : callable
        Returns the seconds of searching so far.
    """

    def __init__(self, journal: Journal | None, clock: Callable[[], float]) -> None:
        self._journal, self._clock = journal, clock
        self._waiting: list[Evaluated] = []
        self._count = 0
        self._since = 0.0  # when the oldest row of the group came

    def write(self, rows: Evaluated) -> None:
        """Write rows now."""
        if self._journal is not None:
            self._journal.append(rows, self._clock())

    def add(self, rows: Evaluated) -> None:
        """Take rows for the next group."""
        if self._journal is None:
            return
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting.append(rows)
        self._count += len(rows)

    def patience(self, longest: float) -> float:
        """Return for how many seconds one may wait for more rows, at most ``longest``."""
        return min(longest, _GROUP_SECONDS) if self._waiting else longest

    def flush_where_due(self) -> None:
        """Write the group if it is large or old enough."""
        if self._count >= _GROUP_ROWS or (
            self._waiting and time.perf_counter() - self._since >= _GROUP_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Write the group."""
        if self._waiting:
            self.write(Evaluated.concat(self._waiting))
            self._waiting, self._count = [], 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush()
        else:
            with suppress(JournalError):  # the error that ends the run is the one to see
                self.flush()
