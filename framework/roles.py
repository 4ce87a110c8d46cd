"""The role of each metric: objective, constraint or neither. Signs flip here and nowhere else.

A problem reports *metrics* in natural sign and unit. A configuration gives some of them the
role of an *objective* or a *constraint*. Everything that compares candidates works on *losses*:
one column per objective, smaller is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray
from framework.errors import InputError

Sense = Literal["min", "max"]
GENE_PREFIX = "gene_"  # of the columns with genes in files of fronts


class Metric(NamedTuple):
    """A metric that a problem reports.

    ``kind`` tells how values compare: a ``bounded`` metric lies between two bounds and differences
    mean something (coverage); a ``ratio`` has a true zero and ratios mean something (a cost).
    ``steps`` is the number of equal steps from ``low`` to ``high`` if all values lie on them (for
    a share of 400 records: 400), else 0. ``mixes`` tells whether drawing one of several candidates
    at random for each record has the weighted mean of their values, as a mean over fixed records
    has. ``size`` marks a metric that says how large a solution is: tables show it in any role.
    ``scale`` marks one whose worse bound was found on the records of the search, such as the loss
    of the worst model: figures on other records may lie beyond it. ``statistic`` says what
    the metric is of the records' values, for its range: a ``quantile``, such as the cost that 95%
    of them do not exceed, moves in jumps; a ``difference`` between subgroups may well be near 0.
    ``estimates`` names the metric that this one estimates: its range reaches as far as it would
    about the figure of that metric.
    """

    name: str
    sense: Sense
    kind: Literal["bounded", "ratio"] = "bounded"
    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    text: str = ""
    steps: int = 0
    mixes: bool = False
    size: bool = False
    scale: bool = False
    statistic: Literal["mean", "difference", "quantile"] = "mean"
    estimates: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds that no figure passes, on whatever records."""
        if not self.scale:
            return self.low, self.high
        return (self.low, math.inf) if self.sense == "min" else (-math.inf, self.high)


class Objective(NamedTuple):
    """A metric to minimise or maximise.

    ``worst`` is the value, in natural sign, from which the hypervolume is measured; if it is None,
    that is the worst bound of the metric.
    """

    metric: str
    sense: Sense
    worst: float | None = None


class Constraint(NamedTuple):
    """A metric that must stay within bounds (inclusive)."""

    metric: str
    at_most: float | None = None
    at_least: float | None = None


class Roles:
    """Objectives and constraints over the metrics of one problem.

    Parameters
    ----------
    metrics : sequence of Metric
        What the problem reports.
    objectives : sequence of Objective
        At least one; no metric twice.
    constraints : sequence of Constraint

    Attributes
    ----------
    names : tuple of str
        The names of the objectives, in order.

    Raises
    ------
    InputError
        There is no objective, an objective is repeated, the problem does not report a metric, a
        metric is called like another column of fronts, or a limit is no finite number.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        objectives: Sequence[Objective],
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.metrics = {metric.name: metric for metric in metrics}
        self.objectives = tuple(objectives)
        self.constraints = tuple(constraints)
        if not self.objectives:
            raise InputError("objectives: expected at least one, found none")
        names = [objective.metric for objective in self.objectives]
        used = [("objectives", name) for name in names]
        used += [("constraints", constraint.metric) for constraint in constraints]
        wrong = [
            f"{place}: expected a metric of the problem ({', '.join(self.metrics)}), found {name!r}"
            for place, name in used
            if name not in self.metrics
        ]
        wrong += [
            f"constraints: expected a finite limit of {metric}, found {limit}; leave it out"
            for metric, *limits in constraints
            for limit in limits
            if limit is not None and not math.isfinite(limit)
        ]
        columns = {"id", *(f"test_{name}" for name in self.metrics)}
        wrong += [
            f"metrics: expected another name than {name!r}, a column that fronts have; rename it"
            for name in self.metrics
            if name in columns or name.startswith(GENE_PREFIX)
        ]
        if wrong:
            raise InputError("\n".join(wrong))
        if len(set(names)) < len(names):
            raise InputError(f"objectives: expected each metric once, found {', '.join(names)}")
        self.names = tuple(names)
        self._signs = np.array([-1.0 if o.sense == "max" else 1.0 for o in self.objectives])
        self._turns = bool((self._signs < 0).any())

    def sense(self, name: str) -> Sense:
        """Return whether a metric is to be low or high: by its objective, else by the metric."""
        senses = {objective.metric: objective.sense for objective in self.objectives}
        return senses.get(name, self.metrics[name].sense)

    def drawn(self) -> tuple[Objective, ...]:
        """Return the objectives in the order of axes: first the one that is drawn to the right.

        That is the first amount, such as a cost; without any, the last objective.
        """
        amounts = [o for o in self.objectives if self.metrics[o.metric].kind == "ratio"]
        x = amounts[0] if amounts else self.objectives[-1]
        return (x, *(o for o in self.objectives if o is not x))

    def losses(self, values: Mapping[str, Array]) -> FloatArray:
        """Return the objectives as a matrix to minimise, shape (n, number of objectives)."""
        losses = np.empty((len(values[self.names[0]]), len(self.objectives)))
        for j, name in enumerate(self.names):
            losses[:, j] = values[name]
        if self._turns:
            losses *= self._signs
        losses += 0.0  # no negative zero
        return losses

    def scaled_losses(self, values: Mapping[str, Array]) -> FloatArray:
        """Return :meth:`losses`, scaled to [0, 1] where a metric has bounds."""
        low, high = self.limits().T
        bounded = np.isfinite(low) & np.isfinite(high) & (high > low)
        low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)
        return np.asarray((self.losses(values) - low) / (high - low))

    def natural(self, losses: FloatArray) -> FloatArray:
        """Return objectives in natural sign from their losses, both shape (n, objectives)."""
        return np.asarray(losses * self._signs + 0.0)

    def limits(self) -> FloatArray:
        """Return the least and the greatest possible loss of each objective, shape (m, 2)."""
        rows = []
        for objective, sign in zip(self.objectives, self._signs, strict=True):
            metric = self.metrics[objective.metric]
            rows.append(sorted((sign * metric.low, sign * metric.high)))
        return np.array(rows) + 0.0

    def bounds(self) -> FloatArray:
        """Return :meth:`limits`, with the objectives' ``worst`` values where there are some."""
        bounds = self.limits()
        for j, objective in enumerate(self.objectives):
            if objective.worst is not None:
                bounds[j, 1] = self._signs[j] * objective.worst
        return bounds

    def kinds(self) -> tuple[str, ...]:
        """Return the kind of each objective's metric, ``bounded`` or ``ratio``."""
        return tuple(self.metrics[name].kind for name in self.names)

    def limits_of_constraints(self) -> list[tuple[str, Literal["<=", ">="], float]]:
        """Return what the constraints ask for: metric, ``<=`` or ``>=``, and limit."""
        limits: list[tuple[str, Literal["<=", ">="], float]] = []
        for constraint in self.constraints:
            if constraint.at_most is not None:
                limits.append((constraint.metric, "<=", constraint.at_most))
            if constraint.at_least is not None:
                limits.append((constraint.metric, ">=", constraint.at_least))
        return limits

    def violation(self, values: Mapping[str, Array]) -> FloatArray:
        """Return the sum of excesses over the constraints; 0 is feasible, shape (n,)."""
        total = np.zeros(len(next(iter(values.values()))))
        for metric, sign, limit in self.limits_of_constraints():
            column = np.asarray(values[metric], dtype=np.float64)
            total += np.maximum(column - limit if sign == "<=" else limit - column, 0.0)
        return total
