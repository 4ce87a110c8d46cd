"""GreedyMiser: boosted trees of limited depth that pay for each feature they begin to use.

A tree of depth p is a full binary heap: node ``m`` has children ``2 m + 1`` (at most the threshold)
and ``2 m + 2``; a node that was not split has ``column`` -1 and keeps its value. Trees are grown
level by level on histograms.

There are two ways to grow: with a stopping test (a split must be worth its price, what it buys is
free at once, cuts are those of all records) and without (the best split is made wherever there is
one, what a tree buys is free from the next tree on, cuts lie midway between records of the node).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from algorithms.multistage.papers.budgeted import BudgetedClassifier
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.jit import njit

MOST_BINS = 1024
LEAST_GAIN = 1e-10
"""By how much a split must be better than none, or than one before it, so that a tie does not hang
on rounding: it goes to the first column and the lowest cut."""
_LEAST_SHARE = 1e-12  # of a class, so that shares can be made to sum to 1


class Forest(NamedTuple):
    """Boosted trees, ``rounds`` times ``R`` of them with ``M`` nodes each.

    column : int64 (rounds, R, M), the encoded column a node splits on; -1 at a leaf.
    threshold : float64 (rounds, R, M), where it splits.
    value : float64 (rounds, R, M), a node's share of the score, step size included.
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
    cuts : float64 (D, C), see :func:`cut_points`.
    """

    Z: FloatArray
    bins: Array
    cuts: FloatArray


class Prices(NamedTuple):
    """What splits cost.

    feature_of : int64 (D,), the feature that an encoded column belongs to.
    of_feature : float64 (d,), what the splits on a feature cost until it was bought; 0 then.
    """

    feature_of: IntArray
    of_feature: FloatArray


class Rules(NamedTuple):
    """How trees are boosted.

    step : share of each tree that is added.
    stopping : whether a split must be worth its price (see above).
    squares : whether the loss is the squared error instead of the log loss.
    """

    step: float
    stopping: bool
    squares: bool


def cut_points(Z: FloatArray) -> FloatArray:
    """Return where each column of records (n, D) may be split, (D, at most 1023), padded with inf.

    The midpoints between neighbouring values; of more than 1023 those nearest to the quantiles.
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


def bin_records(Z: FloatArray, cuts: FloatArray) -> Array:
    """Return the bin (n, D), uint16, of each value: how many cut points lie below it."""
    bins = [np.searchsorted(row, column) for row, column in zip(cuts, Z.T, strict=True)]
    return np.ascontiguousarray(np.column_stack(bins), dtype=np.uint16)


@njit
def _best_split(
    bins: Array,
    residual: Array,
    records: Array,
    n_bins: int,
    price: Array,
    stopping: bool,
    sums: Array,
    counts: Array,
) -> tuple[int, int]:
    """Return column and bin of a node's best split; column -1 if there is none.

    With ``stopping`` it must be worth its price.
    """
    total = 0.0
    for i in records:
        total += residual[i]
    unsplit = total * total / len(records)
    best_column, best_bin, best_worth = -1, -1, 0.0 if stopping else -np.inf
    for column in range(bins.shape[1]):
        sums[:] = 0.0
        counts[:] = 0
        for i in records:
            sums[bins[i, column]] += residual[i]
            counts[bins[i, column]] += 1
        left, below = 0.0, 0
        for b in range(n_bins - 1):
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
def _middle(values: Array, records: Array, bins: Array, at: int) -> float:
    """Return the middle between a node's records up to bin ``at`` and those above."""
    low, high = -np.inf, np.inf
    for i in records:
        if bins[i] <= at:
            low = max(low, values[i])
        else:
            high = min(high, values[i])
    return low + (high - low) / 2.0


@njit
def _grow(
    records: Binned,
    residual: Array,
    prices: Prices,
    stopping: bool,
    tree: RegressionTree,
    node: Array,
) -> None:
    """Grow a tree, level by level and from left to right; what it bought is free afterwards.

    ``node`` (n,) is filled with the leaf of each record.
    """
    bins, cuts = records.bins, records.cuts
    n_bins = cuts.shape[1] + 1
    sums, counts = np.zeros(n_bins), np.zeros(n_bins, dtype=np.int64)
    price = prices.of_feature[prices.feature_of]
    node[:] = 0
    for m in range(len(tree.column)):
        here = np.flatnonzero(node == m)
        if len(here) == 0:
            continue
        tree.value[m] = residual[here].mean()
        if 2 * m + 2 >= len(tree.column):
            continue
        split, at = _best_split(bins, residual, here, n_bins, price, stopping, sums, counts)
        if split < 0:
            continue
        tree.column[m] = split
        prices.of_feature[prices.feature_of[split]] = 0.0
        if stopping:
            tree.threshold[m] = cuts[split, at]
            price = prices.of_feature[prices.feature_of]
        else:
            tree.threshold[m] = _middle(records.Z[:, split], here, bins[:, split], at)
        for i in here:
            node[i] = 2 * m + 1 if bins[i, split] <= at else 2 * m + 2


