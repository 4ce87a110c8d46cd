"""The exact front of any number of stages, by dynamic programming over sets and records.

A state is a set of acquired features, the records that are still undecided, and what was spent so
far: wrong answers, cost, stages. What can follow depends only on the set and on the undecided
records, so many states of a set need not be followed:

P1  Of states with the same undecided records, only those with Pareto-optimal (wrong, cost, stages)
    are kept.
P2  A state is dropped if another one has a subset of its undecided records and no more wrong
    answers, cost and stages. Every completion of the dropped state is at least as good after the
    other one: it answers a superset of records, no more of them wrongly, and pays for fewer.
P3  A stage that answers no record is skipped: the next stage with the features of both does the
    same.
P4  A state is dropped if no completion of it can be better than a known point in coverage,
    accuracy or cost.

P3 and P4 keep every objective vector but lose tied chromosomes, which are therefore not counted.
The tests for P1, P2 and P4 may miss a case because their lists are short: that costs time, but the
result stays exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from algorithms.multistage.bit_planes import StageTables
from algorithms.multistage.exact.chains import ChainFront
from algorithms.multistage.exact.dynamic_steps import (
    FULL_POINTS,
    FULL_STATES,
    Points,
    RiskPoints,
    Sets,
    States,
    bounds_of,
    expand,
    look_ahead,
    look_at_open,
)
from framework.arrays import Array, FloatArray, IntArray, WordArray
from framework.pareto import nondominated

STEP_SECONDS = 1.2e-7  # to follow a state to a larger set, about
COMPARED = 64  # states that a new one is compared with
_BOUNDS_AT_A_TIME = 1_000_000  # rows that are reduced to their best

Stop = Literal["memory", "time"]
P = TypeVar("P", Points, RiskPoints)


@dataclass(frozen=True)
class Limits:
    """Limits of the search, counted in states, so that they are the same on any machine.

    Attributes
    ----------
    rows : int
        Greatest number of states in memory; see :func:`row_bytes`.
    steps : float
        Greatest number of states that are extended to larger sets; each takes about
        :data:`STEP_SECONDS`.
    """

    rows: int
    steps: float = float("inf")


@dataclass(frozen=True)
class UpperBound:
    """An upper bound: every chain is at most as good as one of these points, in every objective.

    Attributes
    ----------
    answered : numpy.ndarray of int64, shape (m,)
    rate : numpy.ndarray of float64, shape (m,)
        Right ones of the answers.
    cost : numpy.ndarray of int64, shape (m,)
        Over all records, fixed point.
    """

    answered: IntArray
    rate: FloatArray
    cost: IntArray

    def __len__(self) -> int:
        return len(self.answered)

    def values(self, records: int, cost_scale: int) -> dict[str, FloatArray]:
        """Return the metrics in their units."""
        return {
            "coverage": self.answered / records,
            "accuracy": self.rate,
            "cost": self.cost / (cost_scale * records),
        }

    def with_points(self, answered: IntArray, rate: FloatArray, cost: IntArray) -> UpperBound:
        """Return the points of these and more ones that no other one is as good as."""
        answered, cost = np.append(self.answered, answered), np.append(self.cost, cost)
        rate = np.append(self.rate, rate)
        keep = nondominated(np.column_stack([-answered, -rate, cost]))
        return UpperBound(answered[keep], rate[keep], cost[keep])


@dataclass(frozen=True)
class SearchResult:
    """What the dynamic programme found.

    Attributes
    ----------
    found : ChainFront
        Non-dominated points of chains, by cost, without counts; the exact front if ``stopped`` is
        None.
    stopped : {'memory', 'time'} or None
        The limit that it reached.
    above : UpperBound or None
        The upper bound, if the search was stopped and a bound was wanted.
    """

    found: ChainFront
    stopped: Stop | None = None
    above: UpperBound | None = None


def front_of_chains(
    tables: StageTables,
    price: IntArray,
    k: int,
    known: ChainFront,
    limits: Limits,
    *,
    bounds: bool = False,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> SearchResult:
    """Return the front of all chains of at most ``k`` sets, or what limits leave of it.

    Parameters
    ----------
    tables : StageTables
    price : numpy.ndarray of int64, shape (2^n,)
        Of every set, fixed-point; no set costs more than one that contains it.
    k : int
        Greatest number of stages, 2 <= k <= n.
    known : ChainFront
        Non-dominated points of some chains; the better they are, the faster the search.
    limits : Limits
    bounds : bool
        Whether to compute an upper bound of the front if a limit is reached.
    report : callable
        Called with the number of feature sets that are done, and the number of all.

    Returns
    -------
    SearchResult

    Notes
    -----
    Each subset of each set is looked at: 3^n times the states of a set, which depend on the data.
    Any order is right in which subsets come first. That of the sets' numbers finds good points
    early; by price, what is still open at a limit is dear, which is worth more for bounds.
    """
    sets = _look_at(tables, price)
    states = first_states(tables.everyone, tables.records, len(price), np.int32)
    points = _points(known, len(price).bit_length() - 1)
    order = np.arange(1, len(sets.price) - 1)
    if bounds:
        order = order[np.lexsort((order, np.bitwise_count(order), sets.price[order]))]
    recent, steps = scratch()
    step = partial(expand, k, sets, octet_scratch(sets), recent, steps)
    states, points, done, stopped = follow(order, step, states, points, limits, steps, report)
    found = _found(points)
    if stopped is None or not bounds:
        return SearchResult(found, stopped)
    open_sets = np.zeros(len(sets.price), dtype=bool)
    open_sets[order[done:]] = True
    left = look_at_open(sets, tables.right, open_sets)
    return SearchResult(found, stopped, _upper_bound(found, _bounds(left, sets, states, points)))


def follow(
    order: IntArray,
    step: Callable[[int, int, States, P], int],
    states: States,
    points: P,
    limits: Limits,
    steps: IntArray,
    report: Callable[[int, int], None],
) -> tuple[States, P, int, Stop | None]:
    """Make the states of each set in turn; memory grows where a step asks for it.

    Parameters
    ----------
    order : numpy.ndarray of int
        Sets, in an order in which subsets come first.
    step : callable
        Makes the states of a set from a row on; returns their end, or which room is short.
    steps : numpy.ndarray of int64, shape (1,)
        How many states were extended; ``step`` counts on.

    Returns
    -------
    states, points
        The longer ones where they grew.
    done : int
        How many sets are done.
    stopped : {'memory', 'time'} or None
    """
    size = 1
    for done, here in enumerate(order.tolist()):
        if steps[0] >= limits.steps:
            return states, points, done, "time"
        while True:
            end = step(here, size, states, points)
            if end == FULL_POINTS:
                points = type(points)(points.size, *(_with_room(c, 2 * len(c)) for c in points[1:]))
            elif end != FULL_STATES:
                break
            elif len(states.cost) >= limits.rows:
                return states, points, done, "memory"
            else:
                rows = min(2 * len(states.cost), limits.rows)
                longer = (_with_room(column, rows) for column in states[2:])
                states = States(states.first, states.stop, *longer)
        states.first[here], states.stop[here] = size, end
        size = end
        report(done + 1, len(order))
    return states, points, len(order), None


def scratch() -> tuple[IntArray, IntArray]:
    """Return room for the states that a new one is compared with, and the count of steps."""
    return np.zeros(COMPARED, dtype=np.int64), np.zeros(1, dtype=np.int64)


def row_bytes(words: int) -> int:
    """Return the memory of a state."""
    return 8 * words + 28


def set_bytes(words: int, records: int) -> int:
    """Return the memory of what is known of a set."""
    return 8 * (4 * words + records + 2)


def _look_at(tables: StageTables, price: IntArray) -> Sets:
    undecided = ~tables.conclusive & tables.everyone
    wrong = tables.conclusive & ~tables.right
    reach, hope = np.zeros_like(wrong), np.zeros_like(wrong)
    cheapest = np.zeros((len(price), tables.records), dtype=np.int64)
    sets = Sets(price, undecided, wrong, reach, hope, cheapest)
    look_ahead(sets, tables.right)
    return sets


def first_states(everyone: WordArray, records: int, sets: int, wrong: type) -> States:
    """Return states with the only one of the empty set in the first row.

    ``wrong`` is the type of its column: losses take more room than numbers of records.
    """
    rows = 1 << 12
    first, stop = np.zeros((2, sets), dtype=np.int64)
    cost = np.zeros(rows, dtype=np.int64)
    spent: Array = np.zeros(rows, dtype=wrong)
    left, stages, owner, parent = (np.zeros(rows, dtype=np.int32) for _ in range(4))
    waiting = np.zeros((rows, len(everyone)), dtype=np.uint64)
    states = States(first, stop, waiting, cost, left, spent, stages, owner, parent)
    states.stop[0] = 1
    states.waiting[0], states.left[0] = everyone, records
    return states


def _points(known: ChainFront, n: int) -> Points:
    order = np.argsort(known.cost, kind="stable")
    room = 2 * len(known) + 64
    chains = np.zeros((room, n), dtype=np.int32)
    chains[: len(known), : known.chains.shape[1]] = known.chains[order]
    answered, right, cost = (
        _with_room(column[order], room) for column in (known.answered, known.right, known.cost)
    )
    return Points(np.array([len(known)]), answered, right, cost, chains)


def _bounds(left: Array, sets: Sets, states: States, points: Points) -> Iterator[IntArray]:
    """Yield bounds that no open end of a state can beat: answered, right, wrong, cost; (m, 4)."""
    sums = octet_scratch(sets)
    batch, size = [np.zeros((0, 4), dtype=np.int64)], 0
    for here in np.flatnonzero(left & (states.stop > states.first)).tolist():
        bounds = np.zeros((states.stop[here] - states.first[here], 4), dtype=np.int64)
        batch.append(bounds[: bounds_of(here, sets, states, points, sums, bounds)])
        size += len(batch[-1])
        if size > _BOUNDS_AT_A_TIME:
            yield np.concatenate(batch)
            batch, size = [], 0
    if batch:
        yield np.concatenate(batch)


def _upper_bound(found: ChainFront, bounds: Iterator[IntArray]) -> UpperBound:
    """Return the best of attained points and bounds."""
    above = UpperBound(found.answered, found.right / np.maximum(found.answered, 1), found.cost)
    for rows in bounds:
        answered, right, wrong, cost = rows.T
        # division rounds in order: what is less is not more afterwards
        above = above.with_points(answered, right / np.maximum(right + wrong, 1), cost)
    return above


def octet_scratch(sets: Sets) -> IntArray:
    """Return scratch for the sums of costs by octets of records."""
    return np.zeros((8 * sets.undecided.shape[1], 256), dtype=np.int64)


def _found(points: Points) -> ChainFront:
    size = int(points.size[0])
    return ChainFront(
        points.answered[:size], points.right[:size], points.cost[:size], points.chains[:size]
    )


def _with_room(column: Array, rows: int) -> Array:
    longer = np.zeros((rows, *column.shape[1:]), dtype=column.dtype)
    longer[: len(column)] = column
    return longer
