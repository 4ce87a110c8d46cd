"""EMSCO against the baselines: Figures 8 to 13 of the paper, its claims, its indicators.

The labels of methods are those of ``configs/emsco/rivals.yaml``; a baseline that was tuned by the
second criterion has ``, asking`` behind its name.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from framework.analysis.compare import Claim, Comparison, Page
from framework.analysis.indicators import Indicator, Judged
from framework.analysis.report import scenarios
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.pareto import nondominated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Means = Mapping[str, Mapping[str, Mapping[str, float]]]
EMSCO, SINGLE = "EMSCO", "single stage"
BUDGETED = ("CO-T", "CaCT LASSO", "GreedyMiser*", "CSTC*")  # the budgeted methods of the paper
PAPER = (EMSCO, SINGLE, *BUDGETED)
METRICS = {
    "coverage": "coverage g1",
    "accuracy": "conclusive accuracy g2",
    "cost_share": "cost g3* / all features",
    "aggregate": "aggregate",
}
_LABEL = 0.05  # height of a label, as a share of the height of the plot
_TICKS = 8  # greatest number of cost classes that all get a tick
_COLOURS = {EMSCO: "#c0392b", "CEGB": "#34618c"}


def page(comparison: Comparison) -> Page:
    """Return the claims of Section 4.3, a table of free and silent methods, and Figures 8 to 13."""
    means = _means(comparison)
    thresholds = _thresholds(comparison)
    stages = _stages(comparison)
    constant = _constant(comparison)
    trials = comparison.units.groupby("scenario")["case"].nunique().min()
    text = (
        f"Test records, {trials} splits of a data set or more; baselines tuned on validation "
        "records, each by its own criterion, and once more by the aggregate among those that "
        "acquire a feature and answer a record (asking). free: acquires no feature in a split; "
        "silent: answers no record (its accuracy counts as 0)."
    )
    figures = {"figures_8_to_12": _bars(comparison, thresholds)}
    tables = {"free_and_silent": constant}
    claims = claims_of(means, thresholds)
    if len(stages):
        figures["figure_13"], about = _draw_stages(stages)
        tables["stages"], claims = stages, [*claims, *about]
    return Page("EMSCO and its baselines", text, claims, tables, figures)


def claims_of(means: Means, thresholds: Mapping[str, float]) -> list[Claim]:
    """Return each claim of Section 4.3.2 with the figure of the paper and the one measured here.

    Parameters
    ----------
    means : mapping
        Coverage, accuracy, cost and aggregate by data set and method.
    thresholds : mapping of str to float
        The paper's p_hat of each data set.
    """
    data = list(thresholds)
    methods = [m for m in PAPER if all(m in means[d] for d in data)]
    budgeted = [m for m in methods if m in BUDGETED]
    if EMSCO not in methods or SINGLE not in methods or not budgeted:
        return []
    emsco, single = ({d: means[d][m] for d in data} for m in (EMSCO, SINGLE))

    def values(d: str, metric: str, methods: Sequence[str]) -> list[float]:
        return [means[d][m][metric] for m in methods]

    def on(names: Sequence[str]) -> str:
        return f"{len(names)} of {len(data)}: {', '.join(names) or 'none'}"

    cheapest = [d for d in data if emsco[d]["cost"] <= min(values(d, "cost", methods))]
    covering = [d for d in data if emsco[d]["coverage"] >= max(values(d, "coverage", budgeted))]
    accurate = [d for d in data if emsco[d]["accuracy"] >= thresholds[d]]
    undominated = [d for d in data if not _dominated({m: means[d][m] for m in methods})]
    best = [d for d in data if emsco[d]["aggregate"] >= max(values(d, "aggregate", methods))]
    ratios = [single[d]["cost"] / emsco[d]["cost"] for d in data if emsco[d]["cost"] > 0]
    faster = 100 * (float(np.mean(ratios)) - 1) if ratios else np.inf
    coverage = 100 * float(np.mean([emsco[d]["coverage"] for d in data]))
    lost = 100 * float(np.mean([1 - emsco[d]["accuracy"] / single[d]["accuracy"] for d in data]))
    wanted, every = {"pima", "credit"} & set(data), "4 of 4"
    claims = [
        Claim("lowest mean cost", "pima, credit", on(cheapest), wanted <= set(cheapest)),
        Claim("highest coverage of the budgeted", every, on(covering), covering == data),
        Claim("accuracy of at least p_hat", every, on(accurate), accurate == data),
        Claim("dominated by none in (g1, g2, g3*)", every, on(undominated), undominated == data),
        Claim("highest aggregate (Figure 12)", "'strong'", on(best), best == data),
        Claim("mean coverage", "93.4%", f"{coverage:.1f}%", coverage >= 93.4),
        Claim(
            "faster than a single stage (mean ratio of costs, less 1)",
            "475%",
            f"{faster:.0f}%",
            faster >= 475,
        ),
        Claim("accuracy lost against a single stage", "2.72%", f"{lost:.2f}%", lost <= 2.72),
    ]
    for method, least in (("GreedyMiser*", 45.2), ("CSTC*", 36.4)):
        if method in budgeted:
            rejected = 100 * float(np.mean([1 - means[d][method]["coverage"] for d in data]))
            says = f"records rejected by {method}"
            claims.append(Claim(says, f"{least}%", f"{rejected:.1f}%", rejected >= least))
    return claims


def _dominated(means: Mapping[str, Mapping[str, float]]) -> bool:
    """Return whether a baseline is at least as good as EMSCO in everything, and better in one."""
    rows = [means[EMSCO], *means.values()]
    losses = np.array([[-row["coverage"], -row["accuracy"], row["cost"]] for row in rows])
    return not nondominated(losses)[0]


def _means(comparison: Comparison, column: str = "mean") -> Means:
    """Return the means by scenario, method and indicator; or another column of that table."""
    by_scenario: dict[str, dict[str, dict[str, float]]] = {}
    for row in scenarios(comparison).to_dict("records"):
        of_method = by_scenario.setdefault(row["scenario"], {}).setdefault(row["method"], {})
        of_method[row["indicator"]] = float(row[column])
    return by_scenario


def _thresholds(comparison: Comparison) -> dict[str, float]:
    """Return p_hat by data set; the least one where it differs between classes."""
    by_scenario: dict[str, float] = {}
    for case in comparison.cases:
        if case.scenario not in by_scenario:
            limit = RunDir(Path(case.runs[0].path)).config().problem.threshold
            by_scenario[case.scenario] = float(
                limit if isinstance(limit, float) else min(limit.values())
            )
    return by_scenario


def _constant(comparison: Comparison) -> pd.DataFrame:
    """Return the shares of splits in which a method acquires no feature, or answers no record."""
    rows = comparison.frame.assign(
        free=comparison.frame["cost"] == 0, silent=comparison.frame["coverage"] == 0
    )
    keys = ["scenario", "method"]
    means = rows.groupby(keys, sort=False)[["aggregate", "free", "silent"]].mean()
    means.insert(0, "splits", rows.groupby(keys, sort=False).size())
    return means.reset_index()


def _bars(comparison: Comparison, thresholds: Mapping[str, float]) -> Figure:
    """Draw one row of bars per data set (Figures 8 to 11), with the aggregate last (Figure 12)."""
    from matplotlib.figure import Figure

    means, highs = _means(comparison), _means(comparison, "high")
    names = [m for m in comparison.methods if not m.endswith(", asking")]
    figure = Figure(figsize=(15, 2.6 * len(thresholds) + 1), layout="constrained")
    axes = figure.subplots(len(thresholds), len(METRICS), squeeze=False)
    for row, (data, threshold) in zip(axes, thresholds.items(), strict=True):
        for axis, (metric, title) in zip(row, METRICS.items(), strict=True):
            height = np.array([means[data].get(name, {}).get(metric, np.nan) for name in names])
            high = np.array([highs[data].get(name, {}).get(metric, np.nan) for name in names])
            axis.bar(
                names,
                height,
                yerr=np.nan_to_num(high - height),
                capsize=3,
                color=[_COLOURS.get(name, "#7f8c8d") for name in names],
            )
            axis.set_title(f"{data}: {title}", fontsize=10)
            axis.tick_params(axis="x", labelsize=8)
            axis.set_xticks(range(len(names)), names, rotation=35, ha="right")
            axis.set_ylim(0, 3 if metric == "aggregate" else 1.09)
            axis.spines[["top", "right"]].set_visible(False)
            if metric == "accuracy":
                axis.axhline(threshold, color="black", linestyle=":", linewidth=1)
    figure.suptitle("Means with 95% intervals over splits (dotted: p_hat; blue: not in the paper)")
    return figure


def _stages(comparison: Comparison) -> pd.DataFrame:
    """Return mean stage and mean cost class of each feature over EMSCO's answers."""
    rows = []
    for case in comparison.cases:
        for run in case.runs:
            place = RunDir(Path(run.path))
            if run.method != EMSCO or (returned := place.returned()) is None:
                continue
            config = place.config(checked=True)
            problem = make_problem(config)
            factor = config.problem.costs.factor or 1
            costs = np.asarray(problem.costs) / problem.cost_scale / factor  # type: ignore[attr-defined]
            for name, gene, cost in zip(problem.gene_names, returned.X[0], costs, strict=True):
                rows.append((case.scenario, name, 1 + int(gene), float(cost)))  # genes count from 0
    table = pd.DataFrame(rows, columns=["data", "feature", "mean_stage", "cost_class"])
    return table.groupby(["data", "feature"], sort=False).mean().reset_index()


