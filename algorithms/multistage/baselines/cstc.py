"""CSTC: a tree of linear classifiers in which each record pays for the features on its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from algorithms.multistage.baselines.base import BudgetedClassifier
from algorithms.multistage.baselines.cstc_loss import (
    Data,
    Tree,
    ancestors,
    gate_scores,
    group_squares,
    loss,
    scores_of,
    traversal,
)
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.models.checks import Threshold

_ALTERNATIONS = 12
_STEPS = 25  # of the inner minimisation, in each alternation
_LEAST_NORM = 1e-4  # keeps the auxiliary variables away from 0
_UNUSED = 1e-2  # a feature with smaller weights, per standard deviation, is not acquired
_LEAST_WEIGHT = 1e-3  # of a record that hardly comes to a leaf, in the leaf's last fit


class CSTC(BudgetedClassifier):
    """Cost-sensitive tree of classifiers, with a reject option (EMSCO's CSTC*).

    A record starts at the root. Each inner node's classifier scores it and its gate sends it to
    one of two children, down to a leaf, whose classifier answers. It needs the features that the
    classifiers on its path read. All of the tree is trained by one loss in which records take
    each path with a probability, and the expected cost of the features is relaxed by a mixed norm.

    Parameters
    ----------
    tradeoff : float
        The paper's lambda, from 0: the weight of the relaxed cost, in shares of the cost of all
        features, beside the mean log loss.
    depth : int
        Number of gates a record passes, from 0.
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each.
    threshold : float or mapping of class label to float
        The probability that an answer needs; labels left out need 0.5.
    reject_label : label, optional
        What ``predict`` returns for rejected records. None: the most likely class.

    Attributes
    ----------
    tree_ : Tree
        The gates' classifiers, with exact zeros for features that are not acquired.
    leaves_ : list of LogisticRegression, one a leaf
    path_features_ : bool (leaves, n_features_in_), what a record that ends there needs

    Notes
    -----
    Readings, where the papers leave room or do not fit a reject option:

    - The loss of a node is the log loss (two classes: sigmoid; more: softmax) instead of the
      squared loss, since a record is rejected by its probability.
    - A gate is a sigmoid of the node's own score less a threshold, as in the paper. With more than
      two classes it reads a learned combination of the class scores.
    - The mixed norm is majorised by auxiliary variables; they and the tree (by L-BFGS) are
      optimised in turn, all nodes at once instead of one after the other. 12 alternations.
    - The paper's l1 penalty of each classifier is an l2 penalty of 1 / n (C = 1); the mixed norm
      selects features.
    - Every classifier starts as the same logistic regression, every gate at the median score.
    - Fine-tuning: the leaves' classifiers are fitted again, without any cost, on the features that
      their paths acquire, each record weighted by the probability of coming there.
    - The cost of evaluating a classifier is zero, as in EMSCO's Section 4.3.

    References
    ----------
    Xu, Kusner, Weinberger, Chen and Chapelle, "Classifier Cascades and Trees for Minimizing
    Feature Evaluation Cost", JMLR 15, 2014.
    """

    def __init__(
        self,
        tradeoff: float = 0.1,
        depth: int = 2,
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        reject_label: Any = None,
    ) -> None:
        self.tradeoff = tradeoff
        self.depth = depth
        self.costs = costs
        self.threshold = threshold
        self.reject_label = reject_label

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if self.tradeoff < 0 or self.depth < 0:
            raise InputError(
                f"CSTC: expected tradeoff and depth from 0, found {self.tradeoff} and {self.depth}"
            )
        target = np.eye(len(self.classes_))[codes]
        total = self.costs_.sum()
        data = Data(
            Z=_with_ones(Z),
            target=target[:, 1:] if len(self.classes_) == 2 else target,
            feature_of=self._feature_of(),
            costs=self.tradeoff * self.costs_ / (total if total else 1.0),
            ridge=1.0 / len(Z),
        )
        with threadpool_limits(1):  # the matrices are small; more threads get in each other's way
            tree = _optimised(_start(Z, codes, data, self.depth), data)
        used = np.sqrt(group_squares(tree, data.feature_of, len(self.costs_))) > _UNUSED
        tree.weights[:, :, :-1] *= used[:, data.feature_of][:, None, :]
        self.tree_ = tree
        self.path_features_ = (ancestors(len(tree.weights)) @ used) > 0
        self._tune_leaves(Z, codes)

    def _tune_leaves(self, Z: FloatArray, codes: IntArray) -> None:
        gates = gate_scores(self.tree_, scores_of(self.tree_, _with_ones(Z)))
        reached = traversal((1.0 + np.tanh(gates / 2.0)) / 2.0)[:, len(self.tree_.gates) :]
        columns = self.path_features_[:, self._feature_of()]
        self.leaves_ = [
            _logistic().fit(Z * kept, codes, sample_weight=np.maximum(weight, _LEAST_WEIGHT))
            for kept, weight in zip(columns, reached.T, strict=True)
        ]

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        found = np.empty((len(Z), len(self.classes_)))
        leaf = self._leaf_of(Z)
        columns = self.path_features_[:, self._feature_of()]
        for number in np.unique(leaf):
            here = leaf == number
            found[here] = self.leaves_[number].predict_proba(Z[here] * columns[number])
        return found

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


def _start(Z: FloatArray, codes: IntArray, data: Data, depth: int) -> Tree:
    """Return a tree whose nodes all have the same classifier; gates cut its scores in half."""
    nodes, inner = 2 ** (depth + 1) - 1, 2**depth - 1
    first = _logistic().fit(Z, codes)
    weights = np.column_stack([first.coef_, first.intercept_])
    rows = len(weights)
    gates = np.zeros((inner, rows + 1))
    if inner:
        gates[np.arange(inner), np.arange(inner) % rows] = 1.0
        gates[:, -1] = np.median(data.Z @ weights.T, axis=0)[np.arange(inner) % rows]
    return Tree(np.tile(weights, (nodes, 1, 1)), gates)


def _optimised(tree: Tree, data: Data) -> Tree:
    """Minimise the loss, in turn over the auxiliary variables and over the tree."""
    on_path = ancestors(len(tree.weights))
    combine = tree.weights.shape[1] > 1  # with one score there is nothing to combine

    def flat_loss(flat: FloatArray, norms: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(tree.like(flat), data, norms)
        if not combine:
            gradient.gates[:, :-1] = 0.0
        return value, gradient.flat()

    flat = tree.flat()
    for _ in range(_ALTERNATIONS):
        squares = group_squares(tree.like(flat), data.feature_of, len(data.costs))
        norms = np.sqrt(on_path @ squares + _LEAST_NORM**2)
        found = minimize(
            flat_loss,
            flat,
            args=(norms,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS},
        )
        flat = found.x
    return tree.like(flat)
