"""Points between the solutions of a front: the best randomised mixture of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.analysis.choose import Condition, column_of, loss_of, parse_condition
from framework.arrays import FloatArray, IntArray
from framework.errors import InputError
from framework.front import Front

_NOTHING = 1e-9  # chances below this are the solver's rounding


@dataclass(frozen=True)
class Mixture:
    """Solutions of a front, of which each record gets one by lot.

    Attributes
    ----------
    positions : numpy.ndarray of int64, shape (members,)
        In the front, ascending.
    chances : numpy.ndarray of float64, shape (members,)
        Above 0, summing to 1.
    expected : mapping of str to float
        What the mixture has in expectation of every metric that mixes.
    """

    positions: IntArray
    chances: FloatArray
    expected: Mapping[str, float]


def mix(front: Front, *, best: str, where: Sequence[str | Condition] = ()) -> Mixture:
    """Return the mixture with the best expected value of a metric, under conditions.

    Parameters
    ----------
    front : Front
    best : str
        A metric that mixes: a mean over records, of which a mixture has the weighted mean.
    where : sequence of str or Condition
        Conditions on expected values of such metrics, with ``>=``, ``<=`` or ``==``.

    Raises
    ------
    InputError
        A metric that is unknown or does not mix, another operator, or no mixture that meets the
        conditions.

    Notes
    -----
    Provost and Fawcett (2001), for any number of metrics: a linear programme over the chances.
    It has a solution of at most one member more than there are conditions, a corner, which the
    simplex method returns.
    """
    from scipy.optimize import linprog

    conditions = [parse_condition(c) if isinstance(c, str) else c for c in where]
    _column(front, best, "best")
    above, limits, equal, values = [], [], [np.ones(len(front))], [1.0]
    for condition in conditions:
        column = _column(front, condition.metric, "where")
        if condition.operator == "==":
            equal.append(column)
            values.append(condition.value)
        elif condition.operator in ("<=", ">="):
            side = 1.0 if condition.operator == "<=" else -1.0
            above.append(side * column)
            limits.append(side * condition.value)
        else:
            raise InputError(
                f"where: expected >=, <= or == for a mixture, found {condition}; a mixture comes "
                "as near as one likes"
            )
    found = linprog(
        loss_of(front, best, "best"),
        A_ub=np.array(above) if above else None,
        b_ub=limits or None,
        A_eq=np.array(equal),
        b_eq=values,
        method="highs-ds",
    )
    if found.x is None:
        ranges = {
            c.metric: f"{front.rows.values[c.metric].min():.4g} to "
            f"{front.rows.values[c.metric].max():.4g}"
            for c in conditions
        }
        raise InputError(
            f"where: expected conditions that a mixture meets, found "
            f"{', '.join(map(str, conditions))}; the solutions have "
            + ", ".join(f"{name} from {text}" for name, text in ranges.items())
        )
    kept = np.flatnonzero(found.x > _NOTHING)
    chances = found.x[kept] / found.x[kept].sum()
    expected = {
        name: float(chances @ front.rows.values[name][kept])
        for name, known in front.roles.metrics.items()
        if known.mixes
    }
    return Mixture(kept.astype(np.int64), chances, expected)


def _column(front: Front, name: str, place: str) -> FloatArray:
    """Return the values of a metric that mixes, shape (n,)."""
    column, metrics = column_of(front, name, place), front.roles.metrics
    mixing = [known for known, metric in metrics.items() if metric.mixes]
    if not metrics[name].mixes:
        raise InputError(
            f"{place}: expected a metric whose values mix ({', '.join(mixing) or 'none here'}), "
            f"found {name!r}, which is no mean over records"
        )
    return np.asarray(column, dtype=np.float64)
