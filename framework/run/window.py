"""The rows that are out: asked for and not told yet, each at its position."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import ContractError

_SMALLEST = 256


class Window:
    """Takes values in any order and hands batches out in the order asked, O(1) a row.

    A piece that answers the oldest batch, and is the first to do so, is handed out as it came.
    Where others come they are laid out in arrays, row by row.

    Parameters
    ----------
    metrics : sequence of str
        Names that every row must have a value of.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = tuple(metrics)
        self._batches: deque[Array] = deque()  # genomes, the oldest first
        self._first = 0  # id of the oldest row
        self._whole: tuple[Evaluated, bool] | None = None  # the oldest batch, and whether it is new
        self._apart: deque[Array] = deque()  # the last batches, which are not in the arrays
        self._start = self._stop = 0  # where rows lie in the arrays
        self._known = 0  # of these, from the oldest on, that have their values
        self._X: Array = np.zeros((0, 0))
        self._values: FloatArray = np.zeros((0, len(self._metrics)))
        self._here: BoolArray = np.zeros(0, dtype=bool)
        self._new: BoolArray = np.zeros(0, dtype=bool)
        self._errors: dict[int, str] = {}

    @property
    def lacks(self) -> bool:
        """Whether a row of the oldest batch has no values yet."""
        return self._whole is None and self._known < len(self._batches[0])

    def ask(self, X: Array) -> None:
        """Add a batch at the end, genomes (n, d) that stay as they are."""
        self._batches.append(X)
        self._apart.append(X)

    def skip(self, n: int) -> None:
        """Pass over the next rows, where none is out: they were scored without coming here."""
        self._first += n

    def put(self, piece: Evaluated, *, new: bool) -> None:
        """Give rows their values; ``new`` ones are not in the journal yet.

        Raises
        ------
        ContractError
            Rows are unknown or known already, genomes differ, or a metric is missing.
        """
        if self._is_oldest(piece):
            piece.check_values(self._batches[0], self._metrics, "collect")
            self._whole = piece, new
            return
        self._lay_out()
        at = piece.ids - (self._first - self._start)
        if len(at) and (at.min() < self._start or at.max() >= self._stop or self._here[at].any()):
            raise ContractError("collect: expected rows that were submitted, found others")
        piece.check_values(self._X[at], self._metrics, "collect")
        if len(at) > 1 and len(np.unique(at)) < len(at):
            raise ContractError("collect: expected each row once, found one twice")
        self._fill(at, piece, new)

    def pop(self) -> tuple[Evaluated, Evaluated | None]:
        """Remove the oldest batch, which is known; return it, and those of its rows that are new.

        None where none is.
        """
        X = self._batches.popleft()
        n, first = len(X), self._first
        self._first += n
        if self._whole is not None:
            (rows, whole_is_new), self._whole = self._whole, None
            self._apart.popleft()
            return rows, rows if whole_is_new else None
        inside = slice(self._start, self._start + n)
        values = {name: self._values[inside, j].copy() for j, name in enumerate(self._metrics)}
        ids = np.arange(first, first + n)
        errors: dict[int, str] = {}
        if self._errors:
            errors = {id: self._errors.pop(id) for id in ids.tolist() if id in self._errors}
        new = self._new[inside]
        self._start, self._known = self._start + n, self._known - n
        rows = Evaluated(ids, X, values, errors)
        if new.all():
            return rows, rows
        return rows, rows.take(new) if new.any() else None

    def _is_oldest(self, piece: Evaluated) -> bool:
        """Tell whether a piece is the oldest batch, where none of the rows is known."""
        if self._stop > self._start or self._whole is not None or not self._batches:
            return False
        return piece.counts_from(self._first, len(self._batches[0]))

    def _lay_out(self) -> None:
        """Bring all batches into the arrays, and what is known of the oldest."""
        while self._apart:
            X = self._apart.popleft()
            if self._stop + len(X) > len(self._X):
                self._make_room(X)
            self._X[self._stop : self._stop + len(X)] = X
            self._here[self._stop : self._stop + len(X)] = False
            self._stop += len(X)
        if self._whole is not None:
            (rows, new), self._whole = self._whole, None
            self._fill(self._start + np.arange(len(rows)), rows, new)

    def _fill(self, at: IntArray, piece: Evaluated, new: bool) -> None:
        """Put values at places in the arrays."""
        self._here[at] = True
        self._new[at] = new
        for j, name in enumerate(self._metrics):
            self._values[at, j] = piece.values[name]
        self._errors.update(piece.errors)
        waiting = self._here[self._start + self._known : self._stop]
        if len(waiting) and waiting[0]:
            self._known += len(waiting) if waiting.all() else int(waiting.argmin())

    def _make_room(self, X: Array) -> None:
        """Move the rows to the front of arrays that are at most half full with ``X``."""
        held = slice(self._start, self._stop)
        count = self._stop - self._start
        size = max(_SMALLEST, 2 * (count + len(X)))
        for name in ("_X", "_values", "_here", "_new"):
            old = getattr(self, name)
            shape = (size, *(X.shape[1:] if name == "_X" else old.shape[1:]))
            fresh = np.zeros(shape, dtype=X.dtype if name == "_X" else old.dtype)
            if count:
                fresh[:count] = old[held]
            setattr(self, name, fresh)
        self._start, self._stop = 0, count
