"""GreedyMiser: boosted trees of limited depth that pay for each feature they begin to use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit, softmax

from algorithms.multistage.baselines.base import BudgetedClassifier
from algorithms.multistage.baselines.tree_kernel import Prices, Rules, fit_forest, run_forest
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.models.checks import Threshold

_LEAST_SHARE = 1e-12  # of a class, so that shares can be made to sum to 1


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
    Readings, where the papers leave room. ``released`` follows code that names itself the authors'
    method or a port of it (ADAPT_GBRT in AdaptApprox, GreedyMiser.jl):

    - Trees are full: there is no stopping test, and a node is left whole only where its records are
      all alike. So no price is high enough to acquire nothing.
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
      undeservedly. It agrees for stumps and without costs (``tests/rivals/test_lightgbm.py``).

    References
    ----------
    Xu, Weinberger and Chapelle, "The Greedy Miser: Learning under Test-time Budgets", ICML 2012.
    """

    def __init__(
        self,
        tradeoff: float = 0.01,
        depth: int = 3,
        rounds: int = 100,
        learning_rate: float = 0.1,
        reading: Literal["released", "stopping"] = "released",
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        reject_label: Any = None,
    ) -> None:
        super().__init__(costs, threshold, reject_label)
        self.tradeoff = tradeoff
        self.depth = depth
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.reading = reading

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
