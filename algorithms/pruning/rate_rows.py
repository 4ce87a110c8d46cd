"""Rates of votes as rows of a program, and as fractions to be maximised.

Numerator and denominator of a rate are sums of counts. A rate of at most a limit is, where both
are whole numbers, their weighted sum of at most 0, with the whole weights of the greatest fraction
that keeps to the limit as it is reported: no tolerance is needed.
"""

from __future__ import annotations

from itertools import permutations
from math import gcd
from typing import NamedTuple

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Cap
from algorithms.pruning.votes import VoteTable, Weights
from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.rates import MATTHEWS, RatedRecords, Share, fraction

_NOTHING = Weights(0, 0, 0, 0)
FRACTIONS = ("precision", "f1")
"""Rates whose denominator depends on the answers."""


class Sum(NamedTuple):
    """A whole number that depends on the answers to some records.

    ``constant`` where none is called positive; then ``false`` for each false positive and ``true``
    for each true positive, all by subgroup, shape (G,).
    """

    constant: IntArray
    false: IntArray
    true: IntArray

    def times(self, factor: int) -> Sum:
        """Return the multiple."""
        return Sum(*(factor * part for part in self))

    def plus(self, other: Sum) -> Sum:
        """Return the sum of both."""
        return Sum(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on the answers."""
        return not (self.false.any() or self.true.any())


class Fraction(NamedTuple):
    """A rate of all records as weighted sums of the confusion matrix.

    ``least`` and ``most`` bound ``below`` where it is not 0.
    """

    name: str
    above: Weights
    below: Weights
    least: int
    most: int

    def parts(self, table: VoteTable, x: Array, threshold: int) -> tuple[int, int]:
        """Return numerator and denominator of one ensemble."""
        return tuple(round(table.value(x, threshold, w)) for w in (self.above, self.below))  # type: ignore[return-value]

    def against(self, above: int, below: int) -> Weights:
        """Return the weights of what is worth 0 at ``above / below``, and more if it is better."""
        return Weights(
            *(below * a - above * b for a, b in zip(self.above, self.below, strict=True))
        )


def fraction_of(name: str, share: Share, positive: int, totals: tuple[int, int]) -> Fraction:
    """Return precision or F1 of a class as weighted sums of the confusion matrix."""
    n0, n1 = totals
    own = share.of == positive
    hit, called, true = (
        (Weights(1, 0, 0, 0), Weights(1, 0, 0, 1), n1)
        if own
        else (Weights(0, 0, 1, 0), Weights(0, 1, 1, 0), n0)
    )
    if share.kind == "precision":
        return Fraction(name, hit, called, 1, n0 + n1)
    missed = Weights(1, 1, 0, 0) if own else Weights(0, 0, 1, 1)
    below = Weights(*(a + b for a, b in zip(called, missed, strict=True)))
    return Fraction(name, Weights(*(2 * w for w in hit)), below, true, n0 + n1 + true)


class RateRows:
    """The rates that a problem reports, as rows over the patterns of its votes.

    Parameters
    ----------
    table : VoteTable
    rated : RatedRecords
        Of the same records.
    positive : int
        Code of the positive class.
    """

    def __init__(self, table: VoteTable, rated: RatedRecords, positive: int) -> None:
        self._rates, self._positive = rated.rates, positive
        count = max(len(rated.rates.groups), 1)
        groups = np.zeros(len(rated.truth), dtype=np.int64)
        if rated.groups is not None:
            groups = np.asarray(rated.groups)
        self._records = np.zeros((len(table.patterns), count, 2), dtype=np.int64)
        is_positive = (rated.truth == positive).astype(np.int64)
        np.add.at(self._records, (table.pattern_of, groups, is_positive), 1)
        self._totals = self._records.sum(axis=0)  # (G, 2): negative, positive

    def knows(self, metric: str) -> bool:
        """Return whether a metric is one of the rates."""
        rates = self._rates
        return metric in rates.shares or metric in rates.differences or metric in rates.worst

    def caps(self, metric: str, limit: float, sign: int) -> list[Cap]:
        """Return the rows of a limit of a metric: at most it, or at least where ``sign`` is -1.

        Raises
        ------
        InputError
            No rows say so.
        """
        rates, every = self._rates, np.ones(len(self._totals), dtype=np.int64)
        word = "at_most" if sign == 1 else "at_least"
        if metric in rates.shares:
            share = rates.shares[metric]
            self._refuse(share.kind == MATTHEWS, metric, word)
            return self._of_share(share, every, limit, sign)
        share = (rates.differences | rates.worst)[metric]
        ones = np.eye(len(self._totals), dtype=np.int64)
        there = [g for g in ones if self._about(share, g)]
        if metric in rates.worst:
            worst_is_least = not share.kind.startswith("false")
            wrong_way = worst_is_least == (sign == 1)
            self._refuse(share.kind == MATTHEWS or wrong_way, metric, word)
            return [cap for g in there for cap in self._of_share(share, g, limit, sign)]
        moves = share.kind == MATTHEWS or share.kind in FRACTIONS
        self._refuse(moves or sign == -1, metric, word)
        found = []
        for a, b in permutations(there, 2):
            (top_a, below_a), (top_b, below_b) = self._sums(share, a), self._sums(share, b)
            na, nb = int(below_a.constant.sum()), int(below_b.constant.sum())
            row = top_a.times(nb).plus(top_b.times(-na))
            found += self._row(row, _last_within(limit, na * nb))
        return found

    def _refuse(self, wrong: bool, metric: str, word: str) -> None:
        if wrong:
            raise InputError(
                f"constraints: {metric}: {word}: expected a limit that is a row of the program, "
                "which this one is not; leave it out, or take another search, such as nsga2"
            )

    def _of_share(self, share: Share, groups: IntArray, limit: float, sign: int) -> list[Cap]:
        above, below = self._sums(share, groups)
        if below.is_constant:
            whole = int(below.constant.sum())
            return self._row(above.times(sign), _last_within(sign * limit, whole))
        most = int(2 * self._totals[groups > 0].sum())
        p, q = _nearest_within(limit, most, sign)
        found = self._row(above.times(sign * q).plus(below.times(-sign * p)), 0)
        if sign == -1 and limit > 0:  # without a denominator the rate is 0
            found += self._row(below.times(-1), -1)
        return found

    def _row(self, of: Sum, limit: int) -> list[Cap]:
        """Return the row that a sum is at most a limit; none where it always is."""
        row = self._records[:, :, 0] @ of.false + self._records[:, :, 1] @ of.true
        limit -= int(of.constant.sum())
        if np.maximum(row, 0).sum() <= limit:
            return []
        factor = gcd(*row.tolist()) or 1
        return [Cap(_NOTHING, float(limit // factor), row / factor)]

    def _about(self, share: Share, groups: IntArray) -> bool:
        counts = np.zeros((2, 3))
        negative, positive = (groups @ self._totals).tolist()
        counts[1 - self._positive, 0], counts[self._positive, 0] = negative, positive
        return bool(share.kind == MATTHEWS or fraction(counts, share)[2] > 0)

    def _sums(self, share: Share, groups: IntArray) -> tuple[Sum, Sum]:
        """Return numerator and denominator of a rate of some subgroups (0 or 1 each, (G,))."""
        n0, n1 = (groups * self._totals[:, 0], groups * self._totals[:, 1])
        zero = np.zeros_like(groups)
        if share.kind in ("accuracy", "coverage"):
            every = Sum(n0 + n1, zero, zero)
            return (Sum(n0, -groups, groups) if share.kind == "accuracy" else every), every
        own = share.of == self._positive
        hits = Sum(zero, zero, groups) if own else Sum(n0, -groups, zero)
        called = Sum(zero, groups, groups) if own else Sum(n0 + n1, -groups, -groups)
        true, others = (Sum(n, zero, zero) for n in ((n1, n0) if own else (n0, n1)))
        of_kind = {
            "precision": (hits, called),
            "recall": (hits, true),
            "f1": (hits.times(2), called.plus(true)),
            "false_positive_rate": (called.plus(hits.times(-1)), others),
            "false_negative_rate": (true.plus(hits.times(-1)), true),
        }
        return of_kind[share.kind]


def _last_within(limit: float, of: int) -> int:
    """Return the greatest whole number that, divided by ``of`` and rounded, is at most a limit."""
    last = round(min(max(limit, -2.0), 2.0) * of)
    while last / of <= limit:
        last += 1
    while last / of > limit:
        last -= 1
    return last


def _nearest_within(limit: float, most: int, sign: int) -> tuple[int, int]:
    """Return the greatest fraction of denominators up to ``most`` that is at most a limit.

    As it is rounded; the least one that is at least the limit where ``sign`` is -1.
    """
    q = np.arange(1, most + 1)
    near = np.rint(min(max(limit, -1.0), 2.0) * q)
    found: list[tuple[float, int, int]] = []
    for p in (near - 1, near, near + 1):
        values: FloatArray = p / q
        good = sign * values <= sign * limit
        if good.any():
            at = int(np.argmax(np.where(good, sign * values, -np.inf)))
            found.append((sign * float(values[at]), int(p[at]), int(q[at])))
    _, above, below = max(found, key=lambda each: (each[0], -each[2]))
    return above, below
