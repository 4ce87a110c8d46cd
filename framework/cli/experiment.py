"""`paretolab experiment`: cases x methods x repeats, to tables and one page."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli.arguments import (
    config_argument,
    confirm_trust,
    overrides,
    report_to,
    resumable,
    run_arguments,
    set_argument,
    shipped,
    top_level,
    tracked_as_asked,
    workers_argument,
    workers_of,
)
from framework.cli.compare import show
from framework.cli.results import json_argument, tell
from framework.cli.tables import console, program, show_facts
from framework.components import building_nothing
from framework.experiment.execute import Options, new_run
from framework.experiment.run_dir import RunDir
from framework.security import keep

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from framework.experiment.grid import Grid
    from framework.experiment.grid_run import Ended


class Experiment:
    """Run methods on cases, several times each, and compare them."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        config_argument(parser, help="YAML file with a section experiment")
        set_argument(parser)
        parser.add_argument("--repeats", type=int, help="runs of each method on each case")
        parser.add_argument("--seed", type=int, help="of the first repeat")
        parser.add_argument(
            "--out",
            metavar="DIR",
            help="directory (default: a new runs/NAME-NNN); what is done there is not done again",
        )
        workers_argument(parser)
        run_arguments(parser)
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Start an experiment, or go on with the one in ``--out``; return the exit code."""
        from framework.experiment.grid_load import load_grid

        grid = load_grid(Path(args.config), overrides(args), **top_level(args))
        grid = _tracked_as_asked(grid, args)
        with _directory(grid, args.out) as out:
            return _execute(grid, out, args)

    @staticmethod
    def check(args: argparse.Namespace) -> int:
        """Say what an experiment would do, as `paretolab check` is asked to; train nothing."""
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
        out = console()
        show_facts(lines)
        out.print("nothing is wrong with it")
        return 0

    @staticmethod
    def resume(out: RunDir, args: argparse.Namespace) -> int:
        """Go on with an experiment, as `paretolab resume` is asked to; return the exit code."""
        from framework.experiment.grid_load import reload_grid

        grid = reload_grid(out.experiment_file, overrides(args), workers=workers_of(args.workers))
        keep(out.path)
        return _execute(_tracked_as_asked(grid, args), out, args)


def _tracked_as_asked(grid: Grid, args: argparse.Namespace) -> Grid:
    cases = {name: tracked_as_asked(config, args) for name, config in grid.cases.items()}
    return replace(grid, cases=cases)


@contextmanager
def _directory(grid: Grid, out: str | None) -> Iterator[RunDir]:
    """Yield the directory; an experiment that is in it already is continued."""
    if out is not None and RunDir(out).experiment_file.is_file():
        yield RunDir(out)
        return
    with new_run(grid.base, out, experiment_file=grid.dump()) as made:
        yield made


def _execute(grid: Grid, out: RunDir, args: argparse.Namespace) -> int:
    from framework.experiment.comparison import compare_grid
    from framework.experiment.grid_run import run_grid

    confirm_trust(grid.base.cluster, args)
    errors = console(stderr=True)
    report = report_to(errors)
    report(f"{grid.base.name}: {out.path}")
    again = f"{program()} resume {shlex.quote(str(out.path))}"
    with resumable(out), _Shown(errors, quiet=args.quiet) as shown:
        options = Options(args.address, not args.no_mlflow, report, ended=shown)
        summary, paths = run_grid(grid, out, options)
    if paths:
        tracked = grid.base.tracking is not None and not args.no_mlflow
        more = [("go on, with more repeats", f"{again} --set experiment.repeats=N")]
        more += [("MLflow pages", f"{program()} ui")] if tracked else []
        show(compare_grid(grid, out), paths, more)
    failed = summary["failed_cells"]
    tell(lambda: {"directory": out.path, "status": summary["status"], "failed_runs": failed})
    for place, error in failed.items():
        report(f"{out.path / place}: could not be run: {error}")
    if failed:
        report(f"{len(failed)} of {summary['cells']} runs could not be run; try them with: {again}")
    over = summary["cells_over_limit"]
    for place in over:
        report(f"{out.path / place}: more rows failed than budget.max_failed_share allows")
    return 3 if failed or over else 0


class _Shown:
    """Shows runs as they end: one line each, or on a terminal a bar; nothing when quiet."""

    def __init__(self, errors: Console, *, quiet: bool) -> None:
        self._errors, self._quiet = errors, quiet
        self._bar: Progress | None = None

    def __enter__(self) -> _Shown:
        if self._errors.is_terminal and not self._quiet:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("[bold]runs"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                console=self._errors,
            )
            self._task = self._bar.add_task("", total=None, text="")
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, ended: Ended) -> None:
        """Show a run."""
        if self._quiet:
            return
        planned = ended.run
        name = f"{planned.case} · {planned.method or 'reference'} · {planned.repeat + 1}"
        left = f" · {timedelta(seconds=round(ended.seconds_left))} left"
        if self._bar is not None:
            text = f"{left.removeprefix(' · ')} · {name}"
            self._bar.update(self._task, completed=ended.done, total=ended.total, text=text)
            return
        if ended.error is None:
            volume = ended.summary["indicators"]["hypervolume"]
            outcome = f"front {ended.summary['front_size']}, hypervolume {volume:.4f}"
        else:
            outcome = f"failed: {ended.error}"
        line = f"{ended.done}/{ended.total} runs{left} · {name}: {outcome}"
        self._errors.print(line, markup=False, highlight=False, soft_wrap=True)
