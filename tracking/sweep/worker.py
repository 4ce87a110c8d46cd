"""One trial of a sweep, in whichever process it runs: light to import, since Ray's tasks do."""

from __future__ import annotations

from framework.experiment.config import RunConfig
from framework.experiment.repeats import run_repeats
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_roles, run_single
from framework.files import locked
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator


def run_one(config: RunConfig, problem: Problem, trial: RunDir) -> None:
    """Run a trial, or go on with it: one run, or several with other seeds.

    A process that was left behind by a driver that was killed is waited for.
    """
    with locked(trial.path / ".lock"):
        if config.repeats == 1:
            run_single(
                config, problem, trial, SerialEvaluator(problem, config.seed), report=_silent
            )
        else:
            trial.write_config(config)
            trial.write_about(problem, make_roles(config, problem))
            run_repeats(config, problem, trial, address=None, report=_silent)


def _silent(line: str) -> None:
    """Say nothing: the sweep has a line a trial."""