@njit
def _residuals(scores: Array, target: Array, squares: bool, residual: Array) -> None:
    """Write the negative gradient of the loss: of half the squared error, or of the log loss.

    Of the log loss it is target minus probability; one column is a sigmoid, more are a softmax.
    """
    for i in range(len(scores)):
        if squares:
            for r in range(scores.shape[1]):
                residual[r, i] = target[i, r] - scores[i, r]
            continue
        if scores.shape[1] == 1:
            residual[0, i] = target[i, 0] - 1.0 / (1.0 + math.exp(-scores[i, 0]))
            continue
        top, total = scores[i].max(), 0.0
        for r in range(scores.shape[1]):
            total += math.exp(scores[i, r] - top)
        for r in range(scores.shape[1]):
            residual[r, i] = target[i, r] - math.exp(scores[i, r] - top) / total


@njit
def boost(
    records: Binned,
    target: Array,
    start: Array,
    prices: Prices,
    rules: Rules,
    forest: Forest,
) -> None:
    """Fit trees to the negative gradient of a loss, round by round.

    Parameters
    ----------
    records : Binned
    target : float64 (n, R)
    start : float64 (R,)
        Scores before the first round.
    prices : Prices
        What was bought costs 0 afterwards.
    rules : Rules
    forest : Forest
        Filled in; ``column`` must be -1 and the others 0 before.

    Notes
    -----
    O(rounds R depth n D + rounds R 2^depth D C).
    """
    n, classes = target.shape
    scores = np.zeros((n, classes)) + start
    residual = np.empty((classes, n))
    node = np.zeros(n, dtype=np.int64)
    for t in range(len(forest.column)):
        _residuals(scores, target, rules.squares, residual)
        for r in range(classes):
            tree = RegressionTree(forest.column[t, r], forest.threshold[t, r], forest.value[t, r])
            _grow(records, residual[r], prices, rules.stopping, tree, node)
            for m in range(len(tree.value)):
                tree.value[m] *= rules.step
            for i in range(n):
                scores[i, r] += tree.value[node[i]]


@njit
def score_forest(forest: Forest, Z: Array, feature_of: Array, scores: Array, needed: Array) -> None:
    """Add each record's scores (n, R), and mark the features on its paths in ``needed`` (n, d)."""
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


def fit_forest(
    Z: FloatArray,
    target: FloatArray,
    start: FloatArray,
    prices: Prices,
    rules: Rules,
    *,
    rounds: int,
    depth: int,
) -> Forest:
    """Boost trees on encoded records (n, D), ``prices`` untouched; see :func:`boost`."""
    cuts = cut_points(Z)
    shape = (rounds, target.shape[1], 2 ** (depth + 1) - 1)
    forest = Forest(np.full(shape, -1, dtype=np.int64), np.zeros(shape), np.zeros(shape))
    records = Binned(np.ascontiguousarray(Z), bin_records(Z, cuts), cuts)
    prices = Prices(prices.feature_of, prices.of_feature.copy())
    boost(records, np.ascontiguousarray(target), start, prices, rules, forest)
    return forest


def run_forest(
    forest: Forest, Z: FloatArray, start: FloatArray, feature_of: IntArray, n_features: int
) -> tuple[FloatArray, BoolArray]:
    """Return the scores (n, R) of encoded records (n, D), and the features they need (n, d)."""
    scores = np.zeros((len(Z), len(start))) + start
    needed = np.zeros((len(Z), n_features), dtype=bool)
    score_forest(forest, np.ascontiguousarray(Z), feature_of, scores, needed)
    return scores, needed


