"""What cascades tuned on a few records are worth on others: areas under error over cost.

    python scripts/cascades_on_calls.py TABLE... [--records 30 100 300] [--splits 12]
    python scripts/cascades_on_calls.py TABLE... --sure 95 [--records 100 300] [--splits 200]

A TABLE is a file of calls (docs/cascades.md), or several of one pool joined by ``+``. In each
split so many records are drawn to tune on, and all others are the test. The corners of the hull
that a method promises, cheapest first, are joined by lines (who draws lots between two has their
mean), and the area under test error over test cost is taken from the cheapest to the dearest single
model: nothing is chosen on test. Printed are the means over splits and tables, the number of
tables on which a method is below raw pairs, and by how many points the most accurate promise is
missed. The area with a logarithmic axis of costs is beside it.

With ``--sure`` it is printed how often a budget is kept on all other records: that of the most
accurate calibrated pair that meets it on the tuning records, and of the one that meets it in so
many per cent of their resamples. Budgets lie an eighth, a quarter and a half of the way from the
cheapest to the dearest single model. A split is one draw of the tuning records.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from algorithms.cascade.enumeration import Point, hull
from algorithms.cascade.exact import ExactCascades
from algorithms.cascade.problem import CascadeProblem
from framework.analysis.expectations import Resamples
from framework.arrays import Array, FloatArray
from framework.data.table_files import read_frame
from framework.libraries.call_files import calls_of
from framework.libraries.calls import UNIT, CallTable
from framework.roles import Objective, Roles

METHODS = {
    "pairs": {"outcomes": "raw", "front": "hull"},
    "at most 3": {"outcomes": "raw", "front": "hull", "max_models": 3},
    "calibrated pairs": {"outcomes": "calibrated"},
    "calibrated, at most 3": {"outcomes": "calibrated", "max_models": 3},
}


def main(words: list[str] | None = None) -> int:
    """Print a table per number of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--records", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--splits", type=int, default=12)
    parser.add_argument("--sure", type=float, help="per cent: how often budgets are kept")
    args = parser.parse_args(words)
    pools = {text: _pool(text) for text in args.tables}
    for n in args.records if args.sure is not None else ():
        kept = {
            name: _mean([budgets(pool, n, split, args.sure) for split in range(args.splits)])
            for name, pool in pools.items()
            if pool.n > 2 * n
        }
        print(f"{n} records to tune on, {len(kept)} tables, {args.splits} splits each")
        print(pd.DataFrame(kept).T.describe().loc[["mean", "min"]].T.to_string(), flush=True)
    for n in args.records if args.sure is None else ():
        rows = {
            name: _mean([areas(pool, n, split) for split in range(args.splits)])
            for name, pool in pools.items()
            if pool.n > n
        }
        table = pd.DataFrame(rows).T
        shown = table[[c for c in table.columns if not c.startswith(("missed", "log"))]]
        summary = pd.DataFrame(
            {
                "area": shown.mean(),
                "log axis": [table[f"log {c}"].mean() for c in shown.columns],
                "against pairs": shown.mean() / shown["pairs"].mean() - 1,
                "tables below pairs": shown.lt(shown["pairs"], axis=0).sum(),
                "promise missed by": [
                    table.get(f"missed {c}", np.nan * table["pairs"]).mean() for c in shown.columns
                ],
            }
        )
        print(f"{n} records to tune on, {len(table)} tables, {args.splits} splits each")
        print(summary.to_string(float_format="{:.4f}".format), flush=True)
    return 0


