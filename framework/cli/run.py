"""``paretolab run``, and what a run and a resumed run have in common."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from functools import partial

from rich.console import Console

from framework.cli.arguments import (
    config_arguments,
    config_of,
    run_arguments,
)
from framework.cli.cluster_options import confirm_trust
from framework.cli.disk import disk_errors
from framework.cli.progress import ProgressBar, ProgressLines
from framework.cli.tables import console, front_table, next_steps, program, show_steps, show_walk
from framework.experiment.config import RunConfig
from framework.experiment.execute import Options, Watcher, execute, new_directory
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import FAILED
from framework.models.routing import Chosen


class Run:
    """Start a new run."""

    help = "search as a configuration says"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        config_arguments(parser)
        parser.add_argument("--out", metavar="DIR", help="new directory (default: runs/NAME-NNN)")
        run_arguments(parser)
        plots_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        config = config_of(args)
        with new_directory(config, args.out) as run_dir:
            return execute_in(config, run_dir, args)


def plots_argument(parser: argparse.ArgumentParser) -> None:
    """Add --no-plots."""
    parser.add_argument(
        "--no-plots", action="store_true", help="make no pictures and no report page"
    )


def report_to(errors: Console) -> Callable[[str], None]:
    """Return what prints a line for the user as it is."""
    return partial(errors.print, markup=False, highlight=False, soft_wrap=True)


def execute_in(config: RunConfig, run_dir: RunDir, args: argparse.Namespace) -> int:
    """Run, or go on, in a directory; show progress, front and next steps; return the exit code."""
    confirm_trust(config.cluster, args)
    errors, out = console(stderr=True), console()
    bar = errors.is_terminal and not args.quiet

    def watcher() -> Watcher:
        return ProgressBar(errors) if bar else ProgressLines(quiet=args.quiet)

    report = report_to(errors)
    report(f"{config.name}: {run_dir.path}")
    try:
        with disk_errors(run_dir.path):
            options = Options(
                args.address, not args.no_mlflow, report, watcher, plots=not args.no_plots
            )
            summary = execute(config, run_dir, options)
    except KeyboardInterrupt:
        if run_dir.config_file.is_file():
            place = shlex.quote(str(run_dir.path))
            report(f"interrupted; go on with: {program()} resume {place}")
        else:
            report("interrupted before the search began")
        return 130
    front = run_dir.front()
    if len(front):
        tracked = config.tracking is not None and not args.no_mlflow
        out.print(front_table(front, mark=marked(run_dir, front), returned=run_dir.returned()))
        show_walk(out, Chosen.read(run_dir.model))
        show_steps(out, next_steps(run_dir, front, tracked))
    else:
        out.print("the front is empty: no row was successful and feasible")
    if summary["rows_failed"]:
        report(f"{summary['rows_failed']:,} of {summary['evaluations']:,} rows failed")
    return 3 if summary["status"] == FAILED else 0
