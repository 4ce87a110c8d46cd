"""The greatest fraction of two weighted sums, by branch and bound on differences of the sums.

Dinkelbach (1967): ``above / below`` is at most ``p / q`` for all ensembles if and only if the
greatest ``q * above - p * below`` is at most 0. If that is more than 0, its ensemble has a greater
fraction, which becomes the next ``p / q``. The proof of the last solve proves the fraction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Instance, Pruned, Requirements
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, pack, share_of_gap, unpack
from algorithms.pruning.rate_rows import Fraction
from algorithms.pruning.votes import VoteTable
from framework.preparation import Workforce


class BestFraction:
    """Solve for the greatest fraction, a step at a time, as :class:`.solver.BranchAndBound` does.

    Parameters
    ----------
    table : VoteTable
    fraction : Fraction
    requirements : Requirements
    seed, looks
        Passed on to each solve.

    Attributes
    ----------
    incumbent : Pruned or None
        The best ensemble so far; its value is the fraction.
    bound : float
        No ensemble has a greater fraction.
    nodes, programs, iterations : int
        Totals of all solves.
    """

    def __init__(
        self,
        table: VoteTable,
        fraction: Fraction,
        requirements: Requirements,
        *,
        seed: int = 0,
        looks: int = 1_000_000,
    ) -> None:
        self._table, self._fraction, self._requirements = table, fraction, requirements
        self._seed, self._looks = seed, looks
        self.incumbent: Pruned | None = None
        self._before = {"nodes": 0, "programs": 0, "iterations": 0}
        self._least_bound = 1.0  # of all solves that have ended
        self._against = 0, 1  # p and q of the solve
        self._solver = self._new_solver()
        self._climb()

    @property
    def done(self) -> bool:
        """Whether it is proven that no fraction is greater than the incumbent's."""
        if self.incumbent is not None and self._bound() <= self.incumbent.value:
            return True
        return self._solver.done and self._better() is None

    @property
    def nodes(self) -> int:
        return self._before["nodes"] + self._solver.nodes

    @property
    def programs(self) -> int:
        return self._before["programs"] + self._solver.programs

    @property
    def iterations(self) -> int:
        return self._before["iterations"] + self._solver.iterations

    @property
    def bound(self) -> float:
        if self.done:
            return -np.inf if self.incumbent is None else self.incumbent.value
        return max(self._bound(), 0.0 if self.incumbent is None else self.incumbent.value)

    @property
    def gap(self) -> float:
        """See :attr:`.solver.BranchAndBound.gap`."""
        if self.incumbent is None:
            return 0.0 if self.done else float("inf")
        return share_of_gap(self.bound, self.incumbent.value)

    def step(self, boxes: int = 1, workers: Workforce | None = None) -> None:
        """Take a step of the solve, or begin the next solve; do nothing once done."""
        if self.done:
            return
        if not self._solver.done:
            self._solver.step(boxes, workers)
            self._update_incumbent()
            return
        self._least_bound = self._bound()
        self._climb()

    def pack(self, also: Any = None) -> bytes:
        """Return the state from which to continue, with a JSON value of the caller's."""
        best, against = self.incumbent, list(self._against)
        incumbent = None if best is None else [best.x.tolist(), best.threshold, best.value]
        return pack(self._solver, [also, self._before, self._least_bound, against, incumbent])

    @classmethod
    def unpack(
        cls,
        content: bytes,
        table: VoteTable,
        fraction: Fraction,
        requirements: Requirements,
        seed: int,
        looks: int,
    ) -> tuple[BestFraction, Any]:
        """Return the search and the value that :meth:`pack` wrote.

        Raises
        ------
        ValueError
            The content is not such a state.
        """
        search = cls.__new__(cls)
        search._table, search._fraction, search._requirements = table, fraction, requirements
        search._seed, search._looks = seed, looks

        def instance_of(more: Any) -> Instance:
            p, q = more[3]
            search._against = int(p), int(q)
            return search._instance()

        search._solver, more = unpack(content, instance_of)
        also, search._before, search._least_bound, _, incumbent = more
        search.incumbent = None
        if incumbent is not None:
            search.incumbent = Pruned(
                np.array(incumbent[0], dtype=np.int8), int(incumbent[1]), float(incumbent[2])
            )
        return search, also

    def _climb(self) -> None:
        """Begin solves against ever greater fractions until local search finds none greater."""
        self._update_incumbent()
        while (better := self._better()) is not None:
            for name in self._before:
                self._before[name] += getattr(self._solver, name)
            self._against = better
            self._solver = self._new_solver()
            self._update_incumbent()

    def _better(self) -> tuple[int, int] | None:
        """Return the fraction of the solve's ensemble if it is greater than p / q, else None."""
        best = self._solver.incumbent
        if best is None or best.value <= 0:
            return None
        return self._fraction.parts(self._table, best.x, best.threshold)

    def _instance(self) -> Instance:
        weights = self._fraction.against(*self._against)
        return Instance.of(self._table, weights, self._requirements)

    def _new_solver(self) -> BranchAndBound:
        return BranchAndBound(self._instance(), seed=self._seed, looks=self._looks)

    def _update_incumbent(self) -> None:
        best = self._solver.incumbent
        if best is None:
            return
        above, below = self._fraction.parts(self._table, best.x, best.threshold)
        value = above / below if below else 0.0
        if self.incumbent is None or value > self.incumbent.value:
            self.incumbent = Pruned(best.x, best.threshold, value)

    def _bound(self) -> float:
        """Return the least upper bound of the fraction, from this solve and those before.

        With q * above - p * below <= left, above / below <= p / q + left / (q * below).
        """
        p, q = self._against
        left = self._solver.bound
        below = self._fraction.least if left > 0 else self._fraction.most
        return min(self._least_bound, p / q + left / (q * below))
