"""Boxes: the members, calls, sizes and thresholds that a part of the search still allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, IntArray


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
