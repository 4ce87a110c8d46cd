"""Choose one solution of a Pareto front, or the best randomised mixture of several.

Conditions narrow the front; then one rule picks, such as the least expected cost of errors.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.front import Front
from framework.problem import TrivialClassifier
from framework.registry import nearest

FALSE_POSITIVES, FALSE_NEGATIVES = "false_positive_rate", "false_negative_rate"

_NOTHING = 1e-9  # chances below this are the solver's rounding
_OPERATORS: dict[str, Callable[[Array, float], Array]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(r"\s*([^<>=\s]+)\s*(>=|<=|==|>|<)\s*([^<>=\s]+)\s*")
_MARGIN = re.compile(r"\s*([^<>=\s]+)\s*=\s*([^\s%]+)\s*(%?)\s*")


class Condition(NamedTuple):
    """``metric operator value``, such as ``coverage >= 0.9``; values compare exactly."""

    metric: str
    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.metric}{self.operator}{self.value:.12g}"

    def holds(self, column: Array) -> BoolArray:
        """Return for each value, shape (n,), whether the condition holds."""
        return np.asarray(_OPERATORS[self.operator](column, self.value), dtype=bool)


class Margin(NamedTuple):
    """How far from the best value of a metric a solution may be."""

    metric: str
    amount: float
    relative: bool

    def __str__(self) -> str:
        shown = f"{self.amount * 100:g}%" if self.relative else f"{self.amount:g}"
        return f"{self.metric}={shown}"

    def holds(self, losses: FloatArray) -> BoolArray:
        """Return for each loss, shape (n,), whether it is near enough to the least one."""
        best = losses.min()
        allowed = self.amount * abs(best) if self.relative else self.amount
        return np.asarray(losses <= best + allowed, dtype=bool)


def parse_condition(text: str, place: str = "where") -> Condition:
    """Read ``coverage>=0.9``; operators are ``>=``, ``<=``, ``>``, ``<`` and ``==``.

    ``place`` is what messages call the text.

    Raises
    ------
    InputError
        The text is not of that form.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InputError(
            f"{place}: expected METRIC>=NUMBER (or <=, >, <, ==), such as coverage>=0.9; "
            f"found {text!r}"
        )
    metric, comparison, value = match.groups()
    return Condition(metric, comparison, _number(value, place, text))


def parse_margin(text: str) -> Margin:
    """Read ``accuracy=2%`` (relative to the best value) or ``accuracy=0.02`` (absolute).

    Raises
    ------
    InputError
        The text is not of that form.
    """
    match = _MARGIN.fullmatch(text)
    if match is None:
        raise InputError(
            f"within: expected METRIC=NUMBER or METRIC=NUMBER%, such as accuracy=2%; found {text!r}"
        )
    metric, amount, percent = match.groups()
    number = _number(amount, "within", text)
    if number < 0:
        raise InputError(f"within: expected a margin of at least 0, found {text!r}")
    return Margin(metric, number / 100 if percent else number, bool(percent))


def choose(
    front: Front,
    *,
    where: Sequence[str | Condition] = (),
    within: Sequence[str | Margin] = (),
    best: str | None = None,
    knee: bool = False,
    weights: Mapping[str, float] | None = None,
    expected: ExpectedCost | None = None,
    id: int | None = None,
) -> int:
    """Choose one solution of a front by its metrics on the validation records.

    First ``where`` and then ``within`` narrow the front; then one rule picks from the solutions
    that are left. Rules use normalised losses: 0 at the best value left, 1 at the worst one.

    Parameters
    ----------
    front : Front
    where : sequence of str or Condition
        Conditions such as ``coverage>=0.9``; only solutions that meet all of them are kept.
    within : sequence of str or Margin
        Margins such as ``accuracy=2%`` or ``accuracy=0.02``; only solutions that are this near to
        the best value left are kept.
    best : str, optional
        Rule: the best value of this metric. Ties are broken by the objectives, in their order.
    knee : bool
        Rule: the least Euclidean distance, in normalised losses, to the ideal point, which has
        every objective at its best. It applies where no other rule is given.
    weights : mapping of str to float, optional
        Rule: the least weighted sum of normalised losses.
    expected : ExpectedCost, optional
        Rule: the least expected cost, in the metrics' own units.
    id : int, optional
        Rule: the solution with this id.

    Returns
    -------
    int
        Position in the front. Of solutions that are still tied, the one with the lowest id.

    Raises
    ------
    InputError
        An unknown or a test metric, more than one rule, or nothing left.
    """
    rules = [best is not None, knee, weights is not None, expected is not None, id is not None]
    if sum(rules) > 1:
        raise InputError("choose: expected one of best, knee, weights, costs and id; found several")
    left = _narrow(front, where, within)
    if id is not None:
        return _by_id(front, left, id)
    if best is not None:
        return _first(front, left, loss_of(front, best, "best")[left])
    if weights is not None:
        return _first(front, left, _weighted(front, left, weights))
    if expected is not None:
        return _first(front, left, expected.of(front)[left])
    scaled = _normalised(front.losses[left])
    return _first(front, left, np.sqrt((scaled**2).sum(axis=1)))


