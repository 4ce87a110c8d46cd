"""The plots of a run as pictures, drawn with matplotlib."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.arrays import FloatArray
from framework.files import write_whole
from framework.roles import Objective
from tracking.figures.fonts import readable
from tracking.figures.story import Story

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#9AA0A6"  # apart for every kind of colour vision
_DPI = 150
_SERIES = {
    "hypervolume": ("hypervolume  ↑ better", BLUE),
    "front_size": ("solutions on the front", ORANGE),
}


def front(story: Story, path: Path) -> None:
    """Draw the front: the cost to the right, the next objective upwards, the third as colour.

    Of two objectives the staircase they reach is drawn; where there are more than three, the
    page shows the rest. Light colours are the better ones.
    """
    x, y, *others = story.axes()
    figure = titled(story.title, story.subtitle, 8.4, 5.6)
    axes = figure.add_subplot()
    values = story.front.rows.values
    axes.scatter(
        story.background[x.metric],
        story.background[y.metric],
        s=7,
        color=GREY,
        alpha=0.35,
        linewidths=0,
        label="evaluated, dominated",
    )
    if others:
        coloured(story, figure, axes, [x, y, others[0]])
    else:
        order = np.argsort(values[x.metric])
        axes.step(
            values[x.metric][order],
            values[y.metric][order],
            where="post" if x.sense == "min" else "pre",
            color=BLUE,
            linewidth=1,
            alpha=0.6,
        )
        axes.scatter(values[x.metric], values[y.metric], s=26, color=BLUE, zorder=3, label="front")
    star(axes, story, "the chosen design")
    axes.set(xscale=story.scale(x), yscale=story.scale(y))
    finish(axes, story.label(x), story.label(y))
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8.5)
    save(figure, path)


def progress(story: Story, path: Path) -> None:
    """Draw hypervolume and front size by evaluations, a line a repeat."""
    figure = titled(story.title, story.subtitle, 8.4, 5.0)
    panels = figure.subplots(len(story.series), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, story.series, strict=True):
        text, colour = _SERIES[name]
        for repeat in story.progress:
            single = len(story.progress) == 1
            _line(axes, repeat["evaluations"], repeat[name], colour, single=single)
        finish(axes, "", text)
    panels[-1].set_xlabel("evaluations")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    save(figure, path)


def validation_and_test(story: Story, path: Path) -> None:
    """Draw each objective's test value over its validation value, where the two can differ."""
    test, seen = story.front.test or {}, story.front.rows.values
    tested = [o for o in story.roles.objectives if o.metric in test]
    differ = [
        o for o in tested if not np.array_equal(test[o.metric], seen[o.metric], equal_nan=True)
    ]
    shown = differ or tested
    figure = titled(story.title, story.subtitle, max(7.2, 3.6 * len(shown)), 4.3)
    for axes, objective in zip(
        figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True
    ):
        name = objective.metric
        known, unseen = seen[name], test[name]
        ends = _ends(known, unseen)
        axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--")
        axes.scatter(known, unseen, s=18, color=BLUE, alpha=0.7, linewidths=0)
        axes.set(xlim=ends, ylim=ends, box_aspect=1)
        gap = float(np.nanmean(unseen - known))
        axes.set_title(
            f"{story.label(objective)}\ntest - validation: {gap:+.3g} on average", size=9
        )
        finish(axes, "on validation records", "on test records")
    save(figure, path)


def coloured(story: Story, figure: Figure, axes: Axes, shown: list[Objective]) -> None:
    """Draw the front over two objectives, coloured by a third, light being better."""
    x, y, colour = (story.front.rows.values[objective.metric] for objective in shown)
    points = axes.scatter(
        x,
        y,
        c=colour,
        norm=story.scale(shown[2]),
        cmap="viridis" if shown[2].sense == "max" else "viridis_r",
        s=30,
        edgecolors="#333333",
        linewidths=0.35,
        zorder=3,
        label="front",
    )
    bar = figure.colorbar(points, ax=axes, pad=0.015, aspect=30)
    bar.set_label(story.label(shown[2]))
    bar.outline.set_visible(False)


def star(axes: Axes, story: Story, label: str) -> None:
    """Mark the chosen design over the first two objectives."""
    x, y = (story.front.rows.values[objective.metric] for objective in story.axes()[:2])
    axes.scatter(
        x[story.position],
        y[story.position],
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


def _ends(*columns: FloatArray) -> tuple[float, float]:
    low = min(float(np.nanmin(column)) for column in columns)
    high = max(float(np.nanmax(column)) for column in columns)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def titled(title: str, subtitle: str, width: float, height: float) -> Figure:
    """Return an empty figure of so many inches with a title and a line under it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(f"{title}\n", x=0.012, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.012, 1 - 0.32 / height, subtitle, fontsize=8.5, color="#444444", va="top")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG; the file appears whole."""
    content = BytesIO()
    with readable(figure):
        figure.savefig(content, format="png", dpi=_DPI)
    write_whole(path, content.getvalue())


def finish(axes: Axes, x: str, y: str) -> None:
    """Label the axes and take away what distracts."""
    axes.set(xlabel=x, ylabel=y)
    axes.grid(color="#E5E7EB", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
