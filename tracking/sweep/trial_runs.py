"""The runs of a sweep's trials: from values of keys to what a trial is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.errors import ParetolabError
from framework.experiment.config import RunConfig
from framework.experiment.many_runs import Problems
from framework.experiment.repeats import conclude_repeats, config_of_repeat, has_ended
from framework.experiment.run_dir import RunDir
from framework.experiment.run_pool import RunPool
from framework.experiment.single_run import FAILED, INTERRUPTED, make_roles
from framework.machine import no_result, reason_of
from tracking.sweep.config import SweepPlan
from tracking.sweep.outcome import Outcome
from tracking.sweep.rungs import Rungs
from tracking.sweep.splits import resplit
from tracking.sweep.values import Meter


class TrialRuns:
    """Has trials run, each one run or several repeats, and reads their values.

    Parameters
    ----------
    plan : SweepPlan
    out : RunDir
        Of the sweep.
    meter : Meter
    problems : Problems
    """

    def __init__(self, plan: SweepPlan, out: RunDir, meter: Meter, problems: Problems) -> None:
        self._plan, self._out, self._meter, self._problems = plan, out, meter, problems
        self._params: dict[int, Mapping[str, Any]] = {}
        self._waiting: dict[int, set[int]] = {}  # repeats under way
        self._raised: dict[int, dict[int, Exception]] = {}  # by trial and repeat

    def start(
        self, number: int, params: Mapping[str, Any], limits: Mapping[int, float], pool: RunPool
    ) -> None:
        """Submit the runs of a trial.

        Parameters
        ----------
        number : int
        params : mapping of str to value
        limits : mapping of int to float
            With what it goes on where it is looked at, by evaluations.
        pool : RunPool
        """
        self._params[number], self._waiting[number], self._raised[number] = params, set(), {}
        trial = self._directory(number)
        trial.path.mkdir(parents=True, exist_ok=True)
        try:
            config = self._config_of(params)
            problem = self._problems.of(config)
            trial.write_config(config)
            trial.write_about(problem, make_roles(config, problem))
            if config.repeats == 1:
                pool.submit(config, problem, trial, self._rungs(limits))
                self._waiting[number].add(0)
                return
            for repeat in range(config.repeats):
                self._start_repeat(config, repeat, number, pool)
        except Exception as error:  # this trial's misfortune, whatever it is
            self._raised[number][0] = error

    def next(self, pool: RunPool) -> Outcome:
        """Return what came of the next trial all of whose runs have ended."""
        while True:
            ended = [number for number, waiting in self._waiting.items() if not waiting]
            if ended:
                return self._outcome(ended[0])
            run_dir, error = pool.collect()
            path = run_dir.path
            repeat = int(path.name) if path.parent.name == "repeats" else 0
            number = int((path.parents[1] if path.parent.name == "repeats" else path).name)
            self._waiting[number].discard(repeat)
            if error is not None:
                self._raised[number][repeat] = error

    def _start_repeat(self, config: RunConfig, repeat: int, number: int, pool: RunPool) -> None:
        own = config_of_repeat(config, repeat)
        if self._plan.sweep.resplit:
            own = resplit(own, repeat)
        repeat_dir = RunDir(self._directory(number).repeats / f"{repeat:03d}")
        repeat_dir.path.mkdir(parents=True, exist_ok=True)
        if not has_ended(repeat_dir, own):
            pool.submit(own, self._problems.of(own), repeat_dir, None)
            self._waiting[number].add(repeat)

    def _rungs(self, limits: Mapping[int, float]) -> Rungs | None:
        """Return what looks at a trial on its way, where that is asked for."""
        sweep = self._plan.sweep
        if sweep.prune is None:
            return None
        direction = sweep.directions[0]
        value = self._meter.on_a_front(direction.metric)
        return Rungs(value, direction.sense, sweep.prune.at, limits)

    def _outcome(self, number: int) -> Outcome:
        """Read what a trial is worth, and keep it, or why it is worth nothing, in its summary."""
        del self._waiting[number]
        trial, params, raised = (
            self._directory(number),
            self._params.pop(number),
            self._raised.pop(number),
        )
        own = [error for _, error in sorted(raised.items()) if not no_result(error)]
        if own:
            return self._failed(number, params, own[0])
        if raised:
            text = reason_of(next(iter(raised.values())))
            trial.write_summary(trial.summary() | {"status": INTERRUPTED, "error": text})
            return Outcome(number, params, error=text, again=True)
        try:
            return self._measured(number, params)
        except ParetolabError as error:
            return self._failed(number, params, error)

    def _measured(self, number: int, params: Mapping[str, Any]) -> Outcome:
        """Return what a trial is worth.

        Raises
        ------
        ParetolabError
            It has no values.
        """
        trial = self._directory(number)
        config = trial.config()
        if config.repeats > 1:
            problem, alike = self._problems.of(config), not self._plan.sweep.resplit
            seconds = sum(run.summary()["wall_s"] for run in trial.children())
            conclude_repeats(config, problem, trial, one_front=alike, wall_s=round(seconds, 3))
        summary = trial.summary()
        rungs = {int(step): float(value) for step, value in summary.get("rungs", {}).items()}
        if summary.get("pruned"):
            return Outcome(number, params, rungs=rungs, pruned=summary["pruned"])
        found = self._meter(trial)
        kept = {**found.values, **found.bounded}
        summary["indicators"] |= {k: v for k, v in kept.items() if k not in summary}
        trial.write_summary(summary)
        return Outcome(
            number, params, found.values, found.bounded, found.violations, found.intervals, rungs
        )

    def _failed(self, number: int, params: Mapping[str, Any], error: Exception) -> Outcome:
        trial, text = self._directory(number), reason_of(error)
        if not trial.about_file.is_file():  # it did not get as far
            problem = self._problems.of(self._plan.config)
            trial.write_config(self._plan.draft_with(params))
            trial.write_about(problem, make_roles(self._plan.config, problem))
        trial.write_summary(trial.summary() | {"status": FAILED, "error": text})
        return Outcome(number, params, error=text)

    def _config_of(self, params: Mapping[str, Any]) -> RunConfig:
        changes = {"repeats": self._plan.sweep.repeats, "workers": "serial"}
        return self._plan.config_with(params).model_copy(update=changes)

    def _directory(self, number: int) -> RunDir:
        return RunDir(self._out.path / "trials" / f"{number:03d}")
