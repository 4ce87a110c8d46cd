"""The pictures of a front's convex hull and of its error rates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES
from framework.analysis.hulls import facing_hull, hull_with
from framework.arrays import FloatArray, IntArray
from framework.experiment.run_dir import RunDir
from tracking.figures.run_data import RunData
from tracking.figures.style import BLUE, GREY, ORANGE, plain_axes, save, titled

_TRIVIAL = "R: trivial classifiers"

ErrorRates = tuple[FloatArray, FloatArray, IntArray | None]


@dataclass(frozen=True)
class Hull:
    """The convex hull of a front and the points of reference of its problem.

    Attributes
    ----------
    points : numpy.ndarray, shape (n + k, 3)
        The front's solutions, then the points of reference, in the objectives' natural units.
    facets : numpy.ndarray of int64, shape (facets, 3)
        The facets that face the ideal point, as positions in ``points``.
    solutions : int
        How many of the points are solutions: n.
    """

    points: FloatArray
    facets: IntArray
    solutions: int

    @property
    def corners(self) -> IntArray:
        """Positions of the solutions that are corners, ascending."""
        corners = np.unique(self.facets)
        return corners[corners < self.solutions]


def read_hull(run_dir: RunDir, data: RunData) -> Hull | None:
    """Return the hull of a run's front.

    It is None without points of reference or three bounded objectives, or if it has no volume.
    """
    shares, facets = hull_with(data.front, run_dir.anchors())
    if not len(facets):
        return None
    low, high = data.roles.bounds().T
    return Hull(data.roles.natural(shares * (high - low) + low), facets, len(data.front))


def read_error_rates(data: RunData) -> ErrorRates | None:
    """Return the rates of false positives and false negatives of a front, and their hull's corners.

    Both rates have a value per solution. The corners are positions in them, by ascending rate of
    false positives, without (0, 1) and (1, 0), the classifiers that always answer one class. They
    are None if a mixture does not have the rates between those of its members, because systems may
    give no answer and rates are shares of the answered records. The result is None if the problem
    has no such rates.
    """
    values = data.front.rows.values
    if FALSE_POSITIVES not in values or FALSE_NEGATIVES not in values or not len(data.front):
        return None
    x, y = values[FALSE_POSITIVES], values[FALSE_NEGATIVES]
    metrics = data.roles.metrics
    if not (metrics[FALSE_POSITIVES].mixes and metrics[FALSE_NEGATIVES].mixes):
        return x, y, None
    points = np.concatenate([np.column_stack([x, y]), [[0.0, 1.0], [1.0, 0.0]]])
    corners = np.unique(facing_hull(points))
    corners = corners[corners < len(x)]
    return x, y, corners[np.lexsort((-y[corners], x[corners]))]


_DET_TICKS = (0.001, 0.01, 0.1, 0.3, 0.6, 0.9)


def hull_png(data: RunData, hull: Hull, path: Path) -> None:
    """Draw the facets that face the ideal point, with the solutions at their corners marked."""
    figure = titled(data.title, data.subtitle, 8.0, 6.8)
    axes: Any = figure.add_subplot(projection="3d", computed_zorder=False)
    x, y, z = hull.points.T
    axes.plot_trisurf(
        x, y, hull.facets, z, color=BLUE, alpha=0.28, edgecolor="#374151", linewidth=0.8
    )
    inner = np.setdiff1d(np.arange(hull.solutions), hull.corners)
    corners, reference = hull.corners, slice(hull.solutions, None)
    axes.scatter(
        x[inner],
        y[inner],
        z[inner],
        s=40,
        facecolors="white",
        edgecolors="#111111",
        linewidths=1.1,
        depthshade=False,
        label="front, not a corner",
    )
    axes.scatter(
        x[reference], y[reference], z[reference], s=46, color="#111111", marker="^", label=_TRIVIAL
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
    for name, objective in zip("xyz", data.roles.objectives, strict=True):
        getattr(axes, f"set_{name}label")(data.label(objective), labelpad=8)
        axis = getattr(axes, f"{name}axis")
        axis.set_pane_color((1, 1, 1, 1))
        axis.set_tick_params(labelsize=8)
    axes.view_init(elev=24, azim=38)
    axes.set_box_aspect((1, 1, 0.85), zoom=1.02)
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8.5)
    save(figure, path)


def rates_png(data: RunData, rates: ErrorRates, path: Path) -> None:
    """Draw the front's error rates on the axes of ROC and DET curves.

    The convex hull is drawn if mixtures reach it. The axes of the DET curve are normal deviates; a
    rate of 0 is drawn at half of the least rate above 0.
    """
    x, y, corners = rates
    figure = titled(data.title, data.subtitle, 9.6, 5.0)
    left, right = figure.subplots(1, 2)
    among = ""
    if corners is None:
        among = " (of answered records)"
        _points(left, x, 1 - y, "front; no hull: rates of systems that may not answer do not mix")
    else:
        hull = (
            np.concatenate([[0.0], x[corners], [1.0]]),
            np.concatenate([[1.0], y[corners], [0.0]]),
        )
        left.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
        label = "convex hull: what mixtures reach"
        left.plot(hull[0], 1 - hull[1], color=BLUE, linewidth=1.4, label=label)
        _points(left, x, 1 - y, "front")
    left.set(box_aspect=1, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    left.set_title("ROC", size=10)
    names = [f"{name} rate{among}" for name in ("false positive", "true positive")]
    plain_axes(left, f"{names[0]}  ↓ better", f"{names[1]}  ↑ better")
    _det(right, None if corners is None else hull, (x, y))
    plain_axes(right, f"{names[0]}  ↓ better", f"false negative rate{among}  ↓ better")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, fontsize=8.5)
    save(figure, path)


def _det(axes: Axes, hull: tuple[FloatArray, ...] | None, rates: tuple[FloatArray, ...]) -> None:
    """Draw the two error rates against each other, as normal deviates."""
    from scipy.special import ndtri

    both = np.concatenate(rates)
    low = min(both[both > 0], default=0.01) / 2

    def deviates(shares: FloatArray) -> FloatArray:
        return np.asarray(ndtri(np.clip(shares, low, 1 - low)))

    if hull is not None:
        # the rates of mixtures of two corners lie on a line, which is curved in normal deviates,
        # most at its ends
        shares = (1 - np.cos(np.linspace(0, np.pi, 200))) / 2
        corners = np.arange(len(hull[0]))
        places = np.add.outer(corners[:-1], shares).ravel()
        x, y = (np.interp(places, corners, side) for side in hull)
        axes.plot(deviates(x), deviates(y), color=BLUE, linewidth=1.4)
    _points(axes, deviates(rates[0]), deviates(rates[1]))
    ticks = [tick for tick in _DET_TICKS if tick >= low]
    for side in (axes.xaxis, axes.yaxis):
        side.set_ticks(ndtri(ticks).tolist(), [f"{tick:.3g}" for tick in ticks])
    axes.set_box_aspect(1)
    axes.set_title("DET, by normal deviates", size=10)


def _points(axes: Axes, x: FloatArray, y: FloatArray, label: str | None = None) -> None:
    axes.scatter(
        x, y, s=26, color=ORANGE, edgecolors="#333333", linewidths=0.4, zorder=3, label=label
    )
