"""Speed of convex-hull evolution: ``python scripts/bench.py hull``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from bench import print_table, rate

from algorithms.hull.kernels import network as kernels
from algorithms.hull.kernels import populations
from algorithms.hull.reference import THREE_CLASSES, ExactReference
from algorithms.hull.searches import CHEMOA, FCHEMOA
from algorithms.moves import reals
from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.jit import njit
from framework.problems.functions import FunctionProblem
from framework.roles import Objective, Roles

STEPS = 1 << 20
# CPU seconds of a prototype: the search in one compiled loop, 3DCH-EMOA
PROTOTYPE = {100: (0.10, 2), 300: (0.108, 6), 1000: (0.115, 28)}
_COMPLETE = 1000  # members up to which 3DCH-EMOA is run to the end
PAPER = {100: (360, 2640), 300: (553, 19300), 1000: (1100, 272000)}


def bench_hull(args: argparse.Namespace) -> None:
    """Print CPU seconds of searches on ZED1 beside the paper's, and masks a second."""
    rows = []
    for n in args.populations:
        fast, slow = (f"{t:,}" for t in PAPER[n]) if n in PAPER else ("", "")
        loop_seconds, slow_seconds = (
            (f"{t:g}" for t in PROTOTYPE[n]) if n in PROTOTYPE else ("", "")
        )
        vas, seconds = compiled(n, args.evaluations)
        name = "3DFCH-EMOA, compiled loop"
        rows.append((name, str(n), f"{vas:.5f}", f"{seconds:.3f}", loop_seconds, fast))
        vas, seconds = searched(FCHEMOA, n, args.evaluations)
        name = "3DFCH-EMOA, ask and tell"
        rows.append((name, str(n), f"{vas:.5f}", f"{seconds:.2f}", "", fast))
        few = args.evaluations if n <= _COMPLETE else min(args.evaluations, n + 500)
        vas, seconds = searched(CHEMOA, n, few)
        name, seconds = f"3DCH-EMOA (of {few:,})", seconds * args.evaluations / few
        rows.append((name, str(n), f"{vas:.5f}", f"{seconds:.1f}", slow_seconds, slow))
    title = f"ZED1, {args.evaluations:,} evaluations: CPU seconds"
    print_table(title, ("search", "n", "VAS", "here", "prototype", "paper"), rows, left=1)
    rates = []
    for inputs, records in ((14, 172), (57, 1150), (166, 119)):
        plain, ours = mask_rates(inputs, records)
        size = f"{inputs} x {records}"
        rates.append((size, f"{plain:,.0f}", f"{ours:,.0f}", f"{ours / plain:.1f}"))
    heads = ("inputs x records", "numpy, a mask at a time", "here", "times")
    print_table("Masks of an n-10-6-2 network a second", heads, rates)


def searched(cls: Callable[..., FCHEMOA | CHEMOA], n: int, evaluations: int) -> tuple[float, float]:
    """Return VAS and the CPU seconds of a search through ask and tell, evaluation left out."""
    problem = FunctionProblem("zed1")
    roles = Roles(problem.metrics, [Objective(name, "min") for name in problem.metric_names])
    vas = seconds = 0.0
    for seed, stop in ((1, n + 20), (0, evaluations)):
        algorithm, first, outside = cls(problem, roles, seed=seed, population=n), 0, 0.0
        begun = time.process_time()
        while first < stop:
            X = algorithm.ask()
            assert X is not None
            since = time.process_time()
            values = {k: np.asarray(v) for k, v in problem.evaluate(X, None).items()}  # type: ignore[arg-type]
            batch = Evaluated(np.arange(first, first + len(X)), X, values)
            outside += time.process_time() - since
            algorithm.tell(batch)
            first += len(X)
        seconds = time.process_time() - begun - outside
        vas = float(algorithm.outcome().findings["vas"])
    return vas, seconds


def compiled(n: int, evaluations: int) -> tuple[float, float]:
    """Return VAS and CPU seconds of variation, evaluation and selection in one compiled loop."""
    reference = ExactReference(THREE_CLASSES)
    vas = seconds = 0.0
    for seed, stop in ((1, n + 20), (0, evaluations)):
        rng = np.random.default_rng(seed)
        population = populations.empty_population(reference.fixed, n)
        genomes = np.zeros((len(population.ids), 3))
        begun = time.process_time()
        loop(population, n, genomes, rng.random((n, 3)), rng.random((stop - n, 16)))
        seconds = time.process_time() - begun
        vas = reference.share(int(population.hull.counts[2]))
    return vas, seconds


@njit
def loop(
    pop: populations.Population, n: int, genomes: Array, first: Array, draws: FloatArray
) -> None:
    """Run Algorithm 7 on ZED1: random rows, then a child a row of ``draws``."""
    low, high = np.zeros(3), np.ones(3)
    usable, ids, point = np.ones(1, dtype=np.bool_), np.zeros(1, dtype=np.int64), np.zeros((1, 3))
    for step in range(n + len(draws)):
        if step < n:
            child = first[step : step + 1].copy()
        else:
            U = draws[step - n : step - n + 1]
            members = pop.members[: pop.counts[0]]
            a, b = members[int(U[0, 0] * len(members))], members[int(U[0, 1] * len(members))]
            child = reals.recombine_rows(
                genomes[a : a + 1], genomes[b : b + 1], low, high, U[:, 2:8]
            )
            reals.mutate_rows(child, low, high, 1.0 / 3.0, U[:, 8:14])
        x, y, r = child[0, 0] * np.pi / 2, child[0, 1] * np.pi / 2, child[0, 2]
        point[0, 0] = 1.0 - r * np.cos(x) * np.cos(y)
        point[0, 1] = 1.0 - r * np.cos(x) * np.sin(y)
        point[0, 2] = 1.0 - r * np.sin(x)
        ids[0] = step
        whole = np.rint(point * STEPS).astype(np.int64)
        populations.absorb(pop, n, populations.OLDEST, genomes, child, whole, usable, ids, point[0])


def mask_rates(inputs: int, records: int) -> tuple[float, float]:
    """Return masks a second of a numpy loop over masks, and of the kernel."""
    rng = np.random.default_rng(0)
    sizes = np.array([inputs, 10, 6, 2])
    pairs = list(zip(sizes[:-1].tolist(), sizes[1:].tolist(), strict=True))
    weights, biases = rng.normal(size=sum(n * m for n, m in pairs)), rng.normal(size=18)
    V, positive = rng.normal(size=(records, inputs)), rng.random(records) < 0.4
    X = rng.integers(0, 2, size=(100, len(weights)), dtype=np.int8)
    columns = kernels.padded(V)
    w32, b32 = weights[None].astype(np.float32), biases[None].astype(np.float32)

    def plain() -> None:
        for mask in X:
            masked, h, w, b = weights * mask, V, 0, 0
            for layer, (n, m) in enumerate(pairs):
                h = 1 / (1 + np.exp(-h)) if layer else h
                h = h @ masked[w : w + n * m].reshape(n, m) + biases[b : b + m]
                w, b = w + n * m, b + m
            (h[:, 1] > h[:, 0]).sum()

    def ours() -> None:
        kernels.count_errors(columns, positive, w32, b32, sizes, X)

    return rate(plain, len(X)), rate(ours, len(X))
