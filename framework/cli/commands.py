"""The commands of the framework: run, resume, check, list, choose and predict.

Other packages add commands by registering a class of this form in ``paretolab.commands``.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from rich.console import Console

from framework import registry
from framework.algorithm import fitting
from framework.analysis.choose import choose
from framework.cli import costs as costs_command
from framework.cli import mixtures
from framework.cli.costs import numbers
from framework.cli.disk import disk_errors
from framework.cli.progress import ProgressBar, ProgressLines
from framework.cli.tables import console, front_table, next_steps, program, show_steps, show_walk
from framework.errors import InputError, ParetolabError
from framework.experiment.config import ConstraintConfig, RunConfig, load_config
from framework.experiment.experiment import Options, Watcher, execute, new_directory
from framework.experiment.export import export, load_problem, marked
from framework.experiment.resume import resumed_config
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import (
    FAILED,
    candidates_of,
    make_algorithm,
    make_problem,
    make_roles,
)
from framework.models.routing import Chosen


class Command(Protocol):
    """A subcommand: one line of help, its arguments, and what it does."""

    help: str

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        ...

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Execute the command; return its exit code."""
        ...


class Run:
    """Start a new run."""

    help = "search as a configuration says"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        _config_arguments(parser)
        parser.add_argument("--out", metavar="DIR", help="new directory (default: runs/NAME-NNN)")
        _run_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        config = _config(args)
        with new_directory(config, args.out) as run_dir:
            return _execute(config, run_dir, args)


class Resume:
    """Continue a run, a sweep or an experiment that was stopped, or has a larger budget now."""

    help = "go on with a run that was stopped; more budget by --set budget.KEY=VALUE"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="directory of a run")
        _set_argument(parser)
        _workers_argument(parser)
        _run_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        run_dir = RunDir.existing(args.directory)
        for name, file in (
            ("sweep", run_dir.sweep_file),
            ("experiment", run_dir.experiment_file),
        ):
            if file.is_file():
                code: int = registry.load("commands", name).resume(args)
                return code
        config = resumed_config(
            run_dir, args.set, workers=_workers(args.workers), report=_report(console(stderr=True))
        )
        return _execute(config, run_dir, args)


class Check:
    """Say what would run, without running it."""

    help = "say what a configuration would run, and what is wrong with it"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        _config_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        config = _config(args)
        problem = make_problem(config)
        algorithm = make_algorithm(config, problem, make_roles(config, problem))
        out, kind = console(), config.algorithm["kind"]
        data = problem.describe()
        lines = [("name", config.name)]
        if data:
            parts = [
                f"{data[key]:,} {key}" for key in ("train", "validation", "test") if key in data
            ]
            lines += [
                ("data", f"{data['name']}: {data['source']}"),
                ("records", f"{data['records']:,} ({', '.join(parts)})"),
            ]
            classes = f"; classes {', '.join(data['classes'])}" if data.get("classes") else ""
            lines += [
                (key, f"{data[key]:,}{classes}") for key in ("features", "models") if key in data
            ]
        size = problem.space.size
        lines += [
            ("candidates", f"{problem.space!r}" + (f", {_number(size)} in all" if size else "")),
            ("objectives", ", ".join(f"{o.metric} ({o.sense})" for o in config.objectives)),
            ("constraints", ", ".join(map(_bounds, config.constraints)) or "none"),
            ("algorithm", ", ".join(f"{k}={v}" for k, v in config.algorithm.items())),
            ("others fit", ", ".join(n for n in fitting(problem) if n != kind) or "none"),
            ("plan", algorithm.plan or "as the budget goes"),
            ("budget", ", ".join(f"{k}={v}" for k, v in config.budget if v is not None)),
            ("memory", problem.memory(candidates_of(config, algorithm))[1] or "little"),
            ("seed, repeats", f"{config.seed}, {config.repeats}"),
            ("workers", str(config.workers)),
            ("tracking", config.tracking.uri if config.tracking else "none"),
        ]
        show_steps(out, lines)
        out.print("nothing is wrong with it")
        return 0


class List:
    """Show what is registered."""

    help = "list algorithms, problems, datasets or metrics"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        kinds = ["algorithms", "problems", "datasets", "metrics"]
        parser.add_argument("what", nargs="?", choices=kinds, help="(default: all of them)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        groups = {
            "algorithms": _algorithms,
            "problems": lambda: _summaries("problems"),
            "datasets": _datasets,
            "metrics": _metrics,
        }
        out = console()
        for name, lines in groups.items():
            if args.what in (None, name):
                if args.what is None:
                    out.print(f"\n{name}", style="bold")
                show_steps(out, lines())
        return 0


