"""``ip_cvxpy``: the integer program as it is printed (pruning paper, Sections 3 and 4).

The readable reference, through cvxpy: one variable per record and no shortcuts, solved by whatever
solver cvxpy knows. :mod:`algorithms.pruning.branch_and_bound` says the same in fewer rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.pruning.branch_and_bound.instance import Instance, Pruned, Requirements, scaled
from algorithms.pruning.branch_and_bound.solver import share_of_gap
from algorithms.pruning.diversity import Demand
from algorithms.pruning.searches.base import ProgramSearch
from algorithms.pruning.votes import Weights
from framework.algorithm import Outcome
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError, NoneFeasible
from framework.extras import needed
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles

Status = Literal["optimal", "stopped", "infeasible"]


class Solution(NamedTuple):
    """What a solver returned.

    Attributes
    ----------
    status : 'optimal', 'stopped' at a limit, or 'infeasible'
    x : numpy.ndarray of int8, shape (K,), or None
        Members; None where there is no solution.
    threshold : int
    value : float
        Weighted sum that the solver reports.
    bound : float
        No solution is worth more.
    nodes : int
    """

    status: Status
    x: Array | None
    threshold: int
    value: float
    bound: float
    nodes: int


class Program:
    """Equations (1) to (12), with diversity also (14) to (18) and (20).

    Parameters
    ----------
    votes : numpy.ndarray of bool, shape (K, N)
        Positive votes: beta on positive records, alpha on negative ones.
    positive : numpy.ndarray of bool, shape (N,)
    weights : Weights
    requirements : Requirements, optional
        With a majority 2 L <= S <= 2 L + 1, rather than a free threshold.
    one_sided : bool
        Leave (3) and (6) out where the weights make them redundant: a true positive is worth
        more than a false negative, a true negative more than a false positive, and no rate is
        bounded.

    Notes
    -----
    Solvers keep to a row but for a tolerance; budgets and caps are in units in which it is small,
    and :class:`PrintedProgram` asks again whether an answer keeps to them. Beyond the
    printed program: S >= 1, or S >= 2 with diversity, as no member is no ensemble; (6) has K + 1
    instead of K, without which L = K is cut off for records without votes.
    """

    def __init__(
        self,
        votes: BoolArray,
        positive: BoolArray,
        weights: Weights,
        requirements: Requirements | None = None,
        *,
        one_sided: bool = False,
    ) -> None:
        cp = needed("cvxpy")
        must = requirements or Requirements()
        k = len(votes)
        beta, alpha = votes[:, positive].T.astype(float), votes[:, ~positive].T.astype(float)
        self.x = cp.Variable(k, boolean=True, name="x")  # (8)
        self.L = cp.Variable(integer=True, name="L")  # (12)
        t_pos = cp.Variable(len(beta), boolean=True)  # (9)
        t_neg = cp.Variable(len(alpha), boolean=True)  # (10)
        f_neg = cp.Variable(len(beta), boolean=True)
        f_pos = cp.Variable(len(alpha), boolean=True)
        rows: list[Any] = [
            (self.L + 1) - beta @ self.x <= (k + 1) * (1 - t_pos),  # (2)
            t_pos + f_neg == 1,  # (4)
            alpha @ self.x - self.L <= k * (1 - t_neg),  # (5)
            f_pos + t_neg == 1,  # (7)
            self.L >= 0,  # (11)
            k >= self.L,
            cp.sum(self.x) >= must.min_members,
        ]
        better = (
            weights.true_positive > weights.false_negative
            and weights.true_negative > weights.false_positive
        )
        if not (one_sided and better and not must.caps):
            rows.append(beta @ self.x - self.L <= (k + 1) * t_pos)  # (3)
            rows.append((self.L + 1) - alpha @ self.x <= (k + 1) * t_neg)  # (6)
        if must.majority:
            rows += [cp.sum(self.x) >= 2 * self.L, cp.sum(self.x) <= 2 * self.L + 1]
        if must.max_members is not None:
            rows.append(cp.sum(self.x) <= must.max_members)
        for budget in must.budgets:
            costs, limit = scaled(*budget)
            rows.append(costs @ self.x <= limit)
        cells = cp.hstack([cp.sum(t_pos), cp.sum(f_neg), cp.sum(t_neg), cp.sum(f_pos)])
        for cap in must.caps:
            weights_of_cap, limit = scaled(np.array(cap.weights, dtype=np.float64), cap.limit)
            rows.append(weights_of_cap @ cells <= limit)
        if must.demand is not None:
            assert must.credit is not None
            rows += self._diverse(must.credit, must.demand)
        worth = (
            weights.true_positive * cp.sum(t_pos)
            + weights.false_negative * cp.sum(f_neg)
            + weights.true_negative * cp.sum(t_neg)
            + weights.false_positive * cp.sum(f_pos)
        )
        self.problem = cp.Problem(cp.Maximize(worth), rows)  # (1)

    def exclude(self, x: Array) -> None:
        """Take members, shape (K,), out of what may be found."""
        import cvxpy as cp

        rather = np.where(np.asarray(x) > 0, 1.0, -1.0)
        row = rather @ self.x <= np.count_nonzero(x) - 1
        self.problem = cp.Problem(self.problem.objective, [*self.problem.constraints, row])

    def _diverse(self, credit: FloatArray, demand: Demand) -> list[Any]:
        import cvxpy as cp

        k = len(credit)
        first, second = np.triu_indices(k, 1)
        y = cp.Variable(len(first))  # of each pair k < l
        pairs = credit[first, second]
        # entry (i, p) is the credit of pair p where classifier i is one of it
        share = np.zeros((k, len(first)))
        share[first, np.arange(len(first))] = pairs
        share[second, np.arange(len(first))] = pairs
        size = cp.sum(self.x)
        return [
            y >= self.x[first] + self.x[second] - 1,  # (14)
            y <= self.x[first],  # (15)
            y <= self.x[second],  # (16)
            y >= 0,  # (17)
            share @ y >= demand.tau * (size - 1) - k * demand.tau * (1 - self.x),  # (18)
            pairs @ y >= demand.gamma * cp.sum(y),  # (20)
        ]

    def solve(
        self,
        solver: str = "HIGHS",
        seconds: float | None = None,
        gap: float = 0.0,
        options: Mapping[str, Any] | None = None,
    ) -> Solution:
        """Hand the program to a solver.

        Parameters
        ----------
        solver : str
            As cvxpy spells it: HIGHS, SCIP, GUROBI, CPLEX, ...
        seconds : float, optional
            Wall time, at most; of HIGHS and SCIP.
        gap : float
            Relative gap at which HIGHS or SCIP may stop.
        options : mapping, optional
            Further keywords of ``cvxpy.Problem.solve`` for this solver.

        Raises
        ------
        InputError
            The solver is not installed, or fails.
        """
        import cvxpy as cp

        check_solver(solver)
        keywords = {**_limits(solver, seconds, gap), **(options or {})}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", UserWarning
                )  # stopped at a limit: the status says so
                self.problem.solve(solver=solver, **keywords)
        except cp.SolverError as error:
            if solver == "SCIP" and seconds is not None:  # it has no word for "no solution yet"
                return Solution("stopped", None, 0, -np.inf, np.inf, 0)
            raise InputError(f"algorithm.solver: {solver} failed: {error}") from error
        return self._solution(solver)

    def _solution(self, solver: str) -> Solution:
        status, extra = self.problem.status, self.problem.solver_stats.extra_stats
        if status in ("infeasible", "infeasible_inaccurate"):
            return Solution("infeasible", None, 0, -np.inf, -np.inf, 0)
        bound, nodes, solved = np.inf, 0, self.x.value is not None
        if solver == "HIGHS":
            # at a limit without a solution HiGHS fills in zeros all the same
            solved = solved and extra.primal_solution_status == 2
            bound, nodes = -float(extra.mip_dual_bound), int(extra.mip_node_count)
        elif solver == "SCIP":
            model = extra["model"]
            bound, nodes = -float(model.getDualbound()), int(model.getNTotalNodes())
        if not solved:
            return Solution("stopped", None, 0, -np.inf, bound, nodes)
        value = float(self.problem.value)
        done = status == "optimal"
        return Solution(
            "optimal" if done else "stopped",
            np.round(self.x.value).astype(np.int8),
            round(float(self.L.value)),
            value,
            value if done and not np.isfinite(bound) else bound,
            nodes,
        )


def _with(best: Pruned | None, status: Status, bound: float, nodes: int) -> Solution:
    """Return what is known: the best ensemble, if there is one, and the bound of what is left."""
    if best is None:
        return Solution(status, None, 0, -np.inf, bound, nodes)
    bound_now = max(bound, best.value)
    return Solution(status, best.x, best.threshold, best.value, bound_now, nodes)


def check_solver(solver: str) -> None:
    """Refuse a solver that is not there.

    Raises
    ------
    InputError
        Naming those that are.
    """
    import cvxpy as cp
    from cvxpy.reductions.solvers.defines import MI_SOLVERS

    installed = [name for name in cp.installed_solvers() if name in MI_SOLVERS]
    if solver not in installed:
        raise InputError(
            f"algorithm.solver: expected a mixed-integer solver that is installed "
            f"({', '.join(sorted(installed))}), found {solver!r}; install it, SCIP for example "
            "with pip install 'paretolab[scip]'"
        )


def _limits(solver: str, seconds: float | None, gap: float) -> dict[str, Any]:
    """Return the solver's own names for a time limit and a gap; one thread."""
    if solver == "HIGHS":
        limits: dict[str, Any] = {"mip_rel_gap": gap, "threads": 1}
        return limits if seconds is None else {**limits, "time_limit": seconds}
    if solver == "SCIP":
        limits = {"limits/gap": gap}
        return {"scip_params": limits if seconds is None else {**limits, "limits/time": seconds}}
    if seconds is not None:
        raise InputError(
            f"algorithm.seconds: expected none for {solver}, found {seconds:g}; give its own limit "
            "in algorithm.options, or take HIGHS or SCIP"
        )
    return {}


