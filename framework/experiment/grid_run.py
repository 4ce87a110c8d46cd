"""Runs an experiment in its directory: its runs that are not done, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from framework.analysis.indicators import indicators_of
from framework.errors import InputError, NotBuiltError, first_few
from framework.experiment.comparison import (
    compare_grid,
    mean_indicators,
    true_losses,
    write_results,
)
from framework.experiment.estimate import candidates_of
from framework.experiment.execute import Options, conclude, followed, uid_of
from framework.experiment.export import champions
from framework.experiment.grid import Grid, PlannedRun
from framework.experiment.many_runs import Problems, has_ended, run_many, seconds_of
from framework.experiment.options import ProblemOptions
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, INTERRUPTED
from framework.files import write_whole
from framework.problem import Deployable
from framework.roles import Metric


def run_grid(grid: Grid, out: RunDir, options: Options) -> tuple[dict[str, Any], list[Path]]:
    """Run the runs of an experiment that are not done; write its tables, figures and page.

    Whatever happens, the journals of the runs have what was evaluated. A run that fails for a
    reason of the environment (memory, a disk, a node) is tried once more, then left to the next
    call; the other runs go on.

    Returns
    -------
    summary : dict
        Content of ``summary.json``; ``failed_cells`` says why some could not be run, by directory,
        ``models`` where the models of the best runs are.
    paths : list of pathlib.Path
        Files on the runs that are done; empty if none is.

    Raises
    ------
    InputError
        The directory holds other runs in the directories of these runs, a method cannot search a
        case, or another process runs the experiment.
    """
    runs = grid.runs()
    with ExitStack() as stack:
        stack.enter_context(out.owned())
        todo = _open_runs(runs, out)
        planned = {out.path / run.directory for run in runs}
        if beside := [str(run.path) for run in out.children() if run.path not in planned]:
            options.report(
                f"{first_few(beside, 3)}: left out of tables and figures, as the experiment has "
                "no such case, method or repeat any more"
            )
        problems = Problems()
        left = {run.directory for run in todo}
        done = {
            (run.case, run.method): RunDir(out.path / run.directory)
            for run in runs
            if run.directory not in left
        }
        check_runs(grid, todo, problems, done)
        _write_start(grid, out, problems)
        stack.enter_context(followed(grid.base, out, options, start=True))
        summary: dict[str, Any] = {"name": grid.base.name, "cells": len(runs)}
        try:
            failed, incidents = run_many(
                todo,
                out,
                grid.base,
                problems.of,
                address=options.address,
                report=options.report,
                ended=options.ended,
                moments=True,
                done=len(runs) - len(todo),
            )
        except BaseException:
            out.write_summary(summary | {"status": INTERRUPTED})
            raise
        parts = {run.directory: RunDir(out.path / run.directory).summary() for run in runs}
        over = [name for name, part in parts.items() if part.get("status") == FAILED]
        summary |= {
            "status": FAILED if failed or over else DONE,
            "failed_cells": failed,
            "cells_over_limit": over,
            "incidents": dict(incidents),
            "wall_s": seconds_of(parts.values()),
        }
        paths: list[Path] = []
        if len(failed) < len(runs):
            try:
                comparison = compare_grid(grid, out)
            except InputError:  # no run found a solution; all have ended nevertheless
                out.write_summary(summary)
                if not (failed or over):
                    raise
            else:
                paths = write_results(comparison, out.path)
                summary["indicators"] = mean_indicators(comparison)
                summary["models"] = _write_champions(out, problems, options)
        out.write_summary(summary)
        return summary, paths


def _write_champions(out: RunDir, problems: Problems, options: Options) -> list[str]:
    """Write what follows from the best run of each case; return where the models are."""
    try:
        best = champions(out)
    except InputError:  # the runs are not compared by hypervolume
        return []
    for run in best.values():
        problem = problems.of(run.config(checked=True))
        if isinstance(problem, Deployable) and problem.has_models:
            run.check_problem(problem)
            conclude(problem, run, run.summary(), options)
    models = [run.model for run in best.values() if run.model.is_dir()]
    return [model.relative_to(out.path).as_posix() for model in models]


def check_runs(
    grid: Grid,
    runs: Sequence[PlannedRun],
    problems: Problems,
    done: Mapping[tuple[str, str | None], RunDir] = MappingProxyType({}),
) -> dict[tuple[str, str | None], int | None]:
    """Make each problem and algorithm once, so that what cannot work is said at the start.

    If a case needs something that is not built yet and must not be built now, such as a library,
    the other cases of its scenario are skipped: reading thousands of splits takes hours. ``done``
    has a run of each case and method that has one; further ones must be on the same data.

    Returns
    -------
    dict
        The most evaluations of a run, by case and method; None where their number is unknown.

    Raises
    ------
    InputError
        A line for each method that cannot search a case; an indicator is unknown.
    """
    messages: list[str] = []
    metrics: dict[str, Metric] = {}
    most: dict[tuple[str, str | None], int | None] = {}
    unmade: list[ProblemOptions] = []
    unbuilt: set[str] = set()
    for run in runs:
        if (run.case, run.method) in most:
            continue
        most[run.case, run.method] = run.config.budget.evaluations
        scenario = grid.origins[run.case].scenario
        if scenario in unbuilt or run.config.problem in unmade:
            continue
        try:
            problem = problems.of(run.config)
            if (run.case, run.method) in done:
                done[run.case, run.method].check_problem(problem)
        except InputError as error:
            messages.append(str(error))
            unmade.append(run.config.problem)
            continue
        except NotBuiltError:
            unbuilt.add(scenario)
            continue
        metrics |= {metric.name: metric for metric in problem.metrics}
        try:
            roles = run.config.roles(problem)
            algorithm = run.config.algorithm.make(problem, roles, run.config.seed)
        except InputError as error:
            messages.append(f"experiment: {run.method or 'reference'} on {run.case}: {error}")
        else:
            most[run.case, run.method] = candidates_of(run.config, algorithm)
    messages += _without_true_front(grid, problems)
    if metrics and not messages:
        indicators_of(grid.section.indicators, metrics.values())
    if messages:
        raise InputError("\n".join(dict.fromkeys(messages)))
    return most


def _without_true_front(grid: Grid, problems: Problems) -> list[str]:
    """Return a line for each case whose true front is asked for and not known."""
    messages: list[str] = []
    reference = grid.section.reference
    if reference is None or reference.points is None:
        return messages
    for case, config in grid.cases.items():
        try:
            problem = problems.of(config)
            true_losses(problem, config.roles(problem), reference.points)
        except InputError as error:
            messages.append(f"experiment: {case}: {error}")
        except NotBuiltError:
            continue
    return messages


def _open_runs(runs: Sequence[PlannedRun], out: RunDir) -> list[PlannedRun]:
    """Return the runs that are not done; refuse a directory with other runs in their places."""
    for run in runs:
        run_dir = RunDir(out.path / run.directory)
        if run_dir.config_file.is_file() and not run.same_run(run_dir.config()):
            raise InputError(
                f"{run_dir.path}: expected a run of {run.method or 'the reference'} on "
                f"{run.case} as configured, found one with other settings; take another --out"
            )
    return [
        run
        for run in runs
        if not has_ended(RunDir(out.path / run.directory), run.config, moments=True)
    ]


def _write_start(grid: Grid, out: RunDir, problems: Problems) -> None:
    """Write what the directory is; last the configuration, by which it is recognised."""
    problem = problems.of(grid.base)
    write_whole(out.experiment_file, grid.dump())
    about = {"uid": uid_of(out), "data": dict(problem.describe())}
    out.write_about(problem, grid.base.roles(problem), **about)
    out.write_config(grid.base)
    out.summary_file.unlink(missing_ok=True)  # it is running again