class Choose:
    """Pick one solution of a finished run."""

    help = "pick one solution of a run's front, and export it as a model"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="directory of a run")
        parser.add_argument(
            "--where", action="append", default=[], metavar="COND", help="such as 'coverage>=0.9'"
        )
        parser.add_argument(
            "--within",
            action="append",
            default=[],
            metavar="METRIC=X",
            help="within X (0.02) or X%% of the best value left, such as accuracy=2%%",
        )
        parser.add_argument("--best", metavar="METRIC", help="the best value of one metric")
        parser.add_argument("--knee", action="store_true", help="nearest to the ideal (default)")
        parser.add_argument(
            "--weights", metavar="M=W,M=W", help="least weighted sum of losses scaled to 0..1"
        )
        costs_command.add_arguments(parser)
        mixtures.add_arguments(parser)
        parser.add_argument("--id", type=int, help="the solution with this id")
        parser.add_argument("--export", metavar="MODEL_DIR", help="write it as a model that runs")
        parser.add_argument("--no-mlflow", action="store_true", help="do not log the chosen model")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        run_dir = RunDir.existing(args.directory)
        if not run_dir.front_file.is_file():
            raise InputError(
                f"{args.directory}: expected a finished run, found no front.csv; run "
                f"`{program()} resume {args.directory}` first"
            )
        front = run_dir.front()
        if args.mix:
            return mixtures.choose_mixture(args, run_dir, front)
        expected = costs_command.expected_cost(args)
        position = choose(
            front,
            where=args.where,
            within=args.within,
            best=args.best,
            knee=args.knee,
            weights=numbers(args.weights, "--weights", "METRIC"),
            expected=expected,
            id=args.id,
        )
        out = console()
        out.print(front_table(front, mark=position))
        out.print(f"chosen (*): solution {front.ids[position]}")
        if expected is not None:
            costs_command.show(front, position, expected)
        if args.export:
            _export(run_dir, position, Path(args.export))
        else:
            try:
                _keep(run_dir, position)
            except InputError as error:  # the choice stands, data or not
                print(f"its model and picture are not written: {error}", file=sys.stderr)
        run_dir.write_choice(int(front.ids[position]))
        tracked = run_dir.config().tracking is not None and run_dir.tracking_file.is_file()
        if tracked and not args.no_mlflow:
            registry.load("commands", "sync").upload(str(run_dir.path))
        return 0


class Predict:
    """Run an exported model on a table."""

    help = "answer the records of a table with an exported model"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL_DIR", help="directory of an exported model")
        parser.add_argument("data", metavar="DATA", help="CSV or Parquet file")
        parser.add_argument("--out", metavar="FILE", help="CSV to write (default: to the terminal)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from framework.data.files import read_frame
        from framework.models.store import load_model

        model = load_model(args.model)
        records = read_frame(Path(args.data))
        try:
            answers = model.predict_table(records)
        except ParetolabError:
            raise
        except Exception as error:  # the model may be anyone's
            raise InputError(
                f"{args.model}: expected a model that can answer these records, found "
                f"{type(error).__name__}: {error}"
            ) from error
        try:
            answers.to_csv(args.out or sys.stdout, index=False)
        except BrokenPipeError:  # whoever reads has enough, as `head` has
            raise
        except OSError as error:
            raise InputError(f"--out {args.out}: cannot be written: {error.strerror}") from error
        return 0


def _config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="YAML file")
    _set_argument(parser)
    parser.add_argument("--repeats", type=int, help="repetitions with other seeds")
    parser.add_argument("--trials", type=_now_repeats, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int)
    _workers_argument(parser)


def _workers_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        metavar="auto|serial|all|N",
        help="who evaluates: whichever pays, this process, Ray on all cores or on N",
    )


def _set_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a key, such as algorithm.mutation_rate=0.1",
    )


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", metavar="ADDR", help="Ray cluster to join: auto or host:port")
    parser.add_argument("--no-mlflow", action="store_true", help="do not log to MLflow")
    parser.add_argument("--quiet", action="store_true", help="plain lines instead of a bar")


def _config(args: argparse.Namespace) -> RunConfig:
    return load_config(
        args.config, args.set, repeats=args.repeats, seed=args.seed, workers=_workers(args.workers)
    )