def with_trivial(front: Front, trivial: Sequence[TrivialClassifier]) -> Front:
    """Return a front with trivial classifiers behind its solutions, their ids -1, -2 and so on.

    Those that break a constraint are left out. A solution of the front keeps its position.
    """
    rows, roles = front.rows, front.roles
    names = list(roles.metrics)
    added = Evaluated(
        np.array([-1 - k for k in range(len(trivial))], dtype=np.int64),
        np.zeros((len(trivial), rows.X.shape[1]), dtype=rows.X.dtype),
        {name: np.array([float(one.values[name]) for one in trivial]) for name in names},
    )
    kept = roles.violation(added.values) == 0.0
    values = {name: np.concatenate([rows.values[name], added.values[name][kept]]) for name in names}
    both = Evaluated(
        np.concatenate([rows.ids, added.ids[kept]]),
        np.concatenate([rows.X, added.X[kept]]),
        values,
    )
    test = None
    if front.test is not None and all(one.test is not None for one in trivial):
        test = {
            name: np.concatenate(
                [column, np.array([float((one.test or {})[name]) for one in trivial])[kept]]
            )
            for name, column in front.test.items()
        }
    return Front(both, roles, front.gene_names, test)


def column_of(front: Front, metric: str, place: str) -> Array:
    """Return a validation metric in natural sign, shape (n,).

    Raises
    ------
    InputError
        There is none of that name.
    """
    known = front.roles.metrics
    if metric not in known:
        if metric.startswith("test_"):
            raise InputError(
                f"{place}: expected a validation metric, found {metric!r}; a choice made on test "
                "data voids what they say about the chosen solution"
            )
        raise InputError(
            f"{place}: expected one of {', '.join(known)}; found {metric!r}{nearest(metric, known)}"
        )
    return front.rows.values[metric]


def loss_of(front: Front, metric: str, place: str) -> FloatArray:
    """Return a metric to minimise, shape (n,), by its objective's sense or else its metric's.

    Raises
    ------
    InputError
        There is none of that name.
    """
    column = column_of(front, metric, place)
    turned = front.roles.sense(metric) == "max"
    return np.asarray(-column if turned else column, dtype=np.float64)


def _narrow(
    front: Front, where: Sequence[str | Condition], within: Sequence[str | Margin]
) -> IntArray:
    """Return the positions that pass every condition and margin."""
    left: IntArray = np.arange(len(front))
    if len(left) == 0:
        raise InputError("front: expected at least one solution, found none")
    for item in where:
        condition = parse_condition(item) if isinstance(item, str) else item
        column = column_of(front, condition.metric, "where")[left]
        kept = condition.holds(column)
        if not kept.any():
            best = column[np.argmin(np.abs(column - condition.value))]
            raise InputError(
                f"where {condition}: no solution is left; the best {condition.metric} among the "
                f"{len(left)} before it is {best:.12g}"
            )
        left = left[kept]
    for limit in within:
        margin = parse_margin(limit) if isinstance(limit, str) else limit
        left = left[margin.holds(loss_of(front, margin.metric, "within")[left])]
    return left


def _first(front: Front, left: IntArray, scores: FloatArray) -> int:
    """Return the position with the least score; ties: better objectives in order, then the id.

    A solution goes before a trivial classifier, which has an id below 0.
    """
    ids = front.ids[left]
    keys = [ids, *front.losses[left].T[::-1], ids < 0, scores]
    return int(left[np.lexsort(keys)[0]])


