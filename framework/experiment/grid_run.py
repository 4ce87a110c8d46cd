"""Runs an experiment in its directory: the cells that are not done, side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from framework.analysis.indicators import indicators_of
from framework.errors import InputError
from framework.experiment.comparison import (
    compare_grid,
    mean_indicators,
    true_losses,
    write_results,
)
from framework.experiment.execute import Options, followed, uid_of
from framework.experiment.grid import Cell, Grid
from framework.experiment.many_runs import (
    Problems,
    RunExecutor,
    alone,
    run_arguments,
    run_has_ended,
    run_of_experiment,
)
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import (
    DONE,
    FAILED,
    INTERRUPTED,
    make_algorithm,
    make_roles,
)
from framework.files import write_whole
from framework.machine import reason_of
from framework.parallel.executor import Ended as TaskEnded
from framework.parallel.executor import Executor
from framework.roles import Metric

_ATTEMPTS = 2  # at a cell that fails, before it is left to `resume`


class Ended(NamedTuple):
    """A cell that has ended; ``error`` says why where it could not be run."""

    cell: Cell
    summary: Mapping[str, Any]
    error: str | None
    done: int
    total: int
    seconds_left: float


def run_grid(grid: Grid, out: RunDir, options: Options) -> tuple[dict[str, Any], list[Path]]:
    """Run the cells of an experiment that are not done; write its tables, figures and page.

    Whatever happens, what was evaluated is in the journals of the cells. A cell that fails for a
    reason of the environment (memory, a disk, a node) is tried once more, then left to the next
    call; everything else goes on.

    Returns
    -------
    summary : dict
        Content of ``summary.json``; ``failed_cells`` says why some could not be run, by place.
    paths : list of pathlib.Path
        What was written of the cells that are done; nothing where none is.

    Raises
    ------
    InputError
        The directory holds other runs at the places of these cells, a method cannot search a
        case, or another process runs the experiment.
    """
    cells = grid.cells()
    with ExitStack() as stack:
        stack.enter_context(alone(out, "experiment"))
        todo = _open_cells(cells, out)
        runner = _Runner(grid, out, options, len(cells) - len(todo), len(cells))
        _write_start(grid, out, runner.problems)
        runner.check(todo)
        stack.enter_context(followed(grid.base, out, options, start=True))
        started = time.perf_counter()
        summary: dict[str, Any] = {"name": grid.base.name, "cells": len(cells)}
        try:
            failed = runner.run(todo)
        except BaseException:
            out.write_summary(summary | {"status": INTERRUPTED})
            raise
        over = [cell.place for cell in cells if _status(out, cell) == FAILED]
        summary |= {
            "status": FAILED if failed or over else DONE,
            "failed_cells": failed,
            "cells_over_limit": over,
            "incidents": dict(runner.incidents),
            "wall_s": round(time.perf_counter() - started, 3),
        }
        paths: list[Path] = []
        if len(failed) < len(cells):
            comparison = compare_grid(grid, out)
            paths = write_results(comparison, out.path)
            summary["indicators"] = mean_indicators(comparison)
        out.write_summary(summary)
        return summary, paths


def _status(out: RunDir, cell: Cell) -> str | None:
    return RunDir(out.path / cell.place).summary().get("status")


class _Runner:
    """Takes cells through their runs."""

    def __init__(self, grid: Grid, out: RunDir, options: Options, done: int, total: int) -> None:
        self.problems = Problems()
        self._grid, self._out, self._options = grid, out, options
        self._done, self._total = done, total
        self._failed: dict[str, str] = {}
        self.incidents: Mapping[str, int] = {}

    def check(self, todo: Sequence[Cell]) -> None:
        """Make each problem and algorithm once, so that what cannot work is said at the start.

        Raises
        ------
        InputError
            A line for each method that cannot search a case; an indicator is unknown.
        """
        found: list[str] = []
        metrics: dict[str, Metric] = {}
        for case, method in dict.fromkeys((cell.case, cell.method) for cell in todo):
            config = next(c.config for c in todo if (c.case, c.method) == (case, method))
            problem = self.problems.of(config)
            metrics |= {metric.name: metric for metric in problem.metrics}
            try:
                make_algorithm(config, problem, make_roles(config, problem))
            except InputError as error:
                found.append(f"experiment: {method or 'reference'} on {case}: {error}")
        found += self._without_true_front()
        if todo and not found:
            indicators_of(self._grid.section.indicators, metrics.values())
        if found:
            raise InputError("\n".join(found))

    def _without_true_front(self) -> list[str]:
        """Return a line for each case whose true front is asked for and not known."""
        found: list[str] = []
        reference = self._grid.section.reference
        if reference is None or reference.points is None:
            return found
        for case, config in self._grid.cases.items():
            problem = self.problems.of(config)
            try:
                true_losses(problem, make_roles(config, problem), reference.points)
            except InputError as error:
                found.append(f"experiment: {case}: {error}")
        return found

    def run(self, todo: Sequence[Cell]) -> dict[str, str]:
        """Run cells; return why some could not be, by place."""
        report = self._options.report
        with RunExecutor(
            run_of_experiment,
            self._out,
            self._grid.base,
            self._options.address,
            lambda where: report(f"cells run on {where}"),
        ) as executor:
            for ended in executor.run(todo, self._begin, attempts=_ATTEMPTS):
                self._note(ended, executor)
            self.incidents = executor.incidents()
        return self._failed

    def _begin(self, cell: Cell) -> tuple[Any, ...]:
        """Write what the directory of a cell is; return the arguments of its task."""
        cell_dir = RunDir(self._out.path / cell.place)
        cell_dir.path.mkdir(parents=True, exist_ok=True)
        problem = self.problems.of(cell.config)
        cell_dir.write_config(cell.config)
        cell_dir.write_about(
            problem, make_roles(cell.config, problem), data=dict(problem.describe())
        )
        return run_arguments(cell.config, problem, cell_dir)

    def _note(self, task: TaskEnded, executor: Executor) -> None:
        """Keep what came of a cell, and show it."""
        cell: Cell = task.key
        cell_dir = RunDir(self._out.path / cell.place)
        error = task.error
        if error is None and not run_has_ended(cell_dir):
            error = InputError("it came to no end")
        text = None
        if error is None:
            self._done += 1
            self._failed.pop(cell.place, None)
        else:
            text = reason_of(error)
            self._failed[cell.place] = text
            with suppress(OSError):  # its directory may be what is wrong
                cell_dir.write_summary(cell_dir.summary() | {"status": INTERRUPTED, "error": text})
        left = executor.seconds_left(self._total - self._done - len(self._failed))
        ended = Ended(cell, cell_dir.summary(), text, self._done, self._total, left)
        self._options.ended(ended)


def _open_cells(cells: Sequence[Cell], out: RunDir) -> list[Cell]:
    """Return the cells that are not done.

    Raises
    ------
    InputError
        The runs that are there are others.
    """
    for cell in cells:
        cell_dir = RunDir(out.path / cell.place)
        if cell_dir.config_file.is_file() and not cell.same_run(cell_dir.config()):
            raise InputError(
                f"{cell_dir.path}: expected a run of {cell.method or 'the reference'} on "
                f"{cell.case} as configured, found one with other settings; take another --out"
            )
    return [cell for cell in cells if not run_has_ended(RunDir(out.path / cell.place))]


def _write_start(grid: Grid, out: RunDir, problems: Problems) -> None:
    """Write what the directory is; the configuration last, which makes it a run's."""
    problem = problems.of(grid.base)
    write_whole(out.experiment_file, grid.dump())
    about = {"uid": uid_of(out), "data": dict(problem.describe())}
    out.write_about(problem, make_roles(grid.base, problem), **about)
    out.write_config(grid.base)
    out.summary_file.unlink(missing_ok=True)  # it is running again
