"""The tables of a comparison, as data frames: what every report and CSV file shows."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pandas as pd
from scipy import stats

from framework.analysis.compare import Comparison
from framework.analysis.rank_sum import score, verdict
from framework.arrays import FloatArray

LEVEL = 0.95  # of intervals


def tables(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return every table by name.

    ``runs`` a row a run; ``seconds`` what depends on the machine, likewise; ``means`` a row for
    each case, method and indicator; ``groups`` the same over the cases of each group; ``ranks``,
    ``pairs`` and ``wins`` what tests say. Those that need more methods, or more blocks, or groups,
    than there are, are left out.
    """
    frame = comparison.frame
    same = [name for name in ("group", "unit") if (frame[name] == frame["case"]).all()]
    found = {
        "runs": frame.drop(columns=["seconds", *same]),
        "seconds": frame[["case", "method", "seed", "seconds"]],
        "means": means(comparison),
    }
    if has_groups(comparison):
        found["groups"] = groups(comparison)
    if comparison.tests:
        found |= {"ranks": ranks(comparison), "pairs": pairs(comparison)}
    if len(comparison.methods) > 1 and _places(comparison) is not None:
        found["wins"] = wins(comparison)
    return found


def has_groups(comparison: Comparison) -> bool:
    """Tell whether cases are variants of fewer ones."""
    return bool((comparison.units["group"] != comparison.units["case"]).any())


def interval(values: FloatArray) -> tuple[float, float, float]:
    """Return the mean of some values and the ends of its 95% interval (Student's t).

    Both ends are NaN for fewer than two values, the mean itself where they are all alike.
    """
    with np.errstate(invalid="ignore"):
        mean = float(values.mean())
        if len(values) < 2 or not np.isfinite(values).all():
            return mean, math.nan, math.nan
        half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * stats.sem(values)
    return mean, mean - float(half), mean + float(half)


def means(comparison: Comparison) -> pd.DataFrame:
    """Return mean, 95% interval and standard deviation over runs, by case, method and indicator.

    ``paper`` is the published value where there is one; the column is missing where there is none.
    """
    return _spread(comparison, comparison.units, "case")


def groups(comparison: Comparison) -> pd.DataFrame:
    """Return the same by group, over its cases, each counting with the mean over its runs."""
    numbers = list(comparison.indicators)
    by_case = comparison.units.groupby(["group", "case", "method"], sort=False)[numbers]
    return _spread(comparison, by_case.mean().reset_index(), "group")


def _spread(comparison: Comparison, values: pd.DataFrame, by: str) -> pd.DataFrame:
    rows = []
    for (case, method), part in values.groupby([by, "method"], sort=False):
        published = comparison.paper.get(str(case), {}).get(str(method), {})
        for name in comparison.indicators:
            sample = part[name].to_numpy(dtype=np.float64)
            mean, low, high = interval(sample)
            finite = len(sample) > 1 and np.isfinite(sample).all()
            rows.append(
                {
                    by: case,
                    "method": method,
                    "indicator": name,
                    "runs" if by == "case" else "cases": len(sample),
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "std": float(sample.std(ddof=1)) if finite else math.nan,
                    "paper": published.get(name, math.nan),
                }
            )
    table = pd.DataFrame(rows)
    return table.drop(columns="paper") if table["paper"].isna().all() else table


def ranks(comparison: Comparison) -> pd.DataFrame:
    """Return the mean rank of each method by indicator, with Friedman's test and Nemenyi's."""
    return pd.DataFrame(
        {
            "indicator": name,
            "method": method,
            "mean_rank": rank,
            "blocks": tests.blocks,
            "friedman_p": tests.friedman,
            "critical_difference": tests.critical_difference,
        }
        for name, tests in comparison.tests.items()
        for method, rank in zip(comparison.methods, tests.ranks.tolist(), strict=True)
    )


def pairs(comparison: Comparison) -> pd.DataFrame:
    """Return the p-values of each pair: Nemenyi's, and Wilcoxon's corrected by Holm's method."""
    return pd.DataFrame(
        {
            "indicator": name,
            "method": comparison.methods[i],
            "other": comparison.methods[j],
            "nemenyi_p": tests.nemenyi[i, j],
            "wilcoxon_holm_p": tests.wilcoxon[i, j],
        }
        for name, tests in comparison.tests.items()
        for i, j in combinations(range(len(comparison.methods)), 2)
    )


def wins(comparison: Comparison) -> pd.DataFrame:
    """Return in how many cases each method wins, draws and loses against each other one.

    Whether it does in a case is told by the rank-sum test over its runs, at 5%, uncorrected; where
    cases have one run each, in a group, over its cases.
    """
    by = _places(comparison) or "case"
    places = list(dict.fromkeys(comparison.units[by]))
    rows = []
    for name, indicator in comparison.indicators.items():
        sign = 1.0 if indicator.better == "low" else -1.0
        values = {
            key: sign * part[name].to_numpy(dtype=np.float64)
            for key, part in comparison.units.groupby([by, "method"], sort=False)
        }
        for method, other in permutations(comparison.methods, 2):
            found = [
                verdict(values[place, method], values[place, other])
                for place in places
                if (place, method) in values and (place, other) in values
            ]
            counts = score(found)._asdict()
            rows.append({"indicator": name, "method": method, "other": other, **counts})
    return pd.DataFrame(rows)


def _places(comparison: Comparison) -> str | None:
    """Return over what rank sums are: cases, or groups, of several values each; None if neither."""
    for by in ("case", "group"):
        if comparison.units.groupby([by, "method"]).size().min() > 1:
            return by
    return None