def areas(pool: CallTable, n: int, split: int) -> dict[str, float]:
    """Return the area of each method for one split, and by how much its best promise is missed."""
    order = np.random.default_rng([split, n]).permutation(pool.n)
    tuning, test = pool.take(np.sort(order[:n])), pool.take(np.sort(order[n:]))
    problem = CascadeProblem(tuning, test=test)
    alone = np.eye(problem.calls.k, dtype=problem.space.dtype)
    singles = _on_test(problem, alone)
    ends = singles[:, 0].min(), singles[:, 0].max()
    roles = Roles(problem.metrics, [Objective("accuracy", "max"), Objective("cost", "min")])
    found = {}
    points = [
        Point(n, int(right), int(cost), (m,), ())
        for m, (right, cost) in enumerate(
            zip(
                problem.calls.right.sum(axis=1),
                problem.calls.costs["cost"].values.sum(axis=1),
                strict=True,
            )
        )
    ]
    mixed = [point.chain[0] for point in hull(points)]
    found["singles, mixed"] = area(singles[mixed], *ends)
    found["log singles, mixed"] = area(singles[mixed], *ends, logarithmic=True)
    for name, options in METHODS.items():
        search = ExactCascades(problem, roles, seed=0, **options)  # type: ignore[arg-type]
        X = search.best()
        tested = _on_test(problem, X)
        found[name] = area(tested, *ends)
        found[f"log {name}"] = area(tested, *ends, logarithmic=True)
        promised = problem.evaluate(X)[search.metric]
        best = int(np.argmax(promised))
        found[f"missed {name}"] = float(promised[best] - (1 - tested[best, 1]))
    return found


def budgets(pool: CallTable, n: int, split: int, sure: float) -> dict[str, float]:
    """Return which budgets are kept on test (1 or 0), with and without resamples, for one split.

    And what the caution costs: points of accuracy on test.
    """
    order = np.random.default_rng([split, n]).permutation(pool.n)
    tuning, test = pool.take(np.sort(order[:n])), pool.take(np.sort(order[n:]))
    problem = CascadeProblem(tuning, test=test)
    roles = Roles(problem.metrics, [Objective("accuracy", "max"), Objective("cost", "min")])
    X = ExactCascades(problem, roles, seed=0).propose()
    assert X is not None
    values, tested = problem.evaluate(X), _on_test(problem, X)
    alone = [c.mean() for c in tuning.costs["cost"].values / UNIT]
    resamples = Resamples(problem.outcomes(X), split)
    drawn = resamples.outcomes.metrics(resamples.weights, names=["cost"])["cost"]
    found = {}
    for part in (8, 4, 2):
        budget = min(alone) + (max(alone) - min(alone)) / part
        plain = values["cost"] <= budget
        careful = plain & ((drawn <= budget).mean(axis=1) >= sure / 100)
        picks = {}
        for name, within in (("plain", plain), ("sure", careful)):
            best = np.where(within, values["calibrated_accuracy"], -1.0)
            picks[name] = int(np.argmax(best)) if within.any() else None
            at = picks[name]
            found[f"1/{part} {name}"] = float(at is None or tested[at, 0] <= budget)
        a, b = picks["plain"], picks["sure"]
        found[f"1/{part} price"] = np.nan if a is None or b is None else tested[b, 1] - tested[a, 1]
    return found


def area(points: FloatArray, low: float, high: float, *, logarithmic: bool = False) -> float:
    """Return the mean error from one cost to another along the line through points (n, 2)."""
    order = np.argsort(points[:, 0], kind="stable")
    grid = np.geomspace(low, high, 2001) if logarithmic else np.linspace(low, high, 2001)
    return float(np.interp(grid, points[order, 0], points[order, 1]).mean())


def _on_test(problem: CascadeProblem, X: Array) -> FloatArray:
    values = problem.evaluate_test(X)
    assert values is not None
    return np.column_stack([values["cost"], 1 - values["accuracy"]])


def _pool(text: str) -> CallTable:
    frames = [read_frame(Path(part)) for part in text.split("+")]
    joined = pd.concat([frame[frames[0].columns] for frame in frames], ignore_index=True)
    return calls_of(joined.drop(columns="record", errors="ignore"), name=text)


def _mean(rows: list[dict[str, float]]) -> pd.Series[float]:
    return pd.DataFrame(rows).mean()


if __name__ == "__main__":
    sys.exit(main())