@dataclass(eq=False, repr=False)
class GreedyMiser(BudgetedClassifier):
    """Stage-wise regression with cost-penalised trees, and a reject option (EMSCO's GM*).

    Each round fits a regression tree to the negative gradient of the loss. A split is worth the
    squared error it saves, less the cost of its feature if no tree before has used that feature;
    of all splits of a node the one that is worth most is made, whatever it is worth.

    Parameters
    ----------
    tradeoff : float
        The paper's lambda, from 0: what acquiring every feature costs, in units of squared error
        a training record.
    depth : int
        Splits on a path of a tree (released code counts levels of nodes, one more).
    rounds : int
    learning_rate : float
    reading : {'released', 'stopping'}
        What the papers leave open, as released code has it or with a stopping test (see below).
    costs, threshold, reject_label
        As of :class:`~algorithms.multistage.papers.budgeted.BudgetedClassifier`.

    Attributes
    ----------
    forest_ : Forest
    start_ : float64 (R,), scores before the first tree

    Notes
    -----
    Readings, where the papers leave room. ``released`` follows code that names itself the authors'
    method or a port of it (ADAPT_GBRT in AdaptApprox, GreedyMiser.jl):

    - Trees are full: there is no stopping test, and a node is left unsplit only where its records
      are all alike. So no price is high enough to acquire nothing.
    - What a tree buys is free from the next tree on.
    - Cuts lie midway between neighbouring records of the node.
    - The loss is the squared error of targets -1 and 1 (one tree a round for two classes, else a
      tree a class), scores start at 0, the probability is (1 + score) / 2, cut off at 0 and 1.

    ``stopping`` is the reading of this package's first experiments: a split must save more than
    twice what it costs, and is not made otherwise; a feature is free from its first split on, in
    the same tree too; cuts are midway between neighbours of all training records; the loss is the
    log loss (more than two classes: softmax), scores start at the logarithm of the class shares.

    Of both:

    - The cost of evaluating a tree is zero, as in EMSCO's Section 4.3.
    - Nodes are split level by level, from left to right. Encoded columns of one category are bought
      together.
    - Training pays for a feature once, for all records, as the original does. ``acquisition_cost``
      counts what each record really needs: the features on its own paths.
    - LightGBM's ``cegb_penalty_feature_coupled`` is not the same: as soon as a feature is bought,
      the splits on it that wait at other leaves are refunded a price they had not paid, and win
      undeservedly. It agrees for stumps and without costs
      (``tests/multistage/papers/test_lightgbm.py``).

    References
    ----------
    Xu, Weinberger and Chapelle, "The Greedy Miser: Learning under Test-time Budgets", ICML 2012.
    """

    tradeoff: float = 0.01
    depth: int = 3
    rounds: int = 100
    learning_rate: float = 0.1
    reading: Literal["released", "stopping"] = "released"

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if self.tradeoff < 0 or self.depth < 1 or self.rounds < 1 or self.learning_rate <= 0:
            raise InputError(
                "GreedyMiser: expected tradeoff from 0, depth and rounds from 1 and a learning "
                f"rate above 0, found {self.get_params()}"
            )
        if self.reading not in ("released", "stopping"):
            raise InputError(f"reading: expected 'released' or 'stopping', found {self.reading!r}")
        stopping = self.reading == "stopping"
        target, self.start_ = self._targets(codes, stopping)
        total = self.costs_.sum()
        prices = self.tradeoff * len(Z) * self.costs_ / (total if total else 1.0)
        self.forest_ = fit_forest(
            Z,
            target,
            self.start_,
            Prices(self._feature_of(), 2.0 * prices if stopping else prices),
            Rules(self.learning_rate, stopping, squares=not stopping),
            rounds=self.rounds,
            depth=self.depth,
        )

    def _targets(self, codes: IntArray, log_loss: bool) -> tuple[FloatArray, FloatArray]:
        """Return what trees are fitted to (n, R), and the scores (R,) before the first."""
        binary = len(self.classes_) == 2
        target = np.eye(len(self.classes_))[codes]
        shares = target.mean(axis=0)
        target = target[:, 1:] if binary else target
        if not log_loss:
            return 2.0 * target - 1.0, np.zeros(target.shape[1])
        return target, np.log(shares[1:] / shares[:1]) if binary else np.log(shares)

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        scores, _ = self._run(Z)
        binary, squares = len(self.classes_) == 2, self.reading == "released"
        if binary:
            second = np.clip((1 + scores[:, 0]) / 2, 0, 1) if squares else expit(scores[:, 0])
            return np.column_stack([1 - second, second])
        if not squares:
            return np.asarray(softmax(scores, axis=1), dtype=np.float64)
        shares = np.clip((1 + scores) / 2, _LEAST_SHARE, 1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _needs(self, Z: FloatArray) -> BoolArray:
        return self._run(Z)[1]

    def _run(self, Z: FloatArray) -> tuple[FloatArray, BoolArray]:
        return run_forest(self.forest_, Z, self.start_, self._feature_of(), len(self.costs_))
