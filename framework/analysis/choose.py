"""Choose one solution of a Pareto front.

Conditions narrow the front; then one rule picks, such as the least expected cost of errors.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.capabilities import TrivialClassifier
from framework.errors import InputError, first_few
from framework.front import Front
from framework.outcomes import Values
from framework.registry import nearest, require_known
from framework.roles import Roles

_OUTLYING = 6.0  # medians; the exponential tail of a hundred solutions ends about there
FALSE_POSITIVES, FALSE_NEGATIVES = "false_positive_rate", "false_negative_rate"

_OPERATORS: dict[str, Callable[[Array, float], Array]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_METRIC = r"\s*([^<>=\s:]+(?::.*\S)?)\s*"  # what is behind a colon is the name of a class
_CONDITION = re.compile(_METRIC + r"(>=|<=|==|>|<)\s*([^<>=\s]+)\s*")
_MARGIN = re.compile(_METRIC + r"=\s*([^\s%=]+)\s*(%?)\s*")


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

    def limit(self, least: FloatArray) -> FloatArray:
        """Return the greatest loss that is near enough to the least one; arrays of any shape."""
        return least + (self.amount * np.abs(least) if self.relative else self.amount)


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


def parse_conditions(texts: Sequence[str | Condition]) -> tuple[Condition, ...]:
    """Return conditions, of which some may come as texts (see :func:`parse_condition`)."""
    return tuple(parse_condition(text) if isinstance(text, str) else text for text in texts)


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
    that are left. Normalised losses are 0 at the best value left and 1 at the worst one.

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
        every objective at its best. It is also the default. Outlying amounts, such as one very
        high cost, count less in it: see :class:`Rule`.
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
        A metric is unknown or a test metric, there is more than one rule, or no solution is left.
    """
    rules = [best is not None, knee, weights is not None, expected is not None, id is not None]
    if sum(rules) > 1:
        raise InputError("choose: expected one of best, knee, weights, costs and id; found several")
    rule = Rule(front, where=where, within=within, best=best, weights=weights, expected=expected)
    left = np.flatnonzero(rule.passing)
    if not len(left):
        raise InputError(_why_none(front, rule.where))
    if id is not None:
        return _by_id(front, left, id)
    ids = front.ids[left]
    score, *losses = rule.keys({name: column[left] for name, column in front.rows.values.items()})
    # np.lexsort sorts by its last key first; ids of trivial classifiers are below 0 and come last
    return int(left[np.lexsort([ids, *losses[::-1], ids < 0, score])[0]])


def require_solutions(front: Front) -> None:
    """Raise InputError where a front is empty."""
    if len(front) == 0:
        raise InputError("front: expected at least one solution, found none")


