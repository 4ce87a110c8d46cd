"""CSTC: a tree of linear classifiers in which each record pays for the features on its path.

The tree is a full binary heap of ``M`` nodes; node ``m`` has the children ``2 m + 1`` and
``2 m + 2``, and the first ``I`` nodes are inner ones. Every node has a linear classifier. Every
inner node has a gate that compares a score of its classifier with a threshold, so that a gate needs
no further feature. With more than two classes, the gate reads the score of one class, which changes
from node to node. A weighted sum of scores would not do: large weights of a gate could make up for
small weights of the classifier, which the cost would take for unused features.

The loss has many local minima, as the features of a gate are decided early. Several starts are
therefore followed while the mixed norm is smooth, and only the best of them as it becomes sharp.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from algorithms.multistage.papers.budgeted import BudgetedClassifier
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError

SMOOTHINGS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""Smoothings of the mixed norm, one after the other, in units of a standardised weight."""
GRADIENT_TOLERANCE = 1e-5
"""Greatest component of the gradient at the end."""
_DECREASE = 1e-12  # least relative decrease of the loss in a step; a smaller one is rounding
_ROUGH = 10.0  # factor of these tolerances before the last smoothing
_FIRST_LOOK = 100  # iterations after which starts are compared
_FINALISTS = 3  # starts that are followed further
_SAME = 1e-5  # relative difference of losses below which two starts count as one
_MAX_ITERATIONS = 20_000  # at each smoothing
_PAIRS = 20  # steps and changes of the gradient that L-BFGS remembers
_UNUSED = 1e-2  # a feature with smaller weights, per standard deviation, is not acquired
_LEAST_WEIGHT = 1e-3  # least weight of a record in the last fit of a leaf


class GateTree(NamedTuple):
    """Parameters of a tree.

    weights : float64 (M, R, D + 1), with the intercepts as last column; R = 1 for two classes.
    gates : float64 (I,), the thresholds.
    """

    weights: FloatArray
    gates: FloatArray

    def flat(self) -> FloatArray:
        """Return all parameters as one vector."""
        return np.concatenate([self.weights.ravel(), self.gates.ravel()])

    def like(self, flat: FloatArray) -> GateTree:
        """Return a tree of this shape from a vector of parameters."""
        cut = self.weights.size
        return GateTree(
            flat[:cut].reshape(self.weights.shape), flat[cut:].reshape(self.gates.shape)
        )


class Data(NamedTuple):
    """The records and the settings of a fit.

    Z : float64 (n, D + 1), encoded records and a column of ones.
    target : float64 (n, R), 1 for the class of the record. Two classes have one column, that of the
        second class; more have one each.
    feature_of : int64 (D,), the feature to which each encoded column belongs.
    costs : float64 (d,), lambda times the cost of each feature.
    ridge : float, weight of the squared coefficients.
    inner_weight : float, weight of the log loss at inner nodes; leaves have 1.
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


def scores_of(tree: GateTree, Z: FloatArray) -> FloatArray:
    """Return the scores (n, M, R) of every node's classifier for records (n, D + 1)."""
    nodes, rows, width = tree.weights.shape
    by_node = (tree.weights.reshape(nodes * rows, width) @ Z.T).reshape(nodes, rows, len(Z))
    return by_node.transpose(2, 0, 1)  # in memory, the records of a node stay side by side


def gate_scores(tree: GateTree, scores: FloatArray) -> FloatArray:
    """Return the gates' scores (n, I): a record goes to the first child if its score is above 0."""
    node, score = gate_places(tree)
    return np.asarray(scores[:, node, score] - tree.gates)


def gate_places(tree: GateTree) -> tuple[IntArray, IntArray]:
    """Return the inner nodes (I,), and the position (I,) of the score that each gate reads."""
    node = np.arange(len(tree.gates))
    return node, node % tree.weights.shape[1]


def traversal(gates: FloatArray) -> FloatArray:
    """Return the probability (n, M) that a record reaches each node.

    ``gates`` (n, I) has the probability that each gate sends it to the first child.
    """
    n, inner = gates.shape
    reached = np.ones((2 * inner + 1, n)).T
    for level in _levels(inner):
        children = reached[:, 2 * level.start + 1 : 2 * level.stop + 1]
        first = reached[:, level] * gates[:, level]
        children[:, ::2], children[:, 1::2] = first, reached[:, level] - first
    return reached


