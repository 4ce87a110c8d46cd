"""Do fronts keep their promises? ``make promises``, or ``python scripts/promises.py --seeds 12``.

For each data set, classifier and seed, a search is run on a few hundred records. The models of some
solutions, and of those that rules choose, then answer thousands of fresh records: are their
coverage, cost and accuracy within the 95% range, and how far are they from the expected values? An
accuracy on less than ``FEWEST`` answers is left out.

``rows.jsonl`` gets a line per search. Searches in it are not repeated, so that a call that was
stopped can be continued. The tables are printed at the end; ``--show`` only prints them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ |= {"PARETOLAB_CACHE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
import pandas as pd
from timing import count

from framework.arrays import FloatArray, IntArray, evenly
from framework.errors import InputError
from paretolab import ParetoMultiStage

Row = dict[str, Any]
Records = tuple[FloatArray, IntArray]

METRICS = ("coverage", "cost", "accuracy")
RECORDS, FRESH, FEWEST, MEMBERS = 400, 3000, 60, 5
CLASSIFIERS: Mapping[str, Mapping[str, Any]] = {
    "decision_tree": {"max_depth": 5, "min_samples_leaf": 8},
    "random_forest": {"n_estimators": 10},
    "gradient_boosting": {"n_estimators": 10},
    "k_neighbors": {},
    "gaussian_nb": {},
    "logistic_regression": {},
}


def xor(rng: np.random.Generator, n: int) -> Records:
    """Return a noisy XOR of two features, two hints at it, and 10% flipped labels."""
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    X[:, 2:4] += 0.8 * (2 * y[:, None] - 1) * [1.0, 0.6]
    return X, (y ^ (rng.random(n) < 0.1)).astype(np.int64)


def noise(rng: np.random.Generator, n: int) -> Records:
    """Return classes that a line divides, with 30% flipped labels."""
    X = rng.normal(size=(n, 5))
    y = X @ [1.0, 0.8, 0.6, 0.3, 0.0] > 0
    return X, (y ^ (rng.random(n) < 0.3)).astype(np.int64)


def rare(rng: np.random.Generator, n: int) -> Records:
    """Return 5% positives."""
    y = rng.random(n) < 0.05
    X = rng.exponential(size=(n, 5)) * (1 + y[:, None] * [2.0, 1.5, 1.0, 0.5, 0.0])
    return X, y.astype(np.int64)


def rings(rng: np.random.Generator, n: int) -> Records:
    """Return four classes, each on a ring about the origin or a half of one."""
    y = rng.integers(4, size=n)
    angle, radius = rng.uniform(0, np.pi, n) + np.pi * (y % 2), 1 + y // 2 + rng.normal(0, 0.35, n)
    plane = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    more = rng.normal(size=(n, 3))
    more[:, 0] += 0.8 * y
    return np.column_stack([plane, more]), y


def digits(rng: np.random.Generator, n: int) -> Records:
    """Return all scanned digits in another order: odd or even, with five pixels as features."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    return X[order][:, [21, 28, 34, 42, 61]], (y[order] % 2).astype(np.int64)


DATA: Mapping[str, Callable[[np.random.Generator, int], Records]] = {
    "xor": xor, "noise": noise, "rare": rare, "rings": rings, "digits": digits
}  # fmt: skip
THRESHOLDS = {"noise": 0.6, "rare": 0.9}


def measured(data: str, classifier: str, seed: int, evaluations: int, one_threshold: bool) -> Row:
    """Search once; return the promised and true metrics of some solutions and of choices."""
    rng = np.random.default_rng([seed, list(DATA).index(data)])
    X, y = DATA[data](rng, RECORDS + FRESH)
    frame = pd.DataFrame(X, columns=list("abcde"))
    search = ParetoMultiStage(
        classifier={"kind": classifier, **CLASSIFIERS[classifier]},
        costs=[1.0, 2.0, 3.0, 1.0, 2.0],
        threshold=THRESHOLDS.get(data, 0.75) if one_threshold else None,
        max_stages=3,
        remove_features=True,
        reject_label="inconclusive",
        budget=evaluations,
        random_state=seed,
        verbose=False,
    ).fit(frame[:RECORDS], y[:RECORDS])
    fresh = frame[RECORDS:].reset_index(drop=True), y[RECORDS:]
    front = search.front_
    row: Row = {"data": data, "classifier": classifier, "seed": seed, "evaluations": evaluations}
    row["one_threshold"] = one_threshold
    places = evenly(len(front), MEMBERS)
    row["members"] = [worth(search, fresh, id=int(front.index[i])) for i in places]
    enough = float(front["accuracy"][front["coverage"] >= 0.7].median())
    rules: dict[str, dict[str, Any]] = {
        "best accuracy": {"where": ["coverage>=0.7"], "best": "accuracy"},
        "least cost": {"where": ["coverage>=0.7", f"accuracy>={enough:.4f}"], "best": "cost"},
        "edge": {"where": [f"accuracy>={min(enough + 0.2, 0.97):.4f}"], "best": "cost"},
    }
    row["picks"] = {name: worth(search, fresh, **rule) for name, rule in rules.items()}
    row["sure"] = {name: worth(search, fresh, sure=90, **rules[name]) for name in list(rules)[1:]}
    row["limits"] = {name: rule["where"] for name, rule in rules.items()}
    return row


