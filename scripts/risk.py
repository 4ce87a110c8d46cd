"""Stages that decide by costs, measured beside the plain rule and one logistic regression.

``table`` writes the made-up patients of ``configs/multistage/risk.yaml``. ``compare`` measures data
sets on several splits and prints a table of each. A row is a set of features: *one model* is a
logistic regression on all of them, which says the class of least expected cost, or nothing where
that cost is above that of no answer. *by cost* and *plain* are the designs of two searched fronts
that have the least risk, measured out-of-fold, and acquire no more than the set costs: stages that
decide by costs, and the paper's, which wait for a confidence of .75. *simple* is the design of the
former front with the fewest stages among those whose risk is within 2% of the least. All are fitted
on the training and validation records of the split, and all figures are those of the test records:
means over the splits, with the least and the greatest. The rows of each split are kept in the
folder ``--out``: a command that was stopped goes on. ``churn``, ``bank`` and ``credit`` are read
from the package ``empulse``; their errors cost the mean of their class, and *own* is what the
records' own costs make of the answers.

    python scripts/risk.py table --out configs/multistage/patients.csv
    python scripts/risk.py compare patients german --splits 10 --budget 1500
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.problem import MultiStageProblem
from framework.analysis.choose import Condition, choose
from framework.arrays import Array, FloatArray, IntArray
from framework.data.datasets import DatasetConfig, load_table
from framework.data.divisions import divide
from framework.data.error_costs import DecisionConfig, DecisionCosts, decision_costs
from framework.data.splits import MeasureConfig, SplitConfig
from framework.estimators.search import roles_for, search
from framework.experiment.config import load_config
from framework.front import Front

_RECORDS = 20_000
_SOME, _FEATURES = 10_000, 6  # records of the large sets, features of those that are no patients
_CONFIG = Path(__file__).parents[1] / "configs" / "multistage" / "risk.yaml"
_WORSE = 0.005  # share of the other's risk from which on a difference is called one
_TITLES = {"model": "one model", "by_cost": "by cost", "simple": "simple", "plain": "plain"}
_WITHIN = "risk=2%"  # of the least: what counts as no worse
_NOTHING = 1e-9  # of a price: rounding


class Case(NamedTuple):
    """A data set with its costs.

    ``steps`` are the feature sets of the rows, each with more; ``own``, where there is one, what an
    error about each record costs, (n,).
    """

    frame: pd.DataFrame
    target: str
    errors: dict[Any, float]
    no_answer: float
    prices: dict[str, float]
    steps: list[list[str]]
    rarest: Any
    own: FloatArray | None = None


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
    """Return the patients with the costs of the shipped configuration."""
    problem = load_config(_CONFIG).problem
    prices, decision = problem["costs"]["values"], problem["decision"]
    names = list(prices)
    steps = [names[: i + 1] for i in range(len(names))]
    costs = decision["errors"], decision["no_answer"], prices
    return Case(patients(), problem["dataset"]["target"], *costs, steps, "shock")


def _priced(
    frame: pd.DataFrame,
    target: str,
    errors: dict[Any, float],
    own: pd.Series[float] | None = None,
) -> Case:
    """Return a case with the six features that say most, in that order, and two classes.

    No answer costs what the better answer that is the same for all does, a feature 1% of that.
    """
    X, y = frame.drop(columns=target), frame[target]
    X = X.select_dtypes("number")
    power = X.corrwith(y.astype(float)).abs().sort_values(ascending=False)
    names = list(power.index[:_FEATURES])
    steps = [names[:i] for i in (1, 2, 3, _FEATURES)]
    no_answer = round(min(errors[k] * float((y == k).mean()) for k in errors), 4)
    kept = pd.concat([X[names], y.rename(target)], axis=1)
    prices = dict.fromkeys(names, round(0.01 * no_answer, 6))
    costs = None if own is None else np.asarray(own, dtype=np.float64)
    return Case(kept, target, errors, no_answer, prices, steps, 1, costs)


def _german() -> Case:
    table = load_table(DatasetConfig(name="german"))
    frame = table.features.assign(target=table.labels)
    return _priced(frame, "target", {1: 5.0, 0: 1.0})


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


def _by_record(frame: pd.DataFrame, target: str, of: dict[int, pd.Series[float]]) -> Case:
    """Return a case whose errors about each class cost ``of`` it by record."""
    errors = {k: round(float(costs.mean()), 4) for k, costs in of.items()}
    own = of[0].where(frame[target] == 0, of[1])
    return _priced(frame, target, errors, own)


def _churn() -> Case:
    frame = _empulse("churn_tv_subscriptions", "target")
    missed = (frame.pop("C_FN") - frame.pop("C_TP")) / 1000
    called = (frame.pop("C_FP") - frame.pop("C_TN")) / 1000
    return _by_record(frame, "target", {1: missed, 0: called})


def _bank() -> Case:
    frame = _empulse("bankmarketing", "y", ";").sample(_SOME, random_state=0)
    frame = frame.drop(columns="duration")  # known afterwards
    missed = (0.02463333 * 0.25 * frame["balance"]).clip(lower=1) - 1
    return _by_record(frame, "y", {1: missed, 0: missed * 0 + 1})


def _credit() -> Case:
    frame = _empulse("creditscoring1", "SeriousDlqin2yrs").dropna().sample(_SOME, random_state=0)
    # of a default: three months' income lent, three quarters of it lost; of a refusal: interest
    lent = (3 * frame["MonthlyIncome"]).clip(upper=25_000) / 1000
    return _by_record(frame, "SeriousDlqin2yrs", {1: 0.75 * lent, 0: 0.05 * lent})


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


def _searched(problem: MultiStageProblem, objectives: Sequence[str], budget: int) -> Front:
    kind = {"kind": "local_search", "neighbours": 10}
    return search(problem, roles_for(problem, objectives), kind, budget, 0).front


def _picks(front: Front, case: Case, price: float) -> dict[str, int]:
    """Return what is picked of a front for at most a price, by the name of the rule."""
    limit, values = [Condition("cost", "<=", price + _NOTHING)], front.rows.values
    if "risk" in values:
        least = choose(front, where=limit, best="risk")
        few = choose(front, where=limit, within=[_WITHIN], best="stages")
        return {"by_cost": least, "simple": few}
    risk = values["error_cost"] + case.no_answer * values["inconclusive_rate"]
    fits = np.flatnonzero(limit[0].holds(values["cost"]))
    return {"plain": int(fits[np.argmin(risk[fits])])} if len(fits) else {}


def _parts(case: Case, path: Path, seed: int) -> tuple[IntArray, IntArray]:
    """Return the records to fit on and those to test on, as the problem divides them.

    It keeps records together whose features are all equal.
    """
    table = load_table(DatasetConfig(path=path, target=case.target))
    split = divide(table, SplitConfig(seed=seed), MeasureConfig()).split
    return split.pooled, split.test


def _judged(
    case: Case, costs: DecisionCosts, rows: IntArray, said: Array, kind: str
) -> dict[str, float]:
    """Return risk and recall of the rarest class, of answers to some records, None for none."""
    y = case.frame[case.target].to_numpy()[rows]
    code = {str(label): i for i, label in enumerate(np.unique(y))}
    none = np.array([s is None for s in said])
    lost = np.array(
        [
            costs.no_answer if s is None else costs.errors[code[str(t)], code[str(s)]]
            for t, s in zip(y, said, strict=True)
        ]
    )
    hits = np.array([str(s) == str(case.rarest) for s in said])
    found = {f"{kind}_risk": lost.mean(), f"{kind}_recall": hits[y == case.rarest].mean()}
    if case.own is not None:
        own = np.where(none, costs.no_answer, np.where(lost > 0, case.own[rows], 0.0))
        found[f"{kind}_own"] = own.mean()
    return {name: float(value) for name, value in found.items()}


def _one_model(
    case: Case, costs: DecisionCosts, rows: IntArray, test: IntArray, features: list[str]
) -> Array:
    """Return what one logistic regression says of test records, deciding by the costs."""
    X = case.frame[features].to_numpy(dtype=float)
    X = np.where(np.isnan(X), np.nanmedian(X[rows], axis=0), X)
    mean, spread = X[rows].mean(axis=0), X[rows].std(axis=0)
    X = (X - mean) / np.where(spread > 0, spread, 1)
    model = LogisticRegression(max_iter=1000).fit(X[rows], case.frame[case.target].iloc[rows])
    codes, risk = costs.said(model.predict_proba(X[test]))
    said: Array = model.classes_[codes].astype(object)
    said[risk > costs.no_answer] = None
    return said


def measured(case: Case, path: Path, seed: int, budget: int) -> pd.DataFrame:
    """Return one row per feature set of a split; ``path`` has the records as a table."""
    classes = sorted(case.frame[case.target].unique())
    section: dict[str, Any] = {"errors": case.errors, "no_answer": case.no_answer}
    costs = decision_costs(DecisionConfig(**section), classes)
    decision = {"decision": {**section, "per_stage": True}}
    by_cost = _problem(case, path, seed, decision)
    plain = _problem(case, path, seed, {"error_costs": case.errors})
    usual = ("coverage", "accuracy", "cost", "error_cost")
    fronts = [
        (by_cost, _searched(by_cost, ("risk", "cost", "stages"), budget)),
        (plain, _searched(plain, usual, budget)),
    ]
    rows, test = _parts(case, path, seed)
    frame = case.frame.iloc[test].drop(columns=case.target)
    found = []
    for features in case.steps:
        price = sum(case.prices[f] for f in features)
        row: dict[str, Any] = {"split": seed, "features": len(features), "price": price}
        row |= _judged(case, costs, test, _one_model(case, costs, rows, test, features), "model")
        for problem, front in fronts:
            for kind, position in _picks(front, case, price).items():
                table = problem.decode(front.X[position]).predict_table(frame)
                said = np.array(table["label"], dtype=object)
                said[said == "inconclusive"] = None
                row |= _judged(case, costs, test, said, kind)
                row[f"{kind}_paid"] = float(table["cost"].mean())
        found.append(row)
    return pd.DataFrame(found)


def compare(name: str, splits: int, budget: int, out: Path) -> pd.DataFrame:
    """Return one row per split and feature set; those that ``out`` has are not measured again."""
    case, found = CASES[name](), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.csv"
        case.frame.to_csv(path, index=False)
        for seed in range(splits):
            kept = out / f"{name}_{budget}_{seed}.csv"
            if not kept.is_file():
                rows, begun = measured(case, path, seed, budget), kept.with_suffix(".part")
                rows.to_csv(begun, index=False)
                begun.rename(kept)
            found.append(pd.read_csv(kept))
            print(f"{name}: split {seed + 1} of {splits}", file=sys.stderr, flush=True)
    return pd.concat(found, ignore_index=True)


def summary(rows: pd.DataFrame) -> str:
    """Return the table of the documentation: a line per feature set, means with their ranges."""

    def shown(values: pd.Series[float]) -> str:
        mean, low, high = (f"{v:.3f}" for v in (values.mean(), values.min(), values.max()))
        return f"{mean} ({low} to {high})"

    lines = []
    for price, of in rows.groupby("price"):
        splits = len(of)
        line = {"features": str(of["features"].iloc[0]), "price": f"{price:.3g}"}
        for kind, title in _TITLES.items():
            line[f"{title}: risk"] = shown(of[f"{kind}_risk"])
            line[f"{title}: recall"] = shown(of[f"{kind}_recall"])
            if f"{kind}_paid" in of:
                line[f"{title}: paid"] = f"{of[f'{kind}_paid'].mean():.3f}"
            if f"{kind}_own" in of:
                line[f"{title}: own"] = shown(of[f"{kind}_own"])
        for kind in ("by_cost", "simple"):
            title = f"{_TITLES[kind]} - one model"
            gap, limit = of[f"{kind}_risk"] - of["model_risk"], _WORSE * of["model_risk"]
            line[title] = shown(gap)
            worse = f"{(gap > limit).sum()}, {(gap < -limit).sum()} of {splits}"
            line[f"{title}: worse, better"] = worse
        lines.append(line)
    titles = list(lines[0])
    ruled = [titles, ["---"] * len(titles), *([line[t] for t in titles] for line in lines)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ruled)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table")
    table.add_argument("--out", type=Path, required=True)
    compared = commands.add_parser("compare")
    compared.add_argument("names", nargs="+", choices=CASES)
    compared.add_argument("--splits", type=int, default=10)
    compared.add_argument("--budget", type=int, default=1500)
    compared.add_argument("--out", type=Path, default=Path("runs/risk-compared"))
    args = parser.parse_args()
    if args.command == "table":
        patients().to_csv(args.out, index=False)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        rows = compare(name, args.splits, args.budget, args.out)
        print(f"\n{name}, test records of {args.splits} splits\n\n{summary(rows)}")


if __name__ == "__main__":
    main()
