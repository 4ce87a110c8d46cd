"""Compiled steps of ``dynamic_programming.py``: the states of one feature set after the other.

A chromosome's stages Q1, Q2, ... acquire the sets S1 = Q1, S2 = Q1 + Q2, ... up to all features F;
each stage but the last may have a threshold t of its own. P1 to P4 are the rules of
``dynamic_programming.py``::

    for each set S except F, subsets before supersets                expand
        for each proper subset R of S, state s of R, threshold t
            s' = s after a stage that acquires S                     _add_stage
            next, if the stage answers no record                     P3
            next, if a state of S is as good as s'                   P1, P2: covered
            next, if a point is as good as any end of s'             P4: _best_end, beaten
            enter the end of s', a stage that acquires F             _end, enter
            add s' to the states of S, if a stage fits between S and F
        drop the states of S that another state of S covers          _thin_out
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.moves.bits import popcount
from framework.arrays import Array, IntArray, WordArray
from framework.jit import copy, njit, njit_lean

FULL_STATES, FULL_POINTS = -1, -2  # what expand() returns where memory has to grow


class Answers(NamedTuple):
    """What the sub-classifier of each feature set answers to each validation record.

    Records are bits: bit ``j % 64`` of word ``j // 64`` is record ``j``.

    Attributes
    ----------
    sure : numpy.ndarray of uint64, shape (thresholds, 2^n, words)
        Records that a stage with these features answers if it is not the last stage. The rows of
        the empty set are 0.
    last : numpy.ndarray of uint64, shape (words,)
        Records that the last stage, which has all features, answers.
    errors : numpy.ndarray of uint64, shape (error planes, 2^n, words)
        Errors of the answers: what one costs is the sum of ``weights`` of the planes it sets.
    weights : numpy.ndarray of int64, shape (error planes,)
        What a bit of each plane costs.
    no_answer : int
        What a record without an answer costs.
    everyone : numpy.ndarray of uint64, shape (words,)
        One bit per record.
    """

    sure: WordArray
    last: WordArray
    errors: WordArray
    weights: IntArray
    no_answer: int
    everyone: WordArray
    records: int


class Ahead(NamedTuple):
    """For each feature set: its price, and the best that any larger set does with a record.

    Attributes
    ----------
    price : numpy.ndarray of int64, shape (2^n,)
    of_stage : int
        What a record pays, besides features, for each stage that it reaches.
    reach : numpy.ndarray of uint64, shape (2^n, words)
        Records that some larger set answers.
    cost : numpy.ndarray of int64, shape (2^n, records)
        Least further price until a larger set answers the record or all features are paid,
        including the price of one stage.
    loss : numpy.ndarray of uint8 or int64, shape (2^n, records)
        Least loss on the record, by an error or for want of an answer.
    """

    price: IntArray
    of_stage: int
    reach: WordArray
    cost: IntArray
    loss: Array


class Programme(NamedTuple):
    """What the steps read, and their scratch arrays.

    Attributes
    ----------
    k : int
        Greatest number of stages.
    coverage : bool
        Whether the number of records answered is an objective, beside loss and cost.
    first_level : int
        Gene value of the first threshold of ``answers``; the others follow.
    cost_sums, loss_sums : numpy.ndarray of int64, shape (8 * words, 256)
        Sums of ``ahead.cost`` and ``ahead.loss`` over every subset of each eight records, for the
        set that is being expanded.
    recent : numpy.ndarray of int64, shape (list,)
        States that a new one is compared with, the last useful one first.
    steps : numpy.ndarray of int64, shape (1,)
        How many extensions of a state were tried.
    """

    k: int
    coverage: bool
    first_level: int
    answers: Answers
    ahead: Ahead
    cost_sums: IntArray
    loss_sums: IntArray
    recent: IntArray
    steps: IntArray


class States(NamedTuple):
    """All states; those of set ``s`` are the rows ``first[s]`` to ``stop[s] - 1``.

    ``waiting`` has the undecided records and ``left`` their number; ``loss``, ``cost`` and
    ``stages`` are what was spent so far (``stages`` is 0 where their number is not limited);
    ``owner`` is the set, ``level`` the gene value of its threshold, and ``parent`` the row of the
    state that was extended.
    """

    first: IntArray
    stop: IntArray
    waiting: WordArray
    cost: IntArray
    loss: IntArray
    left: Array
    stages: Array
    owner: Array
    level: Array
    parent: Array


class Points(NamedTuple):
    """Non-dominated points of complete chains, sorted by cost; ``size[0]`` rows are used.

    ``chains`` has the sets of each chain without the last one, the largest first, and ``levels``
    the gene values of their thresholds.
    """

    size: IntArray
    answered: IntArray
    loss: IntArray
    cost: IntArray
    chains: Array
    levels: Array


@njit
def look_ahead(answers: Answers, loosest: WordArray, ahead: Ahead) -> None:
    """Improve ``reach``, ``cost`` and ``loss`` of ``ahead`` by each larger set. O(2^n n records).

    On entry they are what the set of all features does. ``loosest`` (2^n, words) has the records
    that a set answers at the threshold that answers most. Larger sets come first, so that what
    every set learns from those with one more feature covers all larger ones.
    """
    full = len(ahead.price) - 1
    for here in range(full - 1, -1, -1):
        bit = 1
        while bit <= full:
            if not here & bit:
                there = here | bit
                step = ahead.price[there] - ahead.price[here]
                for w in range(loosest.shape[1]):
                    ahead.reach[here, w] |= loosest[there, w] | ahead.reach[there, w]
                for r in range(answers.records):
                    cost, loss = ahead.cost[there, r], int(np.int64(ahead.loss[there, r]))
                    if _has(loosest[there], r):
                        cost, loss = 0, min(loss, _loss_of(answers, there, r))
                    ahead.cost[here, r] = min(ahead.cost[here, r], step + cost)
                    if loss < ahead.loss[here, r]:
                        ahead.loss[here, r] = loss
            bit <<= 1


@njit_lean
def _has(row: WordArray, r: int) -> bool:
    return bool((row[r >> 6] >> np.uint64(r & 63)) & np.uint64(1))


@njit_lean
def _loss_of(answers: Answers, here: int, r: int) -> int:
    """Return what the answer of set ``here`` to record ``r`` costs if it is an error, else 0."""
    loss = np.int64(0)
    for p in range(len(answers.weights)):
        if _has(answers.errors[p, here], r):
            loss += answers.weights[p]
    return int(loss)


@njit
def expand(programme: Programme, here: int, first: int, states: States, points: Points) -> int:
    """Make the states of set ``here`` from those of its subsets, and complete them.

    Parameters
    ----------
    here : int
        A set, not that of all features; its subsets must have been expanded.
    first : int
        Row of its first state.
    states, points
        Filled with the new states and points.

    Returns
    -------
    int
        One more than the row of its last state; ``FULL_STATES`` or ``FULL_POINTS`` where these
        arrays are too short.
    """
    answers, ahead, recent = programme.answers, programme.ahead, programme.recent
    k, coverage = programme.k, programme.coverage
    full = len(ahead.price) - 1
    # with as many stages as features every chain is allowed: their number need not be compared
    counted = 1 if k < popcount(np.uint64(full)) else 0
    goes_on = popcount(np.uint64(full & ~here)) > 1
    _sum_octets(programme, here)
    new, listed = first, 0
    part = here
    while part:  # all proper subsets, from the largest down to the empty one
        part = (part - 1) & here
        programme.steps[0] += (states.stop[part] - states.first[part]) * len(answers.sure)
        for old in range(states.first[part], states.stop[part]):
            for t in range(len(answers.sure)):
                if not _add_stage(answers, ahead, t, part, here, states, old, new):
                    continue
                states.stages[new] = states.stages[old] + counted
                if covered(states, new, recent, listed):
                    continue
                answered, loss, cost = _best_end(programme, here, states, new)
                if beaten(points, coverage, answered, loss, cost):
                    continue
                states.owner[new], states.parent[new] = here, old
                states.level[new] = programme.first_level + t
                answered, loss, cost = _end(answers, ahead, here, states, new)
                if not enter(points, coverage, answered, loss, cost, states, new):
                    return FULL_POINTS
                if states.left[new] == 0 or not goes_on or (counted and states.stages[new] + 2 > k):
                    continue
                listed = _to_front(recent, listed, new)
                new += 1
                if new == len(states.cost):
                    return FULL_STATES
    if 2 * new - first > len(states.cost):
        return FULL_STATES
    return _thin_out(states, first, new, new, recent)


@njit_lean
def _add_stage(
    answers: Answers, ahead: Ahead, t: int, part: int, here: int, states: States, old: int, new: int
) -> bool:
    """Write row ``new``: state ``old`` of set ``part`` after a stage with the features ``here``.

    Returns whether the stage answers a record; if not, nothing useful is written (P3).
    """
    answers_some = False
    for w in range(states.waiting.shape[1]):
        answers_some |= (states.waiting[old, w] & answers.sure[t, here, w]) != 0
    if not answers_some:
        return False
    left, loss = 0, states.loss[old]
    for w in range(states.waiting.shape[1]):
        states.waiting[new, w] = states.waiting[old, w] & ~answers.sure[t, here, w]
        left += popcount(states.waiting[new, w])
    for p in range(len(answers.weights)):
        errors = 0
        for w in range(states.waiting.shape[1]):
            gone = states.waiting[old, w] & answers.sure[t, here, w]
            errors += popcount(gone & answers.errors[p, here, w])
        loss += answers.weights[p] * errors
    step = ahead.price[here] - ahead.price[part] + ahead.of_stage
    states.left[new], states.loss[new] = left, loss
    states.cost[new] = states.cost[old] + states.left[old] * step
    return True


@njit_lean
def _end(
    answers: Answers, ahead: Ahead, here: int, states: States, state: int
) -> tuple[int, int, int]:
    """Return answered, loss and cost if the next stage of a state of ``here`` has all features."""
    full = len(ahead.price) - 1
    never = 0
    for w in range(len(answers.last)):
        never += popcount(states.waiting[state, w] & ~answers.last[w])
    loss = states.loss[state] + answers.no_answer * never
    for p in range(len(answers.weights)):
        errors = 0
        for w in range(len(answers.last)):
            errors += popcount(
                states.waiting[state, w] & answers.last[w] & answers.errors[p, full, w]
            )
        loss += answers.weights[p] * errors
    step = ahead.price[full] - ahead.price[here] + ahead.of_stage
    cost = states.cost[state] + states.left[state] * step
    return answers.records - never, loss, cost


@njit_lean
def _best_end(programme: Programme, here: int, states: States, state: int) -> tuple[int, int, int]:
    """Return a bound (answered, loss, cost) of all that may follow a state of ``here`` (P4).

    Each record is given the best that any larger set does with it.
    """
    never, loss, cost = 0, states.loss[state], states.cost[state]
    for w in range(states.waiting.shape[1]):
        word, octet = states.waiting[state, w], 8 * w
        never += popcount(word & ~programme.ahead.reach[here, w])
        while word:
            eight = word & np.uint64(255)
            loss += programme.loss_sums[octet, eight]
            cost += programme.cost_sums[octet, eight]
            word >>= np.uint64(8)
            octet += 1
    return programme.answers.records - never, loss, cost


@njit
def best_ends(
    programme: Programme, here: int, states: States, points: Points, ends: IntArray
) -> int:
    """Write the bounds of :func:`_best_end` for the states of a set.

    States that a point is at least as good as, whatever follows, are left out.

    Parameters
    ----------
    ends : numpy.ndarray of int64, shape (states of the set, 3)
        Filled.

    Returns
    -------
    int
        How many rows were filled.
    """
    _sum_octets(programme, here)
    rows = 0
    for state in range(states.first[here], states.stop[here]):
        answered, loss, cost = _best_end(programme, here, states, state)
        if not beaten(points, programme.coverage, answered, loss, cost):
            ends[rows, 0], ends[rows, 1], ends[rows, 2] = answered, loss, cost
            rows += 1
    return rows


@njit_lean
def _sum_octets(programme: Programme, here: int) -> None:
    """Fill ``cost_sums`` and ``loss_sums`` for set ``here``.

    The sum over the records in a mask then takes one look-up for eight of them.
    """
    cost_sums, loss_sums = programme.cost_sums, programme.loss_sums
    records = programme.answers.records
    for o in range(len(cost_sums)):
        cost_sums[o, 0], loss_sums[o, 0] = 0, 0
        for i in range(8):
            r = 8 * o + i
            cost = programme.ahead.cost[here, r] if r < records else 0
            loss = np.int64(programme.ahead.loss[here, r]) if r < records else 0
            for pattern in range(1 << i):
                cost_sums[o, (1 << i) + pattern] = cost_sums[o, pattern] + cost
                loss_sums[o, (1 << i) + pattern] = loss_sums[o, pattern] + loss


@njit_lean
def beaten(points: Points, coverage: bool, answered: int, loss: int, cost: int) -> bool:
    """Return whether a point is at least as good; in answers only if ``coverage`` counts."""
    last = np.searchsorted(points.cost[: points.size[0]], cost, side="right")
    for i in range(last - 1, -1, -1):  # the most expensive of the affordable ones are the best
        if points.loss[i] <= loss and (not coverage or points.answered[i] >= answered):
            return True
        if not coverage:  # on a front of loss and cost the most expensive point loses least
            return False
    return False


@njit
def enter(
    points: Points, coverage: bool, answered: int, loss: int, cost: int, states: States, last: int
) -> bool:
    """Enter a chain that consists of state ``last`` and a stage of all features.

    Points that it is at least as good as are removed. Returns False where there is no room.
    """
    if beaten(points, coverage, answered, loss, cost):
        return True
    size = 0
    for i in range(points.size[0]):
        worse = points.cost[i] >= cost and points.loss[i] >= loss
        if not (worse and (not coverage or points.answered[i] <= answered)):
            _move(points, i, size)
            size += 1
    points.size[0] = size
    if size == len(points.cost):
        return False
    at = np.searchsorted(points.cost[:size], cost)
    for i in range(size, at, -1):
        _move(points, i - 1, i)
    points.answered[at], points.loss[at], points.cost[at] = answered, loss, cost
    points.chains[at, :], points.levels[at, :] = 0, 0
    depth = 0
    while last > 0:
        points.chains[at, depth], points.levels[at, depth] = states.owner[last], states.level[last]
        depth += 1
        last = states.parent[last]
    points.size[0] = size + 1
    return True


@njit
def _move(points: Points, source: int, target: int) -> None:
    if source != target:
        points.answered[target] = points.answered[source]
        points.loss[target], points.cost[target] = points.loss[source], points.cost[source]
        copy(points.chains[source], points.chains[target])
        copy(points.levels[source], points.levels[target])


@njit_lean
def _covers(states: States, a: int, b: int) -> bool:
    """Return whether state ``a`` is at least as good as ``b`` of the same set (P1, P2)."""
    if (
        states.cost[a] > states.cost[b]
        or states.loss[a] > states.loss[b]
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
    copy(states.waiting[source], states.waiting[target])
    states.left[target] = states.left[source]
    states.loss[target] = states.loss[source]
    states.cost[target] = states.cost[source]
    states.stages[target] = states.stages[source]
    states.owner[target] = states.owner[source]
    states.level[target] = states.level[source]
    states.parent[target] = states.parent[source]


@njit_lean
def covered(states: States, new: int, recent: IntArray, listed: int) -> bool:
    """Return whether a listed state covers ``new``; if one does, it moves to the front."""
    for i in range(listed):
        if _covers(states, recent[i], new):
            _to_front(recent, i, recent[i])  # what covers one new state often covers the next
            return True
    return False


@njit_lean
def _to_front(recent: IntArray, listed: int, state: int) -> int:
    """Put a state before the first ``listed`` ones of a list; return how many these are now.

    Those behind it move on by one place; where the list is full, the last one drops out.
    """
    listed = min(listed + 1, len(recent))
    for i in range(listed - 1, 0, -1):
        recent[i] = recent[i - 1]
    recent[0] = state
    return listed


@njit
def _fewest_first(left: Array) -> IntArray:
    """Return the positions of states by their numbers of undecided records, ascending."""
    most = 0
    for records in left:
        most = max(most, records)
    place = np.zeros(most + 2, dtype=np.int64)  # where the next state with so many records goes
    for records in left:
        place[records + 1] += 1
    for records in range(most):
        place[records + 1] += place[records]
    order = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        order[place[left[i]]] = i
        place[left[i]] += 1
    return order


@njit
def _thin_out(states: States, first: int, stop: int, spare: int, recent: IntArray) -> int:
    """Drop states ``first`` to ``stop - 1`` that others of them cover; return the new end.

    They are sorted by the number of undecided records, so that a state comes after all that may
    cover it; rows from ``spare`` on are scratch.
    """
    order = _fewest_first(states.left[first:stop])
    for i in range(stop - first):
        _copy(states, first + order[i], spare + i)
    end, listed = first, 0
    for i in range(stop - first):
        _copy(states, spare + i, end)
        if covered(states, end, recent, listed):
            continue
        listed = _to_front(recent, listed, end)
        end += 1
    return end
