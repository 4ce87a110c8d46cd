"""EMSCO against the rivals: Figures 8 to 12 of the paper and what it claims there.

    python scripts/rivals.py CONFIG [CONFIG ...] --out DIR [--trials 50] [--workers serial]
                             [--tune-by own|aggregate|plain_aggregate]

Each CONFIG is one of kind ``multistage`` (configs/emsco/). A trial splits the data anew, runs EMSCO
as Section 4.3 has it (at most 150 generations, until the fittest stayed the same for 20; its answer
is the fittest of the last generation) and tunes every rival on the same validation records: by its
own criterion (algorithms/multistage/rivals/grids.py), or by the one named for all. All are measured
on the same test records.

DIR gets trials.csv (a row for each trial and method), table.csv, claims.txt and rivals.png. Trials
that are in trials.csv already are not run again; take another DIR for another criterion.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import t as student

from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.rivals.grids import Criterion
from algorithms.multistage.rivals.measure import saved_share
from algorithms.multistage.rivals.problem import RivalConfig, RivalProblem, tune
from framework.config import Budget, RunConfig, load_config
from framework.driver import run
from framework.errors import ParetolabError
from framework.evaluator import SerialEvaluator
from framework.problems.stages import MultiStageConfig, MultiStageProblem
from framework.roles import Roles
from framework.workers import BudgetLeft, evaluator_for

GENERATIONS, CONVERGENCE = 150, 20  # Section 4.3.1
METRICS = ("coverage", "accuracy", "cost_share", "aggregate")
TITLES = ("coverage g1", "conclusive accuracy g2", "cost g3* / all features", "aggregate")
LABELS = {
    "emsco": "EMSCO",
    "single_stage": "Single stage",
    "cost_ordered": "CO-T",
    "cact_lasso": "CaCT LASSO",
    "greedy_miser": "GreedyMiser*",
    "cstc": "CSTC*",
    "cegb": "CEGB",
}
CRITERIA: dict[str, Criterion | None] = {
    "own": None,
    "aggregate": "aggregate",
    "plain_aggregate": "plain_aggregate",
}
PAPER = tuple(name for name in LABELS if name != "cegb")  # whom the paper compares
BUDGETED = tuple(name for name in PAPER if name not in ("emsco", "single_stage"))


def sections(config: RunConfig, trial: int) -> tuple[MultiStageConfig, RivalConfig]:
    """Return the problems of a trial: the same data, the split of its own seed."""
    section = {key: value for key, value in config.problem.items() if key != "kind"}
    seed = section["split"]["seed"] + trial
    section["split"] = section["split"] | {"seed": seed}
    shared = {key: section[key] for key in ("dataset", "split", "costs", "threshold")}
    return MultiStageConfig.model_validate(section), RivalConfig.model_validate(shared)


def most_stages(n: int) -> int:
    """Return the paper's k = max(ceil(n / 2), 10), which n features limit."""
    return min(n, max(math.ceil(n / 2), 10))


def run_emsco(config: RunConfig, section: MultiStageConfig, seed: int) -> dict[str, float]:
    """Return EMSCO's fittest solution, measured on the test records."""
    features = MultiStageProblem.from_config(section).space.d
    section = section.model_copy(update={"max_stages": most_stages(features)})
    problem = MultiStageProblem.from_config(section)
    roles = Roles(problem.measures, config.objective_roles())
    parameters = {key: value for key, value in config.algorithm.items() if key != "kind"}
    emsco = EMSCO(problem, roles, seed=seed, **parameters | {"convergence": CONVERGENCE})
    with_budget = Budget(generations=GENERATIONS)
    run(problem, emsco, SerialEvaluator(problem, seed), budget=with_budget)
    assert emsco.fittest is not None
    found = problem.evaluate_test(emsco.fittest[np.newaxis])
    if found is None:
        raise ParetolabError("problem.split.test: expected a share above 0, found 0")
    values = {name: float(found[name][0]) for name in ("coverage", "accuracy", "cost")}
    saved = saved_share(values["cost"], float(problem.costs.sum()) / problem.cost_scale)
    return values | {"aggregate": values["coverage"] + values["accuracy"] + saved}


