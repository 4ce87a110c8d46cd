"""The global loss of a cost-sensitive tree of classifiers, and its gradient.

The tree is a full binary heap of ``M`` nodes, node ``m`` with children ``2 m + 1`` and ``2 m + 2``;
the first ``I`` of them are inner nodes. Every node has a linear classifier, every inner node a gate
that compares a score of its own classifier with a threshold, so that a gate acquires no feature.
With more than two classes it is the score of one class, another one from node to node; a gate that
weighed scores could make up for small weights, which the cost would take for unused features.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from framework.arrays import FloatArray, IntArray


class Tree(NamedTuple):
    """Parameters of a tree.

    weights : float64 (M, R, D + 1), with the intercepts as last column; R = 1 for two classes.
    gates : float64 (I,), the thresholds.
    """

    weights: FloatArray
    gates: FloatArray

    def flat(self) -> FloatArray:
        """Return all parameters as one vector."""
        return np.concatenate([self.weights.ravel(), self.gates.ravel()])

    def like(self, flat: FloatArray) -> Tree:
        """Return a tree of this shape from a vector of parameters."""
        cut = self.weights.size
        return Tree(flat[:cut].reshape(self.weights.shape), flat[cut:].reshape(self.gates.shape))


class Data(NamedTuple):
    """What a tree is fitted to.

    Z : float64 (n, D + 1), encoded records and a column of ones.
    target : float64 (n, R), 1 for the record's class; R = 1 (the second of two) or one a class.
    feature_of : int64 (D,), the feature an encoded column belongs to.
    costs : float64 (d,), lambda times each feature's cost.
    ridge : float, weight of the squared coefficients.
    inner_weight : float, weight of inner nodes' own log loss; leaves have 1.
    """

    Z: FloatArray
    target: FloatArray
    feature_of: IntArray
    costs: FloatArray
    ridge: float
    inner_weight: float = 1.0


def ancestors(nodes: int) -> FloatArray:
    """Return which nodes (columns) lie on the path to each leaf (rows), the leaf included."""
    inner = nodes // 2
    on_path = np.zeros((nodes - inner, nodes))
    for row, leaf in enumerate(range(inner, nodes)):
        m = leaf
        while m > 0:
            on_path[row, m] = 1.0
            m = (m - 1) // 2
        on_path[row, 0] = 1.0
    return on_path


def scores_of(tree: Tree, Z: FloatArray) -> FloatArray:
    """Return the scores (n, M, R) of every node's classifier for records (n, D + 1)."""
    nodes, rows, width = tree.weights.shape
    by_node = (tree.weights.reshape(nodes * rows, width) @ Z.T).reshape(nodes, rows, len(Z))
    return by_node.transpose(2, 0, 1)  # records of a node side by side: what is made of it, too


def gate_scores(tree: Tree, scores: FloatArray) -> FloatArray:
    """Return (n, I) what sends a record to a node's first child, above 0, or to its second."""
    node, score = gate_places(tree)
    return np.asarray(scores[:, node, score] - tree.gates)


def gate_places(tree: Tree) -> tuple[IntArray, IntArray]:
    """Return the inner nodes, and which of its scores the gate of each reads."""
    node = np.arange(len(tree.gates))
    return node, node % tree.weights.shape[1]


def traversal(gates: FloatArray) -> FloatArray:
    """Return the probability (n, M) that a record comes to each node, from gates (n, I)."""
    n, inner = gates.shape
    reached = np.ones((2 * inner + 1, n)).T
    for level in _levels(inner):
        children = reached[:, 2 * level.start + 1 : 2 * level.stop + 1]
        first = reached[:, level] * gates[:, level]
        children[:, ::2], children[:, 1::2] = first, reached[:, level] - first
    return reached


def _levels(inner: int) -> list[slice]:
    """Return the inner nodes of each level, the root's first."""
    return [slice(2**i - 1, 2 ** (i + 1) - 1) for i in range((inner + 1).bit_length() - 1)]


