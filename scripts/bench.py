"""Speed, as ratios against a named baseline measured in the same process.

    python scripts/bench.py NAME

``emsco``: generations of EMSCO per second; the baseline is a loop that trains with scikit-learn.
``multistage``: exact fronts; the baseline is a loop over candidates in numpy on the same bits.
``ensembling``: ROC AUC of ensembles, and HAPEns; the baselines are numpy and scikit-learn.
``pruning``: gap and bound of the strong form; the baseline is the program printed in the paper.
``nsga2``: searches without their evaluations; the baseline is pymoo's own NSGA-II.
``defaults``: hypervolume of our default search; the baselines are pymoo's NSGA-II and Optuna's.
``hull``: convex-hull evolution on ZED1; the baseline are the paper's times.
``resampling``: what to expect of many designs; the baseline is every design in every resample.
``complexity``: exponents of time by population, and those in Table 6 of the 3DFCH-EMOA paper.
``start``: whole commands; the baseline is ``python -c pass``.
``ray``: workers that compute; the baselines are one process, and bare actors of Ray.

The multi-stage data are the Australian credit data of the EMSCO paper (14 features, 690 records,
k = 4) from PARETOLAB_DATA. Without them, synthetic data of the same shape are used, and the table
says so. Libraries of models are synthetic. Times are CPU times of this process, with numerical
libraries on one thread, so that ratios are valid on a busy machine, too; ``ray`` needs a quiet one.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import peers
from bench_families import bench_complexity, bench_ensembling, bench_hull, bench_pruning
from bench_workers import bench_ray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from timing import asked, count, fastest, print_rates, print_table, rate

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.exact.search import Exact
from algorithms.multistage.problem import MultiStageProblem
from framework.analysis.choose import Rule, choose
from framework.analysis.expectations import expect
from framework.analysis.front_expectations import expect_front
from framework.analysis.resamples import Resamples
from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.errors import InputError, ParetolabError
from framework.front import Front, volume
from framework.roles import Objective, Roles
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget

# --- multi-stage classifiers ------------------------------------------------------------------

POPULATION = 300
COSTS = [2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2]
PIMA_COSTS = [1, 3, 2, 2, 3, 2, 2, 1]
HEART_COSTS = [1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 1]
OBJECTIVES = [Objective("coverage", "max"), Objective("accuracy", "max"), Objective("cost", "min")]


def source(name: str, samples: int, features: int, informative: int) -> dict[str, Any]:
    """Return the data set if it is in PARETOLAB_DATA, or else a synthetic one of its shape."""
    folder = os.environ.get("PARETOLAB_DATA")
    if folder and (Path(folder) / f"{name}.csv").is_file():
        return {"name": name}
    sizes = {"samples": samples, "features": features, "informative": informative, "classes": 2}
    return {"synthetic": sizes}


def credit() -> dict[str, Any]:
    """Return the credit data of the paper, or synthetic ones."""
    return source("australian", 690, 14, 8)


def stages(
    dataset: dict[str, Any], costs: list[int], most: int, seed: int = 0
) -> MultiStageProblem:
    """Return the problem of a data set as in the paper, with at most ``most`` stages."""
    section = {
        "dataset": dataset,
        "split": {"seed": seed},
        "costs": {"classes": costs, "factor": 10},
        "threshold": 0.75,
        "max_stages": most,
        "measure": {"kind": "holdout"},
    }
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(section))


def bench_emsco(args: argparse.Namespace) -> None:
    """Print the generations of EMSCO per second."""
    os.environ["PARETOLAB_CACHE"] = "off"
    n = args.generations
    make = partial(stages, credit(), COSTS, 4)

    def cold() -> tuple[float, MultiStageProblem]:
        problem = make()
        return generations(problem, n), problem

    generations(make(), 5)  # compile
    cold_seconds, problem = fastest(args.repeats, cold)
    warm_seconds, _ = fastest(args.repeats, lambda: (generations(problem, n), None))
    rates = [
        ("scikit-learn loop, trained per chromosome, no cache", plain_loop(make())),
        (f"EMSCO, cold cache ({problem.n_components:,} trained)", n / cold_seconds),
        ("EMSCO, warm cache", n / warm_seconds),
    ]
    print_rates(f"Generations of {POPULATION}, {credit()}, k = 4", rates)


def generations(problem: MultiStageProblem, n: int) -> float:
    """Return the CPU seconds of ``n`` generations of EMSCO."""
    roles = Roles(problem.metrics, OBJECTIVES)
    algorithm = EMSCO(problem, roles, seed=0, population=POPULATION, beta=2.5)
    start = time.process_time()
    search(problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=n))
    return time.process_time() - start


def plain_loop(problem: MultiStageProblem, chromosomes: int = 60) -> float:
    """Return the generations per second of the obvious program, with scikit-learn's defaults.

    For each child it trains a LogisticRegression per stage and passes the validation records on.
    The children are those of a real run, and a generation has 240 of them at the least elite share.
    Only their evaluation is timed, which favours the loop.
    """
    children = late_children(problem, chromosomes)
    start = time.process_time()
    for x in children:
        plain_evaluation(problem, x)
    seconds = (time.process_time() - start) / chromosomes
    return 1.0 / (seconds * 0.8 * POPULATION)


def late_children(problem: MultiStageProblem, n: int) -> Array:
    """Return ``n`` children that EMSCO proposes after 20 generations."""
    algorithm = EMSCO(problem, Roles(problem.metrics, OBJECTIVES), seed=0, beta=2.5)
    first, X = 0, np.zeros((0, 0), dtype=np.int8)
    for _ in range(21):
        X = asked(algorithm)
        ids, first = np.arange(first, first + len(X)), first + len(X)
        algorithm.tell(Evaluated(ids, X, dict(problem.evaluate(X))))
    return X[:n]


def plain_evaluation(problem: MultiStageProblem, x: Array) -> tuple[float, float, float]:
    """Return coverage, accuracy and cost of a chromosome, computed as the paper describes."""
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


def bench_multistage(args: argparse.Namespace) -> None:
    """Print the time of exact fronts, and of a loop over candidates in numpy on the same bits."""
    os.environ["PARETOLAB_CACHE"] = "off"
    heart, rows = source("heart_failure", 299, 12, 6), []
    for name, data, costs, sizes in (
        ("heart", heart, HEART_COSTS, (4, 12)),
        ("credit", credit(), COSTS, (4, 14)),
    ):
        for k in sizes:
            problem = stages(data, costs, k)
            loop = numpy_loop(problem)
            exact_front(problem)  # compile
            seconds, (method, front) = fastest(args.repeats, partial(exact_front, problem))
            each = seconds / problem.space.size * 1e9
            label = name if "name" in data else f"like {name}"
            figures = f"{front}", f"{seconds:.3f}", f"{each:.2g}", f"{loop / each:,.0f}"
            rows.append((label, method, str(k), f"{problem.space.size:,}", *figures))
    heads = "data,method,k,candidates,front,CPU s,ns each,times a numpy loop"
    print_table("Exact fronts, one core, sub-classifiers trained", heads, rows, 2)


def exact_front(problem: MultiStageProblem) -> tuple[float, tuple[str, int]]:
    """Return the CPU seconds of an exact front, its method and its size."""
    algorithm = Exact(problem, Roles(problem.metrics, OBJECTIVES), seed=0)
    pickle.dumps(algorithm)  # makes it read the sub-classifiers
    start = time.process_time()
    X = asked(algorithm)
    return time.process_time() - start, (algorithm.method, len(X))


def numpy_loop(problem: MultiStageProblem, candidates: int = 1000) -> float:
    """Return the nanoseconds per candidate of a loop over candidates with boolean vectors."""
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
            key = int(weights[x <= stage].sum())
            cost += int(problem.costs[x == stage].sum()) * int(waiting.sum())
            answered += int((waiting & sure[key]).sum())
            good += int((waiting & right[key]).sum())
            waiting &= ~sure[key]
    return (time.process_time() - start) / candidates * 1e9


def bench_resampling(args: argparse.Namespace) -> None:
    """Print the speed of resampling many designs, and of every design in every resample."""
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
    assert outcomes is not None
    resamples = Resamples(outcomes, 0)
    chosen = int(front.ids[choose(front, where=where, best="accuracy")])
    rule = Rule(front, where=where, best="accuracy")
    whole = partial(expect_front, resamples, roles, values, front.ids, front.ids)

    def everything() -> None:
        for start in range(0, len(X), 1000):
            outcomes.metrics(resamples.weights, slice(start, start + 1000), roles.names)

    works: list[tuple[str, Callable[[], object]]] = [
        ("every design in every resample", everything),
        ("what to expect of a rule's pick", lambda: expect(resamples, rule, chosen)),
        (f"what to expect of all {len(front)} solutions", whole),
    ]
    title = f"{len(X):,} designs, {outcomes.records} records, {resamples.count} resamples"
    print_rates(title, [(name, rate(work, 1, args.repeats)) for name, work in works])


# --- searches ---------------------------------------------------------------------------------

DEFAULT = {"kind": "local_search", "neighbours": 10, "batch": 100}
"""The search of template, quickstart and ``ParetoMultiStage``, in batches."""

TEN = ["breast_w", "german", "heart_statlog", "liver_bupa", "parkinsons", "ionosphere", "vote"]
TEN += ["breast_cancer", "wine", "heart_failure"]
"""Data sets of problems like that of the template."""


def bench_nsga2(args: argparse.Namespace) -> None:
    """Print CPU microseconds of searches per candidate, without evaluations, and hypervolumes."""
    problem = stages(source("heart_failure", 299, 12, 6), HEART_COSTS, 4)
    roles = Roles(problem.metrics, OBJECTIVES)
    works: list[tuple[str, Callable[..., peers.Searched]]] = [
        ("pymoo's own NSGA-II", peers.pymoo_nsga2),
        ("nsga2", partial(peers.ours, {"kind": "nsga2", "population": 100})),
        ("emsco", partial(peers.ours, {"kind": "emsco"})),
        ("the default search", partial(peers.ours, DEFAULT)),
    ]
    rows, first = [], 0.0
    for name, work in works:
        work(problem, roles, 0, args.evaluations)  # compiles, and trains sub-classifiers
        runs = [work(problem, roles, seed, args.evaluations) for seed in range(1, args.repeats + 1)]
        each = min(run.seconds for run in runs) / args.evaluations * 1e6
        first = first or each
        covered = np.mean([volume(run.losses, roles) for run in runs])
        rows.append((name, f"{each:.1f}", f"{first / each:.1f}", f"{covered:.4f}"))
    title = f"{args.evaluations:,} candidates of heart, k = 4, populations of 100"
    print_table(title, "search,us each,times the first,hypervolume", rows)


def bench_defaults(args: argparse.Namespace) -> None:
    """Print hypervolumes at equal evaluations; those of Optuna only at the first number."""
    heads = "problem,evaluations,default,pymoo,lead,Optuna,lead"
    rows = []
    for name, problem in problems_of_defaults(args.only):
        roles = Roles(problem.metrics, OBJECTIVES)
        best = exact_volume(problem, roles)
        shares: dict[tuple[str, int], FloatArray] = {}
        for search_name, work, seeds, marks in (
            ("default", partial(peers.ours, DEFAULT), args.seeds, args.evaluations),
            ("pymoo", peers.pymoo_nsga2, args.seeds, args.evaluations),
            ("Optuna", peers.optuna_nsga2, args.optuna_seeds, args.evaluations[:1]),
        ):
            runs = [work(problem, roles, seed, max(marks)).losses for seed in range(seeds)]
            for mark in marks:
                volumes = [volume(losses[:mark], roles) for losses in runs]
                shares[search_name, mark] = np.array(volumes)
        best = best or max(float(values.max()) for values in shares.values() if len(values))
        for mark in args.evaluations:
            row = [name, f"{mark:,}", f"{shares['default', mark].mean() / best:.2%}"]
            for peer in ("pymoo", "Optuna"):
                row += beside(shares["default", mark], shares.get((peer, mark)), best)
            rows.append(row)
    if not rows:
        raise InputError(f"--only: expected problems such as {TEN[0]} or 'pima 10', found others")
    print_table("Hypervolume, as a share of the best known", heads, rows)


def beside(default: FloatArray, peer: FloatArray | None, best: float) -> list[str]:
    """Return the mean of a peer, and the lead of the default with a 95% margin over seeds."""
    if peer is None or not len(peer):
        return ["", ""]
    lead = (default[: len(peer)] - peer) / best
    margin = 1.96 * lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else np.nan
    return [f"{peer.mean() / best:.2%}", f"{lead.mean():+.2%} ± {margin:.2%}"]


def problems_of_defaults(only: Sequence[str]) -> Iterable[tuple[str, MultiStageProblem]]:
    """Yield nine problems with exact fronts, and ten like that of the template, with holdout."""
    exact = {"heart_failure": HEART_COSTS, "pima": PIMA_COSTS, "australian": COSTS}
    for name, costs in exact.items():
        for seed in (10, 11, 12):
            label = f"{name} {seed}"
            if not only or label in only:
                yield label, stages({"name": name}, costs, 4, seed)
    for name in TEN:
        if not only or name in only:
            path = Path(os.environ.get("PARETOLAB_DATA", "."), f"{name}.csv")
            table = {"path": str(path), "target": "target"}
            section = {
                "dataset": {"sklearn": name} if name in ("breast_cancer", "wine") else table,
                "max_stages": 4,
                "remove_features": True,
                "measure": {"kind": "holdout"},
            }
            config = MultiStageConfig.model_validate(section)
            yield name, MultiStageProblem.from_config(config)


def exact_volume(problem: MultiStageProblem, roles: Roles) -> float:
    """Return the hypervolume of the exact front; 0 if designs have further genes."""
    if problem.space.levels or problem.space.removal:
        return 0.0
    X = asked(Exact(problem, roles, seed=0))
    return volume(roles.losses(problem.evaluate(X)), roles)


# --- whole commands ---------------------------------------------------------------------------


def bench_start(args: argparse.Namespace) -> None:
    """Print CPU seconds of whole commands, the first time on a machine and later."""
    command = str(Path(sys.executable).parent / "paretolab")
    few = ["--set", "budget.evaluations=200", "--workers", "serial"]
    few += ["--no-plots", "--no-mlflow", "--quiet"]
    run = [command, "run", "configs/quickstart.yaml"]
    with TemporaryDirectory() as name:
        room = Path(name)
        fresh = {"NUMBA_CACHE_DIR": str(room / "code")}
        rows = [
            (title, f"{seconds_of(words, room, variables):.2f}")
            for title, words, variables in (
                ("python -c pass", [sys.executable, "-c", "pass"], {}),
                ("import paretolab", [sys.executable, "-c", "import paretolab"], {}),
                ("paretolab --help", [command, "--help"], {}),
                ("quickstart, 200 evaluations: nothing compiled", [*run, *few], fresh),
                ("the same, compiled by the row above", [*run, *few], fresh),
                ("the same, with what scripts/kernels.py compiled", [*run, *few], {}),
                ("quickstart, whole, with plots and MLflow", [*run, "--workers", "serial"], {}),
            )
        ]
    print_table("From start to end: CPU seconds", "command,CPU s", rows)


def seconds_of(words: list[str], room: Path, variables: dict[str, str]) -> float:
    """Return the CPU seconds of a command in a folder, without the cache of fitted models."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PARETOLAB_CACHE": "off"} | variables
    subprocess.run(words, cwd=room, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


BENCHES = (
    bench_emsco, bench_multistage, bench_ensembling, bench_pruning, bench_nsga2, bench_defaults,
    bench_hull, bench_resampling, bench_complexity, bench_start, bench_ray,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark, with numerical libraries on one thread."""
    parser = argparse.ArgumentParser(description="Speed, as ratios against a named baseline.")
    names = parser.add_subparsers(required=True, metavar="NAME")
    of = {}
    for bench in BENCHES:
        name = bench.__name__.removeprefix("bench_")
        of[name] = names.add_parser(name, help=bench.__doc__)
        of[name].set_defaults(bench=bench)
        of[name].add_argument("--repeats", type=count, default=3, help="the fastest counts")
    of["emsco"].add_argument("--generations", type=count, default=500)
    of["resampling"].add_argument("--designs", type=count, default=50000)
    of["complexity"].add_argument("--sizes", type=count, nargs="+", default=[100, 200, 400, 800])
    of["complexity"].add_argument("--out", type=Path, help="a table to write, CSV")
    of["nsga2"].add_argument("--evaluations", type=count, default=15000)
    of["defaults"].add_argument("--evaluations", type=count, nargs="+", default=[2000, 10000])
    of["defaults"].add_argument("--seeds", type=count, default=20)
    of["defaults"].add_argument("--optuna-seeds", type=int, default=5)
    of["defaults"].add_argument("--only", nargs="*", default=[], help="names of problems")
    of["ray"].add_argument("--evaluations", type=count, default=1000)
    of["ray"].add_argument("--seconds", type=float, default=0.01, help="of an evaluation")
    of["ray"].add_argument("--workers", type=count, default=2)
    of["ray"].add_argument("--sleep", action="store_true", help="instead of computing")
    of["hull"].add_argument("--evaluations", type=count, default=30000)
    of["hull"].add_argument("--populations", type=count, nargs="+", default=[100, 300, 1000])
    of["pruning"].add_argument("libraries", nargs="*", help="folders; a made-up pool if none")
    of["pruning"].add_argument("--seconds", type=float, default=20.0, help="that HiGHS may take")
    of["pruning"].add_argument("--weights", default="accuracy")
    args = parser.parse_args(arguments)
    try:
        with threadpool_limits(1):  # for libraries that are loaded; best for scikit-learn here
            args.bench(args)
    except ParetolabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
