"""The exact front of any number of stages, by a dynamic programme over sets and records.

A state is a set of features acquired, the records still undecided, and what was paid for it so
far: wrong answers, cost, stages. What can follow depends on the set and the undecided records
alone, so of the states of one set many need not be followed:

P1  the same undecided records: only the Pareto-optimal (wrong, cost, stages).
P2  undecided records, wrong, cost and stages of one all within those of another: the other goes.
    Any end of the other does as well after the one: it answers a superset of records, of which
    the same or fewer wrongly, and pays for fewer.
P3  a stage that answers no record does what the next one does with both their features: skipped.
P4  a state none of whose ends can beat a known point in coverage, accuracy or cost goes.

P3 and P4 keep every objective vector but lose chromosomes that tie, so these are not counted.
The tests for P1, P2 and P4 may miss a case (lists are short): that costs time, never exactness.
"""

from __future__ import annotations

import numpy as np

from algorithms.multistage.chains import Found, prices
from algorithms.multistage.programme_steps import (
    FULL_POINTS,
    FULL_STATES,
    Points,
    Sets,
    States,
    expand,
    look_ahead,
)
from framework.arrays import Array, IntArray
from framework.problems.stage_tables import StageTables

ORDERS = {
    "int": lambda p: np.arange(len(p)),
    "card": lambda p: np.lexsort((np.arange(len(p)), np.bitwise_count(np.arange(len(p))))),
    "price": lambda p: np.lexsort((np.bitwise_count(np.arange(len(p))), p)),
}
_LIST = 64  # states that a new one is compared with


def front_of_chains(
    tables: StageTables, costs: IntArray, k: int, known: Found, rows_at_most: int
) -> Found:
    """Return the front of all chains of at most ``k`` sets.

    Parameters
    ----------
    tables : StageTables
    costs : numpy.ndarray of int64, shape (n,)
        Fixed-point, not negative.
    k : int
        Greatest number of stages, 2 <= k <= n.
    known : Found
        Some chains' points, none dominated by another; the better, the faster.
    rows_at_most : int
        How many states may be held; see :func:`row_bytes`.

    Returns
    -------
    Found
        Without counts, by cost.

    Raises
    ------
    MemoryError
        More states are needed.

    Notes
    -----
    Each subset of each set is looked at: 3^n times the states of a set, which depend on the data.
    """
    sets = _look_at(tables, prices(costs))
    states, points = _start(tables, len(sets.price)), _points(known, len(costs))
    sums = np.zeros((8 * len(tables.everyone), 256), dtype=np.int64)
    recent = np.zeros(_LIST, dtype=np.int64)
    steps = np.zeros(1, dtype=np.int64)
    size = 1
    import os

    order = ORDERS[os.environ.get("ORD", "int")](sets.price)
    for here in order[1:-1].tolist():
        while True:
            end = expand(here, size, k, sets, states, points, sums, recent, steps)
            if end == FULL_STATES:
                states = _longer_states(states, rows_at_most)
            elif end == FULL_POINTS:
                points = _more_points(points)
            else:
                break
        states.first[here], states.stop[here] = size, end
        size = end
    print("states", size, "steps", steps[0])
    size = int(points.size[0])
    return Found(
        points.answered[:size], points.right[:size], points.cost[:size], points.chains[:size]
    )


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


def _start(tables: StageTables, sets: int) -> States:
    """Return states with the only one of the empty set in the first row."""
    rows, words = 1 << 12, len(tables.everyone)
    small = [np.zeros(rows, dtype=np.int32) for _ in range(5)]
    states = States(
        np.zeros(sets, dtype=np.int64), np.zeros(sets, dtype=np.int64), np.zeros((rows, words), dtype=np.uint64),
        np.zeros(rows, dtype=np.int64), *small,
    )  # fmt: skip
    states.stop[0] = 1
    states.waiting[0], states.left[0] = tables.everyone, tables.records
    return states


def _points(known: Found, n: int) -> Points:
    order = np.argsort(known.cost, kind="stable")
    room = 2 * len(known) + 64
    chains = np.zeros((room, n), dtype=np.int32)
    chains[: len(known), : known.chains.shape[1]] = known.chains[order]
    answered, right, cost = (
        _with_room(column[order], room) for column in (known.answered, known.right, known.cost)
    )
    return Points(np.array([len(known)]), answered, right, cost, chains)


def _longer_states(states: States, rows_at_most: int) -> States:
    rows = len(states.cost)
    if rows >= rows_at_most:
        raise MemoryError
    longer = [_with_room(column, min(2 * rows, rows_at_most)) for column in states[2:]]
    return States(states.first, states.stop, *longer)


def _more_points(points: Points) -> Points:
    longer = [_with_room(column, 2 * len(column)) for column in points[1:]]
    return Points(points.size, *longer)


def _with_room(column: Array, rows: int) -> Array:
    longer = np.zeros((rows, *column.shape[1:]), dtype=column.dtype)
    longer[: len(column)] = column
    return longer
