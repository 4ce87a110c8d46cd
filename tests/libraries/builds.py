"""A small build that the tests of libraries vary."""

from typing import Any

from framework.libraries.config import BuildConfig

SYNTHETIC = {"samples": 120, "features": 5, "informative": 3, "seed": 1}
QUICK = ["logistic_regression", "naive_bayes", "decision_tree", "lightgbm"]


def config(**changes: Any) -> BuildConfig:
    base = {
        "name": "small",
        "dataset": {"synthetic": SYNTHETIC},
        "folds": 3,
        "models": 6,
        "families": QUICK,
    }
    return BuildConfig.model_validate({**base, **changes})
