"""Speed of multi-stage classifiers: EMSCO, exact fronts, and how cost grows with sizes.

``python scripts/bench.py emsco``: generations a second, beside a loop with scikit-learn.
``python scripts/bench.py multistage``: exact fronts, beside a loop over candidates in numpy.
``python scripts/bench.py resampling``: what to expect of 50,000 designs, by 500 resamples.
``python scripts/bench.py scaling``: cost as features, records and population grow. Sub-classifiers
are made up (evidence of the features, added) and stored before the clock starts, so that only the
search is timed: proposing, scoring, ranking, the archive.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench import fastest, print_table, rate
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.bit_planes import features_of, pack
from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.exact.search import Exact
from algorithms.multistage.problem import MultiStageProblem
from algorithms.multistage.records import FeatureCosts, Source, StageData
from framework.analysis.choose import choose
from framework.analysis.expectations import Resamples, Rule, expect
from framework.analysis.front_expectations import expect_front
from framework.arrays import Array, WordArray
from framework.batch import Evaluated
from framework.components import Components
from framework.experiment.config import RunConfig, check_config
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import run_single
from framework.front import Front
from framework.roles import Objective, Roles
from framework.run.driver import Callback, Progress
from framework.run.driver import search as run
from framework.run.evaluator import Evaluator, SerialEvaluator
from framework.settings import Budget

POPULATION = 300
COSTS = [2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2]
OBJECTIVES = [Objective("coverage", "max"), Objective("accuracy", "max"), Objective("cost", "min")]


class Count(Callback):
    """Keeps the last progress."""

    last = Progress()

    def on_batch(self, progress: Progress) -> None:
        self.last = progress


def search(
    problem: MultiStageProblem,
    population: int,
    generations: int,
    make_evaluator: Callable[[MultiStageProblem], Evaluator] = SerialEvaluator,
    beta: float = 2.5,
) -> tuple[float, Progress]:
    """Return the seconds of an EMSCO run (of CPU where it is serial), and how it ended."""
    roles = Roles(problem.metrics, OBJECTIVES)
    algorithm = EMSCO(problem, roles, seed=0, population=population, beta=beta)
    count, evaluator = Count(), make_evaluator(problem)
    clock = time.process_time if isinstance(evaluator, SerialEvaluator) else time.perf_counter
    start = clock()
    run(problem, algorithm, evaluator, budget=Budget(generations=generations), callbacks=[count])
    seconds = clock() - start
    evaluator.close()
    return seconds, count.last


# --- EMSCO ------------------------------------------------------------------------------------


def bench_emsco(args: argparse.Namespace) -> None:
    """Print generations a second, sub-classifiers a second, and what logging costs."""
    os.environ["PARETOLAB_CACHE"] = "off"
    source, n = credit_source(), args.generations

    def make() -> MultiStageProblem:
        return MultiStageProblem.from_config(stages_config(source, COSTS, 4))

    def cold() -> tuple[float, MultiStageProblem]:
        problem = make()
        return search(problem, POPULATION, n)[0], problem

    search(make(), POPULATION, 5)  # compile
    cold_seconds, problem = fastest(args.repeats, cold)
    warm_seconds, _ = fastest(args.repeats, lambda: search(problem, POPULATION, n))
    baseline = plain_loop(make())
    rows = [
        ("scikit-learn loop, trained per chromosome, no cache", baseline, "baseline"),
        (f"serial, cold cache ({problem.n_components:,} trained)", n / cold_seconds, ""),
        ("serial, warm cache", n / warm_seconds, ""),
    ]
    if not args.no_ray:
        rows += ray_rows(make, n)
    print_table(
        f"EMSCO, population {POPULATION}, {source_text(source)}",
        ("evaluation", "generations/s", "times the baseline", ""),
        (
            (name, f"{speed:,.{3 if speed < 10 else 0}f}", f"{speed / baseline:,.0f}", note)
            for name, speed, note in rows
        ),
        left=1,
    )
    print_training_rates(make(), args.repeats)
    if not args.no_mlflow:
        print_cost_of_logging(source, n)


def credit_source() -> dict[str, Any]:
    """Return the data set: the real one where it is there, else one of its shape."""
    folder = os.environ.get("PARETOLAB_DATA")
    if folder and (Path(folder) / "australian.csv").is_file():
        return {"name": "australian"}
    return {"synthetic": {"samples": 690, "features": 14, "informative": 8, "classes": 2}}


def source_text(source: dict[str, Any]) -> str:
    return "credit data, k = 4" if "name" in source else "synthetic data of the credit data's shape"


def stages_config(source: dict[str, Any], costs: list[int], stages: int) -> MultiStageConfig:
    """Return the problem of a data set as in the paper, with so many stages at most."""
    section = {
        "dataset": source,
        "costs": {"classes": costs, "factor": 10},
        "threshold": 0.75,
        "max_stages": stages,
        "measure": {"kind": "holdout"},
    }
    return MultiStageConfig.model_validate(section)


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
    make: Callable[[], MultiStageProblem], generations: int
) -> Iterator[tuple[str, float, str]]:
    """Yield name, generations a second and a note of runs on a local Ray cluster."""
    from framework.parallel.cluster import cluster
    from framework.parallel.ray_evaluator import RayEvaluator

    start = time.perf_counter()
    with cluster(None, None) as joined:

        def on_ray(problem: MultiStageProblem) -> Evaluator:
            return RayEvaluator(problem, 0, workers=joined.workers)

        search(make(), POPULATION, 5, on_ray)  # actors' first compilation
        note = f"Ray ready after {time.perf_counter() - start:.1f} s"
        problem = make()
        for name in ("cold", "warm"):
            seconds, _ = search(problem, POPULATION, generations, on_ray)
            yield f"Ray, {joined.workers} workers, {name} cache", generations / seconds, note
            note = ""


def print_training_rates(problem: MultiStageProblem, repeats: int) -> None:
    """Print fits per second on random feature sets, ours and scikit-learn's."""
    rng = np.random.default_rng(0)
    masks = rng.random((2000, 14)) < 0.5
    masks[:, 0] |= ~masks.any(axis=1)
    keys = np.array([pack(mask) for mask in masks])
    data, few = problem.data, masks[:100]

    def scikit_learn(solver: str, tol: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for mask in few:
                model = LogisticRegression(solver=solver, tol=tol, max_iter=1000)
                model.fit(data.design.T[:, mask], data.y).predict_proba(data.held.T[:, mask])

    ours = rate(lambda: problem.build_components(keys), len(keys), repeats)
    rows = []
    for solver, tol in (("lbfgs", 1e-4), ("newton-cholesky", 1e-10)):
        theirs = rate(partial(scikit_learn, solver, tol), len(few), repeats)
        name = f"scikit-learn {solver}, tol {tol:g}"
        rows.append((name, f"{theirs:,.0f}", f"{ours / theirs:,.0f} x"))
    rows.append(("batched Newton, gradient < 1e-9", f"{ours:,.0f}", ""))
    title = "Sub-classifiers (fit and predict), a second"
    print_table(title, ("trainer", "fits/s", "ours is"), rows, left=1)


class Cost(NamedTuple):
    """Seconds of a run: its search by the clock and on the CPU, then logging's CPU and the wait."""

    wall: float
    cpu: float
    children: float
    finish: float


def print_cost_of_logging(source: dict[str, Any], generations: int) -> None:
    """Print what MLflow costs a run: the search itself, and the wait at its end."""
    from tracking.mlflow_log.tracker import MlflowTracker

    stages, rows = stages_config(source, COSTS, 4), []
    problem = MultiStageProblem.from_config(stages)
    for n in (generations, 10 * generations):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            config = run_config(stages, n, place)
            tracked_run(config, problem, place / "warm", None)
            plain = tracked_run(config, problem, place / "plain", None)
            run_dir = RunDir(place / "logged")
            tracker = MlflowTracker(run_dir, f"sqlite:///{place}/mlflow.db", "bench")
            logged = tracked_run(config, problem, run_dir.path, tracker)
        seconds = (plain.wall, logged.wall, plain.cpu, logged.cpu, logged.children, logged.finish)
        rows.append((f"{n:,}", *(f"{value:.2f} s" for value in seconds)))
    print_table(
        "MLflow (a run in its directory, warm cache; logging is a process of its own)",
        (
            "generations",
            "search without",
            "with",
            "driver's CPU without",
            "with",
            "logging CPU",
            "wait",
        ),
        rows,
    )


def run_config(stages: MultiStageConfig, generations: int, folder: Path) -> RunConfig:
    """Return the configuration of an EMSCO run of the credit data."""
    raw = {
        "name": "bench",
        "problem": {"kind": "multistage", **stages.model_dump(mode="json", exclude_none=True)},
        "objectives": [{"metric": o.metric, "sense": o.sense} for o in OBJECTIVES],
        "algorithm": {"kind": "emsco", "population": POPULATION, "beta": 2.5},
        "budget": {"generations": generations},
        "workers": "serial",
    }
    return check_config(raw, folder / "bench.yaml")


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


# --- exact fronts -----------------------------------------------------------------------------

HEART_COSTS = [1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 1]


class ExactCase(NamedTuple):
    """A set of the paper, the most stages, and the CPU seconds of a prototype to compare with."""

    name: str
    source: dict[str, Any]
    costs: list[int]
    stages: int
    prototype: float


def exact_cases() -> Iterator[ExactCase]:
    heart: dict[str, Any] = {
        "synthetic": {"samples": 299, "features": 12, "informative": 6, "classes": 2}
    }
    folder = os.environ.get("PARETOLAB_DATA")
    if folder and (Path(folder) / "heart_failure.csv").is_file():
        heart = {"name": "heart_failure"}
    for k, seconds in ((4, 0.058), (12, 2.3)):
        yield ExactCase("heart", heart, HEART_COSTS, k, seconds)
    for k, seconds in ((4, 1.26), (14, 61.0)):
        yield ExactCase("credit", credit_source(), COSTS, k, seconds)


def bench_multistage(args: argparse.Namespace) -> None:
    """Print what exact fronts take, beside a loop over candidates in numpy on the same bits."""
    os.environ["PARETOLAB_CACHE"] = "off"
    rows = []
    for case in exact_cases():
        stages = stages_config(case.source, case.costs, case.stages)
        problem = MultiStageProblem.from_config(stages)
        loop = numpy_loop(problem)

        def exact(problem: MultiStageProblem = problem) -> Any:
            algorithm = Exact(problem, Roles(problem.metrics, OBJECTIVES), seed=0)
            pickle.dumps(algorithm)  # makes it look at the sub-classifiers
            start = time.process_time()
            X = algorithm.ask()
            assert X is not None
            return time.process_time() - start, (algorithm.method, len(X))

        exact()  # compile
        seconds, (method, front) = fastest(args.repeats, exact)
        each = seconds / problem.space.size * 1e9
        rows.append(
            (
                case.name if "name" in case.source else f"like {case.name}",
                str(case.stages),
                method,
                f"{problem.space.size:,}",
                str(front),
                f"{seconds:.3f}",
                f"{each:.2g}",
                f"{case.prototype:g}",
                f"{loop / each:,.0f}",
            )
        )
    heads = "data,k,method,candidates,front,CPU s,ns each,prototype's s,times a numpy loop"
    print_table("Exact fronts, one core, sub-classifiers trained", heads.split(","), rows, left=1)


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


# --- sizes ------------------------------------------------------------------------------------

FEATURES, RECORDS, POPULATIONS = (12, 30, 60), (1_000, 10_000, 100_000), (100, 300, 1000)
_SURE = 1.3  # evidence, in its standard deviation, from which a made-up classifier answers


class MadeUp(MultiStageProblem):
    """A multi-stage problem whose sub-classifiers cost nothing to train.

    A quarter of the records are validation records, as where all are real.
    """

    def __init__(self, features: int, records: int) -> None:
        rng = np.random.default_rng(0)
        held = records // 4
        y = rng.integers(0, 2, held)
        self.evidence = rng.normal(size=(features, held)).astype(np.float32)
        self.evidence += np.linspace(0.1, 0.6, features, dtype=np.float32)[:, None] * (2 * y - 1)
        data = StageData(
            design=np.zeros((features, 2)),
            y=np.array([0, 1]),
            held=np.zeros((features, 1)),
            y_held=y,
            n_validation=held,
            first=np.arange(features + 1),
            thresholds=np.array([0.75, 0.75]),
            positive=1,
        )
        super().__init__(
            data,
            FeatureCosts(np.arange(features) % 5 + 1),
            Source(
                fingerprint=f"made up {features} {records}",
                feature_names=[f"f{i}" for i in range(features)],
                classes=[0, 1],
            ),
            max_stages=4,
        )

    def build_components(self, keys: WordArray) -> Components:
        bits = np.zeros((len(keys), 3, self.data.words), dtype=np.uint64)
        for i, key in enumerate(keys):
            known = list(features_of(key, self.space.n))
            margin = self.evidence[known].sum(axis=0)
            sure, yes = np.abs(margin) > _SURE * np.sqrt(len(known)), margin > 0
            bits[i, 0] = pack(sure)
            bits[i, 1] = pack(sure & (yes == (self.data.y_held == 1)))
            bits[i, 2] = pack(sure & yes)
        return Components(keys, bits)


def bench_scaling(args: argparse.Namespace) -> None:
    """Print generations a second and microseconds an evaluation over a grid of sizes."""
    search(MadeUp(6, 400), 20, 3)  # compile
    rows = []
    for features in FEATURES:
        for records in RECORDS:
            problem = MadeUp(features, records)
            for population in POPULATIONS:
                search(problem, population, args.generations)
                seconds, end = fastest(
                    args.repeats, partial(search, problem, population, args.generations, beta=2.0)
                )
                stored = problem.n_components * 8 * (1 + 3 * problem.data.words)
                rows.append(
                    (
                        str(features),
                        f"{records:,}",
                        f"{population:,}",
                        f"{end.generation / seconds:,.0f}",
                        f"{seconds / end.evaluations * 1e6:.1f}",
                        f"{end.front_size:,}",
                        f"{problem.n_components:,}",
                        f"{stored / 1e6:,.0f}",
                    )
                )
    heads = (
        "features,records,population,generations/s,µs an evaluation,front,sub-classifiers,MB stored"
    )
    title = f"EMSCO, {args.generations} generations, sub-classifiers stored, at most 4 stages"
    print_table(title, heads.split(","), rows)


def bench_resampling(args: argparse.Namespace) -> None:
    """Show what resamples of many designs take, beside every design in every resample."""
    made = {"samples": 900, "features": 9, "informative": 6, "class_sep": 1.5, "seed": 1}
    section = {
        "dataset": {"synthetic": made},
        "split": {"train": 1 / 3, "validation": 2 / 3, "test": 0.0},
        "measure": {"kind": "holdout"},
        "max_stages": 4,
    }
    problem = MultiStageProblem.from_config(MultiStageConfig.model_validate(section))
    X = problem.space.sample(np.random.default_rng(0), 2 * args.designs)
    X = np.unique(X, axis=0)[: args.designs]
    values, ids = problem.evaluate(X), np.arange(len(X))
    roles = Roles(problem.metrics, OBJECTIVES)
    front = Front.of([Evaluated(ids, X, dict(values))], roles, problem.gene_names)
    outcomes, where = problem.outcomes(X), ["coverage>=0.8"]
    resamples = Resamples(outcomes, 0)
    at = int(front.ids[choose(front, where=where, best="accuracy")])
    rule = Rule(front, where=where, best="accuracy")

    def everything() -> None:
        for start in range(0, len(X), 1000):
            outcomes.metrics(resamples.weights, slice(start, start + 1000), roles.names)

    def seconds(work: Callable[[], object]) -> float:
        return 1 / rate(work, 1, args.repeats)

    named = seconds(everything)
    rows = [("every design in every resample", named)]
    rows.append(("what to expect of a rule's pick", seconds(lambda: expect(resamples, rule, at))))
    whole = partial(expect_front, resamples, roles, values, front.ids, front.ids)
    rows.append((f"what to expect of all {len(front)} solutions", seconds(whole)))
    title = f"{len(X):,} designs, {outcomes.records} records, {resamples.count} resamples"
    cells = [(name, f"{took:.2f}", f"{named / took:.2f}") for name, took in rows]
    print_table(title, ["", "seconds of CPU", "times as fast"], cells, left=1)
