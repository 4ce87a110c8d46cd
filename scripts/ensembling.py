"""HAPEns and its rivals: experiments EXP1 to EXP6 of the paper, on libraries that are built here.

    python scripts/ensembling.py [--out DIR] [--data NAME ...] [--models 60] [--seeds 5]
                                 [--budget equal|paper|time] [--library FOLDER ...] [--no-mlflow]

A library of models is built for each data set (in DIR/libraries, once) or read from FOLDER; then
every method searches it with every seed. Budgets: `equal` gives each 50 evaluations a model;
`paper` gives the population searches 3 a model and the greedy ones 100 steps (33 times as many
evaluations); `time` gives each the same half second. Every method's front is chosen on validation
predictions and scored on test records; the paper's reading, in which all ensembles compete with
their test losses, is a second row of tables called hindsight.

DIR/BUDGET gets rows/ (a file for each data set, method and seed: what is there is not run again),
tables and figures, and report.md with all of them; they are one run in the MLflow experiment
paper-hapens.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import study
from ensembling_report import write_report
from ensembling_scores import COSTS
from rich.console import Console
from rich.progress import track

from algorithms.ensembling.problem import EnsembleConfig, EnsembleProblem
from framework import registry
from framework.arrays import Array
from framework.errors import ParetolabError
from framework.experiment.config import TrackingConfig
from framework.front import nondominated
from framework.journal import Journal
from framework.problem import Problem
from framework.roles import Objective, Roles
from framework.run.driver import run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.streams import RowStreams

FROM_FILES = (
    "heart_failure",
    "pima",
    "australian",
    "german",
    "ionosphere",
    "parkinsons",
    "sonar",
    "qsar_biodeg",
    "messidor_drd",
    "spambase",
    "liver_bupa",
    "heart_statlog",
)
FROM_SKLEARN = ("breast_cancer", "digits")
SECONDS = 0.5
STEPS = {"equal": 50, "paper": 100, "time": 1_000_000}
PER_MODEL = {"equal": 50, "paper": 3}


class Method(NamedTuple):
    """A search and its parameters, under the name that tables show."""

    kind: str
    parameters: Mapping[str, Any] = {}


MAIN = {
    "single best": Method("single_best"),
    "all singles": Method("singles"),
    "GES*": Method("ges"),
    "Multi-GES": Method("multi_ges", {"weight": 0.68}),
    "Multi-GES (double charge)": Method("multi_ges", {"weight": 0.68, "cost_charging": "own"}),
    "QO-ES": Method("qo_es"),
    "QDO-ES": Method("qdo_es"),
    "HAPEns": Method("hapens"),
    "Pareto-ES": Method("pareto_es"),
    "local search": Method("local_search", {"neighbours": 10, "batch": 60}),
    "NSGA-II": Method("nsga2", {"population": 60}),
    "random": Method("random"),
}
COST_METRICS = {  # EXP5
    f"HAPEns by {cost}": Method("hapens", {"behavior": ["loss_correlation", cost]})
    for cost in (*COSTS, "members")
}
WEIGHTS = {  # EXP6
    f"{weight:.2f}": Method("multi_ges", {"weight": float(weight)})
    for weight in np.linspace(0, 1, 20)
}
GREEDY = ("ges", "multi_ges")


def library_section(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration of the library of a data set."""
    source = {"sklearn": name} if name in FROM_SKLEARN else {"name": name}
    build = {"name": name, "dataset": source, "models": options.models}
    return {"path": options.out / "libraries" / name, "build": build}


