"""The figures of a run: its front, its progress, and values on test records."""

from __future__ import annotations

import textwrap
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.arrays import FloatArray
from tracking.figures.run_data import RunData
from tracking.figures.style import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    plain_axes,
    save,
    titled,
)

DOMINATED, INFEASIBLE = "evaluated, dominated", "breaks a constraint"

BLACK = "#222222"
_MARKERS = "Ds^v"  # for alternatives

_SERIES = {
    "hypervolume": ("hypervolume  ↑ better", BLUE),
    "front_size": ("solutions on the front", ORANGE),
}


def front_png(data: RunData, path: Path) -> None:
    """Draw the front: the cost to the right, the next objective upwards, the third as colour.

    With two objectives the attainment surface is drawn as a staircase; with more than three,
    ``explore.html`` shows the others. Light colours are better. Candidates that break a constraint
    are crosses.
    """
    x, y, *others = data.roles.drawn()
    figure = titled(data.title, data.subtitle, 8.4, 5.6)
    axes = figure.add_subplot()
    looks: tuple[dict[str, Any], ...] = (
        {"s": 7, "color": GREY, "alpha": 0.35, "linewidths": 0, "label": DOMINATED},
        {"s": 12, "color": PURPLE, "alpha": 0.8, "linewidths": 0.7, "marker": "x"}
        | {"label": INFEASIBLE},
    )
    for columns, look in zip(data.background, looks, strict=True):
        if len(columns[x.metric]):
            axes.scatter(columns[x.metric], columns[y.metric], **look)
    if not others:
        values = data.front.rows.values
        order = np.argsort(values[x.metric])
        axes.step(
            values[x.metric][order],
            values[y.metric][order],
            where="post" if x.sense == "min" else "pre",
            color=BLUE,
            linewidth=1,
            alpha=0.6,
        )
    scatter_front(data, figure, axes)
    alternatives = [(a.name, points) for a in data.alternatives if (points := data.points(a)).size]
    for (name, points), marker in zip(alternatives, cycle(_MARKERS), strict=False):
        axes.scatter(
            points[0],
            points[1],
            s=34,
            marker=marker,
            facecolors="none",
            edgecolors=BLACK,
            linewidths=1.1,
            zorder=4,
            label=textwrap.fill(f"without search: {name}", 56, max_lines=3),
        )
    mark_chosen(axes, data, "the chosen solution")
    axes.set(xscale=data.scale(x), yscale=data.scale(y))
    plain_axes(axes, data.label(x), data.label(y))
    n_columns = 2 if alternatives else 4
    figure.legend(loc="outside lower left", ncols=n_columns, frameon=False, fontsize=8.5)
    save(figure, path)


def progress_png(data: RunData, path: Path) -> None:
    """Draw hypervolume and front size by evaluations, with a line per repeat."""
    figure = titled(data.title, data.subtitle, 8.4, 5.0)
    names = [name for name in data.progress[0] if name in _SERIES]
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        text, colour = _SERIES[name]
        for repeat in data.progress:
            single = len(data.progress) == 1
            _line(axes, repeat["evaluations"], repeat[name], colour, single=single)
        plain_axes(axes, "", text)
    panels[-1].set_xlabel("evaluations")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    save(figure, path)


def test_png(data: RunData, path: Path) -> None:
    """Draw the test value of each objective over that in the search, if the two differ at all."""
    test, seen = data.front.test or {}, data.front.rows.values
    tested = [o for o in data.roles.objectives if o.metric in test]
    differ = [
        o for o in tested if not np.array_equal(test[o.metric], seen[o.metric], equal_nan=True)
    ]
    shown = differ or tested
    gap_name = f"test - {'out-of-fold' if 'out-of-fold' in data.measured else 'validation'}"
    figure = titled(data.title, data.subtitle, max(7.2, 3.6 * len(shown)), 4.3)
    for axes, objective in zip(
        figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True
    ):
        name = objective.metric
        searched, unseen = seen[name], test[name]
        both = np.concatenate([searched, unseen])
        low, high = float(np.nanmin(both)), float(np.nanmax(both))
        margin = 0.04 * (high - low) or 0.5
        ends = low - margin, high + margin
        axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--")
        axes.scatter(searched, unseen, s=18, color=BLUE, alpha=0.7, linewidths=0)
        axes.set(xlim=ends, ylim=ends, box_aspect=1)
        gap = float(np.nanmean(unseen - searched))
        axes.set_title(f"{data.label(objective)}\n{gap_name}: {gap:+.3g} on average", size=9)
        plain_axes(axes, data.measured, "on test records")
    save(figure, path)


def scatter_front(data: RunData, figure: Figure, axes: Axes) -> None:
    """Draw the front over two objectives, coloured by a third if there is one; light is better."""
    x, y, *others = (data.front.rows.values[objective.metric] for objective in data.roles.drawn())
    if not others:
        axes.scatter(x, y, s=26, color=BLUE, zorder=3, label="front")
        return
    colour, third = others[0], data.roles.drawn()[2]
    points = axes.scatter(
        x,
        y,
        c=colour,
        norm=data.scale(third),
        cmap="viridis" if third.sense == "max" else "viridis_r",
        s=30,
        edgecolors="#333333",
        linewidths=0.35,
        zorder=3,
        label="front",
    )
    bar = figure.colorbar(points, ax=axes, pad=0.015, aspect=30)
    bar.set_label(data.label(third))
    bar.outline.set_visible(False)
    if len(values := np.unique(colour)) == 1:  # the bar would show values around it, too
        bar.set_ticks(values.tolist())


def mark_chosen(axes: Axes, data: RunData, label: str) -> None:
    """Mark the chosen solution over the first two objectives."""
    x, y = (data.front.rows.values[objective.metric] for objective in data.roles.drawn()[:2])
    axes.scatter(
        x[data.position],
        y[data.position],
        s=190,
        marker="*",
        color=ORANGE,
        edgecolors="#333333",
        linewidths=0.6,
        zorder=5,
        label=label,
    )


def _line(axes: Axes, x: FloatArray, series: FloatArray, colour: str, *, single: bool) -> None:
    width, alpha = (1.8, 1.0) if single else (1.0, 0.6)
    axes.plot(x, series, color=colour, linewidth=width, alpha=alpha)
    if single:
        axes.annotate(
            f"{series[-1]:.4g}",
            (x[-1], series[-1]),
            (5, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
            annotation_clip=False,
        )
