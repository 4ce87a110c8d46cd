"""Boxes, each a part of the search space, and the cuts that are valid in them.

x are the members, L is the vote threshold, and z_p is 1 where pattern p is called positive. A box
bounds the size S = x(all) to [sa, sb] and L to [la, lb].

- *Conflict*: z_i - z_j <= x(classifiers that vote for i but not for j). Pattern i can have more
  than L votes while j has not only if there is such a member.
- *Count*: let U be the classifiers that vote for a pattern and C any set of classifiers. Then
  x(C) >= L + 1 - |U outside C| if the pattern is called positive (it has more than L votes), and
  x(C) <= L + |C outside U| if it is called negative. A constant times 1 - z or z, the least that
  the box allows, makes the row void for the other call. C = U gives the row of the program itself.
  The sets that follow from a fractional solution give all that one pattern implies at one size and
  threshold (a mixed-integer program with one disjunction).

A cut is a row of whole numbers: its code, then for a count the bits of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.moves.bits import pack, unpack
from framework.arrays import Array, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Box:
    """A part of the search space.

    Attributes
    ----------
    x : numpy.ndarray of int8, shape (K,)
        1 for a classifier that is a member, 0 for one that is not, -1 for an open one.
    calls : numpy.ndarray of int8, shape (P,)
        1 for a pattern that must be called positive, 0 for negative, -1 for an open one.
    sizes, thresholds : (int, int)
        Least and greatest number of members and threshold, inclusive.
    """

    x: Array
    calls: Array
    sizes: tuple[int, int]
    thresholds: tuple[int, int]

    def tightened(self, majority: bool) -> Box | None:
        """Return the box with the narrowest sizes and thresholds; None if it is empty."""
        (sa, sb), (la, lb) = self.sizes, self.thresholds
        sa = max(sa, int((self.x == 1).sum()), la + 1)
        sb = min(sb, int((self.x != 0).sum()))
        if majority:
            sa, sb = max(sa, 2 * la), min(sb, 2 * lb + 1)
            la, lb = max(la, sa // 2), min(lb, sb // 2)
        lb = min(lb, sb - 1)
        return Box(self.x, self.calls, (sa, sb), (la, lb)) if sa <= sb and la <= lb else None

    def limits(self, patterns: IntArray) -> Limits:
        """Return what the box implies for the call of each pattern.

        ``patterns``, shape (P, K), has a 1 for each classifier that votes for the pattern.
        """
        (sa, sb), (la, lb) = self.sizes, self.thresholds
        open_or_in, inside = (self.x != 0).astype(np.int64), (self.x == 1).astype(np.int64)
        most, sure = patterns @ open_or_in, patterns @ inside
        outside = int(open_or_in.sum()) - most
        most = np.minimum(most, sb - (int(inside.sum()) - sure))
        least = np.maximum(sure, sa - outside)
        never, always = most <= la, (least > lb) | (outside == 0)
        return Limits(never | (self.calls == 0), always | (self.calls == 1), never | always)


class Limits(NamedTuple):
    """What a box implies for each pattern, arrays of shape (P,).

    A pattern is ``never`` or ``always`` called positive; if both hold, the box is empty.
    ``implied`` says that members, sizes and thresholds imply it without a decision in ``calls``.
    """

    never: BoolArray
    always: BoolArray
    implied: BoolArray


Cuts = IntArray
"""Cuts as rows, shape (m, 1 + words). The code ``i * D + j`` is a conflict of pattern i of ``up``
and j of ``down``; ``-1 - 2 p`` and ``-2 - 2 p`` are counts of pattern p called positive and called
negative, the patterns of ``up`` first."""


def no_cuts(k: int) -> Cuts:
    """Return an empty array of cuts for ``k`` classifiers."""
    return np.zeros((0, 1 + -(-k // 64)), dtype=np.int64)


def conflicts(pairs: IntArray, down: int, k: int) -> Cuts:
    """Return the conflict cuts of pairs of patterns (up, down), shape (m, 2)."""
    cuts = np.zeros((len(pairs), no_cuts(k).shape[1]), dtype=np.int64)
    cuts[:, 0] = pairs[:, 0] * down + pairs[:, 1]
    return cuts


def counts(patterns: IntArray, negative: BoolArray, sets: BoolArray) -> Cuts:
    """Return count cuts of patterns (m,), called negative or not (m,), with sets C (m, K)."""
    codes = -1 - 2 * patterns - negative
    return np.column_stack([codes, pack(sets).view(np.int64)])


def is_conflict(cuts: Cuts) -> BoolArray:
    """Return which cuts are conflicts."""
    return np.asarray(cuts[:, 0] >= 0)


def of_counts(cuts: Cuts, k: int) -> tuple[IntArray, BoolArray, BoolArray]:
    """Return the arguments of :func:`counts` that made these cuts."""
    code = -1 - cuts[:, 0]
    words = np.ascontiguousarray(cuts[:, 1:]).view(np.uint64)
    return code // 2, code % 2 == 1, unpack(words, k).astype(bool)


def without(cuts: Cuts, held: Cuts) -> BoolArray:
    """Return which cuts are not among those of ``held``."""
    present = {row.tobytes() for row in np.ascontiguousarray(held)}
    return np.array(
        [row.tobytes() not in present for row in np.ascontiguousarray(cuts)], dtype=bool
    )


def constants(
    box: Box, votes: BoolArray, negative: BoolArray, sets: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the two constants of count cuts with rows of votes U and sets C.

    The first counts the possible members by which the sets differ: |U outside C| if the pattern is
    called positive, |C outside U| if it is called negative. The second is the constant that makes
    the row void for the other call.
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
    """Return for each pattern the count that a solution breaks most, and by how much.

    Parameters
    ----------
    patterns : tuple
        The patterns' numbers, their votes U (a row each), and whether to cut the negative call.
    x, z, threshold
        The fractional solution; ``z`` of these patterns only.
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
