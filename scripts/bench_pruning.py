"""Gap and bound of the strong form against the program as printed, on the same pools.

Of folders of libraries; without any, a pool is made up. Both forms are solved in this process, each
for as many seconds of its processor. Printed beside: what the paper reports (K = 100, CPLEX 12.8,
8 cores, 300 s) for sets of that name. Its pools were other ones.

With ``--effort``: the gap of the strong form by classifiers and records, after as many simplex
iterations each: a library's first so many classifiers, on all of its validation records or on each
second or fourth one.

With ``--workers``: the time to one gap in rounds of eight boxes, in this process (0) and on so many
workers of a local Ray, by the clock and of all their processors, and whether the proof is the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import numpy as np
import psutil
from bench import print_table

from algorithms.pruning.branch_and_bound.instance import Instance
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, share_of_gap
from algorithms.pruning.papers.printed_program import Program
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import weights_of
from framework.libraries.library import Library, load_library
from framework.preparation import InProcess, Workforce

PAPER = {  # by what a library's name holds
    ("parkinsons", "prk"): 0.0,
    ("breast_cancer", "bcw"): 0.0,
    ("musk", "msk"): 0.0,
    ("qsar", "qsr"): 0.0,
    ("messidor", "drd"): 4.3,
    ("spambase", "spa"): 0.0,
    ("default_credit", "def"): 6.7,
    ("bank_marketing", "bmk"): 5.4,
}


def made_up(k: int = 40, n: int = 600, seed: int = 0) -> Library:
    """Return a pool whose members fail together on some records."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    hard = rng.random(n)
    right = rng.random((k, n)) < np.where(hard < 0.3, 0.45, rng.uniform(0.7, 0.9, (k, 1)))
    P = np.where(np.where(right, y, ~y), 0.9, 0.1)
    return Library.from_arrays(
        [f"m{i}" for i in range(k)], P, y.astype(int), [0, 1], name="made_up"
    )


def strong(problem: PruningProblem, weights: str, seconds: float) -> tuple[float, float, float]:
    """Return value, bound and processor seconds of the strong form."""
    start = time.process_time()
    instance = Instance.of(problem.votes, weights_of(weights, *problem.votes.totals))
    solver = BranchAndBound(instance)
    while not solver.done and time.process_time() - start < seconds:
        solver.step()
    assert solver.incumbent is not None
    return solver.incumbent.value, solver.bound, time.process_time() - start


def printed(problem: PruningProblem, weights: str, seconds: float) -> tuple[float, float, float]:
    """Return value, bound and processor seconds of the program as printed, by HiGHS."""
    start = time.process_time()
    library = problem.library
    positive = np.asarray(library.y_validation) == problem.positive
    votes = np.asarray(library.validation) > 0.5
    votes = votes if problem.positive == 1 else np.asarray(library.validation) < 0.5
    found = Program(votes, positive, weights_of(weights, *problem.votes.totals)).solve(
        seconds=seconds
    )
    return found.value, found.bound, time.process_time() - start


def part(library: Library, models: int, every: int) -> PruningProblem:
    """Return the problem of a library's first models on each so-manieth record."""
    return PruningProblem(
        Library.from_arrays(
            library.ids[:models],
            np.asarray(library.validation)[:models, ::every],
            np.asarray(library.y_validation)[::every],
            library.classes,
            name=library.name,
        )
    )


def effort(library: Library, weights: str, iterations: int) -> Iterator[tuple[str, ...]]:
    """Yield models, records, share of the second class, gap, and iterations, parts of a library."""
    k = len(library)
    sizes = [(models, 1) for models in range(20, k, 20)] + [(k, 1), (k, 2), (k, 4)]
    for models, every in sizes:
        problem = part(library, models, every)
        n0, n1 = problem.votes.totals
        solver = BranchAndBound(Instance.of(problem.votes, weights_of(weights, n0, n1)))
        while not solver.done and solver.iterations < iterations:
            solver.step()
        spent = f"{solver.iterations}" if solver.done else ""
        yield str(models), str(n0 + n1), f"{n1 / (n0 + n1):.2f}", f"{solver.gap:.2%}", spent


