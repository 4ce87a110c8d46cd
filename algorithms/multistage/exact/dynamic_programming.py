"""The exact front of any number of stages, by dynamic programming over sets and records.

A state is a set of acquired features, the records that are still undecided, and what was spent so
far: loss, cost, stages. The loss is the number of wrong answers or, where stages decide by costs,
what errors and records without an answer cost. What can follow depends only on the set and on the
undecided records, so many states of a set need not be followed:

P1  Of states with the same undecided records, only those with Pareto-optimal (loss, cost, stages)
    are kept.
P2  A state is dropped if another one has a subset of its undecided records and no more loss, cost
    and stages. Whatever stages follow do at least as well after the other state: they leave no
    more records without an answer, lose no more, and fewer records pay for them.
P3  A stage that answers no record is skipped: the next stage with the features of both does the
    same.
P4  A state is dropped if a complete chain is at least as good as an optimistic bound of all that
    can follow. The bound treats each undecided record by itself: it takes the least loss that any
    larger set has on it, and the least price at which a larger set answers it, in one more stage.

The front of (answered, loss, cost) contains the front of (coverage, accuracy, cost), because a
chain that answers at least as many records with no more errors is at least as accurate. Where each
stage has a threshold of its own, a state is extended with every threshold; where all stages share
one, the search is repeated for each of its values.

The rules keep every objective vector of the front, but not every chromosome that has it, so
chromosomes are not counted. A state is compared with a short list of others for P1 and P2, which
may miss a case: that costs time, but the result stays exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from algorithms.moves.bits import unpack
from algorithms.multistage.bit_planes import StageTables, longer
from algorithms.multistage.exact.chains import ChainFront, Prices, RiskFront, Vectors
from algorithms.multistage.exact.dynamic_steps import (
    FULL_POINTS,
    FULL_STATES,
    Ahead,
    Answers,
    Points,
    Programme,
    States,
    best_ends,
    expand,
    look_ahead,
)
from algorithms.multistage.kernels.scoring import Rule
from framework.arrays import Array, BoolArray, IntArray, WordArray, frozen
from framework.pareto import nondominated

STEP_SECONDS = 1.2e-7  # about what it takes to extend a state to a larger set
COMPARED = 64  # states that a new one is compared with
_BOUNDS_AT_A_TIME = 1_000_000  # rows that are collected before the dominated ones are dropped

Stop = Literal["memory_gb", "hours"]
"""The limit that ends a search, by its name in the configuration."""


@dataclass(frozen=True)
class Limits:
    """Limits of the search, counted in states, so that they are the same on any machine.

    Attributes
    ----------
    rows : int
        Greatest number of states in memory; see :func:`row_bytes`.
    steps : float
        Greatest number of extensions of a state to a larger set; each takes about
        :data:`STEP_SECONDS`.
    """

    rows: int
    steps: float = float("inf")


class SearchResult(NamedTuple):
    """The result of the dynamic programme.

    Attributes
    ----------
    front : ChainFront
        Non-dominated points of chains, sorted by cost, without counts of chromosomes; the exact
        front if ``stopped`` is None.
    stopped : {'memory_gb', 'hours'} or None
        The limit that the search reached.
    above : Vectors or None
        The upper bound, if the search was stopped and a bound was wanted: every chain is at most as
        good as one of these vectors, in every objective.
    """

    front: ChainFront
    stopped: Stop | None = None
    above: Vectors | None = None


def answers_of(tables: StageTables) -> Answers:
    """Return the answers of all sets where the loss is the number of wrong answers."""
    return Answers(
        tables.conclusive[np.newaxis],
        tables.conclusive[-1],
        (tables.conclusive & ~tables.right)[np.newaxis],
        frozen(np.ones(1, dtype=np.int64)),
        0,
        frozen(tables.everyone),
        tables.records,
    )


def answers_by_cost(bits: WordArray, rule: Rule, everyone: WordArray, records: int) -> Answers:
    """Return the answers of all sets where stages decide by costs.

    ``bits`` is (2^n, planes, words); ``rule`` says which planes are errors and answers.
    """
    planes = np.ascontiguousarray(bits.transpose(1, 0, 2))
    errors, sure = planes[rule.errors : rule.sure], planes[rule.sure :]
    last = planes[0, -1].copy()
    return Answers(sure, last, errors, rule.weights, int(rule.no_answer), everyone, records)


def front_of_chains(
    tables: StageTables,
    price: Prices,
    k: int,
    seed: ChainFront,
    limits: Limits,
    *,
    bounds: bool = False,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> SearchResult:
    """Return the front of all chains of at most ``k`` sets, or the part that the limits allow.

    Parameters
    ----------
    tables : StageTables
    price : Prices
    k : int
        Greatest number of stages, 2 <= k <= n.
    seed : ChainFront
        Non-dominated points of some chains; the better they are, the faster the search.
    limits : Limits
    bounds : bool
        Whether to compute an upper bound of the front if a limit is reached.
    report : callable
        Called with the number of feature sets that are done, and the number of all sets.

    Returns
    -------
    SearchResult

    Notes
    -----
    Every set looks at the states of each of its subsets: 3^n pairs of sets, times the states of a
    set, whose number depends on the data. Any order of the sets is correct if subsets come before
    the sets that contain them. The order of their numbers finds good points early. With bounds,
    sets are taken by price, so that what is open at a limit is expensive and bounds are tight.
    """
    answers = answers_of(tables)
    steps = np.zeros(1, dtype=np.int64)
    programme = _programme(answers, price, k, 0, True, steps)
    sets = len(price.of_set)
    columns = seed.answered, seed.answered - seed.right, seed.cost
    points = _points(columns, seed.chains, price.features)
    order = np.arange(1, sets - 1)
    if bounds:
        order = order[np.lexsort((order, np.bitwise_count(order), price.of_set[order]))]
    states, points, done, stopped = _follow(programme, order, points, limits, report)
    size = int(points.size[0])
    answered, loss, cost, chains = (column[:size] for column in points[1:5])
    front = ChainFront(answered, answered - loss, cost, chains).front()
    if stopped is None or not bounds:
        return SearchResult(front, stopped)
    open_sets = np.ones(sets, dtype=bool)  # with the set of all features, which ends every chain
    open_sets[order[:done]] = False
    rest = programme._replace(ahead=_look_ahead(answers, price, open_sets))
    return SearchResult(front, stopped, _upper_bound(front, rest, states, points))


def front_by_risk(
    answers: Answers,
    price: Prices,
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
    answers : Answers
    price, k, limits, report
        See :func:`front_of_chains`; ``k`` may be 1.
    per_stage : bool
        Whether each stage has a threshold of its own.
    coverage : bool
        Whether the number of records answered is an objective too.

    Returns
    -------
    RiskFront, {'memory', 'time'} or None
        The front, and the limit that was reached. If there is one, the front is incomplete.

    Notes
    -----
    Takes 3^n steps times the states of a set and the values of a threshold.
    """
    levels = len(answers.sure)
    settings = [np.arange(levels)] if per_stage else [np.array([level]) for level in range(levels)]
    order, steps = np.arange(1, len(price.of_set) - 1), np.zeros(1, dtype=np.int64)
    points, stopped = _one_stage(answers, price), None
    for number, setting in enumerate(settings if k > 1 else []):
        part = answers._replace(sure=np.ascontiguousarray(answers.sure[setting]))
        programme = _programme(part, price, k, int(setting[0]), coverage, steps)

        def tell(done: int, total: int, before: int = number * len(order)) -> None:
            report(before + done, len(settings) * total)

        _, points, _, stopped = _follow(programme, order, points, limits, tell)
        if stopped is not None:
            break
    size = int(points.size[0])
    front = RiskFront(*(column[:size].copy() for column in points[1:]))
    columns = [front.loss, front.cost] + ([-front.answered] if coverage else [])
    return front.take(nondominated(np.column_stack(columns).astype(np.float64))), stopped


