"""``paretolab run`` and ``paretolab resume``."""

from __future__ import annotations

import argparse
from typing import Any

from framework import registry
from framework.cli.arguments import (
    config_arguments,
    overrides,
    run_arguments,
    running,
    set_argument,
    top_level,
    tracked_as_asked,
    workers_argument,
    workers_of,
)
from framework.cli.results import Result, json_argument, model_of, records, solution
from framework.cli.tables import front_table, next_steps, promises, walk
from framework.errors import InputError, ParetolabError, command
from framework.experiment.alternatives import verdict_of
from framework.experiment.config import RunConfig, load_config
from framework.experiment.execute import Options, execute, new_run, resumed_config
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import FAILED
from framework.models.walk import Chosen
from framework.run.terminal import console
from framework.security import keep

_SUMMARY = (  # the keys of summary.json that --json includes
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
    def run(args: argparse.Namespace) -> Result:
        config = load_config(args.config, overrides(args), **top_level(args))
        config = tracked_as_asked(config, args)
        plots = not args.no_plots
        with (
            new_run(config, args.out) as run_dir,
            running(config, run_dir, args, plots=plots) as options,
        ):
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
    def run(args: argparse.Namespace) -> Result:
        run_dir = RunDir.existing(args.directory)
        if (whole := run_dir.whole) is not run_dir:
            raise InputError(
                f"{args.directory}: expected a whole run, found a part of {whole.kind}; "
                f"{command('resume', whole.path)} goes on with all of it"
            )
        with run_dir.owned():
            return _resume(run_dir, args)


def _resume(run_dir: RunDir, args: argparse.Namespace) -> Result:
    if run_dir.sweep_file.is_file():
        result: Result = registry.load("commands", "sweep").resume(run_dir, args)
        return result
    if run_dir.experiment_file.is_file():
        from framework.cli.experiment import Experiment

        return Experiment.resume(run_dir, args)
    config = resumed_config(
        run_dir,
        overrides(args),
        workers=workers_of(args.workers),
        report=console(stderr=True).say,
    )
    config = tracked_as_asked(config, args)
    keep(run_dir.path)
    with running(config, run_dir, args, plots=not args.no_plots) as options:
        return _result(config, run_dir, execute(config, run_dir, options), options)


def _plots_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-plots", action="store_true", help="make no pictures and no report page"
    )


def _result(
    config: RunConfig, run_dir: RunDir, summary: dict[str, Any], options: Options
) -> Result:
    """Return the result of a run, with exit code 3 if too much failed or the front is empty."""
    result = result_of(run_dir, tracked=config.tracking is not None)
    if options.display.quiet and "stopped" in summary:  # otherwise the progress has shown it
        options.report(f"ended by {summary['stopped']}")
    if summary["rows_failed"]:
        options.report(f"{summary['rows_failed']:,} of {summary['evaluations']:,} rows failed")
    result.exit_code = 3 if summary["status"] == FAILED or not summary["front_size"] else 0
    return result


def result_of(run_dir: RunDir, *, tracked: bool = False) -> Result:
    """Return the result of a run: its front, the recommended solution and the next steps."""
    config, front, summary = run_dir.config(), run_dir.front(), run_dir.summary()
    result = Result(
        fields={
            "directory": run_dir.path,
            **{key: summary.get(key) for key in _SUMMARY},
            "objectives": [objective.model_dump() for objective in config.objectives],
            "front": lambda: records(front),
        }
    )
    if not len(front):
        why = run_dir.why_empty()
        return result.add(f"the front is empty: {why}", recommended=None, why_empty=why)
    position, verdict = marked(run_dir, front), verdict_of(run_dir, front)
    result.add(
        front_table(front, mark=position, returned=run_dir.returned()),
        *promises(front, position, summary.get("expected") or {}),
        *walk(Chosen.read(run_dir.model)),
        verdict,
        recommended=solution(front, position),
        model=model_of(run_dir),
        verdict=verdict,
    )
    if config.repeats > 1:
        _add_repeats(result, run_dir)
    return result.add(next_steps(run_dir, front, tracked=tracked))


def _add_repeats(result: Result, run_dir: RunDir) -> None:
    """Add a table of the repeats, as `paretolab compare` does, and which of them ended early."""
    from framework.analysis.report import early_stops
    from framework.cli.compare import result_table
    from framework.experiment.comparison import compare

    try:
        comparison = compare([run_dir.path])
    except ParetolabError:  # no indicator is defined for these objectives
        return
    stops = early_stops(comparison)
    result.add(
        result_table(comparison),
        [("ended early", sentence) for sentence in stops],
        repeats_found=comparison.frame,
        ended_early=stops,
    )
