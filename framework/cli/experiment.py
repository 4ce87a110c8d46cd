"""`paretolab experiment`: cases x methods x repeats, to tables and one page."""

from __future__ import annotations

import argparse
import shlex
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli.arguments import (
    config_argument,
    overrides,
    program,
    run_arguments,
    running,
    set_argument,
    shipped,
    top_level,
    tracked_as_asked,
    workers_argument,
    workers_of,
)
from framework.cli.compare import result_of
from framework.cli.results import Result, json_argument
from framework.cli.tables import checked
from framework.components import building_nothing
from framework.errors import first_few
from framework.experiment.execute import new_run
from framework.experiment.run_dir import RunDir
from framework.machine import reason_of
from framework.run.display import Display
from framework.security import keep

if TYPE_CHECKING:
    from framework.experiment.grid import Grid
    from framework.experiment.many_runs import Ended


class Experiment:
    """Run methods on cases, several times each, and compare them."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        config_argument(parser, help="YAML file with a section experiment")
        set_argument(parser)
        parser.add_argument("--repeats", type=int, help="runs of each method on each case")
        parser.add_argument("--seed", type=int, help="seed of the first repeat")
        parser.add_argument(
            "--out",
            metavar="DIR",
            help="directory (default: a new runs/NAME-NNN); what is done there is not done again",
        )
        workers_argument(parser)
        run_arguments(parser)
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        """Start an experiment, or resume the one in ``--out``; return the comparison."""
        from framework.experiment.grid_load import load_grid

        grid = load_grid(Path(args.config), overrides(args), **top_level(args))
        grid = _tracked_as_asked(grid, args)
        opened: AbstractContextManager[RunDir]
        if args.out is not None and RunDir(args.out).experiment_file.is_file():
            opened = nullcontext(RunDir.existing(args.out))
        else:
            opened = new_run(grid.base, args.out, experiment_file=grid.dump())
        with opened as out:
            return _execute(grid, out, args)

    @staticmethod
    def check(args: argparse.Namespace) -> Result:
        """Return what an experiment would do, for `paretolab check`; nothing is trained."""
        from framework.experiment.estimate import budget_of_all, built_first
        from framework.experiment.grid_load import load_grid
        from framework.experiment.grid_run import check_runs
        from framework.experiment.many_runs import Problems

        grid = load_grid(Path(args.config), overrides(args), **top_level(args))
        shipped(grid.base.cluster)
        runs, section, problems = grid.runs(), grid.section, Problems()
        with building_nothing() as put_off:
            most = check_runs(grid, runs, problems)
        size = f"{len(grid.cases)} cases x {len(section.methods)} methods x {section.repeats} "
        size += f"repeats: {sum(run.method is not None for run in runs):,}"
        references = sum(run.method is None for run in runs)
        lines = [
            ("name", grid.base.name),
            ("cases", ", ".join(grid.cases)),
            ("methods", ", ".join(section.methods)),
            ("runs", size + (f", and {references:,} references" if references else "")),
            ("budget", budget_of_all((r.config, most[r.case, r.method]) for r in runs)),
            ("indicators", ", ".join(section.indicators)),
            ("workers", str(grid.base.workers)),
            ("tracking", grid.base.tracking.uri if grid.base.tracking else "none"),
            *built_first(put_off),
        ]
        return checked(lines)

    @staticmethod
    def resume(out: RunDir, args: argparse.Namespace) -> Result:
        """Resume an experiment, for `paretolab resume`; return the comparison."""
        from framework.experiment.grid_load import resumed_grid

        workers = workers_of(args.workers)
        grid = resumed_grid(out.experiment_file, overrides(args), workers=workers)
        keep(out.path)
        return _execute(_tracked_as_asked(grid, args), out, args)


def _tracked_as_asked(grid: Grid, args: argparse.Namespace) -> Grid:
    cases = {name: tracked_as_asked(config, args) for name, config in grid.cases.items()}
    return replace(grid, cases=cases)


def _execute(grid: Grid, out: RunDir, args: argparse.Namespace) -> Result:
    from framework.experiment.comparison import compare_grid
    from framework.experiment.grid_run import run_grid

    again = f"{program()} resume {shlex.quote(str(out.path))}"
    with running(grid.base, out, args) as options, options.display as display:
        summary, paths = run_grid(grid, out, replace(options, ended=partial(_show_ended, display)))
    result, report = Result(), options.report
    if paths:
        comparison = compare_grid(grid, out)
        result = result_of(comparison, paths)
        result.exit_code = 3 if comparison.unsolved else 0
        more = [("go on, with more repeats", f"{again} --set experiment.repeats=N")]
        models = [str(out.path / model) for model in summary["models"]]
        more += [("models of the best runs", first_few(models))] if models else []
        result.add(more + ([("MLflow pages", f"{program()} ui")] if grid.base.tracking else []))
    failed = summary["failed_cells"]
    for place, error in failed.items():
        report(f"{out.path / place}: could not be run: {error}")
    if failed:
        report(f"{len(failed)} of {summary['cells']} runs could not be run; try them with: {again}")
    over = {place: RunDir(out.path / place).failures() for place in summary["cells_over_limit"]}
    for place, error in over.items():
        report(f"{out.path / place}: more rows failed than budget.max_failed_share allows: {error}")
    result.exit_code = 3 if failed or over else result.exit_code
    return result.add(directory=out.path, status=summary["status"], failed_runs=failed | over)


def _show_ended(display: Display, ended: Ended) -> None:
    """Show a run that has ended."""
    planned = ended.run
    name = f"{planned.case} · {planned.method or 'reference'} · {planned.repeat + 1}"
    count = f"{ended.done}/{ended.total} runs"
    left = f"{count} · {timedelta(seconds=round(ended.seconds_left))} left · {name}"
    if ended.error is None:
        volume = ended.summary["indicators"]["hypervolume"]
        outcome = f"front {ended.summary['front_size']}, hypervolume {volume:.4f}"
    else:
        outcome = f"failed: {reason_of(ended.error)}"
    display.step(left, ended.done, ended.total, f"{left}: {outcome}")
