"""`paretolab sync` and `paretolab ui`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from framework.cli.arguments import model_name
from framework.cli.results import Result, json_argument
from framework.errors import ParetolabError, first_line

DEFAULT_URI = "sqlite:///mlflow.db"


class Sync:
    """Upload what is missing in MLflow of some run directories."""

    help = "upload to MLflow what could not be logged while a run went on"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directories", metavar="DIR", nargs="+", help="directory of a run")
        parser.add_argument(
            "--uri", help="another MLflow store or server than the run was to log to"
        )
        parser.add_argument(
            "--register",
            metavar="NAME",
            type=model_name,
            help="register the run's model as the next version of this one; of an experiment the "
            "model of each case's best run as NAME-CASE, with the alias champion",
        )
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        """Upload each directory; return which were uploaded, with exit code 2 unless all were."""
        results = {path: Sync.upload(path, args.uri, args.register) for path in args.directories}
        return Result(
            [part for result in results.values() for part in result.parts],
            {"logged": {path: result.exit_code == 0 for path, result in results.items()}},
            max(result.exit_code for result in results.values()),
        )

    @staticmethod
    def upload(directory: str, uri: str | None = None, register: str | None = None) -> Result:
        """Upload a directory; return where it is logged, or exit code 2 if that failed."""
        from framework.security import say
        from tracking.mlflow_log.sync import sync

        try:
            return Result([f"{directory}: {sync(directory, uri, register)}"])
        except ParetolabError as error:
            say(f"paretolab: {error}", sys.stderr)
            return Result(exit_code=2)

    @staticmethod
    def comparison(out: Path, title: str, directory: str) -> Result:
        """Log a comparison to the experiment of one of its runs; return where, or exit code 2."""
        from framework.experiment.run_dir import RunDir
        from framework.security import say
        from tracking.mlflow_log.uploader import log_comparison

        run_dir = RunDir.existing(directory)
        try:
            return Result([f"{out}: logged to {log_comparison(out, title, run_dir)}"])
        except Exception as error:  # MLflow may raise anything
            say(f"paretolab: {out}: not logged to MLflow ({first_line(error)[:300]})", sys.stderr)
            return Result(exit_code=2)


class Ui:
    """Show logged runs in MLflow's web pages."""

    help = "show logged runs in the browser, with MLflow"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--uri", default=DEFAULT_URI, help="store (default: %(default)s)")
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
        )
        parser.add_argument("--port", type=int, default=5000, help="(default: %(default)s)")

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        """Serve until Ctrl-C."""
        from tracking.mlflow_log.ui import serve

        return Result(exit_code=serve(args.uri, args.host, args.port))
