"""What to expect of a chosen solution on new records: the luck of choosing, by resamples.

A figure that was chosen for being high is too high. How much is told by resamples of the records
(Efron and Tibshirani 1993, Chapter 17): in each, the user's rule picks again among all candidates
evaluated, and its pick has a better figure there than on all records. The mean of these
differences is the rule's optimism; what to expect is the claimed figure less the optimism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.analysis.choose import (
    Condition,
    ExpectedCost,
    Margin,
    Mixture,
    best_chances,
    column_of,
    loss_of,
    parse_condition,
    parse_margin,
)
from framework.analysis.ranges import Spread, mixed_spread, moments, promised, spreads
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.front import Front, Promise
from framework.jit import njit
from framework.outcomes import RecordOutcomes, resample_weights
from framework.pareto import nondominated, pareto_layers
from framework.roles import Roles
from framework.streams import resample_stream

RESAMPLES, FEWEST_RESAMPLES = 500, 100
_DRAWN = 25_000_000  # records x resamples: beyond 50,000 records there are fewer of the latter
PILOT = 32  # resamples that tell which candidates cannot win any
_FAR = 4.0  # standard errors behind the winners, or beyond a limit, from which none wins
_VALUES = 1 << 17  # of a metric in memory at a time: they stay in the processor's cache
_FEWEST = 200  # candidates that are looked at whatever they take
_WORK = 4e9  # candidates x records x resamples of one call: about a second of one core
_MIXED, _MOST_MIXED = 200, 5000  # resamples and candidates of a mixture

Values = Mapping[str, FloatArray]


class Rule:
    """Conditions, margins and one way to pick, as :func:`~framework.analysis.choose.choose` has.

    Parameters
    ----------
    front : Front
        The front of all records: normalised losses are scaled by it, in every resample.
    where, within, best, knee, weights, expected
        As of :func:`~framework.analysis.choose.choose`. The run's constraints are conditions too.

    Attributes
    ----------
    conditions : tuple of Condition
    needs : frozenset of str
        The metrics that it reads.
    metrics : mapping of str to Metric

    Raises
    ------
    InputError
        An unknown metric.
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
        roles = front.roles
        self.given = tuple(parse_condition(c) if isinstance(c, str) else c for c in where)
        self.conditions = (*constraints_of(roles), *self.given)
        self.margins = tuple(parse_margin(m) if isinstance(m, str) else m for m in within)
        left = np.ones(len(front), dtype=bool)
        for condition in self.given:
            left &= condition.holds(column_of(front, condition.metric, "where"))
        for margin in self.margins:
            losses = loss_of(front, margin.metric, "within")
            left[left] = margin.holds(losses[left])
        if not left.any():  # nothing claims to meet them: some may yet do so in a resample
            left[:] = True
        self._signs = {name: sign_of(roles, name) for name in roles.metrics}
        self._tied = roles.names
        read = {*roles.names, *(c.metric for c in self.conditions)}
        read |= {m.metric for m in self.margins}
        if best is not None:
            loss_of(front, best, "best")
            self._score: Callable[[Values], FloatArray] = lambda values: self._loss(values, best)
            read.add(best)
        elif expected is not None:
            self._score = expected.of_values
            read |= expected.metrics
        else:
            names = list(roles.names if weights is None else weights)
            scales = {}
            for name in names:
                losses = loss_of(front, name, "weights")[left]
                low, high = losses.min(), losses.max()
                scales[name] = low, (high - low if high > low else 1.0)
            self._score = lambda values: self._combined(values, scales, weights)
            read |= set(names)
        self.needs = frozenset(read)
        self.metrics = roles.metrics

    def score(self, values: Values) -> FloatArray:
        """Return what the rule minimises."""
        return self._score(values)

    def slacks(self, values: Values) -> Iterator[FloatArray]:
        """Yield for each condition by how much it holds; negative where it does not."""
        for condition in self.conditions:
            column = values[condition.metric]
            if condition.operator == "==":
                yield -np.abs(column - condition.value)
            else:
                above = condition.operator in (">", ">=")
                yield column - condition.value if above else condition.value - column

    def holds(self, values: Values) -> BoolArray:
        """Return where all conditions hold and the candidate could be evaluated."""
        held = ~np.isnan(values[self._tied[0]])
        for condition in self.conditions:
            held &= condition.holds(values[condition.metric])
        return held

    def keys(self, values: Values) -> tuple[tuple[FloatArray, ...], FloatArray]:
        """Return what decides, in turn, and 1 or -1 for what is minimised or maximised."""
        columns = [self.score(values), *(values[name] for name in self._tied)]
        signs = [1.0, *(self._signs[name] for name in self._tied)]
        return tuple(np.ascontiguousarray(column) for column in columns), np.array(signs)

    def _loss(self, values: Values, name: str) -> FloatArray:
        return np.asarray(self._signs[name] * values[name])

    def margin_losses(self, values: Values, margin: Margin) -> FloatArray:
        """Return the losses that a margin looks at."""
        return self._loss(values, margin.metric)

    def _combined(
        self,
        values: Values,
        scales: Mapping[str, tuple[float, float]],
        weights: Mapping[str, float] | None,
    ) -> FloatArray:
        """Return the distance to the ideal point of all records, or a weighted sum."""
        total = np.zeros(next(iter(values.values())).shape)
        for name, (low, span) in scales.items():
            scaled = (self._loss(values, name) - low) / span
            if weights is None:  # better than the ideal is no distance
                total += np.maximum(scaled, 0.0) ** 2
            else:
                total += weights[name] * scaled
        return total if weights is not None else np.sqrt(total)


