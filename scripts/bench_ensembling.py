"""Speed of ensembling: ratios against numpy and scikit-learn, on made-up libraries.

Packages that are installed beside this one (AutoGluon's and phem's greedy selection, phem's QO-ES)
have rows of their own; the loop with numpy and scikit-learn always has. One that is installed but
does not run has a row that says why.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from bench import print_table, rate
from sklearn import metrics
from sklearn.metrics import roc_auc_score

from algorithms.ensembling.kernels.auc import RankTable, auc, exact_auc, rank_table
from algorithms.ensembling.kernels.multiplicities import Multiplicities, multiplicities_of
from algorithms.ensembling.problem import EnsembleProblem
from framework import registry
from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.libraries.library import Cost, Library
from framework.roles import Objective, Roles
from framework.run.evaluator import evaluate_candidates

MODELS, BATCH, PICKS = 60, 40, 5
ITERATIONS, EVALUATIONS = 50, 3000
SEARCHES = ("random", "hapens", "qdo_es", "qo_es", "pareto_es")
IDS = tuple(f"model_{j}" for j in range(MODELS))

# what greedy selection goes by, classes (0: regression), AutoGluon's and scikit-learn's names of it
TARGETS: tuple[tuple[str, int, str | None, str], ...] = (
    ("log_loss", 2, "log_loss", "log_loss"),
    ("accuracy", 2, "accuracy", "accuracy_score"),
    ("balanced_accuracy", 2, "balanced_accuracy", "balanced_accuracy_score"),
    ("brier", 2, None, "brier_score_loss"),
    ("log_loss", 4, "log_loss", "log_loss"),
    ("accuracy", 4, "accuracy", "accuracy_score"),
    ("rmse", 0, "root_mean_squared_error", "root_mean_squared_error"),
    ("mae", 0, "mean_absolute_error", "mean_absolute_error"),
    ("r2", 0, "r2", "r2_score"),
)


class Row(NamedTuple):
    """A row of a table: what was done, how often a second, and a remark."""

    name: str
    rate: float
    note: str = ""


def bench_ensembling(args: argparse.Namespace) -> None:
    for records, classes in ((1000, 2), (10_000, 2), (2000, 5)):
        library = made_up(records, classes)
        text = f"{MODELS} models, {records:,} records, {classes} classes"
        loop = Row(
            "numpy and scikit-learn", loop_rate(library, args.repeats), "a dense mean, then ROC AUC"
        )
        show(f"ROC AUC of ensembles: {text}", "evaluations/s", [loop, *kernel_rows(library, args)])
        if classes == 2:
            rows = greedy_baselines(library, args.repeats)
            rows.append(searched("ges", library, args.repeats, iterations=ITERATIONS))
            show(f"Greedy selection, {ITERATIONS} picks: {text}", "evaluations/s", [loop, *rows])
            rows = search_baselines(library, args.repeats)
            rows += [searched(name, library, args.repeats) for name in SEARCHES]
            show(f"Searches, {EVALUATIONS:,} evaluations: {text}", "evaluations/s", [loop, *rows])
    for records in (1000, 10_000):
        for target in TARGETS:
            show_target(records, *target, args.repeats)


def show_target(
    records: int, score: str, classes: int, autogluons: str | None, sklearns: str, repeats: int
) -> None:
    """Show greedy selection by another score than AUC: ours, AutoGluon's, scikit-learn's score."""
    library = made_up(records, classes)
    rows = [greedy_loop(library, sklearns, repeats)]
    if autogluons is not None:
        rows += autogluons_row(library, autogluons, repeats)
    rows.append(searched("ges", library, repeats, score, iterations=ITERATIONS))
    X = random_rows(1, 2 * PICKS) + np.eye(MODELS, dtype=np.int32)
    problem = EnsembleProblem(library, score=score)
    speed = rate(lambda: problem.evaluate(X), MODELS, repeats)
    rows.append(Row("the problem, parent and one more", speed))
    task = f"{classes} classes" if classes else "regression"
    text = f"{MODELS} models, {records:,} records, {task}"
    show(f"Greedy selection by {score}: {text}", "evaluations/s", rows)


def greedy_loop(library: Library, name: str, repeats: int) -> Row:
    """Return the evaluations per second of the obvious step: each model added, then scored."""
    score = getattr(metrics, name)
    P, y = library.validation.astype(np.float64), library.y_validation
    by_class = name in ("accuracy_score", "balanced_accuracy_score")
    so_far = P[:PICKS].sum(axis=0)

    def step() -> None:
        for p in P:
            mean = (so_far + p) / (PICKS + 1)
            if by_class:
                score(y, mean.argmax(axis=1) if mean.ndim == 2 else mean > 0.5)
            elif mean.ndim == 2:
                score(y, mean / mean.sum(axis=1, keepdims=True))
            else:
                score(y, mean)

    return Row("numpy and scikit-learn", rate(step, MODELS, repeats), "parent and one more")


def made_up(records: int, classes: int) -> Library:
    """Return predictions that know the truth by noise, and costs; values for no classes."""
    rng = np.random.default_rng(0)
    if not classes:
        target = rng.normal(size=records)
        noise = rng.uniform(0.5, 2.0, (MODELS, 1)) * rng.normal(size=(MODELS, records))
        costs = {"memory": Cost(rng.lognormal(0, 1.5, MODELS), "MB")}
        return Library(IDS, (target + noise).astype(np.float32), target, None, costs)
    y = rng.integers(0, classes, records)
    skill = rng.uniform(0.2, 0.7, (MODELS, 1, 1))
    scores = 1.5 * rng.normal(size=(MODELS, records, classes)) + skill * np.eye(classes)[y]
    P = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    return Library(
        ids=IDS,
        validation=(P[:, :, 1] if classes == 2 else P).astype(np.float32),
        y_validation=y,
        classes=tuple(range(classes)),
        costs={
            "memory": Cost(rng.lognormal(0, 1.5, MODELS), "MB"),
            "inference_time": Cost(rng.lognormal(0, 1.5, MODELS), "s/1000 rows"),
        },
        configs=tuple({"family": j % 7, "size": int(rng.integers(9))} for j in range(MODELS)),
    )


def kernel_rows(library: Library, args: argparse.Namespace) -> list[Row]:
    table = rank_table(library.validation, library.y_validation)
    X, step = random_rows(BATCH), random_rows(1, 2 * PICKS) + np.eye(MODELS, dtype=np.int32)
    problem = EnsembleProblem(library)
    multiplicities = multiplicities_of(X)
    error = np.abs(auc(table, multiplicities) - exact_auc(table, multiplicities)).max()

    def measured(f: Callable[[RankTable, Multiplicities], FloatArray], rows: Array) -> float:
        return rate(lambda: f(table, multiplicities_of(rows)), len(rows), args.repeats)

    return [
        Row("integer keys, from scratch", measured(auc, X), f"off by {error:.0e} at most"),
        Row("integer keys, parent and one more", measured(auc, step)),
        Row("float64, from scratch", measured(exact_auc, X)),
        Row(
            "the problem: AUC, costs, diversity",
            rate(lambda: problem.evaluate(X), BATCH, args.repeats),
        ),
    ]


def random_rows(n: int, picks: int = PICKS) -> Array:
    draws = np.random.default_rng(1).integers(0, MODELS, (n, picks))
    return np.stack([np.bincount(row, minlength=MODELS) for row in draws]).astype(np.int32)


def loop_rate(library: Library, repeats: int) -> float:
    """Return the evaluations per second of the obvious program."""
    P, y = library.validation.astype(np.float64), library.y_validation
    tables = np.stack([1.0 - P, P], axis=2) if P.ndim == 2 else P
    X = random_rows(BATCH // 2)

    def evaluate() -> None:
        for x in X:
            mean = np.tensordot(x / x.sum(), tables, 1)
            if tables.shape[2] == 2:
                roc_auc_score(y, mean[:, 1])
            else:
                mean /= mean.sum(axis=1, keepdims=True)
                roc_auc_score(y, mean, multi_class="ovr")

    return rate(evaluate, len(X), repeats)


def searched(
    name: str, library: Library, repeats: int, score: str = "roc_auc", **parameters: Any
) -> Row:
    """Run a search, asking, evaluating and telling."""
    problem = EnsembleProblem(library, score=score)
    sense = problem.metrics[0].sense
    roles = Roles(problem.metrics, [Objective(score, sense), Objective("memory", "min")])

    def search() -> tuple[float, float]:
        algorithm = registry.load("algorithms", name)(problem, roles, seed=0, **parameters)
        start, rows, values = time.process_time(), 0, []
        while rows < EVALUATIONS and (X := algorithm.ask()) is not None:
            batch: Evaluated = evaluate_candidates(problem, 0, np.arange(rows, rows + len(X)), X)
            algorithm.tell(batch)
            rows += len(X)
            values.append(batch.values[score])
        seconds = time.process_time() - start
        found = np.concatenate(values)
        return rows / seconds, float(found.max() if sense == "max" else found.min())

    search()  # compile
    results = [search() for _ in range(repeats)]
    best = max(speed for speed, _ in results)
    return Row(f"{name}, end to end", best, f"best {score} {results[0][1]:.6f}")


def greedy_baselines(library: Library, repeats: int) -> list[Row]:
    """Return rows of greedy selections of other packages, as far as they are installed."""
    rows = autogluons_row(library, "roc_auc", repeats)
    found = installed("phem.methods.ensemble_selection")
    if found is not None:
        y, tables = library.y_validation, two_columns(library)

        def phem() -> None:
            found.EnsembleSelection(tables, ITERATIONS, phem_metric(), n_jobs=1).ensemble_fit(
                tables, y
            )

        rows.append(baseline_row("phem", phem, ITERATIONS * MODELS, repeats))
    return rows


def autogluons_row(library: Library, metric: str, repeats: int) -> list[Row]:
    """Return the row of AutoGluon's greedy selection, if it is installed."""
    found = installed("autogluon.core.models.greedy_ensemble.ensemble_selection")
    if found is None:
        return []
    scorer = getattr(import_module("autogluon.core.metrics"), metric)
    classes = library.classes
    kind = "regression" if classes is None else "binary" if len(classes) == 2 else "multiclass"
    tables = list(library.validation.astype(np.float64))

    def select() -> None:
        found.EnsembleSelection(ITERATIONS, kind, scorer).fit(tables, library.y_validation)

    return [baseline_row("AutoGluon", select, ITERATIONS * MODELS, repeats)]


