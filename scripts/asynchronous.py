"""What a max_pending costs in quality: each search in generations and with several L, paired seeds.

``python scripts/asynchronous.py --data DIR --seeds 4`` prints tables of the share of the reference
front that runs find (the exact front where the exact search reaches it, else the front of all runs
together) and of their hypervolume. Libraries are made up, in memory; nothing is written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.ensembling.problem import EnsembleProblem
from algorithms.pruning.problem import PruningProblem
from framework import registry
from framework.arrays import FloatArray
from framework.experiment.config import load_config
from framework.experiment.single_run import make_problem
from framework.front import volume
from framework.libraries.library import Library
from framework.pareto import nondominated
from framework.problem import Problem
from framework.problems.functions import FunctionProblem
from framework.roles import Objective, Roles
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget

CONFIGS = Path(__file__).parents[1] / "configs"


def stages(name: str) -> tuple[Problem, Roles]:
    """Return the multi-stage problem of a shipped configuration."""
    config = load_config(CONFIGS / f"emsco/{name}.yaml")
    problem = make_problem(config)
    return problem, Roles(problem.metrics, config.objective_roles(), config.constraint_roles())


def library(k: int, n: int = 400) -> Library:
    """Return a library of made-up models of two classes."""
    sys.path.insert(0, str(CONFIGS.parent))
    from tests.made_up_libraries import made_up

    return made_up(k, n, n)


def every_metric(problem: Problem, *names: str) -> tuple[Problem, Roles]:
    """Return a problem with these metrics (all if none) as objectives, in their own sense."""
    chosen = [m for m in problem.metrics if not names or m.name in names]
    return problem, Roles(problem.metrics, [Objective(m.name, m.sense) for m in chosen])


FAMILIES: dict[str, tuple[Callable[[], tuple[Problem, Roles]], dict[str, dict[str, Any]], int]] = {
    "heart": (
        lambda: stages("heart"),
        {"emsco": {}, "nsga2": {}, "local_search": {"neighbours": 10}},
        30_000,
    ),
    "pima": (
        lambda: stages("pima"),
        {"emsco": {}, "nsga2": {}, "local_search": {"neighbours": 10}},
        10_000,
    ),
    "credit": (
        lambda: stages("credit"),
        {"emsco": {}, "nsga2": {}, "local_search": {"neighbours": 10}},
        30_000,
    ),
    "ensemble, 60 models": (
        lambda: every_metric(EnsembleProblem(library(60)), "roc_auc", "inference_time", "memory"),
        {"pareto_es": {}, "hapens": {}, "qo_es": {}, "nsga2": {}, "local_search": {}},
        10_000,
    ),
    "pruning, 40 classifiers": (
        lambda: every_metric(
            PruningProblem(library(40)), "true_positive_rate", "true_negative_rate"
        ),
        {"nsga2": {"population": 100}, "local_search": {}},
        5_000,
    ),
    "zejd1": (
        lambda: every_metric(FunctionProblem("zejd1")),
        {"fch_emoa": {}},
        10_000,
    ),
    "zdt1": (
        lambda: every_metric(FunctionProblem("zdt1", 30)),
        {"nsga2": {"population": 100}},
        10_000,
    ),
    "dtlz2": (
        lambda: every_metric(FunctionProblem("dtlz2", 12)),
        {"nsga2": {"population": 100}, "nsga3": {"population": 100}},
        10_000,
    ),
}


def exact_front(problem: Problem, roles: Roles) -> FloatArray | None:
    """Return the losses of the exact front of a small multi-stage problem; None for others."""
    if problem.space.d > 11 or not hasattr(problem, "n_components") or not problem.has_components:
        return None
    exact = registry.load("algorithms", "exact")(problem, roles, seed=0)
    return run(problem, exact, SerialEvaluator(problem), budget=Budget(generations=1)).losses


def measure(args: argparse.Namespace) -> None:
    """Write a line of JSON for each run: family, search, max_pending, seed, front."""
    for family, (make, searches, rows) in FAMILIES.items():
        if args.only and not any(word in family for word in args.only.split(",")):
            continue
        problem, roles = make()
        for seed in range(args.seeds):
            for name, parameters in searches.items():
                for L in (None, *args.max_pending):
                    cls = registry.load("algorithms", name)
                    search = cls(problem, roles, seed=seed, max_pending=L, **parameters)
                    begun = time.process_time()
                    budget = Budget(evaluations=rows)
                    front = run(problem, search, SerialEvaluator(problem, seed), budget=budget)
                    row = {
                        "family": family,
                        "rows": rows,
                        "search": name,
                        "max_pending": L,
                        "seed": seed,
                        "seconds": time.process_time() - begun,
                        "hypervolume": volume(front.losses, roles),
                        "front": front.losses.tolist(),
                    }
                    print(json.dumps(row), flush=True)
        exact = exact_front(problem, roles) if args.exact else None
        if exact is not None:
            print(json.dumps({"family": family, "exact": exact.tolist()}), flush=True)


def tables(path: Path) -> None:
    """Print Markdown tables of what :func:`measure` wrote."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    exact = {line["family"]: np.array(line["exact"]) for line in lines if "exact" in line}
    runs = [line for line in lines if "exact" not in line]

    @cache
    def reference(family: str) -> FloatArray:
        if family in exact:
            return exact[family]
        everything = np.concatenate([np.array(r["front"]) for r in runs if r["family"] == family])
        return everything[nondominated(everything)]

    def share(line: dict[str, Any]) -> float:
        found = {tuple(row) for row in np.round(line["front"], 12).tolist()}
        wanted = np.round(reference(line["family"]), 12).tolist()
        return sum(tuple(row) in found for row in wanted) / len(wanted)

    for title, of in (("share", share), ("hypervolume", lambda line: float(line["hypervolume"]))):
        columns = sorted({r["max_pending"] or 0 for r in runs})
        heads = ["generations" if L == 0 else str(L) for L in columns]
        print(f"\n| {title} | rows | seeds | {' | '.join(heads)} |\n|{'---|' * (len(columns) + 3)}")
        for family in dict.fromkeys(r["family"] for r in runs):
            for name in dict.fromkeys(r["search"] for r in runs if r["family"] == family):
                mine = [r for r in runs if (r["family"], r["search"]) == (family, name)]
                cells = []
                for L in columns:
                    values = [of(r) for r in mine if (r["max_pending"] or 0) == L]
                    cells.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else "")
                seeds = len({r["seed"] for r in mine})
                print(f"| {family}, {name} | {mine[0]['rows']:,} | {seeds} | {' | '.join(cells)} |")


def main() -> None:
    """Measure, or print the tables of a file of measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", help="folder of the data sets (PARETOLAB_DATA)")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", help="families whose names contain one of these words")
    parser.add_argument("--max_pending", type=int, nargs="+", default=[1, 16, 64, 256, 1024])
    parser.add_argument("--exact", action="store_true", help="exact fronts where they can be had")
    parser.add_argument("--tables", type=Path, help="file of measurements to print")
    args = parser.parse_args()
    if args.data:
        os.environ["PARETOLAB_DATA"] = args.data
    if args.tables:
        tables(args.tables)
    else:
        measure(args)


if __name__ == "__main__":
    main()