def constraints_of(roles: Roles) -> list[Condition]:
    """Return the run's constraints as conditions."""
    return [Condition(*limit) for limit in roles.limits_of_constraints()]


def sign_of(roles: Roles, name: str) -> float:
    """Return what a metric is multiplied with to be a loss: -1 where it is maximised."""
    return -1.0 if roles.sense(name) == "max" else 1.0


@njit
def _improve(
    keys: tuple[FloatArray, ...],
    signs: FloatArray,
    allowed: BoolArray,
    numbers: IntArray,
    best: FloatArray,
    picks: IntArray,
) -> None:
    """Let candidates, in the order of their numbers, replace the best so far of each resample."""
    count, resamples = allowed.shape
    for i in range(count):
        for b in range(resamples):
            if not allowed[i, b]:
                continue
            better = picks[b] < 0
            for q in range(len(signs)):
                if better:
                    break
                value = signs[q] * keys[q][i, b]
                if value > best[q, b]:
                    break
                better = value < best[q, b]
            if better:
                picks[b] = numbers[i]
                for q in range(len(signs)):
                    best[q, b] = signs[q] * keys[q][i, b]


class Resamples:
    """Resamples of the records of a run, and what candidates do in them.

    Parameters
    ----------
    outcomes : RecordOutcomes
        Of every candidate evaluated, by ascending id, each design once.
    seed : int
        The run's: the same run has the same resamples, whoever asks.
    resamples : int, optional
        500; of more than 50,000 records fewer, down to 100 from 250,000 on: what they tell of so
        many records is small.

    Attributes
    ----------
    weights : numpy.ndarray of float32, shape (records, resamples)
    units : int
        How many units are drawn in each.
    """

    def __init__(self, outcomes: RecordOutcomes, seed: int, resamples: int | None = None) -> None:
        if resamples is None:
            resamples = max(min(RESAMPLES, _DRAWN // outcomes.records), FEWEST_RESAMPLES)
        self.outcomes, self.count = outcomes, resamples
        self.units = int(outcomes.units.max()) + 1
        self.weights = resample_weights(outcomes.units, resamples, resample_stream(seed))
        self._everyone = np.ones((outcomes.records, 1), dtype=np.float32)

    def claimed(self, candidates: IntArray) -> Values:
        """Return metrics on all records, shape (candidates,)."""
        found = self.outcomes.metrics(self._everyone, candidates)
        return {name: column[:, 0] for name, column in found.items()}

    def pool(self, rule: Rule) -> tuple[IntArray, bool]:
        """Return the candidates that may win a resample, and whether all of these are there.

        By the first 32 resamples: a candidate is left out where it breaks a condition by more than
        four standard errors, or is on average more than four standard errors (of the difference)
        behind the best one of each resample; 99 to 100% of picks were the same as without. Where
        those that are left would take more than about a second, the nearest are kept.
        """
        outcomes, few = self.outcomes, self.weights[:, :PILOT]
        n = outcomes.candidates
        score, distance = np.empty((n, few.shape[1])), np.zeros(n)
        best = np.full(few.shape[1], np.inf)
        for part in parts(np.arange(n), few.shape[1]):
            values = outcomes.metrics(few, part, rule.needs)
            score[part] = rule.score(values)
            best = np.minimum(best, np.where(rule.holds(values), score[part], np.inf).min(axis=0))
            for slack in rule.slacks(values):
                beyond = behind(-slack.mean(axis=1), slack.std(axis=1))
                distance[part] = np.maximum(distance[part], beyond)
        distance[np.isnan(score).any(axis=1)] = np.inf
        met = np.isfinite(best)
        if met.any() and not rule.margins:
            gap = score[:, met] - best[met]
            distance = np.maximum(distance, behind(gap.mean(axis=1), gap.std(axis=1)))
        near = np.flatnonzero(distance <= _FAR)
        most = max(int(_WORK / (outcomes.records * self.count)), _FEWEST)
        if len(near) <= most:
            return near, True
        return np.sort(near[np.argsort(distance[near], kind="stable")[:most]]), False

    def picks(self, rule: Rule, pool: IntArray) -> IntArray:
        """Return which candidate the rule picks in each resample, -1 for none, shape (B,)."""
        limits: list[tuple[Margin, FloatArray]] = []
        for margin in rule.margins:
            least = np.full(self.count, np.inf)
            for part in parts(pool, self.count):
                values = self.outcomes.metrics(self.weights, part, rule.needs)
                losses = np.where(
                    _allowed(rule, values, limits), rule.margin_losses(values, margin), np.inf
                )
                least = np.minimum(least, losses.min(axis=0))
            amount = margin.amount * np.abs(least) if margin.relative else margin.amount
            limits.append((margin, least + amount))
        best = np.full((1 + len(rule._tied), self.count), np.inf)
        picks = np.full(self.count, -1, dtype=np.int64)
        for part in parts(pool, self.count):
            values = self.outcomes.metrics(self.weights, part, rule.needs)
            _improve(*rule.keys(values), _allowed(rule, values, limits), part, best, picks)
        return picks

    def gains(self, picks: IntArray, met: IntArray) -> Values:
        """Return how much better picks are in their resample than on all records.

        Parameters
        ----------
        picks : numpy.ndarray of int64, shape (B,)
        met : numpy.ndarray of int64, shape (n,)
            The resamples that have a pick.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (n,)
        """
        some, row = np.unique(picks[met], return_inverse=True)
        row = row.ravel()
        drawn = self.weights[:, met]
        own = {name: np.empty(len(met)) for name in self.outcomes.names}
        for part in parts(np.arange(len(some)), len(met)):
            here = np.flatnonzero((row >= part[0]) & (row <= part[-1]))
            at = row[here] - part[0], np.arange(len(here))
            for name, values in self.outcomes.metrics(drawn[:, here], some[part]).items():
                own[name][here] = values[at]
        whole = self.claimed(some)
        return {name: own[name] - whole[name][row] for name in own}


def behind(gap: FloatArray, error: FloatArray) -> FloatArray:
    """Return a gap in standard errors; a positive one without any error is never made up."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap > 0, np.where(error > 0, gap / error, np.inf), 0.0)


def _allowed(rule: Rule, values: Values, limits: Sequence[tuple[Margin, FloatArray]]) -> BoolArray:
    held = rule.holds(values)
    for margin, limit in limits:
        held &= rule.margin_losses(values, margin) <= limit
    return held


def parts(candidates: IntArray, columns: int) -> Iterator[IntArray]:
    """Yield candidates in pieces that fit into the cache with so many columns of values."""
    step = max(_VALUES // max(columns, 1), 1)
    for start in range(0, len(candidates), step):
        yield candidates[start : start + step]


@dataclass(frozen=True)
class Expectation:
    """What to expect of a solution that a rule picked.

    Attributes
    ----------
    of : mapping of str to Promise
        Every metric.
    again : float
        Share of the resamples in which the rule picks this design again.
    others : int
        How many other designs it picks in the rest.
    unmet : float
        Share of the resamples in which no design meets the conditions; they are left out.
    designs, resampled : int
        How many designs were evaluated, and how many of them may win a resample.
    whole : bool
        Whether all those that may win were looked at.
    beside : int
        How many of the designs were not evaluated: they are like those of an exact front.
    """

    of: Mapping[str, Promise]
    again: float
    others: int
    unmet: float
    designs: int
    resampled: int
    whole: bool
    beside: int = 0


def expect(
    resamples: Resamples, rule: Rule, position: int, spread: Mapping[str, Spread] | None = None
) -> Expectation:
    """Return what to expect of the candidate that a rule picked.

    Parameters
    ----------
    resamples : Resamples
    rule : Rule
    position : int
        The candidate's, among the outcomes.
    spread : mapping of str to Spread, optional
        What its ranges are made of, by metric; as without refits if None.

    Raises
    ------
    InputError
        No resample has a candidate that meets the conditions.
    """
    outcomes = resamples.outcomes
    pool, whole = resamples.pool(rule)
    if position not in pool:
        pool = np.union1d(pool, [position])
    picks = resamples.picks(rule, pool)
    met = np.flatnonzero(picks >= 0)
    if not len(met):
        raise InputError(
            f"where: no design meets the conditions in any of {resamples.count} resamples of the "
            "records; nothing can be expected of such a pick"
        )
    gains, at = resamples.gains(picks, met), np.array([position])
    if spread is None:
        own = outcomes.metrics(resamples.weights, at)
        alone = spreads(outcomes, resamples.units, at, own, rule.metrics)
        spread = {name: one[0] for name, one in alone.items()}
    of = {
        name: promised(float(column[0]), gains[name], rule.metrics[name], spread[name])
        for name, column in resamples.claimed(at).items()
        if name in spread  # the description of a run that was sent may lack one
    }
    return Expectation(
        of,
        again=float(np.mean(picks == position)),
        others=len(np.setdiff1d(picks[met], [position])),
        unmet=1 - len(met) / len(picks),
        designs=outcomes.candidates,
        resampled=len(pool),
        whole=whole,
    )


def expect_mixture(
    resamples: Resamples,
    front: Front,
    positions: IntArray,
    mixture: Mixture,
    best: str,
    where: Sequence[str | Condition] = (),
    spread: Mapping[str, Sequence[Spread]] | None = None,
) -> tuple[dict[str, Promise], float]:
    """Return what to expect of a mixture that :func:`~framework.analysis.choose.mix` found.

    In each of 200 resamples the best mixture of all designs is found anew.

    Parameters
    ----------
    resamples : Resamples
    front : Front
        With the trivial classifiers behind its solutions, as the mixture is of.
    positions : numpy.ndarray of int64, shape (solutions,)
        Where its solutions are among the candidates.
    mixture : Mixture
    best, where
        As it was asked for.
    spread : mapping of str to sequence of Spread, optional
        What the ranges of its solutions are made of, in the order of ``positions``, by metric; as
        without refits if None.

    Returns
    -------
    mapping of str to Promise
        By metric that mixes.
    float
        The share of resamples in which no mixture meets the conditions; they are left out.

    Raises
    ------
    InputError
        None meets them in any.

    Notes
    -----
    Of the designs those are looked at that no other one beats, in the resample, in what is wanted
    and in each condition. A trivial classifier has in a resample what it has on all records.
    """
    roles, outcomes = front.roles, resamples.outcomes
    conditions = [parse_condition(c) if isinstance(c, str) else c for c in where]
    limits = constraints_of(roles)
    weights = resamples.weights[:, :_MIXED]
    names = [name for name in mixture.expected if name in outcomes.names]
    needs = {best, *(c.metric for c in (*conditions, *limits))}
    trivial = {name: front.rows.values[name][len(positions) :] for name in needs}

    def wanted(values: Values) -> FloatArray:
        """Return what no other one may beat, as losses (n, 1 + conditions or more)."""
        losses = [sign_of(roles, best) * values[best]]
        for c in conditions:
            losses += [values[c.metric]] if c.operator != ">=" else []
            losses += [-values[c.metric]] if c.operator != "<=" else []
        return np.stack(losses, axis=1)

    pool, claimed = (
        np.arange(outcomes.candidates),
        resamples.claimed(np.arange(outcomes.candidates)),
    )
    pool = pool[~np.isnan(claimed[best])]
    if len(pool) > _MOST_MIXED:
        layers = pareto_layers(wanted({n: claimed[n][pool] for n in needs}), np.zeros(len(pool)))
        pool = np.sort(pool[np.argsort(layers, kind="stable")[:_MOST_MIXED]])
    found = [outcomes.metrics(weights, part, needs) for part in parts(pool, weights.shape[1])]
    drawn = {name: np.concatenate([values[name] for values in found]) for name in needs}
    held = np.ones(drawn[best].shape, dtype=bool)
    for c in limits:
        held &= c.holds(drawn[c.metric])
    gains: dict[str, list[float]] = {name: [] for name in names}
    for b in range(weights.shape[1]):
        here = np.flatnonzero(held[:, b])
        values = {name: np.append(drawn[name][here, b], trivial[name]) for name in needs}
        losses = wanted(values)
        kept = np.flatnonzero(nondominated(losses))
        columns = [values[c.metric][kept] for c in conditions]
        mixed = best_chances(losses[kept, 0], conditions, columns)
        if mixed is None:
            continue
        picks, chances = kept[mixed[0]], mixed[1]
        at, chances = pool[here[picks[picks < len(here)]]], chances[picks < len(here)]
        there = outcomes.metrics(weights[:, [b]], at, names)
        for name in names:
            gains[name].append(float(chances @ (there[name][:, 0] - claimed[name][at])))
    met = len(gains[names[0]])
    if not met:
        raise InputError(
            f"where: no mixture meets the conditions in any of {weights.shape[1]} resamples of the "
            "records; nothing can be expected of it"
        )
    inside = mixture.positions < len(positions)
    chances = mixture.chances[inside]
    if spread is None:
        members = outcomes.metrics(resamples.weights, positions, names)
        spread = spreads(outcomes, resamples.units, positions, members, roles.metrics)
    ours = outcomes.metrics(resamples.weights, positions[mixture.positions[inside]], names)
    of = {}
    for name in names:
        rest = mixture.chances[~inside] @ front.rows.values[name][mixture.positions[~inside]]
        variance = moments(chances @ ours[name] + rest)[1]
        parts_of = [spread[name][i] for i in mixture.positions[inside]]
        mixed_of = mixed_spread(parts_of, chances, variance, roles.metrics[name])
        gained = np.array(gains[name])
        of[name] = promised(mixture.expected[name], gained, roles.metrics[name], mixed_of)
    return of, 1 - met / weights.shape[1]
