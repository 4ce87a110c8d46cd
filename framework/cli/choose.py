"""``paretolab choose``."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from framework import registry
from framework.analysis.choose import choose
from framework.cli import costs as costs_command
from framework.cli import mixtures
from framework.cli.costs import numbers
from framework.cli.tables import console, front_table, program, show_model, show_steps
from framework.errors import InputError, ParetolabError
from framework.experiment.export import export, load_problem
from framework.experiment.run_dir import RunDir


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
        parser.add_argument(
            "--export",
            metavar="MODEL_DIR",
            help="write it as a model that runs, in a new directory",
        )
        parser.add_argument(
            "--register", metavar="NAME", help="in MLflow, as the next version of this model"
        )
        parser.add_argument("--no-mlflow", action="store_true", help="do not log the chosen model")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        run_dir = RunDir.existing(args.directory)
        config = run_dir.config()
        if not run_dir.front_file.is_file():
            raise InputError(
                f"{args.directory}: expected a finished run, found no front.csv; run "
                f"`{program()} resume {args.directory}` first"
            )
        tracked = config.tracking is not None and run_dir.tracking_file.is_file()
        if args.register and (args.no_mlflow or not tracked):
            raise InputError(
                f"--register {args.register}: expected a run that is logged to MLflow, found that "
                f"{args.directory} is not; `{program()} sync {args.directory} --register "
                f"{args.register}` logs it"
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
        out.print(front_table(front, mark=position, returned=run_dir.returned()))
        out.print(f"chosen (*): solution {front.ids[position]}")
        if expected is not None:
            costs_command.show(front, position, expected)
        if args.export:
            _export(run_dir, position, Path(args.export))
        else:
            try:
                _keep(run_dir, position)
            except ParetolabError as error:  # the choice stands, data or not
                print(f"its model and picture are not written: {error}", file=sys.stderr)
        run_dir.write_choice(int(front.ids[position]))
        for name in ("chosen", "whole"):
            if name in registry.names("reports"):
                registry.load("reports", name)(run_dir)
        if tracked and not args.no_mlflow:
            code: int = registry.load("commands", "sync").upload(
                str(run_dir.path), register=args.register
            )
            return code if args.register else 0
        return 0


def _keep(run_dir: RunDir, position: int, directory: Path | None = None) -> None:
    """Write the model of the solution that becomes the run's; a copy to ``directory``.

    Raises
    ------
    InputError
        The data are others than the run's, or cannot be read; a copy is wanted of what is no
        model, or where another model is.
    """
    config = run_dir.config()
    problem, front = load_problem(run_dir), run_dir.front()
    about = {"run": config.name, "seed": config.seed}
    for target in [run_dir.model] if directory is None else [directory, run_dir.model]:
        ours = target == run_dir.model  # what was chosen last; elsewhere nothing is overwritten
        if not export(problem, front, position, target, about, replaces=ours):
            if directory is None:
                return
            raise InputError(
                "--export: expected a solution that is a model to deploy, found one of problem "
                f"{config.problem['kind']} that has no format to be written in"
            )
    show_model(console(), run_dir.model)


def _export(run_dir: RunDir, position: int, directory: Path) -> None:
    """Write the model, and keep a copy as the run's chosen one."""
    from framework.models.store import EXAMPLE_FILE

    _keep(run_dir, position, directory)
    out = console()
    out.print(f"model written to {directory}", markup=False, highlight=False, soft_wrap=True)
    example = directory / EXAMPLE_FILE
    data = shlex.quote(str(example)) if example.is_file() else "DATA.csv"
    show_steps(out, [("try it", f"{program()} predict {shlex.quote(str(directory))} {data}")])
