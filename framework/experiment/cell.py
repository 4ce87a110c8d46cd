"""One cell of an experiment, in whichever process it runs: light to import, as Ray's tasks do."""

from __future__ import annotations

from framework.experiment.anytime import keep_moments
from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, run_single
from framework.files import locked
from framework.problem import Problem
from framework.run.evaluator import Evaluator, SerialEvaluator


def is_over(cell: RunDir) -> bool:
    """Tell whether a cell has ended; one with more failed rows than its budget allows has too."""
    return cell.summary().get("status") in (DONE, FAILED) and cell.anytime_file.is_file()


def run_cell(config: RunConfig, problem: Problem, cell: RunDir) -> None:
    """Run a cell, or go on with it, serially."""
    evaluate_cell(config, problem, cell, SerialEvaluator(problem, config.seed))


def evaluate_cell(config: RunConfig, problem: Problem, cell: RunDir, evaluator: Evaluator) -> None:
    """Do so with an evaluator.

    A process that was left behind by a driver that was killed is waited for; what it did is done.
    """
    with locked(cell.path / ".lock"):
        if cell.summary().get("status") not in (DONE, FAILED):
            about = {"data": dict(problem.describe())}
            run_single(config, problem, cell, evaluator, about=about, report=_silent)
        if not cell.anytime_file.is_file():
            keep_moments(cell)


def _silent(line: str) -> None:
    """Say nothing: the experiment has a line a cell."""
