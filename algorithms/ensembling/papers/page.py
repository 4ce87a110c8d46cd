"""EXP1 to EXP6 of the HAPEns paper (Section 4), from the runs of an experiment.

Tables have a row for each ensemble: its data set, method and seed, its costs, its losses on
validation (out-of-fold) predictions and on test records, and whether the method returns it. A
method's front is chosen by validation loss and then scored by test loss. In the paper's reading,
called hindsight, all ensembles compete with their test losses.

Figures 4 and 5 are missing: they show the data sets and base models of TabRepo, which are not
available. The ``library.json`` of each library describes what is used instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from framework.analysis.compare import Case, Claim, ComparedRun, Comparison, Page, Ranking
from framework.analysis.statistics import RankTests, rank_tests
from framework.arrays import FloatArray
from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.pareto import hypervolume, igd_plus, nondominated
from framework.roles import GENE_PREFIX

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = ("single best", "GES*", "Multi-GES (double charge)", "QDO-ES", "HAPEns")
SCORE = "roc_auc"
_BLUE, _ORANGE, _GREY = "#34618c", "#d9822b", "#9aa3ad"


def main(comparison: Comparison) -> Page:
    """EXP1 to EXP4: hypervolume and IGD+ of test loss against costs, and counts of ensembles."""
    rows = ensembles(comparison)
    tables, rankings = {}, {}
    readings = [("exp1", "hardware"), *(("exp3", cost) for cost in COSTS)]
    for (number, cost), hindsight in ((r, h) for r in readings for h in (False, True)):
        name = f"{number}_{cost}_{'hindsight' if hindsight else 'chosen'}"
        tables[name], rankings[name] = ranked(rows, cost, hindsight)
    of_paper = rows[rows.method.isin(PAPER)]
    if of_paper.method.nunique() > 1:
        tables["figure7"], rankings["figure7"] = ranked(of_paper, "hardware", True)
    counts = [built(part) for part in _tasks(rows)]
    numbers = ["returned", "unique", "on_front"]
    tables["exp4"] = pd.concat(counts).groupby("method", sort=False)[numbers].mean().reset_index()
    text = (
        "EXP1 and EXP2: test loss (1 - AUC) against the mean of the normalised costs; EXP3: "
        "against each cost; EXP4: what each method returns. chosen: fronts are chosen on "
        "validation; hindsight: by test losses, as in the paper. + archive: of all that a method "
        "evaluated. Figure 7: the paper's methods alone."
    )
    figures = {"exp4": _where(rows), "figures_13_14": _counts(tables["exp4"])}
    claims = _claims(tables, rankings) if set(PAPER) <= set(of_paper.method) else ()
    return Page("HAPEns: EXP1 to EXP4", text, claims, tables, figures, rankings)


def _claims(tables: dict[str, pd.DataFrame], rankings: dict[str, Ranking]) -> list[Claim]:
    """Return the paper's claims of EXP1 to EXP4, all by test losses in hindsight."""
    volume, igd = (f"rank ({name})" for name in ("hypervolume", "IGD+"))
    whole = tables["figure7"].set_index("method")
    if volume not in whole:  # one data set has no ranks
        return []
    costs = {cost: tables[f"exp3_{cost}_hindsight"].set_index("method")[volume] for cost in COSTS}
    counts = tables["exp4"].set_index("method")
    single, ges, multi, qdo, hapens = PAPER
    far = rankings["figure7"].tests["Hypervolume"].critical_difference

    def ranks(column: pd.Series[float], *methods: str) -> str:
        return ", ".join(f"{method} {column[method]:.2f}" for method in methods)

    def numbers(name: str, *methods: str) -> str:
        return ranks(counts[name], *methods)

    apart = [
        name for name in (ges, multi, qdo) if whole[volume][name] - whole[volume][hapens] > far
    ]
    leads = [cost for cost, r in costs.items() if r[hapens] == r[list(PAPER)].min()]
    of_time = costs["inference_time"]
    return [
        Claim("HAPEns is significantly ahead of GES*, Multi-GES and QDO-ES", "EXP1, Figure 7",
              f"mean ranks {ranks(whole[volume], hapens, ges, multi, qdo)}; {far:.2f} are needed",
              len(apart) == 3),
        Claim("GES* is slightly ahead of QDO-ES", "EXP1, Figure 7",
              ranks(whole[volume], ges, qdo), bool(whole[volume][ges] < whole[volume][qdo])),
        Claim("Multi-GES is slightly ahead of GES*", "EXP1, Figure 7",
              ranks(whole[volume], multi, ges), bool(whole[volume][multi] < whole[volume][ges])),
        Claim("by IGD+ HAPEns is ahead, Multi-GES second", "EXP2, Figure 7",
              ranks(whole[igd], *PAPER),
              whole[igd].sort_values().index[:2].tolist() == [hapens, multi]),
        Claim("HAPEns leads by each cost", "EXP3, Figure 8",
              f"{len(leads)} of {len(costs)}: {', '.join(leads)}", len(leads) == len(costs)),
        Claim("by time Multi-GES is ahead of the other baselines", "EXP3, Figure 8",
              ranks(of_time, single, ges, multi, qdo),
              of_time[multi] == of_time[[single, ges, multi, qdo]].min()),
        Claim("GES* returns more ensembles than HAPEns", "10 to 15 more, Figure 14",
              numbers("returned", ges, hapens),
              bool(counts.returned[ges] > counts.returned[hapens])),
        Claim("fewer of these lie on its front", "EXP4, Figure 13",
              numbers("on_front", ges, hapens),
              bool(counts.on_front[ges] < counts.on_front[hapens])),
        Claim("Multi-GES returns fewer different ensembles than GES*", "EXP4, Figure 14",
              numbers("unique", multi, ges), bool(counts.unique[multi] < counts.unique[ges])),
    ]  # fmt: skip


