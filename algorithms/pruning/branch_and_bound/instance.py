"""The integer program that branch and bound solves: weighted vote patterns and requirements.

Maximise a weighted sum of the confusion matrix over the members and the vote threshold of an
ensemble (pruning paper, Equations 1 to 20). Records with equal votes are one pattern, and a pattern
of net weight c needs one inequality instead of two: only the wrong call of a pattern has to be
prevented, since the objective itself makes the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np

from algorithms.pruning.diversity import Demand
from algorithms.pruning.votes import VoteTable, Weights
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
    """A cost of each classifier, shape (K,), and what an ensemble's may add up to."""

    costs: FloatArray
    limit: float


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

    @property
    def min_members(self) -> int:
        """1, or 2 where diversity, which is between members, is required."""
        return 1 if self.demand is None else 2

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
        """Return whether members, shape (K,), keep to all of this."""
        members = np.flatnonzero(x)
        most = len(x) if self.max_members is None else self.max_members
        if not self.min_members <= len(members) <= most:
            return False
        if any(budget.costs[members].sum() > budget.limit for budget in self.budgets):
            return False
        return self.demand is None or self.credit is None or self.demand.met(self.credit, x)


@dataclass(frozen=True)
class Instance:
    """Maximise ``constant + up @ z_up - down @ z_down`` over members x and threshold L.

    ``z`` is 1 for a pattern with more than L votes of members. A pattern of ``up`` is worth
    something when it is called positive, one of ``down`` when it is not; so one inequality each
    is enough. Make one with :meth:`of` or :meth:`with_cap`.

    Attributes
    ----------
    up_patterns, down_patterns : numpy.ndarray of bool, shapes (U, K), (D, K)
        Which classifiers vote positive.
    up, down : numpy.ndarray of float64, shapes (U,), (D,)
        Above 0; where a ``cap`` is set, ``down`` may be 0.
    constant : float
        Worth of calling nothing positive.
    requirements : Requirements
        Of this pool (see :meth:`Requirements.of_pool`).
    cap_weights : numpy.ndarray, shape (D,)
        What a pattern of ``down`` called positive takes of the cap.
    cap : float
        Infinite where there is none.
    """

    up_patterns: BoolArray
    down_patterns: BoolArray
    up: FloatArray
    down: FloatArray
    constant: float
    requirements: Requirements
    cap_weights: FloatArray = field(default_factory=lambda: np.zeros(0))
    cap: float = float("inf")

    @classmethod
    def of(
        cls, table: VoteTable, weights: Weights, requirements: Requirements | None = None
    ) -> Instance:
        """Merge classes: a pattern's net weight says which side is worth something.

        Patterns of net weight 0 leave. Correct for any real weights.

        Raises
        ------
        InputError
            See :meth:`Requirements.of_pool`.
        """
        c, constant = table.net_weights(weights)
        patterns = table.unpacked
        return cls(
            patterns[c > 0],
            patterns[c < 0],
            c[c > 0],
            -c[c < 0],
            constant,
            (requirements or Requirements()).of_pool(table.k),
            np.zeros(int((c < 0).sum())),
        )

    @classmethod
    def with_cap(
        cls, table: VoteTable, cap: int, requirements: Requirements | None = None
    ) -> Instance:
        """Maximise true positives with at most ``cap`` false positives (epsilon-constraint).

        Classes stay apart, as both sides of a pattern matter. Errors as of :meth:`of`.
        """
        patterns, (negative, positive) = table.unpacked, table.records.T
        return cls(
            patterns[positive > 0],
            patterns[negative > 0],
            positive[positive > 0].astype(np.float64),
            np.zeros(int((negative > 0).sum())),
            0.0,
            (requirements or Requirements()).of_pool(table.k),
            cap_weights=negative[negative > 0].astype(np.float64),
            cap=float(cap),
        )

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

    @cached_property
    def takes(self) -> FloatArray:
        """What calling a pattern positive takes of the cap, shape (U + D,)."""
        return np.concatenate([np.zeros(len(self.up)), self.cap_weights])

    def best_sum(self, votes: IntArray, members: int) -> tuple[float, int]:
        """Return :func:`best_threshold` of the votes, shape (U + D,), of so many members."""
        majority = self.requirements.majority
        return best_threshold(votes, self.gains, self.takes, self.cap, members, majority)

    def best_threshold(self, x: Array) -> Pruned:
        """Return members with their best threshold, 0 to S, that keeps to the cap."""
        votes = np.asarray(x, dtype=np.int64) @ self.columns
        value, threshold = self.best_sum(votes, int(np.sum(x)))
        return Pruned(np.asarray(x, dtype=np.int8), int(threshold), float(value) + self.constant)


@njit
def best_threshold(
    votes: IntArray, gains: FloatArray, takes: FloatArray, cap: float, members: int, majority: bool
) -> tuple[float, int]:
    """Return the best sum of gains of the patterns above a threshold, and that threshold.

    Of equally good thresholds the highest; minus infinity where none keeps to the cap.

    Parameters
    ----------
    votes : numpy.ndarray of int64, shape (P,)
    gains, takes : numpy.ndarray of float64, shape (P,)
    cap : float
        Bound of the sum of ``takes`` over the patterns above the threshold.
    members : int
        Thresholds go from 0 to this.
    majority : bool
        Whether ``members // 2`` is the only threshold.
    """
    gain, take = np.zeros(members + 1), np.zeros(members + 1)
    for p in range(len(votes)):
        gain[votes[p]] += gains[p]
        take[votes[p]] += takes[p]
    best, at, value, taken = -np.inf, members, 0.0, 0.0
    for threshold in range(members, -1, -1):
        if threshold < members:
            value += gain[threshold + 1]
            taken += take[threshold + 1]
        if taken > cap:
            break
        if value > best and (not majority or threshold == members // 2):
            best, at = value, threshold
    return best, at