def run_rivals(
    section: RivalConfig, workers: str, tune_by: str
) -> dict[str, tuple[dict[str, float], str]]:
    """Return each rival, tuned and measured on the test records, and its parameters."""
    problem = RivalProblem.from_config(section)
    evaluators = evaluator_for(
        problem, 0, workers=int(workers) if workers.isdigit() else workers, address=None,
        left=BudgetLeft(), report=lambda line: None,
    )  # fmt: skip
    with evaluators as (evaluator, _):
        best = tune(problem, evaluator, CRITERIA[tune_by])
    found = problem.evaluate_test(np.array(list(best.values()))[:, np.newaxis])
    if found is None:
        raise ParetolabError("problem.split.test: expected a share above 0, found 0")
    return {
        method: (
            {name: float(column[i]) for name, column in found.items()},
            json.dumps(dict(problem.cells[cell].parameters)),
        )
        for i, (method, cell) in enumerate(best.items())
    }


def run_trial(
    config: RunConfig, name: str, trial: int, options: argparse.Namespace
) -> pd.DataFrame:
    """Return a row for each method."""
    stages, rivals = sections(config, trial)
    measured: dict[str, tuple[dict[str, float], str]] = {
        "emsco": (run_emsco(config, stages, trial), "{}"),
        **run_rivals(rivals, options.workers, options.tune_by),
    }
    everything = measured["single_stage"][0]["cost"]
    lowest = stages.threshold
    assert isinstance(lowest, float), "expected one threshold for all classes"
    rows = [
        {"data": name, "trial": trial, "method": method, "threshold": lowest, **values,
         "cost_share": values["cost"] / everything, "parameters": parameters}
        for method, (values, parameters) in measured.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def margins(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean and 95% margin (Student's t) of each metric, by data and method."""
    metrics = [*METRICS, "cost"]
    groups = rows.groupby(["data", "method"], sort=False)[metrics]
    mean, deviation, count = groups.mean(), groups.std(), groups.count()
    wide = student.ppf(0.975, np.maximum(count - 1, 1)) * deviation / np.sqrt(count)
    return mean.join(wide.add_suffix("_margin")).join(
        rows.groupby(["data", "method"], sort=False)["threshold"].first()
    )


def claims(table: pd.DataFrame) -> list[str]:
    """Say of each claim of Section 4.3.2 whether it holds here."""
    data = list(dict.fromkeys(table.index.get_level_values("data")))
    mean = {name: table.loc[name] for name in data}
    emsco = {name: mean[name].loc["emsco"] for name in data}
    single = {name: mean[name].loc["single_stage"] for name in data}
    cheapest = [d for d in data if emsco[d].cost <= mean[d].loc[list(PAPER)].cost.min()]
    covering = [d for d in data if emsco[d].coverage >= mean[d].loc[list(BUDGETED)].coverage.max()]
    accurate = [d for d in data if emsco[d].accuracy >= emsco[d].threshold]
    undominated = [d for d in data if not _dominated(mean[d].loc[list(PAPER)])]
    best_sum = [
        d for d in data if emsco[d]["aggregate"] >= mean[d].loc[list(PAPER)]["aggregate"].max()
    ]
    speed = [single[d].cost / emsco[d].cost for d in data if emsco[d].cost > 0]
    coverage = np.mean([emsco[d].coverage for d in data])
    lost = 100 * np.mean([1 - emsco[d].accuracy / single[d].accuracy for d in data])
    rejected = {m: np.mean([1 - mean[d].loc[m].coverage for d in data])
                for m in ("greedy_miser", "cstc")}  # fmt: skip

    def line(text: str, found: list[str], paper: str) -> str:
        return f"{text}: {len(found)} of {len(data)} ({', '.join(found) or 'none'}); paper: {paper}"

    return [
        line("lowest cost of all", cheapest, "2 of 4 (pima, credit)"),
        line("highest coverage of the budgeted", covering, "4 of 4"),
        line("accuracy of at least p_hat", accurate, "4 of 4"),
        line("non-dominated (g1, g2, g3*)", undominated, "4 of 4"),
        line("highest aggregate", best_sum, "Figure 12, 'strong'"),
        f"mean coverage: {coverage:.1%}; paper: 93.4%",
        f"cost of a single stage over EMSCO's, mean of ratios: {np.mean(speed):.2f} "
        f"({100 * (np.mean(speed) - 1):.0f}% faster); paper: '475% average speed increase'",
        f"accuracy lost against a single stage: {lost:.2f}%; paper: 2.72%",
        f"rejected by GreedyMiser*: {rejected['greedy_miser']:.1%}, by CSTC*: "
        f"{rejected['cstc']:.1%}; paper: 45.2% and 36.4%",
    ]


def _dominated(means: pd.DataFrame) -> bool:
    """Tell whether some rival is at least as good as EMSCO in all, and better in one."""
    points = means[["coverage", "accuracy", "cost"]] * [-1, -1, 1]
    own, others = points.loc["emsco"], points.drop(index="emsco")
    return bool(((others <= own).all(axis=1) & (others < own).any(axis=1)).any())


def show(table: pd.DataFrame, out: Console) -> None:
    """Print the table."""
    shown = Table("data", "method", "coverage", "accuracy", "cost", "cost %", "aggregate")
    for (data, method), row in table.iterrows():
        cells = [f"{row[m]:.3f} ± {row[m + '_margin']:.3f}" for m in ("coverage", "accuracy")]
        cells.append(f"{row.cost:.1f} ± {row.cost_margin:.1f}")
        cells.append(f"{row.cost_share:.0%}")
        cells.append(f"{row['aggregate']:.3f} ± {row['aggregate_margin']:.3f}")
        shown.add_row(data, LABELS[method], *cells)
    out.print(shown)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw a row of bars a data set (Figures 8 to 11), with the aggregate last (Figure 12)."""
    from matplotlib.figure import Figure

    data = list(dict.fromkeys(table.index.get_level_values("data")))
    figure = Figure(figsize=(15, 2.6 * len(data) + 1), layout="constrained")
    axes = figure.subplots(len(data), len(METRICS), squeeze=False)
    colours = ["#c0392b", *["#7f8c8d"] * (len(LABELS) - 2), "#34618c"]
    for row, name in zip(axes, data, strict=True):
        part = table.loc[name].reindex([m for m in LABELS if m in table.loc[name].index])
        names = [LABELS[method] for method in part.index]
        for axis, metric, title in zip(row, METRICS, TITLES, strict=True):
            axis.bar(names, part[metric], yerr=part[metric + "_margin"].fillna(0.0),
                     color=colours, capsize=3)  # fmt: skip
            axis.set_title(f"{name}: {title}", fontsize=10)
            axis.tick_params(axis="x", rotation=40, labelsize=8)
            axis.set_ylim(0, 3 if metric == "aggregate" else 1.09)
            if metric == "accuracy":
                axis.axhline(part.threshold.iloc[0], color="black", linestyle=":", linewidth=1)
    figure.suptitle("Test records: means with 95% margins over trials (dotted: p_hat)")
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> int:
    """Run the trials that are missing, then write table, claims and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("configs", nargs="+", metavar="CONFIG")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--workers", default="serial", help="serial, auto, all or a number")
    parser.add_argument("--tune-by", choices=list(CRITERIA), default="own")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "trials.csv"
    out = Console(width=None if sys.stdout.isatty() else 120)
    rows = pd.read_csv(file) if file.is_file() else pd.DataFrame({"data": [], "trial": []})
    names = []
    for path in options.configs:
        config, name = load_config(path), Path(path).stem
        names.append(name)
        done = set(rows.loc[rows.data == name, "trial"])
        missing = [trial for trial in range(options.trials) if trial not in done]
        for trial in track(missing, name, console=out, disable=not sys.stdout.isatty()):
            fresh = run_trial(config, name, trial, options)
            rows = pd.concat([rows, fresh]) if len(rows) else fresh
            rows.to_csv(file, index=False)
    table = margins(rows[rows.data.isin(names) & (rows.trial < options.trials)])
    table.to_csv(options.out / "table.csv")
    show(table, out)
    lines = claims(table)
    (options.out / "claims.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out.print("\n".join(lines), highlight=False)
    draw(table, options.out / "rivals.png")
    return 0


def command() -> int:
    """Run, and say in a line what cannot be used."""
    try:
        return main()
    except ParetolabError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(command())
