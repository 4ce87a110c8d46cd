"""The tables and figures of EXP1 to EXP6, and the page that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from ensembling_scores import COSTS, built, normalised, scores
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from framework.analysis.rank_tests import RankTests, rank_tests
from tracking.figures.critical_difference import rank_diagrams
from tracking.figures.figures_png import BLUE, GREY, ORANGE

PAPER = ("single best", "GES*", "Multi-GES (double charge)", "QDO-ES", "HAPEns")
SPOKEN = {
    "hardware": "mean of the normalised costs",
    "inference_time": "inference time",
    "memory": "memory",
    "disk": "disk",
}
_DPI = 130


def write_report(
    rows: Mapping[str, pd.DataFrame], out: Path, budget: str, console: Console
) -> None:
    """Write every table (CSV) and figure (PNG) to ``out``, and report.md over them.

    ``rows`` has the groups ``main``, ``costs`` (EXP5) and ``weights`` (EXP6).
    """
    main = rows["main"]
    page = [f"# Ensembles of {main.data.nunique()} libraries, budget: {budget}", ""]
    for number, cost in enumerate(("hardware", *COSTS)):
        for hindsight in (False, True):
            scored = _scored(main, cost, hindsight)
            title = _title("EXP1, EXP2" if number == 0 else "EXP3", cost, hindsight)
            stem = f"exp{1 if number == 0 else 3}_{cost}_{'hindsight' if hindsight else 'chosen'}"
            page += _ranked(scored, title, stem, out, console if number == 0 else None)
    page += _paper_ranks(main, out, console)
    page += _exp4(main, out)
    scored = _scored(rows["costs"], "hardware", False)
    page += _ranked(scored, "EXP5: cost metric of HAPEns", "exp5", out, None)
    page += _exp6(rows["weights"], out)
    (out / "report.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    console.print(str(out / "report.md"), highlight=False)


def _title(experiment: str, cost: str, hindsight: bool) -> str:
    reading = "hindsight" if hindsight else "chosen on validation"
    return f"{experiment}: test loss against {SPOKEN[cost]}, {reading}"


def _scored(rows: pd.DataFrame, cost: str, hindsight: bool) -> pd.DataFrame:
    """Return the indicators of every method, task and seed."""
    parts = [
        scores(part, cost, hindsight).assign(data=data, seed=seed)
        for (data, seed), part in rows.groupby(["data", "seed"], sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def _tests(scored: pd.DataFrame, indicator: str) -> tuple[list[str], RankTests]:
    """Rank the methods by the mean over seeds, a block a data set."""
    table = scored.pivot_table(index="data", columns="method", values=indicator, aggfunc="mean")
    methods = [m for m in dict.fromkeys(scored.method) if m in table]
    losses = table[methods].to_numpy() * (-1.0 if indicator == "hypervolume" else 1.0)
    return methods, rank_tests(losses)


def _ranked(
    scored: pd.DataFrame, title: str, stem: str, out: Path, console: Console | None
) -> list[str]:
    """Write a table of means and ranks, and a critical-difference diagram for each indicator."""
    methods, by_volume = _tests(scored, "hypervolume")
    _, by_igd = _tests(scored, "igd_plus")
    means = scored.groupby("method")[["hypervolume", "igd_plus", "returned"]].mean().loc[methods]
    means["rank (hypervolume)"], means["rank (IGD+)"] = by_volume.ranks, by_igd.ranks
    means = means.sort_values("rank (hypervolume)")
    means.to_csv(out / f"{stem}.csv")
    both = {"hypervolume": by_volume, "igd_plus": by_igd}
    titles = {"hypervolume": "Hypervolume", "igd_plus": "IGD+"}
    figure = rank_diagrams(methods, both, titles, blocks="data sets")
    figure.savefig(out / f"{stem}.png", dpi=_DPI)
    if console is not None:
        console.print(_shown(means, title))
    return [f"## {title}", "", _markdown(means), "", f"![{title}]({stem}.png)", ""]


def _paper_ranks(rows: pd.DataFrame, out: Path, console: Console) -> list[str]:
    """Rank the paper's five methods alone, by its reading: Figure 7."""
    title = "Figure 7: the paper's methods, hindsight"
    scored = _scored(rows[rows.method.isin(PAPER)], "hardware", True)
    return _ranked(scored, title, "figure7", out, console)