def costs(comparison: Comparison) -> Page:
    """EXP5: HAPEns with niches by different costs, some of which the paper leaves open."""
    rows = ensembles(comparison)
    table, ranking = ranked(rows, "hardware", False)
    hindsight, _ = ranked(rows, "hardware", True)
    by_cost = hindsight.set_index("method").hypervolume.to_dict()
    claims, niches = [], ("memory", "inference_time", "disk", "members")
    volumes = [by_cost.get(f"HAPEns by {cost}", np.nan) for cost in niches]
    if not np.isnan(volumes).any():
        memory, time, disk, members = volumes
        here = ", ".join(f"{c} {v:.4f}" for c, v in zip(niches, volumes, strict=True))
        claims = [
            Claim("niches by memory or time are ahead of those by disk", "Figure 10", here,
                  min(memory, time) > disk),
            Claim("niches by memory are ahead of all others", "a slight edge, Section 5", here,
                  memory == max(volumes)),
            Claim("the number of members, which needs no measurement, is not last", "Figure 10",
                  here, members > min(volumes)),
        ]  # fmt: skip
    text = (
        "Test loss against the mean of the normalised costs, fronts chosen on validation; claims "
        "are of hindsight, by test losses, as in the paper."
    )
    title = "HAPEns: niches and costs (EXP5)"
    return Page(title, text, claims, {"exp5": table}, {}, {"exp5": ranking})


def weights(comparison: Comparison) -> Page:
    """EXP6: the weight of Multi-GES (Figures 11 and 15)."""
    rows = ensembles(comparison)
    table = _scored(rows, "hardware", True).groupby("method")[["hypervolume", "returned"]].mean()
    scaled = pd.concat(normalised(part) for part in _tasks(rows))
    table = table.join(
        scaled[scaled.returned].groupby("method")[["test_loss", "hardware"]].median()
    )
    table.index = pd.Index([_weight(str(name)) for name in table.index], name="weight of time")
    table = table.sort_index()
    places, volumes = table.index.to_numpy(dtype=float), table.hypervolume.to_numpy()
    best = places[volumes.argmax()]
    text = f"Best weight here: {best:.2f} (hindsight over all data sets); the paper's: 0.68."
    ends = f"{volumes.max():.4f} at {best:.2f}, {volumes[0]:.4f} and {volumes[-1]:.4f}"
    cost, loss = (
        float(spearmanr(places, table[name]).statistic) for name in ("hardware", "test_loss")
    )
    claims = [
        Claim("a weight between is ahead of none and of the whole", "a sweet spot, Figure 11",
              f"{ends} at the ends", bool(volumes.max() > max(volumes[0], volumes[-1]))),
        Claim("the best weight of time is about two thirds", "0.68", f"{best:.2f}",
              bool(abs(best - 0.68) < 0.1)),
        Claim("the more weight, the less the ensembles cost", "Figure 15",
              f"rank correlation {cost:.2f} of weight and median cost", cost < 0.0),
        Claim("the more weight, the less accurate they are", "slightly, Figure 15",
              f"rank correlation {loss:.2f} of weight and median loss", loss > 0.0),
    ]  # fmt: skip
    figures = {"exp6": _by_weight(table), "figure_15": _where(rows, 5)}
    return Page("HAPEns: EXP6", text, claims, {"exp6": table.reset_index()}, figures)


def _weight(method: str) -> float:
    try:
        return float(method)
    except ValueError as error:
        raise InputError(
            f"experiment.pages: expected methods named by their weights, found {method!r}"
        ) from error


