"""What a trial of a sweep is worth: numbers read off the directory of its run, or on its way.

========================  ==========================================================================
``hypervolume``           of the front, as a share of the box between worst and best values
``hypervolume_expected``  of what is to be expected of its solutions on new records
``front_size``            solutions on the front
``evaluations``           candidates scored
``wall_s``                seconds of searching; the one value that depends on the machine
``best_<metric>``         the best value of a metric of the problem on the front
``share_of_reference``    share of a reference front's distinct vectors that the front has
========================  ==========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from framework.analysis.report import interval
from framework.arrays import FloatArray
from framework.data.table_files import read_frame
from framework.errors import InputError, ParetolabError
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import FAILED
from framework.front import Front, volume
from framework.registry import nearest, require_columns
from framework.roles import Roles, Sense
from tracking.sweep.config import SweepConfig

_OF_SUMMARY = ("front_size", "evaluations", "wall_s")


class TrialValues(NamedTuple):
    """What a trial is worth, averaged over its repeats; for the fields see :class:`Outcome`."""

    values: dict[str, float]
    bounded: dict[str, float]
    violations: dict[str, float]
    intervals: dict[str, float]


class TrialMeter:
    """Measures trials.

    Parameters
    ----------
    sweep : SweepConfig
    roles : Roles
    where : str
        The file and section, for messages.

    Raises
    ------
    InputError
        An unknown metric, or no usable reference front.
    """

    def __init__(self, sweep: SweepConfig, roles: Roles, where: str) -> None:
        targets = ["hypervolume", EXPECTED, *_OF_SUMMARY]
        targets += [f"{BEST_PREFIX}{name}" for name in roles.metrics]
        targets += [SHARE] if sweep.reference else []
        self._names = [direction.metric for direction in sweep.directions]
        self._constraints = sweep.constraint_roles()
        bounded = [constraint.metric for constraint in self._constraints]
        for key, names in (("directions", self._names), ("constraints", bounded)):
            for i, name in enumerate(names):
                if name not in targets:
                    hint = "; it needs sweep.reference" if name == SHARE else nearest(name, targets)
                    raise InputError(
                        f"{where}.{key}.{i}.metric: expected one of {', '.join(targets)}; found "
                        f"{name!r}{hint}"
                    )
        self._roles = roles
        self._reference = (
            _read_reference(Path(sweep.reference), roles, where)
            if sweep.reference and SHARE in {*self._names, *bounded}
            else np.zeros((0, len(roles.names)))
        )

    def __call__(self, trial: RunDir) -> TrialValues:
        """Return what a trial is worth.

        Raises
        ------
        ParetolabError
            Too many rows failed, or there is no value because the front is empty.
        """
        runs = trial.runs()
        names = [*self._names, *(c.metric for c in self._constraints)]
        means, halves = {}, {}
        for name in dict.fromkeys(names):
            mean, low, high = interval(np.array([self._value(name, run) for run in runs]))
            if not np.isfinite(mean):
                why = "is empty" + (", or says nothing of new records" if name == EXPECTED else "")
                raise ParetolabError(f"{name} has no value: the front {why}")
            means[name], halves[name] = mean, (high - low) / 2
        violations = {}
        for constraint in self._constraints:
            value = means[constraint.metric]
            if constraint.at_most is not None:
                text = f"{constraint.metric} at most {constraint.at_most:g}"
                violations[text] = value - constraint.at_most
            if constraint.at_least is not None:
                text = f"{constraint.metric} at least {constraint.at_least:g}"
                violations[text] = constraint.at_least - value
        return TrialValues(
            {name: means[name] for name in self._names},
            {c.metric: means[c.metric] for c in self._constraints},
            violations,
            {name: halves[name] for name in self._names} if len(runs) > 1 else {},
        )

    def _value(self, name: str, run: RunDir) -> float:
        summary = run.summary()
        if summary["status"] == FAILED:
            raise ParetolabError(
                f"{summary['rows_failed']:,} of {summary['evaluations']:,} rows failed, over the "
                "limit of budget.max_failed_share"
            )
        if name == "hypervolume":
            return float(summary["indicators"][name])
        if name in _OF_SUMMARY:
            return float(summary[name])
        return self.on_a_front(name)(run.front())

    def on_a_front(self, name: str) -> FrontValue:
        """Return what reads a value off a front."""
        return FrontValue(name, self._reference)


def _read_reference(path: Path, roles: Roles, where: str) -> FloatArray:
    """Return the losses of a reference front, shape (n, objectives)."""
    place = f"{where}.reference: {path}"
    try:
        frame = read_frame(path)
    except InputError as error:
        raise InputError(f"{where}.reference: {error}") from error
    require_columns(roles.names, frame.columns, place)
    if frame.empty:
        raise InputError(f"{place}: expected at least one solution, found none")
    return roles.losses({name: frame[name].to_numpy() for name in roles.names})


BEST_PREFIX, SHARE, EXPECTED = "best_", "share_of_reference", "hypervolume_expected"

_DIGITS = 9  # to which vectors of the front and of the reference are compared


@dataclass(frozen=True)
class FrontValue:
    """A number read off a front: a hypervolume, ``front_size``, ``best_METRIC`` or the share.

    Attributes
    ----------
    name : str
    reference : numpy.ndarray, shape (n, objectives)
        Losses of the reference front; of no rows where the share is not asked for.
    """

    name: str
    reference: FloatArray

    def __call__(self, front: Front) -> float:
        """Return the number; NaN where the front has none."""
        if self.name == "hypervolume":
            return front.hypervolume()
        if self.name == EXPECTED:
            losses = front.expected_losses()
            return math.nan if losses is None else volume(losses, front.roles)
        if self.name == "front_size":
            return float(len(front))
        if self.name == SHARE:
            wanted = _vectors(self.reference, self.reference)
            return len(wanted & _vectors(front.losses, self.reference)) / len(wanted)
        metric, roles = self.name.removeprefix(BEST_PREFIX), front.roles
        column = front.rows.values[metric]
        if not len(column):
            return math.nan
        return float(column.max() if roles.sense(metric) == "max" else column.min())


@dataclass
class PruningCriterion:
    """Looks at a trial on its way, and ends it where it is too bad; a stopping criterion.

    Attributes
    ----------
    value : FrontValue
    sense : str
    at : sequence of int
        Evaluations after which it looks, rising: after the first batch that reaches them.
    limits : mapping of int to float
        By evaluations, the worst value with which the trial goes on there.
    rungs : dict of int to float
        What it saw, where there was a value.
    pruned : int
        The evaluations after which it ended the trial; 0 where it did not.
    looks : int
        How many there were.
    """

    value: FrontValue
    sense: Sense
    at: Sequence[int]
    limits: Mapping[int, float]
    rungs: dict[int, float] = field(default_factory=dict)
    pruned: int = 0
    looks: int = 0

    def __call__(self, evaluations: int, front: Callable[[], Front]) -> str:
        """See :data:`framework.run.driver.StoppingCriterion`."""
        while self.looks < len(self.at) and evaluations >= self.at[self.looks]:
            step, value = self.at[self.looks], self.value(front())
            self.looks += 1
            if math.isnan(value):
                continue
            self.rungs[step] = value
            limit = self.limits.get(step, value)
            if value < limit if self.sense == "max" else value > limit:
                self.pruned = step
                return f"pruned at {step:,} evaluations"
        return ""


def _vectors(losses: FloatArray, scale: FloatArray) -> set[tuple[float, ...]]:
    """Return distinct vectors, rounded as a share of the reference's largest values."""
    largest = np.abs(scale).max(axis=0)
    rounded = np.round(losses / np.where(largest > 0, largest, 1.0), _DIGITS) + 0.0
    return set(map(tuple, rounded.tolist()))