def _now_repeats(text: str) -> int:
    """Refuse the option that ``--repeats`` was called once."""
    raise argparse.ArgumentTypeError(f"is now called --repeats; write --repeats {text}")


def _workers(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isdigit() else text


def _report(errors: Console) -> Callable[[str], None]:
    """Return what prints a line for the user as it is."""
    return partial(errors.print, markup=False, highlight=False, soft_wrap=True)


def _execute(config: RunConfig, run_dir: RunDir, args: argparse.Namespace) -> int:
    errors, out = console(stderr=True), console()
    bar = errors.is_terminal and not args.quiet

    def watcher() -> Watcher:
        return ProgressBar(errors) if bar else ProgressLines(quiet=args.quiet)

    report = _report(errors)
    report(f"{config.name}: {run_dir.path}")
    try:
        with disk_errors(run_dir.path):
            summary = execute(
                config, run_dir, Options(args.address, not args.no_mlflow, watcher, report)
            )
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
        out.print(front_table(front, mark=marked(run_dir, front)))
        show_walk(out, Chosen.read(run_dir.model))
        show_steps(out, next_steps(run_dir, front, tracked))
    else:
        out.print("the front is empty: no row was successful and feasible")
    if summary["rows_failed"]:
        report(f"{summary['rows_failed']:,} of {summary['evaluations']:,} rows failed")
    return 3 if summary["status"] == FAILED else 0


def _keep(run_dir: RunDir, position: int, directory: Path | None = None) -> None:
    """Make a solution the run's chosen one: its model and picture; a copy to ``directory``.

    Raises
    ------
    InputError
        The data are others than the run's, or cannot be read; a copy is wanted of what is no
        model.
    """
    config = run_dir.config()
    problem, front = load_problem(run_dir), run_dir.front()
    about = {"run": config.name, "seed": config.seed}
    for target in [run_dir.model] if directory is None else [directory, run_dir.model]:
        if not export(problem, front, position, target, about):
            if directory is None:
                return
            raise InputError(
                "--export: expected a solution that is a model to deploy, found one of problem "
                f"{config.problem['kind']} that has no format to be written in"
            )
    if "system" in registry.names("reports"):
        registry.load("reports", "system")(run_dir)
    show_walk(console(), Chosen.read(run_dir.model))


def _export(run_dir: RunDir, position: int, directory: Path) -> None:
    """Write the model, and keep a copy as the run's chosen one."""
    from framework.models.store import EXAMPLE_FILE

    _keep(run_dir, position, directory)
    out = console()
    out.print(f"model written to {directory}", markup=False, highlight=False, soft_wrap=True)
    example = directory / EXAMPLE_FILE
    data = shlex.quote(str(example)) if example.is_file() else "DATA.csv"
    show_steps(out, [("try it", f"{program()} predict {shlex.quote(str(directory))} {data}")])


def _number(size: int) -> str:
    """Return a number, of a long one its order alone."""
    return f"{size:,}" if size < 10**15 else f"about 10^{math.log10(size):.0f}"


def _bounds(constraint: ConstraintConfig) -> str:
    bounds = [("<=", constraint.at_most), (">=", constraint.at_least)]
    return ", ".join(f"{constraint.metric} {sign} {x:g}" for sign, x in bounds if x is not None)


def _summaries(group: registry.Group) -> list[tuple[str, str]]:
    """Return each class of a group with the first sentence of its docstring."""
    lines = []
    for name in registry.names(group):
        doc = (registry.load(group, name).__doc__ or "").strip()
        lines.append((name, doc.split("\n\n")[0].replace("\n    ", " ")))
    return lines


def _algorithms() -> list[tuple[str, str]]:
    """Return each algorithm with the first sentence of its docstring and what it searches."""
    lines = []
    for name, text in _summaries("algorithms"):
        spaces = registry.load("algorithms", name).spaces
        lines.append((name, f"{text} Searches {' and '.join(space.words for space in spaces)}."))
    return lines


def _datasets() -> list[tuple[str, str]]:
    from framework.data import known_names

    return [(name, f"dataset: {{name: {name}}}") for name in known_names()]


def _metrics() -> list[tuple[str, str]]:
    lines = []
    for kind in registry.names("problems"):
        for metric in registry.load("problems", kind).known_metrics:
            lines.append((f"{kind}.{metric.name}", f"{metric.text} ({metric.sense})"))
    return lines
