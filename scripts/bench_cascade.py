"""Speed of exact cascades: ``python scripts/bench.py cascade``."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench import fastest, print_table

from algorithms.cascade.exact import ExactCascades
from algorithms.cascade.problem import CascadeProblem
from framework.libraries.call_files import read_calls
from framework.libraries.calls import CallTable
from framework.roles import Objective, Roles

MODELS = 5
CASES = (
    ("the whole front, raw outcomes", "raw", "whole", 300),
    ("the hull, raw outcomes", "raw", "hull", 2000),
    ("the hull, calibrated outcomes", "calibrated", "hull", 2000),
)


def bench_cascade(args: argparse.Namespace) -> None:
    """Print the CPU seconds of every chain of five models."""
    table = made_up(2000) if args.table is None else read_calls(Path(args.table))
    rows = []
    for text, outcomes, front, records in CASES:
        drawn = np.random.default_rng(0).permutation(table.n)[:records]
        calls = table.take(drawn).only(table.ids[:MODELS])
        solve(calls, outcomes, front, 2)  # compile
        seconds, found = fastest(args.repeats, partial(solve, calls, outcomes, front, MODELS))
        rows.append((text, f"{calls.n:,}", f"{found:,}", f"{seconds:.2f}"))
    heads = ("what", "records", "cascades on it", "CPU seconds")
    print_table(f"{table.name}: all chains of {MODELS} models", heads, rows, left=1)


def made_up(n: int) -> CallTable:
    """Return five models of rising skill and price; no two confidences of one are equal."""
    rng = np.random.default_rng(0)
    skill = np.linspace(0.3, 2.0, MODELS)[:, None]
    margin = skill + rng.normal(size=(MODELS, n)) + rng.normal(size=n)
    costs = 4.0 ** np.arange(MODELS)[:, None] * rng.integers(50, 500, size=n)
    names = [f"m{i}" for i in range(MODELS)]
    made = {"cost": costs / 1e6}
    return CallTable.from_arrays(names, margin > 0, np.abs(margin), made, name="made up")


def solve(calls: CallTable, outcomes: Any, front: Any, models: int) -> tuple[float, int]:
    """Return the CPU seconds of a search, calibration and all, and the cascades it returns."""
    begun = time.process_time()
    problem = CascadeProblem(calls)
    roles = Roles(problem.metrics, [Objective("accuracy", "max"), Objective("cost", "min")])
    search = ExactCascades(
        problem, roles, seed=0, outcomes=outcomes, front=front, max_models=models
    )
    found = len(search.best())
    return time.process_time() - begun, found
