"""Replay of a journal, bookkeeping of pending evaluations, and writing to the journal in chunks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import ContractError, JournalError
from framework.journal import Journal

_CHUNK_SIZE = 256
_CHUNK_SECONDS = 0.05
_SMALLEST = 256  # least length of the arrays of pending evaluations


class JournalReplay:
    """The evaluations that a journal already has, by id, however they were written.

    Parameters
    ----------
    journal : Journal or None

    Raises
    ------
    JournalError
        The journal cannot be read, or has an evaluation twice.
    """

    def __init__(self, journal: Journal | None) -> None:
        batches = [] if journal is None else list(journal.evaluations())
        self._path = "" if journal is None else journal.path
        self._rows = Evaluated.concat(batches) if batches else None
        self._taken = 0
        if self._rows is not None and (np.diff(self._rows.ids) == 0).any():
            raise JournalError(f"{self._path}: expected each row once, found one twice")

    @property
    def over(self) -> bool:
        """Whether everything in the journal was replayed."""
        return self._rows is None or self._taken == len(self._rows)

    def take(self, first: int, X: Array) -> Evaluated | None:
        """Return the known evaluations among ``first``, ``first + 1``, ... with genomes ``X``.

        Raises
        ------
        JournalError
            The journal has other genomes, or evaluations before ``first`` that were not taken.
        """
        if self._rows is None or self.over:
            return None
        start, stop = np.searchsorted(self._rows.ids, [first, first + len(X)]).tolist()
        if start != self._taken:
            raise JournalError(
                f"{self._path}: expected to go on after row {self._rows.ids[self._taken]}, found "
                f"that the search goes on at row {first}: rows between would be lost"
            )
        rows = self._rows.take(np.arange(start, stop))
        if not len(rows):
            return None
        same = (X[rows.ids - first] == rows.X).all(axis=1)
        if not same.all():
            raise JournalError(
                f"{self._path}: expected at row {rows.ids[~same][0]} the genomes that this "
                "algorithm asks for, found others: the journal was written by another version"
            )
        self._taken += len(rows)
        return rows


class PendingEvaluations:
    """Batches that are being evaluated: takes values in any order, returns batches in order.

    O(1) per candidate. A piece that is exactly the oldest batch is returned unchanged. Only if
    other pieces arrive, values are copied into arrays, at the positions of their candidates.

    Parameters
    ----------
    metrics : sequence of str
        Names that every candidate must have a value of.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = tuple(metrics)
        self._batches: deque[Array] = deque()  # genomes, the oldest first
        self._first = 0  # id of the oldest candidate
        # the oldest batch if it arrived in one piece, and whether it is new; else None
        self._complete: tuple[Evaluated, bool] | None = None
        self._separate: deque[Array] = deque()  # the latest batches, not in the arrays yet
        self._start = self._stop = 0  # positions in use in the arrays
        self._known = 0  # number of positions, from the oldest on without a gap, that have values
        self._X: Array = np.zeros((0, 0))
        self._values: FloatArray = np.zeros((0, len(self._metrics)))
        self._arrived: BoolArray = np.zeros(0, dtype=bool)
        self._new: BoolArray = np.zeros(0, dtype=bool)
        self._errors: dict[int, str] = {}

    @property
    def incomplete(self) -> bool:
        """Whether a candidate of the oldest batch has no values yet."""
        return self._complete is None and self._known < len(self._batches[0])

    def add(self, X: Array) -> None:
        """Add a batch at the end: genomes, shape (n, d), which must not change."""
        self._batches.append(X)
        self._separate.append(X)

    def skip(self, n: int) -> None:
        """Skip the next ids, which were evaluated at once; nothing else may be pending."""
        self._first += n

    def receive(self, piece: Evaluated, *, new: bool) -> None:
        """Take values of candidates; ``new`` ones are not in the journal yet.

        Raises
        ------
        ContractError
            Candidates are unknown or have values already, genomes differ, or a metric is missing.
        """
        if self._is_oldest(piece):
            piece.check_values(self._batches[0], self._metrics, "collect")
            self._complete = piece, new
            return
        self._lay_out()
        places = piece.ids - (self._first - self._start)
        outside = (places < self._start) | (places >= self._stop)
        if outside.any() or self._arrived[places].any():
            raise ContractError("collect: expected rows that were submitted, found others")
        piece.check_values(self._X[places], self._metrics, "collect")
        if len(places) > 1 and len(np.unique(places)) < len(places):
            raise ContractError("collect: expected each row once, found one twice")
        self._fill(places, piece, new)

    @property
    def some_known(self) -> bool:
        """Whether a candidate of any batch has values."""
        return self._complete is not None or bool(self._arrived[self._start : self._stop].any())

    def pop(self) -> tuple[Evaluated, Evaluated | None]:
        """Remove the oldest batch; return its evaluations, and those that are not in the journal.

        The second is None if all are in the journal. Candidates without values are left out.
        """
        X = self._batches.popleft()
        n, first = len(X), self._first
        self._first += n
        if self._complete is not None:
            (rows, is_new), self._complete = self._complete, None
            self._separate.popleft()
            return rows, rows if is_new else None
        self._lay_out()
        inside = slice(self._start, self._start + n)
        values = {name: self._values[inside, j].copy() for j, name in enumerate(self._metrics)}
        ids = np.arange(first, first + n)
        errors: dict[int, str] = {}
        if self._errors:
            errors = {id: self._errors.pop(id) for id in ids.tolist() if id in self._errors}
        new, arrived = self._new[inside], self._arrived[inside]
        rows = Evaluated(ids, X, values, errors)
        if not arrived.all():
            rows, new = rows.take(arrived), new[arrived]
        self._start, self._known = self._start + n, max(0, self._known - n)
        if new.all():
            return rows, rows
        return rows, rows.take(new) if new.any() else None

    def _is_oldest(self, piece: Evaluated) -> bool:
        """Return whether a piece is exactly the oldest batch, and the arrays are empty."""
        if self._stop > self._start or self._complete is not None or not self._batches:
            return False
        return piece.counts_from(self._first, len(self._batches[0]))

    def _lay_out(self) -> None:
        """Copy all batches into the arrays, and the values of the oldest one if it has some."""
        while self._separate:
            X = self._separate.popleft()
            if self._stop + len(X) > len(self._X):
                self._grow(X)
            self._X[self._stop : self._stop + len(X)] = X
            self._arrived[self._stop : self._stop + len(X)] = False
            self._stop += len(X)
        if self._complete is not None:
            (rows, new), self._complete = self._complete, None
            self._fill(self._start + np.arange(len(rows)), rows, new)

    def _fill(self, places: IntArray, piece: Evaluated, new: bool) -> None:
        """Write values at positions of the arrays."""
        self._arrived[places] = True
        self._new[places] = new
        for j, name in enumerate(self._metrics):
            self._values[places, j] = piece.values[name]
        self._errors.update(piece.errors)
        waiting = self._arrived[self._start + self._known : self._stop]
        if len(waiting) and waiting[0]:
            self._known += len(waiting) if waiting.all() else int(waiting.argmin())

    def _grow(self, X: Array) -> None:
        """Move the pending values into new arrays that are at most half full with ``X``."""
        held = slice(self._start, self._stop)
        count = self._stop - self._start
        size = max(_SMALLEST, 2 * (count + len(X)))
        for name in ("_X", "_values", "_arrived", "_new"):
            old = getattr(self, name)
            shape = (size, *(X.shape[1:] if name == "_X" else old.shape[1:]))
            fresh = np.zeros(shape, dtype=X.dtype if name == "_X" else old.dtype)
            if count:
                fresh[:count] = old[held]
            setattr(self, name, fresh)
        self._start, self._stop = 0, count


