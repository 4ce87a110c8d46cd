"""Pictures of the convex hull of a front, and of its error rates, drawn with matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from framework.arrays import FloatArray
from tracking.figures.figures_png import BLUE, GREY, ORANGE, finish, save, titled
from tracking.figures.hull_story import Hull, Staircase
from tracking.figures.story import Story

_DET_TICKS = (0.001, 0.005, 0.02, 0.1, 0.3, 0.6, 0.9)


def hull(story: Story, found: Hull, path: Path) -> None:
    """Draw the facets that are seen from the ideal point; corners that are solutions stand out."""
    figure = titled(story.title, story.subtitle, 8.0, 6.8)
    axes: Any = figure.add_subplot(projection="3d", computed_zorder=False)
    x, y, z = found.points.T
    axes.plot_trisurf(
        x, y, found.facets, z, color=BLUE, alpha=0.28, edgecolor="#374151", linewidth=0.8
    )
    inner = np.setdiff1d(np.arange(found.solutions), found.corners)
    corners, reference = found.corners, slice(found.solutions, None)
    axes.scatter(x[inner], y[inner], z[inner], s=12, color=GREY, label="front, not a corner")
    axes.scatter(
        x[reference], y[reference], z[reference], s=46, color="#111111", marker="^", label="R"
    )
    axes.scatter(
        x[corners],
        y[corners],
        z[corners],
        s=44,
        color=ORANGE,
        edgecolors="#333333",
        linewidths=0.5,
        depthshade=False,
        label="corner of the hull",
    )
    for name, objective in zip("xyz", story.roles.objectives, strict=True):
        getattr(axes, f"set_{name}label")(story.label(objective), labelpad=8)
        axis = getattr(axes, f"{name}axis")
        axis.set_pane_color((1, 1, 1, 1))
        axis.set_tick_params(labelsize=8)
    axes.view_init(elev=24, azim=38)
    axes.set_box_aspect((1, 1, 0.85), zoom=1.02)
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8.5)
    save(figure, path)


def error_rates(story: Story, rates: Staircase, path: Path) -> None:
    """Draw the front's error rates as ROC and DET curves with their convex hull.

    The axes of the DET curve are normal deviates; a rate of 0 is drawn at half the least one above
    it.
    """
    false_positives, false_negatives, corners = rates
    figure = titled(story.title, story.subtitle, 9.6, 5.0)
    left, right = figure.subplots(1, 2)
    x = np.concatenate([[0.0], false_positives[corners], [1.0]])
    y = np.concatenate([[1.0], false_negatives[corners], [0.0]])
    left.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    _curve(left, (x, 1 - y), (false_positives, 1 - false_negatives))
    left.set(box_aspect=1, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    left.set_title("ROC", size=10)
    finish(left, "false positive rate  ↓ better", "true positive rate  ↑ better")
    _det(right, (x, y), (false_positives, false_negatives))
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, fontsize=8.5)
    save(figure, path)


def _det(axes: Axes, hull: tuple[FloatArray, FloatArray], all: tuple[FloatArray, ...]) -> None:
    """Draw the two error rates against each other, by normal deviates."""
    from scipy.special import ndtri

    everything = np.concatenate(all)
    low = min(everything[everything > 0], default=0.01) / 2

    def deviates(shares: FloatArray) -> FloatArray:
        return np.asarray(ndtri(np.clip(shares, low, 1 - low)))

    # between two corners a mixture's rates are on a line, which deviates bend
    steps = np.linspace(0, 1, 400)
    places = np.linspace(0, 1, len(hull[0]))
    x, y = (np.interp(steps, places, side) for side in hull)
    axes.plot(deviates(x), deviates(y), color=BLUE, linewidth=1.4)
    axes.scatter(
        deviates(all[0]), deviates(all[1]), s=26, color=ORANGE, edgecolors="#333333", linewidths=0.4
    )
    ticks = [tick for tick in _DET_TICKS if tick >= low]
    for side in (axes.xaxis, axes.yaxis):
        side.set_ticks(ndtri(ticks).tolist(), [f"{tick:.3g}" for tick in ticks])
    axes.set_box_aspect(1)
    axes.set_title("DET, by normal deviates", size=10)
    finish(axes, "false positive rate  ↓ better", "false negative rate  ↓ better")


def _curve(axes: Axes, hull: tuple[FloatArray, ...], all: tuple[FloatArray, ...]) -> None:
    axes.plot(*hull, color=BLUE, linewidth=1.4, label="convex hull: what mixtures reach")
    x, y = all
    axes.scatter(
        x, y, s=26, color=ORANGE, edgecolors="#333333", linewidths=0.4, zorder=3, label="front"
    )
