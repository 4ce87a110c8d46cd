"""Runs a sweep in its directory: asks for trials, has them run side by side, tells their values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import yaml
from rich.table import Table

from framework.errors import ParetolabError
from framework.experiment.execute import Options, followed, uid_of
from framework.experiment.many_runs import Problems, alone
from framework.experiment.run_dir import RunDir
from framework.experiment.run_pool import RayPool, RunPool, SerialPool, ray_pool
from framework.experiment.single_run import DONE, FAILED, INTERRUPTED, make_roles
from framework.files import check_database, write_whole
from framework.parallel.choice import ray_pays, uses_ray
from framework.problem import Problem
from framework.roles import Roles
from tracking.sweep.config import SweepPlan
from tracking.sweep.joint import JointStudy
from tracking.sweep.outcome import Outcome
from tracking.sweep.plots import write_plots
from tracking.sweep.report import top_table, write_report
from tracking.sweep.study import SweepStudy, open_study
from tracking.sweep.trial_runs import TrialRuns
from tracking.sweep.values import Meter
from tracking.sweep.worker import run_one


class Ended(NamedTuple):
    """A trial that has ended.

    Attributes
    ----------
    done : int
        How many trials have ended, this one included.
    outcome : Outcome
    """

    done: int
    outcome: Outcome


def run_sweep(plan: SweepPlan, out: RunDir, options: Options) -> tuple[dict[str, Any], Table]:
    """Run, or go on with, a sweep in its directory; return its summary and its best trials.

    A sweep that was stopped loses nothing: finished trials are in the study, evaluated rows in
    the journals of the trials, and unfinished trials are resumed.

    Parameters
    ----------
    plan : SweepPlan
    out : RunDir
        Made already; it may hold a part of the same sweep.
    options : Options

    Returns
    -------
    summary : dict
        Content of ``summary.json``.
    table : rich.table.Table
        The best trials.

    Raises
    ------
    InputError
        The directory's study belongs to another sweep, or another process runs it.
    """
    problems = Problems()
    problem = problems.of(plan.config)
    roles = make_roles(plan.config, problem)
    meter = Meter(plan.sweep, roles, f"{plan.path}: sweep")
    with ExitStack() as stack:
        stack.enter_context(alone(out, "sweep"))
        uid = uid_of(out)
        if not out.about_file.is_file():
            out.write_about(problem, roles, uid=uid)  # the study's name rests on it
        own = out.path / "optuna.db"
        check_database(own)
        url = plan.sweep.storage or f"sqlite:///{own.absolute().as_posix()}"
        name = plan.config.name if plan.sweep.join else f"{plan.config.name}-{uid[:8]}"
        study = stack.enter_context(open_study(plan, url, name))
        _write_start(plan, out, problem, roles, uid)
        stack.enter_context(followed(plan.config, out, options))
        trials = _Trials(plan, out, study, meter, problems, options)
        started = time.perf_counter()
        try:
            trials.run()
        except (KeyboardInterrupt, ParetolabError):
            write_report(plan, out, study, INTERRUPTED, time.perf_counter() - started)
            raise
        status = DONE if study.complete() else FAILED
        summary = write_report(
            plan,
            out,
            study,
            INTERRUPTED if trials.left else status,
            time.perf_counter() - started,
            trials_left=trials.left,
            incidents=dict(trials.incidents),
        )
        write_plots(plan, out, study)
        return summary, top_table(plan, study)


class _Trials:
    """Takes the unfinished trials of a study through their runs."""

    def __init__(
        self,
        plan: SweepPlan,
        out: RunDir,
        study: SweepStudy,
        meter: Meter,
        problems: Problems,
        options: Options,
    ) -> None:
        self.plan, self.out, self.study = plan, out, study
        self._runs = TrialRuns(plan, out, meter, problems)
        self._options = options
        self._done = plan.sweep.trials - len(study.unfinished())
        self.left: dict[int, str] = {}
        self.incidents: Mapping[str, int] = {}

    def run(self) -> None:
        """Run all of them.

        A trial of which a machine made nothing is not told: ``left`` says why, and the next call
        tries it again. What would rest on its values waits for that.
        """
        if self.plan.sweep.join:
            self._with_others(SerialPool(run_one))
            return
        with _Pools(self.plan, self.out, self._options) as pools:
            if self.plan.sweep.asynchronous:
                self._one_by_one(pools.choose(0.0))
            else:
                self._in_batches(pools)
            self.incidents = pools.now.incidents()

    def _in_batches(self, pools: _Pools) -> None:
        """Ask for a batch, wait for all of it, tell it in the order of the numbers."""
        todo, size = self.study.unfinished(), self.plan.sweep.batch
        spent = 0.0
        for batch in sorted({number // size for number in todo}):
            numbers = [number for number in todo if number // size == batch]
            left = sum(number // size >= batch for number in todo)
            pool = pools.choose(spent * left)
            started = time.perf_counter()
            for number in numbers:
                self._start(number, pool)
            outcomes = [self._runs.next(pool) for _ in numbers]
            for outcome in sorted(outcomes, key=lambda outcome: outcome.number):
                self._tell(outcome)
            if self.left:
                return
            spent = (time.perf_counter() - started) / len(numbers)

    def _one_by_one(self, pool: RunPool) -> None:
        """Keep a batch under way; tell each trial as it ends."""
        todo = self.study.unfinished()
        under_way = 0
        while todo or under_way:
            while todo and under_way < self.plan.sweep.batch:
                self._start(todo.pop(0), pool)
                under_way += 1
            self._tell(self._runs.next(pool))
            under_way -= 1

    def _with_others(self, pool: RunPool) -> None:
        """Take trials of a study that others share, one at a time, until all have ended."""
        joint = JointStudy(self.plan, self.study)
        while (number := joint.begin()) is not None:
            with joint.alive(number):
                self._start(number, pool)
                outcome = self._runs.next(pool)
            if not joint.tell(outcome):
                self._options.report(f"trial {number}: another process has taken it over meanwhile")
                continue
            self._options.ended(Ended(joint.done(), outcome))
            if outcome.again:
                self.left[number] = outcome.error
                return

    def _start(self, number: int, pool: RunPool) -> None:
        self._runs.start(number, self.study.ask(number), self.study.limits(number), pool)

    def _tell(self, outcome: Outcome) -> None:
        """Tell the study what came of a trial, or leave it where a machine failed."""
        if outcome.again:
            self.left[outcome.number] = outcome.error
        else:
            self._done += 1
            self.study.tell(outcome)
        self._options.ended(Ended(self._done, outcome))


class _Pools(ExitStack):
    """Who runs the trials: this process, or Ray where that is asked for or pays."""

    def __init__(self, plan: SweepPlan, out: RunDir, options: Options) -> None:
        super().__init__()
        self._plan, self._out, self._options = plan, out, options
        self._serial = SerialPool(run_one)
        self._ray: RayPool | None = None

    @property
    def now(self) -> RunPool:
        """Who runs them now."""
        return self._ray or self._serial

    def choose(self, seconds_left: float) -> RunPool:
        """Return who runs what takes this process so long."""
        workers, address = self._plan.config.workers, self._options.address
        if self._ray is not None:
            return self._ray
        pays = self._plan.sweep.batch > 1 and ray_pays(workers, seconds_left)
        if not uses_ray(workers, address) and not pays:
            return self._serial
        count = workers if isinstance(workers, int) else None
        self._ray, text = self.enter_context(
            ray_pool(run_one, self._out, count, address, self._plan.config.cluster)
        )
        self._options.report(f"trials run on {text}")
        return self._ray


def _write_start(plan: SweepPlan, out: RunDir, problem: Problem, roles: Roles, uid: str) -> None:
    """Write what the directory is; the configuration last, which makes it a run's."""
    text = yaml.safe_dump(plan.sweep.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    write_whole(out.sweep_file, text)
    out.write_about(
        problem, roles, uid=uid, data=dict(problem.describe()), trials=plan.sweep.trials
    )
    out.write_config(plan.config)
    out.summary_file.unlink(missing_ok=True)  # it is running again
