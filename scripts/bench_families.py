"""Benchmarks of ensembles, pruned ensembles and convex hulls, which ``bench.py`` runs."""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import peers
from scipy.spatial import ConvexHull
from sklearn.metrics import roc_auc_score
from timing import asked, print_rates, print_table, rate

from algorithms.ensembling.problem import EnsembleProblem
from algorithms.ensembling.ranks import auc, rank_table
from algorithms.hull.searches import CHEMOA, FCHEMOA, NDFCHEMOA
from algorithms.pruning.branch_and_bound.instance import Instance
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, share_of_gap
from algorithms.pruning.papers.printed_program import Program
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import weights_of
from framework import registry
from framework.arrays import Array, FloatArray
from framework.libraries.library import Cost, Library, load_library
from framework.problem import Problem
from framework.problems.functions import FunctionProblem
from framework.roles import Metric, Objective, Roles
from framework.run.evaluator import evaluate_candidates
from framework.space import Box

# --- ensembles --------------------------------------------------------------------------------

MODELS, BATCH, PICKS, EVALUATIONS = 60, 40, 5, 3000


def bench_ensembling(args: argparse.Namespace) -> None:
    """Print the evaluations of ensembles per second, also of HAPEns from end to end."""
    for records in (1000, 10_000):
        library = made_up(records)
        problem, X = EnsembleProblem(library), random_rows(BATCH)
        table = rank_table(library.validation, library.y_validation)
        one_more = random_rows(1, 2 * PICKS) + np.eye(MODELS, dtype=np.int32)

        def of(work: Callable[..., object], X: Array, *data: object) -> float:
            return rate(partial(work, *data, X), len(X), args.repeats)

        rates = [
            ("scikit-learn, a candidate at a time", of(one_at_a_time, X, library)),
            ("numpy, all candidates at once", of(numpy_auc, X, library)),
            ("integer keys", of(auc, X, table)),
            ("integer keys, a parent and one more", of(auc, one_more, table)),
            ("the problem: AUC, costs, diversity", of(problem.evaluate, X)),
            ("HAPEns, end to end", max(hapens(problem) for _ in range(args.repeats + 1))),
        ]
        print_rates(f"ROC AUC of ensembles of {MODELS} models, {records:,} records", rates)


