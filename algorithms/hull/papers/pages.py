"""Tables, figures and claims of the 3DFCH-EMOA paper, for the report of a comparison.

Test functions: Tables 1 to 5 and 7 to 9, Figures 5 to 12. Sparse networks: Tables 10 to 12, with
accuracies on test records. ``chosen`` is that of the returned network which is best on validation
records; ``hindsight`` is the highest of all returned networks, as in the paper ("the highest
accuracy in the population is listed").

Methods have the labels of ``configs/experiments/hull_tables.yaml`` and its siblings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.spatial import ConvexHull

from algorithms.hull.network import NetworkProblem
from algorithms.hull.papers.peers import unit
from framework.analysis.compare import Case, Claim, ComparedRun, Comparison, Page, Ranking
from framework.analysis.statistics import rank_tests, score, verdict
from framework.arrays import BoolArray, FloatArray
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.pareto import nondominated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAST, SLOW = "3DFCH-EMOA", "3DCH-EMOA"
UNPRUNED, MAJORITY = "no pruning", "majority"
READINGS = ("chosen", "hindsight")
_PRINTED = 5e-4  # differences of VAS below this do not show in the paper's three digits
_MOMENTS = 10  # rows of a table of VAS by evaluations
_DEEP = 0.005  # points deeper in the true front's hull lie in a dent, not at its rim
_SIZES_PAPER = {  # n: milliseconds of 3DFCH-EMOA and of 3DCH-EMOA (Table 9)
    100: (3.60e5, 2.64e6),
    200: (4.97e5, 7.90e6),
    300: (5.53e5, 1.93e7),
    400: (5.82e5, 3.63e7),
    500: (6.52e5, 4.03e7),
    1000: (1.10e6, 2.72e8),
}


def tables(comparison: Comparison) -> Page:
    """Return Tables 5 and 7, the share of points in dents, Figures 5 to 10, and claims."""
    seconds = _seconds(comparison)
    dents = _dents(comparison)
    by_name: dict[str, pd.DataFrame] = {"table5_seconds": seconds.reset_index(names="problem")}
    if FAST in comparison.methods and comparison.units.groupby(["case", "method"]).size().min() > 1:
        by_name["table7"] = _wins(comparison)
    if len(dents):
        by_name["in_the_dent"] = dents.reset_index(names="problem")
    text = (
        "Table 5: mean seconds of a run here, evaluation and journal included; on other machines "
        "and under other load they compare, and say no more. Table 7: wins - losses - draws of "
        "3DFCH-EMOA by the rank-sum test at 5%, as the paper counts them. In the dent: share of "
        "the returned points in the direction of a dent and more than 0.005 inside the hull of "
        "the true front."
    )
    figures = {f"figure_{case.name.lower()}": _fronts(case) for case in comparison.cases}
    return Page("3DFCH-EMOA: test functions", text, _claims(comparison, dents), by_name, figures)


def sizes(comparison: Comparison) -> Page:
    """Return Table 9, the exponents of time, and Figure 11."""
    table = _seconds(comparison).reset_index(names="population")
    table["population"] = [int(name.rpartition("=")[2]) for name in table["population"]]
    table["ratio"] = table[SLOW] / table[FAST]
    of_paper = [_SIZES_PAPER.get(n, (np.nan, np.nan)) for n in table["population"]]
    table["ratio in the paper"] = [slow / fast for fast, slow in of_paper]
    fits = {name: _exponent(table["population"], table[name]) for name in (FAST, SLOW)}
    text = (
        "Seconds of a run. They grow as n to the power of "
        + ", ".join(f"{power:.2f} ({name})" for name, power in fits.items())
        + ". Figure 11: the same, the paper's in grey."
    )
    claims = [
        Claim(f"{SLOW} takes {paper} times as long at n = {n}", f"{paper}", f"{here:.1f}", holds)
        for n, paper in ((100, "7"), (300, "30"), (1000, "247"))
        for here in table.loc[table["population"] == n, "ratio"]
        for holds in (bool(here >= 0.9 * float(paper)),)
    ]
    return Page("Population sizes", text, claims, {"table9": table}, {"figure_11": _times(table)})


def selection(comparison: Comparison) -> Page:
    """Return Figure 12, VAS by evaluations for each rule that deletes members, and claims."""
    ways = {name: _way(comparison, name) for name in comparison.methods}
    ways = {name: way for name, way in ways.items() if len(way)}
    text = (
        "Figure 12: VAS of the population after each generation's worth of evaluations, mean of "
        "runs. In the table some of these moments; hull.csv of each run has all."
    )
    figures = {"figure_12": _ways(ways)} if ways else {}
    tables = {"figure12": _some_moments(ways)} if ways else {}
    return Page("What is deleted first", text, _claims_of_selection(ways), tables, figures)


def _some_moments(ways: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the mean VAS after a few numbers of evaluations, one column per method."""
    table = pd.DataFrame({name: way["mean"] for name, way in ways.items()}).dropna()
    places = np.geomspace(1, len(table), _MOMENTS).round().astype(int) - 1
    return table.iloc[np.unique(places)].reset_index(names="evaluations")


