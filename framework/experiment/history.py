"""How a run went: its Pareto front at moments on the way, and the numbers that it reported.

``anytime.npz`` is made from the journal of a run that has ended. For k moments it has the arrays
``evaluations`` and ``seconds``, shape (k,), ascending; ``sizes``, shape (k,), the number of
solutions that the front had then; and ``losses``, shape (sum of sizes, objectives), the fronts one
after the other.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.experiment.run_dir import RunDir
from framework.files import write_whole
from framework.front import Archive
from framework.preparation import PreparationProgress
from framework.run.driver import Callback
from framework.security import BAD_ARRAYS, JSON_BYTES, arrays_of, parse_json, read_bytes, read_text

_MOMENTS = 40  # spread evenly over the logarithm of the evaluations


@dataclass(frozen=True)
class Moment:
    """The losses (n, objectives) of a run's front after so many evaluations and seconds."""

    evaluations: int
    seconds: float
    losses: FloatArray


def moments(run_dir: RunDir) -> list[Moment]:
    """Return the moments of a run that has ended; none if there is no file of it.

    Where ``anytime.npz`` is missing or damaged, the journal is read: O(rows log rows).
    """
    if run_dir.anytime_file.is_file():
        stored = _read(run_dir.anytime_file)
        if stored is not None:
            return stored
    return list(_moments(run_dir)) if run_dir.journal_file.is_file() else []


def keep_moments(run_dir: RunDir) -> None:
    """Write ``anytime.npz`` of a run that has ended."""
    moments_of_run, content = list(_moments(run_dir)), BytesIO()
    np.savez(
        content,
        evaluations=np.array([m.evaluations for m in moments_of_run], dtype=np.int64),
        seconds=np.array([m.seconds for m in moments_of_run]),
        sizes=np.array([len(m.losses) for m in moments_of_run], dtype=np.int64),
        losses=np.concatenate([m.losses for m in moments_of_run] or [np.zeros((0, 0))]),
    )
    write_whole(run_dir.anytime_file, content.getvalue())


def _moments(run_dir: RunDir) -> Iterator[Moment]:
    """Yield the front at 40 numbers of evaluations, each after a whole batch, and at the end."""
    with run_dir.journal() as journal:
        ends: IntArray = np.cumsum([len(batch) for batch in journal.evaluations()])
        if not len(ends):
            return
        evaluations = np.geomspace(ends[0], ends[-1], _MOMENTS)
        stops = set((np.searchsorted(ends, evaluations + 0.5, side="left") - 1).clip(0).tolist())
        stops.add(len(ends) - 1)
        archive = Archive(run_dir.roles())
        for number, (batch, seconds) in enumerate(journal.batches()):
            archive.add(batch)
            if number in stops:
                yield Moment(int(ends[number]), seconds, archive.losses)


def _read(path: Path) -> list[Moment] | None:
    """Return the moments in a file; None if it is damaged, as the journal has them too."""
    try:
        arrays = arrays_of(read_bytes(path, JSON_BYTES), JSON_BYTES)
        sizes, losses = arrays["sizes"], arrays["losses"]
        evaluations, seconds = arrays["evaluations"], arrays["seconds"]
        if losses.ndim != 2 or len(losses) != sizes.sum() or (sizes < 0).any():
            return None
        parts = np.split(losses, np.cumsum(sizes)[:-1])
        columns = zip(evaluations.tolist(), seconds.tolist(), parts, strict=True)
        return [Moment(*column) for column in columns]
    except BAD_ARRAYS:
        return None


class Point(NamedTuple):
    """A report of work: number of pieces done, seconds since the epoch, and numbers by name."""

    done: int
    time: float
    values: dict[str, float]


class ProgressLog(Callback):
    """Appends the numbers that work reports to a file, where they have changed.

    Parameters
    ----------
    file : pathlib.Path
        It has a JSON array on each line; lines that a crash has cut are skipped when it is read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last: dict[str, float] = {}

    def on_preparation(self, work: PreparationProgress) -> None:
        """Keep the finite numbers of a report."""
        values = {name: float(v) for name, v in work.values.items() if math.isfinite(v)}
        if not values or values == self._last:
            return
        self._last = values
        line = json.dumps([work.done, round(time.time(), 3), values])
        with suppress(OSError), self._file.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{line}")


def read_progress_log(file: Path) -> list[Point]:
    """Return the reports in a file, in their order; none if there is no file."""
    points = []
    with suppress(OSError):
        for line in read_text(file, JSON_BYTES).splitlines():
            with suppress(ValueError, TypeError):
                done, moment, values = parse_json(line)
                points.append(Point(int(done), float(moment), dict(values)))
    return points
