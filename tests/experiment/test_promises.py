"""The page of promises, computed again from the fronts of its runs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from framework.experiment.comparison import compare, write_results
from framework.experiment.promises import page
from framework.experiment.run_dir import RunDir
from tests.command import write
from tests.experiment.test_experiment import command

SECTION = {
    "product": {"problem.split.seed": [0, 1]},
    "methods": {
        name: {"kind": "random", "problem": {"classifier": {"kind": kind}}}
        for name, kind in (("bayes", "gaussian_nb"), ("regression", "logistic_regression"))
    },
    "pages": ["promises"],
}


def started(place, **problem):
    """Run the experiment in a folder; return where the results are."""
    table = {"samples": 240, "features": 4, "informative": 3, "class_sep": 0.6, "seed": 2}
    content = {
        "name": "promises",
        "problem": {"kind": "multistage", "dataset": {"synthetic": table}, **problem},
        "objectives": [
            {"metric": "accuracy", "sense": "max"},
            {"metric": "cost", "sense": "min"},
        ],
        "budget": {"evaluations": 80},
        "tracking": None,
        "experiment": SECTION,
    }
    write(place / "promises.yaml", content)
    command(place, "experiment", "promises.yaml", "--out", "out", "--quiet")
    return place / "out"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    split = {"train": 0.3, "validation": 0.2, "test": 0.5}
    return started(tmp_path_factory.mktemp("promises"), split=split)


def test_shares_are_those_of_five_solutions_of_each_front(whole):
    table = pd.read_csv(whole / "tables" / "promises.csv").set_index(["method", "metric"])
    cells = pd.read_csv(whole / "tables" / "ranges_that_hold.csv").set_index("metric")
    assert "stages" not in {metric for _, metric in table.index}
    runs = pd.read_csv(whole / "tables" / "runs.csv")
    for method, of_method in runs.groupby("method"):
        rows = []
        for place in of_method["directory"]:
            front = pd.read_csv(whole / place / "front.csv")
            counts = json.loads((whole / place / "summary.json").read_text())["expected"]
            wider = np.sqrt(1 + counts["searched"] / 2 / counts["tested"])
            some = np.linspace(0, len(front) - 1, min(len(front), 5)).round()
            for _, row in front.iloc[np.unique(some)].iterrows():
                expected, value = row["expected_accuracy"], row["test_accuracy"]
                low, high = (row[f"accuracy_{end}"] for end in ("low", "high"))
                low = max(expected - wider * (expected - low), 0.0)
                high = min(expected + wider * (high - expected), 1.0)
                away = expected - value
                rows.append((low <= value <= high, high - low, row["accuracy"] - value, away))
        holds, width, claimed, expected = np.array(rows, dtype=float).T
        share = f"{100 * holds.mean():.3g}% of {len(rows)}"
        assert cells.loc["accuracy", method].strip("*") == share
        line = table.loc[(method, "accuracy")]
        assert line[["runs", "solutions"]].tolist() == [2, len(rows)]
        means = [holds.mean(), width.mean(), claimed.mean(), expected.mean()]
        assert line.iloc[2:].tolist() == pytest.approx(
            [*means, np.sqrt((expected**2).mean())], abs=1e-4
        )


def test_runs_without_test_records_promise_only(tmp_path):
    comparison = compare([started(tmp_path, split={"train": 0.7, "validation": 0.3, "test": 0})])
    assert not page(comparison).tables
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "No run has both expected values and test records." in report


def test_a_certain_value_holds_though_it_is_rounded_otherwise(whole, tmp_path, monkeypatch):
    """And what misses its range everywhere is named and bold."""
    read = RunDir.front

    def shifted(run_dir):
        front = read(run_dir)
        below, wide = front.test["cost"] * (1 - 1e-12), np.arange(len(front)) == 0
        columns = {"expected_cost": below, "cost_low": below, "cost_high": below + wide}
        less = front.test["accuracy"] - 1e-6
        columns |= {"expected_accuracy": less, "accuracy_low": less - 0.1, "accuracy_high": less}
        return replace(front, expected={**front.expected, **columns})

    monkeypatch.setattr(RunDir, "front", shifted)
    write_results(replace(compare([whole]), wanted_pages=("promises",)), tmp_path)
    table = pd.read_csv(tmp_path / "tables" / "ranges_that_hold.csv").set_index("metric")
    assert table.loc["cost"].str.startswith("100% of").all()
    assert table.loc["accuracy"].str.startswith("0% of").all()
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "Less than 95% (bold) in a scenario: accuracy of bayes, promises: <b>0% of" in report
    assert report.count("<td><b>0% of") == 2
