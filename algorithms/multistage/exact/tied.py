"""Lists the chains that share the points of a front, by a second enumeration.

The first enumeration only counts them. There may be thousands, so their number is limited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from algorithms.multistage.exact.chains import ChainFront
from algorithms.multistage.exact.enumeration import Enumeration, Piece, next_set, pieces, single
from algorithms.multistage.kernels.scoring import popcount
from framework.arrays import Array, IntArray, frozen
from framework.jit import njit
from framework.preparation import InProcess, Workforce


class Wanted(NamedTuple):
    """``walk``; ``cost`` a cell of (answered, right), -1 where none is wanted; ``most`` a piece."""

    walk: Enumeration
    cost: IntArray
    most: int


def tied_chains(
    walk: Enumeration,
    front: ChainFront,
    most: int,
    workers: Workforce | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[IntArray, Array]:
    """Return the chains that reach the points of a front.

    Parameters
    ----------
    walk : Enumeration
    front : ChainFront
    most : int
        Chains after which it ends.
    workers, report
        As for :func:`algorithms.multistage.exact.enumeration.enumerate_chains`.

    Returns
    -------
    members : numpy.ndarray of int64, shape (m,)
        Position of each one's point in ``front``, ascending.
    chains : numpy.ndarray of int, shape (m, max(k - 1, 1))
        As in :class:`~algorithms.multistage.exact.chains.ChainFront`.

    Notes
    -----
    O(words) a chain; those that begin dearer than every point of the front are passed over.
    """
    cells = (walk.records + 1) * (walk.records + 2) // 2
    cost, member = np.full((2, cells), -1, dtype=np.int64)
    at = front.answered * (front.answered + 1) // 2 + front.right
    cost[at], member[at] = front.cost, np.arange(len(front))
    number, chains = pieces(walk.price.size.bit_length() - 1, walk.k)
    wanted, done = Wanted(walk, frozen(cost), most), 0
    found = [(np.zeros(0, dtype=np.int64), np.zeros((0, max(walk.k - 1, 1)), dtype=np.int32))]
    for piece, many in zip(
        (workers or InProcess()).map(chains_of_piece, wanted, number), chains, strict=True
    ):
        found.append(piece)
        done += many
        report(done, sum(chains))
        if sum(len(some) for some, _ in found) >= most:
            break
    members = member[np.concatenate([some for some, _ in found])[:most]]
    order = np.argsort(members, kind="stable")
    return members[order], np.concatenate([rows for _, rows in found])[:most][order]


def chains_of_piece(wanted: Wanted, piece: Piece) -> tuple[IntArray, Array]:
    """Return the wanted chains of a piece, in order, at most ``wanted.most``: cells and chains."""
    walk, most = wanted.walk, wanted.most
    cells = np.zeros(most, dtype=np.int64)
    chains = np.zeros((most, max(walk.k - 1, 1)), dtype=np.int32)
    count = 0
    if piece[0] == 0:  # the others' first sets follow; their chains of two are here
        answered, right, cost = single(walk)
        only = answered * (answered + 1) // 2 + right
        if wanted.cost[only] == cost:
            cells[0], count = only, 1
    firsts = piece if piece[0] else (1, len(walk.price) - 1 if walk.k > 1 else 1)
    lengths = (1, 1) if piece[0] == 0 else (2, walk.k - 1)
    count = _write(walk, firsts, lengths, wanted.cost, cells, chains, count)
    return cells[:count], chains[:count]


@njit
def _write(
    walk: Enumeration,
    firsts: tuple[int, int],
    lengths: tuple[int, int],
    wanted: IntArray,
    cells: IntArray,
    chains: Array,
    count: int,
) -> int:
    """Write wanted chains, and their cells, from row ``count`` on; return where they end.

    Their first set is one of ``firsts`` (from, to below); before the set of all features they have
    ``lengths`` sets (least, greatest). When ``chains`` is full it ends, too.
    """
    faces, rights, price, everyone = walk.faces, walk.right, walk.price, walk.everyone
    records, k = walk.records, walk.k
    least, deepest = lengths
    dearest = wanted.max()
    words = len(everyone)
    full = len(price) - 1
    waiting = np.zeros((k + 1, words), dtype=np.uint64)  # undecided after each set of the chain
    left, right, cost = np.zeros((3, k + 1), dtype=np.int64)
    chain, more = np.zeros((2, k + 1), dtype=np.int64)
    waiting[0], left[0] = everyone, records
    for root in range(firsts[0], firsts[1]):
        depth, here = 0, root
        while count < len(cells):
            before = chain[depth - 1] if depth else 0
            cost[depth + 1] = cost[depth] + left[depth] * (price[here] - price[before])
            left[depth + 1], right[depth + 1] = 0, right[depth]
            good, never = right[depth], 0
            for w in range(words):
                mask = waiting[depth, w]
                right[depth + 1] += popcount(mask & rights[here, w])
                waiting[depth + 1, w] = mask & faces[here, w]
                left[depth + 1] += popcount(waiting[depth + 1, w])
                good += popcount(mask & faces[here, words + w])
                never += popcount(mask & faces[here, 2 * words + w])
            chain[depth] = here
            depth += 1
            paid = cost[depth] + left[depth] * (price[full] - price[here])
            cell = (((records - never) * (records - never + 1)) >> 1) + good
            if depth >= least and paid == wanted[cell]:
                cells[count] = cell
                for d in range(depth):
                    chains[count, d] = chain[d]
                count += 1
            goes_on = depth < deepest and cost[depth] <= dearest
            more[depth] = full & ~here if goes_on else 0
            depth, here = next_set(chain, more, full, depth)
            if depth == 0:
                break
    return count
