"""The plots of a run to explore in a browser, drawn with plotly; they need no network."""

from __future__ import annotations

import html
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
            "Point at a solution to see all of it; drag to turn or zoom.",
            _points(story),
        ),
        (
            "All metrics of each solution",
            "A line a solution; the better end of every axis is at the top. Drag along an axis to "
            "keep only the solutions in a range.",
            _parallel(story),
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


def _points(story: Story) -> Any:
    """Return the solutions over the first three objectives, turnable; over two, flat."""
    axes = story.axes()[:3]
    solid = len(axes) == 3
    kind = go.Scatter3d if solid else go.Scatter
    values = story.front.rows.values
    faint = kind(
        **{c: story.background[o.metric] for c, o in zip("xyz", axes, strict=False)},
        mode="markers",
        name="evaluated, dominated",
        hoverinfo="skip",
        opacity=0.5,
        marker={"size": 2 if solid else 4, "color": GREY, "line": {"width": 0}},
    )
    best = kind(
        **{c: values[o.metric] for c, o in zip("xyz", axes, strict=False)},
        mode="markers",
        name="front",
        hovertext=hover_texts(story.front),
        hoverinfo="text",
        marker={"size": 5 if solid else 9, **colours(story, axes[-1])},
    )
    titles = {
        f"{c}axis": {"title": story.label(o), "type": story.scale(o)}
        for c, o in zip("xyz", axes, strict=False)
    }
    figure = go.Figure([faint, best])
    figure.update_layout(template="plotly_white", height=680, legend={"x": 0, "y": 1})
    if solid:
        scene = titles | {"camera_eye": {"x": 1.6, "y": 1.6, "z": 0.8}, "aspectmode": "cube"}
        figure.update_layout(scene=scene, margin={"l": 20, "r": 20, "t": 20, "b": 20})
    else:
        figure.update_layout(titles, margin={"t": 20})
    return figure


def _parallel(story: Story) -> Any:
    dimensions = [_dimension(story, name) for name in story.roles.metrics]
    lines = go.Parcoords(line=colours(story, story.axes()[0]), dimensions=dimensions)
    figure = go.Figure(lines)
    figure.update_layout(template="plotly_white", height=480, margin={"t": 90, "b": 40})
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
    label = story.label(Objective(name, sense))
    return {"label": label, "values": values, "range": ends if sense == "max" else ends[::-1]}


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
