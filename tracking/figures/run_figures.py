"""The figures of a run: its front, its progress, and values on test records."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.arrays import Array, FloatArray
from framework.front import Front
from framework.roles import Objective
from tracking.figures.html_page import write_figures_page
from tracking.figures.run_data import RunData
from tracking.figures.style import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    display_name,
    plain_axes,
    save,
    titled,
)

DOMINATED, INFEASIBLE = "evaluated, dominated", "breaks a constraint"

BLACK = "#222222"
_MARKERS, _SYMBOLS = "Ds^v", ("diamond-open", "square-open", "triangle-up-open")  # of alternatives

_SERIES = {
    "hypervolume": ("hypervolume  ↑ better", BLUE),
    "front_size": ("solutions on the front", ORANGE),
}


def front_png(data: RunData, path: Path) -> None:
    """Draw the front: the cost to the right, the next objective upwards, the third as colour.

    Of two objectives the staircase they reach is drawn; where there are more than three, the
    page shows the rest. Light colours are the better ones. Candidates that break a constraint
    are crosses: none need dominate them.
    """
    x, y, *others = data.axes()
    figure = titled(data.title, data.subtitle, 8.4, 5.6)
    axes = figure.add_subplot()
    values = data.front.rows.values
    dominated, infeasible = data.background
    if len(dominated[x.metric]):
        axes.scatter(
            dominated[x.metric],
            dominated[y.metric],
            s=7,
            color=GREY,
            alpha=0.35,
            linewidths=0,
            label=DOMINATED,
        )
    if len(infeasible[x.metric]):
        axes.scatter(
            infeasible[x.metric],
            infeasible[y.metric],
            s=12,
            marker="x",
            color=PURPLE,
            alpha=0.8,
            linewidths=0.7,
            label=INFEASIBLE,
        )
    if others:
        scatter_coloured(data, figure, axes, [x, y, others[0]])
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
    for one, marker in zip(data.alternatives, cycle(_MARKERS), strict=False):
        axes.scatter(
            one.values[x.metric],
            one.values[y.metric],
            s=34,
            marker=marker,
            facecolors="none",
            edgecolors=BLACK,
            linewidths=1.1,
            zorder=4,
            label=f"without search: {_short(one.name)}",
        )
    mark_chosen(axes, data, "the chosen design")
    axes.set(xscale=data.scale(x), yscale=data.scale(y))
    plain_axes(axes, data.label(x), data.label(y))
    columns = 2 if data.alternatives else 4
    figure.legend(loc="outside lower left", ncols=columns, frameon=False, fontsize=8.5)
    save(figure, path)


def progress_png(data: RunData, path: Path) -> None:
    """Draw hypervolume and front size by evaluations, one line per repeat."""
    figure = titled(data.title, data.subtitle, 8.4, 5.0)
    panels = figure.subplots(len(data.series), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, data.series, strict=True):
        text, colour = _SERIES[name]
        for repeat in data.progress:
            single = len(data.progress) == 1
            _line(axes, repeat["evaluations"], repeat[name], colour, single=single)
        plain_axes(axes, "", text)
    panels[-1].set_xlabel("evaluations")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    save(figure, path)


def test_png(data: RunData, path: Path) -> None:
    """Draw each objective's test value over the one the search saw, where the two can differ."""
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
        known, unseen = seen[name], test[name]
        ends = _limits(known, unseen)
        axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--")
        axes.scatter(known, unseen, s=18, color=BLUE, alpha=0.7, linewidths=0)
        axes.set(xlim=ends, ylim=ends, box_aspect=1)
        gap = float(np.nanmean(unseen - known))
        axes.set_title(f"{data.label(objective)}\n{gap_name}: {gap:+.3g} on average", size=9)
        plain_axes(axes, data.measured, "on test records")
    save(figure, path)


