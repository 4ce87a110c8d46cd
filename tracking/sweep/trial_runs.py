"""The runs of a sweep's trials: from the values of keys to the values of a trial.

This module is light and does not import Optuna, since Ray workers import :func:`run_one` from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.errors import ParetolabError
from framework.experiment.config import RunConfig
from framework.experiment.grid import repeats_of
from framework.experiment.many_runs import Problems, conclude_repeats, has_ended, run_arguments
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import FAILED, INTERRUPTED, SingleRun
from framework.machine import no_result, reason_of
from framework.parallel.executor import Executor
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator
from tracking.sweep.config import SweepPlan, resplit
from tracking.sweep.trial_values import PruningCriterion, TrialMeter


@dataclass(frozen=True)
class TrialOutcome:
    """The outcome of a trial: its values, or why there are none.

    Attributes
    ----------
    number : int
        Number of the trial, from 0.
    params : mapping of str to value
        The values of keys that were tried, by dotted key.
    values : mapping of str to float
        The values by direction; empty if the trial failed or was pruned.
    bounded : mapping of str to float
        The values of the metrics in constraints.
    violations : mapping of str to float
        The excess over the limit of each constraint; 0 or less if it is kept.
    intervals : mapping of str to float
        With repeats, half of the 95% interval of each value.
    rungs : mapping of int to float
        The values while it ran, by evaluations.
    pruned : int
        The number of evaluations after which it was pruned; 0 if it was not.
    error : str
        Why there are no values; empty if there are.
    again : bool
        Whether a machine failed and not the trial, which has to be tried again.
    """

    number: int
    params: Mapping[str, Any]
    values: Mapping[str, float] = field(default_factory=dict)
    bounded: Mapping[str, float] = field(default_factory=dict)
    violations: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, float] = field(default_factory=dict)
    rungs: Mapping[int, float] = field(default_factory=dict)
    pruned: int = 0
    error: str = ""
    again: bool = False


def run_one(
    config: RunConfig, problem: Problem, run_dir: RunDir, criterion: PruningCriterion | None
) -> None:
    """Do or resume a run of a trial, in the process that calls it.

    The values that ``criterion`` has computed are added to ``summary.json``.
    """
    with run_dir.owned(wait=True):  # a worker of a driver that was killed may still be running
        evaluator = SerialEvaluator(problem, config.seed)
        with SingleRun(
            config,
            problem,
            run_dir,
            evaluator,
            report=lambda line: None,  # the sweep reports one line per trial
            stopping_criterion=criterion,
            alternatives=False,  # they would take time and are not needed
        ) as run:
            summary = run.conclude(run.driver.run())
        if criterion is not None:
            rungs = {"rungs": criterion.rungs, "pruned": criterion.pruned}
            run_dir.write_summary(summary | rungs)


class TrialRuns:
    """Runs trials, each of one run or several repeats, and reads their values.

    Parameters
    ----------
    plan : SweepPlan
    out : RunDir
        The directory of the sweep.
    meter : TrialMeter
    problems : Problems
    executor : Executor
        A :class:`~framework.experiment.many_runs.RunExecutor` of :func:`run_one`.
    """

    def __init__(
        self,
        plan: SweepPlan,
        out: RunDir,
        meter: TrialMeter,
        problems: Problems,
        executor: Executor,
    ) -> None:
        self._plan, self._out, self._meter, self._problems = plan, out, meter, problems
        self._executor = executor
        self._params: dict[int, Mapping[str, Any]] = {}
        self._under_way: dict[int, set[int]] = {}  # repeats that are running, by trial
        self._raised: dict[int, dict[int, Exception]] = {}  # errors by trial and repeat

    def start(self, number: int, params: Mapping[str, Any], limits: Mapping[int, float]) -> None:
        """Submit the runs of a trial.

        Parameters
        ----------
        number : int
        params : mapping of str to value
        limits : mapping of int to float
            The worst value with which the trial continues, by evaluations.
        """
        self._params[number], self._under_way[number], self._raised[number] = params, set(), {}
        trial = self._directory(number)
        try:
            changes = {"repeats": self._plan.sweep.repeats, "workers": "serial"}
            config = self._plan.config_with(params).model_copy(update=changes)
            trial.make(config)
            problem = self._problems.of(config)
            trial.write_about(problem, config.roles(problem))
            if config.repeats == 1:
                criterion, sweep = None, self._plan.sweep
                if sweep.prune is not None:
                    first, at = sweep.directions[0], sweep.prune.at
                    value = self._meter.on_a_front(first.metric)
                    criterion = PruningCriterion(value, first.sense, at, limits)
                self._submit(config, trial, (number, 0), criterion)
                return
            for run in repeats_of(config):
                run_config, repeat_dir = run.config, RunDir(trial.path / run.directory)
                if self._plan.sweep.resplit:
                    run_config = resplit(run_config, run.repeat, self._plan.path)
                if not has_ended(repeat_dir, run_config):
                    repeat_dir.make(run_config)
                    self._submit(run_config, repeat_dir, (number, run.repeat), None)
        except Exception as error:  # whatever it is, only this trial fails
            self._raised[number][0] = error

    def next(self, later: int = 0) -> TrialOutcome:
        """Wait for the next trial of which all runs have ended; return its outcome.

        ``later`` is the number of trials that the caller still expects to start.
        """
        while True:
            ended = [number for number, repeats in self._under_way.items() if not repeats]
            if ended:
                return self._outcome(ended[0])
            (number, repeat), _, error, _ = self._executor.collect(later)
            self._under_way[number].discard(repeat)
            if error is not None:
                self._raised[number][repeat] = error

    def _submit(
        self,
        config: RunConfig,
        run_dir: RunDir,
        key: tuple[int, int],
        criterion: PruningCriterion | None,
    ) -> None:
        problem = self._problems.of(config)
        self._executor.submit(key, *run_arguments(config, problem, run_dir, criterion))
        number, repeat = key
        self._under_way[number].add(repeat)

    def _outcome(self, number: int) -> TrialOutcome:
        """Return the outcome of a trial; without values, its summary says why."""
        del self._under_way[number]
        trial, params = self._directory(number), self._params.pop(number)
        raised = self._raised.pop(number)
        errors = [error for _, error in sorted(raised.items()) if not no_result(error)]
        if errors:
            return self._failed(number, params, errors[0])
        if raised:
            text = reason_of(next(iter(raised.values())))
            trial.write_summary(trial.summary() | {"status": INTERRUPTED, "error": text})
            return TrialOutcome(number, params, error=text, again=True)
        try:
            return self._measured(number, params)
        except ParetolabError as error:
            return self._failed(number, params, error)

    def _measured(self, number: int, params: Mapping[str, Any]) -> TrialOutcome:
        """Return the outcome of a trial whose runs have succeeded; raises as the meter."""
        trial = self._directory(number)
        config = trial.config(checked=True)
        if config.repeats > 1:
            problem, alike = self._problems.of(config), not self._plan.sweep.resplit
            conclude_repeats(config, problem, trial, one_front=alike)
        summary = trial.summary()
        rungs = {int(step): float(value) for step, value in summary.get("rungs", {}).items()}
        if summary.get("pruned"):
            return TrialOutcome(number, params, rungs=rungs, pruned=summary["pruned"])
        measured = self._meter(trial)
        figures = measured.values | measured.bounded
        summary["indicators"] |= {k: v for k, v in figures.items() if k not in summary}
        trial.write_summary(summary)
        return TrialOutcome(number, params, rungs=rungs, **measured._asdict())

    def _failed(self, number: int, params: Mapping[str, Any], error: Exception) -> TrialOutcome:
        trial, text = self._directory(number), reason_of(error)
        if not trial.about_file.is_file():  # it failed before that was written
            problem = self._problems.of(self._plan.config)
            trial.make(self._plan.draft_with(params))
            trial.write_about(problem, self._plan.config.roles(problem))
        trial.write_summary(trial.summary() | {"status": FAILED, "error": text})
        return TrialOutcome(number, params, error=text)

    def _directory(self, number: int) -> RunDir:
        return RunDir(self._out.path / "trials" / f"{number:03d}")
