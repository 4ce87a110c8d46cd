"""One run of a trial, in whichever process it runs: light to import, since Ray's tasks do."""

from __future__ import annotations

from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import run_single
from framework.files import locked
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator
from tracking.sweep.rungs import Rungs


def run_one(config: RunConfig, problem: Problem, run_dir: RunDir, rungs: Rungs | None) -> None:
    """Do a run of a trial, or go on with it.

    What ``rungs`` find on the way is in ``summary.json`` afterwards. A process that was left behind
    by a driver that was killed is waited for.
    """
    with locked(run_dir.path / ".lock"):
        evaluator = SerialEvaluator(problem, config.seed)
        if rungs is None:
            run_single(config, problem, run_dir, evaluator, report=_silent)
            return
        summary = run_single(
            config, problem, run_dir, evaluator, report=_silent, stopping_criterion=rungs
        )
        run_dir.write_summary(summary | {"rungs": rungs.found, "pruned": rungs.pruned})


def _silent(line: str) -> None:
    """Say nothing: the sweep has a line a trial."""