def ensembles(comparison: Comparison) -> pd.DataFrame:
    """Return a row for each ensemble that a run returns or that is on its front.

    Columns: ``data``, ``method``, ``seed``, ``returned``, ``weights`` (a text that equal ensembles
    share), ``val_loss``, ``test_loss`` and the costs.
    """
    return pd.concat(
        [_ensembles(case, run) for case in comparison.cases for run in case.runs],
        ignore_index=True,
    )


def _ensembles(case: Case, run: ComparedRun) -> pd.DataFrame:
    place = RunDir(Path(run.path))
    front, returned = place.front(), place.returned_or_front()
    parts = returned.frame().assign(returned=True), front.frame().assign(returned=returned is front)
    rows = pd.concat(parts)
    rows = rows.drop_duplicates("id", keep="first").sort_values("id")
    genes = rows[[name for name in rows if str(name).startswith(GENE_PREFIX)]].to_numpy()
    divisor = np.gcd.reduce(genes, axis=1)[:, np.newaxis]
    return pd.DataFrame(
        {
            "data": case.name,
            "method": run.method,
            "seed": run.seed,
            "returned": rows["returned"].to_numpy(dtype=bool),
            "weights": [row.tobytes().hex() for row in (genes // divisor).astype(np.int16)],
            "val_loss": 1.0 - rows[SCORE].to_numpy(),
            "test_loss": 1.0 - rows[f"test_{SCORE}"].to_numpy(),
            **{cost: rows[cost].to_numpy() for cost in COSTS},
        }
    )


def ranked(rows: pd.DataFrame, cost: str, hindsight: bool) -> tuple[pd.DataFrame, Ranking]:
    """Return means and ranks of the methods, the best first, one block per data set."""
    scored = _scored(rows, cost, hindsight)
    methods, by_volume = _tests(scored, "hypervolume")
    _, by_igd = _tests(scored, "igd_plus")
    table = scored.groupby("method")[["hypervolume", "igd_plus", "returned"]].mean().loc[methods]
    if by_volume is None or by_igd is None:
        return table.reset_index(), Ranking(methods, {}, "data sets")
    table["rank (hypervolume)"], table["rank (IGD+)"] = by_volume.ranks, by_igd.ranks
    table = table.sort_values("rank (hypervolume)")
    tests = {"Hypervolume": by_volume, "IGD+": by_igd}
    return table.reset_index(), Ranking(methods, tests, "data sets")


def _tests(scored: pd.DataFrame, indicator: str) -> tuple[list[str], RankTests | None]:
    """Rank the methods by means over seeds, one block per data set; no tests with one block."""
    table = scored.pivot_table(index="data", columns="method", values=indicator, aggfunc="mean")
    methods = [m for m in dict.fromkeys(scored.method) if m in table]
    losses = table[methods].to_numpy() * (-1.0 if indicator == "hypervolume" else 1.0)
    return methods, rank_tests(losses) if min(losses.shape) > 1 else None


def _scored(rows: pd.DataFrame, cost: str, hindsight: bool) -> pd.DataFrame:
    """Return the indicators of every method, data set and seed."""
    parts = [scores(part, cost, hindsight).assign(data=part.data.iloc[0]) for part in _tasks(rows)]
    return pd.concat(parts, ignore_index=True)


def _tasks(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each data set and seed."""
    yield from (part for _, part in rows.groupby(["data", "seed"], sort=False))


def _counts(table: pd.DataFrame) -> Figure:
    """Draw how many ensembles methods return, different ones and on the front (Figures 13, 14)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.42 * len(table) + 1.4), layout="constrained")
    axes, places = figure.subplots(), np.arange(len(table))[::-1]
    bars = (("returned", _GREY), ("unique", _BLUE), ("on_front", _ORANGE))
    for number, (name, colour) in enumerate(bars):
        label = name.replace("_", " its own ")
        axes.barh(places + 0.27 * (1 - number), table[name], 0.25, color=colour, label=label)
    axes.set_yticks(places, table.method, fontsize=9)
    axes.set(xlabel="ensembles, mean over data sets and seeds", ylim=(-0.6, len(table) - 0.4))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure


def _where(rows: pd.DataFrame, across: int = 4) -> Figure:
    """Draw costs and losses of the ensembles that each method returns (Figures 9 and 15)."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    scaled = pd.concat(normalised(part) for part in _tasks(rows))
    scaled = scaled[scaled.returned]
    methods = list(dict.fromkeys(scaled.method))
    columns = min(across, len(methods))
    lines = -(-len(methods) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * lines), layout="constrained")
    panels = np.ravel(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False))
    for axes, method in zip(panels, methods, strict=False):
        part = scaled[scaled.method == method]
        axes.hexbin(
            part.hardware,
            part.test_loss,
            gridsize=24,
            extent=(0, 1, 0, 1),
            norm=LogNorm(vmin=0.2),  # so that a single ensemble is visible
            cmap="Blues",
            mincnt=1,
        )
        axes.plot(part.hardware.median(), part.test_loss.median(), "+", color=_ORANGE, ms=12, mew=2)
        axes.set_title(f"{method} ({len(part):,})", fontsize=9)
    for axes in panels[len(methods) :]:
        axes.axis("off")
    figure.supxlabel("mean of the normalised costs", fontsize=10)
    figure.supylabel("normalised test loss", fontsize=10)
    figure.suptitle("The ensembles that each method returns; cross: medians", fontsize=11)
    return figure


def _by_weight(table: pd.DataFrame) -> Figure:
    """Draw hypervolume, loss and cost against the weight."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(table.index, table.hypervolume, "o-", color=_BLUE)
    left.axvline(0.68, color=_GREY, linestyle=":", label="0.68, the paper's")
    left.set(xlabel="weight of time", ylabel="mean hypervolume (test)")
    right.plot(table.index, table.test_loss, "o-", color=_BLUE, label="median test loss")
    right.plot(table.index, table.hardware, "s-", color=_ORANGE, label="median cost")
    right.set(xlabel="weight of time", ylabel="normalised")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=9)
    return figure


