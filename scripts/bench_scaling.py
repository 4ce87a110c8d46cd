"""What a search costs as features, records and population grow: the section `scaling` of bench.py.

Sub-classifiers are made up (evidence of the features, added) and held before the clock starts, so
that only the search is timed: proposing, scoring, ranking, the archive. Time is CPU time of one
process.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from algorithms.multistage.bit_planes import features_of, pack
from algorithms.multistage.data import FeatureCosts, Source, StageData
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.problem import MultiStageProblem
from framework.arrays import WordArray
from framework.components import Components
from framework.roles import Objective, Roles
from framework.run.driver import Callback, Progress
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget

FEATURES, RECORDS, POPULATIONS = (12, 30, 60), (1_000, 10_000, 100_000), (100, 300, 1000)
OBJECTIVES = [Objective("coverage", "max"), Objective("accuracy", "max"), Objective("cost", "min")]
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


class Count(Callback):
    """Keeps the last progress."""

    last = Progress()

    def on_batch(self, progress: Progress) -> None:
        self.last = progress


def search(problem: MultiStageProblem, population: int, generations: int) -> tuple[float, Progress]:
    """Return the CPU seconds of a search, and how it ended."""
    roles = Roles(problem.metrics, OBJECTIVES)
    algorithm = EMSCO(problem, roles, seed=0, population=population)
    count, start = Count(), time.process_time()
    run(
        problem,
        algorithm,
        SerialEvaluator(problem),
        budget=Budget(generations=generations),
        callbacks=[count],
    )
    return time.process_time() - start, count.last


def bench_scaling(args: argparse.Namespace) -> None:
    """Print generations a second and microseconds an evaluation over a grid of sizes."""
    search(MadeUp(6, 400), 20, 3)  # compile
    title = f"EMSCO, {args.generations} generations, sub-classifiers held, at most 4 stages"
    table = Table(title=title, title_justify="left")
    for name in (
        "features",
        "records",
        "population",
        "generations/s",
        "µs an evaluation",
        "front",
        "sub-classifiers",
        "MB held",
    ):
        table.add_column(name, justify="right")
    for features in FEATURES:
        for records in RECORDS:
            problem = MadeUp(features, records)
            for population in POPULATIONS:
                search(problem, population, args.generations)
                seconds, end = min(
                    (search(problem, population, args.generations) for _ in range(args.repeats)),
                    key=lambda pair: pair[0],
                )
                held = problem.n_components * 8 * (1 + 3 * problem.data.words)
                table.add_row(
                    str(features),
                    f"{records:,}",
                    f"{population:,}",
                    f"{end.generation / seconds:,.0f}",
                    f"{seconds / end.evaluations * 1e6:.1f}",
                    f"{end.front_size:,}",
                    f"{problem.n_components:,}",
                    f"{held / 1e6:,.0f}",
                )
    Console(width=110).print(table)
