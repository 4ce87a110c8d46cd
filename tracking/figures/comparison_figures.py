"""Figures of a comparison: ranks, indicators, fronts, and the progress of searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import moocore
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from framework.analysis.compare import Case, Comparison
from framework.analysis.indicators import Judged
from framework.analysis.report import has_scenarios, means, scenarios
from framework.analysis.statistics import RankTests
from framework.arrays import FloatArray
from framework.experiment.history import moments
from framework.experiment.run_dir import RunDir
from framework.pareto import nondominated
from tracking.figures.style import BLUE, COLOURS, GREY, ORANGE, axis_label, plain_axes

_DASHES = ("-", "--", ":", "-.")  # the next one when all colours are used up
_MARKERS = "osD^vPX*"

ARROW = {"high": "↑ better", "low": "↓ better"}


def line_style(number: int) -> dict[str, Any]:
    """Return colour and dashes of the ``number``-th search."""
    dashes = _DASHES[number // len(COLOURS) % len(_DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def marker_style(number: int) -> dict[str, Any]:
    """Return colour and marker of the ``number``-th search."""
    turn = number + number // len(COLOURS)
    return {"color": COLOURS[number % len(COLOURS)], "marker": _MARKERS[turn % len(_MARKERS)]}


def panels(names: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Return a figure with titled panels, two or three in a row, and these panels."""
    columns = 2 if len(names) == 4 else min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(
        figsize=(max(6.5, 3.7 * columns) + 0.4, 2.8 * lines + 0.7), layout="constrained"
    )
    grid = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for axes, name in zip(grid, names, strict=False):
        axes.set_title(name, fontsize=9)
        plain_axes(axes, size=8)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    return figure, grid[: len(names)]


