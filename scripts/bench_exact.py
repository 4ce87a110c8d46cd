"""Exact fronts of multi-stage classifiers: ``python scripts/bench.py multistage``."""

from __future__ import annotations

import argparse
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_emsco import COSTS, OBJECTIVES, credit_source, fastest
from rich.console import Console
from rich.table import Table

from algorithms.multistage.data import MultiStageConfig
from algorithms.multistage.exact.search import Exact
from algorithms.multistage.problem import MultiStageProblem
from framework.roles import Roles

HEART_COSTS = [1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 1]


class ExactCase(NamedTuple):
    """A set of the paper, the most stages, and the CPU seconds of a prototype to compare with."""

    name: str
    source: dict[str, Any]
    costs: list[int]
    stages: int
    floor: float


def exact_cases() -> Iterator[ExactCase]:
    heart: dict[str, Any] = {
        "synthetic": {"samples": 299, "features": 12, "informative": 6, "classes": 2}
    }
    folder = os.environ.get("PARETOLAB_DATA")
    if folder and (Path(folder) / "heart_failure.csv").is_file():
        heart = {"name": "heart_failure"}
    for k, floor in ((4, 0.058), (12, 2.3)):
        yield ExactCase("heart", heart, HEART_COSTS, k, floor)
    for k, floor in ((4, 1.26), (14, 61.0)):
        yield ExactCase("credit", credit_source(), COSTS, k, floor)


def bench_multistage(args: argparse.Namespace) -> None:
    """Print what exact fronts take, beside a loop over candidates in numpy on the same bits."""
    os.environ["PARETOLAB_CACHE"] = "off"
    table = Table(title="Exact fronts, one core, sub-classifiers trained", title_justify="left")
    for name in (
        "data",
        "k",
        "method",
        "candidates",
        "front",
        "CPU s",
        "ns each",
        "prototype's s",
        "times a numpy loop",
    ):
        table.add_column(name, justify="right")
    for case in exact_cases():
        problem = exact_problem(case)
        loop = numpy_loop(problem)

        def search(problem: MultiStageProblem = problem) -> Any:
            algorithm = Exact(problem, Roles(problem.metrics, OBJECTIVES), seed=0)
            pickle.dumps(algorithm)  # makes it look at the sub-classifiers
            start = time.process_time()
            X = algorithm.ask()
            assert X is not None
            return time.process_time() - start, (algorithm.method, len(X))

        search()  # compile
        seconds, (method, front) = fastest(args.repeats, search)
        each = seconds / problem.space.size * 1e9
        table.add_row(
            case.name if "name" in case.source else f"like {case.name}",
            str(case.stages),
            method,
            f"{problem.space.size:,}",
            str(front),
            f"{seconds:.3f}",
            f"{each:.2g}",
            f"{case.floor:g}",
            f"{loop / each:,.0f}",
        )
    Console(width=130).print(table)


def exact_problem(case: ExactCase) -> MultiStageProblem:
    section = {
        "dataset": case.source,
        "costs": {"classes": case.costs, "factor": 10},
        "threshold": 0.75,
        "max_stages": case.stages,
    }
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(section))


def numpy_loop(problem: MultiStageProblem, candidates: int = 1000) -> float:
    """Return the nanoseconds a candidate of a loop over candidates with boolean vectors."""
    tables, weights = problem.stage_tables(), 1 << np.arange(problem.space.n)
    sure, right = (
        np.unpackbits(rows.view(np.uint8), axis=1, count=tables.records, bitorder="little") == 1
        for rows in (tables.conclusive, tables.right)
    )
    X = problem.space.sample(np.random.default_rng(0), candidates)
    start = time.process_time()
    for x in X:
        waiting = np.ones(tables.records, dtype=bool)
        answered = good = cost = 0
        for stage in range(int(x.max()) + 1):
            held = int(weights[x <= stage].sum())
            cost += int(problem.costs[x == stage].sum()) * int(waiting.sum())
            answered += int((waiting & sure[held]).sum())
            good += int((waiting & right[held]).sum())
            waiting &= ~sure[held]
    return (time.process_time() - start) / candidates * 1e9
