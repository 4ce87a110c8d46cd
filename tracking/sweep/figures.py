"""The pictures of a sweep, drawn with matplotlib: history, values by key, importances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from framework.arrays import FloatArray
from tracking.figures.style import BLUE, GREY, ORANGE, display_name, plain_axes, save, titled
from tracking.sweep.story import Axis, SweepStory

_COLUMNS = 4  # panels side by side, at most
_CROWDED = 28  # characters under a panel
SLICE = "A point a trial, light ones being later; star: best trial; dashed: as configured."


def history_png(story: SweepStory, path: Path) -> None:
    """Draw each direction's value by trial, with the best so far."""
    labels = story.labels()
    figure = titled(story.title, story.subtitle, 8.4, 1.2 + 2.6 * len(labels))
    numbers = [trial.number for trial in story.trials]
    cells = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    for i, (axes, label) in enumerate(zip(cells, labels, strict=True)):
        axes.step(numbers, story.so_far(i), where="post", color=ORANGE, linewidth=1.2)
        if story.halves(i) is not None:
            bars = {"fmt": "none", "ecolor": BLUE, "elinewidth": 0.8, "alpha": 0.5}
            axes.errorbar(numbers, story.values(i), story.halves(i), **bars)
        axes.scatter(numbers, story.values(i), s=22, color=BLUE, zorder=2)
        if story.pruned:
            ended = [trial.number for trial in story.pruned]
            axes.scatter(ended, [t.values[i] for t in story.pruned], marker="x", s=22, color=GREY)
        _star(axes, story.best.number, story.best.values[i])
        plain_axes(axes, "", label)
    crosses = "; crosses: pruned" if story.pruned else ""
    cells[-1].set_xlabel(f"trial  (line: best so far; star: best trial{crosses})")
    cells[-1].xaxis.get_major_locator().set_params(integer=True)
    save(figure, path)


def slice_png(story: SweepStory, path: Path) -> None:
    """Draw each direction's value over each key."""
    keys, labels = list(story.plan.space), story.labels()
    deep, columns = panels(len(keys))
    height = 1.0 + 2.7 * deep * len(labels)
    figure = titled(story.title, story.subtitle, max(6.4, 3.1 * columns), height)
    cells = figure.subplots(deep * len(labels), columns, squeeze=False, sharey="row")
    for i, label in enumerate(labels):
        block = cells[i * deep : (i + 1) * deep].ravel()
        values = story.values(i)
        for j, axes in enumerate(block):
            if j >= len(keys):
                axes.set_axis_off()
                continue
            _scatter(axes, story, story.axis(keys[j]), values, i)
            plain_axes(axes, keys[j], label if j % columns == 0 else "")
    figure.supxlabel(SLICE, x=0.012, ha="left", fontsize=8, color="#444444")
    save(figure, path)


def importance_png(story: SweepStory, path: Path) -> None:
    """Draw the share of each key, a panel a direction."""
    n = len(story.importances)
    height = 1.3 + 0.42 * len(story.plan.space)
    figure = titled(story.title, story.subtitle, max(6.4, 4.6 * n), height)
    for axes, (metric, shares) in zip(
        figure.subplots(1, n, squeeze=False)[0], story.importances.items(), strict=True
    ):
        keys = list(shares)[::-1]
        bars = axes.barh(keys, [shares[key] for key in keys], color=BLUE, height=0.6)
        axes.bar_label(bars, fmt="{:.0%}", padding=3, fontsize=8.5)
        axes.set_xlim(0, 1.12 * max(shares.values()))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        plain_axes(axes, f"importance for {display_name(metric)}", "")
    save(figure, path)


def panels(n: int) -> tuple[int, int]:
    """Return rows and columns for n panels, with few places left empty."""
    deep = -(-n // _COLUMNS)
    return deep, -(-n // deep)


def _scatter(axes: Axes, story: SweepStory, axis: Axis, values: FloatArray, i: int) -> None:
    if axis.configured is not None:
        axes.axvline(axis.configured, color=GREY, linewidth=1, linestyle="--", zorder=1)
    numbers = [trial.number for trial in story.trials]
    axes.scatter(
        axis.positions,
        values,
        c=numbers,
        cmap="viridis",
        vmin=min(numbers),  # the same in all panels, also where trials have no such key
        vmax=max(numbers),
        s=22,
        alpha=0.85,
        linewidths=0.3,
        edgecolors="#333333",
        zorder=2,
    )
    if axis.best is not None:
        _star(axes, axis.best, story.best.values[i])
    if axis.log and not np.isnan(axis.positions).all():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if axis.ticks is not None:
        crowded = len("".join(axis.ticks)) > _CROWDED
        axes.set_xticks(range(len(axis.ticks)), axis.ticks, rotation=20 if crowded else 0)
        axes.set_xlim(-0.5, len(axis.ticks) - 0.5)


def _star(axes: Axes, x: float, y: float) -> None:
    axes.scatter(
        x, y, marker="*", s=170, color=ORANGE, edgecolors="white", linewidths=0.6, zorder=3
    )
