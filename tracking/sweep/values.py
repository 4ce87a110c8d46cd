"""What a trial of a sweep is worth: numbers read off the directory of its run.

==================  ==============================================================================
``hypervolume``     of the front, as a share of the box between worst and best values
``front_size``      solutions on the front
``evaluations``     candidates scored
``wall_s``          seconds of searching; the one value that depends on the machine
``best_<metric>``   the best value of a metric of the problem on the front
``share_of_reference``  share of a reference front's distinct vectors that the front has
==================  ==============================================================================
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from framework.arrays import FloatArray
from framework.data.files import read_frame
from framework.errors import InputError, ParetolabError
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import FAILED
from framework.registry import nearest
from framework.roles import Roles
from tracking.sweep.config import SweepConfig
from tracking.sweep.rungs import BEST, SHARE, FrontValue

_OF_SUMMARY = ("front_size", "evaluations", "wall_s")


class Meter:
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
        known = ["hypervolume", *_OF_SUMMARY, *(f"{BEST}{name}" for name in roles.metrics)]
        known += [SHARE] if sweep.reference else []
        self.names = [direction.metric for direction in sweep.directions]
        for i, name in enumerate(self.names):
            if name not in known:
                hint = "; it needs sweep.reference" if name == SHARE else nearest(name, known)
                raise InputError(
                    f"{where}.directions.{i}.metric: expected one of {', '.join(known)}; found "
                    f"{name!r}{hint}"
                )
        self._roles = roles
        self._reference = (
            _read_reference(Path(sweep.reference), roles, where)
            if sweep.reference and SHARE in self.names
            else np.zeros((0, len(roles.names)))
        )

    def __call__(self, trial: RunDir) -> dict[str, float]:
        """Return a trial's values by name, averaged over its repeats.

        Raises
        ------
        ParetolabError
            Too many rows failed, or there is no value because the front is empty.
        """
        runs = trial.runs()
        table = [[self._value(name, run) for name in self.names] for run in runs]
        means = np.mean(table, axis=0)
        for name, value in zip(self.names, means, strict=True):
            if not np.isfinite(value):
                raise ParetolabError(f"{name} has no value: the front is empty")
        return dict(zip(self.names, means.tolist(), strict=True))

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
    missing = [name for name in roles.names if name not in frame]
    if missing:
        raise InputError(f"{place}: expected a column {missing[0]!r}, found none")
    if frame.empty:
        raise InputError(f"{place}: expected at least one solution, found none")
    return roles.losses({name: frame[name].to_numpy() for name in roles.names})
