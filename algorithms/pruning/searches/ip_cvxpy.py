"""``ip_cvxpy``: the program as printed, solved by whatever solver cvxpy knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from algorithms.pruning.program import Program, Solution, check_solver
from algorithms.pruning.searches.base import PruningSearch, as_columns, certificate, metric_of
from algorithms.pruning.searches.ip import DiversityKey, WeightsKey
from algorithms.pruning.strong.closure import share_of_gap
from framework.algorithm import Outcome
from framework.arrays import Array, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles


class PrintedProgram(PruningSearch):
    """Equations 1 to 20 as printed, through cvxpy: the reference for ``ip``, and slower.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
        Constraints are part of the program as for ``ip``.
    seed : int
        Not used.
    weights, diversity, max_members :
        As for ``ip``.
    solver : str
        A mixed-integer solver that is installed, as cvxpy spells it.
    gap : float
        Relative gap at which HIGHS or SCIP may stop.
    seconds : float, optional
        Wall time of HIGHS or SCIP, at most; the answer then depends on the machine.
    options : mapping, optional
        Further keywords for the solver, passed on as they are.
    one_sided : bool
        Leave Equations 3 and 6 out where the weights make them redundant.

    Raises
    ------
    InputError
        The solver is missing or found nothing, or no ensemble meets the demands.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        weights: WeightsKey | None = None,
        diversity: DiversityKey | None = None,
        max_members: Annotated[int, Field(ge=1)] | None = None,
        solver: str = "HIGHS",
        gap: Annotated[float, Field(ge=0)] = 0.0,
        seconds: Annotated[float, Field(gt=0)] | None = None,
        options: dict[str, Any] | None = None,
        one_sided: bool = False,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        check_solver(solver)
        self._weights = self.weights(weights)
        self._demands = self.demands(diversity, max_members)
        self.solver, self.gap, self.seconds = solver, gap, seconds
        self.options, self.one_sided = options, one_sided
        self._solution: Solution | None = None
        self._value, self._id = 0.0, -1
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    def prepare(self, work: Preparation) -> None:
        """Solve; nothing is heard of the solver until it is done."""
        work.report(f"integer program as printed, {self.solver}", 0, 1)
        self._solve()

    def propose(self) -> Array | None:
        """Return the solver's ensemble, once."""
        solution = self._solve()
        if solution.x is None:
            raise InputError(
                "algorithm: expected demands that some ensemble meets, proved that none does; "
                "relax one of them"
                if solution.status == "infeasible"
                else f"algorithm.seconds: expected time enough for {self.solver} to find an "
                "ensemble, found none; raise it, or take algorithm.kind: ip"
            )
        self.done = True
        self.reason = "proven best" if solution.status == "optimal" else "the solver's limit"
        return self.rows(solution.x[np.newaxis], [solution.threshold])

    def learn(self, batch: Evaluated) -> None:
        """Note the row, and whether it may be returned."""
        self._id, self._returned = int(batch.ids[0]), self.feasible(batch)

    def outcome(self) -> Outcome:
        """Return what the solver said, and ``certificates``: the bound as one of a metric."""
        solution = self._solution
        if solution is None:
            return Outcome()
        return Outcome(self._findings(solution), self._returned, self._certificates(solution))

    def _findings(self, solution: Solution) -> dict[str, Any]:
        return {
            "status": solution.status,
            "solver": self.solver,
            "value": self._value,
            "bound": solution.bound,
            "gap": share_of_gap(solution.bound, self._value),
            "threshold": solution.threshold,
            "nodes": solution.nodes,
        }

    def _certificates(self, solution: Solution) -> dict[str, Mapping[str, Array]]:
        if solution.x is None or not np.isfinite(solution.bound):
            return {}
        metric, multiple = metric_of(self._weights, *self.votes.totals)
        row = certificate(
            metric or "weighted_sum",
            self._value / multiple,
            solution.bound / multiple,
            self._demands.conditions,
        )
        return {"certificates": as_columns([{"id": self._id, **row}])}

    def _solve(self) -> Solution:
        if self._solution is None:
            votes, positive = self._records()
            program = Program(
                votes,
                positive,
                self._weights,
                credit=self.credit,
                demand=self._demands.diversity,
                majority=self.majority,
                max_members=self._demands.most,
                budgets=self._demands.budgets,
                one_sided=self.one_sided,
            )
            self._solution = program.solve(self.solver, self.seconds, self.gap, self.options)
            x, threshold = self._solution.x, self._solution.threshold
            if x is not None:
                self._value = self.votes.value(x, threshold, self._weights)
        return self._solution

    def _records(self) -> tuple[Array, Array]:
        """Return the votes record by record, (K, N), and which records are positive, (N,)."""
        patterns, records = self.votes.unpacked, self.votes.records
        negative = np.repeat(patterns, records[:, 0], axis=0)
        positive = np.repeat(patterns, records[:, 1], axis=0)
        classes = np.arange(len(negative) + len(positive)) >= len(negative)
        return np.concatenate([negative, positive]).T, classes
