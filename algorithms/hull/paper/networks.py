"""Sparse networks: Tables 10 to 12 of the 3DFCH-EMOA paper, and what it claims of them.

Accuracy is of test records. ``chosen``: of the returned network that is best on validation
records; ``hindsight``: the highest of all returned, which is how the paper reads ("the highest
accuracy in the population is listed").
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from algorithms.hull.network import NetworkProblem
from framework.analysis.compare import ComparedRun, Comparison
from framework.analysis.page import Claim, Page, Ranking
from framework.analysis.rank_tests import rank_tests
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.front import Front

WHOLE, MAJORITY = "no pruning", "majority"
HULLS = ("3DCH-EMOA", "3DFCH-EMOA")
READINGS = ("chosen", "hindsight")


def page(comparison: Comparison) -> Page:
    """Return Tables 10 to 12, ranks of the searches, and claims."""
    rows, data = accuracies(comparison), []
    tables, rankings = {}, {}
    for reading in READINGS:
        table = _by_data(comparison, rows, reading)
        tables[f"table11_{reading}"] = table.reset_index(names="data")
        methods = [WHOLE, *comparison.methods]
        whole = table[methods].dropna()  # data that all methods are done with
        if min(whole.shape) > 1:
            tests = {"accuracy": rank_tests(-whole.to_numpy())}
            rankings[f"table11_{reading}"] = Ranking(methods, tests, "data sets")
    paper = pd.DataFrame(
        {
            group: {method: values.get("accuracy") for method, values in of.items()}
            for group, of in comparison.paper.items()
        }
    ).T
    if len(paper):
        tables["table11_paper"] = paper.reset_index(names="data")
    for case in comparison.cases:
        about = dict(RunDir(case.runs[0].path).about()["data"])
        known = ("records", "features", "positive", "train", "validation", "test")
        data.append({"data": case.name, **{name: about.get(name) for name in known}})
    tables["table10"] = pd.DataFrame(data)
    tables["table12"] = _times(comparison)
    text = (
        "Table 11: accuracy on test records; chosen: of the returned network that is best on "
        "validation records; hindsight: the highest of all returned, as in the paper. No pruning "
        "is the trained network, majority always answers the class that most training records "
        "have. Table 12: mean seconds of a run of equal evaluations, and those of them spent on "
        "scoring masks."
    )
    claims = _claims(comparison, tables["table11_hindsight"].set_index("data").dropna())
    return Page("Sparse networks", text, claims, tables, {}, rankings)


def accuracies(comparison: Comparison) -> pd.DataFrame:
    """Return a row a run: data, method, ``chosen`` and ``hindsight``.

    The trained network and the majority are methods of it too, in each case once.
    """
    rows = []
    for case in comparison.cases:
        group = case.group or case.name
        for run in case.runs:
            rows.append({"data": group, "method": run.method, **_of_run(run)})
        for name, value in _baselines(RunDir(case.runs[0].path)).items():
            rows.append({"data": group, "method": name, **dict.fromkeys(READINGS, value)})
    return pd.DataFrame(rows)


def _of_run(run: ComparedRun) -> dict[str, float]:
    place = RunDir(Path(run.path))
    file = place.returned_file if place.returned_file.is_file() else place.front_file
    frame = Front.load(file, place.roles()).frame()
    if not len(frame):
        return dict.fromkeys(READINGS, np.nan)
    values = frame["test_accuracy"].to_numpy(dtype=np.float64)
    best = int(frame["accuracy"].to_numpy().argmax())
    return {"chosen": float(values[best]), "hindsight": float(values.max())}


def _baselines(place: RunDir) -> dict[str, float]:
    """Return the test accuracy of the trained network and of the training records' majority."""
    problem = make_problem(place.config())
    assert isinstance(problem, NetworkProblem)
    everything = np.ones((1, problem.space.d), dtype=np.int8)
    whole = problem.evaluate_test(everything, None)  # type: ignore[arg-type]
    if whole is None:
        return {}
    answer = problem.positive.mean() > 0.5
    return {
        WHOLE: float(whole["accuracy"][0]),
        MAJORITY: float(np.mean(problem.test.positive == answer)),
    }


def _by_data(comparison: Comparison, rows: pd.DataFrame, reading: str) -> pd.DataFrame:
    """Return means, a row a data set and a column a method."""
    table = rows.pivot_table(index="data", columns="method", values=reading, sort=False)
    return table[[name for name in (MAJORITY, WHOLE, *comparison.methods) if name in table]]


def _times(comparison: Comparison) -> pd.DataFrame:
    """Return mean seconds by method: whole, of scoring, and the rest; and evaluations."""
    rows = []
    for case in comparison.cases:
        for run in case.runs:
            scoring = RunDir(run.path).summary().get("evaluation_s", np.nan)
            rows.append((run.method, run.evaluations, run.seconds, scoring, run.seconds - scoring))
    columns = ["method", "evaluations", "seconds", "scoring", "overhead"]
    table = pd.DataFrame(rows, columns=columns)
    return table.groupby("method", sort=False).mean().reset_index()


def _claims(comparison: Comparison, table: pd.DataFrame) -> list[Claim]:
    """Say of each claim of Section 4.4.5 what holds, on the data sets at hand."""
    if not len(table) or not {WHOLE, *HULLS} <= set(table):
        return []
    others = [name for name in comparison.methods if name not in HULLS]
    n = len(table)

    def claim(says: str, paper: str, holds: pd.Series[bool], least: float) -> Claim:
        count = int(holds.sum())
        return Claim(says, paper, f"{count} of {n}", count >= least * n)

    better = table[HULLS[1]] > table[WHOLE]
    hulls = table[list(HULLS)].max(axis=1)
    means = table.mean()
    return [
        claim("3DFCH-EMOA is more accurate than no pruning", "13 of 14", better, 0.5),
        claim(
            "3DCH-EMOA or 3DFCH-EMOA is the most accurate",
            "10 of 14",
            hulls >= table[others].max(axis=1),
            0.5,
        ),
        Claim(
            "3DFCH-EMOA is as good as 3DCH-EMOA",
            ".7941 and .7944",
            f"{means[HULLS[1]]:.4f} and {means[HULLS[0]]:.4f}",
            bool(abs(means[HULLS[1]] - means[HULLS[0]]) < 0.005),
        ),
        Claim(
            "3DFCH-EMOA gains over no pruning, in the mean",
            "+.0319 as printed, +.0237 by its rows",
            f"{means[HULLS[1]] - means[WHOLE]:+.4f}",
            bool(means[HULLS[1]] > means[WHOLE]),
        ),
    ]
