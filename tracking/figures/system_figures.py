"""The picture of the chosen solution: its stages, and where records leave."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.models.walk import StageWalk, Walk, shares
from tracking.figures.run_data import RunData
from tracking.figures.run_figures import mark_chosen, scatter_front
from tracking.figures.style import BLUE, GREY, display_name, plain_axes, save, titled

# distinguishable with every kind of colour vision (Okabe and Ito)
ANSWERS = (BLUE, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
_MOST_CLASSES = 8  # in a table of answers
_WIDTH, _LINES = 46, 3  # characters in a line, and lines, of a stage's features


def system_png(data: RunData, path: Path) -> None:
    """Draw the stages from top to bottom, beside the front with the system marked."""
    assert data.chosen is not None
    walk = data.chosen.walk
    height = max(4.2, 1.9 + 0.82 * (len(walk.stages) + 1))
    shown = bool(walk.confusions) and len(walk.classes) <= _MOST_CLASSES
    width = 17.0 if shown else 13.0
    text = f"Solution {data.chosen.solution} · {data.measured}: {values_of(data)}"
    text += f" · on test records: {values_of(data, True)}" if data.front.test else ""
    figure = titled(f"{data.title}: the chosen solution", text, width, height)
    if shown:
        left, right, table = figure.subplots(1, 3, width_ratios=[1.9, 1, 0.75])
        _draw_confusion(table, walk)
    else:
        left, right = figure.subplots(1, 2, width_ratios=[1.9, 1])
    _draw_stages(left, data)
    _draw_front(figure, right, data)
    save(figure, path)


def _draw_confusion(axes: Axes, walk: Walk) -> None:
    """Draw the answers by true class, for test records if there are any."""
    part = "test" if "test" in walk.confusions else "validation"
    counts = np.array(walk.confusions[part])
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
    for (i, j), count in np.ndenumerate(counts):
        axes.text(j, i, f"{count:,}", ha="center", va="center", fontsize=8)
    # both ends of a long name are kept, as either may tell it from the others
    names = [name if len(name) <= 14 else f"{name[:7]}…{name[-6:]}" for name in walk.classes]
    axes.set_xticks(np.arange(len(names) + 1), [*names, "no answer"], fontsize=8, rotation=30)
    axes.set_yticks(np.arange(len(names)), names, fontsize=8)
    axes.tick_params(length=0)
    axes.set_title(f"answers to {walk.part_name(part)} records", fontsize=9, loc="left")
    axes.set_xlabel("answer")
    axes.set_ylabel("true class")


def facts(stage: StageWalk, records: int) -> str:
    """Return in words how many records leave at a stage, how confident, and how many rightly."""
    text = f"{stage.leaving / records:.1%} leave"
    if not stage.leaving:
        return text
    return f"{text}, {stage.confidence:.0%} sure, {stage.accuracy:.0%} right"


def values_of(data: RunData, unseen: bool = False) -> str:
    """Return the objectives of the chosen solution in words, as measured or on test records."""
    source: Any = data.front.test if unseen else data.front.rows.values
    return ", ".join(
        f"{display_name(name)} {source[name][data.position]:.4g}" for name in data.roles.names
    )


def _draw_stages(axes: Axes, data: RunData) -> None:
    assert data.chosen is not None
    walk = data.chosen.walk
    names, rows = shares(walk, len(ANSWERS))
    left = 0.0
    for j, (stage, row) in enumerate(zip(walk.stages, rows, strict=True)):
        axes.barh(j, 1 - left, left=left, height=0.42, color="#ECEEF1")
        for share, colour in zip(row, ANSWERS, strict=False):
            axes.barh(j, share, left=left, height=0.42, color=colour)
            left += share
        axes.text(0.005, j - 0.3, facts(stage, walk.records), fontsize=8, color="#444444")
    end = len(walk.stages)
    axes.barh(
        end,
        walk.rejected / walk.records,
        left=left,
        height=0.42,
        color=GREY,
        hatch="///",
        edgecolor="white",
        linewidth=0,
    )
    text = f"{walk.rejected / walk.records:.1%} get no answer"
    axes.text(0.005, end - 0.3, text, fontsize=8, color="#444444")
    labels = [_label(j, stage) for j, stage in enumerate(walk.stages, start=1)]
    axes.set_yticks(np.arange(end + 1), [*labels, "end"], fontsize=8)
    axes.set(xlim=(0, 1), ylim=(end + 0.55, -0.65))
    axes.xaxis.set_major_formatter("{x:.0%}")
    plain_axes(axes, "share of the records; light: they go on to the next stage", "")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0, labelsize=8)
    handles = [axes.barh(0, 0, color=c) for c, _ in zip(ANSWERS, names, strict=False)]
    axes.legend(
        handles,
        [f"answer {name}" for name in names],
        loc="lower left",
        ncols=3,
        bbox_to_anchor=(0, 1.0),
        frameon=False,
        fontsize=8,
    )


def _label(number: int, stage: StageWalk) -> str:
    lines = textwrap.wrap(", ".join(stage.features), _WIDTH)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"... {len(stage.features)} features in all"]
    cost = f"stage {number} · cost {stage.cost:g}, so far {stage.cost_so_far:g}"
    return "\n".join([cost, *lines])


def _draw_front(figure: Figure, axes: Axes, data: RunData) -> None:
    x, y = data.roles.drawn()[:2]
    scatter_front(data, figure, axes)
    mark_chosen(axes, data, "this solution")
    plain_axes(axes, data.label(x), data.label(y))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, fontsize=8)
