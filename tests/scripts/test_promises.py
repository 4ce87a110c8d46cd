"""The experiment on what fronts promise: figures against definitions, and a call that goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import promises
import pytest
from promises_report import floors_of, values_of, wilson, write_pages
from promises_splits import CASES, MEASURES, OBJECTIVES, Case, accuracies_at, holds, measured
from scipy.stats import binomtest

from framework.batch import Evaluated
from framework.front import Front
from framework.roles import Metric, Objective, Roles

SMALL = {
    "dataset": {"synthetic": {"samples": 300, "features": 4, "informative": 3, "class_sep": 2.5}},
    "max_stages": 2,
}


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        case = Case(SMALL, accuracy=0.7, large=True)
        patch.setitem(CASES, "synthetic", case)
        yield [
            measured("synthetic", split, measure, 200) for split in range(2) for measure in MEASURES
        ]


def test_wilsons_width_is_that_of_scipy():
    shares, records = np.array([0.9, 0.5, 1.0]), np.array([50.0, 10.0, 20.0])
    for share, n, width in zip(shares, records, wilson(shares, records), strict=True):
        known = binomtest(round(share * n), int(n)).proportion_ci(method="wilson")
        assert width == pytest.approx(known.high - known.low, abs=1e-4)


def test_a_range_holds_with_the_noise_of_the_test_records_where_asked():
    # claimed, expected, true, low, high, standard error of true
    values = np.array([[0.9, 0.8, 0.91, 0.7, 0.9, 0.03], [0.9, 0.8, 0.95, 0.7, 0.9, 0.03]])
    assert holds(values, noise=False).tolist() == [0, 0]
    assert holds(values, noise=True).tolist() == [1, 0]


def test_accuracy_at_a_coverage_lies_on_the_line_between_two_picks():
    sense = {"coverage": "max", "accuracy": "max", "cost": "min"}
    roles = Roles(
        [Metric(name, s, "ratio", high=9) for name, s in sense.items()],
        [Objective(name, s) for name, s in sense.items()],
    )
    values = {
        "coverage": np.array([0.6, 0.95]),
        "accuracy": np.array([0.9, 0.8]),
        "cost": np.ones(2),
    }
    test = {**values, "coverage": np.array([0.75, 0.85])}
    front = Front(Evaluated(np.arange(2), np.zeros((2, 1)), values), roles, ("a",), test)
    at = accuracies_at(front)
    right = (0.75 * 0.9 + 0.85 * 0.8) / 2  # half of the records are answered by each
    assert at == [pytest.approx(0.9), pytest.approx(right / 0.8), None]


def test_a_row_has_what_each_rule_promises_and_is_worth(rows):
    for row in rows:
        assert row["records"] == (75 if row["measure"] == "holdout" else 225)
        assert set(row["rules"]) == {"best accuracy", "least cost", "knee", "sum"}
        for answer in row["rules"].values():
            for metric in OBJECTIVES:
                claimed, expected, _, low, high, error = answer["pick"][metric]
                assert low <= expected <= high
                assert error >= 0
                assert metric == "cost" or claimed <= 1
        for metric in OBJECTIVES:
            _, expected, _, low, high, error, held, with_noise = row["members"][metric]
            assert low <= expected <= high
            assert error >= 0
            assert 0 <= held <= with_noise <= 1
        answer = row["rules"]["best accuracy"]
        assert answer["pick broken"] == (answer["pick"]["coverage"][2] < 0.85)


def test_a_call_goes_on_where_one_was_stopped(rows, tmp_path):
    file = tmp_path / "rows.jsonl"
    lines = [json.dumps(row) for row in rows]
    file.write_text("\n".join(lines[:2]) + "\n" + lines[2][:50])
    assert promises.read_rows(file, 200) == rows[:2]
    assert promises.read_rows(file, 4000) == []


def test_the_page_says_which_floors_hold(rows, tmp_path):
    write_pages(rows, tmp_path)
    text = (tmp_path / "report.md").read_text("utf-8")
    assert text.index("## Floors: cross_validation") < text.index("## What picks promise")
    floors = floors_of(rows, "synthetic", "holdout")
    found, good = floors["95% ranges of accuracy hold in 94%"]
    values = np.concatenate(
        [values_of(rows[::2], rule, "pick", "accuracy") for rule in rows[0]["rules"]]
    )
    inside = (values[:, 3] <= values[:, 2]) & (values[:, 2] <= values[:, 4])
    assert (found, good) == (f"{inside.mean():.1%}", inside.mean() >= 0.94)
    assert "Floors: holdout" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_sets_that_are_missing_are_skipped(tmp_path):
    nowhere = {"https_proxy": "http://127.0.0.1:9", "PARETOLAB_DATA": str(tmp_path)}
    command = [sys.executable, promises.__file__, "--splits", "1", "--evaluations", "300"]
    command += ["--data", "synthetic", "pima", "--out", str(tmp_path / "out")]
    for done in (0, 2):
        call = subprocess.run(
            command, env=os.environ | nowhere, capture_output=True, text=True, check=True
        )
        assert "pima is skipped: " in call.stderr
        assert f"{done} of 2 are done" in call.stdout
    rows = (tmp_path / "out" / "rows.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(row)["set"] for row in rows} == {"synthetic"}
    assert len(rows) == 2