def legend(figure: Figure, axes: Axes) -> None:
    """Add a legend of the searches below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(4, len(labels)),
        frameon=False,
        fontsize=8.5,
    )


def drawn_axes(case: Case) -> tuple[int, int]:
    """Return the positions of the objectives on the x axis (the cost) and on the y axis."""
    x, y, *_ = (case.roles.objectives.index(objective) for objective in case.roles.drawn())
    return x, y


def _four_to_a_line(count: int, height: float) -> tuple[Figure, list[Axes]]:
    across, down = min(count, 4), -(-count // 4)
    figure = Figure(figsize=(max(6.5, 2 + 3 * across), height * down), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel().tolist()
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def every_run(comparison: Comparison) -> Figure:
    """Draw the indicators of every run on one case: a row per search, a panel per indicator."""
    names = comparison.methods
    figure, panels = _four_to_a_line(len(comparison.indicators), 1.3 + 0.42 * len(names))
    for axes, (column, indicator) in zip(panels, comparison.indicators.items(), strict=True):
        for y, name in enumerate(names):
            of_method = comparison.frame["method"] == name
            values = comparison.frame.loc[of_method, column].to_numpy(dtype=np.float64)
            shown = values[np.isfinite(values)]
            axes.scatter(shown, np.full(len(shown), y), s=20, color=BLUE, alpha=0.55, linewidths=0)
            if len(shown):
                axes.plot([shown.mean()] * 2, [y - 0.3, y + 0.3], color=ORANGE, linewidth=2)
        axes.set_xlabel(f"{indicator.label}  {ARROW[indicator.better]}")
        plain_axes(axes, size=8)
        axes.spines[["left"]].set_visible(False)
        axes.tick_params(labelsize=8.5, left=False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def case_means(comparison: Comparison) -> Figure:
    """Draw means and 95% intervals: a row per case, a panel per indicator, a colour per search.

    If cases are variants of fewer scenarios, a row is a scenario.
    """
    by = "scenario" if has_scenarios(comparison) else "case"
    table = scenarios(comparison) if by == "scenario" else means(comparison)
    cases = list(dict.fromkeys(table[by]))
    step = 0.8 / len(comparison.methods)
    height = 1.6 + max(0.5, 0.16 * len(comparison.methods)) * len(cases)
    figure, panels = _four_to_a_line(len(comparison.indicators), height)
    for axes, (column, indicator) in zip(panels, comparison.indicators.items(), strict=True):
        for number, name in enumerate(comparison.methods):
            part = table[(table["method"] == name) & (table["indicator"] == column)]
            y = np.array([cases.index(case) for case in part[by]]) - 0.4 + (number + 0.5) * step
            half = (part["high"] - part["mean"]).fillna(0.0).to_numpy()
            shown = np.isfinite(part["mean"].to_numpy())
            look = marker_style(number)
            axes.errorbar(
                part["mean"].to_numpy()[shown],
                y[shown],
                xerr=half[shown],
                fmt=look["marker"],
                color=look["color"],
                markersize=4,
                linewidth=1.2,
                label=name,
            )
        axes.set_xlabel(f"{indicator.label}  {ARROW[indicator.better]}")
        plain_axes(axes, size=8)
        axes.grid(visible=False, axis="y")
        for edge in range(1, len(cases)):
            axes.axhline(edge - 0.5, color="#E5E7EB", linewidth=0.7)
    panels[0].set_yticks(range(len(cases)), cases)
    panels[0].set_ylim(len(cases) - 0.5, -0.5)
    legend(figure, panels[0])
    return figure


def overlaid(comparison: Comparison) -> Figure:
    """Draw the fronts of all searches in a panel per case.

    The front of a search consists of the non-dominated solutions of all its runs together.
    """
    figure, grid = panels([case.name for case in comparison.cases])
    for axes, case in zip(grid, comparison.cases, strict=True):
        x, y = drawn_axes(case)
        reference = case.roles.natural(case.reference)
        axes.scatter(
            reference[:, x], reference[:, y], s=9, color=GREY, alpha=0.5, label="reference"
        )
        for number, name in enumerate(comparison.methods):
            losses = _together(case, name)
            points = case.roles.natural(losses[nondominated(losses)])
            look = marker_style(number)
            axes.scatter(
                points[:, x],
                points[:, y],
                s=17,
                marker=look["marker"],
                facecolors="none",
                edgecolors=look["color"],
                linewidths=0.9,
                label=name,
            )
        _label(axes, case)
    legend(figure, grid[0])
    return figure


def reached_fronts(comparison: Comparison) -> Figure:
    """Draw a panel per search: the reference front, coloured by the share of runs that find it."""
    case = comparison.cases[0]
    figure, grid = panels(comparison.methods)
    for axes, name in zip(grid, comparison.methods, strict=True):
        points = _reached(axes, case, name)
    bar = figure.colorbar(points, ax=grid, pad=0.015, aspect=40)
    bar.set_label("share of the search's runs that find it")
    bar.outline.set_visible(False)
    return figure


def _reached(axes: Axes, case: Case, name: str) -> Any:
    x, y = drawn_axes(case)
    reference = case.roles.natural(case.reference)
    beside = case.roles.natural(_not_in(_together(case, name), case.reference))
    axes.scatter(beside[:, x], beside[:, y], s=12, marker="x", color=GREY, linewidths=0.6)
    of_method = [
        hits for run, hits in zip(case.runs, case.reached, strict=True) if run.method == name
    ]
    share = np.mean(of_method, axis=0)
    points = axes.scatter(
        reference[:, x],
        reference[:, y],
        c=share,
        cmap="viridis",
        vmin=0,
        vmax=1,
        s=26,
        edgecolors="#333333",
        linewidths=0.35,
        zorder=3,
    )
    axes.set_title(f"{name}: {np.mean(share):.0%} of {len(reference)} vectors, mean", fontsize=9)
    _label(axes, case)
    return points


def _together(case: Case, name: str) -> FloatArray:
    """Return the losses of all solutions of a search's runs, shape (n, objectives)."""
    losses = [run.losses for run in case.runs if run.method == name]
    return np.concatenate([np.zeros((0, case.reference.shape[1])), *losses])


def _not_in(losses: FloatArray, reference: FloatArray) -> FloatArray:
    present = set(map(tuple, reference.tolist()))
    rest = [row for row in map(tuple, losses.tolist()) if row not in present]
    return np.array(rest, dtype=np.float64).reshape(-1, reference.shape[1])


def _label(axes: Axes, case: Case) -> None:
    x, y = drawn_axes(case)
    axes.set_xlabel(axis_label(case.roles, case.roles.objectives[x]), fontsize=8)
    axes.set_ylabel(axis_label(case.roles, case.roles.objectives[y]), fontsize=8)


