"""The exact front of risk and cost where stages decide by costs, by dynamic programming.

As :mod:`~algorithms.multistage.exact.dynamic_programming`, with what errors cost in place of their
number: a state is a set of acquired features, the undecided records, and what was spent so far on
errors, features and stages. P1 to P3 hold as there. Where each stage has a threshold of its own, a
state is followed at each of them; one for all stages is a search for each value.

P4 asks for a known point that is at least as good as the least that is still to be lost and paid,
record by record: the least that any larger set loses on it, no answer included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.multistage.bit_planes import unpack
from algorithms.multistage.exact.chains import genomes_of
from algorithms.multistage.exact.dynamic_programming import (
    Limits,
    Stop,
    first_states,
    follow,
    octet_scratch,
    scratch,
)
from algorithms.multistage.exact.dynamic_steps import (
    FULL_POINTS,
    FULL_STATES,
    RiskPoints,
    Sets,
    States,
    covered,
    look_ahead,
    octet_sums,
    rest_at_least,
    thin_out,
    to_front,
)
from algorithms.multistage.kernels.scoring import Rule, popcount
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray, frozen
from framework.jit import njit
from framework.pareto import nondominated

_LARGEST = np.int64(2**62)


@dataclass(frozen=True)
class RiskTables:
    """What the sub-classifier of each feature set says of each validation record.

    Attributes
    ----------
    sure : numpy.ndarray of uint64, shape (thresholds, 2^n, words)
        Which records a stage answers; row 0 of each, of no feature, is 0. Any stage but the last.
    last : numpy.ndarray of uint64, shape (words,)
        Which records all features answer after the last stage.
    errors : numpy.ndarray of uint64, shape (error planes, 2^n, words)
        Errors of those answers that a last stage would give.
    weights : numpy.ndarray of int64, shape (error planes,)
        What a bit of each plane costs.
    no_answer : int
        What a record without an answer costs.
    everyone : numpy.ndarray of uint64, shape (words,)
    records : int
    """

    sure: WordArray
    last: WordArray
    errors: WordArray
    weights: IntArray
    no_answer: int
    everyone: WordArray
    records: int


def risk_tables(bits: WordArray, rule: Rule, everyone: WordArray, records: int) -> RiskTables:
    """Return the tables, of the planes (2^n, planes, words) of each feature set."""
    planes = np.ascontiguousarray(bits.transpose(1, 0, 2))
    errors, sure = planes[rule.errors : rule.sure], planes[rule.sure :]
    last = np.ascontiguousarray(planes[0, -1])
    return RiskTables(sure, last, errors, rule.weights, int(rule.no_answer), everyone, records)


@dataclass(frozen=True)
class RiskFront:
    """Points of objective values, each with a design that has these values.

    Attributes
    ----------
    loss, cost, answered : numpy.ndarray of int64, shape (m,)
        What errors and no answers cost and what features do, over all records in fixed point;
        records with an answer.
    chains, levels : numpy.ndarray of int, shape (m, n)
        Sets acquired up to each stage but the last, the largest first, and the number of the
        threshold there; 0 where there is no such stage.
    """

    loss: IntArray
    cost: IntArray
    answered: IntArray
    chains: Array
    levels: Array

    chromosomes: ClassVar[None] = None  # they are not counted

    def __len__(self) -> int:
        return len(self.loss)

    def take(self, rows: BoolArray | IntArray) -> RiskFront:
        """Return the points under a mask or at positions."""
        columns = self.loss, self.cost, self.answered, self.chains, self.levels
        return RiskFront(*(column[rows] for column in columns))

    def genomes(self, n: int, levels: int) -> IntArray:
        """Return the stage of each of ``n`` features, from 0, and then ``levels`` thresholds."""
        X = np.zeros((len(self), n + levels), dtype=np.int64)
        X[:, :n] = genomes_of(self.chains, n)
        for x, chain, at in zip(X, self.chains, self.levels, strict=True):
            first = at[: np.count_nonzero(chain)][::-1]  # of the first stage first
            x[n : n + min(levels, len(first))] = first[:levels]
        return X

    def values(self, records: int, cost_scale: int) -> dict[str, FloatArray]:
        """Return the metrics in their units, as the problem computes them."""
        whole = cost_scale * records
        return {
            "risk": self.loss / whole,
            "total_cost": (self.loss + self.cost) / whole,
            "cost": self.cost / whole,
            "coverage": self.answered / records,
        }


class Losses(NamedTuple):
    """What the steps read of :class:`RiskTables`, and ``least`` (2^n, records).

    ``least`` is what the best of the larger sets loses on a record, no answer included.
    ``counts`` says whether coverage is an objective.
    """

    sure: WordArray
    last: WordArray
    errors: WordArray
    weights: IntArray
    no_answer: int
    least: IntArray
    counts: bool


def front_by_risk(
    tables: RiskTables,
    price: IntArray,
    k: int,
    limits: Limits,
    *,
    per_stage: bool,
    coverage: bool,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[RiskFront, Stop | None]:
    """Return the front of loss and cost over all chains of at most ``k`` sets.

    Parameters
    ----------
    tables : RiskTables
    price : numpy.ndarray of int64, shape (2^n,)
        Of every set, fixed-point; no set costs more than one that contains it.
    k : int
        Greatest number of stages.
    limits : Limits
    per_stage : bool
        Whether each stage has a threshold of its own.
    coverage : bool
        Whether the number of records answered is an objective too.
    report : callable
        Called with the number of feature sets that are done, and the number of all.

    Returns
    -------
    RiskFront, {'memory', 'time'} or None
        Not the whole front where a limit was reached, which is then named.

    Notes
    -----
    3^n times the states of a set and the values of a threshold.
    """
    n, values = len(price).bit_length() - 1, len(tables.sure)
    points = _start(tables, price, n)
    if k == 1:
        return _found(points, coverage), None
    groups = [np.arange(values)] if per_stage else [np.array([g]) for g in range(values)]
    order = np.arange(1, len(price) - 1)
    recent, steps = scratch()
    for number, levels in enumerate(groups):
        undecided = ~tables.sure[levels].max(axis=0) & tables.everyone  # the loosest holds them all
        undecided[-1] = ~tables.last & tables.everyone
        sets = _looked_ahead(tables, undecided, price)
        losses = Losses(
            np.ascontiguousarray(tables.sure[levels]),
            tables.last,
            tables.errors,
            tables.weights,
            tables.no_answer,
            _least(tables, undecided),
            coverage,
        )
        sums = np.stack([octet_scratch(sets)] * 2)
        step = partial(expand, k, int(levels[0]), sets, losses, sums, recent, steps)
        states = first_states(tables.everyone, tables.records, len(price), np.int64)
        done_before = number * len(order)

        def tell(done: int, total: int, before: int = done_before) -> None:
            report(before + done, len(groups) * total)

        _, points, _, stopped = follow(order, step, states, points, limits, steps, tell)
        if stopped is not None:
            return _found(points, coverage), stopped
    return _found(points, coverage), None


def _start(tables: RiskTables, price: IntArray, n: int) -> RiskPoints:
    """Return the point of the design of one stage."""
    room = 64
    loss, cost, given = np.zeros((3, room), dtype=np.int64)
    lost = np.bitwise_count(tables.errors[:, -1] & tables.last).sum(axis=1, dtype=np.int64)
    given[0] = np.bitwise_count(tables.last).sum()
    loss[0] = lost @ tables.weights + tables.no_answer * (tables.records - given[0])
    cost[0] = tables.records * price[-1]
    chains, levels = np.zeros((2, room, n), dtype=np.int32)
    return RiskPoints(np.array([1]), loss, cost, given, chains, levels)


def _looked_ahead(tables: RiskTables, undecided: WordArray, price: IntArray) -> Sets:
    nothing, reach, hope = np.zeros((3, *undecided.shape), dtype=np.uint64)
    cheapest = np.zeros((len(price), tables.records), dtype=np.int64)
    sets = Sets(price, undecided, nothing, reach, hope, cheapest)
    look_ahead(sets, nothing)
    return sets


def _least(tables: RiskTables, undecided: WordArray) -> IntArray:
    """Return the least that a larger set loses on each record, shape (2^n, records)."""
    own = np.zeros((len(undecided), tables.records), dtype=np.int64)
    for plane, weight in zip(tables.errors, tables.weights.tolist(), strict=True):
        own += weight * unpack(plane, tables.records).astype(np.int64)
    open_here = unpack(undecided, tables.records).astype(bool)
    own[open_here] = _LARGEST
    own[-1, open_here[-1]] = tables.no_answer
    best = own.copy()  # of a set and of those that contain it
    for i in range(len(own).bit_length() - 1):
        without = np.flatnonzero((np.arange(len(own)) >> i & 1) == 0)
        best[without] = np.minimum(best[without], best[without | 1 << i])
    least = np.full_like(own, _LARGEST)
    for i in range(len(own).bit_length() - 1):
        without = np.flatnonzero((np.arange(len(own)) >> i & 1) == 0)
        least[without] = np.minimum(least[without], best[without | 1 << i])
    return frozen(least)


def _found(points: RiskPoints, coverage: bool) -> RiskFront:
    size = int(points.size[0])
    found = RiskFront(*(column[:size].copy() for column in points[1:]))
    columns = [found.loss, found.cost] + ([-found.answered] if coverage else [])
    return found.take(nondominated(np.column_stack(columns).astype(np.float64)))


@njit
def beaten(points: RiskPoints, loss: int, cost: int, answered: int, counts: bool) -> bool:
    """Return whether a known point is as good."""
    last = np.searchsorted(points.cost[: points.size[0]], cost, side="right")
    for i in range(last - 1, -1, -1):
        if points.loss[i] <= loss and (not counts or points.answered[i] >= answered):
            return True
        if not counts:  # the dearest of them loses least
            return False
    return False


@njit
def enter(
    points: RiskPoints,
    loss: int,
    cost: int,
    answered: int,
    counts: bool,
    states: States,
    last: int,
    here: int,
    level: int,
) -> bool:
    """Enter a chain that ends with ``here`` after the state ``last``; False where there is no room.

    ``level`` is the number of the threshold of ``here``. Points that it is as good as go.
    """
    if beaten(points, loss, cost, answered, counts):
        return True
    kept = 0
    for i in range(points.size[0]):
        worse = points.cost[i] >= cost and points.loss[i] >= loss
        if not (worse and (not counts or points.answered[i] <= answered)):
            _move(points, i, kept)
            kept += 1
    points.size[0] = kept
    if kept == len(points.cost):
        return False
    at = np.searchsorted(points.cost[:kept], cost)
    for i in range(kept, at, -1):
        _move(points, i - 1, i)
    points.loss[at], points.cost[at], points.answered[at] = loss, cost, answered
    points.chains[at, :], points.levels[at, :] = 0, 0
    points.chains[at, 0], points.levels[at, 0] = here, level
    depth = 1
    while last > 0:
        set_of, level_of = states.owner[last] >> 7, states.owner[last] & 127
        points.chains[at, depth], points.levels[at, depth] = set_of, level_of
        depth += 1
        last = states.parent[last]
    points.size[0] = kept + 1
    return True


@njit
def _move(points: RiskPoints, source: int, target: int) -> None:
    if source != target:
        points.loss[target], points.cost[target] = points.loss[source], points.cost[source]
        points.answered[target] = points.answered[source]
        points.chains[target] = points.chains[source]
        points.levels[target] = points.levels[source]


@njit
def expand(
    k: int,
    level: int,
    sets: Sets,
    losses: Losses,
    sums: IntArray,
    recent: IntArray,
    steps: IntArray,
    here: int,
    first: int,
    states: States,
    points: RiskPoints,
) -> int:
    """Make the states of set ``here`` from those of its subsets, and complete them.

    Parameters
    ----------
    k : int
        Greatest number of stages.
    level : int
        Number of the first threshold; the others follow.
    sums, recent
        Scratch, (2, 8 * words, 256) and (list,).
    steps
        ``steps[0]`` grows by the states of subsets that were looked at.
    here : int
        A set, not of all features; its subsets were expanded.
    first : int
        Row of its first state.

    Returns
    -------
    int
        End of its states, or which room is short.

    Notes
    -----
    ``owner`` of a state has the set and, in its lowest seven bits, the number of the threshold.
    """
    words = sets.undecided.shape[1]
    full = len(sets.price) - 1
    records = sets.cheapest.shape[1]
    capacity = len(states.cost)
    counted = 1 if k < popcount(np.uint64(full)) else 0  # where all chains fit, stages are free
    goes_on = popcount(np.uint64(full & ~here)) > 1
    octet_sums(sets.cheapest[here], sums[0])
    octet_sums(losses.least[here], sums[1])
    new, count = first, 0
    part = here
    while part:  # all proper subsets, from the largest down to the empty one
        part = (part - 1) & here
        step = sets.price[here] - sets.price[part]
        steps[0] += (states.stop[part] - states.first[part]) * len(losses.sure)
        for old in range(states.first[part], states.stop[part]):
            for g in range(len(losses.sure)):
                left, gone = np.int64(0), np.int64(0)
                for w in range(words):
                    mask = states.waiting[old, w]
                    states.waiting[new, w] = mask & ~losses.sure[g, here, w]
                    left += popcount(states.waiting[new, w])
                    gone += popcount(mask & losses.sure[g, here, w])
                if gone == 0:  # a stage that answers no record is skipped (P3)
                    continue
                wrong = int(states.wrong[old])
                for p in range(len(losses.weights)):
                    errors = np.int64(0)
                    for w in range(words):
                        mask = states.waiting[old, w] & losses.sure[g, here, w]
                        errors += popcount(mask & losses.errors[p, here, w])
                    wrong += int(losses.weights[p] * errors)
                cost = states.cost[old] + states.left[old] * step
                states.left[new], states.wrong[new], states.cost[new] = left, wrong, cost
                states.stages[new] = states.stages[old] + counted
                if covered(states, new, recent, count):
                    continue
                never = np.int64(0)
                for w in range(words):
                    never += popcount(states.waiting[new, w] & ~sets.reach[here, w])
                loss_at_least = wrong + rest_at_least(states.waiting[new], sums[1])
                cost_at_least = cost + rest_at_least(states.waiting[new], sums[0])
                most = records - never
                if beaten(points, loss_at_least, cost_at_least, most, losses.counts):
                    continue
                end, lost = 0, wrong
                for w in range(words):
                    end += popcount(states.waiting[new, w] & ~losses.last[w])
                for p in range(len(losses.weights)):
                    errors = np.int64(0)
                    for w in range(words):
                        mask = states.waiting[new, w] & losses.last[w]
                        errors += popcount(mask & losses.errors[p, full, w])
                    lost += int(losses.weights[p] * errors)
                lost += losses.no_answer * end
                paid = cost + left * (sets.price[full] - sets.price[here])
                given, at = records - end, level + g
                if not enter(points, lost, paid, given, losses.counts, states, old, here, at):
                    return FULL_POINTS
                if left == 0 or not goes_on or (counted and states.stages[new] + 2 > k):
                    continue
                states.owner[new], states.parent[new] = here << 7 | at, old
                count = to_front(recent, count, new)
                new += 1
                if new == capacity:
                    return FULL_STATES
    if 2 * new - first > capacity:
        return FULL_STATES
    return thin_out(states, first, new, new, recent)
