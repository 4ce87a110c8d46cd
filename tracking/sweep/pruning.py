"""Which trials of a sweep are too bad to go on: section ``sweep.prune``.

What a trial has to reach at each look is fixed when it is asked for, from the trials told before
that, and kept in the study with it. So a trial ends where it ends whoever runs it, however often
that is stopped, and no matter which trial beside it is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from optuna.trial import FrozenTrial, TrialState
from pydantic import Field, field_validator, model_validator

from framework.roles import Sense
from framework.settings import Section


class PruneConfig(Section):
    """``{kind: median, at: [200, 400]}`` or ``{kind: hyperband, at: [100, 300, 900]}``.

    kind : ``median`` ends a trial that is worse than the median of those that were completed;
        ``hyperband`` lets the best 1 of ``eta`` of its bracket go on. Trials belong to brackets in
        turn: the first bracket is looked at from the first of ``at`` on, the next one from the
        second, and so on; the last one never.
    at : evaluations after which trials are looked at.
    startup : trials to be completed before the median counts.
    eta : of hyperband.
    """

    kind: Literal["median", "hyperband"]
    at: list[int] = Field(min_length=1)
    startup: int | None = Field(default=None, ge=1)
    eta: int | None = Field(default=None, ge=2)

    @field_validator("at")
    @classmethod
    def _rising(cls, at: list[int]) -> list[int]:
        if at[0] < 1 or any(b <= a for a, b in pairwise(at)):
            raise ValueError(f"expected rising numbers of at least 1, found {at}")
        return at

    @model_validator(mode="after")
    def _of_its_kind(self) -> PruneConfig:
        if self.kind == "median" and self.eta is not None:
            raise ValueError("expected eta with kind hyperband, found it with median")
        if self.kind == "hyperband" and self.startup is not None:
            raise ValueError("expected startup with kind median, found it with hyperband")
        return self


def limits(prune: PruneConfig, sense: Sense, before: Sequence[FrozenTrial]) -> dict[int, float]:
    """Return the worst value with which the trial that follows goes on, by evaluations.

    Parameters
    ----------
    prune : PruneConfig
    sense : str
    before : sequence of FrozenTrial
        All earlier trials by number; those under way do not count.
    """
    told = [t for t in before if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    if prune.kind == "median":
        told = [trial for trial in told if trial.state == TrialState.COMPLETE]
        if len(told) < (prune.startup or 5):
            return {}
        steps = prune.at
    else:
        brackets = len(prune.at) + 1
        own = len(before) % brackets
        told = [trial for trial in told if trial.number % brackets == own]
        steps = prune.at[own:]
    found: dict[int, float] = {}
    for step in steps:
        values = sorted(t.intermediate_values[step] for t in told if step in t.intermediate_values)
        if not values:
            continue
        if prune.kind == "median":
            found[step] = float(np.median(values))
        else:  # the trial itself counts among those of which the best go on
            going_on = max(1, (len(values) + 1) // (prune.eta or 3))
            best_first = values[::-1] if sense == "max" else values
            found[step] = best_first[min(going_on, len(values)) - 1]
    return found
