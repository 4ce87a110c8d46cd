"""``paretolab resume``."""

from __future__ import annotations

import argparse

from framework import registry
from framework.cli.arguments import run_arguments, set_argument, workers_argument, workers_of
from framework.cli.cluster_options import overrides
from framework.cli.run import execute_in, plots_argument, report_to
from framework.cli.tables import console
from framework.experiment.resume import resumed_config
from framework.experiment.run_dir import RunDir


class Resume:
    """Continue a run, a sweep or an experiment that was stopped, or has a larger budget now."""

    help = "go on with a run that was stopped; more budget by --set budget.KEY=VALUE"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="directory of a run")
        set_argument(parser)
        workers_argument(parser)
        run_arguments(parser)
        plots_argument(parser)

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
            run_dir,
            overrides(args),
            workers=workers_of(args.workers),
            report=report_to(console(stderr=True)),
        )
        return execute_in(config, run_dir, args)
