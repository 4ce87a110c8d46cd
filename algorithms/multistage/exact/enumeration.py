"""The exact front of few stages by enumeration of all chains of feature sets, with counts.

For each pair (answered, right), a cell holds the least cost over all chains, how many chains have
this cost, and one of them. The front is among these cells, and all numbers are integers. The
chains are divided by their first set into pieces that any worker can do; the minima and counts of
the pieces are then merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from algorithms.moves.bits import popcount
from algorithms.multistage.bit_planes import StageTables
from algorithms.multistage.exact.chains import ChainFront, Prices, surjections
from framework.arrays import Array, IntArray, WordArray, frozen
from framework.jit import copy, njit
from framework.preparation import InProcess, Workforce

_NEVER = np.int64(2**62)  # cost of a cell that no chain reached
_PIECE_CHAINS = 20_000_000  # a tenth of a second: Ctrl-C and the progress bar wait for a piece
_PIECES_AT_MOST = 1000

Piece = tuple[int, int]
"""The chains of three sets and more whose first set has a number from ``piece[0]`` to
``piece[1] - 1``; the piece (0, 1) stands for all chains of one set and of two."""


class Enumeration(NamedTuple):
    """What the enumeration of a piece reads; arrays are read-only, as Ray's object store has them.

    ``masks`` is described at :func:`_masks`, ``alike`` at :func:`_alike`. ``right`` is that of the
    tables, ``price`` that of every set, and ``of_stage`` that of every stage. ``everyone`` has one
    bit per record, ``records`` is their number, and ``k`` the greatest number of stages.
    """

    masks: WordArray
    right: WordArray
    price: IntArray
    of_stage: int
    everyone: WordArray
    alike: IntArray
    records: int
    k: int


class Cells(NamedTuple):
    """Pairs (answered, right): all of them, or those that some chain reached.

    Each has the ``least`` cost, how many chains have this cost (``ties``), and the first of them
    (``example``).
    """

    least: IntArray
    ties: IntArray
    example: Array


def enumerate_chains(
    tables: StageTables,
    price: Prices,
    k: int,
    workers: Workforce | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> ChainFront:
    """Go through all chains of at most ``k`` sets.

    Parameters
    ----------
    k : int
        Greatest number of stages, 1 <= k <= n.
    workers : Workforce, optional
        Who enumerates the pieces; this process if None. The result does not depend on it.
    report : callable
        Called with the number of chains that are done, and the number of all chains.

    Returns
    -------
    ChainFront
        For each pair (answered, right) that some chain has: the least cost, how many chains have
        these three values, and the first of these chains.

    Notes
    -----
    O(words) per chain: three popcounts, which cover the last two sets, and one look at the cell.
    Where a chain leaves no record undecided, its extensions are not visited: all have the same
    values, and their number follows from a formula.
    """
    walk = enumeration_of(tables, price, k)
    numbers, chains = pieces(price.features, k)
    best = _empty_cells(walk)
    done, total = 0, sum(chains)
    results = (workers or InProcess()).map(enumerate_piece, walk, numbers)
    for (at, cells), many in zip(results, chains, strict=True):
        _merge(best, at, cells)
        done += many
        report(done, total)
    reached = np.flatnonzero(best.ties)
    records = tables.records
    answered = np.repeat(np.arange(records + 1), np.arange(1, records + 2))[reached]
    right = reached - answered * (answered + 1) // 2
    columns = best.least[reached], best.example[reached], best.ties[reached]
    return ChainFront(answered, right, *columns)


def enumeration_of(tables: StageTables, price: Prices, k: int) -> Enumeration:
    """Return what the enumeration of each piece reads."""
    return Enumeration(
        frozen(_masks(tables)),
        frozen(tables.right),
        frozen(price.of_set),
        price.of_stage,
        frozen(tables.everyone),
        frozen(_alike(price.features, k)),
        tables.records,
        k,
    )


def pieces(n: int, k: int) -> tuple[list[Piece], list[int]]:
    """Divide the chains into pieces; return the pieces and the number of chains in each.

    They depend on ``n`` and ``k`` alone. Chains with the same first set stay in one piece. Most
    chains begin with a single feature, so the largest piece may have a share of ln(2) / n of all.
    """
    if k == 1:
        return [(0, 1)], [1]
    full = (1 << n) - 1
    sizes = np.bitwise_count(np.arange(1, full))
    upto = np.cumsum(_alike(n, k)[n - sizes, k - 1])
    total = int(upto[-1]) if k > 2 and len(upto) else 0
    size = max(_PIECE_CHAINS, total // _PIECES_AT_MOST)
    ends = np.searchsorted(upto, np.arange(size, total, size)) + 1  # the piece that gets full
    bounds = np.unique(np.concatenate([[0], ends, [len(upto)]])) if total else np.zeros(1, int)
    numbers: list[Piece] = [(0, 1)]
    chains = [full]  # 2^n - 2 of two sets and one of one
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        numbers.append((start + 1, stop + 1))
        chains.append(int(upto[stop - 1] - (upto[start - 1] if start else 0)))
    return numbers, chains


def enumerate_piece(walk: Enumeration, piece: Piece) -> tuple[IntArray, Cells]:
    """Go through all chains of a piece; return the cells that they reach, with their numbers."""
    best = _empty_cells(walk)
    if piece[0]:
        _subtrees(walk, *piece, best)
    else:
        answered, right, cost = single(walk)
        cell = answered * (answered + 1) // 2 + right
        best.least[cell], best.ties[cell] = cost, 1
        if walk.k > 1:
            no_chain = np.zeros(1, dtype=np.int64)
            start = (walk.everyone, walk.records, 0, 0, 0, walk.records, no_chain)
            _pairs(walk.masks, walk.price, walk.of_stage, 0, *start, *best)
    reached = np.flatnonzero(best.ties)
    return reached, Cells(*(column[reached] for column in best))


def _empty_cells(walk: Enumeration) -> Cells:
    """Return cells that no chain has reached."""
    cells = (walk.records + 1) * (walk.records + 2) // 2
    example = np.zeros((cells, max(walk.k - 1, 1)), dtype=np.int32)
    return Cells(np.full(cells, _NEVER), np.zeros(cells, dtype=np.int64), example)


def single(walk: Enumeration) -> tuple[int, int, int]:
    """Return answered, right and cost of the chain whose only set has all features."""
    undecided = int(np.bitwise_count(walk.masks[-1, : len(walk.everyone)]).sum())
    right = int(np.bitwise_count(walk.right[-1]).sum())
    return walk.records - undecided, right, walk.records * (int(walk.price[-1]) + walk.of_stage)


def _merge(best: Cells, at: IntArray, cells: Cells) -> None:
    """Merge the cells of a piece into those at ``at``; of equal costs the earlier example stays."""
    least, ties, example = best
    better = cells.least < least[at]
    ties[at[better]] = 0
    least[at[better]], example[at[better]] = cells.least[better], cells.example[better]
    as_good = cells.least == least[at]
    ties[at[as_good]] += cells.ties[as_good]


def table_bytes(records: int, k: int) -> int:
    """Return the bytes of all cells twice: those of one piece and those of the merged result."""
    return 2 * (records + 1) * (records + 2) // 2 * (16 + 4 * max(k - 1, 1))


def _masks(tables: StageTables) -> WordArray:
    """Return three masks of records for each set, side by side: shape (2^n, 3 * words).

    Seen from a chain whose last set but one is this set: the records that it leaves undecided,
    those that it or else the last set answers rightly, and those that neither answers.
    """
    undecided = ~tables.conclusive & tables.everyone
    finally_right = tables.right | (tables.right[-1] & undecided)
    return np.concatenate([undecided, finally_right, undecided & undecided[-1]], axis=1)


def _alike(n: int, k: int) -> IntArray:
    """Return in how many ways 2 to s sets complete a chain that lacks m features: (n+1, k+1)."""
    table = np.zeros((n + 1, k + 1), dtype=np.int64)
    for m in range(n + 1):
        for s in range(2, k + 1):
            table[m, s] = table[m, s - 1] + surjections(m, s)
    return table


@njit
def _pairs(
    masks: WordArray,
    price: IntArray,
    of_stage: int,
    held: int,
    waiting: WordArray,
    left: int,
    right: int,
    cost: int,
    depth: int,
    records: int,
    chain: IntArray,
    least: IntArray,
    ties: IntArray,
    example: Array,
) -> None:
    """Enter the chains that go on from ``held`` with one more set and then all features.

    ``held`` is the last of the ``depth`` sets of ``chain``; after it, ``left`` records are
    ``waiting``, ``right`` are answered rightly, and ``cost`` is paid. Passing the arrays as tuples
    would make the enumeration half as fast.
    """
    words = len(waiting)
    full = len(price) - 1
    total = price[full] + of_stage
    rest = full & ~held
    start = cost + left * (of_stage - price[held])
    more = (rest - 1) & rest
    while more:  # every proper subset of the remaining features, except the empty one
        here = held | more
        still, good, never = 0, right, 0
        for w in range(words):
            mask = waiting[w]
            still += popcount(mask & masks[here, w])
            good += popcount(mask & masks[here, words + w])
            never += popcount(mask & masks[here, 2 * words + w])
        paid = start + left * price[here] + still * (total - price[here])
        answered = records - never
        cell = ((answered * (answered + 1)) >> 1) + good
        if paid < least[cell]:  # written out: a call here makes the loop half as fast
            least[cell], ties[cell] = paid, 1
            for d in range(depth):
                example[cell, d] = chain[d]
            example[cell, depth] = here
            for d in range(depth + 1, example.shape[1]):
                example[cell, d] = 0
        elif paid == least[cell]:
            ties[cell] += 1
        more = (more - 1) & rest


@njit
def _enter(
    cell: int,
    paid: int,
    number: int,
    chain: IntArray,
    depth: int,
    least: IntArray,
    ties: IntArray,
    example: Array,
) -> None:
    """Enter ``number`` chains that begin with ``chain[:depth]`` and have the same values."""
    if paid < least[cell]:
        least[cell] = paid
        ties[cell] = 0
        for d in range(example.shape[1]):
            example[cell, d] = chain[d] if d < depth else 0
    if paid == least[cell]:
        ties[cell] += number


@njit
def _subtrees(walk: Enumeration, first: int, last: int, best: Cells) -> None:
    """Enter the chains of three sets and more whose first set is in ``range(first, last)``.

    A depth-first walk over all but the last two sets, which :func:`_pairs` adds.
    """
    masks, rights, price, everyone = walk.masks, walk.right, walk.price, walk.everyone
    alike, records, k, of_stage = walk.alike, walk.records, walk.k, walk.of_stage
    least, ties, example = best.least, best.ties, best.example
    words = len(everyone)
    full = len(price) - 1
    waiting = np.zeros((k, words), dtype=np.uint64)  # undecided after each set of the chain
    left, right, cost = np.zeros((3, k), dtype=np.int64)
    chain, more = np.zeros((2, k), dtype=np.int64)
    copy(everyone, waiting[0])
    left[0] = records
    for root in range(first, last):
        depth, here = 0, root
        while True:
            before = chain[depth - 1] if depth else 0
            step = price[here] - price[before] + of_stage
            cost[depth + 1] = cost[depth] + left[depth] * step
            left[depth + 1], right[depth + 1] = 0, right[depth]
            for w in range(words):
                right[depth + 1] += popcount(waiting[depth, w] & rights[here, w])
                waiting[depth + 1, w] = waiting[depth, w] & masks[here, w]
                left[depth + 1] += popcount(waiting[depth + 1, w])
            chain[depth] = here
            depth += 1
            if left[depth] == 0:  # further sets change nothing: all longer chains are alike
                number = alike[popcount(np.uint64(full & ~here)), k - depth]
                cell = ((records * (records + 1)) >> 1) + right[depth]
                _enter(cell, cost[depth], number, chain, depth, least, ties, example)
                more[depth] = 0
            else:
                state = waiting[depth], left[depth], right[depth], cost[depth]
                cells = least, ties, example
                _pairs(masks, price, of_stage, here, *state, depth, records, chain, *cells)
                more[depth] = full & ~here if depth < k - 2 else 0
            depth, here = next_set(chain, more, full, depth)
            if depth == 0:
                break


@njit
def next_set(chain: IntArray, more: IntArray, full: int, depth: int) -> tuple[int, int]:
    """Return where the walk goes on: how many sets of the chain stay, and the set after them.

    ``more`` has, for each depth, the features that the last set tried there adds; 0 sets stay at
    the end of the walk.
    """
    while depth > 0:
        if more[depth]:
            more[depth] = (more[depth] - 1) & full & ~chain[depth - 1]
        if more[depth]:
            return depth, chain[depth - 1] | more[depth]
        depth -= 1
    return 0, 0