def search_baselines(library: Library, repeats: int) -> list[Row]:
    """Return the row of phem's population-based search, if it is installed."""
    found = installed("phem.methods.ensemble_selection.qdo")
    if found is None:
        return []
    tables = two_columns(library)

    def search() -> None:
        method = found.QDOEnsembleSelection(
            tables, EVALUATIONS // MODELS, phem_metric(), archive_type="quality", n_jobs=1
        )
        method.ensemble_fit(tables, library.y_validation)

    return [baseline_row("phem's QO-ES", search, EVALUATIONS, repeats)]


def two_columns(library: Library) -> list[FloatArray]:
    P = library.validation.astype(np.float64)
    return list(np.stack([1.0 - P, P], axis=2))


def baseline_row(name: str, work: Callable[[], object], n: int, repeats: int) -> Row:
    """Return another package's row; where it is installed but does not run, with what it said."""
    try:
        return Row(name, rate(work, n, repeats))
    except Exception as error:  # another package may fail in any way
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Row(name, float("nan"), f"does not run here ({said[:80]})")


def phem_metric() -> Any:
    known = import_module("phem.application_utils.supported_metrics")
    return known.msc(metric_name="roc_auc", is_binary=True, labels=[0, 1])


def installed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:  # it, or what it needs
        return None


def show(title: str, unit: str, rows: list[Row]) -> None:
    """Print rows; the first one is what the others are compared with."""
    first = rows[0].rate
    lines = [
        (row.name, "-", "-", row.note)
        if np.isnan(row.rate)
        else (row.name, f"{row.rate:,.0f}", f"{row.rate / first:,.1f}", row.note)
        for row in rows
    ]
    print_table(title, ("", unit, "times the first", ""), lines, left=1)
