"""The linear relaxation of a box of members and thresholds, its cuts found as they are needed.

Columns: members x (K), patterns z (U + D), the threshold L, and with a demand of mean diversity
one credit a classifier (K). Rows are all valid for each whole solution of the box:

- the number of members and L are in the box, L <= S - 1 (calling nothing positive is judged
  apart); with majority votes 2 L <= S <= 2 L + 1; budgets; the cap;
- conflicts and counts (:mod:`algorithms.pruning.strong.cuts`);
- diversity: each member's mean credit by one row a classifier, exact since x_k is 0 or 1; the
  ensemble's mean by a credit w_k <= x_k g_k(x) each (Glover 1975).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.pruning.diversity import TOLERANCE
from algorithms.pruning.strong.box import Box, Limits
from algorithms.pruning.strong.cuts import (
    Cuts,
    broken_counts,
    conflicts,
    constants,
    is_conflict,
    no_cuts,
    of_counts,
    without,
)
from algorithms.pruning.strong.instance import Instance
from algorithms.pruning.strong.rows import Rows, safe_bound
from framework.arrays import Array, FloatArray

_VIOLATED = 1e-3  # by how much a row is broken at least to be taken in
_MOST_CUTS = 3000  # taken in at a time
_BY_ROWS, _MAXIMISE = 2, -1  # as HiGHS numbers them


class Relaxed(NamedTuple):
    """A relaxation solved.

    ``bound`` is valid whatever the tolerances of the solver (it is computed from the multipliers);
    minus infinity where the box is empty. ``basis`` are the statuses of the columns, then of the
    fixed rows; ``kept`` are the cuts that bind, with their statuses.
    """

    bound: float
    x: FloatArray
    z: FloatArray
    threshold: float
    basis: Array
    kept: Cuts
    kept_status: Array
    iterations: int


class Relaxation:
    """Builds and solves the relaxations of an instance; it holds nothing that a solve changes."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.k, self.u, self.d = instance.k, len(instance.up), len(instance.down)
        self.p = self.u + self.d
        self.up32 = instance.up_patterns.astype(np.float32)
        self.down32 = instance.down_patterns.astype(np.float32)
        self.patterns = np.concatenate([instance.up_patterns, instance.down_patterns])
        self.ints = self.patterns.astype(np.int64)

    def solve(self, box: Box, cuts: Cuts, basis: Array | None, status: Array | None) -> Relaxed:
        """Solve the relaxation with some cuts.

        Parameters
        ----------
        basis, status : numpy.ndarray of int8, optional
            Of columns and fixed rows, and of the first so many cuts: where to start.
        """
        import highspy

        limits = box.limits(self.ints)
        if (limits.never & limits.always).any():
            return self._empty(0)
        rows = Rows(self.columns)
        self._fixed_rows(rows, box)
        fixed = rows.count
        self._cut_rows(rows, cuts, box)
        cost, lower, upper = self._columns_of(box, limits)
        start, index, value, row_lower, row_upper = rows.arrays()
        solver = highspy.Highs()
        for name, setting in _OPTIONS.items():
            solver.setOptionValue(name, setting)
        none = np.zeros(self.columns, dtype=np.int32)
        sizes = (self.columns, rows.count, len(value), _BY_ROWS, _MAXIMISE)
        program = (cost, lower, upper, row_lower, row_upper, start, index, value, none)
        solver.passModel(*sizes, 0.0, *program)
        if basis is not None and status is not None:
            start_basis = highspy.HighsBasis()
            new = np.full(len(cuts) - len(status), int(highspy.HighsBasisStatus.kBasic))
            every = np.concatenate([basis, status, new]).tolist()
            names = [highspy.HighsBasisStatus(s) for s in range(5)]
            start_basis.col_status = [names[s] for s in every[: self.columns]]
            start_basis.row_status = [names[s] for s in every[self.columns :]]
            start_basis.valid = True
            solver.setBasis(start_basis)
        solver.run()
        iterations = max(int(solver.getInfo().simplex_iteration_count), 0)
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return self._empty(iterations)
        solution, found = solver.getSolution(), solver.getBasis()
        point = np.array(solution.col_value)
        dual = np.array(solution.row_dual)
        bound = safe_bound(dual, cost, lower, upper, start, index, value, row_lower, row_upper)
        column_status = np.array([int(s) for s in found.col_status], dtype=np.int8)
        row_status = np.array([int(s) for s in found.row_status], dtype=np.int8)
        binding = row_status[fixed:] != int(highspy.HighsBasisStatus.kBasic)
        return Relaxed(
            bound + self.instance.constant,
            point[: self.k],
            point[self.k : self.k + self.p],
            float(point[self.k + self.p]),
            np.concatenate([column_status, row_status[:fixed]]),
            cuts[binding],
            row_status[fixed:][binding],
            iterations,
        )

    def _empty(self, iterations: int) -> Relaxed:
        none, no_status = np.zeros(0), np.zeros(0, dtype=np.int8)
        return Relaxed(-np.inf, none, none, 0.0, no_status, no_cuts(self.k), no_status, iterations)

    @property
    def columns(self) -> int:
        """Number of columns."""
        credits = self.k if self._mean_wanted else 0
        return self.k + self.p + 1 + credits

    @property
    def _mean_wanted(self) -> bool:
        demand = self.instance.demand
        return demand is not None and demand.gamma > 0

    def broken(self, relaxed: Relaxed, box: Box) -> Cuts:
        """Return the cuts that a solution breaks, the worst of each pattern, worst first."""
        x, z = relaxed.x, relaxed.z
        open_calls = np.flatnonzero(~box.limits(self.ints).implied)
        negative = np.where(box.calls < 0, np.arange(self.p) >= self.u, box.calls == 0)[open_calls]
        rows = (open_calls, self.patterns[open_calls], negative)
        new, by = broken_counts(box, rows, x, z[open_calls], relaxed.threshold)
        found, amounts = [new[by > _VIOLATED]], [by[by > _VIOLATED]]
        if self.u and self.d:
            pairs, worst = self._broken_conflicts(x, z, self.patterns @ x)
            found.append(pairs)
            amounts.append(worst)
        cuts, amount = np.concatenate(found), np.concatenate(amounts)
        fresh = without(cuts, relaxed.kept)
        cuts, amount = cuts[fresh], amount[fresh]
        return np.asarray(cuts[np.argsort(-amount, kind="stable")[:_MOST_CUTS]], dtype=np.int64)

    def _broken_conflicts(
        self, x: FloatArray, z: FloatArray, votes: FloatArray
    ) -> tuple[Cuts, FloatArray]:
        """Return, for each pattern, the conflict that is broken most."""
        rows = np.flatnonzero(z[: self.u] > _VIOLATED)
        columns = np.flatnonzero(z[self.u :] < 1 - _VIOLATED)
        if not len(rows) or not len(columns):
            return no_cuts(self.k), np.zeros(0)
        shared = (self.up32[rows] * x.astype(np.float32)) @ self.down32[columns].T
        shared += (z[rows] - votes[rows]).astype(np.float32)[:, None]
        shared -= z[self.u + columns].astype(np.float32)
        best_column, best_row = shared.argmax(axis=1), shared.argmax(axis=0)
        pairs = np.concatenate(
            [
                np.column_stack([np.arange(len(rows)), best_column]),
                np.column_stack([best_row, np.arange(len(columns))]),
            ]
        )
        amount = shared[pairs[:, 0], pairs[:, 1]]
        pairs, amount = pairs[amount > _VIOLATED], amount[amount > _VIOLATED]
        pairs, first = np.unique(pairs, axis=0, return_index=True)
        numbers = np.column_stack([rows[pairs[:, 0]], columns[pairs[:, 1]]])
        return conflicts(numbers, self.d, self.k), amount[first].astype(np.float64)

    def _columns_of(self, box: Box, limits: Limits) -> tuple[FloatArray, FloatArray, FloatArray]:
        cost, lower, upper = (np.zeros(self.columns) for _ in range(3))
        lower[: self.k], upper[: self.k] = box.x == 1, box.x != 0
        z = slice(self.k, self.k + self.p)
        cost[z] = self.instance.gains
        lower[z], upper[z] = limits.always, ~limits.never
        at = self.k + self.p
        lower[at], upper[at] = box.thresholds
        if self._mean_wanted:
            low, high = self._credit_bounds(box)
            lower[at + 1 :], upper[at + 1 :] = np.minimum(low, 0.0), np.maximum(high, 0.0)
        return cost, lower, upper

    def _fixed_rows(self, rows: Rows, box: Box) -> None:
        k, at = self.k, self.k + self.p
        members = np.arange(k)
        ones = np.ones(k)
        rows.add(members, ones, *box.sizes)
        with_l = np.append(members, at)
        if self.instance.majority:
            rows.add(with_l, np.append(ones, -2.0), 0.0, 1.0)
        rows.add(with_l, np.append(ones, -1.0), 1.0, np.inf)
        for budget in self.instance.budgets:
            rows.add(members, budget.costs, -np.inf, budget.limit)
        if np.isfinite(self.instance.cap):
            down = np.arange(k + self.u, k + self.p)
            rows.add(down, self.instance.cap_weights, -np.inf, self.instance.cap)
        if self.instance.demand is not None:
            self._diversity_rows(rows, box)

    def _diversity_rows(self, rows: Rows, box: Box) -> None:
        demand, credit = self.instance.demand, self.instance.credit
        assert demand is not None
        assert credit is not None
        members, at = np.arange(self.k), self.k + self.p + 1
        if demand.tau > 0:
            above = credit - demand.tau
            np.fill_diagonal(above, 0.0)
            for i in range(self.k):
                worst = np.minimum(above[i], 0.0).sum()
                row = above[i].copy()
                row[i] = worst  # free where i is no member
                rows.add(members, row, worst - TOLERANCE * self.k, np.inf)
        if self._mean_wanted:
            above = credit - demand.gamma
            np.fill_diagonal(above, 0.0)
            low, high = self._credit_bounds(box)
            for i in range(self.k):
                # w <= high x_i, and w <= g(x) - low (1 - x_i)
                rows.add(np.array([i, at + i]), np.array([-high[i], 1.0]), -np.inf, 0.0)
                row = -above[i]
                row[i] = -low[i]
                rows.add(np.append(members, at + i), np.append(row, 1.0), -np.inf, -low[i])
            slack = TOLERANCE * self.k * self.k
            rows.add(np.arange(at, at + self.k), np.ones(self.k), -slack, np.inf)

    def _credit_bounds(self, box: Box) -> tuple[FloatArray, FloatArray]:
        """Return the least and greatest sum of credits above gamma that others can give."""
        demand, credit = self.instance.demand, self.instance.credit
        assert demand is not None
        assert credit is not None
        above = credit - demand.gamma
        np.fill_diagonal(above, 0.0)
        above = above * (box.x != 0)
        ordered, most = np.sort(above, axis=1), box.sizes[1]
        low = np.minimum(ordered[:, :most], 0.0).sum(axis=1)
        high = np.maximum(ordered[:, ::-1][:, :most], 0.0).sum(axis=1)
        return low, high

    def _cut_rows(self, rows: Rows, cuts: Cuts, box: Box) -> None:
        """Add the cuts, in their order."""
        if not len(cuts):
            return
        pair = is_conflict(cuts)
        table = np.zeros((len(cuts), self.k))
        i, j = np.divmod(cuts[pair, 0], max(self.d, 1))
        table[pair] = -(self.patterns[i] & ~self.patterns[self.u + j]).astype(np.float64)
        p, negative, sets = of_counts(cuts[~pair], self.k)
        apart, free = constants(box, self.patterns[p], negative, sets)
        sign = np.where(negative, 1.0, -1.0)
        table[~pair] = sign[:, np.newaxis] * sets
        # z and L columns: (row, column, value)
        numbers = np.arange(len(cuts))
        extra = [
            (numbers[pair], self.k + i, np.ones(len(i))),
            (numbers[pair], self.k + self.u + j, -np.ones(len(j))),
            (numbers[~pair], self.k + p, -sign * free),
            (numbers[~pair], np.full(len(p), self.k + self.p), -sign),
        ]
        upper = np.zeros(len(cuts))
        upper[~pair] = apart + np.where(negative, 0.0, free - 1.0)
        rows.add_block(table, extra, upper)


_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "presolve": "off",
    "random_seed": 0,
    "solver": "simplex",
}
