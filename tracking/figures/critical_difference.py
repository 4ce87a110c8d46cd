"""Critical-difference diagrams (Demsar 2006, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framework.analysis.rank_tests import RankTests
from tracking.figures.figures_png import BLUE, ORANGE


def rank_diagrams(
    names: Sequence[str], tests: Mapping[str, RankTests], titles: Mapping[str, str], *, blocks: str
) -> Figure:
    """Draw critical-difference diagrams (Demsar 2006, Figure 1) one below the other.

    Parameters
    ----------
    names : sequence of str
        The searches, in the order of each test's ranks.
    tests : mapping of str to RankTests
    titles : mapping of str to str
        What each test is about.
    blocks : str
        What a block is, in the plural.
    """
    height = 1.15 + 0.24 * ((len(names) + 1) // 2)
    figure = Figure(figsize=(8.4, height * len(tests)), layout="constrained")
    panels = figure.subplots(len(tests), 1, squeeze=False)[:, 0]
    for axes, (name, test) in zip(panels, tests.items(), strict=True):
        critical_difference(axes, names, test, titles[name], blocks)
    return figure


def critical_difference(
    axes: Axes, names: Sequence[str], tests: RankTests, label: str, blocks: str
) -> None:
    """Draw ranks on a line, best left, names below at both sides, bars over groups.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    names : sequence of str, length k
        The searches, in the order of the tests' columns.
    tests : RankTests
    label, blocks : str
        What is ranked, and what the ranks are means over ("seeds", "data sets").
    """
    k = len(names)
    order = np.argsort(tests.ranks, kind="stable")
    ranks = tests.ranks[order]
    groups = tests.cliques()
    deepest = (k + 1) // 2 + 0.35 * len(groups)
    axes.set(xlim=(0.3, k + 0.7), ylim=(-deepest - 0.8, 1.9))
    axes.axis("off")
    axes.plot([1, k], [0, 0], color="#333333", linewidth=1)
    for tick in range(1, k + 1):
        axes.plot([tick, tick], [0, 0.15], color="#333333", linewidth=1)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=8)
    for g, (first, last) in enumerate(groups):
        y = -0.35 - 0.35 * g
        axes.plot(
            [ranks[first] - 0.04, ranks[last] + 0.04],
            [y, y],
            color=ORANGE,
            linewidth=3,
            solid_capstyle="butt",
        )
    below = 0.35 * len(groups) + 0.5
    for place, (i, rank) in enumerate(zip(order.tolist(), ranks.tolist(), strict=True)):
        left = place < (k + 1) // 2
        y = -below - 0.9 * (place if left else k - 1 - place)
        end = 0.95 if left else k + 0.05
        axes.plot([rank, rank, end], [0, y, y], color=BLUE, linewidth=1)
        text = f"{names[i]}  {rank:.2f}" if left else f"{rank:.2f}  {names[i]}"
        axes.text(
            end - 0.05 if left else end + 0.05,
            y,
            text,
            fontsize=8.5,
            va="center",
            ha="right" if left else "left",
        )
    _scale_bar(axes, tests)
    friedman = f", Friedman p = {tests.friedman:.2g}" if tests.friedman >= 0 else ""
    axes.set_title(
        f"{label}: mean rank over {tests.blocks} {blocks}, 1 the best{friedman}",
        loc="left",
        fontsize=9,
    )


def _scale_bar(axes: Axes, tests: RankTests) -> None:
    """Show how long the critical difference is."""
    end = 1 + tests.critical_difference
    axes.plot([1, end], [1.15, 1.15], color=ORANGE, linewidth=1.5)
    for x in (1, end):
        axes.plot([x, x], [1.05, 1.25], color=ORANGE, linewidth=1.5)
    axes.text(
        end + 0.08,
        1.15,
        f"critical difference {tests.critical_difference:.2f}",
        fontsize=8,
        va="center",
        color=ORANGE,
    )
