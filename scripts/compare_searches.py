"""The searches compared: which finds most of an exact front at equal evaluations?

    python scripts/compare_searches.py [CONFIG ...] [--splits 10 11 12] [--evaluations N]
                                       [--seeds N] [--searches ...] [--workers N] [--out DIR]

For each CONFIG (default: heart, pima and credit of configs/emsco, at most 4 stages) and each split
the exact front is found, and every search runs with the same seeds and evaluations, each with its
own defaults, EMSCO with the paper's parameters (those of CONFIG), emsco_memetic with half of the
children made by local search besides (algorithm.memetic: 0.5), NSGA-II, NSGA-III and SMS-EMOA
with EMSCO's operators and their rates. A problem's directory in OUT gets the table, tests and
figures of `paretolab compare`; over all problems there are a table, mean ranks and a
critical-difference diagram with a problem as a block. Finished searches are not run again.

The paper compares EMSCO with no other search.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import study

from framework.analysis.indicators import indicators
from framework.analysis.rank_tests import RankTests, rank_tests
from framework.cli.compare import write
from framework.errors import InputError
from framework.experiment.comparison import compare
from framework.experiment.config import RunConfig, load_config, read_yaml
from framework.experiment.repeats import run_repeats
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem, make_roles

CONFIGS = [f"configs/emsco/{name}.yaml" for name in ("heart", "pima", "credit")]
SPLITS = (10, 11, 12)  # nothing was tuned on them
SEARCHES = ("emsco", "emsco_memetic", "local_search", "nsga2", "nsga3", "sms_emoa", "random")
OPERATORS = ("population", "mutation_rate", "crossover_rate", "beta")  # EMSCO's and the peers'
MEMETIC = 0.5  # of 0.25, 0.5 and 0.75 on splits 0 and 1
SHOWN = ("distinct", "share", "hypervolume", "igd_plus")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the searches that are missing, then compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("configs", nargs="*", default=CONFIGS, metavar="CONFIG")
    parser.add_argument("--splits", type=int, nargs="+", default=list(SPLITS), metavar="SEED")
    parser.add_argument("--evaluations", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    study.add_options(parser, "runs/searches")
    options = parser.parse_args(arguments)
    problems = [(path, split) for path in options.configs for split in options.splits]
    tasks = [
        (path, split, kind, options)
        for path, split in problems
        for kind in ("exact", *options.searches)
    ]
    for line in study.side_by_side(searched, tasks, options.workers):
        print(line, flush=True)
    frames = [compared(path, split, options) for path, split in problems]
    report(pd.concat(frames), options)
    return 0


def searched(path: str, split: int, kind: str, options: argparse.Namespace) -> str:
    """Run a search with each seed, or what is left of it; say how it went.

    Of a finished trial the front and the summary stay; its journal, ten megabytes, goes.
    """
    config = configured(path, split, kind, options)
    run_dir = RunDir(place(path, split, options) / kind)
    if not finished(run_dir, config):
        run_dir.path.mkdir(parents=True, exist_ok=True)
        problem = make_problem(config)
        run_dir.write_config(config)
        run_dir.write_about(problem, make_roles(config, problem))
        run_repeats(config, problem, run_dir, address=None, report=lambda line: None)
    for trial in run_dir.children():
        for file in trial.path.glob(f"{trial.journal_file.name}*"):
            file.unlink()
    summary = run_dir.summary()
    volume = summary["indicators"]["hypervolume"]
    return f"{run_dir.path}: {summary['evaluations']:,} evaluations, hypervolume {volume:.4f}"


def finished(run_dir: RunDir, config: RunConfig) -> bool:
    """Tell whether all repeats of a search are done; more may be asked for than were.

    Raises
    ------
    InputError
        They were run with other settings.
    """
    if not run_dir.config_file.is_file():
        return False
    if run_dir.config().model_copy(update={"repeats": config.repeats}) != config:
        raise InputError(
            f"--out: expected runs with the same settings, found others in {run_dir.path}; "
            "take another --out"
        )
    summary = run_dir.summary()
    return summary.get("status") == "done" and summary["repeats"] >= config.repeats


def place(path: str, split: int, options: argparse.Namespace) -> Path:
    """Return the directory of a problem."""
    return Path(options.out) / f"{Path(path).stem}-split{split}"


def configured(path: str, split: int, kind: str, options: argparse.Namespace) -> RunConfig:
    """Return the configuration of one search: that of CONFIG but for split, algorithm and budget.

    All spend the whole budget, so that no search may end by convergence.
    """
    given = read_yaml(Path(path)).get("algorithm", {})
    takes: dict[str, dict[str, Any]] = {"random": {}, "local_search": {}, "exact": {}}
    takes |= {"emsco": given, "emsco_memetic": {**given, "memetic": MEMETIC}}
    own = takes.get(kind, {key: value for key, value in given.items() if key in OPERATORS})
    algorithm: dict[str, Any] = {**own, "kind": kind.removesuffix("_memetic")}
    algorithm.pop("convergence", None)
    exact = kind == "exact"
    return load_config(
        path,
        [*options.set, f"problem.split.seed={split}"],
        algorithm=algorithm,
        budget={"generations": 1} if exact else {"evaluations": options.evaluations},
        repeats=1 if exact else options.seeds,
        workers="serial",
    )


def compared(path: str, split: int, options: argparse.Namespace) -> pd.DataFrame:
    """Write a problem's comparison; return a row a search with its means over seeds."""
    home = place(path, split, options)
    exact = RunDir(home / "exact").children()[0]
    comparison = compare([home / kind for kind in options.searches], exact.front_file)
    write(comparison, home)
    means = comparison.frame.groupby("algorithm", sort=False)[[*SHOWN, "seconds"]].mean()
    volume = exact.summary()["indicators"]["hypervolume"]
    means["hypervolume"] /= volume
    means.insert(0, "problem", home.name)
    means.insert(1, "exact_front", len(comparison.reference))
    return means.reset_index().rename(columns={"algorithm": "search"})


