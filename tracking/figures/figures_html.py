"""The plots of a run to explore in a browser, drawn with plotly; they need no network."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from framework.arrays import Array
from framework.files import write_whole
from framework.front import Front
from framework.roles import Objective
from tracking.figures.story import Story, spoken

_LONGEST_LINE, _MOST_LINES = 70, 6
_TILT = -20  # degrees: labels of axes 35 pixels apart stay clear of each other
_LETTER = 6.5  # pixels
_TICKS = 6
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#9AA0A6"
# plotly's pages have a button that uploads the figure: nobody's data leave by a click
CONFIG = {"showSendToCloud": False, "displaylogo": False, "responsive": True}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px sans-serif; margin: 1.2rem; color: #222; }} h1 {{ font-size: 1.3rem;
margin: 0; }} h2 {{ font-size: 1rem; margin: 1.2rem 0 0; }} p {{ color: #555; margin: .3rem 0; }}
</style></head><body><h1>{title}</h1><p>{subtitle}</p>
{body}
</body></html>
"""


def front(story: Story, path: Path) -> None:
    """Write the front in two views: as points, and as parallel coordinates of all metrics."""
    sections = [
        (
            "The front",
            "Point at a solution to see all of it; drag to zoom. The star is the chosen design.",
            points(story, background=True),
        ),
        (
            "All metrics of each solution",
            "A line a solution; the better end of every axis is at the top. Drag along an axis to "
            "keep only the solutions in a range.",
            parallel(story),
        ),
    ]
    write_page(story.title, story.subtitle, sections, path)


def progress(story: Story, path: Path) -> None:
    """Write hypervolume and front size by evaluations, a line a repeat."""
    n = len(story.series)
    figure = make_subplots(rows=n, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    for row, name in enumerate(story.series, start=1):
        colour = {"color": ORANGE if name == "front_size" else BLUE}
        for number, repeat in enumerate(story.progress):
            label = spoken(name) if len(story.progress) == 1 else f"repeat {number:03d}"
            x = repeat["evaluations"]
            line = go.Scatter(x=x, y=repeat[name], name=label, mode="lines", line=colour)
            figure.add_trace(line, row=row, col=1)
        figure.update_yaxes(title_text=spoken(name), row=row, col=1)
    figure.update_xaxes(title_text="evaluations", row=n, col=1)
    figure.update_layout(template="plotly_white", height=620, showlegend=False, hovermode="x")
    figure.update_layout(margin={"t": 20})
    text = "Hypervolume: share of the box between worst and best values that the front dominates."
    write_page(story.title, story.subtitle, [("Progress", text, figure)], path)


def hover_texts(front: Front) -> list[str]:
    """Return for each solution its id, all metrics (validation, test) and its genome."""
    test = front.test or {}
    texts = []
    for i, id in enumerate(front.ids.tolist()):
        lines = [f"<b>id {id}</b>"]
        for name, column in front.rows.values.items():
            unseen = f" (test {test[name][i]:.4g})" if name in test else ""
            lines.append(f"{html.escape(spoken(name))}: {column[i]:.4g}{unseen}")
        lines += [html.escape(line) for line in genome_lines(front.X[i], front.gene_names)]
        texts.append("<br>".join(lines))
    return texts


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


def points(story: Story, *, background: bool) -> Any:
    """Return the solutions over two objectives, coloured by a third, the chosen design marked."""
    x, y, *others = story.axes()
    values, i = story.front.rows.values, story.position
    texts = hover_texts(story.front)
    colour = colours(story, others[0]) if others else {"color": BLUE}
    faint = go.Scatter(
        x=story.background[x.metric],
        y=story.background[y.metric],
        mode="markers",
        name="evaluated, dominated",
        hoverinfo="skip",
        opacity=0.5,
        marker={"size": 4, "color": GREY},
    )
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
    figure = go.Figure([faint, best, chosen] if background else [best, chosen])
    figure.update_layout(
        template="plotly_white",
        height=520,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        xaxis={"title": story.label(x), "type": story.scale(x)},
        yaxis={"title": story.label(y), "type": story.scale(y)},
        legend={"orientation": "h", "x": 0, "y": 1.08},
    )
    return figure


def parallel(story: Story) -> Any:
    """Return a line a solution over an axis a metric, labels tilted so that none meets another."""
    dimensions = [_dimension(story, name) for name in story.roles.metrics]
    lines = go.Parcoords(
        line=colours(story, story.axes()[0]),
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


def colours(story: Story, objective: Objective) -> dict[str, Any]:
    """Return the colouring by an objective, light being better."""
    return {
        "color": story.front.rows.values[objective.metric],
        "colorscale": "Viridis",
        "reversescale": objective.sense == "min",
        "showscale": True,
        "colorbar": {"title": {"text": story.label(objective), "side": "right"}},
    }


def _dimension(story: Story, name: str) -> dict[str, Any]:
    """Return a vertical axis with the better end at the top."""
    senses = {objective.metric: objective.sense for objective in story.roles.objectives}
    sense = senses.get(name, story.roles.metrics[name].sense)
    values = story.front.rows.values[name]
    ends = [float(np.nanmin(values)), float(np.nanmax(values))]
    if ends[0] == ends[1]:
        ends = [ends[0] - 0.5, ends[1] + 0.5]
    unit = story.roles.metrics[name].unit
    places = np.linspace(ends[0], ends[1], _TICKS)
    if (values == np.rint(values)).all():
        places = np.unique(np.rint(places))
    return {
        "label": spoken(name) + (f" ({unit})" if unit else "") + (" ↑" if sense == "max" else " ↓"),
        "values": values,
        "range": ends if sense == "max" else ends[::-1],
        "tickvals": places,
        "ticktext": [f"{place:.4g}" for place in places],
    }


def write_page(title: str, subtitle: str, sections: list[tuple[str, str, Any]], path: Path) -> None:
    """Write a page that needs no network; a section is a title, a text and a figure."""
    parts = []
    for i, (heading, text, figure) in enumerate(sections):
        drawn = figure.to_html(full_html=False, include_plotlyjs=i == 0, config=CONFIG)
        parts.append(f"<h2>{html.escape(heading)}</h2><p>{html.escape(text)}</p>{drawn}")
    page = _PAGE.format(
        title=html.escape(title), subtitle=html.escape(subtitle), body="\n".join(parts)
    )
    write_whole(path, page)
