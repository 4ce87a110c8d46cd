"""Upper bounds: the closure by a minimum cut, and the linear relaxation of a box with cuts.

The *closure* needs no linear program. If the classifiers that vote for pattern i also vote for
pattern j, then i is never called positive without j. The greatest gain under these implications
alone bounds every ensemble (Picard 1976: a maximum closure is a minimum cut).

The *relaxation* has as columns the members x (K), patterns z (U + D), the threshold L, and with a
demand of mean diversity one credit w per classifier (K). Its rows hold for each whole solution of
the box:

- the number of members S and L are in the box, and L <= S - 1 (L = S, which calls nothing positive,
  is valued separately); with majority votes 2 L <= S <= 2 L + 1; budgets; the caps;
- conflicts and counts (:mod:`algorithms.pruning.branch_and_bound.cuts`), added as they are needed;
- diversity: one row per classifier for a member's mean credit, exact since x_k is 0 or 1; for the
  ensemble's mean, credits w_k <= x_k g_k(x) with g_k the sum of k's credits (Glover 1975).

To add another kind of row, write a method like ``_diversity_rows`` and call it in ``_fixed_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from algorithms.pruning.branch_and_bound.cuts import (
    Box,
    Cuts,
    Limits,
    broken_counts,
    conflicts,
    constants,
    is_conflict,
    no_cuts,
    of_counts,
    without,
)
from algorithms.pruning.branch_and_bound.instance import Instance, scaled
from algorithms.pruning.diversity import TOLERANCE
from framework.arrays import Array, FloatArray, IntArray
from framework.extras import needed

_VIOLATED = 1e-3  # least violation of a cut that is added
_MOST_CUTS = 3000  # greatest number of cuts that are added at a time
_BLOCK = 2**25  # entries of a table of patterns by patterns that are computed at a time
_MOST_PAIRS = 2**22  # greatest number of implications: a maximum flow takes memory for each
_SCALE = 2.0**29  # capacities of the flow are 32-bit whole numbers
_BY_ROWS, _MAXIMISE = 2, -1  # as HiGHS numbers them
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "presolve": "off",
    "random_seed": 0,
    "solver": "simplex",
}


class Relaxed(NamedTuple):
    """The solution of a relaxation.

    ``bound`` is valid whatever the tolerances of the solver, as it is computed from the
    multipliers; it is minus infinity if the box is empty. ``basis`` has the statuses of the columns
    and then of the fixed rows, ``binding_status`` those of the cuts that bind.
    """

    bound: float
    x: FloatArray
    z: FloatArray
    threshold: float
    basis: Array
    binding: Cuts
    binding_status: Array
    iterations: int


class Relaxation:
    """Builds and solves the relaxations of an instance; solving one does not change it."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.must = instance, instance.requirements
        self.k, self.u, self.d = instance.k, len(instance.up), len(instance.down)
        self.p = self.u + self.d
        self.up32 = instance.up_patterns.astype(np.float32)
        self.down32 = instance.down_patterns.astype(np.float32)
        self.patterns = np.concatenate([instance.up_patterns, instance.down_patterns])
        self.ints = self.patterns.astype(np.int64)

    def solve(self, box: Box, cuts: Cuts, basis: Array | None, status: Array | None) -> Relaxed:
        """Solve the relaxation of a box with some cuts.

        Parameters
        ----------
        basis, status : numpy.ndarray of int8, optional
            The basis to start from: the statuses of columns and fixed rows, and those of the first
            cuts. Cuts beyond these are new.
        """
        highspy = needed("highspy")

        limits = box.limits(self.ints)
        if (limits.never & limits.always).any():
            return self._empty(0)
        rows = Rows(self.columns)
        self._fixed_rows(rows, box)
        fixed = rows.count
        self._cut_rows(rows, cuts, box)
        cost, lower, upper = self._columns_of(box, limits)
        table, row_lower, row_upper = rows.table()
        solver = highspy.Highs()
        for name, setting in _OPTIONS.items():
            solver.setOptionValue(name, setting)
        continuous = np.zeros(self.columns, dtype=np.int32)
        sizes = (self.columns, rows.count, table.nnz, _BY_ROWS, _MAXIMISE)
        entries = table.indptr[:-1], table.indices, table.data
        bounds = cost, lower, upper, row_lower, row_upper
        solver.passModel(*sizes, 0.0, *bounds, *entries, continuous)
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
        solution, final = solver.getSolution(), solver.getBasis()
        point = np.array(solution.col_value)
        dual = np.array(solution.row_dual)
        bound = safe_bound(dual, table, *bounds)
        column_status = np.array([int(s) for s in final.col_status], dtype=np.int8)
        row_status = np.array([int(s) for s in final.row_status], dtype=np.int8)
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
        demand = self.must.demand
        return demand is not None and demand.gamma > 0

    def broken(self, relaxed: Relaxed, box: Box) -> Cuts:
        """Return the cuts that a solution breaks most for each pattern, worst first."""
        x, z = relaxed.x, relaxed.z
        open_calls = np.flatnonzero(~box.limits(self.ints).implied)
        negative = np.where(box.calls < 0, np.arange(self.p) >= self.u, box.calls == 0)[open_calls]
        rows = (open_calls, self.patterns[open_calls], negative)
        new, by = broken_counts(box, rows, x, z[open_calls], relaxed.threshold)
        cut_blocks, amounts = [new[by > _VIOLATED]], [by[by > _VIOLATED]]
        if self.u and self.d:
            pairs, worst = self._broken_conflicts(x, z, self.patterns @ x)
            cut_blocks.append(pairs)
            amounts.append(worst)
        cuts, amount = np.concatenate(cut_blocks), np.concatenate(amounts)
        fresh = without(cuts, relaxed.binding)
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
        members = x.astype(np.float32)
        excess = (z[rows] - votes[rows]).astype(np.float32)
        lost = z[self.u + columns].astype(np.float32)
        down = self.down32[columns].T
        best_column, by_row = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), np.float32)
        best_row = np.zeros(len(columns), dtype=np.int64)
        by_column = np.full(len(columns), -np.inf, dtype=np.float32)
        for block in _blocks(len(rows), len(columns)):
            amounts = (self.up32[rows[block]] * members) @ down
            amounts += excess[block, None]
            amounts -= lost
            best_column[block], by_row[block] = amounts.argmax(axis=1), amounts.max(axis=1)
            first, most = amounts.argmax(axis=0), amounts.max(axis=0)
            more = most > by_column
            best_row[more], by_column[more] = block.start + first[more], most[more]
        pairs = np.concatenate(
            [
                np.column_stack([np.arange(len(rows)), best_column]),
                np.column_stack([best_row, np.arange(len(columns))]),
            ]
        )
        amount = np.concatenate([by_row, by_column])
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
        if self.must.majority:
            rows.add(with_l, np.append(ones, -2.0), 0.0, 1.0)
        rows.add(with_l, np.append(ones, -1.0), 1.0, np.inf)
        for budget in self.must.budgets:
            costs, limit = scaled(*budget)
            rows.add(members, costs, -np.inf, limit)
        for takes, cap in zip(self.instance.takes, self.instance.caps.tolist(), strict=True):
            takes, cap = scaled(takes, cap)
            rows.add(np.arange(k, k + self.p), takes, -np.inf, cap)
        if self.must.demand is not None:
            self._diversity_rows(rows, box)

    def _diversity_rows(self, rows: Rows, box: Box) -> None:
        demand, credit = self.must.demand, self.must.credit
        assert demand is not None
        assert credit is not None
        members, at = np.arange(self.k), self.k + self.p + 1
        if demand.tau > 0:
            above = credit - demand.tau
            np.fill_diagonal(above, 0.0)
            for i in range(self.k):
                worst = np.minimum(above[i], 0.0).sum()
                row = above[i].copy()
                row[i] = worst  # the row is void if i is not a member
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
        """Return the least and greatest excess of credit over gamma, summed over other members."""
        demand, credit = self.must.demand, self.must.credit
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
        """Add a row for each cut, in their order (see :mod:`.cuts`)."""
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


