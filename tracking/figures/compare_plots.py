"""The figures of `paretolab compare`: critical differences, runs, fronts; and its page."""

from __future__ import annotations

import base64
import html
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.analysis.compare import NUMBERS, Comparison
from framework.arrays import FloatArray
from framework.files import write_whole
from framework.roles import Objective
from tracking.figures.critical_difference import rank_diagrams
from tracking.figures.figures_png import BLUE, GREY, ORANGE, save
from tracking.figures.story import spoken

_ARROW = {"high": "↑ better", "low": "↓ better"}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px sans-serif; margin: 1.2rem; color: #222; max-width: 70rem; }}
h1 {{ font-size: 1.3rem; margin: 0; }} h2 {{ font-size: 1rem; margin: 1.4rem 0 .3rem; }}
p {{ color: #555; margin: .3rem 0; }} img {{ max-width: 100%; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .2rem .7rem; text-align: right;
border-bottom: 1px solid #e5e7eb; }} td:first-child, th:first-child {{ text-align: left; }}
</style></head><body><h1>{title}</h1><p>{subtitle}</p>
{body}
</body></html>
"""


def write_comparison(comparison: Comparison, out: Path) -> list[Path]:
    """Draw a comparison and write its page, ``compare.html``; return the paths.

    ``compare_cd.png`` has a critical-difference diagram an indicator (where there are tests),
    ``compare_runs.png`` every run's indicators, ``compare_fronts.png`` (two objectives or more)
    what each search found of the reference front.
    """
    drawings: dict[str, tuple[str, str, Any]] = {}
    if comparison.tests:
        drawings["compare_cd.png"] = (
            "Mean ranks and critical differences",
            "Searches that a bar joins are not told apart by Nemenyi's test at 5%.",
            critical_differences,
        )
    drawings["compare_runs.png"] = ("Every run", "A point a run, a line at the mean.", every_run)
    if len(comparison.roles.objectives) > 1:
        drawings["compare_fronts.png"] = (
            "What each search finds of the reference front",
            "Colour: in how many of its runs a vector of the reference front is found. Crosses: "
            "solutions of its runs that are not on the reference front.",
            fronts,
        )
    sections = [_section("Table", _note(comparison), _table(comparison))]
    for name, (title, text, draw) in drawings.items():
        save(draw(comparison), out / name)
        picture = base64.b64encode((out / name).read_bytes()).decode()
        sections.append(
            _section(title, text, f'<img alt="{title}" src="data:image/png;base64,{picture}">')
        )
    if comparison.tests:
        sections.append(_section("Pairs", _PAIRS, _pairs(comparison)))
    page = _PAGE.format(
        title=html.escape(f"Searches on {comparison.title}"),
        subtitle=html.escape(
            f"{len(comparison.algorithms)} searches, {len(comparison.runs)} runs, objectives "
            + ", ".join(f"{o.metric} ({o.sense})" for o in comparison.roles.objectives)
        ),
        body="\n".join(sections),
    )
    write_whole(out / "compare.html", page)
    return [out / "compare.html", *(out / name for name in drawings)]


def critical_differences(comparison: Comparison) -> Figure:
    """Draw a critical-difference diagram for each indicator, a seed as a block."""
    titles = {name: found.label for name, found in comparison.indicators.items()}
    return rank_diagrams(comparison.algorithms, comparison.tests, titles, blocks="seeds")


def every_run(comparison: Comparison) -> Figure:
    """Draw every run's indicators: a row a search, a panel an indicator."""
    names = comparison.algorithms
    figure = Figure(figsize=(10.5, 1.3 + 0.42 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(comparison.indicators), sharey=True, squeeze=False)[0]
    for axes, (column, indicator) in zip(panels, comparison.indicators.items(), strict=True):
        for y, name in enumerate(names):
            chosen = comparison.frame["algorithm"] == name
            values = comparison.frame.loc[chosen, column].to_numpy(dtype=np.float64)
            shown = values[np.isfinite(values)]
            axes.scatter(shown, np.full(len(shown), y), s=20, color=BLUE, alpha=0.55, linewidths=0)
            if len(shown):
                axes.plot([shown.mean()] * 2, [y - 0.3, y + 0.3], color=ORANGE, linewidth=2)
        axes.set_xlabel(f"{indicator.label}  {_ARROW[indicator.better]}")
        axes.grid(color="#E5E7EB", linewidth=0.7, axis="x")
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(labelsize=8.5, left=False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def fronts(comparison: Comparison) -> Figure:
    """Draw a panel a search: the reference front, coloured by how many of its runs find it."""
    names = comparison.algorithms
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(3.6 * columns + 0.8, 2.9 * lines + 0.3), layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    x, y = _axes(comparison)
    for axes, name in zip(panels.flat, names, strict=False):
        points = _panel(axes, comparison, name, x, y)
    for axes in panels.flat[len(names) :]:
        axes.set_visible(False)
    bar = figure.colorbar(points, ax=panels, pad=0.015, aspect=40)
    bar.set_label("share of the search's runs that find it")
    bar.outline.set_visible(False)
    objectives = comparison.roles.objectives
    figure.supxlabel(_label(comparison, objectives[x]), fontsize=9)
    figure.supylabel(_label(comparison, objectives[y]), fontsize=9)
    return figure


def _panel(axes: Axes, comparison: Comparison, name: str, x: int, y: int) -> Any:
    own = [i for i, run in enumerate(comparison.runs) if run.algorithm == name]
    others = [comparison.runs[i].front.losses for i in own]
    reference = comparison.roles.natural(comparison.reference)
    beside = _not_in(np.concatenate(others), comparison.reference)
    beside = comparison.roles.natural(beside)
    axes.scatter(beside[:, x], beside[:, y], s=12, marker="x", color=GREY, linewidths=0.6)
    found = np.mean([comparison.found[i] for i in own], axis=0)
    points = axes.scatter(
        reference[:, x],
        reference[:, y],
        c=found,
        cmap="viridis",
        vmin=0,
        vmax=1,
        s=26,
        edgecolors="#333333",
        linewidths=0.35,
        zorder=3,
    )
    share = float(np.mean(found))
    axes.set_title(f"{name}: {share:.0%} of {len(reference)} vectors, mean", fontsize=9)
    axes.grid(color="#E5E7EB", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return points


def _not_in(losses: FloatArray, reference: FloatArray) -> FloatArray:
    known = set(map(tuple, reference.tolist()))
    rest = [row for row in map(tuple, losses.tolist()) if row not in known]
    return np.array(rest, dtype=np.float64).reshape(-1, reference.shape[1])


def _axes(comparison: Comparison) -> tuple[int, int]:
    """Return which objectives go right (what it costs) and up."""
    kinds = comparison.roles.kinds()
    x = kinds.index("ratio") if "ratio" in kinds else len(kinds) - 1
    return x, next(j for j in range(len(kinds)) if j != x)


def _label(comparison: Comparison, objective: Objective) -> str:
    unit = comparison.roles.metrics[objective.metric].unit
    better = "↑ better" if objective.sense == "max" else "↓ better"
    return f"{spoken(objective.metric)}{f' ({unit})' if unit else ''}  {better}"


_PAIRS = (
    "p-values of each pair of searches: Nemenyi's test, and Wilcoxon's signed ranks over the seeds "
    "corrected by Holm's method over all pairs. Below 0.05 in bold. Wilcoxon's least possible "
    "value with n seeds is 2 to the power of 1 - n before the correction."
)


def _note(comparison: Comparison) -> str:
    meanings = "; ".join(f"{i.label}: {i.text}" for i in comparison.indicators.values())
    return (
        f"Mean ± standard deviation over runs. Reference: {comparison.reference_text}, "
        f"{len(comparison.reference)} distinct vectors. {meanings}."
    )


def _table(comparison: Comparison) -> str:
    ranked = list(comparison.tests)
    headings = ["search", "runs", "evaluations", "distinct", "seconds", "solutions"]
    headings += [f"{i.label} {_ARROW[i.better][0]}" for i in comparison.indicators.values()]
    headings += [f"mean rank, {comparison.indicators[name].label}" for name in ranked]
    rows = []
    summary = comparison.summary().sort_values("hypervolume_mean", ascending=False)
    for row in summary.to_dict("records"):
        cells = [html.escape(str(row["algorithm"])), str(row["runs"])]
        for name in (*NUMBERS, *comparison.indicators):
            mean, std = row[f"{name}_mean"], row[f"{name}_std"]
            spread = f" ± {std:.2g}" if std >= 0 else ""
            cells.append("-" if math.isnan(mean) else f"{mean:,.5g}{spread}")
        rows.append(cells + [f"{row[f'{name}_rank']:.2f}" for name in ranked])
    return _html_table(headings, rows)


def _pairs(comparison: Comparison) -> str:
    names = comparison.algorithms
    headings = [
        "pair",
        *(
            f"{i.label}, {test}"
            for i in comparison.indicators.values()
            for test in ("Nemenyi", "Wilcoxon")
        ),
    ]
    rows = []
    for i, j in zip(*np.triu_indices(len(names), 1), strict=True):
        cells = [html.escape(f"{names[i]} and {names[j]}")]
        for tests in comparison.tests.values():
            for p in (tests.nemenyi[i, j], tests.wilcoxon[i, j]):
                cells.append(f"<b>{p:.2g}</b>" if p < tests.alpha else f"{p:.2g}")
        rows.append(cells)
    return _html_table(headings, rows)


def _html_table(headings: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _section(title: str, text: str, body: str) -> str:
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{body}"
