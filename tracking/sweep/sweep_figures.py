"""The figures of a sweep: its history, the effect of each key, and the importance of the keys.

``sweep.html`` has interactive figures, made with plotly. Slices, importances and contours are
Optuna's (:mod:`optuna.visualization`). The history and the parallel coordinates are not, since
those of Optuna leave out pruned trials, intervals of repeats, the best value so far if there are
several directions, and trials without a value for every key.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import optuna
import plotly.graph_objects as go
from matplotlib.ticker import MaxNLocator
from optuna.trial import FrozenTrial
from plotly.subplots import make_subplots

from framework.arrays import FloatArray
from framework.experiment.run_dir import RunDir
from tracking.figures.html_page import write_figures_page
from tracking.figures.style import ARROWS, BLUE, GREY, ORANGE, display_name
from tracking.sweep.config import Direction, SweepPlan
from tracking.sweep.report import PAGE, ranked, short, shown_value
from tracking.sweep.search_space import Dimension
from tracking.sweep.study import INTERVALS, SweepStudy, importances, violation

_TICKS = 5  # on an axis of numbers
_AXIS = 130  # pixels between two axes, at least

_HISTORY = (
    "One point per trial in the order of asking; the line is the best so far; star: best trial."
)
_PRUNED = " Crosses: trials that were ended early, with their last values."
_BARS = " Bars: the 95% interval of the mean over the repeats."
_PARALLEL = (
    "One line per trial, light ones being better. Drag along an axis to keep only the trials in a "
    "range; drag an axis by its name to move it."
)
_SLICE = "One point per trial, dark ones being later."
_CONTOUR = (
    "The two keys that matter most, light being better. Points are trials; between them the "
    "colours are interpolated, and away from them they say little."
)
_IMPORTANCE = (
    "Share of each key in a trial being among the best (PED-ANOVA): a long bar means that good "
    "trials have values of this key that others do not have."
)


def write_sweep_figures(plan: SweepPlan, out: RunDir, study: SweepStudy) -> None:
    """Write ``sweep.html``, unless no trial has values.

    The page has the history, parallel coordinates, slices, importances and contours.
    """
    trials, pruned = study.complete(), study.pruned()
    if not trials:
        return
    best = ranked(plan, trials)[0][0]
    text = _HISTORY + _PRUNED * bool(pruned) + _BARS * (plan.sweep.repeats > 1)
    sections = [
        ("History", text, [_history(plan, trials, pruned, best)]),
        ("All keys of each trial", _PARALLEL, [_parallel(plan, trials)]),
    ]
    shares = importances(study)
    for i, direction in enumerate(plan.sweep.directions):
        name, of_metric = display_name(direction.metric), shares.get(direction.metric, {})
        target, label = partial(_value, i), _label(direction)
        keys = [key for key in plan.space if any(key in t.params for t in trials)]
        slices = [_slice(study, key, target, label) for key in keys]
        sections.append((f"{name.capitalize()} by key", _SLICE, slices))
        if of_metric:
            sections.append((f"Importance for {name}", _IMPORTANCE, [_importances(of_metric)]))
        if len(of_metric) > 1:
            first, second, *_ = of_metric
            contour = optuna.visualization.plot_contour(
                study.study, [first, second], target=target, target_name=label
            )
            light_is_better = {"colorscale": "Viridis", "reversescale": direction.sense == "min"}
            above = {"colorbar": {"orientation": "h", "thickness": 12, "title_side": "bottom"}}
            contour.update_traces(**light_is_better, **above, selector={"type": "contour"})
            contour.update_layout(xaxis_title=short(first), yaxis_title=short(second))
            heading = f"Contour of {name} over {first} and {second}"
            sections.append((heading, _CONTOUR, [_laid_out(contour, 520)]))
    subtitle = _subtitle(plan, len(trials), len(pruned), best)
    write_figures_page(out.path / PAGE, f"{plan.config.name}: sweep", subtitle, sections)


def _subtitle(plan: SweepPlan, trials: int, pruned: int, best: FrozenTrial) -> str:
    """Return the number of trials, their sampler, and the best trial."""
    sweep = plan.sweep
    splits = " on other splits" if sweep.resplit else ""
    repeats = f", each the mean of {sweep.repeats} runs{splits}" if sweep.repeats > 1 else ""
    ended = f", {pruned} pruned" if pruned else ""
    which = "none keeps the constraints, nearest to it" if violation(best) else "best"
    values = ", ".join(
        f"{display_name(d.metric)} {value:.5g}"
        for d, value in zip(sweep.directions, best.values, strict=True)
    )
    searched = f"{trials} trials by {sweep.sampler}{repeats}{ended}"
    return f"{searched}; {which}: trial {best.number}, {values}"


def _label(direction: Direction) -> str:
    """Return an axis label of a direction."""
    return f"{display_name(direction.metric)}  {ARROWS[direction.sense]} better"


def _slice(study: SweepStudy, key: str, target: Callable[[FrozenTrial], float], label: str) -> Any:
    """Return a small figure of a direction's value over one key, to be placed beside others."""
    figure = optuna.visualization.plot_slice(study.study, [key], target=target, target_name=label)
    figure.update_xaxes(title_text=short(key), nticks=4, tickangle=0)
    figure.update_traces(marker_showscale=False)
    return _laid_out(figure, 260, 280)