def _draw_stages(table: pd.DataFrame) -> tuple[Figure, list[Claim]]:
    """Draw mean stage against cost class (Figure 13); return the claims about it, too."""
    from matplotlib.figure import Figure
    from scipy.stats import spearmanr

    names = list(dict.fromkeys(table["data"]))
    columns = min(2, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(5.5 * columns, 3.6 * lines), layout="constrained")
    axes = np.ravel(figure.subplots(lines, columns, squeeze=False))
    claims = []
    for axis, name in zip(axes, names, strict=False):
        part = table[table["data"] == name]
        r = float(spearmanr(part["cost_class"], part["mean_stage"]).statistic)
        _scatter(axis, part, f"{name}: rank correlation {r:.2f}")
        says, here = "cost class and stage are poorly associated", f"rank correlation {r:.2f}"
        claims.append(Claim(f"{name}: {says}", "seen in the figure", here, abs(r) < 0.5))
        dearest = part[part["cost_class"] > part["cost_class"].max() - 0.5]
        least, median = dearest["mean_stage"].min(), part["mean_stage"].median()
        here = f"least mean stage {least:.2f}, median of all {median:.2f}"
        says = f"{name}: some of the dearest features come early"
        claims.append(Claim(says, "seen in the figure", here, bool(least < median)))
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    return figure, claims


