"""The linear relaxation of a box of members and thresholds, its cuts found as they are needed.

Columns: members x (K), patterns z (U + D), the threshold L, and with a demand of mean diversity
one credit a classifier (K). Rows are all valid for each whole solution of the box:

- the number of members and L are in the box, L <= S - 1 (calling nothing positive is judged
  apart); with majority votes 2 L <= S <= 2 L + 1; budgets; the cap;
- *conflicts*: z_i - z_j <= sum of x over the classifiers that vote for i but not for j, as i is
  above L and j is not only if such a member exists (dominance where there is none);
- *counts*: a pattern of ``up`` called positive has more than L votes, one of ``down`` called
  negative at most L, with the least constants that the box allows;
- diversity: each member's mean credit by one row a classifier, exact since x_k is 0 or 1; the
  ensemble's mean by a credit w_k <= x_k g_k(x) each (Glover 1975).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.pruning.diversity import TOLERANCE
from algorithms.pruning.strong.closure import as_columns
from algorithms.pruning.strong.instance import Instance
from algorithms.pruning.strong.rows import Rows, safe_bound
from framework.arrays import Array, BoolArray, FloatArray, IntArray

_VIOLATED = 1e-3  # by how much a row is broken at least to be taken in
_MOST_CUTS = 3000  # taken in at a time
_BY_ROWS, _MAXIMISE = 2, -1  # as HiGHS numbers them

Codes = IntArray
"""Cuts: ``i * D + j`` is a conflict, ``-1 - p`` the count row of pattern p (up first)."""


@dataclass(frozen=True)
class Box:
    """Members, sizes and thresholds that are still open.

    Attributes
    ----------
    x : numpy.ndarray of int8, shape (K,)
        1 and 0 for members decided, -1 for open ones.
    sizes, thresholds : (int, int)
        Least and greatest, inclusive.
    """

    x: Array
    sizes: tuple[int, int]
    thresholds: tuple[int, int]

    def tightened(self, majority: bool) -> Box | None:
        """Return the box without what cannot be; None if it is empty."""
        (sa, sb), (la, lb) = self.sizes, self.thresholds
        sa = max(sa, int((self.x == 1).sum()), la + 1)
        sb = min(sb, int((self.x != 0).sum()))
        if majority:
            sa, sb = max(sa, 2 * la), min(sb, 2 * lb + 1)
            la, lb = max(la, sa // 2), min(lb, sb // 2)
        lb = min(lb, sb - 1)
        return Box(self.x, (sa, sb), (la, lb)) if sa <= sb and la <= lb else None


class Limits(NamedTuple):
    """What a box allows each pattern: shape (U + D,).

    ``never`` and ``always`` called positive; ``slack`` is the constant of its count row.
    """

    never: BoolArray
    always: BoolArray
    slack: FloatArray


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
    kept: Codes
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

    def limits(self, box: Box) -> Limits:
        """Return what a box implies for each pattern's votes."""
        (sa, sb), (la, lb) = box.sizes, box.thresholds
        open_or_in, inside = (box.x != 0).astype(np.int64), (box.x == 1).astype(np.int64)
        most, sure = self.ints @ open_or_in, self.ints @ inside
        outside = int(open_or_in.sum()) - most
        sure_outside = int(inside.sum()) - sure
        most = np.minimum(most, sb - sure_outside)
        least = np.maximum(sure, sa - outside)
        never, always = most <= la, (least > lb) | (outside == 0)
        slack = np.where(np.arange(self.p) < self.u, np.minimum(lb + 1 - least, outside), most - la)
        return Limits(never, always & ~never, np.maximum(slack, 0).astype(np.float64))

    def solve(
        self, box: Box, limits: Limits, cuts: Codes, basis: Array | None, status: Array | None
    ) -> Relaxed:
        """Solve the relaxation with some cuts.

        Parameters
        ----------
        basis, status : numpy.ndarray of int8, optional
            Of columns and fixed rows, and of the first so many cuts: where to start.
        """
        import highspy

        rows = Rows(self.columns)
        self._fixed_rows(rows, box)
        fixed = rows.count
        self._cut_rows(rows, cuts, limits)
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
            nothing = np.zeros(0)
            empty = np.zeros(0, dtype=np.int8)
            codes = np.zeros(0, dtype=np.int64)
            return Relaxed(-np.inf, nothing, nothing, 0.0, empty, codes, empty, iterations)
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

    @property
    def columns(self) -> int:
        """Number of columns."""
        credits = self.k if self._mean_wanted else 0
        return self.k + self.p + 1 + credits

    @property
    def _mean_wanted(self) -> bool:
        demand = self.instance.demand
        return demand is not None and demand.gamma > 0

    def broken(self, relaxed: Relaxed, limits: Limits, held: Codes) -> Codes:
        """Return the cuts that a solution breaks, the worst of each pattern, worst first."""
        x, z = relaxed.x, relaxed.z
        votes = self.patterns @ x
        up = np.arange(self.p) < self.u
        by = np.where(
            up,
            relaxed.threshold + 1 - votes - limits.slack * (1 - z),
            votes - relaxed.threshold - limits.slack * z,
        )
        by[limits.never | limits.always] = 0.0
        wrong = np.flatnonzero(by > _VIOLATED)
        codes, amounts = [-1 - wrong], [by[wrong]]
        if self.u and self.d:
            pairs, worst = self._broken_conflicts(x, z, votes)
            codes.append(pairs)
            amounts.append(worst)
        code, amount = np.concatenate(codes), np.concatenate(amounts)
        new = ~np.isin(code, held)
        code, amount = code[new], amount[new]
        return np.asarray(code[np.argsort(-amount, kind="stable")[:_MOST_CUTS]], dtype=np.int64)

    def _broken_conflicts(
        self, x: FloatArray, z: FloatArray, votes: FloatArray
    ) -> tuple[Codes, FloatArray]:
        """Return, for each pattern, the conflict that is broken most."""
        rows = np.flatnonzero(z[: self.u] > _VIOLATED)
        columns = np.flatnonzero(z[self.u :] < 1 - _VIOLATED)
        if not len(rows) or not len(columns):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
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
        codes = as_columns(np.column_stack([rows[pairs[:, 0]], columns[pairs[:, 1]]]), self.d)
        codes, first = np.unique(codes, return_index=True)
        return codes, amount[first].astype(np.float64)

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

    def _cut_rows(self, rows: Rows, cuts: Codes, limits: Limits) -> None:
        """Add the cuts, in their order."""
        if not len(cuts):
            return
        n = len(cuts)
        pair = cuts >= 0
        table = np.zeros((n, self.k))
        i, j = np.divmod(cuts[pair], max(self.d, 1))
        table[pair] = -(self.patterns[i] & ~self.patterns[self.u + j]).astype(np.float64)
        p = -1 - cuts[~pair]
        sign = np.where(p < self.u, -1.0, 1.0)
        table[~pair] = sign[:, None] * self.patterns[p]
        # z and L columns: (row, column, value)
        numbers = np.arange(n)
        extra = [
            (numbers[pair], self.k + i, np.ones(len(i))),
            (numbers[pair], self.k + self.u + j, -np.ones(len(j))),
            (numbers[~pair], self.k + p, -sign * limits.slack[p]),
            (numbers[~pair], np.full(len(p), self.k + self.p), -sign),
        ]
        upper = np.zeros(n)
        upper[~pair] = np.where(p < self.u, limits.slack[p] - 1.0, 0.0)
        rows.add_block(table, extra, upper)


_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "presolve": "off",
    "random_seed": 0,
    "solver": "simplex",
}
