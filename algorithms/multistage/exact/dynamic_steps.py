"""Compiled steps of ``dynamic_programming.py``: tables by feature set, states, and known points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.multistage.kernels.scoring import popcount
from framework.arrays import Array, BoolArray, IntArray, WordArray
from framework.jit import njit

FULL_STATES, FULL_POINTS = -1, -2  # what expand() returns where memory has to grow


class Sets(NamedTuple):
    """Tables by feature set: what each answers, and what the sets that contain it still can.

    ``undecided``, ``wrong`` (sets, words): records without an answer, with a wrong one.
    ``reach``, ``hope`` (sets, words): records that some larger set answers, and answers rightly.
    ``cheapest`` (sets, records): least cost until a larger set answers the record, or all is paid.
    """

    price: IntArray
    undecided: WordArray
    wrong: WordArray
    reach: WordArray
    hope: WordArray
    cheapest: IntArray


@njit
def look_ahead(sets: Sets, right: WordArray) -> None:
    """Fill ``reach``, ``hope`` and ``cheapest``, from the largest set down. O(2^n n records)."""
    full = len(sets.price) - 1
    records = sets.cheapest.shape[1]
    for here in range(full - 1, -1, -1):
        for r in range(records):
            sets.cheapest[here, r] = sets.price[full] - sets.price[here]
        bit = 1
        while bit <= full:
            if not here & bit:
                there = here | bit
                step = sets.price[there] - sets.price[here]
                for w in range(sets.reach.shape[1]):
                    sure = sets.undecided[0, w] & ~sets.undecided[there, w]
                    sets.reach[here, w] |= sure | sets.reach[there, w]
                    sets.hope[here, w] |= right[there, w] | sets.hope[there, w]
                for r in range(records):
                    more = sets.cheapest[there, r]
                    if not (sets.undecided[there, r >> 6] >> np.uint64(r & 63)) & np.uint64(1):
                        more = 0
                    if step + more < sets.cheapest[here, r]:
                        sets.cheapest[here, r] = step + more
            bit <<= 1


@njit
def look_at_open(sets: Sets, right: WordArray, open_sets: BoolArray) -> BoolArray:
    """Restrict ``reach``, ``hope`` and ``cheapest`` to chains whose next set is an open one.

    They are overwritten where a set is not open; that of all features never is. O(2^n n records).

    Returns
    -------
    numpy.ndarray of bool, shape (sets,)
        Whether such a chain is left.
    """
    full = len(sets.price) - 1
    records = sets.cheapest.shape[1]
    left = open_sets.copy()
    for here in range(full - 1, -1, -1):
        if open_sets[here]:
            for w in range(sets.reach.shape[1]):
                sets.reach[here, w] |= sets.undecided[0, w] & ~sets.undecided[here, w]
                sets.hope[here, w] |= right[here, w]
            for r in range(records):
                if not (sets.undecided[here, r >> 6] >> np.uint64(r & 63)) & np.uint64(1):
                    sets.cheapest[here, r] = 0
            continue
        sets.reach[here], sets.hope[here] = 0, 0
        sets.cheapest[here] = sets.price[full] - sets.price[here]
        bit = 1
        while bit <= full:
            there = here | bit
            if there != here and left[there]:
                left[here] = True
                step = sets.price[there] - sets.price[here]
                for w in range(sets.reach.shape[1]):
                    sets.reach[here, w] |= sets.reach[there, w]
                    sets.hope[here, w] |= sets.hope[there, w]
                for r in range(records):
                    more = step + sets.cheapest[there, r]
                    if more < sets.cheapest[here, r]:
                        sets.cheapest[here, r] = more
            bit <<= 1
    return left


class States(NamedTuple):
    """All states; those of set ``s`` are the rows ``first[s]`` to ``stop[s] - 1``.

    ``waiting`` has the undecided records and ``left`` their number; ``wrong``, ``cost`` and
    ``stages`` are what was spent so far (``stages`` is 0 where their number is not limited);
    ``owner`` is the set, and ``parent`` the state before.
    """

    first: IntArray
    stop: IntArray
    waiting: WordArray
    cost: IntArray
    left: Array
    wrong: Array
    stages: Array
    owner: Array
    parent: Array


class Points(NamedTuple):
    """Non-dominated points of complete chains, by cost; the first ``size[0]`` rows are used."""

    size: IntArray
    answered: IntArray
    right: IntArray
    cost: IntArray
    chains: Array


class RiskPoints(NamedTuple):
    """The same where errors have costs; ``levels`` has the number of each set's threshold."""

    size: IntArray
    loss: IntArray
    cost: IntArray
    answered: IntArray
    chains: Array
    levels: Array


