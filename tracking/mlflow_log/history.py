"""The front after each generation, stored as the generations when a solution entered and left it.

``fronts.csv`` has one row per solution that was ever on the front: ``id``, ``entered_generation``,
``left_generation`` (empty if it stayed), the metrics and the ``gene_`` columns. The front of
generation ``g`` consists of the rows with entered <= g < left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from framework.batch import Evaluated
from framework.front import Archive, Front
from framework.roles import Roles

if TYPE_CHECKING:
    import pandas as pd

ENTERED, LEFT = "entered_generation", "left_generation"

_LOOKED_AT = 64  # waiting rows are only merged once they are at least 1/64 of the front


class Generation(NamedTuple):
    """The metrics of a generation by name, its time, and the batches of the journal so far."""

    number: int
    seconds: float
    metrics: Mapping[str, float]
    batches: int


class History:
    """Replays a journal, batch by batch.

    Parameters
    ----------
    roles : Roles
    gene_names : tuple of str
    evaluations_per_generation : int, optional
        Number of candidates in a generation, if batches are pieces of one; None if each batch is a
        generation. In that case, metrics are only computed once the new rows are a 64th of the
        front, so that the replay of n small batches costs O(n log n).

    Attributes
    ----------
    n_batches : int
        Batches added.
    formed : int
        Batches whose metrics were computed.
    """

    def __init__(
        self,
        roles: Roles,
        gene_names: tuple[str, ...],
        evaluations_per_generation: int | None = None,
    ) -> None:
        self.roles = roles
        self.gene_names = gene_names
        self.evaluations_per_generation = evaluations_per_generation
        self.n_batches = self.formed = self.n_generations = 0
        self._waiting, self._seconds = 0, 0.0  # rows since the last generation
        self.evaluations = 0
        self.failed = 0
        self._archive = Archive(roles)
        self._bounded = bool(np.isfinite(roles.bounds()).all())
        self._on_front = {"front_size": 0.0} | ({"hypervolume": 0.0} if self._bounded else {})
        self._ids: set[int] = set()  # of the front
        self._entrants: list[Evaluated] = []
        self._entered: dict[int, int] = {}
        self._left: dict[int, int] = {}

    def add(self, batch: Evaluated, seconds: float) -> Generation | None:
        """Add the next batch; return the metrics of the front if they are due after it."""
        self._archive.add(batch)
        self._waiting += len(batch)
        self.evaluations += len(batch)
        self.failed += len(batch.errors)
        self._seconds = seconds
        self.n_batches += 1
        least = self.evaluations_per_generation or self._archive.known_size / _LOOKED_AT
        return self.close() if self._waiting >= least else None

    def close(self) -> Generation | None:
        """End the generation with the rows that wait; return it, or None if no rows wait."""
        batches = self.n_batches - self.formed
        if not batches:
            return None
        self.n_generations += batches if self.evaluations_per_generation is None else 1
        self._waiting, self.formed = 0, self.n_batches
        if self._archive.has_changed():
            self._record_changes()
            self._on_front = self._describe()
        counts = {"evaluations": float(self.evaluations), "rows_failed": float(self.failed)}
        metrics = counts | self._on_front
        return Generation(self.n_generations - 1, self._seconds, metrics, self.formed)

    def frame(self) -> pd.DataFrame:
        """Return the table of ``fronts.csv``, sorted by id."""
        import pandas as pd

        rows = Front.of(self._entrants[:1], self.roles, self.gene_names).rows
        if self._entrants:
            rows = Evaluated.concat(self._entrants)
        frame = Front(rows, self.roles, self.gene_names).frame()
        left = [self._left.get(id) for id in rows.ids.tolist()]
        entered = [self._entered[id] for id in rows.ids.tolist()]
        frame.insert(1, ENTERED, np.array(entered, dtype=np.int64))
        frame.insert(2, LEFT, pd.Series(left, dtype="Int64"))
        return frame

    def _record_changes(self) -> None:
        rows = self._archive.rows
        assert rows is not None  # the archive has just changed
        before, self._ids, number = self._ids, set(rows.ids.tolist()), self.n_generations - 1
        self._left.update(dict.fromkeys(before - self._ids, number))
        entrants = rows.take(np.isin(rows.ids, list(self._ids - before)))
        self._entrants.append(entrants)
        self._entered |= dict.fromkeys(entrants.ids.tolist(), number)

    def _describe(self) -> dict[str, float]:
        described = {"front_size": float(len(self._archive))}
        if self._bounded:
            described["hypervolume"] = self._archive.hypervolume()
        best = self.roles.natural(self._archive.losses.min(axis=0, keepdims=True))[0]
        for name, value in zip(self.roles.names, best.tolist(), strict=True):
            if math.isfinite(value):
                described[f"best_{name}"] = value
        return described
