"""The integer program that branch and bound solves: weighted vote patterns and requirements.

Maximise a weighted sum of the confusion matrix over the members and the vote threshold of an
ensemble (pruning paper, Equations 1 to 20). Records with equal votes are one pattern, and a pattern
of net weight c needs one inequality instead of two: only the wrong call of a pattern has to be
prevented, since the objective itself makes the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np

from algorithms.pruning.diversity import Demand
from algorithms.pruning.votes import VoteTable, Weights, member_sums
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.jit import njit

_EXACT = 2.0**53


class Pruned(NamedTuple):
    """An ensemble and what it is worth: members, shape (K,), threshold, weighted sum."""

    x: Array
    threshold: int
    value: float


class Budget(NamedTuple):
    """A cost of each classifier, shape (K,), and what an ensemble's may add up to.

    Costs and limit with their signs turned ask for at least so much.
    """

    costs: FloatArray
    limit: float


class Cap(NamedTuple):
    """A weighted sum of the confusion matrix, and what it may be at most.

    Weights and limit with their signs turned ask for at least so much. With ``row``, shape (P,),
    it is what each pattern of the table takes if it is called positive; the weights do not count.
    """

    weights: Weights
    limit: float
    row: FloatArray | None = None


def scaled(values: FloatArray, limit: float) -> tuple[FloatArray, float]:
    """Return a row and its limit in units in which a solver's tolerances are small.

    By a power of two, so that no digit is lost; as they are where the limit is of common size.
    """
    size = abs(limit) or float(np.abs(values).max(initial=0.0))
    if size == 0 or not np.isfinite(size) or 2.0**-10 <= size <= 2.0**20:
        return values, limit
    factor = 2.0 ** -np.floor(np.log2(size))
    return values * factor, limit * factor


@dataclass(frozen=True)
class Requirements:
    """What the members of an ensemble must keep to.

    Attributes
    ----------
    majority : bool
        Whether the threshold is floor(S / 2) of S members rather than free.
    max_members : int or None
        Greatest number of members.
    budgets : sequence of Budget
    caps : sequence of Cap
        The only ones that the threshold has a part in.
    fewest : int
        Least number of members.
    credit : numpy.ndarray, shape (K, K), or None
        Diversity of each pair, for ``demand``.
    demand : Demand or None
        Least diversity.
    """

    majority: bool = False
    max_members: int | None = None
    budgets: tuple[Budget, ...] = ()
    credit: FloatArray | None = None
    demand: Demand | None = None
    caps: tuple[Cap, ...] = ()
    fewest: int = 1

    @property
    def min_members(self) -> int:
        """``fewest``, but 2 where diversity, which is between members, is required."""
        return max(self.fewest, 1 if self.demand is None else 2)

    def of_pool(self, k: int) -> Requirements:
        """Return the requirements with ``max_members`` set for a pool of ``k`` classifiers.

        Raises
        ------
        InputError
            ``max_members`` is below 1 (below 2 with a demand of diversity).
        """
        if self.max_members is not None and self.max_members < self.min_members:
            raise InputError(
                f"max_members: expected at least {self.min_members}"
                f"{' (diversity is between members)' if self.demand else ''}, found "
                f"{self.max_members}"
            )
        most = k if self.max_members is None else min(self.max_members, k)
        credit = self.credit if self.demand is not None else None
        return replace(self, max_members=most, credit=credit)

    def admits(self, x: Array) -> bool:
        """Return whether members, shape (K,), keep to all of this but the caps.

        By the very sums that are reported of them, to the last bit.
        """
        members = np.flatnonzero(x)
        most = len(x) if self.max_members is None else self.max_members
        if not self.min_members <= len(members) <= most:
            return False
        if self.budgets:
            costs = np.column_stack([budget.costs for budget in self.budgets])
            limits = np.array([budget.limit for budget in self.budgets])
            if (member_sums(costs, np.asarray(x)[np.newaxis])[0] > limits).any():
                return False
        return self.demand is None or self.credit is None or self.demand.met(self.credit, x)


@dataclass(frozen=True)
class Instance:
    """Maximise ``constant + up @ z_up - down @ z_down`` over members x and threshold L.

    ``z`` is 1 for a pattern with more than L votes of members. A pattern of ``up`` is held from
    being called positive against its votes, one of ``down`` from being called negative so; where
    the objective or a cap pulls the other way one inequality each is enough. A pattern that is
    pulled both ways is in both lists. Make one with :meth:`of` or :meth:`with_cap`.

    Attributes
    ----------
    up_patterns, down_patterns : numpy.ndarray of bool, shapes (U, K), (D, K)
        Which classifiers vote positive.
    up, down : numpy.ndarray of float64, shapes (U,), (D,)
        What a call of positive adds, and takes away: 0 or more, and 0 only where a cap needs the
        pattern.
    constant : float
        Worth of calling nothing positive.
    requirements : Requirements
        Of this pool (see :meth:`Requirements.of_pool`).
    takes : numpy.ndarray, shape (C, U + D)
        What a pattern called positive takes of each cap: up then down, 0 or less then 0 or more.
    caps : numpy.ndarray, shape (C,)
        What may be taken.
    """

    up_patterns: BoolArray
    down_patterns: BoolArray
    up: FloatArray
    down: FloatArray
    constant: float
    requirements: Requirements
    takes: FloatArray
    caps: FloatArray

    @classmethod
    def of(
        cls, table: VoteTable, weights: Weights, requirements: Requirements | None = None
    ) -> Instance:
        """Merge classes: a pattern's net weight says which side is worth something.

        Patterns of net weight 0 leave, unless a cap needs them. Correct for any real weights.

        Raises
        ------
        InputError
            See :meth:`Requirements.of_pool`.
        """
        required = (requirements or Requirements()).of_pool(table.k)
        c, constant = table.net_weights(weights)
        patterns = table.unpacked
        rows, caps = np.zeros((len(required.caps), len(c))), np.zeros(len(required.caps))
        for r, cap in enumerate(required.caps):
            row, nothing = table.net_weights(cap.weights) if cap.row is None else (cap.row, 0.0)
            rows[r], caps[r] = row, cap.limit - nothing
        up, down = (c > 0) | (rows < 0).any(axis=0), (c < 0) | (rows > 0).any(axis=0)
        takes = np.concatenate(
            [np.minimum(rows, 0.0)[:, up], np.maximum(rows, 0.0)[:, down]], axis=1
        )
        return cls(
            patterns[up],
            patterns[down],
            np.maximum(c, 0.0)[up],
            np.maximum(-c, 0.0)[down],
            constant,
            required,
            takes,
            caps,
        )

    @classmethod
    def with_cap(
        cls, table: VoteTable, cap: int, requirements: Requirements | None = None
    ) -> Instance:
        """Maximise true positives with at most ``cap`` false positives (epsilon-constraint).

        Errors as of :meth:`of`.
        """
        required = requirements or Requirements()
        caps = (*required.caps, Cap(Weights(0, 0, 0, 1), float(cap)))
        return cls.of(table, Weights(1, 0, 0, 0), replace(required, caps=caps))

    @property
    def k(self) -> int:
        """Number of classifiers."""
        return int(self.up_patterns.shape[1])

    @property
    def max_members(self) -> int:
        """Greatest number of members, at most K."""
        most = self.requirements.max_members
        return self.k if most is None else most

    @cached_property
    def step(self) -> float:
        """All values are ``constant`` plus multiples of this; 0 where that is not known."""
        weights = np.concatenate([self.up, self.down])
        whole = (weights == np.floor(weights)).all() and self.constant == np.floor(self.constant)
        if not whole or weights.sum() + abs(self.constant) >= _EXACT:
            return 0.0
        return float(gcd(*weights.astype(np.int64).tolist())) if len(weights) else 1.0

    @cached_property
    def columns(self) -> Array:
        """All patterns, up then down, one contiguous row per classifier: uint8 (K, U + D)."""
        both = np.concatenate([self.up_patterns, self.down_patterns])
        return np.ascontiguousarray(both.T, dtype=np.uint8)

    @cached_property
    def gains(self) -> FloatArray:
        """What calling a pattern positive adds, up then down, shape (U + D,)."""
        return np.concatenate([self.up, -self.down])

    def of_members(self) -> Instance:
        """Return the program without patterns and caps: any members that are admitted."""
        none = np.zeros((0, self.k), dtype=bool)
        uncapped = replace(self.requirements, caps=())
        return Instance(
            none, none, np.zeros(0), np.zeros(0), 0.0, uncapped, np.zeros((0, 0)), np.zeros(0)
        )

    @property
    def nothing_admitted(self) -> bool:
        """Whether a threshold of all members, which calls nothing positive, is to be judged.

        Not where the caps forbid it, nor without patterns: all thresholds are alike then.
        """
        free = len(self.gains) > 0 and not self.requirements.majority
        return free and bool((self.caps >= 0).all())

    def best_sum(self, votes: IntArray, members: int) -> tuple[float, int, float]:
        """Return :func:`best_threshold` of the votes, shape (U + D,), of so many members."""
        majority = self.requirements.majority
        return best_threshold(votes, self.gains, self.takes, self.caps, members, majority)

    def best_threshold(self, x: Array) -> Pruned:
        """Return members with their best threshold, 0 to S, that keeps to the caps.

        Worth minus infinity where none does; the threshold then breaks them least.
        """
        votes = np.asarray(x, dtype=np.int64) @ self.columns
        value, threshold, short = self.best_sum(votes, int(np.sum(x)))
        worth = float(value) + self.constant if short == 0 else float("-inf")
        return Pruned(np.asarray(x, dtype=np.int8), int(threshold), worth)


@njit
def best_threshold(
    votes: IntArray,
    gains: FloatArray,
    takes: FloatArray,
    caps: FloatArray,
    members: int,
    majority: bool,
) -> tuple[float, int, float]:
    """Return the best sum of gains of the patterns above a threshold, and that threshold.

    The third is by how much the caps are broken: the best is of those thresholds that break them
    least. Of equally good thresholds the highest.

    Parameters
    ----------
    votes : numpy.ndarray of int64, shape (P,)
    gains : numpy.ndarray of float64, shape (P,)
    takes : numpy.ndarray of float64, shape (C, P)
    caps : numpy.ndarray of float64, shape (C,)
        Bounds of the sums of ``takes`` over the patterns above the threshold.
    members : int
        Thresholds go from 0 to this.
    majority : bool
        Whether ``members // 2`` is the only threshold.
    """
    gain, take = np.zeros(members + 1), np.zeros((len(caps), members + 1))
    for p in range(len(votes)):
        gain[votes[p]] += gains[p]
        for c in range(len(caps)):
            take[c, votes[p]] += takes[c, p]
    best, at, value, least = -np.inf, members, 0.0, np.inf
    taken = np.zeros(len(caps))
    for threshold in range(members, -1, -1):
        if threshold < members:
            value += gain[threshold + 1]
            for c in range(len(caps)):
                taken[c] += take[c, threshold + 1]
        if majority and threshold != members // 2:
            continue
        short = 0.0
        for c in range(len(caps)):
            short += max(taken[c] - caps[c], 0.0)
        if short < least or (short == least and value > best):
            best, at, least = value, threshold, short
    return best, at, least
