"""Figures of a comparison: ranks, indicators, and the fronts that searches find."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.analysis.compare import Case, Comparison
from framework.analysis.tables import groups, has_groups, means
from framework.arrays import FloatArray
from framework.pareto import nondominated
from tracking.figures.critical_difference import rank_diagrams
from tracking.figures.figures_png import BLUE, GREY, ORANGE
from tracking.figures.method_style import (
    ARROW,
    axis_label,
    drawn_axes,
    legend,
    marker,
    panels,
    quiet,
)


def critical_differences(comparison: Comparison) -> Figure:
    """Draw a critical-difference diagram for each indicator."""
    titles = {name: found.label for name, found in comparison.indicators.items()}
    return rank_diagrams(comparison.methods, comparison.tests, titles, blocks=comparison.blocks)


def every_run(comparison: Comparison) -> Figure:
    """Draw every run's indicators on one problem: a row a search, a panel an indicator."""
    names = comparison.methods
    count = len(comparison.indicators)
    figure = Figure(
        figsize=(max(6.5, 2.6 + 2.7 * count), 1.3 + 0.42 * len(names)), layout="constrained"
    )
    found = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axes, (column, indicator) in zip(found, comparison.indicators.items(), strict=True):
        for y, name in enumerate(names):
            chosen = comparison.frame["method"] == name
            values = comparison.frame.loc[chosen, column].to_numpy(dtype=np.float64)
            shown = values[np.isfinite(values)]
            axes.scatter(shown, np.full(len(shown), y), s=20, color=BLUE, alpha=0.55, linewidths=0)
            if len(shown):
                axes.plot([shown.mean()] * 2, [y - 0.3, y + 0.3], color=ORANGE, linewidth=2)
        axes.set_xlabel(f"{indicator.label}  {ARROW[indicator.better]}")
        quiet(axes)
        axes.spines[["left"]].set_visible(False)
        axes.tick_params(labelsize=8.5, left=False)
    found[0].set_yticks(range(len(names)), names)
    found[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def case_means(comparison: Comparison) -> Figure:
    """Draw means and 95% intervals: a row a case, a panel an indicator, a colour a search.

    A row is a group where cases are variants of fewer ones.
    """
    by = "group" if has_groups(comparison) else "case"
    table = groups(comparison) if by == "group" else means(comparison)
    cases = list(dict.fromkeys(table[by]))
    step = 0.8 / len(comparison.methods)
    count = len(comparison.indicators)
    height = 1.6 + max(0.5, 0.16 * len(comparison.methods)) * len(cases)
    figure = Figure(figsize=(max(6.5, 2 + 3 * count), height), layout="constrained")
    found = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axes, (column, indicator) in zip(found, comparison.indicators.items(), strict=True):
        for number, name in enumerate(comparison.methods):
            part = table[(table["method"] == name) & (table["indicator"] == column)]
            y = np.array([cases.index(case) for case in part[by]]) - 0.4 + (number + 0.5) * step
            half = (part["high"] - part["mean"]).fillna(0.0).to_numpy()
            shown = np.isfinite(part["mean"].to_numpy())
            look = marker(number)
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
        quiet(axes)
        axes.grid(visible=False, axis="y")
        for edge in range(1, len(cases)):
            axes.axhline(edge - 0.5, color="#E5E7EB", linewidth=0.7)
    found[0].set_yticks(range(len(cases)), cases)
    found[0].set_ylim(len(cases) - 0.5, -0.5)
    legend(figure, found[0])
    return figure


def overlaid(comparison: Comparison) -> Figure:
    """Draw the fronts of all searches one over the other, a panel a case.

    Of each search, the non-dominated solutions of all its runs together.
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
            look = marker(number)
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


def found_fronts(comparison: Comparison) -> Figure:
    """Draw a panel a search on one problem: the reference, coloured by how many runs find it."""
    case = comparison.cases[0]
    figure, grid = panels(comparison.methods)
    for axes, name in zip(grid, comparison.methods, strict=True):
        points = _found(axes, case, name)
    bar = figure.colorbar(points, ax=grid, pad=0.015, aspect=40)
    bar.set_label("share of the search's runs that find it")
    bar.outline.set_visible(False)
    return figure


def _found(axes: Axes, case: Case, name: str) -> Any:
    x, y = drawn_axes(case)
    reference = case.roles.natural(case.reference)
    beside = case.roles.natural(_not_in(_together(case, name), case.reference))
    axes.scatter(beside[:, x], beside[:, y], s=12, marker="x", color=GREY, linewidths=0.6)
    own = [found for run, found in zip(case.runs, case.found, strict=True) if run.method == name]
    share = np.mean(own, axis=0)
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
    own = [run.losses for run in case.runs if run.method == name]
    return np.concatenate([np.zeros((0, case.reference.shape[1])), *own])


def _not_in(losses: FloatArray, reference: FloatArray) -> FloatArray:
    known = set(map(tuple, reference.tolist()))
    rest = [row for row in map(tuple, losses.tolist()) if row not in known]
    return np.array(rest, dtype=np.float64).reshape(-1, reference.shape[1])


def _label(axes: Axes, case: Case) -> None:
    x, y = drawn_axes(case)
    axes.set_xlabel(axis_label(case.roles, case.roles.objectives[x]), fontsize=8)
    axes.set_ylabel(axis_label(case.roles, case.roles.objectives[y]), fontsize=8)
