"""The rows that are out: asked for and not told yet, each at its position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray
from framework.batch import Evaluated
from framework.errors import ContractError

_SMALLEST = 256


class Window:
    """Takes values in any order and hands rows out in the order asked, O(1) a row.

    Parameters
    ----------
    metrics : sequence of str
        Names that every row must have a value of.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = tuple(metrics)
        self._first = 0  # id of the oldest row
        self._start = self._stop = 0  # where the rows lie in the arrays
        self._known = 0  # rows from the oldest on that have their values
        self._X: Array = np.zeros((0, 0))
        self._values: FloatArray = np.zeros((0, len(self._metrics)))
        self._here: BoolArray = np.zeros(0, dtype=bool)
        self._new: BoolArray = np.zeros(0, dtype=bool)
        self._errors: dict[int, str] = {}

    @property
    def known(self) -> int:
        """How many rows from the oldest on have their values."""
        return self._known

    def ask(self, X: Array) -> None:
        """Add rows at the end, genomes (n, d)."""
        n = len(X)
        if self._stop + n > len(self._X):
            self._make_room(X)
        self._X[self._stop : self._stop + n] = X
        self._here[self._stop : self._stop + n] = False
        self._stop += n

    def put(self, piece: Evaluated, *, new: bool) -> None:
        """Give rows their values; ``new`` ones are not in the journal yet.

        Raises
        ------
        ContractError
            Rows are unknown or known already, genomes differ, or a metric is missing.
        """
        at = piece.ids - (self._first - self._start)
        if len(at) and (at.min() < self._start or at.max() >= self._stop or self._here[at].any()):
            raise ContractError("collect: expected rows that were submitted, found others")
        piece.check_values(self._X[at], self._metrics, "collect")
        if len(at) > 1 and len(np.unique(at)) < len(at):
            raise ContractError("collect: expected each row once, found one twice")
        self._here[at] = True
        self._new[at] = new
        for j, name in enumerate(self._metrics):
            self._values[at, j] = piece.values[name]
        self._errors.update(piece.errors)
        waiting = self._here[self._start + self._known : self._stop]
        if len(waiting) and waiting[0]:
            self._known += len(waiting) if waiting.all() else int(waiting.argmin())

    def pop(self, n: int) -> tuple[Evaluated, BoolArray]:
        """Remove the oldest ``n`` rows, which are known; return them, and which are new."""
        inside = slice(self._start, self._start + n)
        ids = np.arange(self._first, self._first + n)
        values = {name: self._values[inside, j].copy() for j, name in enumerate(self._metrics)}
        errors: dict[int, str] = {}
        if self._errors:
            errors = {id: self._errors.pop(id) for id in ids.tolist() if id in self._errors}
        rows = Evaluated(ids, self._X[inside].copy(), values, errors)
        new = self._new[inside].copy()
        self._start, self._first, self._known = self._start + n, self._first + n, self._known - n
        return rows, new

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
