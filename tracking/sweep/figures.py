"""How the plots of a sweep are drawn: pictures by matplotlib, pages by plotly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from plotly.subplots import make_subplots

from framework.arrays import FloatArray
from tracking.figures.figures_html import write_page
from tracking.figures.figures_png import BLUE, GREY, ORANGE, finish, save, titled
from tracking.figures.story import spoken
from tracking.sweep.report import shown_value
from tracking.sweep.story import Axis, SweepStory

_COLUMNS = 4  # panels side by side, at most
_SLICE = "A point a trial, light ones being later; star: best trial; dashed: as configured."
_IMPORTANCE = (
    "Share of each key in a trial being among the best (PED-ANOVA): a long bar means that good "
    "trials have values of this key that others do not have."
)


def slice_png(story: SweepStory, path: Path) -> None:
    """Draw each direction's value over each key."""
    keys, labels = list(story.plan.space), story.labels()
    deep, columns = _grid(len(keys))
    height = 1.0 + 2.7 * deep * len(labels)
    figure = titled(story.title, story.subtitle, max(6.4, 3.1 * columns), height)
    panels = figure.subplots(deep * len(labels), columns, squeeze=False, sharey="row")
    for i, label in enumerate(labels):
        block = panels[i * deep : (i + 1) * deep].ravel()
        values = _values(story, i)
        for j, axes in enumerate(block):
            if j >= len(keys):
                axes.set_axis_off()
                continue
            _scatter(axes, story, story.axis(keys[j]), values, i)
            finish(axes, keys[j], label if j % columns == 0 else "")
    figure.supxlabel(_SLICE, x=0.012, ha="left", fontsize=8, color="#444444")
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
        finish(axes, f"importance for {spoken(metric)}", "")
    save(figure, path)


def slice_html(story: SweepStory, path: Path) -> None:
    """Write each direction's value over each key, to point at."""
    keys, labels = list(story.plan.space), story.labels()
    deep, columns = _grid(len(keys))
    figure = make_subplots(rows=deep * len(labels), cols=columns, shared_yaxes=True)
    texts = [_hover(story, position) for position in range(len(story.trials))]
    for i, label in enumerate(labels):
        for j, key in enumerate(keys):
            place = {"row": i * deep + j // columns + 1, "col": j % columns + 1}
            axis = story.axis(key)
            _trace(figure, story, axis, i, texts, place)
            figure.update_xaxes(title_text=key, **_ticks(axis), **place)
            if j % columns == 0:
                figure.update_yaxes(title_text=label, **place)
    figure.update_layout(
        template="plotly_white",
        showlegend=False,
        margin={"t": 20},
        height=80 + 300 * deep * len(labels),
    )
    write_page(story.title, story.subtitle, [("Values by key", _SLICE, figure)], path)


def importance_html(story: SweepStory, path: Path) -> None:
    """Write the share of each key, a figure a direction."""
    sections = []
    for metric, shares in story.importances.items():
        keys = list(shares)[::-1]
        bars = go.Bar(x=[shares[key] for key in keys], y=keys, orientation="h", marker_color=BLUE)
        figure = go.Figure(bars)
        figure.update_layout(
            template="plotly_white",
            height=120 + 40 * len(keys),
            xaxis_tickformat=".0%",
            margin={"t": 20},
        )
        sections.append((f"Importance for {spoken(metric)}", _IMPORTANCE, figure))
    write_page(story.title, story.subtitle, sections, path)


def _grid(n: int) -> tuple[int, int]:
    """Return rows and columns for n panels, with few places left empty."""
    deep = -(-n // _COLUMNS)
    return deep, -(-n // deep)


def _values(story: SweepStory, i: int) -> FloatArray:
    return np.array([trial.values[i] for trial in story.trials])


def _scatter(axes: Axes, story: SweepStory, axis: Axis, values: FloatArray, i: int) -> None:
    if axis.configured is not None:
        axes.axvline(axis.configured, color=GREY, linewidth=1, linestyle="--", zorder=1)
    numbers = [trial.number for trial in story.trials]
    axes.scatter(
        axis.positions,
        values,
        c=numbers,
        cmap="viridis",
        s=22,
        alpha=0.85,
        linewidths=0.3,
        edgecolors="#333333",
        zorder=2,
    )
    axes.scatter(
        axis.best,
        story.best.values[i],
        marker="*",
        s=170,
        color=ORANGE,
        edgecolors="white",
        linewidths=0.6,
        zorder=3,
    )
    if axis.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if axis.ticks is not None:
        axes.set_xticks(range(len(axis.ticks)), axis.ticks)
        axes.set_xlim(-0.5, len(axis.ticks) - 0.5)


def _trace(
    figure: Any,
    story: SweepStory,
    axis: Axis,
    i: int,
    texts: list[str],
    place: dict[str, int],
) -> None:
    points = go.Scatter(
        x=axis.positions,
        y=_values(story, i),
        mode="markers",
        hovertext=texts,
        hoverinfo="text",
        marker={
            "color": [trial.number for trial in story.trials],
            "colorscale": "Viridis",
            "size": 8,
            "line": {"width": 0.5, "color": "#333333"},
        },
    )
    best = go.Scatter(
        x=[axis.best],
        y=[story.best.values[i]],
        mode="markers",
        hoverinfo="skip",
        marker={"symbol": "star", "size": 16, "color": ORANGE},
    )
    figure.add_trace(points, **place)
    figure.add_trace(best, **place)
    if axis.configured is not None:
        figure.add_vline(axis.configured, line={"color": GREY, "dash": "dash", "width": 1}, **place)


def _ticks(axis: Axis) -> dict[str, Any]:
    if axis.ticks is not None:
        return {"tickvals": list(range(len(axis.ticks))), "ticktext": axis.ticks}
    return {"type": "log", "dtick": "D2"} if axis.log else {}


def _hover(story: SweepStory, position: int) -> str:
    trial = story.trials[position]
    lines = [f"<b>trial {trial.number}</b>"]
    for direction, value in zip(story.plan.sweep.directions, trial.values, strict=True):
        lines.append(f"{spoken(direction.metric)}: {value:.6g}")
    lines += [f"{key}: {shown_value(value)}" for key, value in trial.params.items()]
    return "<br>".join(lines)