def _exp4(rows: pd.DataFrame, out: Path) -> list[str]:
    """Draw where the ensembles of each method lie (Figure 9); count them (Figures 13, 14)."""
    counts = pd.concat(
        built(part).assign(data=data, seed=seed)
        for (data, seed), part in rows.groupby(["data", "seed"], sort=False)
    )
    table = counts.groupby("method", sort=False)[["returned", "unique", "on_front"]].mean()
    table.to_csv(out / "exp4.csv")
    scaled = pd.concat(normalised(part) for _, part in rows.groupby(["data", "seed"], sort=False))
    scaled = scaled[scaled.returned]
    methods = list(dict.fromkeys(scaled.method))
    columns = 4
    lines = -(-len(methods) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * lines), layout="constrained")
    panels = np.ravel(figure.subplots(lines, columns, sharex=True, sharey=True))
    for axes, method in zip(panels, methods, strict=False):
        part = scaled[scaled.method == method]
        axes.hexbin(
            part.hardware,
            part.test_loss,
            gridsize=24,
            extent=(0, 1, 0, 1),
            bins="log",
            cmap="Blues",
            mincnt=1,
        )
        axes.plot(part.hardware.median(), part.test_loss.median(), "+", color=ORANGE, ms=12, mew=2)
        axes.set_title(f"{method} ({len(part):,})", fontsize=9)
    for axes in panels[len(methods) :]:
        axes.axis("off")
    figure.supxlabel("mean of the normalised costs", fontsize=10)
    figure.supylabel("normalised test loss", fontsize=10)
    figure.suptitle("The ensembles that each method returns; cross: medians", fontsize=11)
    figure.savefig(out / "exp4.png", dpi=_DPI)
    title = "EXP4: what each method builds"
    return [f"## {title}", "", _markdown(table), "", f"![{title}](exp4.png)", ""]


def _exp6(rows: pd.DataFrame, out: Path) -> list[str]:
    """Draw hypervolume, loss and cost against the weight of Multi-GES (Figures 11 and 15)."""
    volume = _scored(rows, "hardware", True)
    table = volume.groupby("method")[["hypervolume", "returned"]].mean()
    scaled = pd.concat(normalised(part) for _, part in rows.groupby(["data", "seed"], sort=False))
    returned = scaled[scaled.returned].groupby("method")[["test_loss", "hardware"]].median()
    table = table.join(returned)
    table.index = pd.Index(table.index.astype(float), name="weight of time")
    table = table.sort_index()
    table.to_csv(out / "exp6.csv")
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(table.index, table.hypervolume, "o-", color=BLUE)
    left.axvline(0.68, color=GREY, linestyle=":", label="0.68, the paper's")
    left.set(xlabel="weight of time", ylabel="mean hypervolume (test)")
    left.legend(frameon=False, fontsize=9)
    right.plot(table.index, table.test_loss, "o-", color=BLUE, label="median test loss")
    right.plot(table.index, table.hardware, "s-", color=ORANGE, label="median cost")
    right.set(xlabel="weight of time", ylabel="normalised")
    right.legend(frameon=False, fontsize=9)
    figure.savefig(out / "exp6.png", dpi=_DPI)
    best = table.hypervolume.idxmax()
    title = "EXP6: the weight of Multi-GES"
    text = f"Best weight here: {best:.2f} (hindsight over all data sets); the paper's: 0.68."
    return [f"## {title}", "", text, "", _markdown(table), "", f"![{title}](exp6.png)", ""]


def _shown(table: pd.DataFrame, title: str) -> Table:
    shown = Table(title=title, title_justify="left")
    shown.add_column(str(table.index.name))
    for column in table.columns:
        shown.add_column(str(column), justify="right")
    for name, row in table.iterrows():
        shown.add_row(str(name), *(f"{value:.3f}" for value in row))
    return shown


def _markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown, three decimals."""
    head = [str(table.index.name), *map(str, table.columns)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, row in table.iterrows():
        label = f"{name:.2f}" if isinstance(name, float) else str(name)
        lines.append("| " + " | ".join([label, *(f"{value:.3f}" for value in row)]) + " |")
    return "\n".join(lines)
