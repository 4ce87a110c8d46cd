"""How the figures of a comparison tell searches apart, and lay out panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.analysis.compare import Case
from framework.roles import Objective, Roles
from tracking.colours import COLOURS
from tracking.figures.story import spoken

_DASHES = ("-", "--", ":", "-.")  # tell a second round of colours apart
_MARKERS = "osD^vPX*"

ARROW = {"high": "↑ better", "low": "↓ better"}


def style(number: int) -> dict[str, Any]:
    """Return colour and dashes of the ``number``-th search."""
    dashes = _DASHES[number // len(COLOURS) % len(_DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def marker(number: int) -> dict[str, Any]:
    """Return colour and marker of the ``number``-th search."""
    turn = number + number // len(COLOURS)
    return {"color": COLOURS[number % len(COLOURS)], "marker": _MARKERS[turn % len(_MARKERS)]}


def panels(
    names: Sequence[str], *, width: float = 3.7, height: float = 2.8
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each name, two or three in a line, and its panels."""
    columns = 2 if len(names) == 4 else min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(
        figsize=(max(6.5, width * columns) + 0.4, height * lines + 0.7), layout="constrained"
    )
    grid = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for axes, name in zip(grid, names, strict=False):
        axes.set_title(name, fontsize=9)
        quiet(axes)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    return figure, grid[: len(names)]


def quiet(axes: Axes) -> None:
    """Take away what distracts."""
    axes.grid(color="#E5E7EB", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def legend(figure: Figure, axes: Axes) -> None:
    """Name the searches once, below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(4, len(labels)),
        frameon=False,
        fontsize=8.5,
    )


def drawn_axes(case: Case) -> tuple[int, int]:
    """Return which objectives go right (what it costs) and up."""
    x, y, *_ = (case.roles.objectives.index(objective) for objective in case.roles.drawn())
    return x, y


def axis_label(roles: Roles, objective: Objective) -> str:
    """Return an objective's name with its unit and the better direction."""
    unit = roles.metrics[objective.metric].unit
    better = "↑ better" if objective.sense == "max" else "↓ better"
    return f"{spoken(objective.metric)}{f' ({unit})' if unit else ''}  {better}"
