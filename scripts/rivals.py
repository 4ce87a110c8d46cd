"""EMSCO against the rivals: Figures 8 to 12 of the paper and what it claims there.

    python scripts/rivals.py [CONFIG ...] [--out DIR] [--trials 50] [--workers N]
                             [--tune-by CRITERION ...]

Each CONFIG is one of kind ``multistage`` (default: the four of configs/emsco that the paper has). A
trial splits the data anew, runs EMSCO as Section 4.3 has it (at most 150 generations, until the
fittest stayed the same for 20; its answer is the fittest of the last generation) and tunes every
rival on the same validation records: by its own criterion (own; see
algorithms/multistage/baselines/grids.py), and once more by one for all (asking_aggregate: EMSCO's
aggregate among those that acquire a feature and answer a record; aggregate, plain_aggregate). All
are measured on the same test records.

The paper reads Figures 8 to 12 as follows: EMSCO costs least on two of the four data sets, covers
more than every budgeted rival on all, is right at least as often as p_hat asks, and is dominated by
none; against a single stage it is 475% faster and loses 2.72% of the accuracy.

DIR gets trials.csv (a row for each trial, criterion and method), a table for each criterion,
claims.csv and rivals.png (of the first criterion) and report.md. Trials that are in trials.csv
already are not run again; take another DIR for other criteria.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import study
from rich.console import Console
from rich.progress import track
from scipy.stats import t as student

from algorithms.multistage.baselines.grids import Criterion
from algorithms.multistage.baselines.measure import saved_share
from algorithms.multistage.baselines.problem import RivalConfig, RivalProblem, tune
from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.problem import MultiStageProblem
from framework.errors import InputError
from framework.experiment.config import RunConfig, load_config
from framework.roles import Roles
from framework.run.driver import run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget

CONFIGS = [f"configs/emsco/{name}.yaml" for name in ("pima", "credit", "heart", "synthetic30")]
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
    "asking_aggregate": "asking_aggregate",
    "aggregate": "aggregate",
    "plain_aggregate": "plain_aggregate",
}
PAPER = tuple(name for name in LABELS if name != "cegb")  # whom the paper compares
BUDGETED = tuple(name for name in PAPER if name not in ("emsco", "single_stage"))


def sections(config: RunConfig, trial: int) -> tuple[MultiStageConfig, RivalConfig]:
    """Return the problems of a trial: the same data, the split of its own seed."""
    section = {key: value for key, value in config.problem.items() if key != "kind"}
    stages = MultiStageConfig.model_validate(section)
    split = stages.split.model_copy(update={"seed": stages.split.seed + trial})
    rivals = RivalConfig.model_validate(
        {
            "dataset": stages.dataset,
            "split": split,
            "costs": stages.costs,
            "threshold": stages.threshold,
        }
    )
    return stages.model_copy(update={"split": split}), rivals


def most_stages(n: int) -> int:
    """Return the paper's k = max(ceil(n / 2), 10), which n features limit."""
    return min(n, max(math.ceil(n / 2), 10))


def run_emsco(
    config: RunConfig, section: MultiStageConfig, seed: int
) -> tuple[dict[str, float], str]:
    """Return EMSCO's fittest solution, measured on the test records, and its genome."""
    features = MultiStageProblem.from_config(section).space.d
    section = section.model_copy(update={"max_stages": most_stages(features)})
    problem = MultiStageProblem.from_config(section)
    roles = Roles(problem.metrics, config.objective_roles())
    parameters = {key: value for key, value in config.algorithm.items() if key != "kind"}
    emsco = EMSCO(problem, roles, seed=seed, **parameters | {"convergence": CONVERGENCE})
    with_budget = Budget(generations=GENERATIONS)
    run(problem, emsco, SerialEvaluator(problem, seed), budget=with_budget)
    assert emsco.fittest is not None
    found = problem.evaluate_test(emsco.fittest[np.newaxis])
    if found is None:
        raise InputError("problem.split.test: expected a share above 0, found 0")
    values = {name: float(found[name][0]) for name in ("coverage", "accuracy", "cost")}
    saved = saved_share(values["cost"], float(problem.costs.sum()) / problem.cost_scale)
    aggregate = values["coverage"] + values["accuracy"] + saved
    return values | {"aggregate": aggregate}, json.dumps({"stages": emsco.fittest.tolist()})


