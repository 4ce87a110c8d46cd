"""The command: choose by other prices, costs of errors and shares of classes."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.config import changed
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.models.store import load_model
from paretolab import RunResult
from tests.cli.places import best_of


@pytest.mark.slow
def test_other_prices_are_those_of_the_problem_with_these_prices(finished, command, place):
    """Every design that was evaluated, scored by a problem that had these prices from the start."""
    files = sorted(p for p in finished.dir.iterdir() if not p.name.startswith("journal"))
    before = [p.stat().st_mtime_ns for p in files]
    done = command("choose", "first", "--prices", "f2=0,f5=40", "--best", "accuracy",
                   "--export", "models/repriced")  # fmt: skip
    assert done.code == 0, done.err
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", done.out, re.MULTILINE)
    values = [1, 2, 3, 4, 5, 6.5]
    names = make_problem(RunDir.existing(finished.dir).config(checked=True)).feature_names
    values[names.index("f2")], values[names.index("f5")] = 0, 40
    found = scored(finished, {"problem.costs": {"values": values}})
    assert int(chosen) == best_of(found, "accuracy")
    about = json.loads((place / "models/repriced/model.json").read_text())["about"]
    assert about["validation"]["cost"] == found.loc[int(chosen), "cost"]
    assert load_model(place / "models/repriced").costs_[names.index("f5")] == 40
    assert before == [p.stat().st_mtime_ns for p in files]


def designs_of(run_dir):
    with run_dir.journal() as journal:
        batches = list(journal.evaluations())
    X = np.concatenate([batch.X for batch in batches])
    return X, np.concatenate([batch.ids for batch in batches])


def scored(finished, costs):
    """Return what a problem with other costs says of every design that was evaluated."""
    run_dir = RunDir.existing(finished.dir)
    twin = make_problem(changed(run_dir.config(checked=True), costs, Path("x")))
    X, ids = designs_of(run_dir)
    twin.outcomes(X)  # trains what is missing
    return pd.DataFrame(dict(twin.evaluate(X, None)), index=ids)


def told(capsys, *options):
    """Return what ``choose --json`` says."""
    assert main(["choose", "first", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_other_costs_of_errors_are_those_of_the_problem_with_these_costs(
    finished, place, monkeypatch, capsys
):
    monkeypatch.chdir(place)
    found = scored(finished, {"problem.error_costs": {"0": 1, "1": 20}})
    best = told(capsys, "--costs", "0=1,1=20")
    assert best["metrics"]["error_cost"]["claimed"] == pytest.approx(
        found.loc[best["solution"], "error_cost"]
    )
    assert main(["choose", "first", "--costs", "0=1,1=20"]) == 0
    (line,) = re.findall("^best error_cost: .*", capsys.readouterr().out, re.MULTILINE)
    assert f"{best['metrics']['error_cost']['claimed']:.4g} (mean cost per record" in line
    cheaper = told(capsys, "--costs", "0=1,1=20", "--best", "cost")
    assert cheaper["solution"] == best_of(found, "cost")


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--costs 0=1,1=20", {"costs": {0: 1, 1: 20}}),
        ("--costs 1=3 --where cost<=18", {"costs": {"1": 3}, "where": "cost<=18"}),
        (
            "--prior 0=0.05,1=0.95 --best accuracy",
            {"prior": {0: 0.05, 1: 0.95}, "best": "accuracy"},
        ),
        (
            "--prices f2=0,f5=40 --within coverage=2% --best cost",
            {"prices": {"f2": 0, "f5": 40}, "within": "coverage=2%", "best": "cost"},
        ),
        ("--costs fp=1,fn=2 --prior 0.4", {"costs": {"fp": 1, "fn": 2}, "prior": 0.4}),
        (
            "--where coverage>=0.3 --best cost --sure 60",
            {"where": "coverage>=0.3", "best": "cost", "sure": 60},
        ),
    ],
)
def test_python_chooses_what_the_command_chooses(
    finished, place, monkeypatch, capsys, options, words
):
    monkeypatch.chdir(place)
    said, result = told(capsys, *options.split()), RunResult(finished.dir)
    promises = result.expected(**words)
    assert promises.keys() == said["metrics"].keys()
    for name, promise in promises.items():
        for figure in ("claimed", "expected", "low", "high"):
            assert getattr(promise, figure) == said["metrics"][name][figure], name
    model = result.choose(**words)
    assert hasattr(model, "predict_table")
    assert result.expected(best="cost")["cost"].claimed == result.front.rows.values["cost"].min()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"costs": {"1": float("nan")}}, "costs: expected numbers from 0, one above it"),
        ({"costs": {"1": "much"}}, "costs: expected numbers by name"),
        ({"prior": 0.5}, "prior and per_unit: expected with costs, found alone"),
        ({"prices": {"f2": "much"}}, "prices: f2: expected a number from 0, found much"),
    ],
)
def test_words_of_python_that_cannot_be(finished, words, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        RunResult(finished.dir).choose(**words)


def test_other_shares_of_classes_weigh_what_was_counted_of_each(
    finished, place, monkeypatch, capsys
):
    monkeypatch.chdir(place)
    run_dir = RunDir.existing(finished.dir)
    problem = make_problem(run_dir.config(checked=True))
    X, ids = designs_of(run_dir)
    outcomes, (truth, labels) = problem.outcomes(X), problem.truth()
    share = dict(zip(map(str, labels), (0.05, 0.95), strict=True))
    by_class = outcomes.metrics((truth[:, None] == [0, 1]).astype(float))
    p = np.array(list(share.values()))
    coverage = by_class["coverage"] @ p
    right = (by_class["coverage"] * by_class["accuracy"]) @ p
    found = pd.DataFrame(
        {
            "coverage": coverage,
            "accuracy": right / np.maximum(coverage, 1e-12),
            "cost": by_class["cost"] @ p,
        },
        index=ids,
    )
    text = ",".join(f"{label}={value}" for label, value in share.items())
    best = told(capsys, "--prior", text, "--best", "accuracy")
    for name in ("coverage", "accuracy", "cost"):
        known = best["metrics"][name]["claimed"]
        assert known == pytest.approx(found.loc[best["solution"], name], abs=1e-6)
    assert found.loc[best["solution"], "accuracy"] == pytest.approx(
        found["accuracy"].max(), abs=1e-6
    )
