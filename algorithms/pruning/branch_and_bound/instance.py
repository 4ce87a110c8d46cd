"""The integer program that branch and bound solves: weighted vote patterns and requirements.

Maximise a weighted sum of the confusion matrix over the members and the vote threshold of an
ensemble (pruning paper, Equations 1 to 20). Records with equal votes are one pattern. A pattern
needs one inequality instead of the paper's two: only the profitable call has to be prevented where
the votes do not allow it, since the objective avoids the other call by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np

from algorithms.ensembling.means import add_members
from algorithms.pruning.diversity import Demand
from algorithms.pruning.votes import VoteTable, Weights
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import njit

_EXACT = 2.0**53


class Pruned(NamedTuple):
    """An ensemble: its members, shape (K,), its vote threshold, and its value."""

    x: Array
    threshold: int
    value: float


class Budget(NamedTuple):
    """Costs of the classifiers, shape (K,), and the greatest sum of an ensemble's costs.

    Negative costs and a negative limit require a least sum instead.
    """

    costs: FloatArray
    limit: float


class Cap(NamedTuple):
    """A weighted sum of the confusion matrix, and its greatest value.

    Weights and limit with turned signs require a least value instead. ``row``, shape (P,), replaces
    the weights if it is set: what each pattern of the table adds if it is called positive.
    """

    weights: Weights
    limit: float
    row: FloatArray | None = None


def scaled(values: FloatArray, limit: float) -> tuple[FloatArray, float]:
    """Return a row and its limit in units in which a solver's tolerances are small.

    They are multiplied by a power of two, so that no digit is lost, or left alone if the limit is
    of a common size.
    """
    size = abs(limit) or float(np.abs(values).max(initial=0.0))
    if size == 0 or not np.isfinite(size) or 2.0**-10 <= size <= 2.0**20:
        return values, limit
    factor = 2.0 ** -np.floor(np.log2(size))
    return values * factor, limit * factor


@dataclass(frozen=True)
class Requirements:
    """What an ensemble must comply with.

    Attributes
    ----------
    majority : bool
        Whether the threshold is floor(S / 2) of S members rather than free.
    max_members : int or None
        Greatest number of members.
    budgets : sequence of Budget
    caps : sequence of Cap
        The only requirements that depend on the threshold.
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
        """``fewest``, but at least 2 if diversity, which is between members, is required."""
        return max(self.fewest, 1 if self.demand is None else 2)

    def of_pool(self, k: int) -> Requirements:
        """Return the requirements with ``max_members`` set for a pool of ``k`` classifiers."""
        most = k if self.max_members is None else min(self.max_members, k)
        credit = self.credit if self.demand is not None else None
        return replace(self, max_members=most, credit=credit)

    def admits(self, x: Array) -> bool:
        """Return whether members, shape (K,), meet all requirements but the caps.

        The sums that are compared are those of the reported metrics, to the last bit.
        """
        members = np.flatnonzero(x)
        most = len(x) if self.max_members is None else self.max_members
        if not self.min_members <= len(members) <= most:
            return False
        if self.budgets:
            costs = np.column_stack([budget.costs for budget in self.budgets])
            limits = np.array([budget.limit for budget in self.budgets])
            if (add_members(np.asarray(x)[np.newaxis], costs, np.float64)[0] > limits).any():
                return False
        return self.demand is None or self.credit is None or self.demand.met(self.credit, x)


@dataclass(frozen=True)
class Instance:
    """Maximise ``constant + up @ z_up - down @ z_down`` over members x and threshold L.

    ``z`` is 1 for a pattern with more than L votes of members, which is then called positive. One
    inequality keeps each pattern of ``up`` from being called positive against its votes, and one
    each pattern of ``down`` from being called negative against its votes. A pattern is in both
    lists if objective and caps pull it both ways. Create an instance with :meth:`of` or
    :meth:`with_cap`.

    Attributes
    ----------
    up_patterns, down_patterns : numpy.ndarray of bool, shapes (U, K), (D, K)
        Which classifiers vote positive.
    up, down : numpy.ndarray of float64, shapes (U,), (D,)
        What calling a pattern positive adds, and what it takes away. Not negative; 0 only for a
        pattern that matters to a cap.
    constant : float
        Value of an ensemble that calls nothing positive.
    requirements : Requirements
        Those of this pool (see :meth:`Requirements.of_pool`).
    takes : numpy.ndarray, shape (C, U + D)
        What a pattern that is called positive adds to each capped sum: 0 or less for ``up``, then
        0 or more for ``down``.
    caps : numpy.ndarray, shape (C,)
        Greatest values of these sums.
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
        """Return the instance of a table: the sign of a pattern's net weight decides its list.

        A pattern's net weight is over the records of both classes. Patterns of net weight 0 are
        left out unless they matter to a cap. Correct for any real weights.
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
        """Maximise true positives with at most ``cap`` false positives (epsilon-constraint)."""
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
        """All values are ``constant`` plus multiples of the step; 0 if there is no such step."""
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
        """Return the instance without patterns and caps, which any admitted members solve."""
        none = np.zeros((0, self.k), dtype=bool)
        uncapped = replace(self.requirements, caps=())
        return Instance(
            none, none, np.zeros(0), np.zeros(0), 0.0, uncapped, np.zeros((0, 0)), np.zeros(0)
        )

    @property
    def nothing_admitted(self) -> bool:
        """Whether a threshold L = S, which calls nothing positive, is possible and of interest.

        It is not if caps or majority votes forbid it, nor without patterns, when all thresholds are
        equal.
        """
        free = len(self.gains) > 0 and not self.requirements.majority
        return free and bool((self.caps >= 0).all())

    def best_sum(self, votes: IntArray, members: int) -> tuple[float, int, float]:
        """Return :func:`best_threshold` for the votes, shape (U + D,), of some members."""
        majority = self.requirements.majority
        return best_threshold(votes, self.gains, self.takes, self.caps, members, majority)

    def best_threshold(self, x: Array) -> Pruned:
        """Return members with their best threshold, from 0 to S, that keeps the caps.

        If none does, the value is minus infinity and the threshold breaks the caps least.
        """
        votes = np.asarray(x, dtype=np.int64) @ self.columns
        gain, threshold, short = self.best_sum(votes, int(np.sum(x)))
        value = float(gain) + self.constant if short == 0 else float("-inf")
        return Pruned(np.asarray(x, dtype=np.int8), int(threshold), value)


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

    The third number is by how much the caps are broken. Only thresholds that break them least are
    considered; of equally good thresholds the highest is returned.

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