def rank_diagrams(
    names: Sequence[str], tests: Mapping[str, RankTests], titles: Mapping[str, str], *, blocks: str
) -> Figure:
    """Draw critical-difference diagrams (Demsar 2006, Figure 1) one below the other.

    Parameters
    ----------
    names : sequence of str
        The searches, in the order of each test's ranks.
    tests : mapping of str to RankTests
    titles : mapping of str to str
        The subject of each test.
    blocks : str
        What the ranks are averaged over, in the plural, such as "seeds".
    """
    height = 1.15 + 0.24 * ((len(names) + 1) // 2)
    figure = Figure(figsize=(8.4, height * len(tests)), layout="constrained")
    panels = figure.subplots(len(tests), 1, squeeze=False)[:, 0]
    for axes, (name, test) in zip(panels, tests.items(), strict=True):
        _rank_diagram(axes, names, test, titles[name], blocks)
    return figure


def _rank_diagram(
    axes: Axes, names: Sequence[str], tests: RankTests, label: str, blocks: str
) -> None:
    """Draw mean ranks on a line with the best at the left, names on both sides, bars for cliques.

    ``label`` is what is ranked.
    """
    k = len(names)
    order = np.argsort(tests.ranks, kind="stable")
    ranks = tests.ranks[order]
    cliques = tests.cliques()
    deepest = (k + 1) // 2 + 0.35 * len(cliques)
    axes.set(xlim=(0.3, k + 0.7), ylim=(-deepest - 0.8, 1.9))
    axes.axis("off")
    axes.plot([1, k], [0, 0], color="#333333", linewidth=1)
    for tick in range(1, k + 1):
        axes.plot([tick, tick], [0, 0.15], color="#333333", linewidth=1)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=8)
    for g, (first, last) in enumerate(cliques):
        y = -0.35 - 0.35 * g
        axes.plot(
            [ranks[first] - 0.04, ranks[last] + 0.04],
            [y, y],
            color=ORANGE,
            linewidth=3,
            solid_capstyle="butt",
        )
    below = 0.35 * len(cliques) + 0.5
    for position, (i, rank) in enumerate(zip(order.tolist(), ranks.tolist(), strict=True)):
        left = position < (k + 1) // 2
        y = -below - 0.9 * (position if left else k - 1 - position)
        end = 0.95 if left else k + 0.05
        axes.plot([rank, rank, end], [0, y, y], color=BLUE, linewidth=1)
        text = f"{names[i]}  {rank:.2f}" if left else f"{rank:.2f}  {names[i]}"
        axes.text(
            end - 0.05 if left else end + 0.05,
            y,
            text,
            fontsize=8.5,
            va="center",
            ha="right" if left else "left",
        )
    _scale_bar(axes, tests)
    friedman = f", Friedman p = {tests.friedman:.2g}" if tests.friedman >= 0 else ""
    axes.set_title(
        f"{label}: mean rank over {tests.blocks} {blocks}, 1 the best{friedman}",
        loc="left",
        fontsize=9,
    )


def _scale_bar(axes: Axes, tests: RankTests) -> None:
    """Draw a bar as long as the critical difference."""
    end = 1 + tests.critical_difference
    axes.plot([1, end], [1.15, 1.15], color=ORANGE, linewidth=1.5)
    for x in (1, end):
        axes.plot([x, x], [1.05, 1.25], color=ORANGE, linewidth=1.5)
    axes.text(
        end + 0.08,
        1.15,
        f"critical difference {tests.critical_difference:.2f}",
        fontsize=8,
        va="center",
        color=ORANGE,
    )


_POINTS = 120  # on a curve
_WORDS = {"evaluations": "evaluations", "seconds": "seconds of searching"}


def on_the_way(comparison: Comparison) -> tuple[str, pd.DataFrame]:
    """Return the first indicator that can be computed during a run, and its :func:`traces`.

    Indicators of the set that a method returns, or of metrics that are not objectives, cannot.
    """
    for name in comparison.indicators:
        trace = traces(comparison, name)
        if len(trace):
            return name, trace
    return comparison.first, traces(comparison, comparison.first)


def traces(comparison: Comparison, name: str) -> pd.DataFrame:
    """Return an indicator of the fronts of each run while it went on.

    The columns are case, method, seed, evaluations, seconds, and ``value``. There are no rows for a
    run without a journal, or for fronts without a finite value.
    """
    measure = comparison.indicators[name].measure
    rows = []
    for case in comparison.cases:
        roles = case.roles
        for run in case.runs:
            for moment in moments(RunDir(run.path)):
                values = dict(zip(roles.names, roles.natural(moment.losses).T, strict=True))
                judged = Judged(moment.losses, case.reference, roles, case.anchors, metrics=values)
                value = measure(judged)
                if np.isfinite(value):
                    where = (case.name, run.method, run.seed)
                    rows.append((*where, moment.evaluations, moment.seconds, value))
    columns = ["case", "method", "seed", "evaluations", "seconds", "value"]
    return pd.DataFrame(rows, columns=columns)