def scatter_coloured(data: RunData, figure: Figure, axes: Axes, shown: list[Objective]) -> None:
    """Draw the front over two objectives, coloured by a third, light being better."""
    x, y, colour = (data.front.rows.values[objective.metric] for objective in shown)
    points = axes.scatter(
        x,
        y,
        c=colour,
        norm=data.scale(shown[2]),
        cmap="viridis" if shown[2].sense == "max" else "viridis_r",
        s=30,
        edgecolors="#333333",
        linewidths=0.35,
        zorder=3,
        label="front",
    )
    bar = figure.colorbar(points, ax=axes, pad=0.015, aspect=30)
    bar.set_label(data.label(shown[2]))
    bar.outline.set_visible(False)


def mark_chosen(axes: Axes, data: RunData, label: str) -> None:
    """Mark the chosen design over the first two objectives."""
    x, y = (data.front.rows.values[objective.metric] for objective in data.axes()[:2])
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


def _limits(*columns: FloatArray) -> tuple[float, float]:
    low = min(float(np.nanmin(column)) for column in columns)
    high = max(float(np.nanmax(column)) for column in columns)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


_LONGEST_LINE, _MOST_LINES, _LONGEST_NAME = 70, 6, 60
_TILT = -20  # degrees: labels of axes 35 pixels apart stay clear of each other
_LETTER = 6.5  # pixels
_TICKS = 6


def front_html(data: RunData, path: Path) -> None:
    """Write the front in two views: as points, and as parallel coordinates of all metrics."""
    sections = [
        (
            "The front",
            "Point at a solution to see all of it; drag to zoom. The star is the chosen design.",
            scatter_html(data, background=True),
        ),
        (
            "All metrics of each solution",
            "One line per solution; the better end of every axis is at the top. Drag along an axis "
            "to keep only the solutions in a range.",
            parallel_html(data),
        ),
    ]
    write_figures_page(path, data.title, data.subtitle, sections)


def hover_texts(front: Front) -> list[str]:
    """Return for each solution its id, all metrics (validation, test) and its genome."""
    test = front.test or {}
    texts = []
    for i, id in enumerate(front.ids.tolist()):
        lines = [f"<b>id {id}</b>", *_metric_lines(front.rows.values, test, i)]
        lines += [html.escape(line) for line in genome_lines(front.X[i], front.gene_names)]
        texts.append("<br>".join(lines))
    return texts


def _metric_lines(
    values: Mapping[str, Sequence[float] | Array], test: Mapping[str, Any], i: int
) -> Iterator[str]:
    """Yield a line for each metric of one point, with its value on test records."""
    for name, column in values.items():
        unseen = f" (test {test[name][i]:.4g})" if name in test else ""
        yield f"{html.escape(display_name(name))}: {column[i]:.4g}{unseen}"


def genome_lines(x: Array, names: tuple[str, ...]) -> list[str]:
    """Summarise a genome: genes by value where they are integers, the leading ones else."""
    if np.issubdtype(x.dtype, np.integer):
        parts = [
            f"gene {value}: {', '.join(n for n, v in zip(names, x, strict=True) if v == value)}"
            for value in np.unique(x).tolist()
        ]
    else:
        parts = [", ".join(f"{n} {v:.3g}" for n, v in zip(names, x.tolist(), strict=True))]
    lines = [p if len(p) <= _LONGEST_LINE else f"{p[: _LONGEST_LINE - 3]}..." for p in parts]
    return lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "..."]


def scatter_html(data: RunData, *, background: bool) -> Any:
    """Return the solutions over two objectives, coloured by a third, the chosen design marked."""
    x, y, *others = data.axes()
    values, i = data.front.rows.values, data.position
    texts = hover_texts(data.front)
    colour = colour_scale(data, others[0]) if others else {"color": BLUE}
    best = go.Scatter(
        x=values[x.metric],
        y=values[y.metric],
        mode="markers",
        name="the front",
        hovertext=texts,
        hoverinfo="text",
        marker={"size": 8, **colour},
    )
    chosen = go.Scatter(
        x=values[x.metric][i : i + 1],
        y=values[y.metric][i : i + 1],
        mode="markers",
        name="the chosen design",
        hovertext=texts[i : i + 1],
        hoverinfo="text",
        marker={"size": 18, "color": ORANGE, "symbol": "star", "line": {"width": 1}},
    )
    around = [*_background(data), *_alternatives(data)] if background else []
    figure = go.Figure([*around, best, chosen])
    figure.update_layout(
        template="plotly_white",
        height=520,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        xaxis={"title": data.label(x), "type": data.scale(x)},
        yaxis={"title": data.label(y), "type": data.scale(y)},
        legend={"orientation": "h", "x": 0, "y": 1.08},
    )
    return figure


