"""Indicators: numbers that measure the quality of a run's result, found by name.

A package adds one by registering an :class:`Indicator` under ``paretolab.indicators``::

    [project.entry-points."paretolab.indicators"]
    epsilon = "mine.indicators:EPSILON"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.spatial import cKDTree

from framework import registry
from framework.arrays import BoolArray, FloatArray
from framework.front import volume
from framework.pareto import igd_plus as mean_distance
from framework.pareto import nondominated
from framework.registry import require_known
from framework.roles import Metric, Roles

_SAME = 1e-9  # distance, after scaling to ranges, up to which two vectors are the same


@dataclass(frozen=True)
class Judged:
    """The result of a run, as indicators receive it.

    Attributes
    ----------
    losses : numpy.ndarray, shape (n, objectives)
        Losses of the solutions, where smaller is better; n may be 0.
    reference : numpy.ndarray, shape (r, objectives)
        Losses of the reference front, distinct; r >= 1.
    roles : Roles
    anchors : numpy.ndarray, shape (k, objectives), or None
        Reference points of the problem, if it has some (``Problem.anchors``).
    distinct : float
        How many different candidates the run evaluated; NaN where that is not known.
    metrics : mapping of str to numpy.ndarray, shape (n,)
        Every metric of the solutions, objective or not, in natural sign.
    findings : mapping
        What else the algorithm reported about its result (``Outcome.findings``).
    expected, test : numpy.ndarray, shape (n, objectives), or None
        The expected losses of the solutions, and their losses on test records, where known.
    """

    losses: FloatArray
    reference: FloatArray
    roles: Roles
    anchors: FloatArray | None = None
    distinct: float = np.nan
    metrics: Mapping[str, FloatArray] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    expected: FloatArray | None = None
    test: FloatArray | None = None

    @property
    def scaled(self) -> FloatArray:
        """``losses``, with each objective scaled to its range over the reference."""
        return self._scaled(self.losses)

    @property
    def target(self) -> FloatArray:
        """``reference``, scaled in the same way."""
        return self._scaled(self.reference)

    def _scaled(self, losses: FloatArray) -> FloatArray:
        low, high = self.reference.min(axis=0), self.reference.max(axis=0)
        return np.asarray((losses - low) / np.where(high > low, high - low, 1.0))

    def reached(self) -> BoolArray:
        """Return which vectors of the reference are among the losses, shape (r,)."""
        if not len(self.losses):
            return np.zeros(len(self.reference), dtype=bool)
        distance, _ = cKDTree(self.scaled).query(self.target)
        return np.asarray(distance <= _SAME, dtype=bool)


@dataclass(frozen=True)
class Indicator:
    """A number that measures the quality of a result.

    Attributes
    ----------
    label : str
        The name that tables and figures show.
    better : 'high' or 'low'
    text : str
        What the number means, in a few words.
    measure : callable
        Takes a :class:`Judged` and returns the number; NaN if it has no meaning for these
        objectives.
    on_request : bool
        Whether comparisons show the indicator only if it is asked for by name.
    share : bool
        Whether it lies between 0 and 1, and so do intervals of it.
    """

    label: str
    better: Literal["high", "low"]
    text: str
    measure: Callable[[Judged], float]
    on_request: bool = False
    share: bool = False


def indicators() -> dict[str, Indicator]:
    """Return every registered indicator by name, sorted."""
    names = registry.names("indicators")
    return {name: registry.load_instance("indicators", name, Indicator) for name in names}


def indicators_of(names: Iterable[str], metrics: Iterable[Metric]) -> dict[str, Indicator]:
    """Return indicators by name: registered ones, and metrics of the problem.

    A metric serves as an indicator, above all for methods that return one solution; of several
    solutions it is the mean, and of none worse than any number.

    Raises
    ------
    InputError
        A name is neither that of an indicator nor that of a metric.
    """
    by_name = indicators()
    for metric in metrics:
        by_name.setdefault(metric.name, _of_metric(metric))
    wanted = list(dict.fromkeys(names))
    require_known(wanted, by_name, f"indicators: expected one of {', '.join(by_name)};")
    return {name: by_name[name] for name in wanted}


def _of_metric(metric: Metric) -> Indicator:
    worst = -np.inf if metric.sense == "max" else np.inf

    def mean(judged: Judged) -> float:
        if not len(judged.losses):
            return worst
        values = judged.metrics.get(metric.name)
        return np.nan if values is None else float(np.mean(values))

    return Indicator(
        metric.name.replace("_", " "),
        "high" if metric.sense == "max" else "low",
        f"{metric.text or metric.name.replace('_', ' ')}, mean over the solutions judged",
        mean,
        on_request=True,
        share=metric.kind == "bounded" and metric.ends == (0.0, 1.0),
    )


HYPERVOLUME = Indicator(
    "hypervolume",
    "high",
    "share of the box of worst and best values that the front dominates",
    lambda judged: volume(judged.losses, judged.roles),
    share=True,
)
HYPERVOLUME_SHARE = Indicator(
    "share of the hypervolume",
    "high",
    "hypervolume as a share of that of the reference front",
    lambda j: volume(j.losses, j.roles) / (volume(j.reference, j.roles) or np.nan),
    on_request=True,
)
IGD_PLUS = Indicator(
    "IGD+",
    "low",
    "mean distance from the reference front to what the front dominates, each objective scaled to "
    "its range there",
    lambda j: mean_distance(j.scaled, j.target) if len(j.losses) else np.inf,
)
SHARE = Indicator(
    "share found",
    "high",
    "share of the reference front's vectors found",
    lambda judged: float(judged.reached().mean()),
    share=True,
)
FOUND = Indicator(
    "vectors found",
    "high",
    "number of the reference front's vectors found",
    lambda judged: float(judged.reached().sum()),
    on_request=True,
)
REFERENCE_SIZE = Indicator(
    "size of the reference",
    "high",
    "number of distinct vectors of the reference front, whatever was found",
    lambda judged: float(len(judged.reference)),
    on_request=True,
)


def _on_new_records(
    name: str, of: Callable[[FloatArray, Roles], float]
) -> Callable[[Judged], float]:
    """Return a measure of the losses ``expected`` or ``test``; NaN where one is not known."""

    def measure(judged: Judged) -> float:
        losses = getattr(judged, name)
        return np.nan if losses is None or np.isnan(losses).any() else of(losses, judged.roles)

    return measure


def _share_nondominated(losses: FloatArray, roles: Roles) -> float:
    """Return the share of the losses that no others dominate; equal ones do not dominate."""
    if not len(losses):
        return np.nan
    distinct, row = np.unique(losses, axis=0, return_inverse=True)
    return float(nondominated(distinct)[row.ravel()].mean())


HYPERVOLUME_EXPECTED = Indicator(
    "expected hypervolume",
    "high",
    "hypervolume of what is to be expected of the solutions on new records",
    _on_new_records("expected", volume),
    share=True,
)
HYPERVOLUME_OPTIMISTIC = Indicator(
    "test hypervolume, optimistic",
    "high",
    "hypervolume on test records of the solutions that no other one dominates there "
    "(arXiv 2212.04183)",
    _on_new_records("test", volume),
    share=True,
)
HYPERVOLUME_PESSIMISTIC = Indicator(
    "test hypervolume, pessimistic",
    "high",
    "hypervolume on test records of the solutions that dominate no other one there: the gap to the "
    "optimistic one is what a choice by the records searched may cost (arXiv 2212.04183)",
    _on_new_records("test", lambda losses, roles: volume(losses[nondominated(-losses)], roles)),
    share=True,
)
FRONT_EXPECTED = Indicator(
    "expected share of the front",
    "high",
    "share of the solutions that no other one dominates by what is to be expected of them",
    _on_new_records("expected", _share_nondominated),
    share=True,
)
FRONT_TEST = Indicator(
    "share of the front on test",
    "high",
    "share of the solutions that no other one dominates on test records",
    _on_new_records("test", _share_nondominated),
    share=True,
)
ON_NEW_RECORDS = (
    "hypervolume_expected",
    "hypervolume_optimistic",
    "hypervolume_pessimistic",
    "front_expected",
    "front_test",
)
DISTINCT = Indicator(
    "distinct evaluations",
    "high",
    "how many different candidates were among the evaluations",
    lambda judged: judged.distinct,
    on_request=True,
)