def _levels(inner: int) -> list[slice]:
    """Return the inner nodes of each level, from the root down."""
    return [slice(2**i - 1, 2 ** (i + 1) - 1) for i in range((inner + 1).bit_length() - 1)]


def feature_squares(tree: GateTree, feature_of: IntArray, n_features: int) -> FloatArray:
    """Return the sum of the squared weights of each node and feature, (M, d)."""
    squares = (tree.weights[:, :, :-1] ** 2).sum(axis=1)
    sums = np.zeros((len(squares), n_features))
    np.add.at(sums.T, feature_of, squares.T)
    return sums


def loss(tree: GateTree, data: Data, smoothing: float) -> tuple[float, GateTree]:
    """Return the loss and its gradient.

    The loss has three terms. The first is the mean over records of the log losses of all nodes,
    weighted by the probability that the record reaches the node (and by ``inner_weight`` at inner
    nodes). The second is, for each leaf, its mean probability times the relaxed cost of its path:
    ``sum over features of cost * sqrt(squared weights on the path + smoothing^2)``, the mixed norm.
    The third is the ridge.

    Parameters
    ----------
    tree : GateTree
    data : Data
    smoothing : float, above 0
        Makes the loss differentiable; the smaller, the nearer the mixed norm.

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
    squares = feature_squares(tree, data.feature_of, len(data.costs))
    norms = np.sqrt(on_path @ squares + smoothing**2)
    path_costs = norms @ data.costs
    share = reached[:, inner:].mean(axis=0)
    ridge = data.ridge * (tree.weights[:, :, :-1] ** 2).sum() / 2.0
    value = (reached * losses).sum() / n + share @ path_costs + ridge

    # derivative of the loss by the probability of each node, including that of its subtree
    below = losses / n
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
    return float(value), GateTree(weights, -by_gate.sum(axis=0))


def _log_losses(scores: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log loss (n, M) of each record at each node and its slope (n, M, R)."""
    wanted = target[:, None, :]
    if scores.shape[2] == 1:
        s = scores[:, :, 0]
        small = np.exp(-np.abs(s))  # numpy vectorises exp and log, but not logaddexp
        loss = np.maximum(s, 0.0) + np.log(1.0 + small) - wanted[:, :, 0] * s
        second = np.where(s > 0.0, 1.0, small) / (1.0 + small)
        return loss, second[:, :, np.newaxis] - wanted
    # class by class, as numpy reduces an axis with few entries slowly
    greatest = reduce(np.maximum, np.moveaxis(scores, 2, 0))
    exponentials = np.exp(scores - greatest[:, :, None])
    probabilities = exponentials / reduce(np.add, np.moveaxis(exponentials, 2, 0))[:, :, None]
    right = reduce(np.add, np.moveaxis(wanted * probabilities, 2, 0))
    return -np.log(np.maximum(right, np.finfo(np.float64).tiny)), probabilities - wanted


class Minimum(NamedTuple):
    """The end of a descent: the tree, its loss, and whether it is a stationary point."""

    tree: GateTree
    value: float
    converged: bool


def fit_tree(
    weights: FloatArray, depth: int, data: Data, starts: int, rng: np.random.Generator
) -> Minimum:
    """Return the tree of least loss among those to which several starts lead.

    Parameters
    ----------
    weights : float64 (R, D + 1)
        A linear classifier on all features.
    depth, starts : int
    data : Data
    rng : numpy.random.Generator

    Warns
    -----
    ConvergenceWarning
        The best tree is not a stationary point.
    """
    looks = [
        _descended(tree, data, SMOOTHINGS[0], _FIRST_LOOK, _ROUGH)
        for tree in _starts(weights, depth, starts, data, rng)
    ]
    finalists: list[Minimum] = []
    for look in sorted(looks, key=lambda minimum: minimum.value):
        if not finalists or look.value > finalists[-1].value * (1.0 + _SAME):
            finalists.append(look)
    near = [_sharpened(look.tree, data) for look in finalists[:_FINALISTS]]
    best = min(near, key=lambda minimum: minimum.value)
    best = _descended(best.tree, data, SMOOTHINGS[-1], _MAX_ITERATIONS, 1.0)
    if not best.converged:
        warnings.warn(
            f"CSTC did not converge in {_MAX_ITERATIONS} iterations; its tree may depend on that "
            "limit",
            ConvergenceWarning,
            stacklevel=2,
        )
    return best