def _value(i: int, trial: FrozenTrial) -> float:
    return float(trial.values[i])


def _history(
    plan: SweepPlan,
    trials: Sequence[FrozenTrial],
    pruned: Sequence[FrozenTrial],
    best: FrozenTrial,
) -> Any:
    """Return the figure of each direction's value by trial, with the best so far."""
    directions = plan.sweep.directions
    rows = len(directions)
    figure = make_subplots(rows=rows, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for i, direction in enumerate(directions):
        points = _points(plan, trials, i, {"color": BLUE, "size": 8})
        if plan.sweep.repeats > 1:
            halves = np.array([trial.user_attrs[INTERVALS][direction.metric] for trial in trials])
            points.error_y = {"array": halves, "thickness": 0.8}
        better = np.maximum if direction.sense == "max" else np.minimum
        so_far = go.Scatter(
            x=points.x,
            y=better.accumulate(points.y),
            mode="lines",
            line={"color": ORANGE, "shape": "hv", "width": 1.5},
            hoverinfo="skip",
        )
        ended = _points(plan, pruned, i, {"color": GREY, "size": 8, "symbol": "x-thin-open"})
        star = _points(plan, [best], i, {"color": ORANGE, "size": 16, "symbol": "star"})
        for trace in (so_far, ended, points, star):
            figure.add_trace(trace, row=i + 1, col=1)
        figure.update_yaxes(title_text=_label(direction), row=i + 1, col=1)
    figure.update_xaxes(title_text="trial", row=rows, col=1)
    return _laid_out(figure, 80 + 260 * rows)


def _points(plan: SweepPlan, trials: Sequence[FrozenTrial], i: int, marker: dict[str, Any]) -> Any:
    """Return points for the values of trials by number; hovering shows the whole trial."""
    return go.Scatter(
        x=[trial.number for trial in trials],
        y=[trial.values[i] for trial in trials],
        mode="markers",
        hovertext=[_hover_text(plan, trial) for trial in trials],
        hoverinfo="text",
        marker=marker,
    )


def _parallel(plan: SweepPlan, trials: Sequence[FrozenTrial]) -> Any:
    """Return parallel coordinates: a line per trial over directions and keys."""
    directions = plan.sweep.directions
    values: FloatArray = np.array([trial.values for trial in trials])
    dimensions: list[dict[str, Any]] = [
        {"label": f"{display_name(d.metric)} {ARROWS[d.sense]}", "values": column}
        for d, column in zip(directions, values.T, strict=True)
    ]
    dimensions += [_vertical_axis(key, of, trials) for key, of in plan.space.items()]
    line = {
        "color": values[:, 0],
        "colorscale": "Viridis",
        "reversescale": directions[0].sense == "min",
        "showscale": True,
        "colorbar": {"title": {"text": _label(directions[0]), "side": "right"}},
    }
    figure = go.Figure(go.Parcoords(line=line, dimensions=dimensions, labelangle=-12))
    figure = _laid_out(figure, 460, _AXIS * (1 + len(dimensions)))
    return figure.update_layout(margin={"t": 110, "b": 30, "l": 90, "r": 30})


def _vertical_axis(key: str, dimension: Dimension, trials: Sequence[FrozenTrial]) -> dict[str, Any]:
    """Return an axis of parallel coordinates; trials without the key are below the others.

    Choices are at 0, 1, ... in their order.
    """
    choices, log = dimension.choices, dimension.log

    def position(params: Mapping[str, Any]) -> float | None:
        if key not in params or not dimension.contains(params[key]):
            return None
        return float(params[key] if choices is None else choices.index(params[key]))

    values: FloatArray = np.array([position(t.params) for t in trials], dtype=float)
    values = np.log10(values) if log else values
    absent = np.isnan(values)
    if choices is not None:
        positions, texts = [float(i) for i in range(len(choices))], [*map(shown_value, choices)]
    else:
        present = values[~absent]
        positions = _ticks(present, log=log) if len(present) else []
        texts = [f"{10**position if log else position:.3g}" for position in positions]
    margin = 0.05 * (positions[-1] - positions[0]) if positions else 0.0
    if absent.any():
        below = (positions or [0.0])[0] - 4 * (margin or 0.1)
        positions, texts = [below, *positions], ["none", *texts]
        values = np.where(absent, below, values)
    margin = margin or 0.1
    return {
        "label": short(key),
        "values": values,
        "tickvals": positions,
        "ticktext": texts,
        "range": [positions[0] - margin, positions[-1] + margin],
    }


def _ticks(values: FloatArray, *, log: bool) -> list[float]:
    """Return the ticks of an axis: round numbers or, on a logarithmic axis, evenly spaced ones."""
    low, high = float(values.min()), float(values.max())
    if log or low == high:
        return [float(tick) for tick in np.linspace(low, high, _TICKS)]
    whole = bool((values == values.round()).all())
    locator = MaxNLocator(_TICKS, steps=[1, 2, 5, 10], integer=whole)
    return [float(tick) for tick in np.asarray(locator.tick_values(low, high))]


def _importances(shares: Mapping[str, float]) -> Any:
    keys = list(shares)[::-1]
    bars = go.Bar(
        x=[shares[key] for key in keys],
        y=keys,
        orientation="h",
        marker_color=BLUE,
        text=[f"{shares[key]:.0%}" for key in keys],
        textposition="outside",
        cliponaxis=False,
    )
    return _laid_out(go.Figure(bars), 120 + 40 * len(keys)).update_layout(xaxis_tickformat=".0%")


def _laid_out(figure: Any, height: int, width: int = 0) -> Any:
    """Set the layout of a figure, with its height and least width in pixels; return it."""
    return figure.update_layout(
        template="plotly_white",
        showlegend=False,
        title=None,
        margin={"t": 20, "l": 10, "r": 40, "b": 10},  # plotly adds the space that axes need
        height=height,
        meta=width,
    )


def _hover_text(plan: SweepPlan, trial: FrozenTrial) -> str:
    lines = [f"<b>trial {trial.number}</b>"]
    for direction, value in zip(plan.sweep.directions, trial.values, strict=True):
        lines.append(html.escape(f"{display_name(direction.metric)}: {value:.6g}"))
    lines += [html.escape(f"{key}: {shown_value(v)}") for key, v in trial.params.items()]
    return "<br>".join(lines)