def _scatter(axis: Axes, part: pd.DataFrame, title: str) -> None:
    """Draw features as points; neighbouring ones share a label."""
    axis.scatter(part["cost_class"], part["mean_stage"], color="#34618c", alpha=0.7)
    room = _LABEL * max(float(part["mean_stage"].max()) - 1, 1)
    for cost, column in part.sort_values("mean_stage").groupby("cost_class"):
        label = (column["mean_stage"].diff() > room).cumsum()
        for _, together in column.groupby(label):
            text = textwrap.fill(", ".join(map(str, together["feature"])), 20)
            where = (cost, together["mean_stage"].mean())
            axis.annotate(
                text, where, fontsize=7, xytext=(6, 0), textcoords="offset points", va="center"
            )
    axis.margins(x=0.25)
    classes = sorted(part["cost_class"].unique())
    if len(classes) <= _TICKS:
        axis.set_xticks(classes)
    axis.set(xlabel="cost class", ylabel="mean stage, 1 the first", ylim=(0.8, None))
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)


def _share_of_costs(judged: Judged) -> float:
    """Return the mean cost as a share of the cost of all features; NaN for other problems."""
    if not {"coverage", "accuracy", "cost"} <= {*judged.metrics} or not len(judged.losses):
        return np.nan
    everything = judged.roles.metrics["cost"].high
    return float(np.mean(judged.metrics["cost"])) / everything if everything else 0.0


def _aggregate(judged: Judged) -> float:
    values = judged.metrics
    if np.isnan(share := _share_of_costs(judged)):
        return np.nan
    return float(np.mean(values["coverage"]) + np.mean(values["accuracy"])) + 1.0 - share


COST_SHARE = Indicator(
    "cost, of all features",
    "low",
    "mean acquisition cost per record as a share of the cost of all features",
    _share_of_costs,
    on_request=True,
)
AGGREGATE = Indicator(
    "aggregate",
    "high",
    "coverage + accuracy + 1 - cost / all costs",
    _aggregate,
    on_request=True,
)
