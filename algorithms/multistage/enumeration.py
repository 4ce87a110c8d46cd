"""Every chain of feature sets, one by one: the exact front of few stages, with counts.

For each pair (answered, right) the least cost over all chains is kept, how many chains have it,
and one of them. The front lies among these cells, and everything is an integer.
"""

from __future__ import annotations

import numpy as np

from algorithms.multistage.chains import Found, prices, single_stage, surjections
from framework.arrays import Array, IntArray, WordArray
from framework.jit import njit
from framework.kernels.stages import popcount
from framework.problems.stage_tables import StageTables

_NEVER = np.int64(2**62)  # cost of a cell that no chain reached
_BLOCK = 64  # first stages a call: Ctrl-C is heard between calls


def enumerate_chains(tables: StageTables, costs: IntArray, k: int) -> Found:
    """Go through all chains of at most ``k`` sets.

    Parameters
    ----------
    tables : StageTables
    costs : numpy.ndarray of int64, shape (n,)
        Fixed-point, not negative.
    k : int
        Greatest number of stages, 1 <= k <= n.

    Returns
    -------
    Found
        For each pair (answered, right) that some chain has: the least cost, how many chains have
        these three, and the first of them.

    Notes
    -----
    O(words) a chain: three masked popcounts, for the last two sets at once, and a look at the
    cell. A chain that leaves no record undecided ends the walk: all that extend it are alike, and
    are counted by formula.
    """
    n, N = len(costs), tables.records
    price, full = prices(costs), (1 << n) - 1
    cells = (N + 1) * (N + 2) // 2
    least, tally = np.full(cells, _NEVER), np.zeros(cells, dtype=np.int64)
    example = np.zeros((cells, max(k - 1, 1)), dtype=np.int32)
    answered, right, cost = single_stage(tables, int(price[full]))
    only = answered * (answered + 1) // 2 + right
    least[only], tally[only] = cost, 1
    if k > 1:
        faces, alike = _faces(tables), _alike(n, k)
        _pairs(
            faces, price, 0, tables.everyone, N, 0, 0, 0, N, np.zeros(1, dtype=np.int64),
            least, tally, example,
        )  # fmt: skip
        for first in range(1, full if k > 2 else 1, _BLOCK):
            last = min(first + _BLOCK, full)
            _subtrees(
                faces, tables.right, price, tables.everyone, N, k, first, last, alike, least,
                tally, example,
            )  # fmt: skip
    reached = np.flatnonzero(tally)
    some = np.repeat(np.arange(N + 1), np.arange(1, N + 2))[reached]
    few = reached - some * (some + 1) // 2
    return Found(some, few, least[reached], example[reached], tally[reached])


def table_bytes(records: int, k: int) -> int:
    """Return the memory of the cells."""
    return (records + 1) * (records + 2) // 2 * (16 + 4 * max(k - 1, 1))


def _faces(tables: StageTables) -> WordArray:
    """Return, a row a set: undecided; right here or else at the end; undecided even at the end.

    Shape (2^n, 3 * words).
    """
    undecided = ~tables.conclusive & tables.everyone
    finally_right = tables.right | (tables.right[-1] & undecided)
    return np.concatenate([undecided, finally_right, undecided & undecided[-1]], axis=1)


def _alike(n: int, k: int) -> IntArray:
    """Return how many chains go on in 2 to s sets where m features are left, shape (n+1, k+1)."""
    table = np.zeros((n + 1, k + 1), dtype=np.int64)
    for m in range(n + 1):
        for s in range(2, k + 1):
            table[m, s] = table[m, s - 1] + surjections(m, s)
    return table