class PrintedProgram(ProgramSearch):
    """Equations 1 to 20 as printed, through cvxpy: the reference for ``ip``, and slower.

    Parameters
    ----------
    solver : str
        A mixed-integer solver that is installed, as cvxpy spells it.
    seconds : float, optional
        Wall time of HIGHS or SCIP, at most; the answer then depends on the machine.
    options : mapping, optional
        Further keywords for the solver, passed on as they are.
    one_sided : bool
        Leave Equations 3 and 6 out where the weights make them redundant.
    problem, roles, seed, **more
        As for :class:`~algorithms.pruning.searches.base.ProgramSearch`; the seed is not used, and
        HIGHS or SCIP may stop at the relative gap ``gap``.

    Raises
    ------
    InputError
        The solver is missing or found nothing, or no ensemble meets the demands.
    """

    takes_rates = False

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        solver: str = "HIGHS",
        seconds: Annotated[float, Field(gt=0)] | None = None,
        options: dict[str, Any] | None = None,
        one_sided: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(problem, roles, seed=seed, **more)
        check_solver(solver)
        self.solver, self.seconds = solver, seconds
        self.options, self.one_sided = options, one_sided
        self._solution: Solution | None = None
        self._value = 0.0

    def prepare(self, work: Preparation) -> None:
        """Solve; nothing is heard of the solver until it is done."""
        work.report(f"integer program as printed, {self.solver}", 0, 1)
        self._solve()

    def propose(self) -> Array | None:
        """Return the solver's ensemble, once."""
        solution = self._solve()
        if solution.x is None:
            raise NoneFeasible(
                self.none_meets()
                if solution.status == "infeasible"
                else f"algorithm.seconds: expected time enough for {self.solver} to find an "
                "ensemble, found none; raise it, or take algorithm.kind: ip"
            )
        self.done = True
        self.reason = "proven best" if solution.status == "optimal" else "the solver's limit"
        return self.rows(solution.x[np.newaxis], [solution.threshold])

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
        return {"certificates": self.certificate(self._value, solution.bound)}

    def _solve(self) -> Solution:
        if self._solution is None:
            votes, positive = self._records()
            requirements = self._requirements
            program = Program(
                votes, positive, self._weights, requirements, one_sided=self.one_sided
            )
            self._solution = self._admitted(program)
            if self._solution.x is not None:
                self._value = self._solution.value
        return self._solution

    def _admitted(self, program: Program) -> Solution:
        """Solve until an answer keeps to all demands by the counts that are reported of it.

        Members that a solver's tolerances let through are judged with their own best threshold
        and excluded. ``seconds`` are those of all solves together.
        """
        instance = Instance.of(self.votes, self._weights, self._requirements)
        best: Pruned | None = None
        start, nodes, bound = time.monotonic(), 0, np.inf
        while True:
            left = None if self.seconds is None else self.seconds - (time.monotonic() - start)
            if left is not None and left <= 0:
                return _with(best, "stopped", bound, nodes)
            last = program.solve(self.solver, left, self.gap, self.options)
            nodes, bound = nodes + last.nodes, last.bound
            if last.x is None:
                exhausted = best is not None and last.status == "infeasible"
                return _with(best, "optimal" if exhausted else last.status, bound, nodes)
            value = self.votes.value(last.x, last.threshold, self._weights)
            if self._keeps(last.x, last.threshold):
                if best is None or value > best.value:
                    best = Pruned(last.x, last.threshold, value)
                return _with(best, last.status, bound, nodes)
            threshold = instance.best_threshold(last.x)
            if self._requirements.admits(last.x) and np.isfinite(threshold.value):
                best = threshold if best is None or threshold.value > best.value else best
            program.exclude(last.x)

    def _keeps(self, x: Array, threshold: int) -> bool:
        """Return whether an ensemble keeps to members' demands, caps and the majority."""
        must = self._requirements
        if must.majority and threshold != np.count_nonzero(x) // 2:
            return False
        return must.admits(x) and all(
            self.votes.value(x, threshold, cap.weights) <= cap.limit for cap in must.caps
        )

    def _records(self) -> tuple[Array, Array]:
        """Return the votes record by record, (K, N), and which records are positive, (N,)."""
        patterns, records = self.votes.unpacked, self.votes.records
        negative = np.repeat(patterns, records[:, 0], axis=0)
        positive = np.repeat(patterns, records[:, 1], axis=0)
        classes = np.arange(len(negative) + len(positive)) >= len(negative)
        return np.concatenate([negative, positive]).T, classes
