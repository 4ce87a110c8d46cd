"""Boosted regression trees that pay once for each feature they use, level by level on histograms.

A tree of depth p is a full binary heap: node ``m`` has children ``2 m + 1`` (at most the threshold)
and ``2 m + 2``; a node that was not split has ``column`` -1 and keeps its value.

There are two ways to grow: with a stopping test (a split must be worth its price, what it buys is
free at once, cuts are those of all records) and without (the best split is made wherever there is
one, what a tree buys is free from the next tree on, cuts lie midway between records of the node).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import njit

MOST_BINS = 1024
LEAST_GAIN = 1e-10
"""By how much a split must be better than none, or than one before it, so that a tie does not hang
on rounding: it goes to the first column and the lowest cut."""


class Forest(NamedTuple):
    """Boosted trees, ``rounds`` times ``R`` of them with ``M`` nodes each.

    column : int64 (rounds, R, M), the encoded column a node splits on; -1 at a leaf.
    threshold : float64 (rounds, R, M), where it splits.
    value : float64 (rounds, R, M), a node's share of the score, step size included.
    """

    column: IntArray
    threshold: FloatArray
    value: FloatArray


class Tree(NamedTuple):
    """One of the trees of a :class:`Forest`: its three arrays (M,)."""

    column: IntArray
    threshold: FloatArray
    value: FloatArray


class Records(NamedTuple):
    """Encoded records.

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
    records: Records, residual: Array, prices: Prices, stopping: bool, tree: Tree, node: Array
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
    records: Records, target: Array, start: Array, prices: Prices, rules: Rules, forest: Forest
) -> None:
    """Fit trees to the negative gradient of a loss, round by round.

    Parameters
    ----------
    records : Records
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
            tree = Tree(forest.column[t, r], forest.threshold[t, r], forest.value[t, r])
            _grow(records, residual[r], prices, rules.stopping, tree, node)
            for m in range(len(tree.value)):
                tree.value[m] *= rules.step
            for i in range(n):
                scores[i, r] += tree.value[node[i]]


@njit
def walk(forest: Forest, Z: Array, feature_of: Array, scores: Array, needed: Array) -> None:
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
    records = Records(np.ascontiguousarray(Z), bin_records(Z, cuts), cuts)
    prices = Prices(prices.feature_of, prices.of_feature.copy())
    boost(records, np.ascontiguousarray(target), start, prices, rules, forest)
    return forest


def run_forest(
    forest: Forest, Z: FloatArray, start: FloatArray, feature_of: IntArray, n_features: int
) -> tuple[FloatArray, BoolArray]:
    """Return the scores (n, R) of encoded records (n, D), and the features they need (n, d)."""
    scores = np.zeros((len(Z), len(start))) + start
    needed = np.zeros((len(Z), n_features), dtype=bool)
    walk(forest, np.ascontiguousarray(Z), feature_of, scores, needed)
    return scores, needed
