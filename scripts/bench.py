"""Speed, as ratios against a named baseline measured in the same process.

    python scripts/bench.py NAME [--OPTION VALUE]

``--help`` lists the benchmarks. Multi-stage data are those of the EMSCO paper in PARETOLAB_DATA, or
else synthetic data of the same shape, and the table says so. Times are CPU times, with numerical
libraries on one thread, so that ratios are valid on a busy machine, too; ``ray`` needs a quiet one.
"""

from __future__ import annotations

import argparse
import inspect
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from algorithms.ensembling.problem import EnsembleProblem
from algorithms.ensembling.ranks import auc, rank_table
from algorithms.general.nsga2 import NSGAII
from algorithms.hull.searches import CHEMOA, FCHEMOA
from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.exact.search import Exact
from algorithms.multistage.problem import MultiStageProblem
from algorithms.pruning.branch_and_bound.instance import Instance
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, share_of_gap
from algorithms.pruning.papers.printed_program import Program
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import weights_of
from framework import registry
from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray
from framework.errors import ParetolabError
from framework.libraries.library import Cost, Library, load_library
from framework.parallel.cluster import cluster
from framework.parallel.ray_evaluator import RayEvaluator
from framework.problems.functions import FunctionProblem
from framework.roles import Objective, Roles
from framework.run.driver import search
from framework.run.evaluator import Evaluator, SerialEvaluator, evaluate_candidates
from framework.settings import Budget
from paretolab import ParetoMultiStage


def rate(work: Callable[[], object], n: int = 1, repeats: int = 1) -> float:
    """Return the best rate per second of ``work``, which does ``n`` things per call."""
    work()  # compile, fill caches
    best = 0.0
    for _ in range(repeats):
        start, done = time.process_time(), 0
        while (seconds := time.process_time() - start) < 0.3:  # the clock's resolution is coarse
            work()
            done += n
        best = max(best, done / seconds)
    return best


