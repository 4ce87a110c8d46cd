"""What each feature set answers, and what the sets that contain it still can: tables by set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import BoolArray, IntArray, WordArray
from framework.jit import njit


class Sets(NamedTuple):
    """Tables with a row for each feature set.

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
    """Make ``reach``, ``hope`` and ``cheapest`` tell of chains whose next set is an open one.

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
