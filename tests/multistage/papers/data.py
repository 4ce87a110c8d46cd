"""Small data, and every baseline in a small version."""

import numpy as np
from sklearn.datasets import make_classification

from algorithms.multistage.papers.budgeted import CostOrdered, SingleStage
from algorithms.multistage.papers.cact_lasso import CaCTLasso
from algorithms.multistage.papers.cegb import CEGB
from algorithms.multistage.papers.cstc import CSTC
from algorithms.multistage.papers.greedy_miser import GreedyMiser

COSTS = np.array([10.0, 30.0, 10.0, 20.0, 20.0, 30.0])


def records(classes=2, n=240, seed=0):
    """Return training and test records of six features."""
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=classes, class_sep=0.8, random_state=seed
    )
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :]


def priced():
    """Return baselines whose records need different features."""
    return [
        CaCTLasso(8.0, costs=COSTS),
        GreedyMiser(0.3, depth=2, rounds=3, learning_rate=0.5, costs=COSTS),
        CSTC(0.3, depth=2, starts=1, costs=COSTS),
        CSTC(0.3, depth=1, inner_weight=0.0, starts=3, costs=COSTS),
        CEGB(0.3, leaves=4, rounds=8, costs=COSTS),
    ]


def baselines():
    """Return every baseline."""
    return [SingleStage(COSTS), CostOrdered(COSTS), *priced()]
