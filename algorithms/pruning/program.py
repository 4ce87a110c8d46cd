"""The integer program as it is printed (ensemble pruning by integer programming, Sections 3, 4).

The readable reference, through cvxpy: a variable a record and no shortcuts. The strong form in
:mod:`algorithms.pruning.strong` says the same in fewer rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from algorithms.pruning.diversity import Demand
from algorithms.pruning.votes import Weights
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError

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
    credit : numpy.ndarray, shape (K, K), optional
        Failure credits, for ``demand``.
    demand : Demand, optional
    majority : bool
        Whether 2 L <= S <= 2 L + 1 rather than a free threshold.
    max_members : int, optional
    budgets : sequence of (costs, limit)
        Costs, shape (K,), of the members add up to at most the limit.
    one_sided : bool
        Leave (3) and (6) out where the weights make them redundant: a true positive is worth
        more than a false negative, and a true negative more than a false positive.

    Notes
    -----
    Beyond the printed program: S >= 1, or S >= 2 with diversity, as no member is no ensemble;
    (6) has K + 1 instead of K, without which L = K is cut off for records without votes.
    """

    def __init__(
        self,
        votes: BoolArray,
        positive: BoolArray,
        weights: Weights,
        *,
        credit: FloatArray | None = None,
        demand: Demand | None = None,
        majority: bool = False,
        max_members: int | None = None,
        budgets: Sequence[tuple[FloatArray, float]] = (),
        one_sided: bool = False,
    ) -> None:
        import cvxpy as cp

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
            cp.sum(self.x) >= (1 if demand is None else 2),
        ]
        better = (
            weights.true_positive > weights.false_negative
            and weights.true_negative > weights.false_positive
        )
        if not (one_sided and better):
            rows.append(beta @ self.x - self.L <= (k + 1) * t_pos)  # (3)
            rows.append((self.L + 1) - alpha @ self.x <= (k + 1) * t_neg)  # (6)
        if majority:
            rows += [cp.sum(self.x) >= 2 * self.L, cp.sum(self.x) <= 2 * self.L + 1]
        if max_members is not None:
            rows.append(cp.sum(self.x) <= max_members)
        rows += [costs @ self.x <= limit for costs, limit in budgets]
        if demand is not None:
            assert credit is not None
            rows += self._diverse(credit, demand)
        worth = (
            weights.true_positive * cp.sum(t_pos)
            + weights.false_negative * cp.sum(f_neg)
            + weights.true_negative * cp.sum(t_neg)
            + weights.false_positive * cp.sum(f_pos)
        )
        self.problem = cp.Problem(cp.Maximize(worth), rows)  # (1)

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