class Rule:
    """How a user chooses: conditions, margins and a score to minimise.

    A rule can be applied to a front, and again in each resample of the records. Values of metrics
    have one row per candidate; in resamples they have a column per resample, too.

    Parameters
    ----------
    front : Front
        The front on all records. Its losses set the scale of normalised losses in every resample.
    where, within, best, weights, expected
        As in :func:`choose`. The run's constraints are further conditions.

    Attributes
    ----------
    where, conditions : tuple of Condition
        The conditions asked for; the run's constraints followed by these.
    margins : tuple of Margin
    passing : numpy.ndarray of bool, shape (solutions,)
        The solutions of the front that meet ``where`` and the margins.
    needs : frozenset of str
        The metrics that the rule reads.
    roles : Roles

    Raises
    ------
    InputError
        There is no solution, a metric is unknown or a test metric, or no weight is above 0.
    """

    def __init__(
        self,
        front: Front,
        *,
        where: Sequence[str | Condition] = (),
        within: Sequence[str | Margin] = (),
        best: str | None = None,
        weights: Mapping[str, float] | None = None,
        expected: ExpectedCost | None = None,
    ) -> None:
        require_solutions(front)
        self.roles = roles = front.roles
        self.where = parse_conditions(where)
        self.conditions = (*constraints_of(roles), *self.where)
        self.margins = tuple(parse_margin(m) if isinstance(m, str) else m for m in within)
        self.passing = np.ones(len(front), dtype=bool)
        for condition in self.where:
            self.passing &= condition.holds(column_of(front, condition.metric, "where"))
        for margin in self.margins:
            losses = loss_of(front, margin.metric, "within")
            if self.passing.any():
                self.passing &= losses <= margin.limit(losses[self.passing].min())
        if expected is not None:
            scored: Collection[str] = expected.metrics
            self.score: Callable[[Values], FloatArray] = expected.of
        elif best is not None:
            column_of(front, best, "best")
            scored = [best]
            self.score = partial(loss, roles, best)
        else:
            scored = roles.names if weights is None else _checked(weights)
            self.score = self._scaled_score(front, scored, weights)
        limited = [c.metric for c in self.conditions] + [m.metric for m in self.margins]
        self.needs = frozenset({*roles.names, *scored, *limited})

    def _scaled_score(
        self, front: Front, names: Collection[str], weights: Mapping[str, float] | None
    ) -> Callable[[Values], FloatArray]:
        """Return a function: the distance to the front's ideal point, or a weighted sum of losses.

        Losses are scaled: 0 is the best of the solutions that pass, 1 their worst. In the distance,
        an amount such as a cost reaches 1 at six times the median excess over the best, where that
        is below the worst: one very expensive design must not make all others look cheap. If no
        solution passes, all set the scale, since some may pass in a resample.
        """
        among = self.passing if self.passing.any() else np.ones(len(front), dtype=bool)
        scales = {}
        for name in names:
            losses = loss_of(front, name, "weights")[among]
            low, span = losses.min(), np.ptp(losses)
            if weights is None and front.roles.metrics[name].kind == "ratio":
                span = min(span, _OUTLYING * np.median(losses - low)) or span
            scales[name] = low, span or 1.0

        def score(values: Values) -> FloatArray:
            total: FloatArray = np.zeros(next(iter(values.values())).shape)
            for name, (low, span) in scales.items():
                scaled = (loss(self.roles, name, values) - low) / span
                if weights is None:  # what is better than the ideal point adds no distance
                    total += np.maximum(scaled, 0.0) ** 2
                else:
                    total += weights[name] * scaled
            return np.sqrt(total) if weights is None else total

        return score

    def keys(self, values: Values) -> FloatArray:
        """Return the score and, to break ties, the losses in order, shape (1 + objectives, ...)."""
        return np.stack([self.score(values), *losses_of(self.roles, values)])

    def holds(self, values: Values) -> BoolArray:
        """Return where all conditions hold and the candidate could be evaluated."""
        return meets(self.conditions, self.roles, values)

    def slacks(self, values: Values) -> Iterator[FloatArray]:
        """Yield for each condition the distance to its limit; negative where it is broken."""
        for condition in self.conditions:
            column = values[condition.metric]
            if condition.operator == "==":
                yield -np.abs(column - condition.value)
            else:
                above = condition.operator in (">", ">=")
                yield column - condition.value if above else condition.value - column


def constraints_of(roles: Roles) -> tuple[Condition, ...]:
    """Return the run's constraints as conditions."""
    return tuple(Condition(*limit) for limit in roles.limits_of_constraints())


def meets(conditions: Sequence[Condition], roles: Roles, values: Values) -> BoolArray:
    """Return which candidates were evaluated and meet all conditions, in the shape of a metric."""
    holding = ~np.isnan(values[roles.names[0]])
    for condition in conditions:
        holding &= condition.holds(values[condition.metric])
    return np.asarray(holding, dtype=bool)


def loss(roles: Roles, name: str, values: Values) -> FloatArray:
    """Return a metric as a loss, in its shape: by the sense of its objective, else by its own."""
    return np.asarray(-values[name] if roles.sense(name) == "max" else values[name], dtype=float)


def losses_of(roles: Roles, values: Values) -> FloatArray:
    """Return the losses of the objectives, shape (objectives, ...)."""
    return np.stack([loss(roles, name, values) for name in roles.names])


def with_trivial(front: Front, trivial: Sequence[TrivialClassifier]) -> Front:
    """Return a front with trivial classifiers after its solutions, with ids -1, -2 and so on.

    Trivial classifiers that break a constraint are left out. Solutions keep their positions.
    """
    rows, roles = front.rows, front.roles
    values = {name: np.array([float(t.values[name]) for t in trivial]) for name in roles.metrics}
    feasible = np.flatnonzero(roles.violation(values) == 0.0)
    both = Evaluated(
        np.concatenate([rows.ids, -1 - feasible]),
        np.concatenate([rows.X, np.zeros((len(feasible), rows.X.shape[1]), rows.X.dtype)]),
        {name: np.concatenate([rows.values[name], values[name][feasible]]) for name in values},
    )
    test = None
    if front.test is not None and all(one.test is not None for one in trivial):
        tests = [trivial[i].test or {} for i in feasible.tolist()]
        test = {
            name: np.concatenate([column, np.array([float(values[name]) for values in tests])])
            for name, column in front.test.items()
        }
    return Front(both, roles, front.gene_names, test)


