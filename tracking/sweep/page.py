"""``sweep.html``: the whole of a sweep on one page, drawn with plotly; it needs no network."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import plotly.graph_objects as go
from optuna.trial import FrozenTrial
from plotly.subplots import make_subplots

from framework.arrays import FloatArray
from tracking.figures.html_page import write_figures_page
from tracking.figures.style import BLUE, GREY, ORANGE, display_name
from tracking.sweep.figures import SLICE, panels
from tracking.sweep.report import short, shown_value
from tracking.sweep.story import Axis, SweepStory

PAGE = "sweep.html"

_HISTORY = "A point a trial in the order of asking; the line is the best so far; star: best trial."
_PRUNED = " Crosses: trials that were ended early, with their last values."
_BARS = " Bars: the 95% interval of the mean over the repeats."
_PARALLEL = (
    "A line a trial, light ones being better. Drag along an axis to keep only the trials in a "
    "range; drag an axis by its name to move it."
)
_CONTOUR = (
    "The two keys that matter most, light being better. Points are trials; between them the "
    "colours are interpolated, and away from them they say little."
)
_IMPORTANCE = (
    "Share of each key in a trial being among the best (PED-ANOVA): a long bar means that good "
    "trials have values of this key that others do not have."
)
_TICKS = 5  # of an axis of numbers


def write_sweep_page(story: SweepStory, study: optuna.Study, path: Path) -> None:
    """Write history, parallel coordinates, values by key, contours and importances."""
    text = _HISTORY + _PRUNED * bool(story.pruned)
    text += _BARS * (story.plan.sweep.repeats > 1)
    sections = [("History", text, _history(story))]
    sections += [("All keys of each trial", _PARALLEL, _parallel(story))]
    sections += [("Values by key", SLICE, _slices(story))]
    for i, (metric, shares) in enumerate(story.importances.items()):
        heading = f"Importance for {display_name(metric)}"
        sections.append((heading, _IMPORTANCE if i == 0 else "", _importance(shares)))
    for i, direction in enumerate(story.plan.sweep.directions):
        keys = list(story.importances.get(direction.metric, ()))[:2]
        if len(keys) == 2:
            heading = f"Contour of {display_name(direction.metric)} over {keys[0]} and {keys[1]}"
            sections.append((heading, _CONTOUR, _contour(story, study, i, keys)))
    write_figures_page(path, story.title, story.subtitle, sections)


def _history(story: SweepStory) -> Any:
    """Return each direction's value by trial, with the best so far."""
    labels = story.labels()
    figure = make_subplots(rows=len(labels), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    numbers, texts = [trial.number for trial in story.trials], _hovers(story)
    for i, label in enumerate(labels):
        place = {"row": i + 1, "col": 1}
        best = {"color": ORANGE, "shape": "hv", "width": 1.5}
        so_far = go.Scatter(x=numbers, y=story.so_far(i), mode="lines", line=best, hoverinfo="skip")
        points = go.Scatter(
            x=numbers,
            y=story.values(i),
            mode="markers",
            hovertext=texts,
            hoverinfo="text",
            marker={"color": BLUE, "size": 8},
            error_y={"array": story.halves(i), "thickness": 0.8},
        )
        ended = go.Scatter(
            x=[trial.number for trial in story.pruned],
            y=[trial.values[i] for trial in story.pruned],
            mode="markers",
            hovertext=[_hover(story, trial) for trial in story.pruned],
            hoverinfo="text",
            marker={"color": GREY, "size": 8, "symbol": "x-thin-open"},
        )
        figure.add_trace(so_far, **place)
        figure.add_trace(ended, **place)
        figure.add_trace(points, **place)
        figure.add_trace(_star([story.best.number], [story.best.values[i]]), **place)
        figure.update_yaxes(title_text=label, **place)
    figure.update_xaxes(title_text="trial", row=len(labels), col=1)
    return _laid_out(figure, 80 + 260 * len(labels))


def _parallel(story: SweepStory) -> Any:
    """Return a line a trial over the directions and all keys, coloured by the first direction."""
    first = story.plan.sweep.directions[0]
    dimensions = []
    for i, direction in enumerate(story.plan.sweep.directions):
        arrow = "↑" if direction.sense == "max" else "↓"
        label = f"{display_name(direction.metric)} {arrow}"
        dimensions.append({"label": label, "values": story.values(i)})
    dimensions += [_vertical(key, story.axis(key)) for key in story.plan.space]
    line = {
        "color": story.values(0),
        "colorscale": "Viridis",
        "reversescale": first.sense == "min",
        "showscale": True,
        "colorbar": {"title": {"text": story.labels()[0], "side": "right"}},
    }
    figure = go.Figure(go.Parcoords(line=line, dimensions=dimensions, labelangle=-12))
    return _laid_out(figure, 460).update_layout(margin={"t": 110, "b": 30, "l": 90, "r": 30})


def _vertical(key: str, axis: Axis) -> dict[str, Any]:
    """Return an axis of parallel coordinates."""
    values = np.log10(axis.positions) if axis.log else axis.positions
    absent = np.isnan(values)
    if axis.ticks is not None:
        places, texts = [float(i) for i in range(len(axis.ticks))], list(axis.ticks)
    else:
        there = values[~absent]
        places = np.linspace(there.min(), there.max(), _TICKS).tolist() if len(there) else []
        texts = [f"{10**place if axis.log else place:.3g}" for place in places]
    margin = 0.05 * (places[-1] - places[0]) if places else 0.0
    if absent.any():  # trials without such a key go below the others
        places, texts = [(places or [0.0])[0] - 4 * (margin or 0.1), *places], ["none", *texts]
        values = np.where(absent, places[0], values)
    margin = margin or 0.1
    return {
        "label": short(key),
        "values": values,
        "tickvals": places,
        "ticktext": texts,
        "range": [places[0] - margin, places[-1] + margin],
    }


def _slices(story: SweepStory) -> Any:
    """Return each direction's value over each key, to point at."""
    keys, labels = list(story.plan.space), story.labels()
    deep, columns = panels(len(keys))
    figure = make_subplots(rows=deep * len(labels), cols=columns, shared_yaxes=True)
    texts = _hovers(story)
    for i, label in enumerate(labels):
        for j, key in enumerate(keys):
            place = {"row": i * deep + j // columns + 1, "col": j % columns + 1}
            axis = story.axis(key)
            _slice(figure, story, axis, i, texts, place)
            figure.update_xaxes(title_text=key, **_ticks(axis), **place)
            if j % columns == 0:
                figure.update_yaxes(title_text=label, **place)
    return _laid_out(figure, 80 + 300 * deep * len(labels))


def _slice(
    figure: Any,
    story: SweepStory,
    axis: Axis,
    i: int,
    texts: list[str],
    place: dict[str, int],
) -> None:
    points = go.Scatter(
        x=axis.positions,
        y=story.values(i),
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
    figure.add_trace(points, **place)
    if axis.best is not None:
        figure.add_trace(_star([axis.best], [story.best.values[i]]), **place)
    if axis.configured is not None:
        figure.add_vline(axis.configured, line={"color": GREY, "dash": "dash", "width": 1}, **place)


def _contour(story: SweepStory, study: optuna.Study, i: int, keys: list[str]) -> Any:
    """Return a direction's value over two keys."""
    direction = story.plan.sweep.directions[i]

    def value(trial: FrozenTrial) -> float:
        return float(trial.values[i])

    figure = optuna.visualization.plot_contour(
        study, keys, target=value, target_name=story.labels()[i]
    )
    figure.update_traces(
        colorscale="Viridis",
        reversescale=direction.sense == "min",
        selector={"type": "contour"},
    )
    return _laid_out(figure, 520).update_layout(title=None, width=820)


def _importance(shares: dict[str, float]) -> Any:
    """Return a bar a key."""
    keys = list(shares)[::-1]
    values: FloatArray = np.array([shares[key] for key in keys])
    bars = go.Bar(
        x=values,
        y=keys,
        orientation="h",
        marker_color=BLUE,
        text=[f"{value:.0%}" for value in values.tolist()],
        textposition="outside",
        cliponaxis=False,
    )
    return _laid_out(go.Figure(bars), 120 + 40 * len(keys)).update_layout(xaxis_tickformat=".0%")


def _laid_out(figure: Any, height: int) -> Any:
    return figure.update_layout(
        template="plotly_white", showlegend=False, margin={"t": 20}, height=height
    )


def _star(x: list[Any], y: list[Any]) -> Any:
    marker = {"symbol": "star", "size": 16, "color": ORANGE}
    return go.Scatter(x=x, y=y, mode="markers", hoverinfo="skip", marker=marker)


def _ticks(axis: Axis) -> dict[str, Any]:
    if axis.ticks is not None:
        return {"tickvals": list(range(len(axis.ticks))), "ticktext": axis.ticks}
    if not axis.log or np.isnan(axis.positions).all():
        return {}
    # numbers at 1, 2 and 5 of each decade, but only at decades where there are many
    decades = math.log10(np.nanmax(axis.positions)) - math.log10(np.nanmin(axis.positions))
    return {"type": "log", "dtick": "D2" if decades < 3 else 1}


def _hovers(story: SweepStory) -> list[str]:
    return [_hover(story, trial) for trial in story.trials]


def _hover(story: SweepStory, trial: FrozenTrial) -> str:
    lines = [f"<b>trial {trial.number}</b>"]
    for direction, value in zip(story.plan.sweep.directions, trial.values, strict=True):
        lines.append(f"{display_name(direction.metric)}: {value:.6g}")
    lines += [f"{key}: {html.escape(shown_value(v))}" for key, v in trial.params.items()]
    return "<br>".join(lines)