def _by_id(front: Front, left: IntArray, id: int) -> int:
    position = np.flatnonzero(front.ids == id)
    if len(position) == 0:
        raise InputError(f"id: expected a solution of the front ({_listed(front.ids)}), found {id}")
    if position[0] not in left:
        raise InputError(
            f"id: expected a solution that meets the conditions ({_listed(front.ids[left])}), "
            f"found {id}"
        )
    return int(position[0])


def _weighted(front: Front, left: IntArray, weights: Mapping[str, float]) -> FloatArray:
    if not weights or any(not w >= 0 for w in weights.values()) or not any(weights.values()):
        shown = ", ".join(f"{name}={weight:g}" for name, weight in weights.items()) or "none"
        raise InputError(f"weights: expected weights >= 0, one of them positive; found {shown}")
    losses = np.column_stack([loss_of(front, name, "weights")[left] for name in weights])
    return np.asarray(_normalised(losses) @ np.array(list(weights.values())))


def _normalised(losses: FloatArray) -> FloatArray:
    """Scale each column to 0 (its least) ... 1 (its greatest); a constant one is 0."""
    low, high = losses.min(axis=0), losses.max(axis=0)
    return np.asarray((losses - low) / np.where(high > low, high - low, 1.0))


def _listed(ids: IntArray) -> str:
    shown = ", ".join(str(id) for id in ids[:8])
    return shown if len(ids) <= 8 else f"{shown}, ... {len(ids)} in all"