def column_of(front: Front, metric: str, place: str) -> Array:
    """Return a validation metric in natural sign, shape (n,).

    Raises
    ------
    InputError
        There is no validation metric of that name.
    """
    names = front.roles.metrics
    if metric not in names and str(metric).startswith("test_"):
        raise InputError(
            f"{place}: expected a validation metric, found {metric!r}; a choice made on test "
            "records voids what they say about the chosen solution"
        )
    require_known([metric], names, f"{place}: expected one of {', '.join(names)};")
    return front.rows.values[metric]


def loss_of(front: Front, metric: str, place: str) -> FloatArray:
    """Return a metric of a front as a loss, shape (n,); raise as :func:`column_of`."""
    column_of(front, metric, place)
    return loss(front.roles, metric, front.rows.values)


def _why_none(front: Front, conditions: Sequence[Condition]) -> str:
    """Return a sentence about the first condition that leaves no solution."""
    left = np.ones(len(front), dtype=bool)
    for condition in conditions:
        column = front.rows.values[condition.metric]
        if not (left & condition.holds(column)).any():
            break
        left &= condition.holds(column)
    column = column[left]
    best = column[np.argmin(np.abs(column - condition.value))]
    return (
        f"where {condition}: no solution is left; the best {condition.metric} among the "
        f"{len(column)} before it is {best:.12g}"
    )


def _by_id(front: Front, left: IntArray, id: int) -> int:
    position = np.flatnonzero(front.ids == id)
    if len(position) == 0:
        ids = first_few([*map(str, front.ids)])
        raise InputError(f"id: expected a solution of the front ({ids}), found {id}")
    if position[0] not in left:
        ids = first_few([*map(str, front.ids[left])])
        raise InputError(f"id: expected a solution that meets the conditions ({ids}), found {id}")
    return int(position[0])


def _checked(weights: Mapping[str, float]) -> Mapping[str, float]:
    if not weights or any(not w >= 0 for w in weights.values()) or not any(weights.values()):
        shown = ", ".join(f"{name}={weight:g}" for name, weight in weights.items()) or "none"
        raise InputError(f"weights: expected weights >= 0, one of them positive; found {shown}")
    return weights


def _number(text: str, place: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{place}: expected a number in {whole!r}, found {text!r}")
    return number


class Range(NamedTuple):
    """An interval of a parameter, and the position of the solution that is best in it."""

    position: int
    low: float
    high: float


@dataclass(frozen=True)
class ExpectedCost:
    """The expected cost of a record (Provost and Fawcett 2001).

    It is ``prior fn FNR + (1 - prior) fp FPR`` plus ``per_unit`` times further metrics. Metrics
    keep their own units: nothing is normalised.

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
        A cost is below 0, all costs are 0, or the prior is not between 0 and 1.
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

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that the cost is computed from."""
        return frozenset({FALSE_POSITIVES, FALSE_NEGATIVES, *self.per_unit})

    def of(self, values: Values) -> FloatArray:
        """Return the expected cost from values of the metrics, in their shape."""
        false_positives, false_negatives, rest = self._parts(values)
        return np.asarray(
            self.prior * self.fn * false_negatives
            + (1 - self.prior) * self.fp * false_positives
            + rest
        )

    def by_prior(self, front: Front) -> list[Range]:
        """Return which solution is best for each prior from 0 to 1, at the same costs."""
        false_positives, false_negatives, rest = self._parts(front.rows.values)
        start = self.fp * false_positives
        return lower_envelope(start + rest, self.fn * false_negatives - start, 1.0)

    def by_ratio(self, front: Front) -> list[Range]:
        """Return which solution is best for each ratio fn / fp, at the same fp and prior."""
        false_positives, false_negatives, rest = self._parts(front.rows.values)
        fixed = (1 - self.prior) * self.fp * false_positives + rest
        return lower_envelope(fixed, self.prior * self.fp * false_negatives, np.inf)

    def _parts(self, values: Values) -> tuple[FloatArray, FloatArray, FloatArray]:
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

    Of equal lines the first one counts. O(n) for each range.
    """
    t = 0.0
    ranges: list[Range] = []
    best = int(np.lexsort((slopes, starts))[0])
    # from the lowest line at t go on to the line that is the first to fall below it
    while True:
        falls = slopes[best] - slopes
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.where(falls > 0, (starts - starts[best]) / falls, np.inf)
        meets = np.maximum(meets, t)  # rounding may put a crossing before t
        upto = float(min(meets.min(), end))
        if upto > t or not ranges:
            ranges.append(Range(best, t, upto))
        if upto >= end:
            return ranges
        best = int(np.lexsort((slopes, np.where(meets == upto, 0, 1)))[0])
        t = upto