@njit
def bounds_of(
    here: int, sets: Sets, states: States, points: Points, sums: IntArray, bounds: IntArray
) -> int:
    """Write bounds that no end of a state of a set can beat; return how many rows that takes.

    States none of whose ends can beat a known point are left out.

    Parameters
    ----------
    sums
        Scratch, (8 * words, 256).
    bounds
        Filled: answered, right, wrong, cost; (states of the set, 4).
    """
    octet_sums(sets.cheapest[here], sums)
    rows = 0
    for state in range(states.first[here], states.stop[here]):
        wrong = int(states.wrong[state])
        cost = states.cost[state] + rest_at_least(states.waiting[state], sums)
        answered, good, bad = _at_best(here, sets, states.waiting[state], states.left[state], wrong)
        if not beaten(points, answered, good, bad, cost):
            bounds[rows, 0], bounds[rows, 1] = answered, good
            bounds[rows, 2], bounds[rows, 3] = bad, cost
            rows += 1
    return rows


@njit
def _at_best(
    here: int, sets: Sets, waiting: WordArray, left: int, wrong: int
) -> tuple[int, int, int]:
    """Return the most answers and right ones, and the fewest wrong ones, that can follow (P4)."""
    full = len(sets.price) - 1
    records = sets.cheapest.shape[1]
    never, good, bad = 0, records - left - wrong, wrong
    for w in range(len(waiting)):
        never += popcount(waiting[w] & ~sets.reach[here, w])
        good += popcount(waiting[w] & sets.hope[here, w])
        bad += popcount(waiting[w] & ~sets.undecided[full, w] & ~sets.hope[here, w])
    return records - never, good, bad


@njit
def octet_sums(cheapest: IntArray, sums: IntArray) -> None:
    """Fill ``sums`` (octets, 256): for each octet of records, the sum over any of them."""
    for o in range(len(sums)):
        sums[o, 0] = 0
        for i in range(8):
            r = 8 * o + i
            value = cheapest[r] if r < len(cheapest) else 0
            for pattern in range(1 << i):
                sums[o, (1 << i) + pattern] = sums[o, pattern] + value


@njit
def rest_at_least(waiting: WordArray, sums: IntArray) -> int:
    """Return the least that is still to be paid for the undecided records."""
    total = 0
    for w in range(len(waiting)):
        word, o = waiting[w], 8 * w
        while word:
            total += sums[o, word & np.uint64(255)]
            word >>= np.uint64(8)
            o += 1
    return total


@njit
def beaten(points: Points, answered: int, right: int, wrong: int, cost: int) -> bool:
    """Return whether a known point is as good as (answered, right / (right + wrong), cost)."""
    last = np.searchsorted(points.cost[: points.size[0]], cost, side="right")
    for i in range(last - 1, -1, -1):  # the dear ones are the good ones
        if points.answered[i] >= answered and (
            points.right[i] * (right + wrong) >= right * max(points.answered[i], 1)
        ):
            return True
    return False


@njit
def enter(
    points: Points, answered: int, right: int, cost: int, states: States, last: int, here: int
) -> bool:
    """Enter a chain that ends with ``here`` after the state ``last``; False where there is no room.

    Points that it is as good as go.
    """
    if beaten(points, answered, right, answered - right, cost):
        return True
    kept = 0
    for i in range(points.size[0]):
        worse = (
            points.cost[i] >= cost
            and points.answered[i] <= answered
            and points.right[i] * max(answered, 1) <= right * max(points.answered[i], 1)
        )
        if not worse:
            _move(points, i, kept)
            kept += 1
    points.size[0] = kept
    if kept == len(points.cost):
        return False
    at = np.searchsorted(points.cost[:kept], cost)
    for i in range(kept, at, -1):
        _move(points, i - 1, i)
    points.answered[at], points.right[at], points.cost[at] = answered, right, cost
    chain = points.chains[at]
    chain[:] = 0
    depth = 0
    if here:
        chain[depth] = here
        depth += 1
    while last > 0:
        chain[depth] = states.owner[last]
        depth += 1
        last = states.parent[last]
    points.size[0] = kept + 1
    return True


@njit
def _move(points: Points, source: int, target: int) -> None:
    if source != target:
        points.answered[target] = points.answered[source]
        points.right[target] = points.right[source]
        points.cost[target] = points.cost[source]
        points.chains[target] = points.chains[source]


@njit
def _covers(states: States, a: int, b: int) -> bool:
    """Return whether state ``a`` is as good as ``b`` of the same set (P1, P2)."""
    if (
        states.cost[a] > states.cost[b]
        or states.wrong[a] > states.wrong[b]
        or states.left[a] > states.left[b]
        or states.stages[a] > states.stages[b]
    ):
        return False
    for w in range(states.waiting.shape[1]):
        if states.waiting[a, w] & ~states.waiting[b, w]:
            return False
    return True


