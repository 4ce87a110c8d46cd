"""How time and memory of a search grow with records, features and evaluations.

    python scripts/scaling.py --csv docs/results/scaling.csv

Each row is measured in a separate process. It compiles kernels with a small table, makes a table of
two classes, fits ``ParetoMultiStage`` with its defaults, which include five folds, and then reads
``front_``. The table has CPU seconds and peak memory. The exponent is that of the time of the fit
between a row and the one before it on the same axis.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from framework.arrays import FloatArray, IntArray

HEADS = ["axis", "records", "features", "evaluations", "fit s", "exponent", "front_ s", "MB"]
BASE = {"records": 10_000, "features": 10, "evaluations": 10_000}
AXES = {
    "records": [1_000, 10_000, 100_000, 1_000_000],
    "features": [10, 20, 50, 100, 200],
    "evaluations": [10_000, 100_000, 1_000_000],
}


def table(records: int, features: int) -> tuple[FloatArray, IntArray]:
    """Return features, of which about two in five depend on the class, and the classes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(records, features))
    weights = random.normal(size=features) * (random.random(features) < 0.4)
    score = X @ weights / max(1.0, np.sqrt((weights**2).sum())) + random.normal(size=records) / 2
    return X, (score > 0).astype(np.int64)


def measured(records: int, features: int, evaluations: int) -> dict[str, float]:
    """Return CPU seconds of the fit and of its front, and the peak memory of this process in MB."""
    from paretolab import ParetoMultiStage

    ParetoMultiStage(budget=200).fit(*table(300, 16)).front_  # noqa: B018
    X, y = table(records, features)
    began = time.process_time()
    search = ParetoMultiStage(budget=evaluations).fit(X, y)
    searched = time.process_time()
    search.front_  # noqa: B018
    return {
        "fit": searched - began,
        "front": time.process_time() - searched,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def row(axis: str, size: dict[str, int], limit: float) -> dict[str, Any]:
    """Measure a row in another process; the row has no figures if that takes too long."""
    command = [sys.executable, __file__, "--one", *map(str, size.values())]
    figures: dict[str, float] = {}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=limit, check=True)
        figures = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        pass
    return {"axis": axis, **size, **figures}


def shown(rows: Sequence[dict[str, Any]], limit: float) -> list[list[str]]:
    """Return the cells of rows, in which each axis ascends."""
    cells = []
    for before, now in zip([{}, *rows], rows, strict=False):
        axis, slope = now["axis"], ""
        if before.get("axis") == axis and "fit" in before and "fit" in now:
            growth = now[axis] / before[axis]
            slope = f"{log(now['fit'] / before['fit']) / log(growth):.2f}"
        sizes = [str(now[name]) for name in BASE]
        figures = [f"over {limit:g}", "", "", ""]
        if "fit" in now:
            figures = [f"{now['fit']:.2f}", slope, f"{now['front']:.2f}", f"{now['MB']:.0f}"]
        cells.append([axis, *sizes, *figures])
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--axis", choices=AXES, action="append", help="one axis alone")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a row, at most")
    parser.add_argument("--csv", help="file to write the table to as well")
    parser.add_argument("--one", type=int, nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(*args.one)))
        return 0
    row("records", BASE, args.limit)  # kernels that are not compiled yet
    rows = [
        row(axis, BASE | {axis: value}, args.limit)
        for axis in args.axis or AXES
        for value in AXES[axis]
    ]
    cells = shown(rows, args.limit)
    printed = Table(*HEADS)
    for line in cells:
        printed.add_row(*line)
    Console().print(printed)
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADS, *cells])
    return 0


if __name__ == "__main__":
    sys.exit(main())
