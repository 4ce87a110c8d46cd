"""Are hulls of networks worth their search? ``python scripts/hull_promises.py --splits 4``.

Areas under the curves that each method gives on test records, on the 14 data sets of the paper on
3DFCH-EMOA. A method's members are the corners of its curve on the records that it was searched on;
the test curve goes through the same members, in the same order, with lots drawn between neighbours.
No choice is made on test records: the curve may well bend inwards there.

Hold-out means trained on a quarter of the records, searched on another. Out-of-fold means searched
on both, each record answered by a model that has not seen it; the model that is tested is fitted on
all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from algorithms.hull.data import Fold, NetworkConfig, Records
from algorithms.hull.network import NetworkProblem
from algorithms.hull.searches import FCHEMOA
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.batch import Evaluated
from framework.roles import Objective, Roles
from framework.streams import CandidateStreams

ROOT = Path(__file__).resolve().parents[1]
MASKS, WITH_THRESHOLDS = "masks, hold-out", "masks and thresholds, hold-out"
LEVELS = "levels of magnitude, out-of-fold"
NETWORK, NETWORK_FOLDS = "whole network, hold-out", "whole network, out-of-fold"
LOGISTIC, LOGISTIC_FOLDS = "logistic regression, hold-out", "logistic regression, out-of-fold"
PAIRS = (
    (MASKS, NETWORK),
    (MASKS, LOGISTIC),
    (WITH_THRESHOLDS, NETWORK),
    (WITH_THRESHOLDS, LOGISTIC),
    (LEVELS, NETWORK_FOLDS),
    (LEVELS, LOGISTIC_FOLDS),
    (LEVELS, MASKS),
    (NETWORK_FOLDS, MASKS),
)
OBJECTIVES = ("false_positive_rate", "false_negative_rate", "complexity")
NO_STREAMS = CandidateStreams(0, np.zeros(0, dtype=np.int64))

Curve = tuple[float, float]
"""Area on the records searched, and on test records."""


def corners(rates: FloatArray) -> IntArray:
    """Return which points (false positive, false negative rate) are corners of their lower hull."""
    found: list[int] = []
    for i in np.lexsort((rates[:, 1], rates[:, 0])).tolist():
        if found and rates[i, 0] == rates[found[-1], 0]:
            continue
        while len(found) > 1:
            (ax, ay), (bx, by), (cx, cy) = rates[[found[-2], found[-1], i]]
            if (bx - ax) * (cy - ay) > (by - ay) * (cx - ax) + 1e-12:
                break
            found.pop()
        found.append(i)
    return np.array(found)


def areas(searched: FloatArray, test: FloatArray) -> Curve:
    """Return the areas under the curve of members, by (false positive, false negative) rates.

    The trivial classifiers are members; corners are those on the records searched.
    """
    first, last = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    members = corners(np.concatenate([searched, first, last]))
    members = members[members < len(searched)]
    found = []
    for rates in (searched, test):
        curve = np.concatenate([first, rates[members], last])
        found.append(float(np.trapezoid(1 - curve[:, 1], curve[:, 0])))
    return found[0], found[1]


def of_scores(searched: Array, positive: BoolArray, test: Array, wanted: BoolArray) -> Curve:
    """Return the areas of one score and every threshold between two records searched."""
    known = np.unique(searched)
    cuts = np.concatenate([[-np.inf], (known[1:] + known[:-1]) / 2, [np.inf]])

    def rates(scores: Array, of: BoolArray) -> FloatArray:
        called = scores[np.newaxis] > cuts[:, np.newaxis]
        return np.column_stack([called[:, ~of].mean(axis=1), (~called[:, of]).mean(axis=1)])

    return areas(rates(searched, positive), rates(test, wanted))


def rates_of(values: Any) -> FloatArray:
    return np.column_stack([values[name] for name in OBJECTIVES[:2]])


def tested(problem: NetworkProblem, X: Array, rates: FloatArray) -> Curve:
    """Return the areas of candidates that were measured; only the corners are tested."""
    some = corners(rates)
    return areas(rates[some], rates_of(problem.evaluate_test(X[some], NO_STREAMS)))


def searched(problem: NetworkProblem, evaluations: int, seed: int) -> Curve:
    """Return the areas of all that 3DFCH-EMOA evaluates."""
    roles = Roles(problem.metrics, [Objective(name, "min") for name in OBJECTIVES])
    search = FCHEMOA(problem, roles, seed=seed, population=100, batch=20)
    asked, rates, done = [], [], 0
    while done < evaluations:
        X = search.ask()
        assert X is not None
        values = problem.evaluate(X, NO_STREAMS)
        search.tell(Evaluated(np.arange(done, done + len(X)), X, values))
        asked.append(X)
        rates.append(rates_of(values))
        done += len(X)
    return tested(problem, np.concatenate(asked), np.concatenate(rates))


def enumerated(problem: NetworkProblem) -> Curve:
    """Return the areas of all levels with all thresholds."""
    levels, cuts = (np.arange(n + 1) for n in problem.space.upper.tolist())
    X = np.stack(np.meshgrid(levels, cuts), axis=-1).reshape(-1, 2).astype(problem.space.dtype)
    return tested(problem, X, rates_of(problem.evaluate(X, NO_STREAMS)))


def whole(problem: NetworkProblem) -> Curve:
    """Return the areas of the network without pruning at each threshold there is."""
    X = problem.starts()[:1]
    parts = problem.validation, problem.test
    scores = [problem._margins(X, part)[0] for part in parts]
    return of_scores(scores[0], parts[0].positive, scores[1], parts[1].positive)


def logistic(problem: NetworkProblem) -> Curve:
    """Return the areas of a logistic regression on the same records, scaled."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    folds = problem.folds or [Fold(problem.design, problem.positive, problem.validation)]
    scores = []
    for fold in folds:
        model.fit(fold.design, fold.positive)
        scores.append(model.decision_function(rows_of(fold.held)))
    model.fit(problem.design, problem.positive)
    test = model.decision_function(rows_of(problem.test))
    known = problem.validation.positive, test, problem.test.positive
    return of_scores(np.concatenate(scores), *known)


