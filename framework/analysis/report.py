"""What the report of a comparison shows: tables, claims of a paper, and pages of packages.

The tables are data frames, which reports and CSV files share. A package adds a page to the reports
of experiments that name it in ``experiment.pages``. It registers a function under
``paretolab.pages`` that takes a :class:`~framework.analysis.compare.Comparison` and returns a
:class:`~framework.analysis.compare.Page`::

    [project.entry-points."paretolab.pages"]
    my-paper = "mine.paper:page"

The function may have an attribute ``check``, a function of the configurations of the cases by name.
It is called before any run starts and raises :class:`~framework.errors.InputError` if the page
cannot be made from these cases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd
from pydantic import model_validator
from scipy import stats

from framework.analysis.alternatives import verdict_of_runs
from framework.analysis.compare import Claim, Comparison
from framework.analysis.statistics import score
from framework.arrays import FloatArray
from framework.errors import first_few
from framework.settings import Section

LEVEL = 0.95  # confidence level of intervals
_LISTED = 8  # cases whose lead is told in a sentence
_NEW = {  # figures on new records: column and indicator by their words in a sentence
    "expected on new records": ("expected", "hypervolume_expected"),
    "on test records": ("test", "hypervolume_pessimistic"),
}
_BOUNDS = {"", "evaluations", "generations", "seconds"}  # reasons of runs that used their budget up


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Return claims as a table; ``holds`` is yes or no."""
    table = pd.DataFrame(claims, columns=list(Claim._fields))
    return table.assign(holds=["yes" if claim.holds else "no" for claim in claims])