def _claims_of_selection(ways: Mapping[str, pd.DataFrame]) -> list[Claim]:
    if not {"oldest", "random"} <= set(ways):
        return []
    gap = (ways["oldest"]["mean"] - ways["random"]["mean"]).dropna()
    ahead, last = float((gap > 0).mean()), float(gap.iloc[-1])
    return [
        Claim(
            "selection by age ends with the VAS of random selection",
            "Section 4.3, to three digits",
            f"{last:+.1e} apart",
            bool(abs(last) < _PRINTED),
        ),
        Claim(
            "selection by age is a little quicker than at random",
            "Figure 12",
            f"ahead at {ahead:.0%} of {len(gap)} moments",
            bool(ahead > 0.5),
        ),
    ]


def _seconds(comparison: Comparison) -> pd.DataFrame:
    """Return mean seconds, one row per case and one column per method."""
    table = comparison.frame.pivot_table(
        index="case", columns="method", values="seconds", aggfunc="mean", sort=False
    )
    return table[[name for name in comparison.methods if name in table]]


def _wins(comparison: Comparison) -> pd.DataFrame:
    """Return the wins - losses - draws of 3DFCH-EMOA against each method, by indicator and time."""
    signs = {name: 1.0 if i.better == "low" else -1.0 for name, i in comparison.indicators.items()}
    rows = []
    for name, sign in (signs | {"seconds": 1.0}).items():
        values = {
            key: sign * part[name].to_numpy(dtype=np.float64)
            for key, part in comparison.units.groupby(["case", "method"], sort=False)
        }
        row = {"indicator": name}
        for other in comparison.methods:
            if other != FAST:
                comparisons = [
                    verdict(values[case.name, FAST], values[case.name, other])
                    for case in comparison.cases
                ]
                wins, draws, losses = score(comparisons)
                row[other] = f"{wins}-{losses}-{draws}"
        rows.append(row)
    return pd.DataFrame(rows)


def _dents(comparison: Comparison) -> pd.DataFrame:
    """Return the mean share of points in the dent, for the problems that have one."""
    by_case: dict[str, dict[str, float]] = {}
    for case in comparison.cases:
        planes = ConvexHull(case.reference).equations
        dented = _inside(case.reference, planes)
        if not dented.any():
            continue
        front = unit(1.0 - case.reference)
        shares: dict[str, list[float]] = {method: [] for method in comparison.methods}
        for run in case.runs:
            nearest = (unit(1.0 - run.losses) @ front.T).argmax(axis=1)
            within = dented[nearest] & _inside(run.losses, planes)
            shares[run.method].append(float(within.mean()))
        by_case[case.name] = {
            name: float(np.mean(values)) for name, values in shares.items() if values
        }
    return pd.DataFrame(by_case).T


