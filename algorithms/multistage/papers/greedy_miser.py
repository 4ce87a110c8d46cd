"""GreedyMiser: boosted trees of limited depth that pay for each feature they begin to use.

A tree of depth p is a full binary heap: node ``m`` has children ``2 m + 1`` (at most the threshold)
and ``2 m + 2``; a node that was not split has ``column`` -1 and keeps its value. Trees are grown
level by level on histograms. Every node that can be split is, by its best split. A feature that a
tree buys is free from the next tree on. Cuts lie midway between records of the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.multistage.papers.budgeted import BudgetedClassifier
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.jit import njit

MOST_BINS = 1024
LEAST_GAIN = 1e-10
"""A split must be better than the ones before it by this much. So ties go to the first column and
the lowest cut, and do not depend on rounding."""
_LEAST_SHARE = 1e-12  # least share of a class, so that shares can be scaled to a sum of 1


class Forest(NamedTuple):
    """Boosted trees, ``rounds`` times ``R`` of them with ``M`` nodes each.

    column : int64 (rounds, R, M), the encoded column on which a node splits; -1 at a leaf.
    threshold : float64 (rounds, R, M), the greatest value that goes to the first child.
    value : float64 (rounds, R, M), what a node adds to the score, multiplied by the step size.
    """

    column: IntArray
    threshold: FloatArray
    value: FloatArray


class RegressionTree(NamedTuple):
    """One of the trees of a :class:`Forest`: its three arrays (M,)."""

    column: IntArray
    threshold: FloatArray
    value: FloatArray


class Binned(NamedTuple):
    """Encoded records, and the bins of their values.

    Z : float64 (n, D).
    bins : uint16 (n, D), see :func:`bin_records`.
    n_bins : int, one more than the greatest possible bin.
    """

    Z: FloatArray
    bins: Array
    n_bins: int


class Prices(NamedTuple):
    """What splits cost.

    feature_of : int64 (D,), the feature to which each encoded column belongs.
    of_feature : float64 (d,), the price of a split on each feature; 0 once it was bought.
    """

    feature_of: IntArray
    of_feature: FloatArray


def cut_points(Z: FloatArray) -> FloatArray:
    """Return the cut points of each column of records (n, D): (D, at most 1023), padded with inf.

    They are midpoints between neighbouring values; of more than 1023 midpoints, those nearest to
    the quantiles.
    """
    columns = []
    for column in Z.T:
        values = np.unique(column)
        middles = (values[:-1] + values[1:]) / 2
        if len(middles) >= MOST_BINS:
            ranks = np.linspace(0, len(column) - 1, MOST_BINS + 1)[1:-1].astype(np.int64)
            wanted = np.searchsorted(values, np.sort(column)[ranks])
            middles = middles[np.unique(np.minimum(wanted, len(middles) - 1))]
        columns.append(middles)
    cuts = np.full((len(columns), max(1, *map(len, columns))), np.inf)
    for row, middles in zip(cuts, columns, strict=True):
        row[: len(middles)] = middles
    return cuts


def bin_records(Z: FloatArray) -> Binned:
    """Return encoded records (n, D) with the bin of each value: the number of cuts below it."""
    cuts = cut_points(Z)
    bins = [np.searchsorted(row, column) for row, column in zip(cuts, Z.T, strict=True)]
    table = np.ascontiguousarray(np.column_stack(bins), dtype=np.uint16)
    return Binned(np.ascontiguousarray(Z), table, cuts.shape[1] + 1)


@njit
def _best_split(
    bins: Array, residual: Array, records: Array, price: Array, sums: Array, counts: Array
) -> tuple[int, int]:
    """Return column and bin of the best split of a node; column -1 if there is none.

    ``sums`` and ``counts`` (bins,) are scratch.
    """
    total = 0.0
    for i in records:
        total += residual[i]
    unsplit = total * total / len(records)
    best_column, best_bin, best_worth = -1, -1, -np.inf
    for column in range(bins.shape[1]):
        sums[:] = 0.0
        counts[:] = 0
        for i in records:
            sums[bins[i, column]] += residual[i]
            counts[bins[i, column]] += 1
        left, below = 0.0, 0
        for b in range(len(sums) - 1):
            left += sums[b]
            below += counts[b]
            above = len(records) - below
            if counts[b] == 0 or above == 0:
                continue
            right = total - left
            worth = left * left / below + right * right / above - unsplit - price[column]
            if worth > best_worth + LEAST_GAIN:
                best_column, best_bin, best_worth = column, b, worth
    return best_column, best_bin


@njit
def _middle(values: Array, records: Array, bins: Array, last: int) -> float:
    """Return the middle between the records of a node up to bin ``last`` and those above."""
    low, high = -np.inf, np.inf
    for i in records:
        if bins[i] <= last:
            low = max(low, values[i])
        else:
            high = min(high, values[i])
    return low + (high - low) / 2.0


@njit
def _grow(
    records: Binned, residual: Array, prices: Prices, tree: RegressionTree, node: Array
) -> None:
    """Grow a tree, level by level and from left to right; its features are free afterwards.

    ``node`` (n,) is filled with the leaf of each record.
    """
    bins = records.bins
    sums, counts = np.zeros(records.n_bins), np.zeros(records.n_bins, dtype=np.int64)
    price = prices.of_feature[prices.feature_of]  # a copy, so that the whole tree pays
    node[:] = 0
    for m in range(len(tree.column)):
        here = np.flatnonzero(node == m)
        if len(here) == 0:
            continue
        tree.value[m] = residual[here].mean()
        if 2 * m + 2 >= len(tree.column):
            continue
        split, last = _best_split(bins, residual, here, price, sums, counts)
        if split < 0:
            continue
        tree.column[m] = split
        prices.of_feature[prices.feature_of[split]] = 0.0
        tree.threshold[m] = _middle(records.Z[:, split], here, bins[:, split], last)
        for i in here:
            node[i] = 2 * m + 1 if bins[i, split] <= last else 2 * m + 2


@njit
def boost(records: Binned, target: Array, prices: Prices, step: float, forest: Forest) -> None:
    """Fit trees to the negative gradient of half the squared error, round by round.

    Parameters
    ----------
    records : Binned
    target : float64 (n, R)
    prices : Prices
        Changed: features that were bought cost 0 afterwards.
    step : float
        Share of each tree that is added.
    forest : Forest
        Filled; ``column`` must be -1 and the others 0 before.

    Notes
    -----
    O(rounds R depth n D + rounds R 2^depth D C), C the number of bins.
    """
    n, classes = target.shape
    scores = np.zeros((n, classes))
    residual = np.empty(n)
    node = np.zeros(n, dtype=np.int64)
    for t in range(len(forest.column)):
        for r in range(classes):
            for i in range(n):
                residual[i] = target[i, r] - scores[i, r]
            tree = RegressionTree(forest.column[t, r], forest.threshold[t, r], forest.value[t, r])
            _grow(records, residual, prices, tree, node)
            for m in range(len(tree.value)):
                tree.value[m] *= step
            for i in range(n):
                scores[i, r] += tree.value[node[i]]


@njit
def score_forest(forest: Forest, Z: Array, feature_of: Array, scores: Array, needed: Array) -> None:
    """Add to the scores (n, R) of records, and mark the features of their paths in ``needed``."""
    column, threshold, value = forest.column, forest.threshold, forest.value
    for i in range(len(Z)):
        for t in range(column.shape[0]):
            for r in range(column.shape[1]):
                m = 0
                while column[t, r, m] >= 0:
                    c = column[t, r, m]
                    needed[i, feature_of[c]] = True
                    m = 2 * m + 1 if Z[i, c] <= threshold[t, r, m] else 2 * m + 2
                scores[i, r] += value[t, r, m]


@dataclass(eq=False, repr=False)
class GreedyMiser(BudgetedClassifier):
    """Stage-wise regression with cost-penalised trees, and a reject option (EMSCO's GM*).

    Each round fits a regression tree to the negative gradient of the loss. The worth of a split is
    the squared error that it saves, less the cost of its feature if no tree before has used that
    feature. In each node, the split of greatest worth is made, even if that is negative.

    Parameters
    ----------
    tradeoff : float
        The paper's lambda, from 0: what acquiring every feature costs, in units of squared error
        per training record.
    depth : int
        Splits on a path of a tree (released code counts levels of nodes, one more).
    rounds : int
    learning_rate : float
    costs, threshold, reject_label
        See :class:`~algorithms.multistage.papers.budgeted.BudgetedClassifier`.

    Attributes
    ----------
    forest_ : Forest

    Notes
    -----
    Where the papers leave room, this follows code that says it is the authors' method or a port of
    it (ADAPT_GBRT in AdaptApprox, GreedyMiser.jl):

    - Trees are full: there is no stopping test, and a node stays unsplit only if all its records
      are alike. So some feature is acquired at any price.
    - A feature that a tree buys is free from the next tree on.
    - Cuts lie midway between neighbouring records of the node.
    - The loss is the squared error of targets -1 and 1, with one tree a round for two classes, else
      one for each class. Scores start at 0; the probability is (1 + score) / 2, cut at 0 and 1.
    - The cost of evaluating a tree is zero, as in EMSCO's Section 4.3.
    - Nodes are split level by level, from left to right. Encoded columns of one category are bought
      together.
    - Training pays for a feature once, for all records, as the original does. ``acquisition_cost``
      counts what each record really needs: the features on its own paths.
    - LightGBM's ``cegb_penalty_feature_coupled`` is different: once a feature is bought, its price
      is added to the gain of splits on it that wait at other leaves, although it was never
      subtracted there.

    References
    ----------
    Xu, Weinberger and Chapelle, "The Greedy Miser: Learning under Test-time Budgets", ICML 2012.
    """

    tradeoff: float = 0.01
    depth: int = 3
    rounds: int = 100
    learning_rate: float = 0.1

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if self.tradeoff < 0 or self.depth < 1 or self.rounds < 1 or self.learning_rate <= 0:
            raise InputError(
                "GreedyMiser: expected tradeoff from 0, depth and rounds from 1 and a learning "
                f"rate above 0, found {self.get_params()}"
            )
        target = np.ascontiguousarray(2.0 * self._targets(codes) - 1.0)
        shape = (self.rounds, target.shape[1], 2 ** (self.depth + 1) - 1)
        self.forest_ = Forest(np.full(shape, -1, dtype=np.int64), np.zeros(shape), np.zeros(shape))
        paid = Prices(self._feature_of(), self._shares(self.tradeoff * len(Z)))
        boost(bin_records(Z), target, paid, self.learning_rate, self.forest_)

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        scores, _ = self._run(Z)
        if len(self.classes_) == 2:
            second = np.clip((1 + scores[:, 0]) / 2, 0, 1)
            return np.column_stack([1 - second, second])
        shares = np.clip((1 + scores) / 2, _LEAST_SHARE, 1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _needs(self, Z: FloatArray) -> BoolArray:
        return self._run(Z)[1]

    def _run(self, Z: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the scores (n, R) of encoded records, and the features they need (n, d)."""
        scores = np.zeros((len(Z), self.forest_.column.shape[1]))
        needed = np.zeros((len(Z), len(self.costs_)), dtype=bool)
        score_forest(self.forest_, np.ascontiguousarray(Z), self._feature_of(), scores, needed)
        return scores, needed
