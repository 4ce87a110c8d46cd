"""The best randomised mixture of a front's solutions, and what to expect of it on new records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from framework.analysis.choose import (
    Condition,
    Rule,
    column_of,
    constraints_of,
    loss,
    meets,
    parse_conditions,
)
from framework.analysis.ranges import Spread, mixed_spread, moments, promised, spreads
from framework.analysis.resamples import Resamples, nearest_of
from framework.arrays import FloatArray, IntArray
from framework.capabilities import TrivialClassifier
from framework.errors import InputError
from framework.front import Front, Promise
from framework.outcomes import Values
from framework.pareto import nondominated, pareto_layers

_NOTHING = 1e-9  # chances below this are rounding errors of the solver
_RESAMPLES, _MOST = 200, 5000  # most resamples, and candidates in each, of a mixture


@dataclass(frozen=True)
class Mixture:
    """Solutions of a front, one of which is drawn at random for each record.

    Attributes
    ----------
    positions : numpy.ndarray of int64, shape (members,)
        Positions in a front that may end with trivial classifiers (:func:`with_trivial`);
        ascending.
    chances : numpy.ndarray of float64, shape (members,)
        The probability of each member: above 0, summing to 1.
    expected : mapping of str to float
        The expected value of every metric that mixes.
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
        A metric that mixes: a mean over records, so that a mixture has the weighted mean of it.
    where : sequence of str or Condition
        Conditions on expected values of such metrics, with ``>=``, ``<=`` or ``==``.

    Raises
    ------
    InputError
        A metric is unknown or does not mix, a condition has another operator, or no mixture meets
        the conditions.

    Notes
    -----
    A linear programme over the chances, which extends Provost and Fawcett (2001) to any number of
    metrics. The simplex method returns a corner, which has at most one member more than there are
    conditions.
    """
    if not any(metric.mixes for metric in front.roles.metrics.values()):
        raise InputError(
            "mix: expected solutions whose metrics are means over all records, found none: lots "
            "drawn between two solutions do not have rates of answered records between theirs, nor "
            "areas under curves"
        )
    conditions = parse_conditions(where)
    _column(front, best, "best")
    columns = []
    for condition in conditions:
        columns.append(_column(front, condition.metric, "where"))
        if condition.operator not in ("==", "<=", ">="):
            raise InputError(
                f"where: expected >=, <= or == for a mixture, found {condition}; a mixture comes "
                "as near as one likes"
            )
    losses = partial(loss, front.roles, values=front.rows.values)
    mixing = [name for name in front.roles.names if front.roles.metrics[name].mixes]
    others = sum((_scaled(losses(name))[0] for name in mixing), np.zeros(len(front)))
    members = best_chances(losses(best), conditions, columns, others)
    if members is None:
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
    positions, chances = members
    expected = {
        name: float(chances @ front.rows.values[name][positions])
        for name, metric in front.roles.metrics.items()
        if metric.mixes
    }
    return Mixture(positions, chances, expected)


def best_chances(
    losses: FloatArray,
    conditions: Sequence[Condition],
    columns: Sequence[FloatArray],
    other_losses: FloatArray | None = None,
) -> tuple[IntArray, FloatArray] | None:
    """Return the members of the mixture with the least expected loss, and their chances.

    Parameters
    ----------
    losses : numpy.ndarray, shape (n,)
    conditions : sequence of Condition
        Conditions on expected values, with ``>=``, ``<=`` or ``==``.
    columns : sequence of numpy.ndarray, each shape (n,)
        The metric of each condition.
    other_losses : numpy.ndarray, shape (n,), optional
        What decides between mixtures of the same expected loss.

    Returns
    -------
    positions of int64 and chances of float64, each shape (members,), or None
        None if no mixture meets the conditions.

    Notes
    -----
    The best mixtures are a face of the polytope of all: those without a member of positive reduced
    cost, on the limits that have a price. The second linear programme is over that face.
    """
    from scipy.optimize import linprog

    above, limits, equal, values = [], [], [np.ones(len(losses))], [1.0]
    for condition, column in zip(conditions, columns, strict=True):
        scaled, bound = _scaled(column, condition.value)
        if condition.operator == "==":
            equal.append(scaled)
            values.append(bound)
        else:
            side = 1.0 if condition.operator == "<=" else -1.0
            above.append(side * scaled)
            limits.append(side * bound)
    A, b = np.reshape(above, (len(limits), len(losses))), np.array(limits)
    A_equal, b_equal = np.array(equal), np.array(values)
    program = partial(linprog, method="highs-ds")
    solved = program(_scaled(losses)[0], A_ub=A, b_ub=b, A_eq=A_equal, b_eq=b_equal)
    if solved.x is None:
        return None
    tied = solved.lower.marginals < _NOTHING
    if other_losses is not None and tied.sum() > 1:
        priced = solved.ineqlin.marginals < -_NOTHING
        again = program(
            _scaled(other_losses)[0],
            A_ub=A[~priced],
            b_ub=b[~priced],
            A_eq=np.concatenate([A_equal, A[priced]]),
            b_eq=np.concatenate([b_equal, b[priced]]),
            bounds=[(0.0, None if at else 0.0) for at in tied],
        )
        solved = solved if again.x is None else again
    members = np.flatnonzero(solved.x > _NOTHING).astype(np.int64)
    return members, solved.x[members] / solved.x[members].sum()


def _scaled(column: FloatArray, value: float = 0.0) -> tuple[FloatArray, float]:
    """Return a column from 0 to 1 and a value on its scale: what the solver's tolerances fit."""
    low = float(column.min())
    scale = float(np.ptp(column)) or abs(low) or 1.0
    return (column - low) / scale, (value - low) / scale


