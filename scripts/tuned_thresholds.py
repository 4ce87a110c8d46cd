"""ROCHull beside scikit-learn's TunedThresholdClassifierCV: ``python scripts/tuned_thresholds.py``.

Ten sets of two classes, half of the records to fit and choose (out-of-fold), half to test. A miss
costs ``--dear`` false alarms; the figure is the cost of errors of a record. Methods get the same
three models: a logistic regression, naive Bayes and a forest.

- ``half``: the model of least cost out-of-fold at a threshold of 1/2;
- ``by cost``: the same at the threshold of least expected cost, 1 / (1 + dear);
- ``tuned, linear``: TunedThresholdClassifierCV of the logistic regression;
- ``tuned, best``: that of the model whose ``best_score_`` is highest;
- ``hull``: ``ROCHull(models).operating_point(costs)``, with what it expects and its range.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    TunedThresholdClassifierCV,
    cross_val_predict,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from algorithms.hull.estimator import ROCHull
from framework.arrays import Array
from framework.data.datasets import DatasetConfig, load_table

SETS = (
    "breast_cancer", "australian", "pima", "german", "heart_statlog", "heart_failure", "ionosphere",
    "sonar", "qsar_biodeg", "spambase",
)  # fmt: skip
METHODS = ("half", "by cost", "tuned, linear", "tuned, best", "hull")


def pool() -> dict[str, Any]:
    """Return the models, none of them fitted."""
    return {
        "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "bayes": GaussianNB(var_smoothing=1e-6),
        "forest": RandomForestClassifier(100, min_samples_leaf=3, random_state=0),
    }


def cost_of(y: Array, said: Array, dear: float) -> float:
    """Return what errors cost a record; 1 is the positive class."""
    return float(np.mean((said > y) + dear * (said < y)))


def split_costs(X: Array, y: Array, seed: int, dear: float) -> Iterator[dict[str, Any]]:
    """Yield the cost of each method on one split: as claimed, and on test records."""
    parts = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    X_fit, X_test, y_fit, y_test = parts
    models = pool()
    scores = {
        name: cross_val_predict(model, X_fit, y_fit, cv=5, method="predict_proba")[:, 1]
        for name, model in models.items()
    }
    fitted = {name: clone(model).fit(X_fit, y_fit) for name, model in models.items()}
    for method, threshold in (("half", 0.5), ("by cost", 1 / (1 + dear))):
        claims = {n: cost_of(y_fit, column >= threshold, dear) for n, column in scores.items()}
        best = min(claims, key=lambda name: claims[name])
        said = fitted[best].predict_proba(X_test)[:, 1] >= threshold
        yield {"method": method, "claimed": claims[best], "test": cost_of(y_test, said, dear)}
    scorer = make_scorer(cost_of, greater_is_better=False, dear=dear)
    tuned = {
        name: TunedThresholdClassifierCV(model, scoring=scorer, cv=5, random_state=0).fit(
            X_fit, y_fit
        )
        for name, model in models.items()
    }
    best = max(tuned, key=lambda name: tuned[name].best_score_)
    for method, name in (("tuned, linear", "linear"), ("tuned, best", best)):
        test = cost_of(y_test, tuned[name].predict(X_test), dear)
        yield {"method": method, "claimed": -tuned[name].best_score_, "test": test}
    hull = ROCHull(models, random_state=seed).fit(X_fit, y_fit)
    point = hull.operating_point({"fp": 1, "fn": dear})
    cost = point.of["expected_cost"]
    yield {
        "method": "hull",
        "claimed": cost.claimed,
        "test": cost_of(y_test, hull.deploy(point).predict(X_test), dear),
        "expected": cost.expected,
        "low": cost.low,
        "high": cost.high,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--dear", type=float, default=5.0, help="false alarms that a miss costs")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    args = parser.parse_args()
    rows = []
    for name in args.sets:
        own = name == "breast_cancer"  # scikit-learn's
        table = load_table(DatasetConfig(sklearn=name) if own else DatasetConfig(name=name))
        X = table.fit_encoder(table.features).transform(table.features)
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
        rare = int(np.bincount(table.labels).argmin())  # the class to find
        y = (table.labels == rare).astype(np.int64)
        for seed in range(args.splits):
            found = split_costs(X, y, seed, args.dear)
            rows += [{"set": name, "split": seed, **row} for row in found]
        print(_shown(pd.DataFrame(rows[-5 * args.splits :])), flush=True)
    _report(pd.DataFrame(rows))


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


def _shown(frame: pd.DataFrame) -> str:
    means = frame.groupby(["set", "method"])[["claimed", "test"]].mean().unstack()
    order = [(kind, method) for method in METHODS for kind in ("claimed", "test")]
    return str(means[order].round(3).to_string())


def _report(frame: pd.DataFrame) -> None:
    """Print means over all sets, gains of the hull over each method, and what it expects."""
    print(frame.groupby("method")[["claimed", "test"]].mean().loc[list(METHODS)].round(4))
    tests = frame.groupby(["set", "method"])["test"].mean().unstack()
    for method in METHODS[:-1]:
        gains = tests[method] - tests["hull"]
        signs = [int((gains > 0.005).sum()), int((gains.abs() <= 0.005).sum())]
        print(
            f"hull against {method}: {gains.mean():+.4f} cheaper, wins {signs[0]}, ties "
            f"{signs[1]}, losses {len(gains) - sum(signs)}"
        )
    hull = frame[frame["method"] == "hull"]
    inside = (hull["low"] <= hull["test"]) & (hull["test"] <= hull["high"])
    print(
        f"hull: claimed {hull['claimed'].mean():.4f}, expected {hull['expected'].mean():.4f}, "
        f"test {hull['test'].mean():.4f}; test in the range {inside.sum()} of {len(hull)}"
    )


if __name__ == "__main__":
    main()