def anytime(comparison: Comparison, trace: pd.DataFrame, by: str, name: str) -> Figure:
    """Draw an indicator by evaluations or seconds, in a panel per case.

    A line is the mean over runs; the band is from the lower to the upper quartile.
    """
    indicator = comparison.indicators[name]
    figure, grid = panels([case.name for case in comparison.cases])
    for axes, case in zip(grid, comparison.cases, strict=True):
        of_case = trace[trace["case"] == case.name]
        for number, method in enumerate(comparison.methods):
            runs = [
                part for _, part in of_case[of_case["method"] == method].groupby("seed", sort=False)
            ]
            if runs:
                x, values = _aligned(runs, by)
                look = line_style(number)
                axes.step(x, values.mean(axis=0), where="post", label=method, linewidth=1.5, **look)
                low, high = np.quantile(values, [0.25, 0.75], axis=0)
                axes.fill_between(
                    x, low, high, step="post", color=look["color"], alpha=0.15, linewidth=0
                )
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(_WORDS[by], fontsize=8)
        axes.set_ylabel(f"{indicator.label}  {ARROW[indicator.better]}", fontsize=8)
    legend(figure, grid[0])
    return figure


def _aligned(runs: list[pd.DataFrame], by: str) -> tuple[FloatArray, FloatArray]:
    """Return points on the axis, (p,), and each run's value at them, (runs, p).

    The points begin where all runs have a value and end with the last run.
    """
    first = max(max(float(run[by].iloc[0]) for run in runs), 1e-3)
    last = max(float(run[by].iloc[-1]) for run in runs)
    x = np.geomspace(first, max(last, first * 1.001), _POINTS)
    values = []
    for run in runs:
        times = run[by].to_numpy(dtype=np.float64)
        latest = np.searchsorted(times, x * (1 + 1e-12), side="right") - 1
        values.append(run["value"].to_numpy(dtype=np.float64)[latest.clip(0)])
    return x, np.array(values)


def attainment(comparison: Comparison) -> Figure | None:
    """Draw the surfaces that at least one, half, and all of each search's runs attain.

    With more than two objectives, only the two that are drawn count. None if all surfaces are
    single points.

    Notes
    -----
    The empirical attainment function (Grunert da Fonseca, Fonseca and Hall 2001), by moocore.
    """
    figure, grid = panels([case.name for case in comparison.cases])
    most = 0  # points of the largest surface
    for axes, case in zip(grid, comparison.cases, strict=True):
        for number, name in enumerate(comparison.methods):
            runs = [run.losses for run in case.runs if run.method == name and len(run.losses)]
            if runs:
                most = max(most, _surfaces(axes, case, name, runs, number))
        _label(axes, case)
    legend(figure, grid[0])
    return figure if most > 1 else None


def _surfaces(axes: Axes, case: Case, name: str, runs: list[FloatArray], number: int) -> int:
    """Draw the surfaces of a method's runs; return the number of points of the largest."""
    x, y = drawn_axes(case)
    look, attained = line_style(number), surfaces([run[:, [x, y]] for run in runs])
    for share, points in attained.items():
        natural = np.zeros((len(points), len(case.roles.objectives)))
        natural[:, [x, y]] = points
        natural = case.roles.natural(natural)
        middle = share == 50
        axes.step(
            natural[:, x],
            natural[:, y],
            where="post",
            label=name if middle else None,
            linewidth=1.6 if middle else 0.7,
            alpha=1.0 if middle else 0.45,
            **look,
        )
    return max(map(len, attained.values()))


def surfaces(runs: list[FloatArray]) -> Mapping[int, FloatArray]:
    """Return the points that at least one (0), half (50) and all (100) of some runs attain, by x.

    Parameters
    ----------
    runs : list of numpy.ndarray, shape (n, 2)
        Losses of the solutions of each run.
    """
    points = np.concatenate(runs)
    owner = np.repeat(np.arange(1, len(runs) + 1), [len(run) for run in runs])
    table = moocore.eaf(points, owner, percentiles=[0, 50, 100])
    by_share = {}
    for share in (0, 50, 100):
        of_share = table[table[:, 2] == share][:, :2]
        by_share[share] = of_share[np.argsort(of_share[:, 0], kind="stable")]
    return by_share
