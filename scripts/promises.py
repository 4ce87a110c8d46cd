"""Do fronts keep their promises? ``make promises``, or ``python scripts/promises.py --splits 40``.

Of each data set so many splits are made, and of each split one search is run for each measure:
holdout, and cross_validation over the same training and validation records. Rules pick from its
front, as ``paretolab choose`` does, and the test records say what the pick is worth: is it what was
claimed, what was expected, within the 95% range? Default credit and the synthetic set are searched
on 200 to 600 records and tested on 20,000 and more; the test records of the other sets are few, and
so ranges are also judged with the noise of the test records added to them.

``rows.jsonl`` gets one line per set, split and measure. What is there is not measured again: a call
that was stopped goes on, and one with more ``--splits`` adds to it. ``report.md`` and
``report.html`` are written anew after each line. Sets that are in neither PARETOLAB_DATA nor the
package are skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from promises_report import write_pages
from promises_splits import CASES, MEASURES, Row, measured

from algorithms.multistage.config import MultiStageConfig
from framework.data.datasets import load_table
from framework.errors import InputError


def read_rows(path: Path, evaluations: int) -> list[Row]:
    """Return the rows of a file that are whole and have so many evaluations."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:  # it was being written when the call was stopped
            continue
        if row["evaluations"] == evaluations and row["set"] in CASES:
            rows.append(row)
    return rows


def available(names: Sequence[str]) -> list[str]:
    """Return the sets that can be loaded; say of the others why not."""
    found = []
    for name in names:
        config = MultiStageConfig.model_validate(dict(CASES[name].problem)).dataset
        try:
            load_table(config)
        except InputError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
        else:
            found.append(name)
    return found


def alone() -> None:
    """Keep a worker to one thread, and what it trains to itself: no split comes twice."""
    os.environ |= {"PARETOLAB_CACHE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--evaluations", type=int, default=4000)
    parser.add_argument("--data", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/promises"), help="(%(default)s)")
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "rows.jsonl"
    rows = read_rows(path, args.evaluations)
    done = {(row["set"], row["split"], row["measure"]) for row in rows}
    names = available(args.data)
    todo = [
        (name, split, measure)
        for split in range(args.splits)
        for name in names
        for measure in MEASURES
        if (name, split, measure) not in done
    ]
    print(f"{len(done)} of {len(done) + len(todo)} are done", flush=True)
    started = time.monotonic()
    with (
        ProcessPoolExecutor(args.jobs, get_context("spawn"), alone) as workers,
        path.open("a", encoding="utf-8") as file,
    ):
        tasks = [workers.submit(measured, *task, args.evaluations) for task in todo]
        for number, task in enumerate(as_completed(tasks), start=1):
            row = task.result()
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows.append(row)
            rows.sort(key=lambda row: (row["split"], row["measure"]))
            write_pages(rows, args.out)
            left = (time.monotonic() - started) / number * (len(todo) - number)
            print(
                f"{row['set']}, split {row['split']}, {row['measure']}: {left:,.0f} s", flush=True
            )
    if rows:
        write_pages(rows, args.out)
        print(f"{args.out / 'report.md'}, {args.out / 'report.html'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