BOXES = 8  # of a round


def rounds(instance: Instance, gap: float, workers: Workforce) -> BranchAndBound:
    """Return the solve in rounds, where its gap is small enough or the proof complete."""
    solver = BranchAndBound(instance)
    while not solver.done and solver.gap > gap:
        solver.step(BOXES, workers)
    return solver


def by_workers(
    library: Library, weights: str, gap: float, numbers: list[int]
) -> Iterator[tuple[str, ...]]:
    """Yield pool, workers, seconds by the clock, here and theirs of CPU, value, bound, programs."""
    from framework.parallel.cluster import cluster
    from framework.parallel.ray_evaluator import RayEvaluator

    problem = PruningProblem(library)
    instance = Instance.of(problem.votes, weights_of(weights, *problem.votes.totals))
    for number in numbers:
        with ExitStack() as stack:
            workforce: Workforce = InProcess()
            processes = [psutil.Process()]
            if number:
                joined = stack.enter_context(cluster(number))
                workforce = stack.enter_context(
                    closing(RayEvaluator(problem, 0, workers=joined.workers))
                )
                BranchAndBound(instance, looks=1).step(BOXES, workforce)  # starts the workers
                list(workforce.map(_pause, None, range(8 * number)))
                processes += [psutil.Process(pid) for pid in workforce.pids()]
            before, start = [_spent(p) for p in processes], time.perf_counter()
            solver = rounds(instance, gap, workforce)
            wall = time.perf_counter() - start
            here, *there = [_spent(p) - b for p, b in zip(processes, before, strict=True)]
        assert solver.incumbent is not None
        value, bound = f"{solver.incumbent.value:g}", f"{solver.bound:g}"
        yield (
            library.name,
            f"{number}" if number else "this process",
            *(
                f"{wall:.1f}",
                f"{here:.1f}",
                f"{sum(there):.1f}",
                value,
                bound,
                f"{solver.programs}",
            ),
        )


def _pause(_: None, piece: int) -> int:
    """Take so long that each worker gets one of these."""
    time.sleep(0.2)
    return piece


def _spent(process: psutil.Process) -> float:
    """Return the seconds of the processor that a process has had."""
    times = process.cpu_times()
    return float(times.user + times.system)


def bench_pruning(args: argparse.Namespace) -> None:
    """Print value, bound and gap of both forms, or of the strong one by sizes."""
    pools = [load_library(path) for path in args.libraries] or [made_up()]
    if args.workers:
        strong(PruningProblem(pools[0]), args.weights, 0.0)  # compiles
        timed = (
            row for pool in pools for row in by_workers(pool, args.weights, args.gap, args.workers)
        )
        columns = (
            "pool",
            "workers",
            "seconds",
            "CPU s here",
            "theirs",
            "value",
            "bound",
            "programs",
        )
        print_table(None, columns, timed, left=1)
        return
    if args.effort:
        heads = ("pool", "classifiers", "records", "positive", "gap", "iterations to the proof")
        sizes = (
            (pool.name, *row) for pool in pools for row in effort(pool, args.weights, args.effort)
        )
        print_table(None, heads, sizes, left=1)
        return
    rows = []
    for library in pools:
        problem = PruningProblem(library)
        strong(problem, args.weights, 0.0)  # compiles
        gaps = (f"{g:.1f}%" for names, g in PAPER.items() if any(n in library.name for n in names))
        known = next(gaps, "")
        for form, solve in (("as printed, HiGHS", printed), ("strong", strong)):
            value, bound, spent = solve(problem, args.weights, args.seconds)
            gap = share_of_gap(bound, value) if np.isfinite(value) else float("inf")
            numbers = f"{value:g}", f"{bound:.6g}", f"{gap:.2%}", f"{spent:.1f}", known
            rows.append((library.name, form, *numbers))
    print_table(
        None, ("pool", "form", "value", "bound", "gap", "CPU s", "paper's gap"), rows, left=2
    )
