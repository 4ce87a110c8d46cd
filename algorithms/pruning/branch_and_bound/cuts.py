"""Boxes, which are what a part of the search still allows, and the cuts that are valid in them.

- *Conflict*: z_i - z_j <= sum of x over the classifiers that vote for i but not for j, as i is
  above the threshold L and j is not only if such a member exists.
- *Count*: a pattern voted positive by U that is called positive has more than L votes, so any set
  C of classifiers has at least L + 1 - |U outside C| of them; one called negative has at most L,
  so C has at most L + |C outside U|. A constant, the least that the box allows, frees the other
  call. C = U is the pattern's own row; the sets that follow from the members' values give all that
  one pattern implies at one size and threshold (a mixed-integer program of one disjunction).

A cut is a row of whole numbers: its code, then for a count the bits of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.pruning.votes import packed, unpacked
from framework.arrays import Array, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Box:
    """What is still open.

    Attributes
    ----------
    x : numpy.ndarray of int8, shape (K,)
        1 and 0 for members decided, -1 for open ones.
    calls : numpy.ndarray of int8, shape (P,)
        1 for patterns that are to be called positive, 0 for negative ones, -1 for open ones.
    sizes, thresholds : (int, int)
        Least and greatest, inclusive.
    """

    x: Array
    calls: Array
    sizes: tuple[int, int]
    thresholds: tuple[int, int]

    def tightened(self, majority: bool) -> Box | None:
        """Return the box without what cannot be; None if it is empty."""
        (sa, sb), (la, lb) = self.sizes, self.thresholds
        sa = max(sa, int((self.x == 1).sum()), la + 1)
        sb = min(sb, int((self.x != 0).sum()))
        if majority:
            sa, sb = max(sa, 2 * la), min(sb, 2 * lb + 1)
            la, lb = max(la, sa // 2), min(lb, sb // 2)
        lb = min(lb, sb - 1)
        return Box(self.x, self.calls, (sa, sb), (la, lb)) if sa <= sb and la <= lb else None

    def limits(self, patterns: IntArray) -> Limits:
        """Return what the box implies for the call of each pattern, a row of members each."""
        (sa, sb), (la, lb) = self.sizes, self.thresholds
        open_or_in, inside = (self.x != 0).astype(np.int64), (self.x == 1).astype(np.int64)
        most, sure = patterns @ open_or_in, patterns @ inside
        outside = int(open_or_in.sum()) - most
        most = np.minimum(most, sb - (int(inside.sum()) - sure))
        least = np.maximum(sure, sa - outside)
        never, always = most <= la, (least > lb) | (outside == 0)
        return Limits(never | (self.calls == 0), always | (self.calls == 1), never | always)


class Limits(NamedTuple):
    """What a box says of each pattern, shape (P,): both where the box is empty.

    ``never`` and ``always`` called positive; ``implied`` where members, sizes and thresholds say
    so, and not the decided call alone.
    """

    never: BoolArray
    always: BoolArray
    implied: BoolArray


Cuts = IntArray
"""Shape (m, 1 + words). Code ``i * D + j`` is a conflict; ``-1 - 2 p`` a count of pattern p (up
first) where it is called positive, ``-2 - 2 p`` where it is called negative."""


def no_cuts(k: int) -> Cuts:
    """Return no cuts of ``k`` classifiers."""
    return np.zeros((0, 1 + -(-k // 64)), dtype=np.int64)


def conflicts(pairs: IntArray, down: int, k: int) -> Cuts:
    """Return the cuts of pairs (up, down), shape (m, 2)."""
    cuts = np.zeros((len(pairs), no_cuts(k).shape[1]), dtype=np.int64)
    cuts[:, 0] = pairs[:, 0] * down + pairs[:, 1]
    return cuts


def counts(patterns: IntArray, negative: BoolArray, sets: BoolArray) -> Cuts:
    """Return count cuts: of which patterns, whether called negative, and the sets C."""
    codes = -1 - 2 * patterns - negative
    return np.column_stack([codes, packed(sets).view(np.int64)])


def is_conflict(cuts: Cuts) -> BoolArray:
    """Return which cuts are conflicts."""
    return np.asarray(cuts[:, 0] >= 0)


def of_counts(cuts: Cuts, k: int) -> tuple[IntArray, BoolArray, BoolArray]:
    """Return what :func:`counts` was given."""
    code = -1 - cuts[:, 0]
    words = np.ascontiguousarray(cuts[:, 1:]).view(np.uint64)
    return code // 2, code % 2 == 1, unpacked(words, k)


def without(cuts: Cuts, held: Cuts) -> BoolArray:
    """Return which cuts are not among others."""
    present = {row.tobytes() for row in np.ascontiguousarray(held)}
    return np.array(
        [row.tobytes() not in present for row in np.ascontiguousarray(cuts)], dtype=bool
    )


def constants(
    box: Box, votes: BoolArray, negative: BoolArray, sets: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the two constants of count cuts of rows of votes U and sets C.

    The first is the number of open members by which C and U differ: those of U outside C where
    the pattern is called positive, those of C outside U where it is called negative. The second is
    what frees the other call.
    """
    (sa, sb), (la, lb) = box.sizes, box.thresholds
    possible, inside = box.x != 0, box.x == 1
    apart = np.where(negative[:, np.newaxis], sets & ~votes, votes & ~sets) @ possible.astype(float)
    most, sure = sets @ possible.astype(float), sets @ inside.astype(float)
    outside = possible.sum() - most
    least = np.maximum(sure, sa - outside)
    most = np.minimum(most, sb - (inside.sum() - sure))
    # x(C) <= most and L >= la; or x(C) >= least and L <= lb, and L <= S - 1
    free = np.where(negative, most - la - apart, np.minimum(lb + 1 - least, outside) - apart)
    return apart, np.maximum(free, 0.0)


def broken_counts(
    box: Box,
    patterns: tuple[IntArray, BoolArray, BoolArray],
    x: FloatArray,
    z: FloatArray,
    threshold: float,
) -> tuple[Cuts, FloatArray]:
    """Return the count that is broken most for each pattern, and by how much.

    Parameters
    ----------
    patterns : tuple
        Numbers, votes U (a row each) and whether it is the count of the negative call.
    x, z, threshold
        The solution, ``z`` of these patterns.
    """
    numbers, votes, negative = patterns
    z_, negative_ = z[:, np.newaxis], negative[:, np.newaxis]
    shrunk = votes & np.where(negative_, x >= z_, x <= z_)
    grown = votes | np.where(negative_, x > z_, x < 1 - z_)
    amounts = []
    for sets in (votes, shrunk, grown):
        apart, free = constants(box, votes, negative, sets)
        above = threshold + 1 - apart - free * (1 - z) - sets @ x
        below = sets @ x - threshold - apart - free * z
        amounts.append(np.where(negative, below, above))
    which = np.argmax(amounts, axis=0)
    sets = np.choose(which[:, np.newaxis], [votes, shrunk, grown]).astype(bool)
    return counts(numbers, negative, sets), np.max(amounts, axis=0, initial=-np.inf)
