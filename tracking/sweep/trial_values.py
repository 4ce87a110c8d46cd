"""The values of a trial of a sweep, read from its run's directory or, to prune it, while it runs.

========================  ==========================================================================
``hypervolume``           of the front, as a share of the box between worst and best values
``hypervolume_expected``  the same, of the values that its solutions should have on new records
``front_size``            number of solutions on the front
``evaluations``           number of candidates evaluated
``wall_s``                seconds of searching; the only value that depends on the machine
``best_<metric>``         the best value of a metric of the problem on the front
``share_of_reference``    share of a reference front's distinct vectors that the front has
========================  ==========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    """The values of a trial, averaged over its repeats.

    For the fields see :class:`~tracking.sweep.trial_runs.TrialOutcome`.
    """

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
        A metric is unknown, or the reference front cannot be used.
    """

    def __init__(self, sweep: SweepConfig, roles: Roles, where: str) -> None:
        targets = ["hypervolume", EXPECTED, *_OF_SUMMARY]
        targets += [f"{BEST_PREFIX}{name}" for name in roles.metrics]
        targets += [SHARE] if sweep.reference else []
        self._names = [direction.metric for direction in sweep.directions]
        self._constraints = sweep.constraints
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
        """Return the values of a trial.

        Raises
        ------
        ParetolabError
            Too many candidates failed, or there is no value because the front is empty.
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
            {name: halves[name] for name in self._names if len(runs) > 1},
        )

    def _value(self, name: str, run: RunDir) -> float:
        summary = run.summary()
        if summary["status"] == FAILED:
            raise ParetolabError(
                f"more rows failed than budget.max_failed_share allows: {run.failures()}"
            )
        if name == "hypervolume":
            return float(summary["indicators"][name])
        if name in _OF_SUMMARY:
            return float(summary[name])
        return self.on_a_front(name)(run.front())

    def on_a_front(self, name: str) -> Callable[[Front], float]:
        """Return the function that computes a value of a front; NaN if it has none."""
        return partial(_front_value, name, self._reference)


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

_DIGITS = 9  # decimals in which vectors of the front and of the reference must agree


def _front_value(name: str, reference: FloatArray, front: Front) -> float:
    """Return a hypervolume, ``front_size``, ``best_METRIC`` or the share of a reference front.

    The losses of the reference front (n, objectives) are only needed for the share.
    """
    if name == "hypervolume":
        return front.hypervolume()
    if name == EXPECTED:
        losses = front.expected_losses()
        return math.nan if losses is None else volume(losses, front.roles)
    if name == "front_size":
        return float(len(front))
    if name == SHARE:
        wanted = _vectors(reference, reference)
        return len(wanted & _vectors(front.losses, reference)) / len(wanted)
    metric, roles = name.removeprefix(BEST_PREFIX), front.roles
    column = front.rows.values[metric]
    if not len(column):
        return math.nan
    return float(column.max() if roles.sense(metric) == "max" else column.min())


@dataclass
class PruningCriterion:
    """The stopping criterion of a trial that may be pruned.

    Attributes
    ----------
    value : callable
        Computes the value of a front by which it decides.
    sense : {'min', 'max'}
    at : sequence of int
        Numbers of evaluations, ascending. The value is computed after the first batch that reaches
        each of them.
    limits : mapping of int to float
        For numbers in ``at``, the worst value with which the trial continues.
    rungs : dict of int to float
        The values that were computed, by the numbers in ``at``.
    pruned : int
        The number in ``at`` at which the trial was ended; 0 if it was not.
    looks : int
        How many of the numbers in ``at`` were reached.
    """

    value: Callable[[Front], float]
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
    """Return the distinct vectors of losses, divided by the largest of ``scale`` and rounded."""
    largest = np.abs(scale).max(axis=0)
    rounded = np.round(losses / np.where(largest > 0, largest, 1.0), _DIGITS) + 0.0
    return set(map(tuple, rounded.tolist()))