def run_rivals(problem: RivalProblem, tune_by: str) -> dict[str, tuple[dict[str, float], str]]:
    """Return each rival, tuned and measured on the test records, and its parameters."""
    best = tune(problem, SerialEvaluator(problem, 0), CRITERIA[tune_by])
    found = problem.evaluate_test(np.array(list(best.values()))[:, np.newaxis])
    if found is None:
        raise InputError("problem.split.test: expected a share above 0, found 0")
    return {
        method: (
            {name: float(column[i]) for name, column in found.items()},
            json.dumps(dict(problem.cells[cell].parameters)),
        )
        for i, (method, cell) in enumerate(best.items())
    }


def run_trial(path: str, trial: int, tune_by: Sequence[str]) -> pd.DataFrame:
    """Return a row for EMSCO, and one for each criterion and rival."""
    config = load_config(path)
    stages, rivals = sections(config, trial)
    problem = RivalProblem.from_config(rivals)  # fits each cell once, for all criteria
    measured = [("", "emsco", run_emsco(config, stages, trial))]
    for criterion in tune_by:
        found = run_rivals(problem, criterion)
        measured += [(criterion, method, found[method]) for method in found]
    everything = float(problem.costs.sum())
    lowest = stages.threshold
    assert isinstance(lowest, float), "expected one threshold for all classes"
    rows = [
        {
            "data": Path(path).stem,
            "trial": trial,
            "tuned_by": criterion,
            "method": method,
            "threshold": lowest,
            **values,
            "cost_share": values["cost"] / everything,
            "parameters": parameters,
        }
        for criterion, method, (values, parameters) in measured
    ]
    return pd.DataFrame(rows)


