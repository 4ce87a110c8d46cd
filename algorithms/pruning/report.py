"""The figure of a pruned ensemble: the proof, the votes, the confusion matrix, the members."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.experiment.run_dir import RunDir
from framework.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#777777"  # safe for every kind of colour vision
_RATES = (
    ("true_positive_rate", "false_negative_rate"),
    ("false_positive_rate", "true_negative_rate"),
)


def write_pruning(run_dir: RunDir) -> list[Path]:
    """Write ``pruning.png`` of a run that solved an integer program; return its path.

    Nothing is written for other runs, which have no tables ``gap`` and ``votes``.
    """
    names = ("gap", "votes", "front")
    if not all((run_dir.path / f"{name}.csv").is_file() for name in names):
        return []
    gap, votes, front = map(run_dir.listing, names)
    if len(front) == 0 or not {"incumbent", "bound"} <= set(gap.columns):
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    _draw_gap(axes[0, 0], gap)
    by_folds = "out-of-fold" in str(run_dir.data().get("measured"))
    measured = "out-of-fold" if by_folds else "validation"
    _draw_votes(axes[0, 1], votes, measured)
    _draw_confusion(axes[1, 0], front.iloc[0], measured)
    _draw_members(axes[1, 1], front.iloc[0])
    run_dir.plots.mkdir(exist_ok=True)
    path = run_dir.plots / "pruning.png"
    content = BytesIO()
    figure.savefig(content, format="png", dpi=120)
    write_whole(path, content.getvalue())
    return [path]


def _draw_gap(axes: Any, gap: pd.DataFrame) -> None:
    """Draw incumbent and bound against simplex iterations."""
    x = gap["iterations"]
    axes.step(
        x, gap["bound"], where="post", marker=".", color=_ORANGE, label="no ensemble is worth more"
    )
    axes.step(
        x, gap["incumbent"], where="post", marker=".", color=_BLUE, label="best ensemble known"
    )
    axes.fill_between(
        x, gap["incumbent"], gap["bound"], step="post", color=_GREY, alpha=0.15, linewidth=0
    )
    axes.set(
        xlabel="simplex iterations",
        ylabel="weighted sum of the confusion matrix",
        title=f"Proof: gap {gap['gap'].iloc[-1]:.2%}",
    )
    if len(gap) == 1:  # a single point needs an explanation
        text = "first bound and first ensemble;\nno linear program was needed or solved since"
        axes.text(0.5, 0.75, text, transform=axes.transAxes, ha="center")
        axes.set_xticks(x)
    axes.legend(frameon=False)


def _draw_votes(axes: Any, votes: pd.DataFrame, measured: str) -> None:
    """Draw the share of each class's records by number of votes, and the threshold."""
    x = votes["votes"].to_numpy()
    for shift, name, colour in ((-0.2, "negative", _ORANGE), (0.2, "positive", _BLUE)):
        share = votes[name] / max(votes[name].sum(), 1)
        axes.bar(x + shift, share, width=0.4, color=colour, label=f"{name} records")
    threshold = int(votes["threshold"].iloc[0])
    axes.axvline(threshold + 0.5, color="black", linestyle="--")
    axes.set(
        xlabel="votes of members",
        ylabel=f"share of the class, {measured}",
        title=f"Positive above {threshold} of {x.max()} votes",
    )
    # the line of the threshold may be anywhere: no place inside is free of it
    axes.legend(frameon=False, loc="upper center", ncols=2, bbox_to_anchor=(0.5, -0.12))


def _draw_confusion(axes: Any, row: pd.Series[Any], measured: str) -> None:
    """Draw the rates of the confusion matrix in the search and, if there are, on test records."""
    parts = [(measured, "")]
    if f"test_{_RATES[0][0]}" in row.index:
        parts.append(("test", "test_"))
    table = np.array([[[row[prefix + n] for n in line] for line in _RATES] for _, prefix in parts])
    wide = np.concatenate(list(table), axis=1)
    axes.imshow(wide, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(wide):
        axes.text(j, i, f"{value:.1%}", ha="center", va="center", color="w" if value > 0.5 else "k")
    axes.set_yticks([0, 1], ["positive", "negative"])
    axes.set_xticks(
        range(2 * len(parts)), [f"called {c}\n{name}" for name, _ in parts for c in "+-"]
    )
    axes.set(ylabel="records", title="Confusion matrix, by class")


def _draw_members(axes: Any, row: pd.Series[Any]) -> None:
    genes = [name for name in row.index if name.startswith("gene_") and name != "gene_threshold"]
    members = [name.removeprefix("gene_") for name in genes if row[name] > 0]
    axes.axis("off")
    axes.set_title(f"{len(members)} members of {len(genes)} classifiers")
    columns = 2 if len(members) <= 36 else 3
    length = -(-len(members) // columns)
    for i, name in enumerate(members):
        column, line = divmod(i, length)
        axes.text(
            column / columns,
            1 - (line + 1) / (max(length, 12) + 1),
            name,
            transform=axes.transAxes,
            fontsize=8 if length <= 24 else 6,
        )
