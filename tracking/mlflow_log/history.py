"""The front after each generation, stored as changes: when a row entered it and when it left.

``fronts.csv`` has one row a solution that ever was on the front: ``id``, ``entered_generation``,
``left_generation`` (empty where it stayed), the metrics and the ``gene_`` columns. The front of
generation ``g`` is the rows with entered <= g < left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from framework.batch import Evaluated
from framework.front import Archive, Front
from framework.roles import Roles

ENTERED, LEFT = "entered_generation", "left_generation"


class Generation(NamedTuple):
    """What is logged of one generation; ``metrics`` by name."""

    number: int
    seconds: float
    metrics: Mapping[str, float]


class History:
    """Replays a journal, batch by batch.

    Parameters
    ----------
    roles : Roles
    gene_names : tuple of str
    """

    def __init__(self, roles: Roles, gene_names: tuple[str, ...]) -> None:
        self.roles = roles
        self.gene_names = gene_names
        self.n_batches = 0
        self.evaluations = 0
        self.failed = 0
        self._archive = Archive(roles)
        self._bounded = bool(np.isfinite(roles.bounds()).all())
        self._on_front = {"front_size": 0.0} | ({"hypervolume": 0.0} if self._bounded else {})
        self._entrants: list[Evaluated] = []
        self._entered: list[int] = []
        self._left: dict[int, int] = {}

    def add(self, batch: Evaluated, seconds: float) -> Generation:
        """Add the next batch; return the front's numbers after it."""
        before = self._ids()
        if self._archive.update(batch):
            self._note(before)
            self._on_front = self._describe()
        self.evaluations += len(batch)
        self.failed += len(batch.errors)
        counts = {"evaluations": float(self.evaluations), "rows_failed": float(self.failed)}
        generation = Generation(self.n_batches, seconds, counts | self._on_front)
        self.n_batches += 1
        return generation

    def frame(self) -> pd.DataFrame:
        """Return ``fronts.csv``, in the order of entering."""
        rows = Front.of(self._entrants[:1], self.roles, self.gene_names).rows
        if self._entrants:
            rows = Evaluated.concat(self._entrants)
        frame = Front(rows, self.roles, self.gene_names).frame()
        left = [self._left.get(id) for id in rows.ids.tolist()]
        frame.insert(1, ENTERED, np.array(self._entered, dtype=np.int64))
        frame.insert(2, LEFT, pd.Series(left, dtype="Int64"))
        return frame

    def _ids(self) -> set[int]:
        return set() if self._archive.rows is None else set(self._archive.rows.ids.tolist())

    def _note(self, before: set[int]) -> None:
        rows = self._archive.rows
        assert rows is not None  # the archive has just changed
        now = set(rows.ids.tolist())
        self._left.update(dict.fromkeys(before - now, self.n_batches))
        entrants = rows.take(np.isin(rows.ids, list(now - before)))
        self._entrants.append(entrants)
        self._entered += [self.n_batches] * len(entrants)

    def _describe(self) -> dict[str, float]:
        described = {"front_size": float(len(self._archive))}
        if self._bounded:
            described["hypervolume"] = self._archive.hypervolume()
        best = self.roles.natural(self._archive.losses.min(axis=0, keepdims=True))[0]
        for name, value in zip(self.roles.names, best.tolist(), strict=True):
            if math.isfinite(value):
                described[f"best_{name}"] = value
        return described


def front_at(frame: pd.DataFrame, generation: int) -> pd.DataFrame:
    """Return the front of one generation from the columns of ``fronts.csv``.

    Parameters
    ----------
    frame : pandas.DataFrame
        As read from ``fronts.csv``.
    generation : int
        From 0, the first batch.

    Returns
    -------
    pandas.DataFrame
        ``id``, metrics and genes by id, as in ``front.csv`` of a run that ended there.
    """
    stays = frame[LEFT].isna() | (frame[LEFT] > generation)
    there = frame[(frame[ENTERED] <= generation) & stays]
    return there.drop(columns=[ENTERED, LEFT]).sort_values("id", ignore_index=True)