def made_up(records: int) -> Library:
    """Return a synthetic library: noisy predictions of models of different skill, and costs."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, records)
    skill = rng.uniform(0.2, 0.7, (MODELS, 1, 1))
    scores = 1.5 * rng.normal(size=(MODELS, records, 2)) + skill * np.eye(2)[y]
    P = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    costs = {
        "memory": Cost(rng.lognormal(0, 1.5, MODELS), "MB"),
        "inference_time": Cost(rng.lognormal(0, 1.5, MODELS), "s/1000 rows"),
    }
    configs = tuple({"family": j % 7, "size": int(rng.integers(9))} for j in range(MODELS))
    names = tuple(f"model_{j}" for j in range(MODELS))
    return Library(names, P[:, :, 1].astype(np.float32), y, (0, 1), costs, configs=configs)


def random_rows(n: int, picks: int = PICKS) -> Array:
    """Return ``n`` ensembles of ``picks`` drawn models each, (n, models)."""
    draws = np.random.default_rng(1).integers(0, MODELS, (n, picks))
    return np.stack([np.bincount(row, minlength=MODELS) for row in draws]).astype(np.int32)


def one_at_a_time(library: Library, X: Array) -> FloatArray:
    """Return the ROC AUC of each ensemble by a call of scikit-learn."""
    P = np.asarray(library.validation, dtype=np.float64)
    return np.array([roc_auc_score(library.y_validation, x / x.sum() @ P) for x in X])


def numpy_auc(library: Library, X: Array) -> FloatArray:
    """Return the ROC AUC of all ensembles by sorting integers: 31 bits of a mean, then a label."""
    y, P = np.asarray(library.y_validation), np.asarray(library.validation, dtype=np.float64)
    means = X / X.sum(axis=1, keepdims=True) @ P
    labels = np.sort((means * (2**31 - 1)).astype(np.uint32) << 1 | y.astype(np.uint32)) & 1
    n1 = int(y.sum())
    above = labels @ np.arange(len(y), dtype=np.float64) - n1 * (n1 - 1) / 2
    return np.asarray(above / (n1 * (len(y) - n1)))


def hapens(problem: EnsembleProblem) -> float:
    """Return the evaluations per second of HAPEns, including asking and telling."""
    roles = Roles(problem.metrics, [Objective("roc_auc", "max"), Objective("memory", "min")])
    algorithm = registry.load("algorithms", "hapens")(problem, roles, seed=0)
    start, rows = time.process_time(), 0
    while rows < EVALUATIONS and (X := algorithm.ask()) is not None:
        algorithm.tell(evaluate_candidates(problem, 0, np.arange(rows, rows + len(X)), X))
        rows += len(X)
    return rows / (time.process_time() - start)


# --- pruned ensembles -------------------------------------------------------------------------

# gaps in the paper (K = 100, CPLEX 12.8, 8 cores, 300 s), by a part of the library's name
GAPS = {"messidor": 4.3, "spambase": 0.0, "default_credit": 6.7, "bank_marketing": 5.4}
GAPS |= dict.fromkeys(("breast_cancer", "parkinsons", "musk", "qsar"), 0.0)


def bench_pruning(args: argparse.Namespace) -> None:
    """Print value, bound and gap of both forms; the second one has the CPU time of the first."""
    rows = []
    for library in [load_library(path) for path in args.libraries] or [made_up_pool()]:
        problem = PruningProblem(library)
        strong(problem, args.weights, 0.0)  # compiles
        paper = next((f"{gap:.1f}%" for name, gap in GAPS.items() if name in library.name), "")
        seconds = args.seconds  # of HiGHS; the strong form has as many as HiGHS took
        for form, solve in (("as printed, HiGHS", printed), ("strong", strong)):
            value, bound, seconds = solve(problem, args.weights, seconds)
            gap = share_of_gap(bound, value) if np.isfinite(value) else float("inf")
            figures = f"{value:g}", f"{bound:.6g}", f"{gap:.2%}", f"{seconds:.1f}", paper
            rows.append((library.name, form, *figures))
    print_table("Pruned ensembles", "pool,form,value,bound,gap,CPU s,paper's gap", rows, 2)


def made_up_pool(k: int = 40, n: int = 600) -> Library:
    """Return a synthetic pool whose members fail together on some records."""
    rng = np.random.default_rng(0)
    y, hard = rng.random(n) < 0.4, rng.random(n)
    right = rng.random((k, n)) < np.where(hard < 0.3, 0.45, rng.uniform(0.7, 0.9, (k, 1)))
    P = np.where(np.where(right, y, ~y), 0.9, 0.1)
    names = [f"m{i}" for i in range(k)]
    return Library.from_arrays(names, P, y.astype(int), [0, 1], name="made_up")


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


# --- convex hulls -----------------------------------------------------------------------------

PAPER = {100: (360, 2640), 300: (553, 19300), 1000: (1100, 272000)}  # seconds: 3DFCH, 3DCH


def bench_hull(args: argparse.Namespace) -> None:
    """Print CPU seconds of searches on ZED1 beside those in the paper."""
    rows, whole = [], args.evaluations
    for n in args.populations:
        fast, slow = (f"{t:,}" for t in PAPER[n]) if n in PAPER else ("", "")
        few = whole if n <= 1000 else min(whole, n + 500)  # a slow search is extrapolated
        for name, (vas, seconds), scale, paper in (
            ("3DFCH-EMOA", searched(FCHEMOA, n, whole), 1.0, fast),
            (f"3DCH-EMOA (of {few:,})", searched(CHEMOA, n, few), whole / few, slow),
        ):
            rows.append((name, str(n), f"{vas:.5f}", f"{seconds * scale:.2f}", paper))
    print_table(f"ZED1, {whole:,} evaluations: CPU seconds", "search,n,VAS,here,paper", rows)
    spheres, n = [], min(args.populations)
    for m in (3, 4, 5):
        vas, seconds = searched(NDFCHEMOA, n, 2_000, Sphere(m))
        losses = Sphere(m).losses(np.random.default_rng(0).random((n, m)))
        begun = time.process_time()
        for _ in range(20):
            ConvexHull(np.concatenate([losses, 1.0 - np.eye(m)]))
        hull = (time.process_time() - begun) / 20
        spheres.append((str(m), f"{vas:.4f}", f"{seconds / 2_000 * 1e3:.3f}", f"{hull * 1e3:.3f}"))
    heads = "losses,VAS,ndfch_emoa a candidate,one hull of n points by Qhull"
    print_table(f"Losses on a sphere, {n:,} members: CPU ms", heads, spheres)


class Sphere(Problem):
    """A problem with losses on a sphere around the worst point: nearly every child is a vertex."""

    def __init__(self, m: int) -> None:
        self.space = Box(np.zeros(m), np.ones(m))
        self.metrics = tuple(Metric(f"loss_{j}", "min", high=1.0) for j in range(m))
        self.fingerprint = f"sphere/{m}"

    @staticmethod
    def losses(X: Array) -> FloatArray:
        """Return the losses of genes, shape (n, m)."""
        return np.asarray(1.0 - X / np.sqrt((X**2).sum(axis=1, keepdims=True)))

    def evaluate(self, X: Array, streams: object) -> dict[str, FloatArray]:
        """Return the losses by name."""
        return dict(zip(self.metric_names, self.losses(X).T, strict=True))


def searched(
    cls: Callable[..., FCHEMOA | CHEMOA | NDFCHEMOA],
    n: int,
    evaluations: int,
    problem: Problem | None = None,
) -> tuple[float, float]:
    """Return the VAS and the CPU seconds of a search by ask and tell, without evaluations."""
    problem = problem or FunctionProblem("zed1")
    roles = Roles(problem.metrics, [Objective(name, "min") for name in problem.metric_names])
    vas = seconds = 0.0
    for seed, stop in ((1, n + 20), (0, evaluations)):  # the first one compiles
        algorithm, first, outside = cls(problem, roles, seed=seed, population=n), 0, 0.0
        begun = time.process_time()
        while first < stop:
            X = asked(algorithm)
            since = time.process_time()
            ids, first = np.arange(first, first + len(X)), first + len(X)
            batch = evaluate_candidates(problem, 0, ids, X)
            outside += time.process_time() - since
            algorithm.tell(batch)
        seconds = time.process_time() - begun - outside
        vas = float(algorithm.outcome().findings["vas"])
    return vas, seconds


# --- by population ----------------------------------------------------------------------------

HEADS = "search,n from,to,ms there,and there,exponent,Table 6,its exponent there"
TERMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "n^2": lambda n: n**2,
    "n log n": lambda n: n * np.log(n),
    "n^2 log n": lambda n: n**2 * np.log(n),
}
TABLE_6: tuple[tuple[str, dict[str, int], str], ...] = (
    ("two_arch2", {}, "n^2"),
    ("nsga3", {}, "n^2"),
    ("moea_dd", {}, "-"),
    ("rvea", {"horizon": 10_000}, "n^2"),
    ("ar_moea", {}, "-"),
    ("mpso_d", {"horizon": 10_000}, "-"),
)
"""Searches with their options, and their time by population in the 3DFCH-EMOA paper."""

GENERATIONS = 15


def bench_complexity(args: argparse.Namespace) -> None:
    """Print exponents of CPU time by population on ZED1, beside those in the paper."""
    rows = by_population(args.sizes)
    print_table(
        "A generation, or one step of a hull search, by the size of the population", HEADS, rows
    )
    if args.out is not None:
        with args.out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([HEADS.split(","), *rows])


def grown(
    search: str, sizes: Sequence[int], seconds: Sequence[float], paper: str
) -> tuple[str, ...]:
    """Return a row with the slope of log seconds over log sizes, and that of the paper's term."""
    n = np.array(sizes, dtype=float)
    theirs = f"{slope(n, TERMS[paper](n)):.2f}" if paper in TERMS else ""
    ends = f"{sizes[0]:,}", f"{sizes[-1]:,}", f"{seconds[0] * 1e3:.3g}", f"{seconds[-1] * 1e3:.3g}"
    return search, *ends, f"{slope(n, np.array(seconds)):.2f}", paper, theirs