def _number(text: str, place: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{place}: expected a number in {whole!r}, found {text!r}")
    return number


class Range(NamedTuple):
    """A solution that is best between two values of a parameter."""

    position: int
    low: float
    high: float


@dataclass(frozen=True)
class ExpectedCost:
    """What a record costs in expectation (Provost and Fawcett 2001).

    ``prior fn FNR + (1 - prior) fp FPR``, and what a metric's unit costs beside it. All of it is
    in the metrics' own units: nothing is normalised.

    Attributes
    ----------
    fp, fn : float
        Cost of a false positive and of a false negative, from 0.
    prior : float
        Share of positive records where the model will run, 0 to 1.
    per_unit : mapping of str to float
        Cost of one unit of a metric, such as complexity.

    Raises
    ------
    InputError
        Costs below 0 or all 0, or a prior that is no share.
    """

    fp: float
    fn: float
    prior: float
    per_unit: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        costs = [self.fp, self.fn, *self.per_unit.values()]
        if not (np.isfinite(costs).all() and min(costs) >= 0 and max(costs) > 0):
            raise InputError(
                f"costs: expected numbers from 0, one above it, found fp={self.fp:g}, "
                f"fn={self.fn:g}" + "".join(f", {k}={v:g}" for k, v in self.per_unit.items())
            )
        if not 0 <= self.prior <= 1:
            raise InputError(f"prior: expected a share from 0 to 1, found {self.prior:g}")

    def of(self, front: Front) -> FloatArray:
        """Return the expected cost of each solution, on validation metrics, shape (n,)."""
        return self.of_values(front.rows.values)

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that it is made of."""
        return frozenset({FALSE_POSITIVES, FALSE_NEGATIVES, *self.per_unit})

    def of_values(self, values: Mapping[str, Array]) -> FloatArray:
        """Return the expected cost of metrics, of any shape."""
        false_positives, false_negatives, rest = self._parts(values)
        return np.asarray(
            self.prior * self.fn * false_negatives
            + (1 - self.prior) * self.fp * false_positives
            + rest
        )

    def by_prior(self, front: Front) -> list[Range]:
        """Return which solution is best for which prior, from 0 to 1; costs as they are."""
        false_positives, false_negatives, rest = self._parts(front.rows.values)
        start = self.fp * false_positives
        return lower_envelope(start + rest, self.fn * false_negatives - start, 1.0)

    def by_ratio(self, front: Front) -> list[Range]:
        """Return which solution is best for which ratio fn / fp; fp and the prior as they are."""
        false_positives, false_negatives, rest = self._parts(front.rows.values)
        fixed = (1 - self.prior) * self.fp * false_positives + rest
        return lower_envelope(fixed, self.prior * self.fp * false_negatives, np.inf)

    def _parts(self, values: Mapping[str, Array]) -> tuple[FloatArray, FloatArray, FloatArray]:
        for name in (FALSE_POSITIVES, FALSE_NEGATIVES, *self.per_unit):
            if name not in values:
                raise InputError(
                    f"costs: expected a run with the metric {name!r}, found {', '.join(values)}"
                    f"{nearest(name, values)}"
                )
        rest = np.zeros(values[FALSE_POSITIVES].shape)
        for name, cost in self.per_unit.items():
            rest = rest + cost * values[name]
        return values[FALSE_POSITIVES], values[FALSE_NEGATIVES], rest


def lower_envelope(starts: FloatArray, slopes: FloatArray, end: float) -> list[Range]:
    """Return which of the lines ``start + slope t`` is lowest for t from 0 to ``end``.

    Of lines that are equal the first counts. O(n) a range.
    """
    t = 0.0
    ranges: list[Range] = []
    best = int(np.lexsort((slopes, starts))[0])
    while True:
        falls = slopes[best] - slopes
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.where(falls > 0, (starts - starts[best]) / falls, np.inf)
        meets = np.where(meets < t, np.where(falls > 0, t, np.inf), meets)
        upto = float(min(meets.min(), end))
        if upto > t or not ranges:
            ranges.append(Range(best, t, upto))
        if upto >= end:
            return ranges
        best = int(np.lexsort((slopes, np.where(meets == upto, 0, 1)))[0])
        t = upto


@dataclass(frozen=True)
class Mixture:
    """Solutions of a front, of which each record gets one by lot.

    Attributes
    ----------
    positions : numpy.ndarray of int64, shape (members,)
        In the front, or behind it those of trivial classifiers (:func:`with_trivial`); ascending.
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
    if not any(metric.mixes for metric in front.roles.metrics.values()):
        raise InputError(
            "mix: expected solutions whose metrics are means over all records, found none; where "
            "records are left without an answer, rates are of the answered ones, and lots drawn "
            "between two solutions do not have rates between theirs"
        )
    conditions = [parse_condition(c) if isinstance(c, str) else c for c in where]
    _column(front, best, "best")
    columns = []
    for condition in conditions:
        columns.append(_column(front, condition.metric, "where"))
        if condition.operator not in ("==", "<=", ">="):
            raise InputError(
                f"where: expected >=, <= or == for a mixture, found {condition}; a mixture comes "
                "as near as one likes"
            )
    found = best_chances(loss_of(front, best, "best"), conditions, columns)
    if found is None:
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
    kept, chances = found
    expected = {
        name: float(chances @ front.rows.values[name][kept])
        for name, known in front.roles.metrics.items()
        if known.mixes
    }
    return Mixture(kept, chances, expected)


def best_chances(
    losses: FloatArray, conditions: Sequence[Condition], columns: Sequence[FloatArray]
) -> tuple[IntArray, FloatArray] | None:
    """Return who is in the mixture of least expected loss, and with which chance.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n,)
    conditions : sequence of Condition
        On expected values, with ``>=``, ``<=`` or ``==``.
    columns : sequence of numpy.ndarray, each shape (n,)
        The values that these are of.

    Returns
    -------
    positions of int64 and chances of float64, each shape (members,), or None
        None: no mixture meets the conditions.
    """
    from scipy.optimize import linprog

    above, limits, equal, values = [], [], [np.ones(len(losses))], [1.0]
    for condition, column in zip(conditions, columns, strict=True):
        if condition.operator == "==":
            equal.append(column)
            values.append(condition.value)
        else:
            side = 1.0 if condition.operator == "<=" else -1.0
            above.append(side * column)
            limits.append(side * condition.value)
    found = linprog(
        losses,
        A_ub=np.array(above) if above else None,
        b_ub=limits or None,
        A_eq=np.array(equal),
        b_eq=values,
        method="highs-ds",
    )
    if found.x is None:
        return None
    kept = np.flatnonzero(found.x > _NOTHING).astype(np.int64)
    return kept, found.x[kept] / found.x[kept].sum()


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
