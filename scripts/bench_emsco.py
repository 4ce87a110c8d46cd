"""Generations of EMSCO a second: ``python scripts/bench.py emsco``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.bit_planes import pack
from algorithms.multistage.data import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.problem import MultiStageProblem
from framework.arrays import Array
from framework.experiment.config import RunConfig, load_config
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import run_single
from framework.roles import Objective, Roles
from framework.run.driver import search as run
from framework.run.evaluator import Evaluator, SerialEvaluator
from framework.settings import Budget

POPULATION = 300
COSTS = [2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2]
OBJECTIVES = [Objective("coverage", "max"), Objective("accuracy", "max"), Objective("cost", "min")]


def bench_emsco(args: argparse.Namespace) -> None:
    os.environ["PARETOLAB_CACHE"] = "off"
    source = credit_source()

    def make() -> MultiStageProblem:
        return MultiStageProblem.from_config(credit_config(source))

    search(make(), SerialEvaluator, 5)  # compile
    rows: list[tuple[str, float, str]] = []

    cold_seconds, problem = fastest(args.repeats, lambda: search_new(make, args.generations))
    warm_seconds, _ = fastest(
        args.repeats, lambda: (search(problem, SerialEvaluator, args.generations), None)
    )
    baseline = plain_loop(make())
    cold, warm = args.generations / cold_seconds, args.generations / warm_seconds
    parts = f"{problem.n_components:,} sub-classifiers"
    rows.append(("scikit-learn loop, trained per chromosome, no cache", baseline, "baseline"))
    rows.append((f"serial, cold cache ({parts} trained)", cold, ""))
    rows.append(("serial, warm cache", warm, ""))
    if not args.no_ray:
        rows += ray_rows(make, args)
    show(f"EMSCO, population {POPULATION}, {source_text(source)}", rows, baseline)
    training_row(make(), args.repeats)
    if not args.no_mlflow:
        mlflow_rows(source, args.generations)


def credit_source() -> dict[str, Any]:
    """Return the data set: the real one where it is there, else one of its shape."""
    folder = os.environ.get("PARETOLAB_DATA")
    if folder and (Path(folder) / "australian.csv").is_file():
        return {"name": "australian"}
    return {"synthetic": {"samples": 690, "features": 14, "informative": 8, "classes": 2}}


def source_text(source: dict[str, Any]) -> str:
    return "credit data, k = 4" if "name" in source else "synthetic data of the credit data's shape"


def credit_config(source: dict[str, Any]) -> MultiStageConfig:
    costs = {"classes": COSTS, "factor": 10}
    return MultiStageConfig.model_validate(
        {"dataset": source, "costs": costs, "threshold": 0.75, "max_stages": 4}
    )


def search(
    problem: MultiStageProblem, evaluator: Callable[[MultiStageProblem], Evaluator], n: int
) -> float:
    """Run EMSCO for ``n`` generations; return the seconds it took (of CPU where it is serial)."""
    roles = Roles(problem.metrics, OBJECTIVES)
    algorithm = EMSCO(problem, roles, seed=0, population=POPULATION, beta=2.5)
    used = evaluator(problem)
    clock = time.process_time if isinstance(used, SerialEvaluator) else time.perf_counter
    start = clock()
    run(problem, algorithm, used, budget=Budget(generations=n))
    seconds = clock() - start
    used.close()
    return seconds


def search_new(make: Callable[[], MultiStageProblem], n: int) -> tuple[float, MultiStageProblem]:
    problem = make()
    return search(problem, SerialEvaluator, n), problem


def fastest(repeats: int, measure: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
    return min((measure() for _ in range(repeats)), key=lambda pair: pair[0])


def plain_loop(problem: MultiStageProblem, chromosomes: int = 60) -> float:
    """Return the generations per second of the obvious program, with scikit-learn's defaults.

    For each child it trains a LogisticRegression a stage and passes the validation records on.
    Only evaluation is timed (a generation is 240 children at the least elite share), on children
    of a real run, so the figure flatters the loop.
    """
    children = late_children(problem, chromosomes)
    start = time.process_time()
    for x in children:
        plain_evaluation(problem, x)
    seconds = (time.process_time() - start) / chromosomes
    return 1.0 / (seconds * 0.8 * POPULATION)


def late_children(problem: MultiStageProblem, n: int) -> Array:
    """Return children that EMSCO asks for after 20 generations."""
    algorithm = EMSCO(problem, Roles(problem.metrics, OBJECTIVES), seed=0, beta=2.5)
    evaluator = SerialEvaluator(problem)
    first = 0
    for _ in range(20):
        X = algorithm.ask()
        assert X is not None
        evaluator.submit(np.arange(first, first + len(X)), X)
        algorithm.tell(evaluator.collect()[0])
        first += len(X)
    X = algorithm.ask()
    assert X is not None
    return X[:n]


def plain_evaluation(problem: MultiStageProblem, x: Array) -> tuple[float, float, float]:
    """Return coverage, accuracy and cost of one chromosome, as the paper describes it."""
    data = problem.data
    n = data.n_validation
    X_train, X = data.design.T, data.held.T[:n]
    waiting = np.ones(n, dtype=bool)
    right = cost = 0
    for stage in range(int(x.max()) + 1):
        columns = np.flatnonzero(x <= stage)
        model = LogisticRegression().fit(X_train[:, columns], data.y)
        cost += int(problem.costs[x == stage].sum()) * int(waiting.sum())
        P = model.predict_proba(X[:, columns])
        leaving = waiting & (P.max(axis=1) >= data.thresholds[0])
        right += int((P.argmax(axis=1)[leaving] == data.y_held[:n][leaving]).sum())
        waiting &= ~leaving
    answered = n - int(waiting.sum())
    return answered / n, right / max(answered, 1), cost / n / problem.cost_scale


def ray_rows(
    make: Callable[[], MultiStageProblem], args: argparse.Namespace
) -> Iterator[tuple[str, float, str]]:
    from framework.parallel.cluster import cluster
    from framework.parallel.ray_evaluator import RayEvaluator

    start = time.perf_counter()
    with cluster(None, None) as joined:

        def on_ray(problem: MultiStageProblem) -> Evaluator:
            return RayEvaluator(problem, 0, workers=joined.workers)

        search(make(), on_ray, 5)  # actors' first compilation
        ready = time.perf_counter() - start
        problem = make()
        seconds = search(problem, on_ray, args.generations)
        note = f"Ray ready after {ready:.1f} s"
        yield f"Ray, {joined.workers} workers, cold cache", args.generations / seconds, note
        seconds = search(problem, on_ray, args.generations)
        yield f"Ray, {joined.workers} workers, warm cache", args.generations / seconds, ""


def training_row(problem: MultiStageProblem, repeats: int) -> None:
    """Print fits per second on random feature sets, ours and scikit-learn's."""
    rng = np.random.default_rng(0)
    masks = rng.random((2000, 14)) < 0.5
    masks[:, 0] |= ~masks.any(axis=1)
    keys = np.array([pack(mask) for mask in masks])
    data, some = problem.data, masks[:100]

    def scikit_learn(solver: str, tol: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for mask in some:
                model = LogisticRegression(solver=solver, tol=tol, max_iter=1000)
                model.fit(data.design.T[:, mask], data.y).predict_proba(data.held.T[:, mask])

    def rate(train: Callable[[], object], n: int) -> float:
        best = np.inf
        for _ in range(repeats):
            start = time.process_time()
            train()
            best = min(best, time.process_time() - start)
        return n / best

    ours = rate(lambda: problem.build_components(keys), len(keys))
    solvers = (("lbfgs", 1e-4), ("newton-cholesky", 1e-10))
    rates = {
        f"scikit-learn {solver}, tol {tol:g}": rate(partial(scikit_learn, solver, tol), len(some))
        for solver, tol in solvers
    }
    table = Table(title="Sub-classifiers (fit and predict), a second", title_justify="left")
    table.add_column("trainer")
    table.add_column("fits/s", justify="right")
    table.add_column("ours is", justify="right")
    for name, theirs in rates.items():
        table.add_row(name, f"{theirs:,.0f}", f"{ours / theirs:,.0f} x")
    table.add_row("batched Newton, gradient < 1e-9", f"{ours:,.0f}", "")
    Console(width=100).print(table)


def mlflow_rows(source: dict[str, Any], generations: int) -> None:
    """Print what logging costs a run: the search itself, and the wait at its end."""
    from tracking.mlflow_log.tracker import MlflowTracker

    title = "MLflow (a run in its directory, warm cache; logging is a process of its own)"
    table = Table(title=title, title_justify="left")
    table.add_column("generations", justify="right")
    for name in ("search without", "with", "driver's CPU without", "with", "logging CPU", "wait"):
        table.add_column(name, justify="right")
    problem = MultiStageProblem.from_config(credit_config(source))
    for n in (generations, 10 * generations):
        with workplace() as place:
            config = run_config(place, source, n)
            tracked_run(config, problem, place / "warm", None)
            plain = tracked_run(config, problem, place / "plain", None)
            run_dir = RunDir(place / "logged")
            tracker = MlflowTracker(run_dir, f"sqlite:///{place}/mlflow.db", "bench")
            logged = tracked_run(config, problem, run_dir.path, tracker)
            table.add_row(
                f"{n:,}",
                f"{plain.wall:.2f} s",
                f"{logged.wall:.2f} s",
                f"{plain.cpu:.2f} s",
                f"{logged.cpu:.2f} s",
                f"{logged.children:.1f} s",
                f"{logged.finish:.1f} s",
            )
    Console(width=120).print(table)


class Cost(NamedTuple):
    """Seconds of a run: its search by the clock and on the CPU, then logging's CPU and the wait."""

    wall: float
    cpu: float
    children: float
    finish: float


def run_config(place: Path, source: dict[str, Any], n: int) -> RunConfig:
    file = place / "bench.yaml"
    objectives = [{"metric": o.metric, "sense": o.sense} for o in OBJECTIVES]
    section = credit_config(source).model_dump(mode="json", exclude_none=True)
    raw = {
        "name": "bench",
        "problem": {"kind": "multistage", **section},
        "objectives": objectives,
        "algorithm": {"kind": "emsco", "population": POPULATION, "beta": 2.5},
        "budget": {"generations": n},
        "workers": "serial",
    }
    import yaml

    file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return load_config(file)


def tracked_run(config: RunConfig, problem: MultiStageProblem, path: Path, tracker: Any) -> Cost:
    """Run a trial in a directory, logged by ``tracker`` if there is one."""
    path.mkdir(exist_ok=True)
    callbacks = [] if tracker is None else [tracker]
    children = os.times()
    start, cpu = time.perf_counter(), time.process_time()
    run_single(config, problem, RunDir(path), SerialEvaluator(problem), callbacks=callbacks)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    if tracker is not None:
        outcome = tracker.finish()
        if not outcome.logged:
            print(outcome.text, file=sys.stderr)
    after = os.times()
    used = after.children_user + after.children_system
    used -= children.children_user + children.children_system
    return Cost(wall, cpu, used, time.perf_counter() - start - wall)


@contextmanager
def workplace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def show(title: str, rows: list[tuple[str, float, str]], baseline: float) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("evaluation")
    table.add_column("generations/s", justify="right")
    table.add_column("times the baseline", justify="right")
    table.add_column("")
    for name, rate, note in rows:
        digits = 3 if rate < 10 else 0
        table.add_row(name, f"{rate:,.{digits}f}", f"{rate / baseline:,.0f}", note)
    Console(width=120).print(table)