def tables(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return every table by name.

    ``runs`` has one row per run; ``seconds``, too, with what depends on the machine. ``means`` has
    one row per case, method and indicator, and ``scenarios`` one per scenario instead of case.
    ``winners`` tells which method is best on each case; ``ranks``, ``pairs`` and ``wins`` are
    results of tests. Tables that need more methods, blocks or scenarios than there are, are left
    out.
    """
    frame = comparison.frame
    same = [name for name in ("scenario", "unit") if (frame[name] == frame["case"]).all()]
    by_name = {
        "runs": frame.drop(columns=["seconds", *same]),
        "seconds": frame[["case", "method", "seed", "seconds"]],
        "means": means(comparison),
    }
    if has_scenarios(comparison):
        by_name["scenarios"] = scenarios(comparison)
    if comparison.tests:
        by_name |= {"ranks": ranks(comparison), "pairs": pairs(comparison)}
    if len(comparison.methods) > 1:
        by_name["winners"] = winners(comparison)
        if _places(comparison) is not None:
            by_name["wins"] = wins(comparison)
    return by_name


def winners(comparison: Comparison) -> pd.DataFrame:
    """Compare the methods on each case by the first indicator; return a row per case and method.

    ``runs`` is the number of runs; ``mean``, ``least`` and ``greatest`` are over these; ``best`` is
    "yes" where the mean is the best of the case. ``lead``, with the interval from ``lead_low`` to
    ``lead_high``, is how much better the best method is (see :func:`lead`). ``chance`` tells
    whether chance may explain the lead: "yes", "no", or "unknown" without an interval. ``expected``
    and ``test`` are the mean expected hypervolume on new records and that of the pessimistic front
    on test records, where these are known, with ``expected_lead`` and so on.
    """
    name = comparison.first
    better = comparison.indicators[name].better
    rows: list[dict[str, Any]] = []
    for case, part in comparison.units.groupby("case", sort=False):
        by_method = part.groupby("method", sort=False)
        runs = {str(method): scores.set_index("seed") for method, scores in by_method}
        values = {method: scores[name].to_numpy(np.float64) for method, scores in runs.items()}
        means = {method: float(scores.mean()) for method, scores in values.items()}
        finite = [mean for mean in means.values() if math.isfinite(mean)]
        top = (max if better == "high" else min)(finite, default=math.nan)
        first = next((method for method, mean in means.items() if mean == top), None)
        for method, scores in values.items():
            rows.append(
                {
                    "case": case,
                    "method": method,
                    "indicator": name,
                    "runs": len(scores),
                    "mean": means[method],
                    "least": float(scores.min()),
                    "greatest": float(scores.max()),
                    "best": "yes" if means[method] == top else "",
                    "chance": "",
                }
            )
            if first not in (None, method):
                rows[-1] |= _leads(runs[first][name], runs[method][name], better, "lead")
                low = rows[-1]["lead_low"]
                rows[-1]["chance"] = "unknown" if math.isnan(low) else "no" if low > 0 else "yes"
            for column, indicator in _NEW.values():
                if indicator not in comparison.indicators or indicator == name:
                    continue  # the first indicator is the mean itself
                rows[-1][column] = float(runs[method][indicator].mean())
                if first not in (None, method):
                    new, old = runs[first][indicator], runs[method][indicator]
                    rows[-1] |= _leads(new, old, "high", f"{column}_lead")
    return pd.DataFrame(rows)


def lead(first: pd.Series[float], other: pd.Series[float]) -> tuple[float, float, float]:
    """Return how much greater the first mean is than the other, and the ends of a 95% interval.

    The interval is Student's for the differences by seed if both methods have the same seeds, else
    Welch's. Both ends are NaN for fewer than two runs and for infinite values.

    Parameters
    ----------
    first, other : Series
        Values by seed.
    """
    with np.errstate(invalid="ignore"):  # the IGD+ of an empty front is infinite
        if set(first.index) == set(other.index) and first.index.is_unique:
            gaps: FloatArray = np.asarray(first - other[first.index], dtype=np.float64)
            return interval(gaps)
        gap = float(np.subtract(first.mean(), other.mean()))
    if min(len(first), len(other)) < 2 or not math.isfinite(gap):
        return gap, math.nan, math.nan
    errors = np.array([sample.var() / len(sample) for sample in (first, other)])
    if not errors.any():
        return gap, gap, gap
    freedom = errors.sum() ** 2 / sum(errors**2 / [len(first) - 1, len(other) - 1])
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom) * math.sqrt(errors.sum()))
    return gap, gap - half, gap + half


def _leads(
    first: pd.Series[float], other: pd.Series[float], better: str, name: str
) -> dict[str, float]:
    figures = lead(first, other) if better == "high" else lead(other, first)
    return dict(zip((name, f"{name}_low", f"{name}_high"), figures, strict=True))


def verdicts(table: pd.DataFrame) -> list[str]:
    """Say in sentences which method won on which case, and whether chance may explain it.

    Parameters
    ----------
    table : DataFrame
        As :func:`winners` returns it.
    """
    won: dict[str, list[str]] = {}
    leads: list[str] = []
    sure, doubtful, unknown = [], [], []
    for case, part in table.groupby("case", sort=False):
        best = part[part["best"] == "yes"]
        if best.empty:
            continue
        won.setdefault(" and ".join(map(str, best["method"])), []).append(str(case))
        rest = part[part["best"] != "yes"]
        if len(best) > 1 or rest.empty:
            continue
        leads += _lead_sentence(str(case), str(best["method"].iloc[0]), rest)
        if (rest["chance"] == "unknown").any():
            unknown.append(str(case))
        elif (rest["chance"] == "no").all():
            sure.append(str(case))
        else:
            names = ", ".join(map(str, rest.loc[rest["chance"] == "yes", "method"]))
            doubtful.append(f"{case} ({names})")
    if not won:
        return []
    indicator, cases = str(table["indicator"].iloc[0]), table["case"].nunique()
    leaders = sorted(won, key=lambda name: -len(won[name]))
    parts = [f"{name} on {len(won[name])} of {cases} ({first_few(won[name])})" for name in leaders]
    sentences = [f"Best mean {indicator.replace('_', ' ')}: {'; '.join(parts)}."]
    sentences += leads[:_LISTED]
    if len(leads) > _LISTED:
        sentences.append(f"(And {len(leads) - _LISTED} more cases, in tables/winners.csv.)")
    if sure:
        sentences.append(f"More than chance, against every other method: on {first_few(sure)}.")
    if doubtful:
        sentences.append(
            f"Chance may explain the lead, over the methods in brackets: on {first_few(doubtful)}."
        )
    if unknown:
        sentences.append(f"Too few runs to tell from chance: on {first_few(unknown)}.")
    if sure or doubtful or leads:
        sentences.append(
            "(Ranges in brackets: 95%, over runs with other seeds, not over other records; more "
            "than chance is what lies above 0. Not corrected for the number of pairs and cases.)"
        )
    return sentences


def _lead_sentence(case: str, best: str, rest: pd.DataFrame) -> list[str]:
    """Say how far the best method of a case is ahead of the next one; nothing if not known."""
    if "lead" not in rest or rest["lead"].isna().all():
        return []
    rival = dict(rest.sort_values("lead").iloc[0].items())
    columns = {"": "lead"} | {f"; {what}": f"{name}_lead" for what, (name, _) in _NEW.items()}
    text = f"{case}: {best} before {rival['method']} by"
    for what, column in columns.items():
        gap = rival.get(column, math.nan)
        if math.isnan(gap):
            continue
        low, high = rival[f"{column}_low"], rival[f"{column}_high"]
        interval = "" if math.isnan(low) else f" ({low:+.4f} to {high:+.4f})"
        text += f"{what} {gap:+.4f}{interval}"
    return [f"{text}."]


def worth(comparison: Comparison) -> str | None:
    """Say in one sentence in how many runs the search beats what one would do without it.

    None if that is known for no run.
    """
    several_cases, several_methods = len(comparison.cases) > 1, len(comparison.methods) > 1
    runs = []
    for case in comparison.cases:
        group = f"on {case.name}" if several_cases else ""
        runs += [(run.method if several_methods else group, run.worth) for run in case.runs]
    sentence = verdict_of_runs(runs)
    return None if sentence is None else f"{sentence[0].upper()}{sentence[1:]}."


def early_stops(comparison: Comparison) -> list[str]:
    """Say, in a sentence per reason, which runs ended before their budget was used up."""
    ended: dict[str, dict[str, list[str]]] = {}  # cases by method, by reason
    runs = Counter(run.method for case in comparison.cases for run in case.runs)
    several = len(comparison.cases) > 1
    for case in comparison.cases:
        for run in case.runs:
            # a reason may end with figures of one run, in brackets
            plain = run.stopped.partition(" (")[0]
            if plain not in _BOUNDS:
                reason = plain if several else run.stopped
                ended.setdefault(reason, {}).setdefault(run.method, []).append(case.name)
    sentences = []
    for reason, cases_of in ended.items():
        methods: dict[str, list[str]] = {}  # methods by how many of their runs ended, and where
        for method, cases in cases_of.items():
            where = first_few(list(dict.fromkeys(cases)))
            on = f" (on {where})" if several and len(cases) < runs[method] else ""
            methods.setdefault(f"{len(cases)} of {runs[method]} runs{on}", []).append(method)
        parts = [f"{', '.join(names)} in {often}" for often, names in methods.items()]
        sentences.append(f"Ended before the budget, {'; '.join(parts)}: {reason}.")
    return sentences


def left_out(comparison: Comparison) -> list[str]:
    """Say on which cases no run found a solution, if there are such cases."""
    names = first_few(list(comparison.unsolved))
    return [f"No run found a solution on {names}: left out here."] if names else []


def has_scenarios(comparison: Comparison) -> bool:
    """Return whether the cases are variants of fewer scenarios."""
    return bool((comparison.units["scenario"] != comparison.units["case"]).any())


def interval(values: FloatArray) -> tuple[float, float, float]:
    """Return the mean of some values and the ends of its 95% interval (Student's t).

    Both ends are NaN for fewer than two values, and equal the mean if all values are equal.
    """
    with np.errstate(invalid="ignore"):
        mean = float(values.mean())
        if len(values) < 2 or not np.isfinite(values).all():
            return mean, math.nan, math.nan
        half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * stats.sem(values)
    return mean, mean - float(half), mean + float(half)


def means(comparison: Comparison) -> pd.DataFrame:
    """Return mean, 95% interval and standard deviation over runs, by case, method and indicator.

    The column ``paper`` has published values; it is missing if there are none.
    """
    return _spread(comparison, comparison.units, "case")


def scenarios(comparison: Comparison) -> pd.DataFrame:
    """Return the table of :func:`means` by scenario: each of its cases counts with its mean."""
    numbers = list(comparison.indicators)
    by_case = comparison.units.groupby(["scenario", "case", "method"], sort=False)[numbers]
    return _spread(comparison, by_case.mean().reset_index(), "scenario")


def _spread(comparison: Comparison, values: pd.DataFrame, by: str) -> pd.DataFrame:
    rows = []
    for (case, method), part in values.groupby([by, "method"], sort=False):
        published = comparison.paper.get(str(case), {}).get(str(method), {})
        for name, indicator in comparison.indicators.items():
            sample = part[name].to_numpy(dtype=np.float64)
            mean, *ends = interval(sample)
            low, high = np.clip(ends, 0, 1).tolist() if indicator.share else ends
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
    """Return the mean rank of each method by indicator, with Friedman's and Nemenyi's tests."""
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
    """Return in how many cases each method wins, draws and loses against each other method.

    A method wins a case if the interval of :func:`lead` over its runs lies above 0, without a
    correction for the number of pairs. If cases have one run each, scenarios count instead, with
    intervals over their cases.
    """
    by = _places(comparison) or "case"
    within = "seed" if by == "case" else "case"
    places = list(dict.fromkeys(comparison.units[by]))
    rows = []
    for name, indicator in comparison.indicators.items():
        values = {
            key: part.groupby(within, sort=False)[name].mean()
            for key, part in comparison.units.groupby([by, "method"], sort=False)
        }
        for method, other in permutations(comparison.methods, 2):
            comparisons = [
                _verdict(values[place, method], values[place, other], indicator.better)
                for place in places
                if (place, method) in values and (place, other) in values
            ]
            counts = score(comparisons)._asdict()
            rows.append({"indicator": name, "method": method, "other": other, **counts})
    return pd.DataFrame(rows)


def _verdict(method: pd.Series[float], other: pd.Series[float], better: str) -> int:
    """Return 1 if a method is better than another, -1 if worse, 0 if chance may explain the gap."""
    _, low, high = lead(method, other) if better == "high" else lead(other, method)
    return int(low > 0) - int(high < 0)


def _places(comparison: Comparison) -> str | None:
    """Return "case" or "scenario", the first with several values each; None if neither has."""
    for by in ("case", "scenario"):
        if comparison.units.groupby([by, "method"]).size().min() > 1:
            return by
    return None


class ClaimConfig(Section):
    """A statement of a paper about a method, and how it is tested on the means by scenario.

    says : the statement, in words.
    paper : the figures printed there, in words.
    indicator : an indicator of the experiment.
    method : the method that it is about.
    better_than : methods whose means must be no better.
    at_least, at_most : bounds of the method's mean.
    scenarios : scenarios on which it must hold; all by default.
    """

    says: str
    paper: str = ""
    indicator: str
    method: str
    better_than: list[str] | None = None
    at_least: float | None = None
    at_most: float | None = None
    scenarios: list[str] | None = None

    @property
    def methods(self) -> list[str]:
        """The methods that the claim names."""
        return [self.method, *(self.better_than or ())]

    @model_validator(mode="after")
    def _has_a_test(self) -> ClaimConfig:
        if self.better_than is None and self.at_least is None and self.at_most is None:
            raise ValueError("expected one of better_than, at_least, at_most; found none")
        return self


def judge_claims(comparison: Comparison, claims: Sequence[ClaimConfig]) -> list[Claim]:
    """Test claims on the means by scenario; a claim that lacks a value does not hold."""
    if not claims:
        return []
    table = scenarios(comparison).set_index(["indicator", "scenario", "method"])["mean"]
    return [_judged(comparison, claim, table) for claim in claims]


def _judged(comparison: Comparison, claim: ClaimConfig, table: pd.Series[float]) -> Claim:
    sign = -1.0 if comparison.indicators[claim.indicator].better == "high" else 1.0
    wanted = claim.scenarios or comparison.scenarios
    held, values = [], []
    for scenario in wanted:
        cells = [table.get((claim.indicator, scenario, method)) for method in claim.methods]
        if any(value is None for value in cells):
            continue
        first, *others = [float(value) for value in cells if value is not None]
        holds = all(sign * first <= sign * other for other in others)
        holds &= claim.at_least is None or first >= claim.at_least
        holds &= claim.at_most is None or first <= claim.at_most
        values.append(f"{first:.4g}")
        held += [scenario] if holds else []
    where = f"{len(held)} of {len(wanted)}"
    if 0 < len(held) < len(wanted):
        where += f": {', '.join(held)}"
    here = f"{', '.join(values)} ({where})" if len(values) == 1 else where
    return Claim(claim.says, claim.paper, here, len(held) == len(wanted))
