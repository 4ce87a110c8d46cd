"""Stages that decide by costs, measured beside the plain rule and one logistic regression.

``table`` writes the made-up patients of ``configs/multistage/risk.yaml``. ``compare`` measures data
sets on several splits and prints a table. A row is a set of features: *one model* is a logistic
regression on all of them, which says the class of least expected cost, or nothing where that cost
is above that of no answer. *plain* and *by cost* are the designs of two searched fronts that have
the least risk, measured out-of-fold, and acquire no more than the set costs. All are fitted on the
training and validation records of the split, and all figures are those of the test records.

    python scripts/risk.py table --out configs/multistage/patients.csv
    python scripts/risk.py compare patients german --splits 3
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.data import MultiStageConfig
from algorithms.multistage.problem import MultiStageProblem
from framework.arrays import Array, FloatArray
from framework.data.error_costs import DecisionConfig, DecisionCosts, decision_costs
from framework.estimators.search import roles_for, search

_RECORDS = 20_000
_PRICES = {
    "age": 0.002,
    "heart_rate": 0.01,
    "temperature": 0.01,
    "spo2": 0.04,
    "crp": 0.24,
    "lactate": 0.4,
}


class Case(NamedTuple):
    """A data set with its costs: ``steps`` are the feature sets of the rows, each with more."""

    frame: pd.DataFrame
    target: str
    errors: dict[Any, float]
    no_answer: float
    prices: dict[str, float]
    steps: list[list[str]]
    rarest: Any


def patients(records: int = _RECORDS, seed: int = 0) -> pd.DataFrame:
    """Return made-up patients: 3% have a septic shock, 12% a sepsis."""
    rng = np.random.default_rng(seed)
    severity = rng.normal(size=records)
    ranks = severity.argsort().argsort() / records
    state = np.where(ranks >= 0.97, "shock", np.where(ranks >= 0.85, "sepsis", "ok"))

    def seen(share: float, mean: float, spread: float, digits: int = 0) -> FloatArray:
        signal = share * severity + np.sqrt(1 - share**2) * rng.normal(size=records)
        return np.asarray(np.round(mean + spread * signal, digits))

    return pd.DataFrame(
        {
            "age": seen(0.35, 61, 17),
            "heart_rate": seen(0.45, 88, 18),
            "temperature": seen(0.4, 37.3, 0.9, 1),
            "spo2": seen(-0.55, 95, 3),
            "crp": np.round(np.exp(seen(0.7, 3.0, 1.1, 3)), 1),
            "lactate": np.round(np.exp(seen(0.75, 0.5, 0.5, 3)), 2),
            "state": state,
        }
    )


def _patients() -> Case:
    names = list(_PRICES)
    steps = [names[: i + 1] for i in range(len(names))]
    return Case(
        patients(), "state", {"shock": 50, "sepsis": 5, "ok": 1}, 2.5, _PRICES, steps, "shock"
    )


def _priced(
    frame: pd.DataFrame, target: str, errors: dict[Any, float], no_answer: float, most: int
) -> Case:
    """Return a case with the features that say most, in that order, at 1% of an error each."""
    X, y = frame.drop(columns=target), frame[target]
    X = X.select_dtypes("number")
    power = X.corrwith(y.astype(float)).abs().sort_values(ascending=False)
    names = list(power.index[:most])
    steps = [names[:i] for i in sorted({1, 2, most // 2, most})]
    kept = pd.concat([X[names], y.rename(target)], axis=1)
    prices = dict.fromkeys(names, 0.01 * float(np.mean(list(errors.values()))))
    return Case(kept, target, errors, no_answer, prices, steps, 1)


def _german() -> Case:
    from framework.data.datasets import DatasetConfig, load_table

    table = load_table(DatasetConfig(name="german"))
    frame = table.features.assign(target=table.labels)
    return _priced(frame, "target", {1: 5.0, 0: 1.0}, 0.4, 8)


def _empulse(name: str, target: str, sep: str = ",") -> pd.DataFrame:
    spec = find_spec("empulse")
    if spec is None or spec.origin is None:
        raise SystemExit("scripts/risk.py: expected the package empulse; pip install empulse")
    path = Path(spec.origin).parent / "datasets" / "data" / f"{name}.csv.gz"
    with gzip.open(path) as file:
        frame = pd.read_csv(file, sep=sep).drop(columns="id", errors="ignore")
    return frame.assign(
        **{target: (frame[target].astype(str).isin(["1", "1.0", "yes", "True"])).astype(int)}
    )


def _churn() -> Case:
    frame = _empulse("churn_tv_subscriptions", "target")
    # costs by record; a class has their mean, in thousands
    costs = {1: frame.pop("C_FN") - frame.pop("C_TP"), 0: frame.pop("C_FP") - frame.pop("C_TN")}
    errors = {k: round(float(c.mean()) / 1000, 4) for k, c in costs.items()}
    return _priced(frame, "target", errors, errors[0] / 2, 8)


def _bank() -> Case:
    frame = _empulse("bankmarketing", "y", ";").sample(20_000, random_state=0)
    frame = frame.drop(columns="duration")  # known afterwards
    missed = np.maximum(0.02463333 * 0.25 * frame["balance"], 1).mean() - 1
    return _priced(frame, "y", {1: round(float(missed), 4), 0: 1.0}, 0.3, 6)


def _credit() -> Case:
    frame = _empulse("creditscoring1", "SeriousDlqin2yrs").dropna().sample(20_000, random_state=0)
    # of a default: three months' income lent, three quarters of it lost; of a refusal: interest
    lent = np.minimum(3 * frame["MonthlyIncome"], 25_000).mean() / 1000
    errors = {1: round(0.75 * float(lent), 4), 0: round(0.05 * float(lent), 4)}
    return _priced(frame, "SeriousDlqin2yrs", errors, errors[0] / 2, 8)


CASES = {
    "patients": _patients,
    "german": _german,
    "churn": _churn,
    "bank": _bank,
    "credit": _credit,
}


def _problem(case: Case, path: Path, seed: int, section: dict[str, Any]) -> MultiStageProblem:
    raw = {
        "dataset": {"path": str(path), "target": case.target},
        "split": {"train": 0.5, "validation": 0.25, "test": 0.25, "seed": seed},
        "costs": {"values": case.prices},
        "max_stages": 3,
        "remove_features": True,
        "measure": {"kind": "cross_validation"},
        **section,
    }
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(raw))


def _searched(
    problem: MultiStageProblem, objectives: Sequence[str], budget: int, no_answer: float
) -> tuple[Array, FloatArray, FloatArray]:
    """Return the front, with its risk and cost as they were measured."""
    kind = {"kind": "local_search", "neighbours": 10}
    roles = roles_for(problem, objectives)
    front = search(problem, roles, kind, budget, 0).front
    values = front.rows.values
    risk = values.get("risk")
    if risk is None:
        risk = values["error_cost"] + no_answer * values["inconclusive_rate"]
    return front.X, risk, values["cost"]


def _test_rows(case: Case, problem: MultiStageProblem, seed: int) -> tuple[pd.DataFrame, Array]:
    from framework.data.splits import SplitConfig, split_records

    labels = np.unique(case.frame[case.target], return_inverse=True)[1]
    split = split_records(labels, SplitConfig(seed=seed))
    rows = case.frame.iloc[split.test]
    assert len(rows) == problem.data.n_test
    return rows.drop(columns=case.target), rows[case.target].to_numpy()


def _judged(case: Case, costs: DecisionCosts, y: Array, said: Array) -> tuple[float, float]:
    """Return the mean cost of answers, None for none, and the recall of the rarest class."""
    labels = np.unique(y)
    code = {str(label): i for i, label in enumerate(labels)}
    lost = [
        costs.no_answer if s is None else costs.errors[code[str(t)], code[str(s)]]
        for t, s in zip(y, said, strict=True)
    ]
    rare = y == case.rarest
    hits = np.array([str(s) == str(case.rarest) for s in said])
    return float(np.mean(lost)), float(hits[rare].mean())


def _one_model(
    case: Case, costs: DecisionCosts, seed: int, features: list[str]
) -> tuple[float, float]:
    """Return risk and recall of one logistic regression that decides by the costs."""
    from framework.data.splits import SplitConfig, split_records

    y = case.frame[case.target].to_numpy()
    split = split_records(np.unique(y, return_inverse=True)[1], SplitConfig(seed=seed))
    X = case.frame[features].to_numpy(dtype=float)
    rows = np.concatenate([split.train, split.validation])
    X = np.where(np.isnan(X), np.nanmedian(X[rows], axis=0), X)
    mean, spread = X[rows].mean(axis=0), X[rows].std(axis=0)
    X = (X - mean) / np.where(spread > 0, spread, 1)
    model = LogisticRegression(max_iter=1000).fit(X[rows], y[rows])
    codes, risk = costs.said(model.predict_proba(X[split.test]))
    said = model.classes_[codes].astype(object)
    said[risk > costs.no_answer] = None
    return _judged(case, costs, y[split.test], said)


def compare(name: str, splits: int, budget: int) -> pd.DataFrame:
    """Return one row per split and feature set."""
    case = CASES[name]()
    classes = sorted(case.frame[case.target].unique())
    section: dict[str, Any] = {"errors": case.errors, "no_answer": case.no_answer}
    costs = decision_costs(DecisionConfig(**section), classes)
    by_cost = {"decision": {**section, "per_stage": True}}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.csv"
        case.frame.to_csv(path, index=False)
        for seed in range(splits):
            problems = [
                (_problem(case, path, seed, by_cost), ("risk", "cost")),
                (
                    _problem(case, path, seed, {"error_costs": case.errors}),
                    ("coverage", "accuracy", "cost", "error_cost"),
                ),
            ]
            fronts = [(p, _searched(p, names, budget, case.no_answer)) for p, names in problems]
            frame, y = _test_rows(case, problems[0][0], seed)
            for features in case.steps:
                price = sum(case.prices[f] for f in features)
                row: dict[str, Any] = {"split": seed, "features": len(features), "price": price}
                row["model_risk"], row["model_recall"] = _one_model(case, costs, seed, features)
                for kind, (problem, (X, risk, cost)) in zip(
                    ("by_cost", "plain"), fronts, strict=True
                ):
                    fits = np.flatnonzero(cost <= price + 1e-9)
                    if len(fits) == 0:
                        continue
                    best = fits[np.argmin(risk[fits])]
                    table = problem.decode(X[best]).predict_table(frame)
                    said = np.array(table["label"], dtype=object)
                    said[said == "inconclusive"] = None
                    row[f"{kind}_risk"], row[f"{kind}_recall"] = _judged(case, costs, y, said)
                    row[f"{kind}_paid"] = float(table["cost"].mean())
                found.append(row)
                print(row, flush=True)
    return pd.DataFrame(found)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table")
    table.add_argument("--out", type=Path, required=True)
    measured = commands.add_parser("compare")
    measured.add_argument("names", nargs="+", choices=CASES)
    measured.add_argument("--splits", type=int, default=3)
    measured.add_argument("--budget", type=int, default=3000)
    measured.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.command == "table":
        patients().to_csv(args.out, index=False)
        return
    for name in args.names:
        rows = compare(name, args.splits, args.budget)
        if args.out is not None:
            rows.to_csv(args.out / f"risk_{name}.csv", index=False)
        groups = rows.drop(columns="split").groupby(["features", "price"])
        print(f"\n{name}: mean over {args.splits} splits\n{groups.mean().round(3).to_string()}")
        print(f"least and greatest\n{groups.agg(['min', 'max']).round(3).to_string()}")


if __name__ == "__main__":
    main()
