"""The page of a comparison or an experiment: a single file with all tables and figures."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from framework.analysis.compare import NUMBERS, Case, Claim, Comparison, Page
from framework.analysis.report import (
    claims_table,
    early_stops,
    has_scenarios,
    left_out,
    tables,
    verdicts,
    worth,
)
from framework.analysis.statistics import ALPHA
from framework.front import span
from tracking.figures.comparison_figures import (
    ARROW,
    anytime,
    attainment,
    case_means,
    every_run,
    on_the_way,
    overlaid,
    rank_diagrams,
    reached_fronts,
)
from tracking.figures.html_page import (
    WITHOUT,
    as_list,
    as_table,
    digits,
    picture,
    prose,
    section,
    spread,
    write_report_page,
)
from tracking.figures.style import save

PAGE = "report.html"


class _Drawing(NamedTuple):
    name: str
    title: str
    text: str
    figure: Figure


def write_report(comparison: Comparison, out: Path) -> list[Path]:
    """Write ``report.html``, which needs no other file, and its figures (``plots/*.png``).

    Returns
    -------
    list of pathlib.Path
        The page, then the figures.
    """
    by_name, ends = tables(comparison), [*left_out(comparison), *early_stops(comparison)]
    sections = []
    if beside := worth(comparison):
        sections.append(section(WITHOUT, beside, ""))
    if "winners" in by_name:
        first, *more = [*verdicts(by_name["winners"]), *ends] or [""]
        shown = _winners(comparison, by_name["winners"])
        more += [f"In the table ~: {_MAYBE}."] if "<abbr" in shown else []
        sections.append(section("Result", first, as_list(more) + shown))
    elif ends:
        sections.append(section("Ended early", " ".join(ends), ""))
    sections.append(section("Methods", _methods_note(comparison), _methods(comparison)))
    if comparison.claims:
        sections.append(section(_SAID, "", _claims(comparison.claims)))
    if "scenarios" in by_name:
        sections.append(
            section("Scenarios", _SCENARIOS, _means(comparison, by_name["scenarios"], "scenario"))
        )
    count = comparison.units["case"].nunique()
    if 1 < count <= _MOST_CASES or (comparison.paper and "scenarios" not in by_name):
        sections.append(section("Cases", _CASES, _means(comparison, by_name["means"], "case")))
    plots = out / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for part in comparison.pages:
        sections += _part(part, plots, paths)
    for drawing in _drawings(comparison):
        image = _saved(drawing.figure, drawing.title, plots / f"{drawing.name}.png", paths)
        sections.append(section(drawing.title, drawing.text, image))
    if "pairs" in by_name:
        sections.append(
            section("Pairs", _PAIRS.format(blocks=comparison.blocks), _pairs(comparison))
        )
    if "wins" in by_name:
        sections.append(
            section("Wins, draws and losses", _WINS, _wins(comparison, by_name["wins"]))
        )
    roles = comparison.cases[0].roles
    subtitle = (
        f"{_count(comparison.methods, 'method')}, {_count(comparison.cases, 'case')}, "
        f"{_count(comparison.frame, 'run')}; objectives "
        + ", ".join(f"{o.metric} ({o.sense})" for o in roles.objectives)
        + f". Judged: {comparison.judged}."
    )
    write_report_page(out / PAGE, comparison.title, subtitle, sections)
    return [out / PAGE, *paths]


def _count(things: Sized, word: str) -> str:
    return f"{len(things):,} {word}{'' if len(things) == 1 else 's'}"


def _fewer(comparison: Comparison) -> tuple[Comparison, str]:
    """Return the comparison with as many cases as can be drawn, and a note if some are left out.

    Cases are taken from all scenarios in turn.
    """
    if len(comparison.cases) <= _MOST_PANELS:
        return comparison, ""
    by_scenario: dict[str, list[Case]] = {}
    for case in comparison.cases:
        by_scenario.setdefault(case.scenario, []).append(case)
    turns = [
        case for turn in zip_longest(*by_scenario.values()) for case in turn if case is not None
    ]
    shown = turns[:_MOST_PANELS]
    cases = tuple(case for case in comparison.cases if any(case is other for other in shown))
    note = f" Drawn: {len(cases)} of {len(comparison.cases)} cases."
    return replace(comparison, cases=cases), note


def _saved(figure: Figure, title: str, path: Path, paths: list[Path]) -> str:
    """Save a figure, add its path to ``paths``, and return its HTML."""
    save(figure, path)
    paths.append(path)
    return picture(path, title)


def _part(page: Page, plots: Path, paths: list[Path]) -> list[str]:
    """Return the sections of a page that a package has added."""
    parts = [section(page.title, page.text, "")]
    if page.claims:
        parts.append(section(f"{page.title}: {_SAID.lower()}", "", _claims(page.claims)))
    for name, table in page.tables.items():
        parts.append(section(name.replace("_", " "), "", _frame(table)))
    drawn = dict(page.figures)
    for name, ranking in page.rankings.items():
        titles = {what: what for what in ranking.tests}
        if titles:  # one data set has no ranks
            drawn[name] = rank_diagrams(
                ranking.methods, ranking.tests, titles, blocks=ranking.blocks
            )
    for name, figure in drawn.items():
        title = name.replace("_", " ")
        parts.append(section(title, "", _saved(figure, title, plots / f"{name}.png", paths)))
    return parts


def _claims(claims: Sequence[Claim]) -> str:
    rows = [list(map(str, row)) for row in claims_table(claims).itertuples(index=False)]
    return as_table(list(Claim._fields), [list(map(html.escape, row)) for row in rows], text=True)


def _frame(table: pd.DataFrame) -> str:
    """Return the HTML of a table, with four digits of numbers."""
    rows = [
        [digits(value) if isinstance(value, float) else prose(str(value)) for value in row]
        for row in table.itertuples(index=False)
    ]
    return as_table([html.escape(str(name)).replace("_", " ") for name in table.columns], rows)


def _drawings(comparison: Comparison) -> Iterator[_Drawing]:
    if comparison.tests:
        titles = {name: indicator.label for name, indicator in comparison.indicators.items()}
        methods, tests, blocks = comparison.methods, comparison.tests, comparison.blocks
        figure = rank_diagrams(methods, tests, titles, blocks=blocks)
        title = "Mean ranks and critical differences"
        yield _Drawing("ranks", title, _RANKS, figure)
    if len(comparison.cases) > 1:
        over = ("scenario", "cases") if has_scenarios(comparison) else ("case", "runs")
        text = f"Means over {over[1]} with 95% intervals."
        title = f"Indicators by {over[0]}"
        yield _Drawing("means", title, text, case_means(comparison))
    else:
        text = "One point per run, a line at the mean."
        yield _Drawing("runs", "Every run", text, every_run(comparison))
    several = len(comparison.cases[0].roles.objectives) > 1
    comparison, omitted = _fewer(comparison)
    if several:
        yield _Drawing("fronts", "Fronts", _FRONTS + omitted, overlaid(comparison))
    if several and len(comparison.cases) == 1:
        title = "What each method finds of the reference front"
        yield _Drawing("found", title, _FOUND, reached_fronts(comparison))
    if several and comparison.frame.groupby(["case", "method"]).size().max() > 1:
        drawn, title = attainment(comparison), "Attainment surfaces"
        if drawn is not None:
            yield _Drawing("attainment", title, _ATTAINMENT + omitted, drawn)
    name, trace = on_the_way(comparison)
    if len(trace):
        for by in ("evaluations", "seconds"):
            figure = anytime(comparison, trace, by, name)
            title = f"{comparison.indicators[name].label} against {by}"
            yield _Drawing(f"anytime_{by}", title, _ANYTIME + omitted, figure)


_CASES = (
    "Mean ± half the 95% interval over runs (Student's t); the best mean of a case and indicator "
    "in bold; in grey the published value, where there is one."
)
_SCENARIOS = (
    "Mean ± half the 95% interval over the cases of a scenario, each with the mean over its runs; "
    "the best mean of a scenario and indicator in bold; in grey the published value, if any."
)
_MAYBE = "chance may explain the gap to the best, or runs are too few to tell"
_SAID = "What the paper says, and what holds here"
_NOISE = 1e-9  # share of a mean below which an interval may be the rounding error of a sum
_MOST_PANELS = 12
_MOST_CASES = 30  # in tables of the page; tables/means.csv has all
_RANKS = "Nemenyi's test at 5% finds no difference between methods that a bar joins."
_FRONTS = (
    "For each method, the non-dominated solutions of all its runs together. With more than two "
    "objectives, two of them are drawn. Grey: the reference front."
)
_FOUND = (
    "Colour: the share of a method's runs that find a vector of the reference front. Crosses: "
    "solutions of its runs that are not on the reference front."
)
_ATTAINMENT = (
    "Thick lines: what half of the runs attain; thin lines: what at least one run, and what all "
    "runs attain. With more than two objectives, only the two that are drawn count."
)
_ANYTIME = (
    "The indicator is that of the front of all evaluations so far, by the values that the search "
    "saw. Lines are means over runs; bands go from the lower to the upper quartile."
)
_PAIRS = (
    "p-values of each pair of methods: Nemenyi's test, and Wilcoxon's signed ranks over the "
    "{blocks} corrected by Holm's method over all pairs. Below 0.05 in bold. Wilcoxon's least "
    "possible value with n blocks is 2 to the power of 1 - n before the correction."
)
_WINS = (
    "The numbers of cases in which the method of the line is better / not different / worse than "
    "that of the column, by the 95% interval of its lead over runs, not corrected for their number."
)


def _methods_note(comparison: Comparison) -> str:
    meanings = "; ".join(f"{i.label}: {i.text}" for i in comparison.indicators.values())
    sizes = [len(case.reference) for case in comparison.cases]
    shown = ", ".join(f"{size:,}" for size in sizes)
    if len(sizes) > _MOST_PANELS:
        shown = f"{min(sizes):,} to {max(sizes):,}"
    by_case = " by case" if len(sizes) > 1 else ""
    texts = list(dict.fromkeys(case.reference_text for case in comparison.cases))
    beaten = sum(case.beaten() for case in comparison.cases)
    attention = f" Runs dominate {beaten} vectors of it: it is not exact." if beaten else ""
    return (
        f"Mean ± standard deviation over runs. Reference: {'; '.join(texts)} ({shown} distinct "
        f"vectors{by_case}).{attention} {meanings}."
    )


def _methods(comparison: Comparison) -> str:
    """Return two tables with a line per method: its indicators with mean ranks, and its runs."""
    summary = comparison.summary().set_index("method").loc[comparison.ordered()].reset_index()
    judged = [name for name in comparison.indicators if name not in NUMBERS]
    parts = []
    for names in filter(None, (judged, NUMBERS)):
        headings = [_heading(comparison, name) if names is judged else name for name in names]
        rows = []
        for row in summary.to_dict("records"):
            cells = [html.escape(str(row["method"])), str(row["runs"])]
            for name in names:
                below = _below({"mean rank": row.get(f"{name}_rank", math.nan)})
                cells.append(spread(row[f"{name}_mean"], row[f"{name}_std"]) + below)
            rows.append(cells)
        parts.append(as_table(["method", "runs", *headings], rows))
    return "".join(parts)


def _below(numbers: Mapping[str, float]) -> str:
    """Return the numbers that are not NaN as a second line of a cell."""
    texts = [f"{name} {_even(value)}" for name, value in numbers.items() if not math.isnan(value)]
    return f'<br><span class="paper">{", ".join(texts)}</span>' if texts else ""


def _winners(comparison: Comparison, table: pd.DataFrame) -> str:
    """Return a table of cases by methods, with the mean and the range over the runs.

    Below these are the expected hypervolume and that on test records, if they are known.
    """
    cells = {}
    for row in table.to_dict("records"):
        text = _even(row["mean"])
        if row["runs"] > 1:
            text += f" ({span(_even(row['least']), _even(row['greatest']))})"
        if row["best"]:
            text = f"<b>{text}</b>"
        elif row["chance"] != "no":
            text += f' <abbr title="{_MAYBE}">~</abbr>'
        below = {name: row.get(name, math.nan) for name in ("expected", "test")}
        cells[row["case"], row["method"]] = text + _below(below)
    cases = list(dict.fromkeys(table["case"]))[:_MOST_CASES]
    return _crossed(_heading(comparison, comparison.first), cases, comparison.methods, cells)


def _crossed(
    heading: str, cases: Sequence[str], methods: Sequence[str], cells: Mapping[tuple[str, str], str]
) -> str:
    """Return a table of cases by methods; its columns are cases if these are fewer."""
    lines, columns = cases, methods
    if len(lines) < len(columns):
        lines, columns = columns, lines
        cells = {(method, case): text for (case, method), text in cells.items()}
    rows = [
        [html.escape(line), *(cells.get((line, column), "-") for column in columns)]
        for line in lines
    ]
    return as_table([heading, *map(html.escape, columns)], rows)


def _even(value: float) -> str:
    """Return a number with four digits, also if the last ones are zeros, to align columns."""
    return digits(value) if abs(value) >= 1000 or math.isnan(value) else f"{value:#.4g}"


def _means(comparison: Comparison, means: pd.DataFrame, by: str) -> str:
    """Return one table per indicator: cases or scenarios by methods."""
    parts = []
    for name, indicator in comparison.indicators.items():
        of_indicator = means[means["indicator"] == name]
        places = list(dict.fromkeys(of_indicator[by]))
        best = of_indicator.groupby(by)["mean"].agg("min" if indicator.better == "low" else "max")
        cells = {
            (row[by], row["method"]): _mean_cell(row, best[row[by]])
            for row in of_indicator.to_dict("records")
        }
        valued = set(of_indicator.dropna(subset="mean")["method"])  # only exact methods have gaps
        methods = [m for m in comparison.methods if m in valued]
        parts.append(_crossed(_heading(comparison, name), places, methods, cells))
    return "\n".join(parts)


def _mean_cell(row: Mapping[Hashable, Any], best: float) -> str:
    half = row["high"] - row["mean"]
    text = spread(row["mean"], half if half > _NOISE * abs(row["mean"]) else 0.0)
    if row["mean"] == best:
        text = f"<b>{text}</b>"
    paper = row.get("paper", math.nan)
    return text if math.isnan(paper) else f'{text} <span class="paper">({paper:g})</span>'


def _pairs(comparison: Comparison) -> str:
    shown = [
        f"{comparison.indicators[name].label}, {test}"
        for name in comparison.tests
        for test in ("Nemenyi", "Wilcoxon")
    ]
    rows = []
    for (i, one), (j, other) in combinations(enumerate(comparison.methods), 2):
        cells = [html.escape(f"{one} and {other}")]
        for tests in comparison.tests.values():
            for p in (tests.nemenyi[i, j], tests.wilcoxon[i, j]):
                cells.append(f"<b>{p:.2g}</b>" if p < ALPHA else f"{p:.2g}")
        rows.append(cells)
    return as_table(["pair", *shown], rows)


def _wins(comparison: Comparison, wins: pd.DataFrame) -> str:
    parts = []
    for name in comparison.indicators:
        records = wins[wins["indicator"] == name].to_dict("records")
        counts = {
            (row["method"], row["other"]): f"{row['wins']} / {row['draws']} / {row['losses']}"
            for row in records
        }
        counts |= {(method, method): "" for method in comparison.methods}
        heading = _heading(comparison, name)
        parts.append(_crossed(heading, comparison.methods, comparison.methods, counts))
    return "\n".join(parts)


def _heading(comparison: Comparison, name: str) -> str:
    indicator = comparison.indicators[name]
    return f"{html.escape(indicator.label)}&nbsp;{ARROW[indicator.better][0]}"
