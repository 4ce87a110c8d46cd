"""Who runs the cells of an experiment: this process, workers a cell each, or all on one's rows."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from framework.experiment.cell import evaluate_cell, run_cell
from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.experiment.run_pool import RunPool, SerialPool, ray_pool
from framework.parallel.choice import RAY_PAYS_SECONDS, ray_pays, uses_ray
from framework.problem import Problem

_UNDER_WAY = 128  # cells handed to the cluster at a time, far more than it has workers
_LATEST = 20  # cells by which the time left is told
_ROWS_EACH = 4  # rows for each worker from which a cell's rows are shared


class Pace:
    """How fast cells end, by the latest of them: the first ones also start what all need."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque([time.perf_counter()], maxlen=_LATEST)
        self._sizes: deque[tuple[float, int]] = deque(maxlen=_LATEST)  # seconds, rows

    def tick(self, summary: Mapping[str, Any]) -> None:
        """Note that a cell has ended."""
        self._ends.append(time.perf_counter())
        if "evaluations" in summary:
            self._sizes.append((summary["wall_s"], summary["evaluations"]))

    def left(self, cells: int) -> float:
        """Return the seconds that so many cells will take; 0 where none has ended yet."""
        n = len(self._ends) - 1
        return (self._ends[-1] - self._ends[0]) / n * cells if n else 0.0

    def long(self, workers: int) -> bool | None:
        """Tell whether cells take long and have rows for all workers; None where nobody knows."""
        if not self._sizes:
            return None
        seconds, rows = np.mean(self._sizes, axis=0).tolist()
        return bool(seconds >= RAY_PAYS_SECONDS and rows >= _ROWS_EACH * workers)


class CellPools(ExitStack):
    """Takes cells to Ray where that is asked for or pays: a cell a worker, as long as there are
    cells enough. Of long ones the last, too few for the workers, are run one at a time, their rows
    evaluated by all.

    Attributes
    ----------
    now : RunPool
        The one chosen last.
    width : int
        How many cells it takes at a time.
    """

    def __init__(
        self, config: RunConfig, out: RunDir, address: str | None, report: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._config, self._out, self._address, self._report = config, out, address, report
        self._count = config.workers if isinstance(config.workers, int) else None
        self.now: RunPool = SerialPool(run_cell)
        self.width = 1
        self._room = 0  # workers of the Ray that was joined
        self._where = ""
        self._by_rows: bool | None = None  # None: Ray is not used
        self._over = 0  # cells that are left where all workers have had as many
        self._in_use = self.enter_context(ExitStack())
        self._incidents: Counter[str] = Counter()

    def choose(self, pace: Pace, cells: int) -> None:
        """Choose who runs so many cells; nothing is under way."""
        if not self._room:
            if not (uses_ray(self._config.workers, self._address) or self._pays(pace, cells)):
                return
            self._join()
        self._over = cells % self._room
        by_rows = self._few(cells) and pace.long(self._room) is not False
        if by_rows != self._by_rows:
            self._by_rows = by_rows
            self._change()

    def kept_back(self, pace: Pace) -> int:
        """Return how many cells wait until all others have ended."""
        shared = self._by_rows is False and self._few(self._over)
        return self._over if shared and pace.long(self._room) is not False else 0

    def incidents(self) -> Mapping[str, int]:
        """Return what incidents the workers, counted."""
        return self._incidents + Counter(self.now.incidents())

    def _pays(self, pace: Pace, cells: int) -> bool:
        """Tell whether Ray, which nobody asked for, would save time."""
        divisible = cells > 1 or pace.long(os.cpu_count() or 1)
        return bool(divisible) and ray_pays(self._config.workers, pace.left(cells))

    def _few(self, cells: int) -> bool:
        """Tell whether so many cells would leave half of the workers idle, or more."""
        return 2 * cells <= self._room

    def _change(self) -> None:
        """Replace the pool."""
        self._incidents.update(self.now.incidents())
        self._in_use.close()
        if self._by_rows:
            self.now, self.width = SerialPool(partial(_on_rows, self._count)), 1
            self._report(f"rows of a cell at a time are evaluated by {self._where}")
        else:
            pool = ray_pool(run_cell, self._out, self._count, None, self._config.cluster)
            self.now, _ = self._in_use.enter_context(pool)
            self.width = max(_UNDER_WAY, 2 * self._room)
            self._report(f"cells run on {self._where}")

    def _join(self) -> None:
        from framework.parallel.cluster import cluster

        joined = self.enter_context(cluster(self._count, self._address, self._config.cluster))
        self._room, self._where = max(joined.room, 1), joined.description


def _on_rows(workers: int | None, config: RunConfig, problem: Problem, cell: RunDir) -> None:
    """Run a cell here, its rows evaluated by all workers."""
    from framework.parallel.ray_evaluator import RayEvaluator

    evaluator = RayEvaluator(problem, config.seed, workers=workers, config=config.cluster)
    try:
        evaluate_cell(config, problem, cell, evaluator)
    finally:
        evaluator.close()
