"""Do fronts over a pool of models keep their promises, with holdout and out-of-fold measures?

    python scripts/promises_libraries.py --splits 12

This needs the data in PARETOLAB_DATA. In each of several splits of a data set, the same small pool
is trained twice: measured on a third of the records, and out-of-fold on all of them. Then both
families are searched and a rule chooses a solution, whose true value is that on the test records.
Pools are stored in the cache, so that a second call only searches.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from timing import count

from algorithms.ensembling.problem import EnsembleProblem
from algorithms.pruning.problem import PruningProblem
from framework.analysis.choose import Rule, choose
from framework.analysis.expectations import expect
from framework.analysis.resamples import Resamples
from framework.arrays import Array, FloatArray
from framework.data.splits import MeasureConfig
from framework.estimators.search import search
from framework.libraries.build import build_library
from framework.libraries.config import LibrarySection, measured_as
from framework.libraries.library import Library
from framework.problem import Problem
from framework.roles import Objective, Roles
from framework.run.display import Display
from framework.streams import CandidateStreams

FAMILIES = (
    "logistic_regression", "lda", "naive_bayes", "knn", "decision_tree", "random_forest",
)  # fmt: skip
DATA: Mapping[str, float] = {  # data sets, and the share of records for the test
    "pima": 0.25,
    "heart_failure": 0.25,
    "german": 0.25,
    "default_credit": 0.98,
}
MEASURES = {"holdout": MeasureConfig(kind="holdout"), "out-of-fold": None}


class Case(NamedTuple):
    """A family of problems, its search, and the rule that chooses a solution."""

    title: str
    problem: type[EnsembleProblem] | type[PruningProblem]
    best: str
    where: str
    algorithm: str


CASES = (
    Case("ensembling", EnsembleProblem, "roc_auc", "members<=4", "pareto_es"),
    Case("pruning", PruningProblem, "balanced_accuracy", "members<=5", "local_search"),
)


class Chosen(NamedTuple):
    """The claimed, expected and true value of a chosen solution, with the range expected."""

    claimed: float
    expected: float
    true: float
    low: float
    high: float


def pool(name: str, seed: int, measure: MeasureConfig | None, models: int) -> Library:
    """Return the pool of a split; ``measure`` None is the default, out-of-fold."""
    build = {
        "name": f"promises-{name}",
        "dataset": {"name": name},
        "families": FAMILIES,
        "models": models,
        "measured": False,
        "keep_models": False,
        "split": {"test": DATA[name], "seed": seed},
        "seed": seed,
    }
    section = measured_as(LibrarySection.model_validate({"build": build}), measure)
    assert section.build is not None
    return build_library(section.build, workers="serial", display=Display(quiet=True))


def measured(library: Library, case: Case, evaluations: int, seed: int) -> Chosen:
    """Search, choose by the rule, and return the values of the chosen solution."""
    problem: Problem = case.problem(library)
    seen: list[Array] = []
    evaluate = problem.evaluate

    def recording(X: Array, streams: Any = None) -> Mapping[str, Array]:
        seen.append(np.array(X))
        return evaluate(X, streams)

    problem.evaluate = recording  # type: ignore[method-assign]
    roles = Roles(problem.metrics, [Objective(case.best, "max"), Objective("members", "min")])
    front = search(problem, roles, case.algorithm, evaluations, seed).front
    X = np.unique(np.concatenate(seen), axis=0)
    chosen = choose(front, where=[case.where], best=case.best)
    position = int(np.flatnonzero((front.X[chosen] == X).all(axis=1))[0])
    outcomes = problem.outcomes(X)
    assert outcomes is not None
    rule = Rule(front, where=[case.where], best=case.best)
    promise = expect(Resamples(outcomes, seed), rule, position).of[case.best]
    one = np.zeros(1, dtype=np.int64)
    tested = problem.evaluate_test(X[position : position + 1], CandidateStreams(seed, one))
    assert tested is not None
    return Chosen(*promise[:2], float(tested[case.best][0]), promise.low, promise.high)


def shown(gaps: FloatArray) -> str:
    return f"{100 * gaps.mean():+.1f} ({100 * np.sqrt(np.mean(gaps**2)):.1f})"


def row(case: Case, name: str, by_kind: Mapping[str, Sequence[Chosen]]) -> str:
    """Return a line of the table: differences in hundredths, root mean squares in brackets."""
    cells = [case.title, name.replace("_", " ")]
    tables = {key: np.array(values) for key, values in by_kind.items()}
    for table in tables.values():
        claimed, expected, true, low, high = table.T
        held = np.sum((low <= true) & (true <= high))
        cells += [shown(claimed - true), shown(expected - true)]
        cells += [f"{held} of {len(true)} ({np.mean(high - low):.2f})"]
    cells += [" -> ".join(f"{100 * table[:, 2].mean():.1f}" for table in tables.values())]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=count, default=12)
    parser.add_argument("--models", type=count, default=18)
    parser.add_argument("--evaluations", type=count, default=2000)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    args = parser.parse_args()
    heads = [
        f"{key}: {what}"
        for key in MEASURES
        for what in ("claimed - true", "expected - true", "range holds (width)")
    ]
    print(f"| family | data | {' | '.join(heads)} | true, holdout -> out-of-fold |")
    print("| --- " * (len(heads) + 3) + "|")
    for name in args.data:
        by_case: dict[str, dict[str, list[Chosen]]] = {
            c.title: {m: [] for m in MEASURES} for c in CASES
        }
        for seed in range(args.splits):
            for key, measure in MEASURES.items():
                library = pool(name, seed, measure, args.models)
                for case in CASES:
                    by_case[case.title][key].append(measured(library, case, args.evaluations, seed))
        for case in CASES:
            print(row(case, name, by_case[case.title]), flush=True)


if __name__ == "__main__":
    main()
