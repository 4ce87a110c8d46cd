"""GreedyMiser: boosted trees of limited depth that pay for each feature they begin to use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from algorithms.multistage.baselines.base import BudgetedClassifier
from algorithms.multistage.baselines.tree_kernel import fit_forest, run_forest
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.models.checks import Threshold


class GreedyMiser(BudgetedClassifier):
    """Stage-wise regression with cost-penalised trees, and a reject option (EMSCO's GM*).

    Each round fits a regression tree to the negative gradient of the loss. A split is worth the
    squared error it saves, halved, less the cost of its feature if no split of the ensemble has
    used that feature before; a node is split where that is above zero.

    Parameters
    ----------
    tradeoff : float
        The paper's lambda, from 0: what acquiring every feature costs, in units of squared error
        (halved) a training record.
    depth : int
        Greatest depth of a tree.
    rounds : int
    learning_rate : float
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each.
    threshold : float or mapping of class label to float
        The probability that an answer needs; labels left out need 0.5.
    reject_label : label, optional
        What ``predict`` returns for rejected records. None: the most likely class.

    Attributes
    ----------
    forest_ : Forest
    start_ : float64 (R,), scores before the first tree

    Notes
    -----
    Readings, where the papers leave room:

    - The loss is the log loss (two classes: one tree a round; more: softmax, a tree a class), so
      that the reject option has probabilities. The original uses the squared loss.
    - The cost of evaluating a tree is zero, as in EMSCO's Section 4.3.
    - Nodes are split level by level, from left to right; a feature is free from its first split
      on, in the same tree too. Encoded columns of one category are bought together.
    - Training pays for a feature once, for all records, as the original does. ``acquisition_cost``
      counts what each record really needs: the features on its own paths.
    - LightGBM's ``cegb_penalty_feature_coupled`` is not the same: as soon as a feature is bought,
      the splits on it that wait at other leaves are refunded a price they had not paid, and win
      undeservedly. It agrees for stumps and without costs (``tests/rivals/test_lightgbm.py``).

    References
    ----------
    Xu, Weinberger and Chapelle, "The Greedy Miser: Learning under Test-time Budgets", ICML 2012.
    """

    def __init__(
        self,
        tradeoff: float = 0.01,
        depth: int = 3,
        rounds: int = 50,
        learning_rate: float = 0.5,
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        reject_label: Any = None,
    ) -> None:
        self.tradeoff = tradeoff
        self.depth = depth
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.costs = costs
        self.threshold = threshold
        self.reject_label = reject_label

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if self.tradeoff < 0 or self.depth < 1 or self.rounds < 1 or self.learning_rate <= 0:
            raise InputError(
                "GreedyMiser: expected tradeoff from 0, depth and rounds from 1 and a learning "
                f"rate above 0, found {self.get_params()}"
            )
        target = np.eye(len(self.classes_))[codes]
        shares = target.mean(axis=0)
        if len(self.classes_) == 2:
            self.start_ = np.log(shares[1:] / shares[:1])
            target = target[:, 1:]
        else:
            self.start_ = np.log(shares)
        total = self.costs_.sum()
        prices = self.tradeoff * len(Z) * self.costs_ / (total if total else 1.0)
        self.forest_ = fit_forest(
            Z,
            target,
            self.start_,
            self._feature_of(),
            prices,
            rounds=self.rounds,
            depth=self.depth,
            step=self.learning_rate,
        )

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        scores, _ = self._run(Z)
        if len(self.classes_) == 2:
            second = expit(scores[:, 0])
            return np.column_stack([1 - second, second])
        return np.asarray(softmax(scores, axis=1), dtype=np.float64)

    def _needs(self, Z: FloatArray) -> BoolArray:
        return self._run(Z)[1]

    def _run(self, Z: FloatArray) -> tuple[FloatArray, BoolArray]:
        return run_forest(self.forest_, Z, self.start_, self._feature_of(), len(self.costs_))
