"""``paretolab run`` and ``paretolab resume``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from framework import registry
from framework.cli.arguments import (
    config_arguments,
    confirm_trust,
    overrides,
    report_to,
    resumable,
    run_arguments,
    set_argument,
    top_level,
    tracked_as_asked,
    workers_argument,
    workers_of,
)
from framework.cli.progress import ProgressBar, ProgressLines
from framework.cli.results import json_argument, model_of, records, solution, tell
from framework.cli.tables import (
    console,
    front_table,
    next_steps,
    show_promises,
    show_steps,
    show_walk,
)
from framework.errors import ParetolabError
from framework.experiment.alternatives import verdict_of
from framework.experiment.config import RunConfig, load_config
from framework.experiment.execute import (
    Options,
    ProgressDisplay,
    execute,
    new_run,
    resumed_config,
)
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import FAILED
from framework.models.walk import Chosen
from framework.security import keep

if TYPE_CHECKING:
    from rich.console import Console

_SUMMARY = (  # what --json has of summary.json
    "status", "stopped", "evaluations", "distinct_evaluations", "rows_failed", "wall_s", "seed",
    "repeats", "indicators",
)  # fmt: skip


class Run:
    """Start a new run."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        config_arguments(parser)
        parser.add_argument("--out", metavar="DIR", help="new directory (default: runs/NAME-NNN)")
        run_arguments(parser)
        _plots_argument(parser)
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        config = load_config(args.config, overrides(args), **top_level(args))
        config = tracked_as_asked(config, args)
        with new_run(config, args.out) as run_dir, _shown(config, run_dir, args) as options:
            return _result(config, run_dir, execute(config, run_dir, options), options)


class Resume:
    """Continue a run, a sweep or an experiment that was stopped, or has a larger budget now."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="directory of a run")
        set_argument(parser)
        workers_argument(parser)
        run_arguments(parser)
        _plots_argument(parser)
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        run_dir = RunDir.existing(args.directory)
        with run_dir.owned():
            return _resume(run_dir, args)


def _resume(run_dir: RunDir, args: argparse.Namespace) -> int:
    if run_dir.sweep_file.is_file():
        code: int = registry.load("commands", "sweep").resume(run_dir, args)
        return code
    if run_dir.experiment_file.is_file():
        from framework.cli.experiment import Experiment

        return Experiment.resume(run_dir, args)
    report = report_to(console(stderr=True))
    workers = workers_of(args.workers)
    config = resumed_config(run_dir, overrides(args), workers=workers, report=report)
    config = tracked_as_asked(config, args)
    keep(run_dir.path)
    with _shown(config, run_dir, args) as options:
        return _result(config, run_dir, execute(config, run_dir, options), options)


def _plots_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-plots", action="store_true", help="make no pictures and no report page"
    )


@contextmanager
def _shown(config: RunConfig, run_dir: RunDir, args: argparse.Namespace) -> Iterator[Options]:
    """Yield the options of a run that shows its progress, as the arguments say."""
    confirm_trust(config.cluster, args)
    errors = console(stderr=True)
    bar = errors.is_terminal and not args.quiet

    def display() -> ProgressDisplay:
        return ProgressBar(errors) if bar else ProgressLines(quiet=args.quiet)

    report = report_to(errors)
    report(f"{config.name}: {run_dir.path}")
    with resumable(run_dir):
        yield Options(
            args.address, not args.no_mlflow, report, display=display, plots=not args.no_plots
        )


def _result(config: RunConfig, run_dir: RunDir, summary: dict[str, Any], options: Options) -> int:
    """Show the front and the next steps; return the exit code."""
    out, front = console(), run_dir.front()
    tell(
        lambda: {
            "directory": run_dir.path,
            **{key: summary.get(key) for key in _SUMMARY},
            "objectives": [objective.model_dump() for objective in config.objectives],
            "front": records(front),
        }
    )
    if len(front):
        position = marked(run_dir, front)
        tell(
            lambda: {
                "recommended": solution(front, position),
                "model": model_of(run_dir),
                "verdict": verdict_of(run_dir, front),
            }
        )
        out.print(front_table(front, mark=position, returned=run_dir.returned()))
        show_promises(out, front, position, summary.get("expected") or {})
        show_walk(out, Chosen.read(run_dir.model))
        if sentence := verdict_of(run_dir, front):
            out.print(sentence, markup=False, highlight=False, soft_wrap=True)
        if config.repeats > 1:
            _show_repeats(out, run_dir)
        tracked = config.tracking is not None and options.track
        show_steps(out, next_steps(run_dir, front, tracked))
    else:
        tell(lambda: {"recommended": None, "why_empty": run_dir.why_empty()})
        out.print(f"the front is empty: {run_dir.why_empty()}", markup=False, highlight=False)
    if summary["rows_failed"]:
        options.report(f"{summary['rows_failed']:,} of {summary['evaluations']:,} rows failed")
    return 3 if summary["status"] == FAILED or not len(front) else 0


def _show_repeats(out: Console, run_dir: RunDir) -> None:
    """Print what the repeats found, as `paretolab compare` does, and which of them ended early."""
    from framework.analysis.report import early_stops
    from framework.cli.compare import result_table
    from framework.experiment.comparison import compare

    try:
        comparison = compare([run_dir.path])
    except ParetolabError:  # nothing that is measured has a meaning for these objectives
        return
    stops = early_stops(comparison)
    tell(lambda: {"repeats_found": comparison.frame, "ended_early": stops})
    out.print(result_table(comparison))
    if stops:
        show_steps(out, [("ended early", sentence) for sentence in stops])