@njit
def _copy(states: States, source: int, target: int) -> None:
    states.waiting[target] = states.waiting[source]
    states.left[target] = states.left[source]
    states.wrong[target] = states.wrong[source]
    states.cost[target] = states.cost[source]
    states.stages[target] = states.stages[source]
    states.owner[target] = states.owner[source]
    states.parent[target] = states.parent[source]


@njit
def covered(states: States, new: int, recent: IntArray, count: int) -> bool:
    """Return whether one of the listed states covers ``new``; it moves to the front then."""
    for i in range(count):
        if _covers(states, recent[i], new):
            winner = recent[i]  # what covered one new state often covers the next
            for j in range(i, 0, -1):
                recent[j] = recent[j - 1]
            recent[0] = winner
            return True
    return False


@njit
def to_front(recent: IntArray, count: int, state: int) -> int:
    """Put a state before the listed ones, the last of which may drop out; return their number."""
    count = min(count + 1, len(recent))
    for i in range(count - 1, 0, -1):
        recent[i] = recent[i - 1]
    recent[0] = state
    return count


@njit
def thin_out(states: States, first: int, stop: int, spare: int, recent: IntArray) -> int:
    """Drop states that later ones cover; return the end of those that stay.

    They are sorted by undecided records, so that a state comes after all that may cover it; rows
    from ``spare`` on are scratch.
    """
    order = np.argsort(states.left[first:stop])
    for i in range(stop - first):
        _copy(states, first + order[i], spare + i)
    end, count = first, 0
    for i in range(stop - first):
        _copy(states, spare + i, end)
        if covered(states, end, recent, count):
            continue
        count = to_front(recent, count, end)
        end += 1
    return end


@njit
def expand(
    k: int,
    sets: Sets,
    sums: IntArray,
    recent: IntArray,
    steps: IntArray,
    here: int,
    first: int,
    states: States,
    points: Points,
) -> int:
    """Make the states of set ``here`` from those of its subsets, and complete them.

    Parameters
    ----------
    k : int
        Greatest number of stages.
    sums, recent
        Scratch, (8 * words, 256) and (list,).
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
    """
    words = sets.undecided.shape[1]
    full = len(sets.price) - 1
    records = sets.cheapest.shape[1]
    capacity = len(states.cost)
    counted = 1 if k < popcount(np.uint64(full)) else 0  # where all chains fit, stages are free
    goes_on = popcount(np.uint64(full & ~here)) > 1
    octet_sums(sets.cheapest[here], sums)
    new, count = first, 0
    part = here
    while part:  # all proper subsets, from the largest down to the empty one
        part = (part - 1) & here
        step = sets.price[here] - sets.price[part]
        steps[0] += states.stop[part] - states.first[part]
        for old in range(states.first[part], states.stop[part]):
            answers = False  # a stage that answers no record is skipped (P3)
            for w in range(words):
                answers |= (states.waiting[old, w] & ~sets.undecided[here, w]) != 0
            if not answers:
                continue
            left, wrong = 0, int(states.wrong[old])
            for w in range(words):
                mask = states.waiting[old, w]
                states.waiting[new, w] = mask & sets.undecided[here, w]
                left += popcount(states.waiting[new, w])
                wrong += popcount(mask & sets.wrong[here, w])
            cost = states.cost[old] + states.left[old] * step
            states.left[new], states.wrong[new], states.cost[new] = left, wrong, cost
            states.stages[new] = states.stages[old] + counted
            if covered(states, new, recent, count):
                continue
            most, good, bad = _at_best(here, sets, states.waiting[new], left, wrong)
            if beaten(points, most, good, bad, cost + rest_at_least(states.waiting[new], sums)):
                continue
            end, end_wrong = 0, wrong
            for w in range(words):
                end += popcount(states.waiting[new, w] & sets.undecided[full, w])
                end_wrong += popcount(states.waiting[new, w] & sets.wrong[full, w])
            paid = cost + left * (sets.price[full] - sets.price[here])
            if not enter(points, records - end, records - end - end_wrong, paid, states, old, here):
                return FULL_POINTS
            if left == 0 or not goes_on or (counted and states.stages[new] + 2 > k):
                continue
            states.owner[new], states.parent[new] = here, old
            count = to_front(recent, count, new)
            new += 1
            if new == capacity:
                return FULL_STATES
    if 2 * new - first > capacity:
        return FULL_STATES
    return thin_out(states, first, new, new, recent)