class JournalWriter:
    """Writes evaluations to the journal, in chunks if they arrive one by one.

    A chunk is written when it has 256 evaluations or is 50 ms old. At the end of a ``with`` block
    the rest is written, even if the run ends with an exception.

    Parameters
    ----------
    journal : Journal or None
        If None, nothing is written.
    clock : callable
        Returns the seconds of searching so far.
    """

    def __init__(self, journal: Journal | None, clock: Callable[[], float]) -> None:
        self._journal, self._clock = journal, clock
        self._waiting: list[Evaluated] = []
        self._count = 0
        self._since = 0.0  # when the oldest evaluation of the chunk came

    def write(self, rows: Evaluated) -> None:
        """Write evaluations now."""
        if self._journal is not None:
            self._journal.append(rows, self._clock())

    def add(self, rows: Evaluated) -> None:
        """Add evaluations to the next chunk."""
        if self._journal is None:
            return
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting.append(rows)
        self._count += len(rows)

    def patience(self, longest: float) -> float:
        """Return for how many seconds to wait for further evaluations, at most ``longest``."""
        return min(longest, _CHUNK_SECONDS) if self._waiting else longest

    def flush_where_due(self) -> None:
        """Write the chunk if it is large or old enough."""
        if self._count >= _CHUNK_SIZE or (
            self._waiting and time.perf_counter() - self._since >= _CHUNK_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Write the chunk."""
        if self._waiting:
            chunk, self._waiting, self._count = self._waiting, [], 0  # never written twice
            self.write(Evaluated.concat(chunk))

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()
        else:
            with suppress(JournalError):  # the error that ends the run is the one to see
                self.flush()
