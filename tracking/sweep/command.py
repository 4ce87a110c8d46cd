"""`paretolab sweep`: searches for the values of a configuration's keys with the best results."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.cli.arguments import (
    config_argument,
    overrides,
    program,
    run_arguments,
    running,
    set_argument,
    shipped,
    tracked_as_asked,
    workers_argument,
    workers_of,
)
from framework.cli.results import Result, json_argument
from framework.errors import InputError, NotBuiltError

if TYPE_CHECKING:  # the help of the command needs none of these
    from framework.experiment.run_dir import RunDir
    from framework.run.display import Display
    from tracking.sweep.config import SweepPlan
    from tracking.sweep.run import EndedTrial
    from tracking.sweep.trial_runs import TrialOutcome


class Sweep:
    """Try values of a configuration's keys, with Optuna."""

    help = "try values of a configuration's keys, with Optuna"

    @staticmethod
    def sections() -> dict[str, Any]:
        """Return the sections of a configuration that only this command reads, for the schema."""
        from tracking.sweep.config import SweepConfig

        return {"sweep": SweepConfig}

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        config_argument(parser, help="YAML file with a section sweep")
        set_argument(parser)
        parser.add_argument("--trials", type=int, help="how many sets of values to try")
        parser.add_argument(
            "--join", action="store_true", help="share the study in sweep.storage with others"
        )
        parser.add_argument("--out", metavar="DIR", help="new directory (default: runs/NAME-NNN)")
        workers_argument(parser)
        run_arguments(parser)
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        """Start a sweep; return its best trials."""
        from framework.experiment.execute import new_run
        from tracking.sweep.config import load_plan

        plan = load_plan(
            Path(args.config),
            overrides(args),
            workers=workers_of(args.workers),
            trials=args.trials,
            join=args.join,
        )
        plan = plan._replace(config=tracked_as_asked(plan.config, args))
        with new_run(plan.config, args.out, sweep_file=plan.dump()) as out:
            return _execute(plan, out, args)

    @staticmethod
    def check(args: argparse.Namespace) -> Result:
        """Return what a sweep would do, for `paretolab check`; nothing is trained."""
        from framework.cli.tables import checked
        from framework.components import building_nothing
        from framework.experiment.estimate import budget_of_all, built_first, candidates_of
        from framework.experiment.single_run import make_problem
        from tracking.sweep.config import load_plan
        from tracking.sweep.trial_values import TrialMeter

        if args.repeats is not None or args.seed is not None:
            raise InputError(
                f"{args.config}: expected no --repeats and no --seed with a sweep, found one; "
                "--set sweep.repeats=N averages over seeds"
            )
        plan = load_plan(Path(args.config), overrides(args), workers=workers_of(args.workers))
        config, sweep = plan.config, plan.sweep
        shipped(config.cluster)
        most = config.budget.evaluations
        with building_nothing() as put_off, suppress(NotBuiltError):
            problem = make_problem(config)
            roles = config.roles(problem)
            TrialMeter(sweep, roles, f"{plan.path}: sweep")
            most = candidates_of(config, config.algorithm.make(problem, roles, config.seed))
        runs = sweep.trials * sweep.repeats
        lines = [
            ("name", config.name),
            ("varied", ", ".join(plan.space)),
            ("wanted", ", ".join(f"{d.metric} ({d.sense})" for d in sweep.directions)),
            ("runs", f"{sweep.trials:,} trials x {sweep.repeats} repeats: {runs:,}"),
            ("budget", budget_of_all([(config, most)] * runs)),
            ("workers", str(config.workers)),
            ("tracking", config.tracking.uri if config.tracking else "none"),
            *built_first(put_off),
        ]
        return checked(lines)

    @staticmethod
    def plan(raw: dict[str, Any], path: Path, overrides: Sequence[str]) -> SweepPlan:
        """Return the checked plan of a file's content."""
        from tracking.sweep.config import load_plan

        return load_plan(path, overrides, dict(raw))

    @staticmethod
    def resume(out: RunDir, args: argparse.Namespace) -> Result:
        """Resume a sweep, for `paretolab resume`; return its best trials."""
        from framework.experiment.config import override, read_yaml
        from framework.security import keep, received
        from tracking.sweep.config import load_plan

        raw = read_yaml(out.config_file) | {"sweep": read_yaml(out.sweep_file)}
        words = overrides(args)
        override(raw, words)
        # the directory, not config.yaml: the digest of that file does not cover sweep.yaml
        with received(out.path, words, dict(raw)):
            plan = load_plan(out.config_file, words, raw, workers=workers_of(args.workers))
        plan = plan._replace(config=tracked_as_asked(plan.config, args))
        keep(out.path)
        return _execute(plan, out, args)


