"""CSTC: a tree of linear classifiers in which each record pays for the features on its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from algorithms.multistage.baselines.base import BudgetedClassifier
from algorithms.multistage.baselines.cstc_fit import fit_tree
from algorithms.multistage.baselines.cstc_loss import (
    Data,
    ancestors,
    gate_scores,
    group_squares,
    scores_of,
    traversal,
)
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.models.checks import Threshold

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
    inner_weight : float
        The paper's omega at inner nodes, from 0: the weight of their own log loss, that of leaves
        being 1. With 1, the paper's, score and gate have to agree on one set of weights and all
        records end up paying alike; with little or none an inner node is free to be a gate alone.
    starts : int
        Trees that the descent starts from, at least 1; the best by the loss is kept.
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
    loss_ : float
        What was minimised, before weights were set to zero.
    converged_ : bool
        Whether that is a stationary point of it.
    leaves_ : list of LogisticRegression, one a leaf
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

    def __init__(
        self,
        tradeoff: float = 0.1,
        depth: int = 2,
        inner_weight: float = 1.0,
        starts: int = 10,
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        reject_label: Any = None,
    ) -> None:
        super().__init__(costs, threshold, reject_label)
        self.tradeoff = tradeoff
        self.depth = depth
        self.inner_weight = inner_weight
        self.starts = starts

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if min(self.tradeoff, self.depth, self.inner_weight) < 0 or self.starts < 1:
            raise InputError(
                "CSTC: expected tradeoff, depth and inner_weight from 0 and starts from 1, found "
                f"{self.get_params()}"
            )
        target = np.eye(len(self.classes_))[codes]
        total = self.costs_.sum()
        data = Data(
            Z=_with_ones(Z),
            target=target[:, 1:] if len(self.classes_) == 2 else target,
            feature_of=self._feature_of(),
            costs=self.tradeoff * self.costs_ / (total if total else 1.0),
            ridge=1.0 / len(Z),
            inner_weight=self.inner_weight,
        )
        with threadpool_limits(1):  # the matrices are small; more threads get in each other's way
            first = _logistic().fit(Z, codes)
            weights = np.column_stack([first.coef_, first.intercept_])
            stream = np.random.default_rng(0)  # the same data give the same tree
            found = fit_tree(weights, self.depth, data, self.starts, stream)
        tree = found.tree
        self.loss_, self.converged_ = found.value, found.converged
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
