"""Runs a sweep in its directory: asks the study for trials, runs them, tells it their values."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

import optuna

from framework.cli.results import Table
from framework.errors import ParetolabError
from framework.experiment.execute import Options, conclude, followed, uid_of
from framework.experiment.many_runs import Problems, RunExecutor
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, INTERRUPTED
from framework.files import write_whole
from framework.problem import Deployable
from framework.security import sqlite_uri
from tracking.sweep.config import SweepPlan
from tracking.sweep.report import top_table, write_report
from tracking.sweep.study import SweepStudy, open_study
from tracking.sweep.sweep_figures import write_sweep_figures
from tracking.sweep.trial_runs import TrialOutcome, TrialRuns, run_one
from tracking.sweep.trial_values import TrialMeter


class EndedTrial(NamedTuple):
    """A trial that has ended, and how many trials have ``done`` so, this one included."""

    done: int
    outcome: TrialOutcome


def run_sweep(plan: SweepPlan, out: RunDir, options: Options) -> tuple[dict[str, Any], Table]:
    """Start or resume a sweep in its directory; return its summary and its best trials.

    A sweep that was stopped loses nothing: finished trials are in the study, evaluated candidates
    in the journals of the trials, and unfinished trials are resumed.

    Parameters
    ----------
    plan : SweepPlan
    out : RunDir
        An existing directory; it may hold a part of the same sweep.
    options : Options

    Returns
    -------
    summary : dict
        Content of ``summary.json``.
    table : Table
        The best trials.

    Raises
    ------
    InputError
        The directory's study belongs to another sweep, or another process runs it.
    """
    problems = Problems()
    problem = problems.of(plan.config)
    roles = plan.config.roles(problem)
    meter = TrialMeter(plan.sweep, roles, f"{plan.path}: sweep")
    with ExitStack() as stack:
        stack.enter_context(out.owned())
        uid = uid_of(out)
        if not out.about_file.is_file():
            out.write_about(problem, roles, uid=uid)  # the name of the study contains the uid
        database = out.path / "optuna.db"
        url = plan.sweep.storage or sqlite_uri(database.absolute())
        name = plan.config.name if plan.sweep.join else f"{plan.config.name}-{uid[:8]}"
        study = stack.enter_context(open_study(plan, url, name, problem.fingerprint))
        write_whole(out.sweep_file, plan.dump())
        about = {"uid": uid, "data": dict(problem.describe()), "trials": plan.sweep.trials}
        out.write_about(problem, roles, **about)
        out.write_config(plan.config)  # it comes last and marks a run
        out.summary_file.unlink(missing_ok=True)  # it is running again
        stack.enter_context(followed(plan.config, out, options, start=True))
        # of a shared study, each process runs one trial at a time
        config = plan.config.model_copy(update={"workers": "serial"} if plan.sweep.join else {})
        executor = stack.enter_context(
            RunExecutor(
                run_one,
                out,
                config,
                options.address,
                lambda where: options.report(f"trials run on {where}"),
            )
        )
        runs = TrialRuns(plan, out, meter, problems, executor)
        trials = _Trials(plan, study, runs, options)
        try:
            trials.run()
        except (KeyboardInterrupt, ParetolabError):
            write_report(plan, out, study, INTERRUPTED)
            raise
        status = DONE if study.complete() else FAILED
        summary = write_report(
            plan,
            out,
            study,
            INTERRUPTED if trials.left else status,
            trials_left=trials.left,
            incidents=dict(executor.incidents()),
        )
        if status == DONE and summary["best"]:
            best = RunDir(out.path / "trials" / f"{summary['best'][0]['trial']:03d}")
            if best.config_file.is_file():  # else another process ran it, in a directory of its own
                problem = problems.of(best.config(checked=True))
                if isinstance(problem, Deployable) and problem.has_models:
                    conclude(problem, best, best.summary(), options)
        write_sweep_figures(plan, out, study)
        return summary, top_table(plan, study)


class _Trials:
    """Runs the unfinished trials of a study; ``left`` has those that failed with a machine."""

    def __init__(
        self,
        plan: SweepPlan,
        study: SweepStudy,
        runs: TrialRuns,
        options: Options,
    ) -> None:
        self._plan, self._study, self._runs, self._options = plan, study, runs, options
        self._done = plan.sweep.trials - len(study.unfinished())
        self.left: dict[int, str] = {}

    def run(self) -> None:
        """Run all unfinished trials.

        A trial that failed because of a machine is not told to the study: ``left`` says why, and a
        resumed sweep tries it again. Trials that would be drawn from its values wait for that.
        """
        if self._plan.sweep.join:
            self._with_others()
        elif self._plan.sweep.asynchronous:
            self._one_by_one()
        else:
            self._in_batches()

    def _in_batches(self) -> None:
        """Ask for a batch, wait for all its trials, and tell them in the order of their numbers."""
        todo, size = self._study.unfinished(), self._plan.sweep.batch
        for batch in sorted({number // size for number in todo}):
            numbers = [number for number in todo if number // size == batch]
            # whether Ray pays depends on all later trials, but not if trials run one at a time
            later = sum(number // size > batch for number in todo) if size > 1 else 0
            for number in numbers:
                self._start(number)
            outcomes = [self._runs.next(later) for _ in numbers]
            for outcome in sorted(outcomes, key=lambda outcome: outcome.number):
                self._tell(outcome)
            if self.left:
                return

    def _one_by_one(self) -> None:
        """Keep as many trials as a batch under way; tell each trial as it ends."""
        todo = self._study.unfinished()
        under_way = 0
        while todo or under_way:
            while todo and under_way < self._plan.sweep.batch:
                self._start(todo.pop(0))
                under_way += 1
            self._tell(self._runs.next(len(todo)))
            under_way -= 1

    def _with_others(self) -> None:
        """Run trials of a shared study, one at a time, until those of all processes have ended."""
        while (number := self._study.begin()) is not None:
            with self._study.alive(number):
                self._start(number)
                outcome = self._runs.next()
                if outcome.again:  # without heartbeats it becomes stale, and is tried again
                    self.left[number] = outcome.error
                else:
                    try:
                        self._study.tell(outcome)
                    except (optuna.exceptions.UpdateFinishedTrialError, ValueError):
                        self._options.report(f"trial {number}: another process has taken it over")
                        continue
            self._options.ended(EndedTrial(self._study.done(), outcome))
            if outcome.again:
                return

    def _start(self, number: int) -> None:
        self._runs.start(number, self._study.ask(number), self._study.limits(number))

    def _tell(self, outcome: TrialOutcome) -> None:
        """Tell the study the outcome of a trial, unless a machine failed."""
        if outcome.again:
            self.left[outcome.number] = outcome.error
        else:
            self._done += 1
            self._study.tell(outcome)
        self._options.ended(EndedTrial(self._done, outcome))
