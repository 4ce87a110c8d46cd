"""Replay of a journal, bookkeeping of pending evaluations, and writing to the journal in chunks."""

from __future__ import annotations

import time
from bisect import bisect
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from framework.arrays import Array, BoolArray
from framework.batch import Evaluated
from framework.errors import ContractError, JournalError
from framework.journal import Journal

_CHUNK_SIZE = 256
_CHUNK_SECONDS = 0.05


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


class _Batch:
    """A batch that is being evaluated: its genomes, and what has arrived of it."""

    def __init__(self, first: int, X: Array) -> None:
        self.first, self.X = first, X
        self.left = len(X)  # candidates without values
        self.arrived: BoolArray | None = None  # which have values; made when a piece is no whole
        self.pieces: list[tuple[Evaluated, bool]] = []  # each with whether it is new

    def receive(self, piece: Evaluated, metrics: Sequence[str], new: bool) -> None:
        """Take values of some of its candidates."""
        if not self.pieces and piece.counts_from(self.first, len(self.X)):
            piece.check_values(self.X, metrics, "collect")
        else:
            places = piece.ids - self.first
            self.arrived = np.zeros(len(self.X), bool) if self.arrived is None else self.arrived
            if not self.left or (places >= len(self.X)).any() or self.arrived[places].any():
                raise ContractError("collect: expected rows that were submitted, found others")
            piece.check_values(self.X[places], metrics, "collect")
            if len(np.unique(places)) < len(places):
                raise ContractError("collect: expected each row once, found one twice")
            self.arrived[places] = True
        self.left -= len(piece)
        self.pieces.append((piece, new))


class PendingEvaluations:
    """Batches that are being evaluated: takes values in any order, returns batches in order.

    Parameters
    ----------
    metrics : sequence of str
        Names that every candidate must have a value of.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = tuple(metrics)
        self._batches: deque[_Batch] = deque()  # the oldest first
        self._next = 0  # id of the first candidate of the next batch

    @property
    def incomplete(self) -> bool:
        """Whether a candidate of the oldest batch has no values yet."""
        return self._batches[0].left > 0

    @property
    def some_known(self) -> bool:
        """Whether a candidate of any batch has values."""
        return any(batch.pieces for batch in self._batches)

    def add(self, X: Array) -> None:
        """Add a batch at the end: genomes, shape (n, d), which must not change."""
        self._batches.append(_Batch(self._next, X))
        self._next += len(X)

    def skip(self, n: int) -> None:
        """Skip the next ids, which were evaluated at once; nothing else may be pending."""
        self._next += n

    def receive(self, piece: Evaluated, *, new: bool) -> None:
        """Take values of candidates; ``new`` ones are not in the journal yet.

        Raises
        ------
        ContractError
            Candidates are unknown or have values already, genomes differ, or a metric is missing.
        """
        while len(piece):
            after = bisect(self._batches, piece.ids[0], key=lambda batch: batch.first)
            batch = self._batches[after - 1]  # of an id before all of them, the last one
            inside = (piece.ids >= batch.first) & (piece.ids < batch.first + len(batch.X))
            if inside.all():
                batch.receive(piece, self._metrics, new)
                return
            if not inside.any():
                raise ContractError("collect: expected rows that were submitted, found others")
            batch.receive(piece.take(inside), self._metrics, new)
            piece = piece.take(~inside)

    def pop(self) -> tuple[Evaluated, Evaluated | None]:
        """Remove the oldest batch; return its evaluations, and those that are not in the journal.

        The second is None if all are in the journal. Candidates without values are left out.
        """
        batch = self._batches.popleft()
        if len(batch.pieces) == 1 and batch.arrived is None:
            rows, is_new = batch.pieces[0]
            return rows, rows if is_new else None
        if not batch.pieces:
            nothing = {name: np.zeros(0) for name in self._metrics}
            return Evaluated(np.arange(0), batch.X[:0], nothing), None
        rows = Evaluated.concat([piece for piece, _ in batch.pieces])
        new = [piece for piece, is_new in batch.pieces if is_new]
        if len(new) == len(batch.pieces):
            return rows, rows
        return rows, Evaluated.concat(new) if new else None


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
