"""What a strong solve is about: weighted patterns, and what an ensemble must keep to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np

from algorithms.pruning.diversity import Demand
from algorithms.pruning.strong import search_kernels as kernels
from algorithms.pruning.votes import VoteTable, Weights
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError

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
    majority : bool
        Whether L is floor(S / 2) rather than free.
    max_members : int
    budgets : sequence of Budget
    credit : numpy.ndarray, shape (K, K), or None
        Of pairs, for ``demand``.
    demand : Demand or None
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
    max_members: int
    majority: bool = False
    budgets: Sequence[Budget] = ()
    credit: FloatArray | None = None
    demand: Demand | None = None
    cap_weights: FloatArray = field(default_factory=lambda: np.zeros(0))
    cap: float = float("inf")

    @classmethod
    def of(
        cls,
        table: VoteTable,
        weights: Weights,
        *,
        majority: bool = False,
        max_members: int | None = None,
        budgets: Sequence[Budget] = (),
        credit: FloatArray | None = None,
        demand: Demand | None = None,
    ) -> Instance:
        """Merge classes: a pattern's net weight says which side is worth something.

        Patterns of net weight 0 leave. Correct for any real weights.

        Raises
        ------
        InputError
            ``max_members`` is below 1 (below 2 with a demand of diversity).
        """
        c, constant = table.net_weights(weights)
        patterns = table.unpacked
        return cls(
            patterns[c > 0],
            patterns[c < 0],
            c[c > 0],
            -c[c < 0],
            constant,
            _most(max_members, table.k, demand),
            majority,
            tuple(budgets),
            credit if demand is not None else None,
            demand,
            np.zeros(int((c < 0).sum())),
        )

    @classmethod
    def with_cap(
        cls,
        table: VoteTable,
        cap: int,
        *,
        majority: bool = False,
        max_members: int | None = None,
        budgets: Sequence[Budget] = (),
        credit: FloatArray | None = None,
        demand: Demand | None = None,
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
            _most(max_members, table.k, demand),
            majority,
            tuple(budgets),
            credit if demand is not None else None,
            demand,
            cap_weights=negative[negative > 0].astype(np.float64),
            cap=float(cap),
        )

    @property
    def k(self) -> int:
        """Number of classifiers."""
        return int(self.up_patterns.shape[1])

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
        """All patterns, up then down, a contiguous row a classifier: uint8 (K, U + D)."""
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

    @property
    def min_members(self) -> int:
        """1, or 2 where members' diversity is asked for."""
        return 1 if self.demand is None else 2

    def admits(self, x: Array) -> bool:
        """Tell whether members, shape (K,), keep to everything but the cap."""
        members = np.flatnonzero(x)
        if not self.min_members <= len(members) <= self.max_members:
            return False
        if any(budget.costs[members].sum() > budget.limit for budget in self.budgets):
            return False
        return self.demand is None or self.credit is None or self.demand.met(self.credit, x)

    def best_threshold(self, x: Array) -> Pruned:
        """Return members with their best threshold, 0 to S, that keeps to the cap."""
        votes = np.asarray(x, dtype=np.int64) @ self.columns
        value, threshold = kernels.best_threshold(
            votes, self.gains, self.takes, self.cap, int(np.sum(x)), self.majority
        )
        return Pruned(np.asarray(x, dtype=np.int8), int(threshold), float(value) + self.constant)


def _most(max_members: int | None, k: int, demand: Demand | None) -> int:
    fewest = 1 if demand is None else 2
    if max_members is not None and max_members < fewest:
        raise InputError(
            f"max_members: expected at least {fewest}"
            f"{' (diversity is between members)' if demand else ''}, found {max_members}"
        )
    return k if max_members is None else min(max_members, k)