def _inside(points: FloatArray, planes: FloatArray) -> BoolArray:
    """Return which points lie deeper than ``_DEEP`` in the hull that these planes bound."""
    height = (points @ planes[:, :-1].T + planes[:, -1]).max(axis=1)
    return np.asarray(height < -_DEEP)


def _claims(comparison: Comparison, dents: pd.DataFrame) -> list[Claim]:
    """Return the claims about the test functions, on those that all methods have finished."""
    claims, dents = [], dents.dropna()
    means = comparison.units.groupby(["case", "method"], sort=False)["vas"].mean().unstack()
    if {FAST, SLOW} <= set(means):
        gap = (means[FAST] - means[SLOW]).abs().dropna()
        claims.append(
            Claim(
                f"{FAST} reaches the VAS of {SLOW}",
                "Table 1, to three digits on all",
                f"{gap.max():.1e} apart at most",
                bool((gap < _PRINTED).all()),
            )
        )
    hulls = [name for name in (FAST, SLOW) if name in dents]
    others = [name for name in dents if name not in hulls]
    if len(dents) and hulls and others:
        most, least = dents[hulls].to_numpy().max(), dents[others].to_numpy().min()
        claims.append(
            Claim(
                "only the hull methods keep out of the dents",
                "Section 4.1, Figures 6, 7, 9, 10",
                f"at most {most:.1%} of their points, of others at least {least:.1%}",
                bool(most < least),
            )
        )
    seconds = _seconds(comparison)
    for fast, slow in ((FAST, SLOW), (FAST, "AR-MOEA"), ("RVEA", FAST)):
        if {fast, slow} <= set(seconds):
            ratio = (seconds[slow] / seconds[fast]).dropna()
            claims.append(
                Claim(
                    f"{fast} is quicker than {slow}",
                    "Table 5, on all",
                    f"{ratio.min():.1f} to {ratio.max():.1f} times",
                    bool((ratio > 1.0).all()),
                )
            )
    return claims


def _exponent(n: pd.Series[int], seconds: pd.Series[float]) -> float:
    """Return the power of n with which seconds grow, by least squares of logarithms."""
    if len(n) < 2:
        return float("nan")
    return float(np.polyfit(np.log(n.to_numpy()), np.log(seconds.to_numpy()), 1)[0])


def _way(comparison: Comparison, method: str) -> pd.DataFrame:
    """Return the mean and standard deviation of VAS by evaluations, over all runs of a method."""
    places = [
        RunDir(run.path) for case in comparison.cases for run in case.runs if run.method == method
    ]
    parts = [place.listing("hull") for place in places if (place.path / "hull.csv").is_file()]
    if not parts:
        return pd.DataFrame(columns=["mean", "std"])
    return pd.concat(parts).groupby("evaluations")["vas"].agg(["mean", "std"])


