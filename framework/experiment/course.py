"""The course of long work: numbers that it reports before the first batch, kept as they come."""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from framework.preparation import PreparationProgress
from framework.run.driver import Callback


class Point(NamedTuple):
    """What work reported: pieces done, seconds since the epoch, and numbers by name."""

    done: int
    time: float
    values: dict[str, float]


class Course(Callback):
    """Appends the numbers that work reports to a file, where they have changed.

    Parameters
    ----------
    file : pathlib.Path
        A JSON array a line; a line that a crash has torn is left out when it is read.
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


def read_course(file: Path) -> list[Point]:
    """Return what was kept, in the order it came; nothing where there is no file."""
    points = []
    with suppress(OSError):
        for line in file.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, TypeError):
                done, at, values = json.loads(line)
                points.append(Point(int(done), float(at), dict(values)))
    return points
