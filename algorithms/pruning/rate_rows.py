"""Rates of votes as rows of a program, and as fractions to be maximised.

Numerator and denominator of a rate are sums of counts. Let p / q be the greatest fraction that,
rounded as in reports, keeps a limit. A rate is within the limit if and only if
q * numerator - p * denominator <= 0: a row of whole numbers, which needs no tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import gcd
from typing import NamedTuple

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Cap
from algorithms.pruning.votes import VoteTable, Weights
from framework.answers import Measure, Records
from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.measures import BetweenSubgroups, Coefficient, Ratio

_NOTHING = Weights(0, 0, 0, 0)


class Sum(NamedTuple):
    """A whole number that depends linearly on the answers to some records.

    It is ``constant`` if no record is called positive. Each false positive adds ``false`` and each
    true positive adds ``true``. All are by subgroup, shape (G,).
    """

    constant: IntArray
    false: IntArray
    true: IntArray

    def times(self, factor: int) -> Sum:
        return Sum(*(factor * part for part in self))

    def plus(self, other: Sum) -> Sum:
        return Sum(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def is_constant(self) -> bool:
        """Whether the number is the same for all answers."""
        return not (self.false.any() or self.true.any())


class Fraction(NamedTuple):
    """A rate of all records: the weighted sums ``above`` and ``below`` of the confusion matrix.

    The value of ``below`` is 0 or from ``least`` to ``most``.
    """

    name: str
    above: Weights
    below: Weights
    least: int
    most: int

    def parts(self, table: VoteTable, x: Array, threshold: int) -> tuple[int, int]:
        """Return the numerator and the denominator of one ensemble."""
        return tuple(round(table.value(x, threshold, w)) for w in (self.above, self.below))  # type: ignore[return-value]

    def against(self, above: int, below: int) -> Weights:
        """Return weights whose sum is positive if and only if the rate exceeds above / below."""
        return Weights(
            *(below * a - above * b for a, b in zip(self.above, self.below, strict=True))
        )


def weights_of_table(table: IntArray, positive: int) -> Weights:
    """Return the weights of the confusion matrix in a table (2, 3) of true class by answer."""
    negative = 1 - positive
    return Weights(
        true_positive=int(table[positive, positive]),
        false_negative=int(table[positive, negative]),
        true_negative=int(table[negative, negative]),
        false_positive=int(table[negative, positive]),
    )


def moves(ratio: Ratio) -> bool:
    """Return whether the denominator of a ratio depends on the answers."""
    return bool((ratio.under[:, 0] != ratio.under[:, 1]).any())


def fraction_of(ratio: Ratio, positive: int, totals: tuple[int, int]) -> Fraction:
    """Return a ratio as weighted sums of the confusion matrix.

    ``totals`` are the numbers of negative and of positive records.
    """
    above, below = (weights_of_table(table, positive) for table in (ratio.over, ratio.under))
    of_class = [totals[int(code == positive)] for code in (0, 1)]
    extremes = ratio.under[:, :2].min(axis=1), ratio.under[:, :2].max(axis=1)
    least, most = (int(ends @ of_class) for ends in extremes)
    return Fraction(ratio.metric.name, above, below, max(least, 1), most)


class RateRows:
    """The rates that a problem reports, as rows over the patterns of its votes.

    Parameters
    ----------
    table : VoteTable
    records : Records
        The records of the table.
    measures : sequence of Measure
        Those that are not rates are ignored.
    """

    def __init__(self, table: VoteTable, records: Records, measures: Sequence[Measure]) -> None:
        self._positive = records.positive
        kinds = Coefficient, Ratio, BetweenSubgroups
        self._measures = {m.metric.name: m for m in measures if isinstance(m, kinds)}
        count = max(len(records.subgroup_names), 1)
        subgroups = np.zeros(len(records), dtype=np.int64)
        if records.subgroups is not None:
            subgroups = np.asarray(records.subgroups)
        self._records = np.zeros((len(table.patterns), count, 2), dtype=np.int64)
        is_positive = (records.labels == records.positive).astype(np.int64)
        np.add.at(self._records, (table.pattern_of, subgroups, is_positive), 1)
        self._totals = self._records.sum(axis=0)  # (G, 2): negative, positive

    def knows(self, metric: str) -> bool:
        """Return whether a metric is one of the rates."""
        return metric in self._measures

    def caps(self, metric: str, limit: float, sign: int) -> list[Cap]:
        """Return the rows that bound a metric from above, or from below if ``sign`` is -1.

        Raises
        ------
        InputError
            No linear rows express this bound.
        """
        measure, every = self._measures[metric], np.ones(len(self._totals), dtype=np.int64)
        word = "at_most" if sign == 1 else "at_least"
        rate = measure.rate if isinstance(measure, BetweenSubgroups) else measure
        if isinstance(rate, Coefficient):
            raise self._no_row(metric, word)
        if not isinstance(measure, BetweenSubgroups):
            return self._of_ratio(rate, every, limit, sign)
        present = [subgroup for subgroup in np.diag(every) if self._present(rate, subgroup)]
        if measure.worst:  # every subgroup has to keep the limit
            if (rate.metric.sense == "max") == (sign == 1):
                raise self._no_row(metric, word)
            return [
                cap for subgroup in present for cap in self._of_ratio(rate, subgroup, limit, sign)
            ]
        if moves(rate) or sign == -1:
            raise self._no_row(metric, word)
        caps = []
        for a, b in permutations(present, 2):  # above_a / na - above_b / nb <= limit
            (above_a, below_a), (above_b, below_b) = self._sums(rate, a), self._sums(rate, b)
            na, nb = int(below_a.constant.sum()), int(below_b.constant.sum())
            row = above_a.times(nb).plus(above_b.times(-na))
            caps += self._row(row, last_within(limit, na * nb))
        return caps

    def _no_row(self, metric: str, word: str) -> InputError:
        return InputError(
            f"constraints: {metric}: {word}: expected a limit that is a row of the program, "
            "which this one is not; leave it out, or take another search, such as nsga2"
        )

    def _of_ratio(self, ratio: Ratio, subgroups: IntArray, limit: float, sign: int) -> list[Cap]:
        above, below = self._sums(ratio, subgroups)
        if below.is_constant:
            whole = int(below.constant.sum())
            return self._row(above.times(sign), last_within(sign * limit, whole))
        most = int(2 * self._totals[subgroups > 0].sum())
        p, q = _nearest_within(limit, most, sign)
        caps = self._row(above.times(sign * q).plus(below.times(-sign * p)), 0)
        if sign * limit < 0:  # a rate without a denominator is 0, which breaks the limit
            caps += self._row(below.times(-1), -1)
        return caps

    def _row(self, of: Sum, limit: int) -> list[Cap]:
        """Return the row by which a sum is at most a limit; none if it always is."""
        row = self._records[:, :, 0] @ of.false + self._records[:, :, 1] @ of.true
        limit -= int(of.constant.sum())
        if np.maximum(row, 0).sum() <= limit:
            return []
        factor = gcd(*row.tolist()) or 1
        return [Cap(_NOTHING, float(limit // factor), row / factor)]

    def _present(self, ratio: Ratio, subgroups: IntArray) -> bool:
        """Return whether subgroups have any records that a rate is about."""
        counts = subgroups @ self._totals
        return bool(counts[[int(code == self._positive) for code in (0, 1)]] @ ratio.about)

    def _sums(self, ratio: Ratio, subgroups: IntArray) -> tuple[Sum, Sum]:
        """Return the numerator and the denominator of a rate over subgroups (0 or 1 each, (G,))."""
        negative, positive = 1 - self._positive, self._positive
        n0, n1 = subgroups * self._totals[:, 0], subgroups * self._totals[:, 1]
        above, below = (
            Sum(
                table[negative, negative] * n0 + table[positive, negative] * n1,
                (table[negative, positive] - table[negative, negative]) * subgroups,
                (table[positive, positive] - table[positive, negative]) * subgroups,
            )
            for table in (ratio.over, ratio.under)
        )
        return above, below


def last_within(limit: float, of: int) -> int:
    """Return the greatest whole number that, divided by ``of`` and rounded, is at most a limit.

    Limits below -2 or above 2, which no difference of rates reaches, count as -2 and 2.
    """
    limit = min(max(limit, -2.0), 2.0)
    last = round(limit * of)
    while last / of <= limit:
        last += 1
    while last / of > limit:
        last -= 1
    return last


def _nearest_within(limit: float, most: int, sign: int) -> tuple[int, int]:
    """Return the greatest fraction with a denominator up to ``most`` that, rounded, keeps a limit.

    With ``sign`` -1, the limit is a lower one and the fraction the least. Limits below -1 or above
    2, which no rate reaches, count as -1 and 2.
    """
    limit = min(max(limit, -1.0), 2.0)
    q = np.arange(1, most + 1)
    near = np.rint(limit * q)
    candidates: list[tuple[float, int, int]] = []
    for p in (near - 1, near, near + 1):
        values: FloatArray = p / q
        good = sign * values <= sign * limit
        if good.any():
            at = int(np.argmax(np.where(good, sign * values, -np.inf)))
            candidates.append((sign * float(values[at]), int(p[at]), int(q[at])))
    _, above, below = max(candidates, key=lambda each: (each[0], -each[2]))
    return above, below