def _fronts(case: Case) -> Figure:
    """Draw the first run of each method in front of the true front (Figures 5 to 10)."""
    from matplotlib.figure import Figure

    runs = {run.method: run for run in reversed(case.runs)}
    names = list(dict.fromkeys(run.method for run in case.runs))
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(3.2 * columns, 3.1 * lines), layout="constrained")
    behind = case.reference[:: max(1, len(case.reference) // 1500)]
    for number, name in enumerate(names, start=1):
        axes = figure.add_subplot(lines, columns, number, projection="3d")
        axes.scatter(*behind.T, s=1, color="#d5d9de", linewidths=0)
        points = runs[name].losses
        if len(points):
            shown = points[nondominated(points)]
            axes.scatter(*shown.T, s=7, color="#34618c", depthshade=False, linewidths=0)
        axes.view_init(elev=28, azim=40)
        axes.set_title(f"{name} ({len(points)})", fontsize=9)
        axes.set_box_aspect(None, zoom=0.9)  # without it the label on the left is cut off
        axes.tick_params(labelsize=6, pad=-2)
        for axis, label in zip((axes.xaxis, axes.yaxis, axes.zaxis), case.roles.names, strict=True):
            axis.set_label_text(label, fontsize=7)
            axis.labelpad = -6
    figure.suptitle(f"{case.name}: what one run of each method returns", fontsize=11)
    return figure


def _times(table: pd.DataFrame) -> Figure:
    """Draw seconds against population sizes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, colour in ((FAST, "#34618c"), (SLOW, "#d9822b")):
        axes.plot(table["population"], table[name], "o-", color=colour, label=f"{name}, here")
    for column, style in enumerate(("o--", "s--")):
        seconds = {n: pair[column] / 1000 for n, pair in _SIZES_PAPER.items()}
        label = f"{(FAST, SLOW)[column]}, paper"
        axes.plot(list(seconds), list(seconds.values()), style, color="#9aa3ad", label=label)
    axes.set(xscale="log", yscale="log", xlabel="population", ylabel="seconds of a run")
    axes.legend(frameon=False, fontsize=9)
    return figure


def _ways(ways: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw VAS against evaluations, and its distance to the best value on a logarithmic scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    best = max(way["mean"].max() for way in ways.values())
    for (name, way), colour in zip(
        ways.items(), ("#34618c", "#d9822b", "#2e7d4f", "#9aa3ad"), strict=False
    ):
        left.plot(way.index, way["mean"], color=colour, label=name)
        right.plot(way.index, np.maximum(best - way["mean"], 1e-7), color=colour, label=name)
    left.set(xlabel="evaluations", ylabel="mean VAS", xscale="log")
    right.set(xlabel="evaluations", ylabel="below the best mean VAS", yscale="log")
    left.legend(frameon=False, fontsize=9)
    return figure


def networks(comparison: Comparison) -> Page:
    """Return Tables 10 to 12, ranks of the searches, and claims."""
    rows, data = accuracies(comparison), []
    tables, rankings = {}, {}
    for reading in READINGS:
        table = _by_data(comparison, rows, reading)
        tables[f"table11_{reading}"] = table.reset_index(names="data")
        methods = [UNPRUNED, *comparison.methods]
        complete = table[methods].dropna()  # data sets that all methods have finished
        if min(complete.shape) > 1:
            tests = {"accuracy": rank_tests(-complete.to_numpy())}
            rankings[f"table11_{reading}"] = Ranking(methods, tests, "data sets")
    paper = pd.DataFrame(
        {
            scenario: {method: values.get("accuracy") for method, values in by_method.items()}
            for scenario, by_method in comparison.paper.items()
        }
    ).T
    if len(paper):
        tables["table11_paper"] = paper.reset_index(names="data")
    for case in comparison.cases:
        about = dict(RunDir(case.runs[0].path).about()["data"])
        keys = ("records", "features", "positive", "train", "validation", "test")
        data.append({"data": case.name, **{name: about.get(name) for name in keys}})
    tables["table10"] = pd.DataFrame(data)
    tables["table12"] = _scoring_times(comparison)
    text = (
        "Table 11: accuracy on test records; chosen: of the returned network that is best on "
        "validation records; hindsight: the highest of all returned, as in the paper. No pruning "
        "is the trained network, majority always answers the class that most training records "
        "have. Table 12: mean seconds of a run of equal evaluations, and those of them spent on "
        "scoring masks."
    )
    claims = _claims_of_networks(comparison, tables["table11_hindsight"].set_index("data").dropna())
    return Page("Sparse networks", text, claims, tables, {}, rankings)


def accuracies(comparison: Comparison) -> pd.DataFrame:
    """Return one row per run: ``data``, ``method``, ``chosen`` and ``hindsight``.

    The trained network and the majority class are further methods, with one row in each case.
    """
    rows = []
    for case in comparison.cases:
        scenario = case.scenario or case.name
        for run in case.runs:
            rows.append({"data": scenario, "method": run.method, **_of_run(run)})
        for name, value in _baselines(RunDir(case.runs[0].path)).items():
            rows.append({"data": scenario, "method": name, **dict.fromkeys(READINGS, value)})
    return pd.DataFrame(rows)


def _of_run(run: ComparedRun) -> dict[str, float]:
    place = RunDir(Path(run.path))
    frame = place.returned_or_front().frame()
    if not len(frame):
        return dict.fromkeys(READINGS, np.nan)
    values = frame["test_accuracy"].to_numpy(dtype=np.float64)
    best = int(frame["accuracy"].to_numpy().argmax())
    return {"chosen": float(values[best]), "hindsight": float(values.max())}


def _baselines(place: RunDir) -> dict[str, float]:
    """Return the test accuracies of the trained network and of the majority class in training."""
    problem = make_problem(place.config(checked=True))
    assert isinstance(problem, NetworkProblem)
    everything = np.ones((1, problem.space.d), dtype=np.int8)
    unpruned = problem.evaluate_test(everything)
    if unpruned is None:
        return {}
    answer = problem.positive.mean() > 0.5
    return {
        UNPRUNED: float(unpruned["accuracy"][0]),
        MAJORITY: float(np.mean(problem.test.positive == answer)),
    }


def _by_data(comparison: Comparison, rows: pd.DataFrame, reading: str) -> pd.DataFrame:
    """Return the mean accuracies, one row per data set and one column per method."""
    table = rows.pivot_table(index="data", columns="method", values=reading, sort=False)
    return table[[name for name in (MAJORITY, UNPRUNED, *comparison.methods) if name in table]]


def _scoring_times(comparison: Comparison) -> pd.DataFrame:
    """Return mean evaluations and seconds by method: in total, for scoring, and the rest."""
    rows = []
    for case in comparison.cases:
        for run in case.runs:
            scoring = RunDir(run.path).summary().get("evaluation_s", np.nan)
            rows.append((run.method, run.evaluations, run.seconds, scoring, run.seconds - scoring))
    columns = ["method", "evaluations", "seconds", "scoring", "overhead"]
    table = pd.DataFrame(rows, columns=columns)
    return table.groupby("method", sort=False).mean().reset_index()


def _claims_of_networks(comparison: Comparison, table: pd.DataFrame) -> list[Claim]:
    """Return the claims of Section 4.4.5, on the data sets of the experiment."""
    if not len(table) or not {UNPRUNED, FAST, SLOW} <= set(table):
        return []
    others = [name for name in comparison.methods if name not in (FAST, SLOW)]
    n = len(table)

    def mostly(says: str, paper: str, holds: pd.Series[bool]) -> Claim:
        count = int(holds.sum())
        return Claim(says, paper, f"{count} of {n}", count >= 0.5 * n)

    better = table[FAST] > table[UNPRUNED]
    first = table[[SLOW, FAST]].max(axis=1) >= table[others].max(axis=1)
    means = table.mean()
    return [
        mostly("3DFCH-EMOA is more accurate than no pruning", "13 of 14", better),
        mostly("3DCH-EMOA or 3DFCH-EMOA is the most accurate", "10 of 14", first),
        Claim(
            "3DFCH-EMOA is as good as 3DCH-EMOA",
            ".7941 and .7944",
            f"{means[FAST]:.4f} and {means[SLOW]:.4f}",
            bool(abs(means[FAST] - means[SLOW]) < 0.005),
        ),
        Claim(
            "3DFCH-EMOA gains over no pruning, in the mean",
            "+.0319 as printed, +.0237 by its rows",
            f"{means[FAST] - means[UNPRUNED]:+.4f}",
            bool(means[FAST] > means[UNPRUNED]),
        ),
    ]