def worth(
    search: ParetoMultiStage, fresh: tuple[pd.DataFrame, IntArray], **rule: Any
) -> dict[str, list[float]] | None:
    """Return claimed, expected, low, high and true value of each metric; None without a choice."""
    try:
        promises, model = search.expected(**rule), search.choose(**rule)
    except InputError:
        return None
    table = model.predict_table(fresh[0])
    answered = (table["label"] != "inconclusive").to_numpy()
    right = (table["label"].astype(str) == fresh[1].astype(str)).to_numpy()
    true = {"coverage": float(answered.mean()), "cost": float(table["cost"].mean())}
    true["accuracy"] = float(right[answered].mean()) if answered.sum() >= FEWEST else np.nan
    return {name: [*promises[name], true[name]] for name in METRICS}


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of two tables: members and picks."""
    yield (
        "| data | classifier | seeds | "
        + " | ".join(f"{of}: {name}" for of in ("members", "picks") for name in METRICS)
        + " |"
    )
    yield "| --- " * 9 + "|"
    for classifier in CLASSIFIERS:
        for data in (*DATA, "all"):
            chosen = [
                r for r in rows if r["classifier"] == classifier and data in (r["data"], "all")
            ]
            if not chosen:
                continue
            cells = [data, classifier, str(len(chosen))]
            members = [member for row in chosen for member in row["members"]]
            rules = ("best accuracy", "least cost")
            picks = [row["picks"][rule] for row in chosen for rule in rules if row["picks"][rule]]
            for group in (members, picks):
                cells += [
                    _cell(np.array([each[name] for each in group]).reshape(-1, 5))
                    for name in METRICS
                ]
            yield f"| {' | '.join(cells)} |"
    yield "holds % (expected - true, its root mean square; mean width), in hundredths"
    for guard in ("picks", "sure"):
        broken = [
            not all(_held(choice, limit) for limit in row["limits"][rule])
            for row in rows
            for rule, choice in row[guard].items()
            if choice
        ]
        edge = [row[guard]["edge"] for row in rows if row[guard]["edge"]]
        yield f"{guard}: {sum(broken)} of {len(broken)} break a limit; {len(edge)} are at the edge"


def _held(choice: Mapping[str, Sequence[float]], limit: str) -> bool:
    metric, _, value = limit.partition(">=")
    return not choice[metric][4] < float(value)


def _cell(values: FloatArray) -> str:
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        return "-"
    _, expected, low, high, true = values.T
    held = np.mean((low - 1e-9 <= true) & (true <= high + 1e-9))
    gap = 100 * (expected - true)
    return (
        f"{100 * held:.0f} ({gap.mean():+.1f}, {np.sqrt(np.mean(gap**2)):.1f}; "
        f"{100 * np.mean(high - low):.0f})"
    )


def read_rows(path: Path, evaluations: int, one_threshold: bool) -> list[Row]:
    """Return the complete rows of a file that were measured with the same options."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:  # it was being written when the call was stopped
            continue
        if (row["evaluations"], row["one_threshold"]) == (evaluations, one_threshold):
            rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=count, default=12)
    parser.add_argument("--first", type=int, default=1000, help="the first seed (%(default)s)")
    parser.add_argument("--evaluations", type=count, default=300)
    parser.add_argument(
        "--one-threshold", action="store_true", help="the search does not choose the threshold"
    )
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    kinds = list(CLASSIFIERS)
    parser.add_argument("--classifiers", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--out", type=Path, default=Path("runs/promises"), help="(%(default)s)")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    args = parser.parse_args(arguments)
    if args.out.exists() and not args.out.is_dir():
        parser.error(f"--out: expected a folder, found the file {args.out}; choose another")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "rows.jsonl"
    rows = read_rows(path, args.evaluations, args.one_threshold)
    done = {(row["data"], row["classifier"], row["seed"]) for row in rows}
    with path.open("a", encoding="utf-8") as file:
        for seed in range(args.first, args.first + args.seeds * (not args.show)):
            for classifier in args.classifiers:
                for data in args.data:
                    if (data, classifier, seed) not in done:
                        how = args.evaluations, args.one_threshold
                        rows.append(measured(data, classifier, seed, *how))
                        file.write(json.dumps(rows[-1]) + "\n")
                        file.flush()
                        print(f"{data}, {classifier}, {seed}", file=sys.stderr, flush=True)
    print("\n".join(tables(rows)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