def _sharpened(tree: GateTree, data: Data) -> Minimum:
    """Follow a minimum, with rough tolerances, down to the last smoothing but one."""
    for smoothing in SMOOTHINGS[:-1]:
        minimum = _descended(tree, data, smoothing, _MAX_ITERATIONS, _ROUGH)
        tree = minimum.tree
    return minimum


def _descended(
    tree: GateTree, data: Data, smoothing: float, iterations: int, tolerance: float
) -> Minimum:
    """Minimise the loss over all parameters of the tree by L-BFGS."""

    def flat_loss(flat: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(tree.like(flat), data, smoothing)
        return value, gradient.flat()

    result = minimize(
        flat_loss,
        tree.flat(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "gtol": tolerance * GRADIENT_TOLERANCE,
            "ftol": tolerance * _DECREASE,
            "maxcor": _PAIRS,
        },
    )
    return Minimum(tree.like(result.x), float(result.fun), bool(result.success))


def _starts(
    weights: FloatArray, depth: int, count: int, data: Data, rng: np.random.Generator
) -> Iterator[GateTree]:
    """Yield trees to start from.

    The first two have the same classifier at every node: one with gates that divide its scores into
    as many ranges as there are leaves, one with gates that all cut them in half. The others have
    random classifiers and gates at 0.
    """
    nodes, inner = 2 ** (depth + 1) - 1, 2**depth - 1
    level = np.log2(np.arange(inner) + 1).astype(np.int64)
    place = np.arange(inner) + 1 - 2**level
    shares = [(2 * place + 1) / 2 ** (level + 1), np.full(inner, 0.5)]
    scores = data.Z @ weights.T
    for number in range(count):
        tree = GateTree(np.tile(weights, (nodes, 1, 1)), np.zeros(inner))
        if number < len(shares):
            tree.gates[:] = [
                np.quantile(scores[:, score], 1.0 - share)  # the first child has the greater scores
                for score, share in zip(gate_places(tree)[1], shares[number], strict=True)
            ]
            yield tree
        else:
            yield tree._replace(weights=rng.normal(size=(nodes, *weights.shape)))
        if not depth:
            return  # a single classifier has a convex loss, with one minimum


@dataclass(eq=False, repr=False)
class CSTC(BudgetedClassifier):
    """Cost-sensitive tree of classifiers, with a reject option (EMSCO's CSTC*).

    A record starts at the root. The classifier of each inner node scores it and the gate sends it
    to one of two children, down to a leaf, whose classifier answers. The record needs the features
    that the classifiers on its path read. The whole tree is trained by one loss, in which records
    take each path with a probability and a mixed norm relaxes the expected cost of features.

    Parameters
    ----------
    tradeoff : float
        The paper's lambda, from 0: the weight of the relaxed cost, in shares of the cost of all
        features, beside the mean log loss.
    depth : int
        Number of gates a record passes, from 0.
    inner_weight : float
        The paper's omega at inner nodes, from 0: the weight of their own log loss, that of leaves
        being 1. With 1, the paper's, score and gate have to agree on one set of weights and all
        records end up paying alike; with little or none an inner node is free to be a gate alone.
    starts : int
        Trees that the descent starts from, at least 1; the best by the loss is kept.
    costs, threshold, reject_label
        As of :class:`~algorithms.multistage.papers.budgeted.BudgetedClassifier`.

    Attributes
    ----------
    tree_ : GateTree
        The gates' classifiers, with exact zeros for features that are not acquired.
    loss_ : float
        What was minimised, before weights were set to zero.
    converged_ : bool
        Whether that is a stationary point of it.
    leaves_ : list of LogisticRegression, one per leaf
    path_features_ : bool (leaves, n_features_in_), what a record that ends there needs

    Notes
    -----
    Readings, where the papers leave room or do not fit a reject option:

    - The loss of a node is the log loss (two classes: sigmoid; more: softmax) instead of the
      squared loss, since a record is rejected by its probability.
    - A gate is a sigmoid of the node's own score less a threshold, as in the paper. With more than
      two classes it reads the score of one class, another one from node to node.
    - All nodes are optimised at once by L-BFGS, instead of one after the other (which ends in the
      same optimum), with the mixed norm smoothed less and less, until no component of the gradient
      exceeds 1e-5 or the loss no longer decreases.
    - The paper's l1 penalty of each classifier is an l2 penalty of 1 / n (C = 1); the mixed norm
      selects features.
    - Starts: a logistic regression at every node, its scores divided evenly among the leaves; the
      same with every gate at the median; then random classifiers, from a stream of their own.
    - Fine-tuning: the leaves' classifiers are fitted again, without any cost, on the features that
      their paths acquire, each record weighted by the probability of coming there.
    - The cost of evaluating a classifier is zero, as in EMSCO's Section 4.3.

    References
    ----------
    Xu, Kusner, Weinberger, Chen and Chapelle, "Classifier Cascades and Trees for Minimizing
    Feature Evaluation Cost", JMLR 15, 2014.
    """

    tradeoff: float = 0.1
    depth: int = 2
    inner_weight: float = 1.0
    starts: int = 10

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if min(self.tradeoff, self.depth, self.inner_weight) < 0 or self.starts < 1:
            raise InputError(
                "CSTC: expected tradeoff, depth and inner_weight from 0 and starts from 1, found "
                f"{self.get_params()}"
            )
        data = Data(
            Z=_with_ones(Z),
            target=self._targets(codes),
            feature_of=self._feature_of(),
            costs=self._shares(self.tradeoff),
            ridge=1.0 / len(Z),
            inner_weight=self.inner_weight,
        )
        with threadpool_limits(1):  # the matrices are small; more threads get in each other's way
            first = _logistic().fit(Z, codes)
            weights = np.column_stack([first.coef_, first.intercept_])
            stream = np.random.default_rng(0)  # the same data give the same tree
            minimum = fit_tree(weights, self.depth, data, self.starts, stream)
        tree = minimum.tree
        self.loss_, self.converged_ = minimum.value, minimum.converged
        used = np.sqrt(feature_squares(tree, data.feature_of, len(self.costs_))) > _UNUSED
        tree.weights[:, :, :-1] *= used[:, data.feature_of][:, None, :]
        self.tree_ = tree
        self.path_features_ = (ancestors(len(tree.weights)) @ used) > 0
        self._tune_leaves(Z, codes)

    def _tune_leaves(self, Z: FloatArray, codes: IntArray) -> None:
        gates = gate_scores(self.tree_, scores_of(self.tree_, _with_ones(Z)))
        reached = traversal((1.0 + np.tanh(gates / 2.0)) / 2.0)[:, len(self.tree_.gates) :]
        columns = self.path_features_[:, self._feature_of()]
        self.leaves_ = [
            _logistic().fit(Z * column, codes, sample_weight=np.maximum(weight, _LEAST_WEIGHT))
            for column, weight in zip(columns, reached.T, strict=True)
        ]

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        probabilities = np.empty((len(Z), len(self.classes_)))
        leaf = self._leaf_of(Z)
        columns = self.path_features_[:, self._feature_of()]
        for number in np.unique(leaf):
            here = leaf == number
            probabilities[here] = self.leaves_[number].predict_proba(Z[here] * columns[number])
        return probabilities

    def _needs(self, Z: FloatArray) -> BoolArray:
        return np.asarray(self.path_features_[self._leaf_of(Z)])

    def _leaf_of(self, Z: FloatArray) -> IntArray:
        """Return the leaf (n,), from 0, that each record comes to."""
        gates = gate_scores(self.tree_, scores_of(self.tree_, _with_ones(Z)))
        node = np.zeros(len(Z), dtype=np.int64)
        for _ in range(self.depth):
            node = 2 * node + np.where(gates[np.arange(len(Z)), node] > 0, 1, 2)
        return node - len(self.tree_.gates)


def _with_ones(Z: FloatArray) -> FloatArray:
    return np.column_stack([Z, np.ones(len(Z))])


def _logistic() -> Any:
    return LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-6, max_iter=200)