class Rows:
    """The rows of a linear program, collected in order."""

    def __init__(self, columns: int) -> None:
        self.columns, self.count = columns, 0
        self._row: list[Array] = []
        self._column: list[Array] = []
        self._value: list[Array] = []
        self._lower: list[Array] = []
        self._upper: list[Array] = []

    def add(self, columns: Array, values: Array, lower: float, upper: float) -> None:
        """Add a row."""
        self._take(np.full(len(columns), self.count), columns, values)
        self._lower.append(np.array([lower], dtype=np.float64))
        self._upper.append(np.array([upper], dtype=np.float64))
        self.count += 1

    def add_block(
        self, table: FloatArray, extra: list[tuple[Array, Array, Array]], upper: FloatArray
    ) -> None:
        """Add rows with upper bounds: a table over the first columns, and some more entries.

        ``extra`` has the rows, columns and values of these.
        """
        row, column = np.nonzero(table)
        self._take(self.count + row, column, table[row, column])
        for r, c, v in extra:
            self._take(self.count + r, c, v)
        self._lower.append(np.full(len(upper), -np.inf))
        self._upper.append(upper)
        self.count += len(upper)

    def table(self) -> tuple[Any, FloatArray, FloatArray]:
        """Return the rows as a sparse array (rows, columns), and their lower and upper bounds."""
        from scipy.sparse import csr_array

        places = np.concatenate(self._row), np.concatenate(self._column)
        entries = np.concatenate(self._value), places
        rows = csr_array(entries, shape=(self.count, self.columns))
        return rows, np.concatenate(self._lower), np.concatenate(self._upper)

    def _take(self, row: Array, column: Array, value: Array) -> None:
        keep = np.asarray(value) != 0
        self._row.append(np.asarray(row)[keep])
        self._column.append(np.asarray(column)[keep])
        self._value.append(np.asarray(value, dtype=np.float64)[keep])


