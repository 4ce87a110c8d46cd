"""What the figures of a sweep show: its trials, the best one, axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial

from framework.arrays import FloatArray
from tracking.figures.style import display_name
from tracking.sweep.config import SweepPlan
from tracking.sweep.ranking import violation
from tracking.sweep.report import shown_value
from tracking.sweep.study import INTERVALS


@dataclass(frozen=True)
class SweepStory:
    """What the plots of a sweep show.

    Attributes
    ----------
    plan : SweepPlan
    trials : sequence of FrozenTrial
        Those with values, by number.
    best : FrozenTrial
    importances : mapping
        By direction and key; empty where there are too few trials.
    pruned : sequence of FrozenTrial
        Those that were ended early, by number, with their last values.
    """

    plan: SweepPlan
    trials: Sequence[FrozenTrial]
    best: FrozenTrial
    importances: dict[str, dict[str, float]]
    pruned: Sequence[FrozenTrial] = ()

    @property
    def title(self) -> str:
        """Name of the sweep."""
        return f"{self.plan.config.name}: sweep"

    @property
    def subtitle(self) -> str:
        """How many trials there are, by which sampler, and which is the best."""
        sweep = self.plan.sweep
        splits = " on other splits" if sweep.resplit else ""
        repeats = f", each the mean of {sweep.repeats} runs{splits}" if sweep.repeats > 1 else ""
        pruned = f", {len(self.pruned)} pruned" if self.pruned else ""
        best = "none keeps the constraints, nearest to it" if violation(self.best) else "best"
        return (
            f"{len(self.trials)} trials by {sweep.sampler}{repeats}{pruned}; {best}: trial "
            f"{self.best.number}, "
            + ", ".join(
                f"{display_name(d.metric)} {value:.5g}"
                for d, value in zip(sweep.directions, self.best.values, strict=True)
            )
        )

    def labels(self) -> list[str]:
        """Return an axis label a direction."""
        arrows = {"max": "↑ better", "min": "↓ better"}
        return [f"{display_name(d.metric)}  {arrows[d.sense]}" for d in self.plan.sweep.directions]

    def values(self, i: int) -> FloatArray:
        """Return the trials' values by a direction, shape (trials,)."""
        return np.array([trial.values[i] for trial in self.trials])

    def halves(self, i: int) -> FloatArray | None:
        """Return half the 95% interval of each trial's value, where there are repeats."""
        if self.plan.sweep.repeats == 1:
            return None
        metric = self.plan.sweep.directions[i].metric
        return np.array([trial.user_attrs[INTERVALS][metric] for trial in self.trials])

    def so_far(self, i: int) -> FloatArray:
        """Return the best value by a direction up to each trial, shape (trials,)."""
        best = np.maximum if self.plan.sweep.directions[i].sense == "max" else np.minimum
        found: FloatArray = best.accumulate(self.values(i))
        return found

    def axis(self, key: str) -> Axis:
        """Return the horizontal axis of a key."""
        dimension = self.plan.space[key]
        choices = dimension.choices

        def place(params: Mapping[str, Any]) -> float | None:
            if key not in params or not dimension.contains(params[key]):
                return None
            return float(params[key] if choices is None else choices.index(params[key]))

        positions: FloatArray = np.array([place(t.params) for t in self.trials], dtype=float)
        ticks = None if choices is None else [shown_value(choice) for choice in choices]
        best, configured = place(self.best.params), place(self.plan.configured())
        return Axis(positions, best, configured, ticks, dimension.log)


@dataclass(frozen=True)
class Axis:
    """A key's values as places on an axis.

    Attributes
    ----------
    positions : numpy.ndarray, shape (trials,)
        NaN where a trial has no such key.
    best, configured : float or None
        Places of the best trial and of the configuration; None where it has no such key, or is
        off the axis.
    ticks : list of str or None
        Texts at 0, 1, ... where the key has choices.
    log : bool
    """

    positions: FloatArray
    best: float | None
    configured: float | None
    ticks: list[str] | None
    log: bool