def _programme(
    answers: Answers, price: Prices, k: int, first_level: int, coverage: bool, steps: IntArray
) -> Programme:
    ahead = _look_ahead(answers, price, np.ones(len(price.of_set), dtype=bool))
    sums = np.zeros((2, 8 * len(answers.everyone), 256), dtype=np.int64)
    recent = np.zeros(COMPARED, dtype=np.int64)
    return Programme(k, coverage, first_level, answers, ahead, sums[0], sums[1], recent, steps)


def _look_ahead(answers: Answers, price: Prices, open_sets: BoolArray) -> Ahead:
    """Return, for each set and record, the best that a larger open set does.

    Sets that are not open were expanded already: chains through them go on from their own states.
    Whatever contains an open set must be open.
    """
    worst = max(int(answers.weights.sum()), answers.no_answer)
    loss = unpack(~answers.last, answers.records).astype(np.int64) * answers.no_answer
    for errors, weight in zip(answers.errors, answers.weights, strict=True):
        loss += weight * unpack(errors[-1] & answers.last, answers.records)
    of_set = price.of_set
    ahead = Ahead(
        of_set,
        price.of_stage,
        np.tile(answers.last, (len(of_set), 1)),
        np.repeat(of_set[-1] - of_set, answers.records).reshape(-1, answers.records),
        np.tile(loss.astype(np.uint8 if worst < 256 else np.int64), (len(of_set), 1)),
    )
    # thresholds nest the sets of answered records, so the greatest word has the bits of all
    loosest = answers.sure.max(axis=0)
    loosest[~open_sets] = 0
    loosest[-1] = answers.last
    look_ahead(answers, loosest, ahead)
    ahead.cost[:] += price.of_stage  # whatever follows has at least one stage
    return ahead