def rows_of(part: Records) -> Array:
    return part.columns[:, : len(part)].T


def methods(dataset: Any, split: int, evaluations: int) -> Iterator[tuple[str, Curve]]:
    """Yield each method with its areas."""

    def problem(**more: Any) -> NetworkProblem:
        plain = {"dataset": dataset, "split": {"seed": split}, **more}
        return NetworkProblem.from_config(NetworkConfig.model_validate(plain))

    yield MASKS, searched(problem(thresholds=0), evaluations, split)
    masks = problem()
    yield WITH_THRESHOLDS, searched(masks, evaluations, split)
    yield NETWORK, whole(masks)
    yield LOGISTIC, logistic(masks)
    levels = problem(gates="magnitude", thresholds=1024)
    yield LEVELS, enumerated(levels)
    yield NETWORK_FOLDS, whole(levels)
    yield LOGISTIC_FOLDS, logistic(levels)


def datasets() -> dict[str, Any]:
    """Return the data sets of the paper's experiment, each once."""
    raw = yaml.safe_load((ROOT / "configs/experiments/hull_networks.yaml").read_text("utf-8"))
    cases = raw["experiment"]["cases"]
    return {k: v["problem.dataset"] for k, v in cases.items() if "problem.distinct" not in v}


def compared(frame: pd.DataFrame, draws: int = 10_000) -> pd.DataFrame:
    """Return the mean gain of one method over another, its 95% range, and wins, ties and losses.

    The range is of resampled data sets; a win is a mean over splits that is better by .002.
    """
    means = frame.pivot_table(index="data", columns="method", values="test")
    drawn = np.random.default_rng(0).integers(len(means), size=(draws, len(means)))
    rows = []
    for one, other in PAIRS:
        gains = (means[one] - means[other]).to_numpy()
        low, high = np.percentile(gains[drawn].mean(axis=1), [2.5, 97.5])
        wins, losses = int((gains > 0.002).sum()), int((gains < -0.002).sum())
        score = f"{wins} / {len(gains) - wins - losses} / {losses}"
        rows.append((one, other, f"{gains.mean():+.3f}", f"{low:+.3f} to {high:+.3f}", score))
    return pd.DataFrame(rows, columns=["method", "against", "gain", "95% range", "w / t / l"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--data", nargs="+", choices=list(datasets()), default=list(datasets()))
    parser.add_argument("--out", type=Path, help="a CSV file: one row per data set, split, method")
    args = parser.parse_args(arguments)
    rows = []
    for name in args.data:
        for split in range(args.splits):
            for method, (on_searched, test) in methods(datasets()[name], split, args.evaluations):
                rows.append((name, split, method, on_searched, test))
        frame = pd.DataFrame(rows, columns=["data", "split", "method", "searched", "test"])
        if args.out:
            frame.to_csv(args.out, index=False)
        own = frame[frame["data"] == name].groupby("method", sort=False)[["searched", "test"]]
        means = own.mean()
        print(name, "; ".join(f"{k}: {a:.3f} -> {b:.3f}" for k, a, b in means.itertuples()))
    table = frame.pivot_table(index="data", columns="method", values="test", sort=False)
    deviations = frame.groupby(["data", "method"])["test"].std().unstack().mean()
    claimed = frame.groupby("method", sort=False)[["searched", "test"]].mean()
    claimed["deviation over splits"] = deviations
    with pd.option_context("display.width", 250, "display.max_columns", None):
        print(table.round(3), claimed.round(3), compared(frame), sep="\n\n")


if __name__ == "__main__":
    main()