def slope(sizes: np.ndarray, seconds: np.ndarray) -> float:
    """Return the exponent of the power of the sizes that fits the seconds best."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def by_population(sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the rows of searches on ZED1, without the time of evaluations."""
    problem: Problem = FunctionProblem("zed1")
    roles = Roles(problem.metrics, [Objective(name, "min") for name in problem.metric_names])
    rows = []
    for kind, more, paper in TABLE_6:
        search = partial(generation, {"kind": kind, **more}, problem, roles)
        search(sizes[0])  # compiles
        rows.append(grown(kind, sizes, [search(n) for n in sizes], paper))
    for name, cls, paper in (
        ("3DCH-EMOA", CHEMOA, "n^2 log n"),
        ("3DFCH-EMOA", FCHEMOA, "n log n"),
    ):
        seconds = [searched(cls, n, GENERATIONS * n)[1] / (GENERATIONS * n) for n in sizes]
        rows.append(grown(f"{name}, a step", sizes, seconds, paper))
    return rows


def generation(options: dict[str, Any], problem: Problem, roles: Roles, n: int) -> float:
    """Return the CPU seconds of a generation of a search with a population of n."""
    run = peers.ours(options | {"population": n}, problem, roles, 0, GENERATIONS * n)
    return run.seconds / GENERATIONS
