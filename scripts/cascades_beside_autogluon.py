"""Cascades beside AutoGluon with ``infer_limit``, at the time per record that a cascade takes.

    python -m venv AG
    AG/bin/pip install 'autogluon.tabular[lightgbm]==1.6.3' catboost xgboost-cpu
    python scripts/cascades_beside_autogluon.py --autogluon AG/bin/python

needs the data that PARETOLAB_DATA names, and runs AutoGluon in that environment, of which nothing
else here knows. Sets, models and splits are those of cascades_on_pools.py; the cascade is its
``consensus``. At two of its seven budgets (the fourth and the last, unless ``--budgets`` says
otherwise) the cascade that it hands out predicts batches of 1,000 test records. What this takes is
the ``infer_limit`` with which AutoGluon is fitted to the same training records, the same numbers,
with its default preset on one core (or ``--limit`` is). Then AutoGluon predicts the same batch.
Both times are processor time, median of five calls after one, in microseconds a record; accuracy is
that on all test records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_BATCH = 1000


def fitted(file: str, limit: float, seconds: float) -> dict[str, Any]:
    """Return how AutoGluon does on the records in a file; runs in its environment."""
    pandas, tabular = import_module("pandas"), import_module("autogluon.tabular")
    data = np.load(file)
    names = [f"x{i}" for i in range(data["X_fit"].shape[1])]
    train = pandas.DataFrame(data["X_fit"], columns=names).assign(label=data["y_fit"])
    test = pandas.DataFrame(data["X_test"], columns=names)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        found = tabular.TabularPredictor("label", path=folder, verbosity=0).fit(
            train,
            infer_limit=limit,
            infer_limit_batch_size=_BATCH,
            time_limit=seconds,
            num_cpus=1,
            num_gpus=0,
        )
        fit = time.process_time() - begun
        found.persist()
        batch = test.iloc[np.resize(np.arange(len(test)), _BATCH)]
        found.predict_proba(batch)
        took = []
        for _ in range(5):
            begun = time.process_time()
            found.predict_proba(batch)
            took.append(time.process_time() - begun)
        return {
            "AutoGluon": tabular.__version__,
            "its model": found.model_best,
            "of": len(found.model_names()),
            "its time": 1e6 / _BATCH * float(np.median(took)),
            "its accuracy": float((found.predict(test).to_numpy() == data["y_test"]).mean()),
            "fit": fit,
        }


def compared(args: argparse.Namespace, name: str) -> Iterator[dict[str, Any]]:
    """Yield a row per budget: what a cascade does, and AutoGluon at its time."""
    import cascades_on_pools as pools
    from sklearn.model_selection import train_test_split

    from framework.streams import CandidateStreams

    X, y = pools.data_of(name)
    split = pools.split_of(X, y, args.split)
    X_fit, X_test, y_fit, y_test = train_test_split(
        X, y, test_size=pools.TEST, random_state=args.split, stratify=y
    )
    times = split.library.costs["time"].values
    budgets = np.geomspace(times.min(), times.max(), pools.BUDGETS)
    told: dict[str, Any] = {method: rest for method, *rest in pools.fronts_of(split)}
    problem, genomes, metric = told["consensus"]
    values = problem.evaluate(genomes, CandidateStreams(0, np.arange(len(genomes))))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.npz"
        np.savez(file, X_fit=X_fit, X_test=X_test, y_fit=y_fit, y_test=y_test)
        for number in args.budgets:
            best = pools.picked(values, metric, budgets[number])
            x = genomes[best : best + 1]
            tested = problem.evaluate_test(x)
            assert tested is not None
            row = {
                "set": name,
                "budget": number,
                "time": pools.lazily(problem, x[0], split)["lazy"],
                "accuracy": tested["accuracy"][0],
            }
            limit = (row["time"] if args.limit is None else args.limit) / 1e6
            words = [args.autogluon, __file__, "--fit", file, limit, args.seconds]
            done = subprocess.run(
                list(map(str, words)),
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                yield row | {"its model": f"failed: {done.stderr.strip().splitlines()[-1][:200]}"}
            else:
                yield row | json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print a table: each set and budget, a cascade and AutoGluon."""
    if sys.argv[1:2] == ["--fit"]:  # in the environment of AutoGluon
        file, limit, seconds = sys.argv[2:]
        print(json.dumps(fitted(file, float(limit), float(seconds))))
        return
    import pandas as pd
    from cascades_on_pools import SETS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--autogluon", required=True, metavar="PYTHON", help="that has it")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--budgets", type=int, nargs="+", default=[3, 6], help="of 0 to 6")
    parser.add_argument("--limit", type=float, help="microseconds; a cascade's own time if none")
    parser.add_argument("--seconds", type=float, default=120.0, help="AutoGluon's time_limit")
    args = parser.parse_args()
    rows = []
    for name in args.sets:
        for row in compared(args, name):
            print(row, flush=True)
            rows.append(row)
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.4f}".format))


if __name__ == "__main__":
    main()
