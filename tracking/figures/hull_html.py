"""The convex hull of a front as a page that turns under the mouse, drawn with plotly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from tracking.figures.figures_html import BLUE, GREY, ORANGE, hover_texts, write_page
from tracking.figures.hull_story import Hull
from tracking.figures.story import Story


def hull(story: Story, found: Hull, path: Path) -> None:
    """Write a page with the facets that are seen from the ideal point; it needs no network."""
    x, y, z = found.points.T
    i, j, k = found.facets.T
    edges = found.points[found.facets[:, [0, 1, 2, 0]]]
    gap = np.full((len(edges), 1, 3), np.nan)  # ends a line
    lines = np.concatenate([edges, gap], axis=1).reshape(-1, 3)
    texts = np.array(hover_texts(story.front), dtype=object)
    inner = np.setdiff1d(np.arange(found.solutions), found.corners)
    figure = go.Figure(
        [
            go.Mesh3d(
                x=x,
                y=y,
                z=z,
                i=i,
                j=j,
                k=k,
                color=BLUE,
                opacity=0.25,
                hoverinfo="skip",
                name="hull",
            ),
            go.Scatter3d(
                x=lines[:, 0],
                y=lines[:, 1],
                z=lines[:, 2],
                mode="lines",
                line={"color": "#4B5563", "width": 2},
                hoverinfo="skip",
                showlegend=False,
            ),
            _marks(found, np.arange(found.solutions, len(x)), "R", "#111111", 5, "diamond"),
            _marks(found, inner, "front, not a corner", GREY, 3, "circle", texts[inner]),
            _marks(
                found,
                found.corners,
                "corner of the hull",
                ORANGE,
                5,
                "circle",
                texts[found.corners],
            ),
        ]
    )
    titles = {
        f"{c}axis": {"title": story.label(o)}
        for c, o in zip("xyz", story.roles.objectives, strict=True)
    }
    camera = {"x": 1.5, "y": 1.2, "z": 0.8}
    figure.update_layout(
        template="plotly_white",
        height=720,
        legend={"x": 0, "y": 1},
        scene=titles | {"camera_eye": camera, "aspectmode": "cube"},
        margin={"l": 20, "r": 20, "t": 20, "b": 20},
    )
    text = (
        "Facets seen from the ideal point; whatever lies on them is had by drawing lots between "
        "their corners. R are trivial classifiers. Drag to turn, point at a corner for its values."
    )
    write_page(story.title, story.subtitle, [("The convex hull", text, figure)], path)


def _marks(
    found: Hull,
    which: np.ndarray,
    name: str,
    colour: str,
    size: int,
    symbol: str,
    texts: np.ndarray | None = None,
) -> go.Scatter3d:
    x, y, z = found.points[which].T
    return go.Scatter3d(
        x=x,
        y=y,
        z=z,
        mode="markers",
        name=name,
        marker={"size": size, "color": colour, "symbol": symbol, "line": {"width": 0}},
        hovertext=texts,
        hoverinfo="text" if texts is not None else "skip",
    )
