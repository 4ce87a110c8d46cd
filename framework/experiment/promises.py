"""The page ``promises`` of an experiment: does what fronts promise hold on test records?

Every front says of its solutions what to expect of each metric on new records, with a 95% range.
Where runs have test records, which no search sees, the page shows by method how often their values
lie in the range for as many records, and how far they are from what was claimed and expected.
Solutions of one front share its records and resemble each other: a few of them are looked at, and
only many runs on different data make the shares reliable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from framework.analysis.compare import Case, ComparedRun, Comparison, Page
from framework.arrays import evenly
from framework.experiment.run_dir import RunDir

_SOLUTIONS = 5  # of each front, evenly spread from its first to its last
_ROUNDED = 1e-9  # share of a value that is lost where many are added
_TEXT = (
    f"Of each front up to {_SOLUTIONS} solutions, evenly spread, and their values on test records: "
    "how often they lie in the 95% range for so many records, the mean width of these ranges, the "
    "mean differences to what was claimed and what was expected, and the root mean square of the "
    "latter. Solutions of a front share its records."
)


def page(comparison: Comparison) -> Page:
    """Return the table by method and metric, and the same by scenario."""
    runs = ((case, run) for case in comparison.cases for run in case.runs)
    rows = pd.DataFrame(row for case, run in runs for row in _promises(case, run))
    if rows.empty:
        return Page("Promises", "No run has both expected values and test records.")
    rows = rows[rows.groupby("metric")["width"].transform("max") > 0]  # sizes are certain
    by_name = {
        "promises": _shares(rows, ["method", "metric"]),
        "promises_by_scenario": _shares(rows, ["scenario", "method", "metric"]),
    }
    return Page("Promises", _TEXT, tables=by_name)


def _promises(case: Case, run: ComparedRun) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric of some solutions of a run that has test records."""
    run_dir = RunDir(run.path)
    front, counts = run_dir.front(), run_dir.summary().get("expected") or {}
    searched, tested = (int(counts.get(name) or 0) for name in ("searched", "tested"))
    if front.test is None or not tested:
        return
    for position in evenly(len(front), _SOLUTIONS):
        for name, promise in front.promises(int(position)).items():
            value = float(front.test[name][position]) if name in front.test else np.nan
            low, high = promise.of_test(searched, tested, front.roles.metrics[name])
            rounded = _ROUNDED * abs(value)
            if not np.isnan([value, low, high]).any():
                yield {
                    "scenario": case.scenario or case.name,
                    "method": run.method,
                    "metric": name,
                    "run": run.place,
                    "holds": low - rounded <= value <= high + rounded,
                    "width": high - low,
                    "claimed - test": promise.claimed - value,
                    "expected - test": promise.expected - value,
                }


def _shares(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the counts and means of the rows that agree in the columns ``keys``."""
    groups = rows.groupby(keys, sort=False)
    table = groups[["holds", "width", "claimed - test", "expected - test"]].mean()
    table["root mean square"] = groups["expected - test"].apply(lambda x: np.sqrt((x**2).mean()))
    table.insert(0, "solutions", groups.size())
    table.insert(0, "runs", groups["run"].nunique())
    return table.reset_index().round(4)