def _background(data: RunData) -> Iterator[Any]:
    """Yield the candidates that are no solutions: those dominated, those that are infeasible."""
    x, y, *_ = data.axes()
    looks = (
        (DOMINATED, {"size": 4, "color": GREY}),
        (INFEASIBLE, {"size": 6, "color": PURPLE, "symbol": "x-thin-open", "line": {"width": 1}}),
    )
    for points, (name, marker) in zip(data.background, looks, strict=True):
        if len(points[x.metric]):
            yield go.Scatter(
                x=points[x.metric],
                y=points[y.metric],
                mode="markers",
                name=name,
                hoverinfo="skip",
                opacity=0.5,
                marker=marker,
            )


def _alternatives(data: RunData) -> Iterator[Any]:
    """Yield what a person would do without the search."""
    x, y, *_ = data.axes()
    for one, symbol in zip(data.alternatives, cycle(_SYMBOLS), strict=False):
        texts = []
        for i, point in enumerate(one.points):
            lines = [f"<b>{html.escape(one.name)}</b>", html.escape(point)]
            texts.append("<br>".join([*lines, *_metric_lines(one.values, one.test, i)]))
        yield go.Scatter(
            x=one.values[x.metric],
            y=one.values[y.metric],
            mode="markers",
            name=f"without search: {_short(one.name)}",
            hovertext=texts,
            hoverinfo="text",
            marker={"size": 9, "color": BLACK, "symbol": symbol, "line": {"width": 1.5}},
        )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def parallel_html(data: RunData) -> Any:
    """Return one line per solution over one axis per metric, with labels that do not overlap."""
    dimensions = [_vertical_axis(data, name) for name in data.roles.metrics]
    lines = go.Parcoords(
        line=colour_scale(data, data.axes()[0]),
        dimensions=dimensions,
        labelangle=_TILT,
        rangefont={"size": 1, "color": "rgba(0, 0, 0, 0)"},  # labels lie over it; ticks say it
    )
    longest = max(len(dimension["label"]) for dimension in dimensions)
    above = 60 + math.ceil(longest * _LETTER * math.sin(math.radians(-_TILT)))
    figure = go.Figure(lines)
    figure.update_layout(template="plotly_white", height=390 + above)
    figure.update_layout(margin={"t": above, "b": 40})
    return figure


def colour_scale(data: RunData, objective: Objective) -> dict[str, Any]:
    """Return the colouring by an objective, light being better."""
    return {
        "color": data.front.rows.values[objective.metric],
        "colorscale": "Viridis",
        "reversescale": objective.sense == "min",
        "showscale": True,
        "colorbar": {"title": {"text": data.label(objective), "side": "right"}},
    }


def _vertical_axis(data: RunData, name: str) -> dict[str, Any]:
    """Return a vertical axis with the better end at the top."""
    sense = data.roles.sense(name)
    values = data.front.rows.values[name]
    ends = [float(np.nanmin(values)), float(np.nanmax(values))]
    if ends[0] == ends[1]:
        ends = [ends[0] - 0.5, ends[1] + 0.5]
    unit = data.roles.metrics[name].unit
    positions = np.linspace(ends[0], ends[1], _TICKS)
    if (values == np.rint(values)).all():
        positions = np.unique(np.rint(positions))
    return {
        "label": display_name(name)
        + (f" ({unit})" if unit else "")
        + (" ↑" if sense == "max" else " ↓"),
        "values": values,
        "range": ends if sense == "max" else ends[::-1],
        "tickvals": positions,
        "ticktext": [f"{position:.4g}" for position in positions],
    }
