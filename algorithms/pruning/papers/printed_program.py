"""``ip_cvxpy``: the integer program as it is printed (pruning paper, Sections 3 and 4).

The readable reference, in cvxpy: one variable per record and no shortcuts, for any mixed-integer
solver that cvxpy supports. :mod:`algorithms.pruning.branch_and_bound` states the same program with
fewer rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field

from algorithms.pruning.branch_and_bound.instance import Instance, Pruned, Requirements, scaled
from algorithms.pruning.branch_and_bound.solver import share_of_gap
from algorithms.pruning.diversity import Demand
from algorithms.pruning.searches.base import FRACTIONS, AnyWeights, ProgramSearch
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
    """The result of a solver.

    Attributes
    ----------
    status : 'optimal', 'stopped' at a limit, or 'infeasible'
    x : numpy.ndarray of int8, shape (K,), or None
        Members; None without a solution.
    threshold : int
    value : float
        The weighted sum that the solver reports.
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
        Positive votes; the paper's beta on positive records, and alpha on negative ones.
    positive : numpy.ndarray of bool, shape (N,)
    weights : Weights
    requirements : Requirements, optional
        With majority votes, rows 2 L <= S <= 2 L + 1 for the number of members S.
    one_sided : bool
        Whether (3) and (6) are left out if the weights make them redundant, that is, if a true
        positive is worth more than a false negative, a true negative more than a false positive,
        and no rate is bounded.

    Notes
    -----
    Solvers satisfy rows within a tolerance. Budgets and caps are in units in which it is small, and
    :class:`PrintedProgram` checks whether an answer really keeps them. Two rows differ from the
    printed ones: S is at least 1, or 2 with diversity; and (6) has K + 1 instead of K, which would
    exclude L = K if a record has no votes.
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
        """Exclude members, shape (K,), from the solutions."""
        import cvxpy as cp

        signs = np.where(np.asarray(x) > 0, 1.0, -1.0)
        row = signs @ self.x <= np.count_nonzero(x) - 1
        self.problem = cp.Problem(self.problem.objective, [*self.problem.constraints, row])

    def _diverse(self, credit: FloatArray, demand: Demand) -> list[Any]:
        import cvxpy as cp

        k = len(credit)
        first, second = np.triu_indices(k, 1)
        y = cp.Variable(len(first))  # 1 for each pair k < l whose classifiers are both members
        pairs = credit[first, second]
        # entry (i, p) is the credit of pair p if classifier i belongs to it, else 0
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
        """Pass the program to a solver.

        Parameters
        ----------
        solver : str
            Its name in cvxpy, such as HIGHS, SCIP, GUROBI or CPLEX.
        seconds : float, optional
            Greatest wall time of HIGHS or SCIP.
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
                warnings.simplefilter("ignore", UserWarning)  # of limits: the status says so
                self.problem.solve(solver=solver, **keywords)
        except cp.SolverError as error:
            if solver == "SCIP" and seconds is not None:  # SCIP has no status for "no solution yet"
                return Solution("stopped", None, 0, -np.inf, np.inf, 0)
            raise InputError(f"algorithm.solver: {solver} failed: {error}") from error
        return self._solution(solver)

    def _solution(self, solver: str) -> Solution:
        status, extra = self.problem.status, self.problem.solver_stats.extra_stats
        if status in ("infeasible", "infeasible_inaccurate"):
            return Solution("infeasible", None, 0, -np.inf, -np.inf, 0)
        bound, nodes, solved = np.inf, 0, self.x.value is not None
        if solver == "HIGHS":
            # at a limit without a solution HiGHS fills in zeros
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
    """Return the best ensemble, if there is one, with the bound of those not excluded."""
    if best is None:
        return Solution(status, None, 0, -np.inf, bound, nodes)
    return Solution(status, *best, max(bound, best.value), nodes)


def check_solver(solver: str) -> None:
    """Raise InputError if a solver is not installed; the message names those that are."""
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
    """Return a solver's options for a time limit and a gap, with one thread."""
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


