"""The plots of a sweep: what each key does to the values, and how much each key matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial

from framework.arrays import FloatArray
from framework.experiment.run_dir import RunDir
from tracking.figures.story import spoken
from tracking.sweep.config import Plan
from tracking.sweep.report import ranked, shown_value
from tracking.sweep.study import SweepStudy, importances


@dataclass(frozen=True)
class SweepStory:
    """What the plots of a sweep show.

    Attributes
    ----------
    plan : Plan
    trials : sequence of FrozenTrial
        Those with values, by number.
    best : FrozenTrial
    importances : mapping
        By direction and key; empty where there are too few trials.
    """

    plan: Plan
    trials: Sequence[FrozenTrial]
    best: FrozenTrial
    importances: dict[str, dict[str, float]]

    @property
    def title(self) -> str:
        return f"{self.plan.config.name}: sweep"

    @property
    def subtitle(self) -> str:
        sweep = self.plan.sweep
        repeats = f", each the mean of {sweep.repeats} runs" if sweep.repeats > 1 else ""
        return (
            f"{len(self.trials)} trials by {sweep.sampler}{repeats}; best: trial "
            f"{self.best.number}, "
            + ", ".join(
                f"{spoken(d.metric)} {value:.5g}"
                for d, value in zip(sweep.directions, self.best.values, strict=True)
            )
        )

    def labels(self) -> list[str]:
        """Return an axis label a direction."""
        arrows = {"max": "↑ better", "min": "↓ better"}
        return [f"{spoken(d.metric)}  {arrows[d.sense]}" for d in self.plan.sweep.directions]

    def axis(self, key: str) -> Axis:
        """Return the horizontal axis of a key."""
        dimension, trials = self.plan.space[key], self.trials
        values = [trial.params[key] for trial in trials]
        configured = self.plan.configured()[key]
        if dimension.choices is None:
            at = float(configured) if dimension.contains(configured) else None
            positions = np.array(values, dtype=float)
            return Axis(positions, self.best.params[key], at, None, dimension.log)
        choices = dimension.choices
        at = float(choices.index(configured)) if configured in choices else None
        positions = np.array([choices.index(value) for value in values], dtype=float)
        texts = [shown_value(choice) for choice in choices]
        return Axis(positions, choices.index(self.best.params[key]), at, texts, False)


@dataclass(frozen=True)
class Axis:
    """A key's values as places on an axis.

    Attributes
    ----------
    positions : numpy.ndarray, shape (trials,)
    best, configured : float
        Places of the best trial and of the configuration (None: off the axis).
    ticks : list of str or None
        Texts at 0, 1, ... where the key has choices.
    log : bool
    """

    positions: FloatArray
    best: float
    configured: float | None
    ticks: list[str] | None
    log: bool


def write_plots(plan: Plan, out: RunDir, study: SweepStudy) -> list[Path]:
    """Write ``slice`` and, where there are enough trials, ``importance`` (.png and .html).

    Nothing is written where no trial has values.
    """
    from tracking.sweep import figures

    complete = study.complete()
    if not complete:
        return []
    best = ranked(plan, complete)[0][0]
    story = SweepStory(plan, complete, best, importances(study))
    out.plots.mkdir(exist_ok=True)
    drawings: dict[str, Any] = {
        "slice.png": figures.slice_png,
        "slice.html": figures.slice_html,
    }
    if story.importances:
        drawings["importance.png"] = figures.importance_png
        drawings["importance.html"] = figures.importance_html
    for name, draw in drawings.items():
        draw(story, out.plots / name)
    return [out.plots / name for name in sorted(drawings)]