def group_squares(tree: Tree, feature_of: IntArray, n_features: int) -> FloatArray:
    """Return the squared weights of each node and feature, summed, (M, d)."""
    squares = (tree.weights[:, :, :-1] ** 2).sum(axis=1)
    sums = np.zeros((len(squares), n_features))
    np.add.at(sums.T, feature_of, squares.T)
    return sums


def loss(tree: Tree, data: Data, smoothing: float) -> tuple[float, Tree]:
    """Return the loss and its gradient.

    The loss is the mean over records of every node's log loss, weighted by the probability of
    coming there (and by ``inner_weight`` at inner nodes), plus for each leaf its mean probability
    times the relaxed cost of its path, plus the ridge. The relaxed cost is the mixed norm
    ``sum over features of cost * sqrt(squared weights on the path + smoothing^2)``.

    Parameters
    ----------
    tree : Tree
    data : Data
    smoothing : float, above 0
        The loss is differentiable for it; the cost is the mixed norm where it is small.

    Notes
    -----
    O(n M R D).
    """
    n, inner = len(data.Z), len(tree.gates)
    scores = scores_of(tree, data.Z)
    gates = expit(gate_scores(tree, scores))
    reached = traversal(gates)
    losses, slopes = _log_losses(scores, data.target)
    losses[:, :inner] *= data.inner_weight
    slopes[:, :inner] *= data.inner_weight
    on_path = ancestors(2 * inner + 1)
    squares = group_squares(tree, data.feature_of, len(data.costs))
    norms = np.sqrt(on_path @ squares + smoothing**2)
    path_costs = norms @ data.costs
    share = reached[:, inner:].mean(axis=0)
    ridge = data.ridge * (tree.weights[:, :, :-1] ** 2).sum() / 2.0
    value = (reached * losses).sum() / n + share @ path_costs + ridge

    below = losses / n  # what one more unit of probability at a node costs, its subtree included
    below[:, inner:] += path_costs / n
    by_gate = np.empty((inner, n)).T
    for level in reversed(_levels(inner)):
        children = slice(2 * level.start + 1, 2 * level.stop + 1)
        first, second = below[:, children][:, ::2], below[:, children][:, 1::2]
        through, gain = gates[:, level], first - second
        by_gate[:, level] = reached[:, level] * through * (1.0 - through) * gain
        below[:, level] += second + through * gain
    by_score = reached[:, :, None] * slopes / n
    node, score = gate_places(tree)
    by_score[:, node, score] += by_gate
    width = data.Z.shape[1]
    weights = (by_score.reshape(n, -1).T @ data.Z).reshape(*by_score.shape[1:], width)
    shrink = on_path.T @ (share[:, None] * data.costs / norms) + data.ridge  # (M, d)
    weights[:, :, :-1] += shrink[:, data.feature_of][:, None, :] * tree.weights[:, :, :-1]
    return float(value), Tree(weights, -by_gate.sum(axis=0))


def _log_losses(scores: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log loss (n, M) of each record at each node and its slope (n, M, R)."""
    wanted = target[:, None, :]
    if scores.shape[2] == 1:
        s = scores[:, :, 0]
        small = np.exp(-np.abs(s))  # vectorised, where logaddexp and expit are not
        loss = np.maximum(s, 0.0) + np.log(1.0 + small) - wanted[:, :, 0] * s
        second = np.where(s > 0.0, 1.0, small) / (1.0 + small)
        return loss, second[:, :, np.newaxis] - wanted
    # class by class: numpy reduces an axis of a few entries slowly
    greatest = reduce(np.maximum, np.moveaxis(scores, 2, 0))
    exponentials = np.exp(scores - greatest[:, :, None])
    probabilities = exponentials / reduce(np.add, np.moveaxis(exponentials, 2, 0))[:, :, None]
    right = reduce(np.add, np.moveaxis(wanted * probabilities, 2, 0))
    return -np.log(np.maximum(right, np.finfo(np.float64).tiny)), probabilities - wanted
