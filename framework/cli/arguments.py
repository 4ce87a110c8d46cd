"""Arguments that several commands have, and the form that a command has."""

from __future__ import annotations

import argparse
from typing import Protocol

from framework.cli.cluster_options import add_cluster_arguments, overrides
from framework.errors import InputError
from framework.experiment.config import RunConfig, load_config


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


def config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the configuration and what overrides it."""
    parser.add_argument("config", metavar="CONFIG", help="YAML file")
    set_argument(parser)
    parser.add_argument("--repeats", type=int, help="repetitions with other seeds")
    parser.add_argument("--trials", type=_now_repeats, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int)
    workers_argument(parser)


def workers_argument(parser: argparse.ArgumentParser) -> None:
    """Add --workers."""
    parser.add_argument(
        "--workers",
        metavar="auto|serial|all|N",
        help="who works: whichever pays, this process, Ray on all cores or on N",
    )


def set_argument(
    parser: argparse.ArgumentParser, example: str = "algorithm.mutation_rate=0.1"
) -> None:
    """Add --set."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"override a key, such as {example}",
    )


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what any command that runs takes: the options of a cluster, --no-mlflow, --quiet."""
    add_cluster_arguments(parser)
    parser.add_argument("--no-mlflow", action="store_true", help="do not log to MLflow")
    parser.add_argument("--quiet", action="store_true", help="plain lines instead of a bar")


def config_of(args: argparse.Namespace) -> RunConfig:
    """Return the configuration that the arguments name, checked. Raises InputError."""
    return load_config(
        args.config,
        overrides(args),
        repeats=args.repeats,
        seed=args.seed,
        workers=workers_of(args.workers),
    )


def _now_repeats(text: str) -> int:
    """Refuse the option that ``--repeats`` was called once."""
    raise argparse.ArgumentTypeError(f"is now called --repeats; write --repeats {text}")


def workers_of(text: str | None) -> str | int | None:
    """Return what --workers says, a number as a number.

    Raises
    ------
    InputError
        It is none of them.
    """
    if text is None or text in ("auto", "serial", "all"):
        return text
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"--workers: expected auto, serial, all or a number, found {text!r}")
    return int(text)
