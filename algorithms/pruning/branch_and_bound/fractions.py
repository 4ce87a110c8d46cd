"""The best fraction of two weighted sums, by branch and bound on differences of them.

Dinkelbach (1967): ``above / below`` is at most ``p / q`` for all ensembles if and only if the
greatest ``q * above - p * below`` is at most 0. Where it is more, its ensemble has a greater
fraction, which is the next ``p / q``. Every solve has its proof, and so has the last one.
"""

from __future__ import annotations

import json
import zlib
from typing import Any
from zipfile import BadZipFile

import numpy as np

from algorithms.pruning.branch_and_bound.instance import Instance, Pruned, Requirements
from algorithms.pruning.branch_and_bound.solver import (
    BranchAndBound,
    pack,
    share_of_gap,
    unpack,
)
from algorithms.pruning.rate_rows import Fraction
from algorithms.pruning.votes import VoteTable
from framework.errors import DAMAGED
from framework.preparation import Workforce
from framework.security import ESTIMATOR_BYTES, arrays_of


class BestFraction:
    """Solve for the greatest fraction, a step at a time; see :class:`.solver.BranchAndBound`.

    Parameters
    ----------
    table : VoteTable
    fraction : Fraction
    requirements : Requirements
    seed, looks
        Of each solve.

    Attributes
    ----------
    incumbent : Pruned or None
        Its value is the fraction.
    bound : float
        No ensemble has a greater one.
    nodes, programs, iterations : int
        Of all solves.
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
        self._table, self._of, self._requirements = table, fraction, requirements
        self._seed, self._looks = seed, looks
        self.incumbent: Pruned | None = None
        self._before = {"nodes": 0, "programs": 0, "iterations": 0}
        self._known = 1.0  # the least bound of all solves
        self._at = 0, 1
        self._solver = self._made()
        self._climb()

    @property
    def done(self) -> bool:
        """Whether nothing is worth more than 0 against the greatest fraction, as is proven."""
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
        """As of :attr:`.solver.BranchAndBound.gap`."""
        if self.incumbent is None:
            return 0.0 if self.done else float("inf")
        return share_of_gap(self.bound, self.incumbent.value)

    def step(self, boxes: int = 1, workers: Workforce | None = None) -> None:
        """Take a step of the solve, or begin the next one; nothing once done."""
        if self.done:
            return
        if not self._solver.done:
            self._solver.step(boxes, workers)
            self._look()
            return
        self._known = self._bound()
        self._climb()

    def pack(self, also: Any = None) -> bytes:
        """Return all that the solve goes on from, with a JSON value of the caller's."""
        best = self.incumbent
        incumbent = None if best is None else [best.x.tolist(), best.threshold, best.value]
        return pack(self._solver, [also, self._before, self._known, list(self._at), incumbent])

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
        """Undo :meth:`pack`.

        Raises
        ------
        ValueError
            The content is of something else.
        """
        search = cls.__new__(cls)
        search._table, search._of, search._requirements = table, fraction, requirements
        search._seed, search._looks = seed, looks
        search._at = _noted_at(content)
        search._solver, more = unpack(search._instance(), content)
        also, search._before, search._known, _, incumbent = more
        search.incumbent = None
        if incumbent is not None:
            search.incumbent = Pruned(
                np.array(incumbent[0], dtype=np.int8), int(incumbent[1]), float(incumbent[2])
            )
        return search, also

    def _climb(self) -> None:
        """Begin the next solve, against the fraction that the local search does not exceed."""
        self._look()
        while (better := self._better()) is not None:
            for name in self._before:
                self._before[name] += getattr(self._solver, name)
            self._at = better
            self._solver = self._made()
            self._look()

    def _better(self) -> tuple[int, int] | None:
        """Return the fraction of the solve's ensemble, if it is greater than that solved for."""
        best = self._solver.incumbent
        if best is None or best.value <= 0:
            return None
        return self._of.parts(self._table, best.x, best.threshold)

    def _instance(self) -> Instance:
        return Instance.of(self._table, self._of.against(*self._at), self._requirements)

    def _made(self) -> BranchAndBound:
        return BranchAndBound(self._instance(), seed=self._seed, looks=self._looks)

    def _look(self) -> None:
        """Take the ensemble of the solve, if its fraction is greater than what is known."""
        best = self._solver.incumbent
        if best is None:
            return
        above, below = self._of.parts(self._table, best.x, best.threshold)
        value = above / below if below else 0.0
        if self.incumbent is None or value > self.incumbent.value:
            self.incumbent = Pruned(best.x, best.threshold, value)

    def _bound(self) -> float:
        """Return what no fraction is above, of this solve and those before."""
        above, below = self._at
        left = self._solver.bound
        size = self._of.least if left > 0 else self._of.most
        return min(self._known, above / below + left / (below * size))


def _noted_at(content: bytes) -> tuple[int, int]:
    """Return the fraction that a packed solve is against, which its program follows from."""
    try:
        about = json.loads(arrays_of(content, ESTIMATOR_BYTES)["about"].tobytes())
        above, below = about["also"][3]
        return int(above), int(below)
    except (*DAMAGED, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise ValueError(f"not a solve that can be gone on with: {error}") from error
