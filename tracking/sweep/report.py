"""The results of a sweep: best trials, ``summary.json``, ``trials.csv``, ``best.yaml``, a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
import pandas as pd
from optuna.trial import FrozenTrial

from framework.arrays import BoolArray, FloatArray
from framework.cli.results import Table
from framework.experiment.many_runs import seconds_of
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import versions
from framework.files import write_whole
from framework.pareto import nondominated
from framework.security import public_uri
from tracking.figures.style import ARROWS
from tracking.sweep.config import SweepPlan
from tracking.sweep.study import (
    BOUNDED,
    ERROR,
    INTERVALS,
    SweepStudy,
    importances,
    retried,
    violation,
)


def ranked(plan: SweepPlan, complete: Sequence[FrozenTrial]) -> tuple[list[FrozenTrial], int]:
    """Return the trials, best first, and how many of them are non-dominated.

    The first ones keep the constraints and are not dominated by others that do, in the order of the
    rule ``sweep.choose``. The others that keep the constraints follow, by their distance from the
    best values (``nearest``) or by the first direction. The last ones break constraints and are
    sorted by how much. Ties are sorted by number.
    """
    if not complete:
        return [], 0
    losses = _losses(plan, complete)
    excess = np.array([violation(trial) for trial in complete])
    keeps = excess == 0
    best = keeps.copy()
    best[keeps] = nondominated(losses[keeps])
    by_rule = _nearest(losses, best) if plan.sweep.choose == "nearest" else losses[:, 0]
    if plan.sweep.choose == "in_order" and best.any():
        by_rule = np.where(_within_tolerance(losses, best, plan.sweep.tolerance), -np.inf, by_rule)
    last = np.where(np.isneginf(by_rule), losses[:, -1], 0.0)
    order = np.lexsort((np.arange(len(losses)), last, by_rule, ~best, excess))
    return [complete[i] for i in order], int(best.sum())


def rule(plan: SweepPlan) -> str:
    """Return in words how the best of several non-dominated trials is chosen."""
    names = [direction.metric for direction in plan.sweep.directions]
    if len(names) == 1:
        return ""
    if plan.sweep.choose == "nearest":
        return "nearest to the best of each"
    within = ", ".join(names[:-1])
    return f"within {plan.sweep.tolerance:.0%} of the best {within} the best {names[-1]}"


def _within_tolerance(losses: FloatArray, best: BoolArray, tolerance: float) -> BoolArray:
    """Return which of the best trials are good enough by every direction but the last, in turn."""
    tied = best.copy()
    for column in losses.T[:-1]:
        span = column[best].max() - column[best].min()
        tied &= column <= column[tied].min() + tolerance * span
    return tied


def _nearest(losses: FloatArray, best: BoolArray) -> FloatArray:
    """Return the distance of each trial from the best values, scaled by the ranges of ``best``."""
    if not best.any():
        return np.zeros(len(losses))
    ideal, worst = losses[best].min(axis=0), losses[best].max(axis=0)
    span = np.where(worst > ideal, worst - ideal, 1.0)
    distances: FloatArray = np.linalg.norm((losses - ideal) / span, axis=1)
    return distances


def _losses(plan: SweepPlan, trials: Sequence[FrozenTrial]) -> FloatArray:
    signs = [1.0 if direction.sense == "min" else -1.0 for direction in plan.sweep.directions]
    losses: FloatArray = np.array([trial.values for trial in trials]) * np.array(signs)
    return losses


PAGE, TRIALS, BEST = "sweep.html", "trials.csv", "best.yaml"

_MOST_ROWS = 10


def write_report(
    plan: SweepPlan,
    out: RunDir,
    study: SweepStudy,
    status: str,
    **more: Any,
) -> dict[str, Any]:
    """Write the files of the results; return the summary, to which ``more`` is added."""
    trials, complete = study.trials(), study.complete()
    order, n_best = ranked(plan, complete)
    write_whole(out.path / TRIALS, _frame(plan, trials).to_csv(index=False))
    if n_best:
        best = plan.config_with(order[0].params)
        best = best.model_copy(update={"name": f"{plan.config.name}-best"})
        note = f"# Trial {order[0].number} of the sweep {plan.config.name}\n"
        write_whole(out.path / BEST, note + best.dump())
    runs = [trial.summary() for trial in out.children()]
    stale = retried(trials)
    failed = [
        t for t in trials if t.state == optuna.trial.TrialState.FAIL and t.number not in stale
    ]
    summary = {
        "status": status,
        "name": plan.config.name,
        "algorithm": plan.config.algorithm.kind,
        "problem": plan.config.problem.kind,
        "seed": plan.config.seed,
        "sampler": plan.sweep.sampler,
        "sampler_seed": plan.sweep.seed,
        "trials": plan.sweep.trials,
        "trials_complete": len(complete),
        "trials_pruned": len(study.pruned()),
        "trials_failed": len(failed),
        "trials_keeping_constraints": sum(violation(trial) == 0 for trial in complete),
        "evaluations": sum(run.get("evaluations", 0) for run in runs),
        "rows_failed": sum(run.get("rows_failed", 0) for run in runs),
        "wall_s": seconds_of(runs),
        "indicators": _values(plan, order[0]) if n_best else {},
        "best": [_described(plan, trial) for trial in order[:n_best]],
        "importances": importances(study),
        "storage": "optuna.db" if plan.sweep.storage is None else public_uri(plan.sweep.storage),
        "study": study.study.study_name,
        "versions": versions() | {"optuna": optuna.__version__},
        **more,
    }
    if failed and not order:
        summary["error"] = failed[0].user_attrs.get(ERROR)
    out.write_summary(summary)
    return summary


def top_table(plan: SweepPlan, study: SweepStudy) -> Table:
    """Return the best trials as a table; a star marks the one in ``best.yaml``.

    With repeats, values have half of their 95% interval.
    """
    complete = study.complete()
    order, n_best = ranked(plan, complete)
    several = len(plan.sweep.directions) > 1
    shown = order[: min(n_best if several and n_best else len(order), _MOST_ROWS)]
    kind = f"{n_best} not dominated" if several and n_best else f"best {len(shown)}"
    pruned = f"; {len(study.pruned())} pruned" if study.pruned() else ""
    title = f"Trials: {kind} of {len(complete)}{pruned}"
    configured = plan.configured()

    def row(trial: FrozenTrial) -> list[str]:
        star = " *" if n_best and trial is order[0] else " (breaks)" if violation(trial) else ""
        remark = " (as configured)" if trial.params == configured else ""
        values = _shown_values(plan, trial)
        values += [f"{trial.user_attrs[BOUNDED][name]:.6g}" for name in bounded]
        params = (trial.params.get(key, "") for key in plan.space)
        return [f"{trial.number}{star}{remark}", *values, *map(shown_value, params)]

    bounded = [constraint.metric for constraint in plan.sweep.constraints]
    headings = [
        "trial",
        *(f"{direction.metric} {ARROWS[direction.sense]}" for direction in plan.sweep.directions),
        *bounded,
        *("\n".join(key.rsplit(".", 1)) for key in plan.space),
    ]
    rows = list(map(row, shown))
    return Table(title, {name: [cells[i] for cells in rows] for i, name in enumerate(headings)})


def short(key: str) -> str:
    """Return the last part of a key, or the last two for an item of a list; a kind's whole key."""
    last = key.rsplit(".", 1)[-1]
    return key if last == "kind" else ".".join(key.split(".")[-1 - last.isdigit() :])


