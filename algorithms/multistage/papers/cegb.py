"""CEGB: boosted trees that pay for each feature, record by record, while they are grown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.multistage.papers.budgeted import BudgetedClassifier
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.extras import needed


@dataclass(eq=False, repr=False)
class CEGB(BudgetedClassifier):
    """Cost-efficient gradient boosting by LightGBM, with a reject option.

    The worth of a split is the loss that it saves, less the cost of its feature for each record in
    the node that has not acquired it before (LightGBM's ``cegb_penalty_feature_lazy``). So trees
    may ask for an expensive feature where only few records pay for it.

    Parameters
    ----------
    tradeoff : float
        What acquiring every feature costs a record, in units of log loss; at least 0.
    leaves : int
        Greatest number of leaves of a tree.
    rounds : int
    learning_rate : float
    costs, threshold, reject_label
        See :class:`~algorithms.multistage.papers.budgeted.BudgetedClassifier`.

    Attributes
    ----------
    booster_ : lightgbm.Booster, on encoded columns
    paths_ : list of bool (leaves, n_features_in_)
        For each tree the features on the path to each of its leaves.

    Raises
    ------
    ImportError
        By ``fit``, where LightGBM is not installed.

    Notes
    -----
    - LightGBM prices columns: in training, each encoded column of a categorical feature is bought
      separately. ``acquisition_cost`` counts a feature once.
    - One thread, no sampling: the same data give the same trees.

    References
    ----------
    Peter, Diego, Hamprecht and Nadler, "Cost efficient gradient boosting", NeurIPS 2017.
    """

    tradeoff: float = 0.1
    leaves: int = 8
    rounds: int = 50
    learning_rate: float = 0.1

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if self.tradeoff < 0 or self.leaves < 2 or self.rounds < 1 or self.learning_rate <= 0:
            raise InputError(
                "CEGB: expected tradeoff from 0, leaves from 2, rounds from 1 and a learning rate "
                f"above 0, found {self.get_params()}"
            )
        lightgbm = needed("lightgbm")

        parameters = self._parameters()
        data = lightgbm.Dataset(Z, codes, params=parameters)
        self.booster_ = lightgbm.train(parameters, data, self.rounds)
        trees = self.booster_.dump_model()["tree_info"]
        self.paths_ = [self._paths_of(tree) for tree in trees]

    def _parameters(self) -> dict[str, Any]:
        # LightGBM's gains are twice the loss that a split saves
        prices = self._shares(2.0 * self.tradeoff)
        objective: dict[str, Any] = {"objective": "binary"}
        if len(self.classes_) > 2:
            objective = {"objective": "multiclass", "num_class": len(self.classes_)}
        paid = {"cegb_penalty_feature_lazy": prices[self._feature_of()].tolist()}
        return {
            **objective,
            **(paid if prices.any() else {}),
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": 5,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": 1,
            "seed": 0,
            "verbose": -1,
        }

    def _paths_of(self, tree: dict[str, Any]) -> BoolArray:
        """Return the features on the path to each leaf of a tree, (leaves, n_features_in_)."""
        feature_of = self._feature_of()
        paths = np.zeros((tree["num_leaves"], len(self.costs_)), dtype=bool)

        def descend(node: dict[str, Any], passed: list[int]) -> None:
            if "split_feature" not in node:
                paths[node.get("leaf_index", 0), passed] = True
                return
            below = [*passed, int(feature_of[node["split_feature"]])]
            descend(node["left_child"], below)
            descend(node["right_child"], below)

        descend(tree["tree_structure"], [])
        return paths

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        probabilities = np.asarray(self.booster_.predict(Z, num_threads=1), dtype=np.float64)
        if probabilities.ndim == 1:  # two classes: the probability of the second
            return np.column_stack([1 - probabilities, probabilities])
        return probabilities

    def _needs(self, Z: FloatArray) -> BoolArray:
        leaves = np.asarray(self.booster_.predict(Z, pred_leaf=True, num_threads=1), dtype=np.int64)
        leaves = leaves.reshape(len(Z), -1)
        needed = np.zeros((len(Z), len(self.costs_)), dtype=bool)
        for paths, reached in zip(self.paths_, leaves.T, strict=True):
            needed |= paths[reached]
        return needed