def _column(front: Front, name: str, place: str) -> FloatArray:
    """Return the values of a metric that mixes, shape (n,)."""
    column, metrics = column_of(front, name, place), front.roles.metrics
    mixing = [metric.name for metric in metrics.values() if metric.mixes]
    if not metrics[name].mixes:
        raise InputError(
            f"{place}: expected a metric whose values mix ({', '.join(mixing) or 'none here'}), "
            f"found {name!r}, which is no mean over records"
        )
    return np.asarray(column, dtype=np.float64)


def expect_mixture(
    resamples: Resamples,
    front: Front,
    positions: IntArray,
    mixture: Mixture,
    best: str,
    where: Sequence[str | Condition] = (),
    spread: Mapping[str, Sequence[Spread]] | None = None,
    trivial: Sequence[TrivialClassifier] = (),
) -> tuple[dict[str, Promise], float]:
    """Return what to expect of a mixture that :func:`mix` returned.

    In each of 200 resamples the best mixture of all designs is computed again.

    Parameters
    ----------
    resamples : Resamples
    front : Front
        The front that was mixed: solutions, then trivial classifiers.
    positions : numpy.ndarray of int64, shape (solutions,)
        The positions of its solutions among the candidates.
    mixture : Mixture
    best, where
        The arguments of :func:`mix`.
    spread : mapping of str to sequence of Spread, optional
        What the ranges of the solutions are computed from, by metric, in the order of
        ``positions``; as without refits if None.
    trivial : sequence of TrivialClassifier
        The classifiers that the ids -1, -2 and so on of the front stand for.

    Returns
    -------
    mapping of str to Promise
        The promise of each metric that mixes.
    float
        The share of resamples in which no mixture meets the conditions; they are left out.

    Raises
    ------
    InputError
        No mixture meets the conditions in any resample.

    Notes
    -----
    Only designs that are non-dominated in the resample, by ``best`` and the conditions, enter its
    mixture. Trivial classifiers without outcomes keep there the values that they have on all
    records.
    """
    roles, outcomes = front.roles, resamples.outcomes
    rule, constraints = Rule(front, where=where, best=best), constraints_of(roles)
    few, needs = resamples.first(_RESAMPLES), rule.needs
    names = [name for name in mixture.expected if name in outcomes.names]
    whole = {n: front.rows.values[n][len(positions) :, np.newaxis] for n in {*needs, *names}}
    always = {name: np.repeat(of, resamples.count, axis=1) for name, of in whole.items()}
    for row, id in enumerate(front.ids[len(positions) :].tolist()):
        if trivial and (of_records := trivial[-1 - id].outcomes) is not None:
            for name, values in of_records.metrics(resamples.weights, names=[*always]).items():
                if name in always:
                    always[name][row] = values[0]

    def wishes(values: Values) -> FloatArray:
        """Return losses (n, 1 + conditions or more): the best mixture has no dominated member."""
        losses = [rule.score(values)]
        for c in rule.where:  # a condition with == counts both ways
            losses += [values[c.metric]] if c.operator != ">=" else []
            losses += [-values[c.metric]] if c.operator != "<=" else []
        return np.stack(losses, axis=1)

    claimed = few.claimed(np.arange(outcomes.candidates), needs)
    pool = np.flatnonzero(~np.isnan(claimed[best]))
    if len(pool) > _MOST:
        layers = pareto_layers(wishes({n: claimed[n][pool] for n in needs}), np.zeros(len(pool)))
        pool = nearest_of(pool, layers, _MOST).candidates
    pieces = [values for _, values in few.pieces(pool, needs)]
    drawn = {name: np.concatenate([values[name] for values in pieces]) for name in needs}
    feasible = meets(constraints, roles, drawn)

    # the mixtures of the resamples: members (most members, resamples), -1 beyond the last one
    members = np.full((1 + len(rule.where), few.count), -1, dtype=np.int64)
    shares, met = np.zeros(members.shape), np.zeros(few.count, dtype=bool)
    shares_of_always = np.zeros((len(front.ids) - len(positions), few.count))
    for b in range(few.count):
        rows = np.flatnonzero(feasible[:, b])
        values = {name: np.append(drawn[name][rows, b], always[name][:, b]) for name in needs}
        losses = wishes(values)
        front_of_b = np.flatnonzero(nondominated(losses))
        columns = [values[c.metric][front_of_b] for c in rule.where]
        solved = best_chances(losses[front_of_b, 0], rule.where, columns)
        if solved is None:
            continue
        picks, met[b] = front_of_b[solved[0]], True
        model = picks < len(rows)  # the others are trivial classifiers
        shares_of_always[picks[~model] - len(rows), b] = solved[1][~model]
        members[: model.sum(), b] = pool[rows[picks[model]]]
        shares[: model.sum(), b] = solved[1][model]
    if not met.any():
        raise InputError(
            f"where: no mixture meets the conditions in any of {few.count} resamples of the "
            "records; nothing can be expected of it"
        )
    inside = mixture.positions < len(positions)
    chances, parts = mixture.chances[inside], mixture.positions[inside]
    if spread is None:
        of_solutions = resamples.metrics(positions, names)
        spread = spreads(resamples, positions, of_solutions, roles.metrics)
    of_members, gains = resamples.metrics(positions[parts], names), few.gains(members, names)
    promises = {}
    for name in names:
        metric = roles.metrics[name]
        constant = (
            mixture.chances[~inside] @ always[name][mixture.positions[~inside] - len(positions)]
        )
        variance = moments(chances @ of_members[name] + constant)[1]
        of_mixture = mixed_spread([spread[name][i] for i in parts], chances, variance, metric)
        gained = np.where(members >= 0, shares * gains[name], 0.0).sum(axis=0)
        gained += (shares_of_always * (always[name][:, : few.count] - whole[name])).sum(axis=0)
        promises[name] = promised(mixture.expected[name], gained[met], metric, of_mixture)
    return promises, 1 - float(met.mean())
