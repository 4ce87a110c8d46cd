"""CaCT LASSO: one logistic regression on the features that an l1 penalty leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.multistage.baselines.base import BudgetedClassifier
from algorithms.multistage.baselines.lasso_kernel import fit_l1
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.models.checks import Threshold
from framework.models.linear import LinearProbability


class CaCTLasso(BudgetedClassifier):
    """Cost-and-coverage-tuned LASSO, for one value of its penalty (EMSCO, Section 4.3).

    Every record needs the same features: those with a coefficient other than zero. The penalty is
    tuned from outside, by :class:`~algorithms.multistage.baselines.tuned.Tuned`.

    Parameters
    ----------
    penalty : float
        The paper's lambda, from 0, beside the *summed* log loss (scikit-learn's 1 / C); that is
        how its grid of 0 to 100 spans everything from no penalty to no feature on its data.
    costs : sequence of float, optional
        What each feature costs to acquire; None: 1 each.
    threshold : float or mapping of class label to float
        The probability that an answer needs; labels left out need 0.5.
    reject_label : label, optional
        What ``predict`` returns for rejected records. None: the most likely class.

    Attributes
    ----------
    linear_ : LinearProbability
        On encoded columns. Two classes: a sigmoid; more: softmax with a vector for each class.
    features_ : int64 (m,), the features acquired
    """

    def __init__(
        self,
        penalty: float = 1.0,
        costs: Sequence[float] | FloatArray | None = None,
        threshold: Threshold = 0.75,
        reject_label: Any = None,
    ) -> None:
        super().__init__(costs, threshold, reject_label)
        self.penalty = penalty

    def _learn(self, Z: FloatArray, codes: IntArray) -> None:
        if not 0 <= self.penalty < np.inf:
            raise InputError(f"penalty: expected a number from 0, found {self.penalty}")
        target = np.eye(len(self.classes_))[codes]
        if len(self.classes_) == 2:
            target = target[:, 1:]
        W = fit_l1(Z, target, self.penalty)
        self.linear_ = LinearProbability(self.classes_, W[:, :-1], W[:, -1])
        self.features_ = np.unique(self._feature_of()[(W[:, :-1] != 0).any(axis=0)])

    def _probabilities(self, Z: FloatArray) -> FloatArray:
        return self.linear_.predict_proba(Z)

    def _needs(self, Z: FloatArray) -> BoolArray:
        needed = np.zeros((len(Z), len(self.costs_)), dtype=bool)
        needed[:, self.features_] = True
        return needed