def fastest(repeats: int, measure: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
    """Return the seconds and the result of the fastest of several measurements."""
    return min((measure() for _ in range(repeats)), key=lambda pair: pair[0])


def print_table(title: str, heads: str, rows: Iterable[Sequence[str]], words: int = 1) -> None:
    """Print a table; the first ``words`` columns are texts, the others numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(heads.split(",")):
        table.add_column(name, justify="left" if i < words else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=130).print(table)


def print_rates(title: str, rates: Sequence[tuple[str, float]]) -> None:
    """Print rates per second, and their ratios to that of the first row."""
    first = rates[0][1]
    rows = ((name, f"{value:,.3g}", f"{value / first:,.1f}") for name, value in rates)
    print_table(title, ",a second,times the first", rows)


POPULATION, MODELS, PICKS = 300, 60, 5  # of EMSCO; of pools, and of their ensembles
PAPER = {100: ("360", "2,640"), 300: ("553", "19,300"), 1000: ("1,100", "272,000")}  # seconds
COSTS = [2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2]
HEART_COSTS = [1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 1]
OBJECTIVES = [Objective("coverage", "max"), Objective("accuracy", "max"), Objective("cost", "min")]


def source(name: str, samples: int, features: int, informative: int) -> dict[str, Any]:
    """Return the data set if it is in PARETOLAB_DATA, or else a synthetic one of its shape."""
    folder = os.environ.get("PARETOLAB_DATA")
    if folder and (Path(folder) / f"{name}.csv").is_file():
        return {"name": name}
    return {"synthetic": {"samples": samples, "features": features, "informative": informative}}


def stages(dataset: dict[str, Any], costs: list[int], k: int) -> MultiStageProblem:
    """Return the problem of a data set as in the paper, with at most ``k`` stages."""
    section = {"dataset": dataset, "costs": {"classes": costs, "factor": 10}, "threshold": 0.75}
    section |= {"max_stages": k, "measure": {"kind": "holdout"}}
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(section))


def bench_emsco(generations: int = 500, repeats: int = 3) -> None:
    """Print the generations of EMSCO per second beside a loop that trains with scikit-learn."""
    data = source("australian", 690, 14, 8)
    make = partial(stages, data, COSTS, 4)

    def timed(problem: MultiStageProblem, n: int) -> tuple[float, MultiStageProblem]:
        roles = Roles(problem.metrics, OBJECTIVES)
        algorithm = EMSCO(problem, roles, seed=0, population=POPULATION, beta=2.5)
        start = time.process_time()
        search(problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=n))
        return time.process_time() - start, problem

    timed(make(), 5)  # compile
    cold_seconds, problem = fastest(repeats, lambda: timed(make(), generations))
    warm_seconds, _ = fastest(repeats, lambda: timed(problem, generations))
    algorithm = EMSCO(problem, Roles(problem.metrics, OBJECTIVES), seed=0, beta=2.5)
    search(problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=20))
    children = algorithm.ask()  # a generation has 240 of them at the least elite share
    assert children is not None
    start = time.process_time()
    for x in children[:60]:
        plain_evaluation(problem, x)
    loop = 60 / (time.process_time() - start) / 240
    rates = [
        ("scikit-learn loop, trained per chromosome, no cache", loop),
        (f"EMSCO, cold cache ({problem.n_components:,} trained)", generations / cold_seconds),
        ("EMSCO, warm cache", generations / warm_seconds),
    ]
    print_rates(f"Generations of {POPULATION}, {data}, k = 4", rates)


def plain_evaluation(problem: MultiStageProblem, x: Array) -> tuple[float, float, float]:
    """Return coverage, accuracy and cost by the obvious program: a model trained for each stage."""
    data, n = problem.data, problem.data.n_validation
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


def bench_multistage(repeats: int = 3) -> None:
    """Print the time of exact fronts, and of a loop over candidates in numpy on the same bits."""
    heart, credit = source("heart_failure", 299, 12, 6), source("australian", 690, 14, 8)
    rows = []
    for data, costs, features in ((heart, HEART_COSTS, 12), (credit, COSTS, 14)):
        for k in (4, features):
            problem = stages(data, costs, k)
            loop = numpy_loop(problem)
            exact_front(problem)  # compile
            seconds, (method, front) = fastest(repeats, partial(exact_front, problem))
            each = seconds / problem.space.size * 1e9
            figures = f"{front}", f"{seconds:.3f}", f"{each:.2g}", f"{loop / each:,.0f}"
            rows.append((str(data), method, str(k), f"{problem.space.size:,}", *figures))
    heads = "data,method,k,candidates,front,CPU s,ns each,times a numpy loop"
    print_table("Exact fronts, one core, sub-classifiers trained", heads, rows, 2)


def exact_front(problem: MultiStageProblem) -> tuple[float, tuple[str, int]]:
    """Return the CPU seconds of an exact front, its method and its size."""
    algorithm = Exact(problem, Roles(problem.metrics, OBJECTIVES), seed=0)
    pickle.dumps(algorithm)  # makes it read the sub-classifiers
    start = time.process_time()
    X = algorithm.ask()
    assert X is not None
    return time.process_time() - start, (algorithm.method, len(X))


def numpy_loop(problem: MultiStageProblem, candidates: int = 1000) -> float:
    """Return the nanoseconds per candidate of a loop over candidates with boolean vectors."""
    tables, weights = problem.sub_classifiers.stage_tables(), 1 << np.arange(problem.space.n)
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


def bench_tables(
    records: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000),
    features: Sequence[int] = (10, 20, 50, 100, 200),
    evaluations: Sequence[int] = (10_000, 100_000, 1_000_000),
) -> None:
    """Print how time and memory of fits grow with records, features and evaluations, in turn."""
    base = {"records": 10_000, "features": 10, "evaluations": 10_000}
    heads, rows = f"{','.join(base)},fit,exponent,what to expect,MB", []
    # a process for each row, as its memory is the most that it ever had
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for axis, values in zip(base, (records, features, evaluations), strict=True):
            smaller, quicker = 0, 0.0
            for value in values:
                sizes = base | {axis: value}
                fit, expected, memory = processes.submit(fitted, **sizes).result()
                slope = f"{np.log(fit / quicker) / np.log(value / smaller):.2f}" if smaller else ""
                smaller, quicker = value, fit
                figures = f"{fit:.2f}", slope, f"{expected:.2f}", f"{memory:,.0f}"
                rows.append((*(f"{size:,}" for size in sizes.values()), *figures))
    print_table("ParetoMultiStage, five folds: CPU seconds", heads, rows, 0)


def fitted(records: int, features: int, evaluations: int) -> tuple[float, float, float]:
    """Return CPU seconds of a fit and of what to expect of its front, and the most memory, MB."""
    if records > 300:
        fitted(300, features, 200)  # compiles
    random = np.random.default_rng(0)
    X = random.normal(size=(records, features))
    y = X[:, ::2].sum(axis=1) / np.sqrt(features / 2) + random.normal(size=records) / 2 > 0
    start = time.process_time()
    search = ParetoMultiStage(budget=evaluations, verbose=False).fit(X, y)
    middle = time.process_time()
    search.front_  # noqa: B018
    end, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return middle - start, end - middle, memory


def bench_start() -> None:
    """Print CPU seconds of whole commands, the first time on a machine and later."""
    command = str(Path(sys.executable).parent / "paretolab")
    few = ["--set", "budget.evaluations=200", "--no-plots", "--no-mlflow", "--quiet"]
    run = [command, "run", "configs/quickstart.yaml", "--workers", "serial"]
    with TemporaryDirectory() as room:
        fresh = {"NUMBA_CACHE_DIR": f"{room}/code"}
        rows = [
            (title, f"{seconds_of(words, room, variables):.2f}")
            for title, words, variables in (
                ("import paretolab", [sys.executable, "-c", "import paretolab"], {}),
                ("paretolab --help", [command, "--help"], {}),
                ("quickstart, 200 evaluations: nothing compiled", [*run, *few], fresh),
                ("the same, compiled by the row above", [*run, *few], fresh),
                ("the same, with what scripts/kernels.py compiled", [*run, *few], {}),
                ("quickstart, whole, with plots and MLflow", run, {}),
            )
        ]
    print_table("From start to end: CPU seconds", "command,CPU s", rows)


def seconds_of(words: list[str], room: str, variables: dict[str, str]) -> float:
    """Return the CPU seconds of a command in a folder, without the cache of fitted models."""
    before = sum(os.times()[2:4])  # of children
    subprocess.run(words, cwd=room, env=os.environ | variables, capture_output=True, check=True)
    return sum(os.times()[2:4]) - before


def bench_ensembling(evaluations: int = 3000, repeats: int = 3) -> None:
    """Print the evaluations of ensembles and of HAPEns per second beside scikit-learn's."""
    for records in (1000, 10_000):
        library = made_up(records)
        problem, X = EnsembleProblem(library), random_ensembles(40)
        keys = rank_table(library.validation, library.y_validation)
        works = {
            "scikit-learn, a candidate at a time": partial(one_at_a_time, library, X),
            "integer keys": partial(auc, keys, X),
        }
        rates = [(name, rate(work, len(X), repeats)) for name, work in works.items()]
        roles = Roles(problem.metrics, [Objective("roc_auc", "max"), Objective("memory", "min")])
        best = 0.0
        for seed in range(repeats + 1):  # the first one compiles
            algorithm = registry.load("algorithms", "hapens")(problem, roles, seed=seed)
            start = time.process_time()
            limit = Budget(evaluations=evaluations)
            search(problem, algorithm, SerialEvaluator(problem, seed), budget=limit)
            best = max(best, evaluations / (time.process_time() - start))
        rates.append(("HAPEns, end to end", best))
        print_rates(f"ROC AUC of ensembles of {MODELS} models, {records:,} records", rates)


def made_up(records: int) -> Library:
    """Return a synthetic library: noisy predictions of models of different skill, and costs."""
    rng = np.random.default_rng(0)
    y, skill = rng.integers(0, 2, records), rng.uniform(0.1, 0.35, (MODELS, 1))
    P = 1 / (1 + np.exp(-2.1 * rng.normal(size=(MODELS, records)) - skill * (2 * y - 1)))
    names = ("memory", "inference_time")
    costs = {name: Cost(rng.lognormal(0, 1.5, MODELS), "MB") for name in names}
    configs = tuple({"family": j % 7, "size": int(rng.integers(9))} for j in range(MODELS))
    models = tuple(f"model_{j}" for j in range(MODELS))
    return Library(models, P.astype(np.float32), y, (0, 1), costs, configs=configs)


def random_ensembles(n: int) -> Array:
    """Return ``n`` ensembles of ``PICKS`` drawn models each, (n, models)."""
    return np.random.default_rng(1).multinomial(PICKS, [1 / MODELS] * MODELS, n).astype(np.int32)


def one_at_a_time(library: Library, X: Array) -> FloatArray:
    """Return the ROC AUC of each ensemble by a call of scikit-learn."""
    P = np.asarray(library.validation, dtype=np.float64)
    return np.array([roc_auc_score(library.y_validation, x / x.sum() @ P) for x in X])


def bench_pruning(*libraries: str, weights: str = "accuracy", seconds: float = 20.0) -> None:
    """Print the gap of the strong form beside that of the printed one in the same CPU time."""
    rows = []
    for library in map(load_library, libraries):
        problem, limit = PruningProblem(library), seconds  # of HiGHS
        strong(problem, weights, 0.0)  # compiles
        for form, solve in (("as printed, HiGHS", printed), ("strong", strong)):
            value, bound, limit = solve(problem, weights, limit)
            gap = share_of_gap(bound, value) if np.isfinite(value) else float("inf")
            figures = f"{value:g}", f"{bound:.6g}", f"{gap:.2%}", f"{limit:.1f}"
            rows.append((library.name, form, *figures))
    print_table("Pruned ensembles", "pool,form,value,bound,gap,CPU s", rows, 2)


def strong(problem: PruningProblem, weights: str, seconds: float) -> tuple[float, float, float]:
    """Return value, bound and CPU seconds of the strong form."""
    start = time.process_time()
    solver = BranchAndBound(Instance.of(problem.votes, weights_of(weights, *problem.votes.totals)))
    while not solver.done and time.process_time() - start < seconds:
        solver.step()
    assert solver.incumbent is not None
    return solver.incumbent.value, solver.bound, time.process_time() - start


def printed(problem: PruningProblem, weights: str, seconds: float) -> tuple[float, float, float]:
    """Return value, bound and CPU seconds of the program as printed in the paper, by HiGHS."""
    start = time.process_time()
    P, y = np.asarray(problem.library.validation), np.asarray(problem.library.y_validation)
    votes = P > 0.5 if problem.positive == 1 else P < 0.5
    program = Program(votes, y == problem.positive, weights_of(weights, *problem.votes.totals))
    solution = program.solve(seconds=seconds)
    return solution.value, solution.bound, time.process_time() - start


def bench_hull(evaluations: int = 30_000, populations: Sequence[int] = (100, 300, 1000)) -> None:
    """Print CPU seconds of searches on ZED1, without evaluations, beside those in the paper."""
    rows = []
    searches = {"3DFCH-EMOA": FCHEMOA, "3DCH-EMOA": CHEMOA, "NSGA-II": NSGAII}
    for i, (name, cls) in enumerate(searches.items()):
        for n in populations:
            vas, seconds = searched(cls, n, evaluations)
            figures = vas and f"{vas:.5f}", f"{seconds:.2f}", f"{seconds / evaluations * 1e6:.1f}"
            rows.append((name, str(n), *figures, *PAPER.get(n, ())[i : i + 1]))
    heads = "search,n,VAS,here,us each,paper"
    print_table(f"ZED1, {evaluations:,} evaluations: CPU seconds", heads, rows)


def searched(cls: Callable[..., Algorithm], n: int, evaluations: int) -> tuple[Any, float]:
    """Return the VAS and the CPU seconds of a search by ask and tell, without evaluations."""
    problem = FunctionProblem("zed1")
    roles = Roles(problem.metrics, [Objective(name, "min") for name in problem.metric_names])
    vas, seconds = "", 0.0
    for seed, stop in ((1, n + 20), (0, evaluations)):  # the first one compiles
        algorithm, first, outside = cls(problem, roles, seed=seed, population=n), 0, 0.0
        begun = time.process_time()
        while first < stop and (X := algorithm.ask()) is not None:
            since = time.process_time()
            ids, first = np.arange(first, first + len(X)), first + len(X)
            batch = evaluate_candidates(problem, 0, ids, X)
            outside += time.process_time() - since
            algorithm.tell(batch)
        seconds = time.process_time() - begun - outside
        vas = algorithm.outcome().findings.get("vas", "")
    return vas, seconds


class Busy(FunctionProblem):
    """ZDT1, each evaluation of which computes for a time."""

    def __init__(self, seconds: float) -> None:
        super().__init__("zdt1", 8)
        self.seconds = seconds

    def evaluate(self, X: Array, streams: Any = None) -> Mapping[str, Array]:
        for _ in X:
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                pass
        return super().evaluate(X, streams)


def bench_ray(evaluations: int = 1000, seconds: float = 0.01, workers: int = 2) -> None:
    """Print the speed of Ray workers beside one process and bare actors of Ray."""
    problem, n = Busy(seconds), evaluations
    roles = Roles(problem.metrics, [Objective(metric.name, "min") for metric in problem.metrics])

    def searching(evaluator: Evaluator, **more: int) -> None:
        algorithm = NSGAII(problem, roles, seed=0, population=100, **more)
        search(problem, algorithm, evaluator, budget=Budget(evaluations=n))

    def asking() -> None:
        pending = {actor.evaluate.remote(genomes): actor for actor in (*actors, *actors)}
        for left in range(n // 10, 0, -1):
            (answer,), _ = ray.wait([*pending])
            ray.get(answer)
            actor = pending.pop(answer)
            if left > len(pending) + 1:
                pending[actor.evaluate.remote(genomes)] = actor

    def by_clock(work: Callable[[], None]) -> tuple[float, float]:
        start, computed = time.perf_counter(), time.process_time()
        work()
        return time.perf_counter() - start, time.process_time() - computed

    with cluster(workers=workers):
        import ray

        actors = [ray.remote(Busy).remote(seconds) for _ in range(workers)]
        genomes = problem.space.sample(np.random.default_rng(0), 10)  # for a request of .1 s
        one, all_workers = SerialEvaluator(problem, 0), RayEvaluator(problem, 0, workers=workers)
        most = 32 * workers
        works: dict[str, Callable[[], None]] = {
            "nsga2 in one process": partial(searching, one),
            "nsga2 on Ray": partial(searching, all_workers),
            f"nsga2 on Ray, max_pending {most}": partial(searching, all_workers, max_pending=most),
            "bare actors of Ray, without a search": asking,
        }
        searching(all_workers)  # starts the workers
        asking()
        rows, first = [], 0.0
        for name, work in works.items():
            wall, driver = fastest(3, partial(by_clock, work))
            first = first or wall
            each = "" if name.endswith("one process") else f"{driver / n * 1e6:.0f}"
            rows.append((name, f"{wall:.2f}", f"{first / wall / workers:.2f}", each))
        all_workers.close()
    title = f"{n:,} evaluations of {seconds * 1000:g} ms, {workers} workers"
    print_table(title, "search,seconds,of as many processes,driver us each", rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark, on one thread, as scikit-learn is fastest here."""
    parser = argparse.ArgumentParser(description="Speed, as ratios against a named baseline.")
    names = parser.add_subparsers(required=True, metavar="NAME")
    for name, bench in sorted(globals().items()):
        if name.startswith("bench_"):
            command = names.add_parser(name.removeprefix("bench_"), help=bench.__doc__)
            command.set_defaults(bench=bench)
            for option in inspect.signature(bench).parameters.values():
                add_option(command, option)
    options = vars(parser.parse_args(arguments))
    bench, places = options.pop("bench"), options.pop("libraries", ())
    os.environ |= {"OMP_NUM_THREADS": "1", "PARETOLAB_CACHE": "off"}
    try:
        with threadpool_limits(1):  # for libraries that are loaded
            bench(*places, **options)
    except ParetolabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def add_option(command: argparse.ArgumentParser, option: inspect.Parameter) -> None:
    """Add a parameter of a benchmark to its command: whole numbers are at least 1."""
    several = isinstance(option.default, tuple)
    if option.kind is option.VAR_POSITIONAL:
        command.add_argument(option.name, nargs="+", help="folders")
        return
    kind = count if several or isinstance(option.default, int) else type(option.default)
    more: dict[str, Any] = {"nargs": "+"} if several else {}
    command.add_argument(f"--{option.name}", type=kind, default=option.default, **more)


def count(text: str) -> int:
    """Return a number of things, one or more, that an option gives."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
