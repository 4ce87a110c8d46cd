"""The page ``promises`` of an experiment: does what fronts promise hold on test records?

Every front says of its solutions what to expect of each metric on new records, with a 95% range.
Where runs have test records, which no search sees, the page shows by method how often their values
lie in the range for as many records; files tell how far they are from what was expected, too.
Solutions of one front share its records and resemble each other: a few of them are looked at, and
only many runs on different data make the shares reliable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from framework.analysis.compare import Case, ComparedRun, Comparison, Page
from framework.analysis.report import LEVEL
from framework.arrays import evenly
from framework.errors import first_few
from framework.experiment.run_dir import RunDir

_SOLUTIONS = 5  # of each front, evenly spread from its first to its last
_ROUNDED = 1e-9  # share of a value that is lost where many are added
_TEXT = (
    "A range holds if the value on the test records lies in the 95% range for so many records. "
    f"Of each front up to {_SOLUTIONS} solutions count, evenly spread; they share its records and "
    "may miss together. `tables/promises.csv` and `promises_by_scenario.csv` also have means: the "
    "width of the ranges, and how much claimed and expected values exceed those on test records."
)


def page(comparison: Comparison) -> Page:
    """Return the shares by metric and method, the least by scenario in words, and all in files."""
    runs = ((case, run) for case in comparison.cases for run in case.runs)
    rows = pd.DataFrame(row for case, run in runs for row in _promises(case, run))
    if len(rows):
        rows = rows[rows.groupby("metric")["width"].transform("max") > 0]  # sizes are certain
    if rows.empty:
        return Page("Promises", "No run has both expected values and test records.")
    overall = _shares(rows, ["method", "metric"])
    by_scenario = _shares(rows, ["scenario", "method", "metric"])
    less = by_scenario[by_scenario["holds"] < LEVEL].sort_values("holds", kind="stable")
    places = [f"{x.metric} of {x.method}, {x.scenario}: {_cell(x)}" for x in less.itertuples()]
    text = (
        f"{rows['holds'].mean():.1%} of {len(rows):,} ranges hold. Less than 95% (bold) in a "
        f"scenario: {first_few(places, 5, '; ') or 'none'}. {_TEXT}"
    )
    cells = overall.set_index(["metric", "method"]).assign(cell=[*map(_cell, overall.itertuples())])
    tables = {"ranges_that_hold": cells["cell"].unstack(sort=False).reset_index()}
    files = {"promises": overall, "promises_by_scenario": by_scenario}
    return Page("Promises", text, tables=tables, files=files)


def _cell(row: Any) -> str:
    """Return which share of how many ranges hold, in bold where that is less than promised."""
    text = f"{100 * row.holds:.3g}% of {row.solutions:,}"
    return f"**{text}**" if row.holds < LEVEL else text


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