COSTS = ("inference_time", "memory", "disk")
REFERENCE = 1.01  # of the hypervolume, in each normalised objective, as in the authors' code
ARCHIVE = " + archive"  # after a method's name: the front of all that it evaluated
KEEPS_LESS = ("GES*", "Multi-GES", "QO-ES", "QDO-ES", "HAPEns")  # methods that return a selection


def normalised(rows: pd.DataFrame) -> pd.DataFrame:
    """Scale losses and costs of one task and seed to [0, 1] over all methods' ensembles.

    Parameters
    ----------
    rows : pandas.DataFrame
        Columns ``val_loss``, ``test_loss`` and each of ``COSTS``.

    Returns
    -------
    pandas.DataFrame
        The rows with these columns scaled, and ``hardware``, the mean of the scaled costs. A
        column of equal values becomes 0.
    """
    rows = rows.copy()
    for column in ("val_loss", "test_loss", *COSTS):
        low, high = rows[column].min(), rows[column].max()
        rows[column] = (rows[column] - low) / (high - low) if high > low else 0.0
    rows["hardware"] = rows[list(COSTS)].mean(axis=1)
    return rows


def chosen(rows: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return the non-dominated rows in validation loss and cost, which a user can know."""
    return rows[nondominated(rows[["val_loss", cost]].to_numpy())]


def fronts(rows: pd.DataFrame, cost: str, hindsight: bool) -> dict[str, FloatArray]:
    """Return the points (test loss, cost) of each method's front, and of its archive's front.

    Parameters
    ----------
    rows : pandas.DataFrame
        The :func:`normalised` rows of one task and seed, with columns ``method`` and ``returned``.
    cost : str
        ``hardware`` or one of ``COSTS``.
    hindsight : bool
        Whether all returned ensembles compete with their test losses, which nobody knows when
        choosing. Otherwise the front is chosen on validation, then scored.
    """
    points = {}
    for method, part in rows.groupby("method", sort=False):
        returned = part[part["returned"]]
        sets = {str(method): returned if hindsight else chosen(returned, cost)}
        if method in KEEPS_LESS and not hindsight:
            sets[str(method) + ARCHIVE] = chosen(part, cost)
        for name, ensembles in sets.items():
            points[name] = ensembles[["test_loss", cost]].to_numpy(dtype=np.float64)
    return points


def scores(rows: pd.DataFrame, cost: str = "hardware", hindsight: bool = False) -> pd.DataFrame:
    """Return hypervolume and IGD+ of each method on one task with one seed.

    The reference of IGD+ is the non-dominated union over all methods, as in the paper.
    """
    points = fronts(normalised(rows), cost, hindsight)
    together = np.concatenate(list(points.values()))
    best = together[nondominated(together)]
    corner = np.full(2, REFERENCE)
    return pd.DataFrame(
        {
            "method": name,
            "hypervolume": hypervolume(front, corner),
            "igd_plus": igd_plus(front, best),
            "returned": len(front),
        }
        for name, front in points.items()
    )


def built(rows: pd.DataFrame) -> pd.DataFrame:
    """Count what each method returns on one task and seed (Figures 13 and 14 of the paper).

    Columns: ``returned`` ensembles, those of them that are ``unique`` (as weights), and those
    ``on_front`` of the method's own front of test loss and hardware.
    """
    rows = normalised(rows)
    counts = []
    for method, part in rows[rows["returned"]].groupby("method", sort=False):
        points = part[["test_loss", "hardware"]].to_numpy()
        counts.append(
            {
                "method": method,
                "returned": len(part),
                "unique": part["weights"].nunique(),
                "on_front": int(nondominated(points).sum()),
            }
        )
    return pd.DataFrame(counts)