def _follow(
    programme: Programme,
    order: IntArray,
    points: Points,
    limits: Limits,
    report: Callable[[int, int], None],
) -> tuple[States, Points, int, Stop | None]:
    """Make the states of each set in turn; the arrays grow where a step asks for it.

    ``order`` has all sets except that of all features, subsets before the sets that contain them.
    Returns the states and points, how many sets are done, and the limit that was reached, if any.
    """
    states, size = _first_states(programme), 1
    for done, here in enumerate(order.tolist()):
        if programme.steps[0] >= limits.steps:
            return states, points, done, "hours"
        while True:  # points that were entered stay when a set is expanded again
            end = expand(programme, here, size, states, points)
            if end == FULL_POINTS:
                points = Points(points.size, *(longer(c, 2 * len(c)) for c in points[1:]))
            elif end != FULL_STATES:
                break
            elif len(states.cost) >= limits.rows:
                return states, points, done, "memory_gb"
            else:
                rows = min(2 * len(states.cost), limits.rows)
                columns = (longer(column, rows) for column in states[2:])
                states = States(states.first, states.stop, *columns)
        states.first[here], states.stop[here] = size, end
        size = end
        report(done + 1, len(order))
    return states, points, len(order), None


def row_bytes(words: int) -> int:
    """Return the bytes of one state, whose records are ``words`` words."""
    return 8 * words + 34


def set_bytes(words: int, records: int) -> int:
    """Return the bytes that the answers and the bounds of one feature set take."""
    return 8 * (3 * words + records + 2) + records


def _first_states(programme: Programme) -> States:
    """Return states whose first row is that of the empty set, with all records undecided."""
    rows, answers = 1 << 12, programme.answers
    first, stop = np.zeros((2, len(programme.ahead.price)), dtype=np.int64)
    waiting = np.zeros((rows, len(answers.everyone)), dtype=np.uint64)
    cost, loss = np.zeros((2, rows), dtype=np.int64)
    left, stages, owner, parent = np.zeros((4, rows), dtype=np.int32)
    level = np.zeros(rows, dtype=np.int16)
    stop[0], waiting[0], left[0] = 1, answers.everyone, answers.records
    return States(first, stop, waiting, cost, loss, left, stages, owner, level, parent)


def _points(columns: tuple[IntArray, IntArray, IntArray], chains: Array, n: int) -> Points:
    """Return points from columns (answered, loss, cost), sorted by cost, with room for more."""
    size, order = len(chains), np.argsort(columns[2], kind="stable")
    room = 2 * size + 64
    sets, levels = np.zeros((2, room, n), dtype=np.int32)
    sets[:size, : chains.shape[1]] = chains[order]
    answered, loss, cost = (longer(column[order], room) for column in columns)
    return Points(np.array([size]), answered, loss, cost, sets, levels)


def _one_stage(answers: Answers, price: Prices) -> Points:
    """Return the point of the chain whose only set has all features."""
    answered = np.bitwise_count(answers.last).sum(dtype=np.int64)
    lost = np.bitwise_count(answers.errors[:, -1] & answers.last).sum(axis=1, dtype=np.int64)
    loss = lost @ answers.weights + answers.no_answer * (answers.records - answered)
    cost = answers.records * (price.of_set[-1] + price.of_stage)
    columns = np.array([answered]), np.array([loss]), np.array([cost])
    return _points(columns, np.zeros((1, 0)), price.features)


def _upper_bound(
    front: ChainFront, programme: Programme, states: States, points: Points
) -> Vectors:
    """Return the non-dominated ones of attained points and of bounds of all that may follow."""
    above = front.vectors
    owners = np.flatnonzero(states.stop > states.first).tolist()
    batch, size = [], 0
    for here in owners:
        ends = np.zeros((states.stop[here] - states.first[here], 3), dtype=np.int64)
        batch.append(ends[: best_ends(programme, here, states, points, ends)])
        size += len(batch[-1])
        if size > _BOUNDS_AT_A_TIME or here == owners[-1]:
            answered, loss, cost = np.concatenate(batch).T
            # rounding is monotone: a quotient that is less is not more after it
            rate = (answered - loss) / np.maximum(answered, 1)
            above = above.with_further(Vectors(answered, rate, cost))
            batch, size = [], 0
    return above