def report(rows: pd.DataFrame, options: argparse.Namespace) -> None:
    """Write tables, page and diagram over all problems."""
    overall = rows.groupby("search", sort=False)[[*SHOWN, "seconds"]].mean()
    tests: dict[str, RankTests] = {}
    if rows["problem"].nunique() > 1 and len(overall) > 1:
        for name, indicator in indicators().items():
            table = rows.pivot(index="problem", columns="search", values=name)
            values = table[overall.index].to_numpy(dtype=np.float64)
            tests[name] = rank_tests(values if indicator.better == "low" else -values)
            overall[f"{name}_rank"] = tests[name].ranks
    figures = ["searches.png"]
    draw(rows, options.out / "searches.png")
    if tests:
        from tracking.figures.critical_difference import rank_diagrams

        titles = {n: f"{i.label}, means over seeds" for n, i in indicators().items()}
        diagram = rank_diagrams(list(overall.index), tests, titles, blocks="problems")
        diagram.savefig(options.out / "ranks.png", dpi=130)
        figures.append("ranks.png")
    text = (
        f"{options.evaluations:,} evaluations, {options.seeds} seeds a problem. distinct: how many "
        "different candidates were evaluated; share: of the exact front's vectors found; "
        "hypervolume: as a share of the exact front's; seconds: a run's; ranks: over problems, "
        "1 the best."
    )
    page = study.Report(
        "The searches compared",
        text,
        {"overall": overall.reset_index(), "problems": rows},
        None,
        figures,
    )
    study.write(page, options.out)
    print((options.out / study.PAGE).read_text(encoding="utf-8"))
    study.log(options.out, load_config(options.configs[0]).tracking, "compare_searches", options)


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw the share of the exact front and of its hypervolume: a point a problem and search."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 1.2 + 0.4 * rows["problem"].nunique()), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    problems = list(rows["problem"].unique())
    for axis, name, label in zip(
        panels,
        ("share", "hypervolume"),
        ("share of the exact front's vectors found", "share of its hypervolume"),
        strict=True,
    ):
        for kind, part in rows.groupby("search", sort=False):
            y = [problems.index(problem) for problem in part["problem"]]
            axis.plot(part[name], y, "o", label=kind, alpha=0.8, markersize=7)
        axis.set_xlabel(f"{label}, mean over seeds")
        axis.grid(color="#e5e7eb", linewidth=0.7)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(problems)), problems)
    panels[0].set_ylim(len(problems) - 0.5, -0.5)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False
    )
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    raise SystemExit(study.run(main))
