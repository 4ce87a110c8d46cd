"""Branch and bound over boxes of sizes, thresholds and calls; one linear program a step.

Nothing depends on the machine or on when it is interrupted: a step takes the open box with the
greatest bound, solves its relaxation from the basis that the box carries, and either adds cuts or
divides it. What is between two steps is plain data (:mod:`algorithms.pruning.strong.solve_state`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from threadpoolctl import ThreadpoolController

from algorithms.pruning.strong.box import Box
from algorithms.pruning.strong.closure import closure_bound, share_of_gap
from algorithms.pruning.strong.cuts import Cuts, conflicts
from algorithms.pruning.strong.instance import Instance, Pruned
from algorithms.pruning.strong.local_search import first_members, improve
from algorithms.pruning.strong.relaxation import Relaxation, Relaxed
from framework.arrays import Array

_ROOT_ROUNDS, _ROUNDS = 40, 6  # of cuts, before a box is divided
_WORTH = 0.02  # share of the gap that a round of cuts has to close
_WHOLE = 1e-6  # how far from a whole number is one
_LOOKS_EACH = 10  # looks of the first local search, at most, for each ensemble that there is
_RELATIVE = 1e-9  # bound and value that differ by less are equal, where values are no whole numbers


@dataclass(order=True)
class OpenBox:
    """A box still to be looked at; the greatest bound first, then the oldest."""

    key: tuple[float, int]
    bound: float = field(compare=False)
    box: Box = field(compare=False)
    cuts: Cuts = field(compare=False)
    basis: Array | None = field(compare=False, default=None)
    status: Array | None = field(compare=False, default=None)
    rounds: int = field(compare=False, default=0)


class BranchAndBound:
    """Solve an instance, a step at a time.

    Parameters
    ----------
    instance : Instance
    seed : int
        Of the local searches.
    looks : int
        Ensembles that the first local search looks at, at most.

    Attributes
    ----------
    incumbent : Pruned or None
        The best ensemble known; None where none is known that keeps to all demands.
    bound : float
        No ensemble is worth more; minus infinity where there is none at all.
    nodes, programs, iterations : int
        Boxes divided or closed, linear programs solved, simplex iterations.
    """

    def __init__(self, instance: Instance, *, seed: int = 0, looks: int = 100_000) -> None:
        self.instance = instance
        self.incumbent: Pruned | None = None
        self.nodes = self.programs = self.iterations = 0
        self._rng = np.random.default_rng(np.random.SeedSequence(seed))
        self._made = 0
        self._open: list[OpenBox] = []
        start = first_members(instance)
        if start is not None:
            few = _LOOKS_EACH * 2**instance.k  # more find nothing new
            self.incumbent = improve(instance, start, min(looks, few), self._rng)
        closure = closure_bound(instance)
        k = instance.k
        box = Box(
            np.full(k, -1, dtype=np.int8),
            np.full(len(instance.gains), -1, dtype=np.int8),
            (instance.min_members, instance.max_members),
            (0, max(instance.max_members - 1, 0)),
        ).tightened(instance.majority)
        # calling nothing positive (L = S) is outside of the boxes; any admitted members do it
        self._nothing = -np.inf if instance.majority else instance.constant
        if box is not None:
            self._push(closure.bound, box, conflicts(closure.binding, len(instance.down), k))

    @property
    def done(self) -> bool:
        """Whether the incumbent is proven best, or none exists."""
        return not self._open

    @property
    def bound(self) -> float:
        value = -np.inf if self.incumbent is None else self.incumbent.value
        if not self._open:
            return value
        return max(self._open[0].bound, value, self._nothing)

    @property
    def gap(self) -> float:
        """(bound - value) / |value|; infinite without an incumbent."""
        if self.incumbent is None:
            return 0.0 if self.done else float("inf")
        return share_of_gap(self.bound, self.incumbent.value)

    def step(self) -> None:
        """Solve one linear program and act on it, by one thread; nothing once done."""
        if not self.done:
            with _threads().limit(limits=1):  # more get in each other's way
                self._step()

    def _step(self) -> None:
        node = heapq.heappop(self._open)
        relaxation = self._relaxation
        if (node.box.x >= 0).all():
            self._take(self.instance.best_threshold(node.box.x), node.box.x)
            self.nodes += 1
        else:
            found = relaxation.solve(node.box, node.cuts, node.basis, node.status)
            self.programs += 1
            self.iterations += found.iterations
            bound = min(node.bound, self._rounded(found.bound))
            if bound > self._cutoff():
                self._go_on(node, found, bound)
            else:
                self.nodes += 1
        self._prune()

    @cached_property
    def _worths(self) -> Array:
        """What a wrong call of each pattern costs, or takes of the cap."""
        return np.abs(self.instance.gains) + self.instance.takes

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self.instance)

    def _go_on(self, node: OpenBox, found: Relaxed, bound: float) -> None:
        """Add cuts to a box where that pays, else divide it."""
        self._round_up(found)
        if bound <= self._cutoff():
            self.nodes += 1
            return
        new = self._relaxation.broken(found, node.box)
        gap = bound - self._cutoff()
        pays = node.rounds == 0 or node.bound - bound > _WORTH * gap
        most = _ROOT_ROUNDS if self.nodes == 0 else _ROUNDS
        if len(new) and pays and node.rounds < most:
            cuts = np.concatenate([found.kept, new])
            self._push(
                bound, node.box, cuts, found.basis, found.kept_status, rounds=node.rounds + 1
            )
            return
        self.nodes += 1
        cuts = np.concatenate([found.kept, new])
        for box in self._divided(node.box, found):
            tight = box.tightened(self.instance.majority)
            if tight is not None:
                self._push(bound, tight, cuts, found.basis, found.kept_status)

    def _divided(self, box: Box, found: Relaxed) -> list[Box]:
        """Return two halves: of the sizes or thresholds, then of a pattern's call.

        A member is decided where no call is in doubt.
        """
        (sa, sb), (la, lb) = box.sizes, box.thresholds
        if sb > sa and (sb + 1) / (sa + 1) >= (lb + 2) / (la + 2):
            middle = min(max(int(np.sqrt(sa * sb)), sa), sb - 1)
            return [replace(box, sizes=(sa, middle)), replace(box, sizes=(middle + 1, sb))]
        if lb > la:
            middle = min(max(int(np.sqrt((la + 1) * (lb + 1))) - 1, la), lb - 1)
            low, high = (la, middle), (middle + 1, lb)
            return [replace(box, thresholds=low), replace(box, thresholds=high)]
        doubts = np.where(box.calls < 0, np.minimum(found.z, 1 - found.z) * self._worths, 0.0)
        if (doubts > _WHOLE).any():
            at = int(np.argmax(doubts))
            return [replace(box, calls=_decided(box.calls, at, side)) for side in (1, 0)]
        free = np.flatnonzero(box.x < 0)
        at = int(free[np.argmin(np.abs(found.x[free] - 0.5))])
        return [replace(box, x=_decided(box.x, at, side)) for side in (1, 0)]

    def _round_up(self, found: Relaxed) -> None:
        """Try the members that a fractional solution likes most, and climb from them."""
        size = int(np.clip(round(float(found.x.sum())), 1, self.instance.k))
        order = np.argsort(-found.x, kind="stable")
        for count in sorted({max(size - 1, 1), size, min(size + 1, self.instance.k)}):
            x = np.zeros(self.instance.k, dtype=np.int8)
            x[order[:count]] = 1
            if self.instance.admits(x):
                self._take(self.instance.best_threshold(x), x)
        x = np.zeros(self.instance.k, dtype=np.int8)
        x[order[:size]] = 1
        climbed = improve(self.instance, x, 2000, self._rng)
        if climbed is not None:
            self._take(climbed, climbed.x)

    def _take(self, found: Pruned, x: Array) -> None:
        if not np.isfinite(found.value) or not self.instance.admits(x):
            return
        if self.incumbent is None or found.value > self.incumbent.value:
            self.incumbent = found

    def _rounded(self, bound: float) -> float:
        """Return the greatest value that an ensemble can have within a bound."""
        step, constant = self.instance.step, self.instance.constant
        if not step or not np.isfinite(bound):
            return bound
        return float(np.floor((bound - constant) / step + _WHOLE) * step + constant)

    def _cutoff(self) -> float:
        """Return the bound up to which a box need not be looked at."""
        if self.incumbent is None:
            return -np.inf
        value = self.incumbent.value
        return value if self.instance.step else value + _RELATIVE * max(1.0, abs(value))

    def _prune(self) -> None:
        """Close all boxes once the best of them cannot hold anything better."""
        if self._open and self._open[0].bound <= self._cutoff():
            self._open.clear()

    def _push(
        self,
        bound: float,
        box: Box,
        cuts: Cuts,
        basis: Array | None = None,
        status: Array | None = None,
        rounds: int = 0,
    ) -> None:
        bound = self._rounded(bound)
        if bound <= self._cutoff():
            return
        self._made += 1
        node = OpenBox((-bound, self._made), bound, box, cuts, basis, status, rounds)
        heapq.heappush(self._open, node)


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def _decided(open_or_not: Array, at: int, side: int) -> Array:
    copy = open_or_not.copy()
    copy[at] = side
    return copy