def searched(problem: Problem, method: Method, seed: int, budget: str) -> pd.DataFrame:
    """Run a method; return the ensembles that count: the returned and the validation front's.

    Columns: ``returned``, ``weights`` (a text that equal ensembles share), ``val_loss``,
    ``test_loss``, the costs and ``members``.
    """
    objectives = [Objective("roc_auc", "max"), *(Objective(cost, "min") for cost in COSTS)]
    roles = Roles(problem.metrics, objectives)
    parameters = dict(method.parameters)
    if method.kind in GREEDY:
        parameters["iterations"] = STEPS[budget]
    algorithm = registry.load("algorithms", method.kind)(problem, roles, seed=seed, **parameters)
    limit = Budget(seconds=SECONDS)
    if budget != "time":
        share = STEPS[budget] if method.kind in GREEDY else PER_MODEL[budget]
        limit = Budget(evaluations=share * problem.space.d)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        shape = {
            "metrics": problem.metric_names,
            "d": problem.space.d,
            "dtype": problem.space.dtype,
        }
        with Journal(path, {"seed": seed}, **shape) as journal:
            evaluator = SerialEvaluator(problem, seed)
            run(problem, algorithm, evaluator, budget=limit, journal=journal)
            batches = [batch for batch, _ in journal.batches()]
    X = np.concatenate([batch.X for batch in batches])
    columns = ("roc_auc", *COSTS, "members")
    values = {n: np.concatenate([batch.values[n] for batch in batches]) for n in columns}
    losses = np.column_stack([1.0 - values["roc_auc"], *(values[cost] for cost in COSTS)])
    front = nondominated(losses)
    returned = front.copy()  # what a search returns that has no archive of its own
    if (ids := algorithm.outcome().returned) is not None:
        returned[:] = False
        returned[ids] = True
    kept = np.flatnonzero(returned | front)
    return rows_of(problem, X[kept], {n: v[kept] for n, v in values.items()}, returned[kept])


def rows_of(
    problem: Problem, X: Array, values: Mapping[str, Array], returned: Array
) -> pd.DataFrame:
    """Return a row an ensemble, with its test loss."""
    tested = problem.evaluate_test(X, RowStreams(0, np.arange(len(X))))
    if tested is None:
        raise ParetolabError("library: expected predictions on test records, found none")
    divisor = np.gcd.reduce(X, axis=1)[:, np.newaxis]
    return pd.DataFrame(
        {
            "returned": returned,
            "weights": [row.tobytes().hex() for row in (X // divisor).astype(np.int16)],
            "val_loss": 1.0 - values["roc_auc"],
            "test_loss": 1.0 - tested["roc_auc"],
            **{name: values[name] for name in (*COSTS, "members")},
        }
    )


def gathered(
    problems: Mapping[str, Problem],
    methods: Mapping[str, Method],
    options: argparse.Namespace,
    out: Console,
) -> pd.DataFrame:
    """Run what is not there yet; return all rows, with data, method and seed."""
    place = options.out / options.budget / "rows"
    place.mkdir(parents=True, exist_ok=True)
    tasks = [(d, m, s) for d in problems for m in methods for s in range(options.seeds)]
    frames = []
    quiet = not sys.stdout.isatty()
    for data, name, seed in track(tasks, "searches", console=out, disable=quiet):
        method = methods[name]
        texts = [f"{key}={value}" for key, value in sorted(method.parameters.items())]
        label = "-".join([data, method.kind, *texts, str(seed)])
        path = place / f"{label.replace(' ', '')}.parquet"
        if not path.is_file():
            rows = searched(problems[data], method, seed, options.budget)
            rows.to_parquet(path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
        frames.append(pd.read_parquet(path).assign(data=data, method=name, seed=seed))
    return pd.concat(frames, ignore_index=True)


def problems_of(options: argparse.Namespace, out: Console) -> dict[str, Problem]:
    """Build or read the libraries; return a problem for each."""
    sections = {n: library_section(n, options) for n in options.data}
    sections |= {Path(path).name: {"path": path} for path in options.library}
    problems: dict[str, Problem] = {}
    for name, section in sections.items():
        out.print(f"library of {name}", highlight=False)
        config = EnsembleConfig.model_validate({"library": section, "score": "roc_auc"})
        problems[name] = EnsembleProblem.from_config(config)
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the searches that are missing, then write tables, figures and the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    study.add_options(parser, "runs/ensembling")
    parser.add_argument("--data", nargs="*", default=[*FROM_FILES, *FROM_SKLEARN])
    parser.add_argument("--library", nargs="*", default=[], help="libraries that are there")
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", choices=["equal", "paper", "time"], default="equal")
    options = parser.parse_args(arguments)
    out = Console(width=None if sys.stdout.isatty() else 120)
    problems = problems_of(options, out)
    rows = {
        group: gathered(problems, methods, options, out)
        for group, methods in (("main", MAIN), ("costs", COST_METRICS), ("weights", WEIGHTS))
    }
    place = options.out / options.budget
    write_report(rows, place, options.budget, out)
    study.log(place, TrackingConfig(), f"ensembling-{options.budget}", options, "paper-hapens")
    return 0


if __name__ == "__main__":
    sys.exit(study.run(main))
