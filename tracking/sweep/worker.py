"""One trial of a sweep, in whichever process it runs: light to import, since Ray's tasks do."""

from __future__ import annotations

from framework.experiment.config import RunConfig
from framework.experiment.repeats import run_repeats
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_roles, run_single
from framework.files import locked
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator
from tracking.sweep.rungs import Rungs


def run_one(config: RunConfig, problem: Problem, trial: RunDir, rungs: Rungs | None = None) -> None:
    """Run a trial, or go on with it: one run, or several with other seeds.

    What ``rungs`` find on the way of the one run is in ``summary.json`` afterwards. A process that
    was left behind by a driver that was killed is waited for.
    """
    with locked(trial.path / ".lock"):
        if config.repeats == 1:
            evaluator = SerialEvaluator(problem, config.seed)
            if rungs is None:
                run_single(config, problem, trial, evaluator, report=_silent)
                return
            summary = run_single(config, problem, trial, evaluator, report=_silent, gate=rungs)
            seen = {"rungs": rungs.found, "pruned": rungs.pruned}
            trial.write_summary(summary | seen)
        else:
            trial.write_config(config)
            trial.write_about(problem, make_roles(config, problem))
            run_repeats(config, problem, trial, address=None, report=_silent)


def _silent(line: str) -> None:
    """Say nothing: the sweep has a line a trial."""
