"""Figures of how searches come to their fronts, and of what their runs have in common."""

from __future__ import annotations

from collections.abc import Mapping

import moocore
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from framework.analysis.compare import Case, Comparison
from framework.analysis.indicators import Judged
from framework.arrays import FloatArray
from framework.experiment.anytime import moments
from framework.experiment.run_dir import RunDir
from tracking.figures.method_style import ARROW, axis_label, drawn_axes, legend, panels, style

_POINTS = 120  # of a curve
_WORDS = {"evaluations": "evaluations", "seconds": "seconds of searching"}


def on_the_way(comparison: Comparison) -> tuple[str, pd.DataFrame]:
    """Return the first indicator that can be told on the way, and :func:`traces` of it.

    One of a set that a method returns, or of metrics that are no objectives, cannot.
    """
    for name in comparison.indicators:
        found = traces(comparison, name)
        if len(found):
            return name, found
    return comparison.first, traces(comparison, comparison.first)


def traces(comparison: Comparison, name: str) -> pd.DataFrame:
    """Return an indicator of each run's front on the way.

    Columns: case, method, seed, evaluations, seconds, and ``value``; no row of a run whose journal
    is gone, or where the indicator has no meaning.
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
                if not np.isnan(value):
                    where = (case.name, run.method, run.seed)
                    rows.append((*where, moment.evaluations, moment.seconds, value))
    columns = ["case", "method", "seed", "evaluations", "seconds", "value"]
    return pd.DataFrame(rows, columns=columns)


def anytime(comparison: Comparison, found: pd.DataFrame, by: str, name: str) -> Figure:
    """Draw an indicator against evaluations or seconds, a panel a case.

    A line is the mean over runs, the band from the lower to the upper quartile.
    """
    indicator = comparison.indicators[name]
    figure, grid = panels([case.name for case in comparison.cases])
    for axes, case in zip(grid, comparison.cases, strict=True):
        own = found[found["case"] == case.name]
        for number, method in enumerate(comparison.methods):
            runs = [part for _, part in own[own["method"] == method].groupby("seed", sort=False)]
            if runs:
                x, values = _aligned(runs, by)
                look = style(number)
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
    """Return places on the axis, (p,), and each run's value there, (runs, p).

    The axis begins where every run has a value and ends where the last one ends.
    """
    first = max(max(float(run[by].iloc[0]) for run in runs), 1e-3)
    last = max(float(run[by].iloc[-1]) for run in runs)
    x = np.geomspace(first, max(last, first * 1.001), _POINTS)
    values = []
    for run in runs:
        at = np.searchsorted(run[by].to_numpy(dtype=np.float64), x * (1 + 1e-12), side="right") - 1
        values.append(run["value"].to_numpy(dtype=np.float64)[at.clip(0)])
    return x, np.array(values)


def attainment(comparison: Comparison) -> Figure:
    """Draw what half of each search's runs attain, and what the best and the worst do.

    Of more than two objectives the two that are drawn are taken alone.

    Notes
    -----
    The empirical attainment function (Grunert da Fonseca, Fonseca and Hall 2001), by moocore.
    """
    figure, grid = panels([case.name for case in comparison.cases])
    for axes, case in zip(grid, comparison.cases, strict=True):
        for number, name in enumerate(comparison.methods):
            runs = [run.losses for run in case.runs if run.method == name and len(run.losses)]
            if runs:
                _surfaces(axes, case, name, runs, number)
        x, y = drawn_axes(case)
        axes.set_xlabel(axis_label(case.roles, case.roles.objectives[x]), fontsize=8)
        axes.set_ylabel(axis_label(case.roles, case.roles.objectives[y]), fontsize=8)
    legend(figure, grid[0])
    return figure


def _surfaces(axes: Axes, case: Case, name: str, runs: list[FloatArray], number: int) -> None:
    x, y = drawn_axes(case)
    look = style(number)
    for share, points in surfaces([run[:, [x, y]] for run in runs]).items():
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


def surfaces(runs: list[FloatArray]) -> Mapping[int, FloatArray]:
    """Return what the best (0), half (50) and all (100) of some runs attain, as points by x.

    Parameters
    ----------
    runs : list of numpy.ndarray, shape (n, 2)
        Losses of the solutions of each.
    """
    points = np.concatenate(runs)
    owner = np.repeat(np.arange(1, len(runs) + 1), [len(run) for run in runs])
    table = moocore.eaf(points, owner, percentiles=[0, 50, 100])
    found = {}
    for share in (0, 50, 100):
        own = table[table[:, 2] == share][:, :2]
        found[share] = own[np.argsort(own[:, 0], kind="stable")]
    return found