def margins(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean and 95% margin (Student's t) of each metric, by data and method.

    ``free`` and ``silent`` are the shares of trials in which a method acquires no feature at all
    (it always says the same) and in which it answers no record (its accuracy counts as 0).
    """
    metrics = [*METRICS, "cost"]
    groups = rows.groupby(["data", "method"], sort=False)[metrics]
    mean, deviation, count = groups.mean(), groups.std(), groups.count()
    wide = student.ppf(0.975, np.maximum(count - 1, 1)) * deviation / np.sqrt(count)
    others = rows.assign(free=rows["cost"] == 0, silent=rows["coverage"] == 0)
    rest = others.groupby(["data", "method"], sort=False)[["threshold", "free", "silent"]].mean()
    return mean.join(wide.add_suffix("_margin")).join(rest)


def claims(table: pd.DataFrame) -> pd.DataFrame:
    """Say of each claim of Section 4.3.2 what the paper has, what is found, and if it holds here.

    A claim about some of the paper's four data sets holds if it does on as many.
    """
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
    ratios = [single[d].cost / emsco[d].cost for d in data if emsco[d].cost > 0]
    faster = 100 * (float(np.mean(ratios)) - 1)
    coverage = 100 * float(np.mean([emsco[d].coverage for d in data]))
    lost = 100 * float(np.mean([1 - emsco[d].accuracy / single[d].accuracy for d in data]))
    rejected = {
        m: 100 * float(np.mean([1 - mean[d].loc[m].coverage for d in data]))
        for m in ("greedy_miser", "cstc")
    }

    def on(found: list[str]) -> str:
        return f"{len(found)} of {len(data)}: {', '.join(found) or 'none'}"

    def answer(holds: bool) -> str:
        return "yes" if holds else "no"

    rows = [
        (
            "lowest mean cost of all",
            "2 of 4: pima, credit",
            on(cheapest),
            answer({"pima", "credit"} & set(data) <= set(cheapest)),
        ),
        ("highest coverage of the budgeted", "4 of 4", on(covering), answer(covering == data)),
        ("accuracy of at least p_hat", "4 of 4", on(accurate), answer(accurate == data)),
        (
            "dominated by none in (g1, g2, g3*)",
            "4 of 4",
            on(undominated),
            answer(undominated == data),
        ),
        ("highest aggregate (Figure 12)", "'strong'", on(best_sum), answer(best_sum == data)),
        ("mean coverage", "93.4%", f"{coverage:.1f}%", answer(coverage >= 93.4)),
        (
            "faster than a single stage (mean ratio of costs - 1)",
            "475%",
            f"{faster:.0f}%",
            answer(faster >= 475),
        ),
        ("accuracy lost against a single stage", "2.72%", f"{lost:.2f}%", answer(lost <= 2.72)),
        (
            "rejected by GreedyMiser* and CSTC*",
            "45.2%, 36.4%",
            f"{rejected['greedy_miser']:.1f}%, {rejected['cstc']:.1f}%",
            answer(rejected["greedy_miser"] >= 45.2 and rejected["cstc"] >= 36.4),
        ),
    ]
    return pd.DataFrame(rows, columns=["claim", "paper", "here", "holds"])


def _dominated(means: pd.DataFrame) -> bool:
    """Tell whether some rival is at least as good as EMSCO in all, and better in one."""
    points = means[["coverage", "accuracy", "cost"]] * [-1, -1, 1]
    own, others = points.loc["emsco"], points.drop(index="emsco")
    return bool(((others <= own).all(axis=1) & (others < own).any(axis=1)).any())


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as people read it: each mean with its margin."""
    shown = [
        {
            "data": data,
            "method": LABELS[method],
            **{m: f"{row[m]:.3f} ± {row[m + '_margin']:.3f}" for m in ("coverage", "accuracy")},
            "cost": f"{row.cost:.1f} ± {row.cost_margin:.1f}",
            "of all": f"{row.cost_share:.0%}",
            "aggregate": f"{row['aggregate']:.3f} ± {row['aggregate_margin']:.3f}",
            "no feature": f"{row.free:.0%}",
            "no answer": f"{row.silent:.0%}",
        }
        for (data, method), row in zip(table.index, (r for _, r in table.iterrows()), strict=True)
    ]
    return pd.DataFrame(shown)


def draw(table: pd.DataFrame, trials: int, path: Path) -> None:
    """Draw a row of bars a data set (Figures 8 to 11), with the aggregate last (Figure 12)."""
    from matplotlib.figure import Figure

    data = list(dict.fromkeys(table.index.get_level_values("data")))
    figure = Figure(figsize=(15, 2.6 * len(data) + 1), layout="constrained")
    axes = figure.subplots(len(data), len(METRICS), squeeze=False)
    colours = {"emsco": "#c0392b", "cegb": "#34618c"}
    for row, name in zip(axes, data, strict=True):
        part = table.loc[name].reindex([m for m in LABELS if m in table.loc[name].index])
        names = [LABELS[method] for method in part.index]
        for axis, metric, title in zip(row, METRICS, TITLES, strict=True):
            axis.bar(
                names,
                part[metric],
                yerr=part[metric + "_margin"].fillna(0.0),
                capsize=3,
                color=[colours.get(method, "#7f8c8d") for method in part.index],
            )
            axis.set_title(f"{name}: {title}", fontsize=10)
            axis.tick_params(axis="x", labelsize=8)
            axis.set_xticks(range(len(names)), names, rotation=35, ha="right")
            axis.set_ylim(0, 3 if metric == "aggregate" else 1.09)
            axis.spines[["top", "right"]].set_visible(False)
            if metric == "accuracy":
                axis.axhline(part.threshold.iloc[0], color="black", linestyle=":", linewidth=1)
    figure.suptitle(
        f"Test records, means with 95% margins over {trials} trials (dotted: p_hat; "
        "blue: not in the paper)"
    )
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials that are missing, then write tables, claims and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("configs", nargs="*", default=CONFIGS, metavar="CONFIG")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument(
        "--tune-by", nargs="+", choices=list(CRITERIA), default=["own", "asking_aggregate"]
    )
    study.add_options(parser, "runs/rivals")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    out = Console(width=None if sys.stdout.isatty() else 120)
    rows = run_missing(options, options.out / "trials.csv", out)
    names = [Path(path).stem for path in options.configs]
    chosen = rows[rows.data.isin(names) & (rows.trial < options.trials)]
    order = {name: i for i, name in enumerate(names)}
    chosen = chosen.sort_values(["data", "trial"], key=lambda c: c.replace(order), kind="stable")
    tables = {
        criterion: margins(chosen[chosen.tuned_by.isin(["", criterion])])
        for criterion in options.tune_by
    }
    for criterion, table in tables.items():
        table.to_csv(options.out / f"table_{criterion}.csv")
    first = tables[options.tune_by[0]]
    shown = {f"tuned_by_{name}": readable(table) for name, table in tables.items()}
    said = claims(first)
    for frame in (*shown.values(), said):
        out.print(frame.to_string(index=False), highlight=False, soft_wrap=True)
    draw(first, options.trials, options.out / "rivals.png")
    report = study.Report(
        "EMSCO against its rivals (Figures 8 to 12)",
        f"Test records, means with 95% margins over {options.trials} trials, each with a split of "
        f"its own; rivals tuned on validation records by: {', then by '.join(options.tune_by)}. no "
        "feature: share of trials in which a method acquires none and always says the same, which "
        "is enough where p_hat is below the share of the most frequent class; no answer: share of "
        "trials in which it is never sure (its accuracy counts as 0). Both are what a criterion "
        "without coverage may prefer; asking_aggregate leaves such cells out.",
        shown,
        said,
        ["rivals.png"],
    )
    study.write(report, options.out)
    study.log(options.out, load_config(options.configs[0]).tracking, "rivals", options)
    return 0


def run_missing(options: argparse.Namespace, file: Path, out: Console) -> pd.DataFrame:
    """Run the trials that ``file`` lacks, adding each to it; return its rows."""
    rows = _rows_of(file, options.tune_by)
    done = set(zip(rows.data, rows.trial, strict=True))
    for path in options.configs:
        name = Path(path).stem
        missing = [
            (path, trial, options.tune_by)
            for trial in range(options.trials)
            if (name, trial) not in done
        ]
        fresh = study.side_by_side(run_trial, missing, options.workers)
        quiet = not sys.stdout.isatty()
        for trial in track(fresh, name, total=len(missing), console=out, disable=quiet):
            rows = pd.concat([rows, trial]) if len(rows) else trial
            part = file.with_suffix(".part")  # whole, whenever it is interrupted
            rows.to_csv(part, index=False)
            part.replace(file)
    return rows


def _rows_of(file: Path, tune_by: Sequence[str]) -> pd.DataFrame:
    """Return the rows of trials that were run before.

    Raises
    ------
    InputError
        Rivals were tuned by other criteria there.
    """
    if not file.is_file():
        return pd.DataFrame({"data": [], "trial": []})
    rows = pd.read_csv(file, keep_default_na=False)
    found = [name for name in dict.fromkeys(rows.get("tuned_by", ["unknown"])) if name]
    if set(found) != set(tune_by):
        raise InputError(
            f"--out: expected rivals tuned by {', '.join(tune_by)}, found {', '.join(found)} in "
            f"{file}; take another --out"
        )
    return rows


if __name__ == "__main__":
    sys.exit(study.run(main))
