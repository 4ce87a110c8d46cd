"""Which trials are the best: those that keep the constraints, are not dominated, by a rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from optuna.trial import FrozenTrial

from framework.arrays import BoolArray, FloatArray
from framework.pareto import nondominated
from tracking.sweep.config import SweepPlan


def ranked(plan: SweepPlan, complete: Sequence[FrozenTrial]) -> tuple[list[FrozenTrial], int]:
    """Return the trials, best first, and how many of them are best in some way.

    Those that keep the constraints and are not dominated by such come first, by the rule of
    ``sweep.choose``; then the rest of those, by the first direction or likewise; at last those that
    break constraints, by how much. Equal trials go by number.
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
        by_rule = np.where(_kept(losses, best, plan.sweep.tolerance), -np.inf, by_rule)
    last = np.where(np.isneginf(by_rule), losses[:, -1], 0.0)
    order = np.lexsort((np.arange(len(losses)), last, by_rule, ~best, excess))
    return [complete[i] for i in order], int(best.sum())


def violation(trial: FrozenTrial) -> float:
    """Return by how much a trial breaks its constraints, 0 where it keeps them."""
    return float(sum(max(value, 0.0) for value in trial.constraints.values()))


def rule(plan: SweepPlan) -> str:
    """Say how the best of several trials that are not dominated is chosen."""
    names = [direction.metric for direction in plan.sweep.directions]
    if len(names) == 1:
        return ""
    if plan.sweep.choose == "nearest":
        return "nearest to the best of each"
    within = ", ".join(names[:-1])
    return f"within {plan.sweep.tolerance:.0%} of the best {within} the best {names[-1]}"


def _kept(losses: FloatArray, best: BoolArray, tolerance: float) -> BoolArray:
    """Return which of the best are good enough by every direction but the last, in order."""
    kept = best.copy()
    for column in losses.T[:-1]:
        span = column[best].max() - column[best].min()
        kept &= column <= column[kept].min() + tolerance * span
    return kept


def _nearest(losses: FloatArray, best: BoolArray) -> FloatArray:
    """Return how far trials are from the best value of each direction."""
    if not best.any():
        return np.zeros(len(losses))
    ideal, worst = losses[best].min(axis=0), losses[best].max(axis=0)
    span = np.where(worst > ideal, worst - ideal, 1.0)
    far: FloatArray = np.linalg.norm((losses - ideal) / span, axis=1)
    return far


def _losses(plan: SweepPlan, trials: Sequence[FrozenTrial]) -> FloatArray:
    signs = [1.0 if direction.sense == "min" else -1.0 for direction in plan.sweep.directions]
    losses: FloatArray = np.array([trial.values for trial in trials]) * np.array(signs)
    return losses