def safe_bound(
    dual: FloatArray,
    table: Any,
    cost: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
) -> float:
    """Return an upper bound of a linear program from any multipliers of its rows (weak duality).

    The objective is the reduced costs times the columns plus the multipliers times the rows, and
    each of the two sums is bounded by its bounds. Multipliers with the wrong sign for a one-sided
    row count as 0. So the bound is valid whatever the tolerances of the solver.
    """
    y = np.where(np.isinf(row_upper), np.minimum(dual, 0.0), dual)
    y = np.where(np.isinf(row_lower), np.maximum(y, 0.0), y)
    reduced = cost - table.T @ y
    with np.errstate(invalid="ignore"):
        sides = np.where(y > 0, y * row_upper, np.where(y < 0, y * row_lower, 0.0))
    columns = np.maximum(reduced * lower, reduced * upper)
    return float(sides.sum() + columns.sum())


class Closure(NamedTuple):
    """A bound of the weighted sum, and the binding implications as pairs (up, down), (m, 2)."""

    bound: float
    binding: IntArray


def closure_bound(instance: Instance) -> Closure:
    """Return the bound that implications between patterns give (see the module).

    Weights that are not small whole numbers are rounded so that the bound stays valid.

    Notes
    -----
    O(U D K) to find the implications, then a maximum flow between U + D + 2 nodes.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    up, down = instance.up, instance.down
    total = float(up.sum() + down.sum())
    if not len(up) or not len(down) or total == 0:
        return Closure(instance.constant + float(up.sum()), np.zeros((0, 2), dtype=np.int64))
    scale = 1.0 if instance.step and total < _SCALE else _SCALE / 2 / total
    gain = np.ceil(up * scale).astype(np.int32)  # rounded in the bound's favour
    loss = np.floor(down * scale).astype(np.int32)
    pairs = implications(instance)
    n_up, n = len(up), len(up) + len(down)
    source, sink, many = n, n + 1, np.int32(2**30)
    rows = np.concatenate([np.full(n_up, source), pairs[:, 0], n_up + np.arange(len(down))])
    columns = np.concatenate([np.arange(n_up), n_up + pairs[:, 1], np.full(len(down), sink)])
    capacity = np.concatenate([gain, np.full(len(pairs), many), loss]).astype(np.int32)
    graph = csr_array((capacity, (rows, columns)), shape=(n + 2, n + 2))
    result = maximum_flow(graph, source, sink)
    flow = result.flow.tocoo()
    used = (flow.data > 0) & (flow.row < n_up) & (flow.col < n) & (flow.col >= n_up)
    binding = np.column_stack([flow.row[used], flow.col[used] - n_up]).astype(np.int64)
    bound = (int(gain.sum(dtype=np.int64)) - int(result.flow_value)) / scale
    return Closure(instance.constant + bound, binding[np.lexsort(binding.T[::-1])])


def implications(instance: Instance) -> IntArray:
    """Return the pairs (i, j) such that with pattern i of ``up`` also j of ``down`` is positive.

    If there are more than ``_MOST_PAIRS``, only the first ones: any of them give a bound.
    """
    up = instance.up_patterns.astype(np.float32)
    outside = (~instance.down_patterns).T.astype(np.float32)
    blocks, count = [np.zeros((0, 2), dtype=np.int64)], 0
    for block in _blocks(len(up), len(instance.down)):
        pairs = np.argwhere(up[block] @ outside == 0)[: _MOST_PAIRS - count]
        blocks.append(pairs + np.array([block.start, 0]))
        count += len(pairs)
        if count == _MOST_PAIRS:
            break
    return np.concatenate(blocks).astype(np.int64, copy=False)


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Yield slices of rows whose tables over the columns fit into memory."""
    step = max(1, _BLOCK // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