@njit
def _pairs(
    faces: WordArray, price: IntArray, held: int, waiting: WordArray, left: int, right: int,
    cost: int, depth: int, records: int, chain: IntArray, least: IntArray, tally: IntArray,
    example: Array,
) -> None:  # fmt: skip
    """Enter the chains that go on from ``held`` with one more set and then all features."""
    words = len(waiting)
    full = len(price) - 1
    total = price[full]
    rest = full & ~held
    start = cost - left * price[held]
    more = (rest - 1) & rest
    while more:
        here = held | more
        still, good, never = 0, right, 0
        for w in range(words):
            mask = waiting[w]
            still += popcount(mask & faces[here, w])
            good += popcount(mask & faces[here, words + w])
            never += popcount(mask & faces[here, 2 * words + w])
        paid = start + left * price[here] + still * (total - price[here])
        answered = records - never
        cell = ((answered * (answered + 1)) >> 1) + good
        if paid < least[cell]:  # written out: a call here makes the loop half as fast
            least[cell], tally[cell] = paid, 1
            for d in range(depth):
                example[cell, d] = chain[d]
            example[cell, depth] = here
            for d in range(depth + 1, example.shape[1]):
                example[cell, d] = 0
        elif paid == least[cell]:
            tally[cell] += 1
        more = (more - 1) & rest


@njit
def _enter(
    cell: int, paid: int, number: int, chain: IntArray, depth: int, least: IntArray,
    tally: IntArray, example: Array,
) -> None:  # fmt: skip
    """Enter ``number`` chains that begin with ``chain[:depth]`` and end alike."""
    if paid < least[cell]:
        least[cell] = paid
        tally[cell] = 0
        for d in range(example.shape[1]):
            example[cell, d] = chain[d] if d < depth else 0
    if paid == least[cell]:
        tally[cell] += number


@njit
def _subtrees(
    faces: WordArray, rights: WordArray, price: IntArray, everyone: WordArray, records: int,
    k: int, first: int, last: int, alike: IntArray, least: IntArray, tally: IntArray,
    example: Array,
) -> None:  # fmt: skip
    """Enter the chains of three sets and more whose first is in ``first`` to ``last - 1``."""
    words = len(everyone)
    full = len(price) - 1
    waiting = np.zeros((k, words), dtype=np.uint64)  # undecided after each set of the chain
    left, right, cost = np.zeros((3, k), dtype=np.int64)
    chain, more = np.zeros((2, k), dtype=np.int64)
    waiting[0], left[0] = everyone, records
    for root in range(first, last):
        depth, here = 0, root
        while True:
            before = chain[depth - 1] if depth else 0
            cost[depth + 1] = cost[depth] + left[depth] * (price[here] - price[before])
            left[depth + 1], right[depth + 1] = 0, right[depth]
            for w in range(words):
                right[depth + 1] += popcount(waiting[depth, w] & rights[here, w])
                waiting[depth + 1, w] = waiting[depth, w] & faces[here, w]
                left[depth + 1] += popcount(waiting[depth + 1, w])
            chain[depth] = here
            depth += 1
            if left[depth] == 0:
                number = alike[popcount(np.uint64(full & ~here)), k - depth]
                cell = ((records * (records + 1)) >> 1) + right[depth]
                _enter(cell, cost[depth], number, chain, depth, least, tally, example)
                more[depth] = 0
            else:
                _pairs(faces, price, here, waiting[depth], left[depth], right[depth], cost[depth],
                       depth, records, chain, least, tally, example)  # fmt: skip
                more[depth] = full & ~here if depth < k - 2 else 0
            depth, here = _next(chain, more, full, depth)
            if depth == 0:
                break


@njit
def _next(chain: IntArray, more: IntArray, full: int, depth: int) -> tuple[int, int]:
    """Return where the walk goes on: how many sets of the chain stay, and the set after them.

    ``more`` has, for each depth, the features that the last set tried there adds.
    """
    while depth > 0:
        if more[depth]:
            more[depth] = (more[depth] - 1) & full & ~chain[depth - 1]
        if more[depth]:
            return depth, chain[depth - 1] | more[depth]
        depth -= 1
    return 0, 0