def _no_row(name: object) -> str:
    """Return the sentence that the printed program cannot maximise precision or F1."""
    return (
        f"expected another goal than {name}, for which the program as printed has no row; take "
        "ip, or accuracy or balanced_accuracy as first objective or as algorithm.weights"
    )


def _with_row(weights: AnyWeights | None) -> AnyWeights | None:
    if weights in FRACTIONS:
        raise ValueError(_no_row(weights))
    return weights


class PrintedProgram(ProgramSearch):
    """Equations 1 to 20 as printed, through cvxpy: the reference for ``ip``, and slower.

    Parameters
    ----------
    solver : str
        An installed mixed-integer solver, by its name in cvxpy.
    seconds : float, optional
        Greatest wall time of HIGHS or SCIP; the answer then depends on the machine.
    options : mapping, optional
        Further keywords for the solver, passed on unchanged.
    one_sided : bool
        Whether Equations 3 and 6 are left out if the weights make them redundant.
    problem, roles, seed, **more
        As for :class:`~algorithms.pruning.searches.base.ProgramSearch`; the seed is not used, and
        HIGHS or SCIP may stop at the relative gap ``gap``.

    Raises
    ------
    InputError
        The solver is not installed, or precision or F1 is to be maximised.
    """

    takes_rates = False

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        weights: Annotated[AnyWeights | None, AfterValidator(_with_row)] = None,
        solver: str = "HIGHS",
        seconds: Annotated[float, Field(gt=0)] | None = None,
        options: dict[str, Any] | None = None,
        one_sided: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(problem, roles, weights=weights, **more)
        if self._fraction is not None:
            raise InputError(f"algorithm: {_no_row(self._fraction.name)}")
        check_solver(solver)
        self.solver, self.seconds = solver, seconds
        self.options, self.one_sided = options, one_sided
        self._solution: Solution | None = None
        self._value = 0.0

    def prepare(self, work: Preparation) -> None:
        """Solve the program; the solver does not report its progress."""
        work.report(f"integer program as printed, {self.solver}", 0, 1)
        parts = (*self._records(), self._weights, self._requirements)
        self._solution = self._admitted(Program(*parts, one_sided=self.one_sided))
        if self._solution.x is not None:
            self._value = self._solution.value

    def propose(self) -> Array | None:
        solution = self._solution
        assert solution is not None
        if solution.x is None:
            raise NoneFeasible(
                self.none_meets()
                if solution.status == "infeasible"
                else f"algorithm.seconds: expected enough time for {self.solver} to find an "
                "ensemble, found none; raise it, or take algorithm.kind: ip"
            )
        self.done = True
        self.reason = "proven best" if solution.status == "optimal" else "the solver's limit"
        return self.rows(solution.x[np.newaxis], [solution.threshold])

    def outcome(self) -> Outcome:
        """Return the solver's findings, and ``certificates`` with the bound as that of a metric."""
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

    def _admitted(self, program: Program) -> Solution:
        """Solve until an answer meets all demands exactly, by the counts of the reported metrics.

        An answer that only a solver's tolerance admits is excluded, after its members were tried
        with their best threshold. All solves share ``seconds``.
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
            mended = instance.best_threshold(last.x)
            if self._requirements.admits(last.x) and np.isfinite(mended.value):
                best = mended if best is None or mended.value > best.value else best
            program.exclude(last.x)

    def _keeps(self, x: Array, threshold: int) -> bool:
        """Return whether an ensemble meets the demands of members, the caps and the majority."""
        must = self._requirements
        if must.majority and threshold != np.count_nonzero(x) // 2:
            return False
        return must.admits(x) and all(
            self.votes.value(x, threshold, cap.weights) <= cap.limit for cap in must.caps
        )

    def _records(self) -> tuple[Array, Array]:
        """Return the votes for single records, (K, N), and which records are positive, (N,)."""
        patterns, records = self.votes.unpacked, self.votes.records
        negative = np.repeat(patterns, records[:, 0], axis=0)
        positive = np.repeat(patterns, records[:, 1], axis=0)
        classes = np.arange(len(negative) + len(positive)) >= len(negative)
        return np.concatenate([negative, positive]).T, classes