class _Trials:
    """Shows trials as they end: the best so far beside a progress bar, or a line for each."""

    def __init__(self, plan: SweepPlan, display: Display) -> None:
        self._sweep, self._display = plan.sweep, display
        self._best: TrialOutcome | None = None

    def __call__(self, ended: EndedTrial) -> None:
        """Show a trial."""
        from tracking.sweep.report import short, shown_value

        trial, total = ended.outcome, self._sweep.trials
        if trial.values and self._is_better(trial):
            self._best = trial
        best = "" if self._best is None else f" · best {_text(self._best)} ({self._best.number})"
        text = f"failed: {trial.error}" if trial.error else _text(trial)
        if trial.pruned:
            metric = self._sweep.directions[0].metric
            last = trial.rungs[trial.pruned]
            text = f"pruned at {trial.pruned:,} evaluations, {metric} {last:.5g}"
        params = ", ".join(f"{short(k)} {shown_value(v)}" for k, v in trial.params.items())
        line = f"{ended.done}/{total} · trial {trial.number}: {text} · {params}"
        self._display.step(f"{ended.done}/{total} trials{best}", ended.done, total, line)

    def _is_better(self, trial: TrialOutcome) -> bool:
        """Return whether a trial keeps the constraints and is the best by the first direction."""
        if any(violation > 0 for violation in trial.violations.values()):
            return False
        if self._best is None:
            return True
        first = self._sweep.directions[0]
        sign = 1 if first.sense == "max" else -1
        return sign * trial.values[first.metric] > sign * self._best.values[first.metric]


def _execute(plan: SweepPlan, out: RunDir, args: argparse.Namespace) -> Result:
    from framework.experiment.single_run import FAILED
    from tracking.sweep.report import BEST, PAGE, rule
    from tracking.sweep.run import run_sweep

    if plan.sweep.join and args.address is not None:
        raise InputError(
            f"--address {args.address}: expected none where processes share a study, each on its "
            "own machine"
        )
    with running(plan.config, out, args) as options, options.display as display:
        summary, table = run_sweep(plan, out, replace(options, ended=_Trials(plan, display)))
    report = options.report
    result = Result(fields={"directory": out.path, **summary, "page": out.path / PAGE})
    if summary["trials_failed"]:
        report(f"{summary['trials_failed']} of {summary['trials']} trials failed")
    if summary["trials_left"]:
        number, why = next(iter(summary["trials_left"].items()))
        report(
            f"{len(summary['trials_left'])} of {summary['trials']} trials could not be run (trial "
            f"{number}: {why}); try them with: {program()} resume {shlex.quote(str(out.path))}"
        )
        result.exit_code = 3
        return result
    if summary["status"] == FAILED:
        report(f"no trial has values; the first one: {summary['error']}")
        result.exit_code = 3
        return result
    directory = shlex.quote(str(out.path))
    steps = [("sweep directory", str(out.path)), ("report", str(out.path / PAGE))]
    if summary["best"]:
        best = f"{program()} run {shlex.quote(str(out.path / BEST))}"
        how = rule(plan)
        steps.append((f"run the best (*{f': {how}' if how else ''})", best))
    else:
        report("no trial keeps the constraints: the table begins with those that break them least")
    if plan.sweep.sampler != "grid":  # a grid has no further points
        ended = sum(summary[f"trials_{state}"] for state in ("complete", "pruned", "failed"))
        trials = 2 * max(summary["trials"], ended)  # fewer may be wanted now than there are
        more = f"{program()} resume {directory} --set sweep.trials={trials}"
        steps.append(("more trials", more))
    if plan.sweep.storage is None:
        from framework.security import sqlite_uri

        database = shlex.quote(sqlite_uri(out.path / "optuna.db"))
        pages = f"optuna-dashboard {database}"
        install = "" if find_spec("optuna_dashboard") else "pip install optuna-dashboard && "
        steps.append(("Optuna's pages", install + pages))
    if plan.config.tracking is not None:
        steps.append(("MLflow pages", f"{program()} ui"))
    return result.add(table, steps)


def _text(outcome: TrialOutcome) -> str:
    shown = []
    for name, value in outcome.values.items():
        half = outcome.intervals.get(name)
        shown.append(f"{name} {value:.5g}{'' if half is None else f' ± {half:.2g}'}")
    broken = [name for name, violation in outcome.violations.items() if violation > 0]
    return ", ".join(shown) + (f" (not {', '.join(broken)})" if broken else "")