def shown_value(value: Any) -> str:
    """Return the value of a parameter as text."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _values(plan: SweepPlan, trial: FrozenTrial) -> dict[str, float]:
    names = [direction.metric for direction in plan.sweep.directions]
    return dict(zip(names, trial.values, strict=True))


def _shown_values(plan: SweepPlan, trial: FrozenTrial) -> list[str]:
    halves = trial.user_attrs.get(INTERVALS, {})
    return [
        f"{value:.6g}" + (f" ± {halves[name]:.2g}" if name in halves else "")
        for name, value in _values(plan, trial).items()
    ]


def _described(plan: SweepPlan, trial: FrozenTrial) -> dict[str, Any]:
    about = {"trial": trial.number, "values": _values(plan, trial), "params": trial.params}
    for key in (INTERVALS, BOUNDED):
        about |= {key: trial.user_attrs[key]} if key in trial.user_attrs else {}
    return about


def _frame(plan: SweepPlan, trials: Sequence[FrozenTrial]) -> pd.DataFrame:
    """Return one row per trial: number, state, values (also at rungs), parameters, error."""
    rows, stale = [], retried(trials)
    for trial in trials:
        complete = trial.state == optuna.trial.TrialState.COMPLETE
        values = dict.fromkeys(direction.metric for direction in plan.sweep.directions)
        values |= _values(plan, trial) if complete else {}
        state = "lost" if trial.number in stale else trial.state.name.lower()
        row = {"trial": trial.number, "state": state} | values
        halves = trial.user_attrs.get(INTERVALS, {})
        if plan.sweep.repeats > 1:
            row |= {f"{d.metric}_interval": halves.get(d.metric) for d in plan.sweep.directions}
        if plan.sweep.constraints:
            bounded = trial.user_attrs.get(BOUNDED, {})
            row |= {c.metric: bounded.get(c.metric) for c in plan.sweep.constraints}
            row |= {"keeps_constraints": violation(trial) == 0 if complete else None}
        row |= {
            f"{plan.sweep.directions[0].metric}_at_{step}": trial.intermediate_values.get(step)
            for step in (plan.sweep.prune.at if plan.sweep.prune else ())
        }
        row |= {key: trial.params.get(key) for key in plan.space}
        rows.append(row | {"error": trial.user_attrs.get(ERROR)})
    return pd.DataFrame(rows)
