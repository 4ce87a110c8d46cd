"""``--json``: one object on standard output, of every command that prints a result."""

import argparse
import json

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import _OWN, command_parser, main
from framework.cli.results import plain
from tests.cli.places import BUILD, EXPERIMENT, SWEEP
from tests.command import small, write

NO_RESULT = {"completion", "schema", "serve", "ui"}  # a script, a schema, and two that serve


def refuse(word):
    raise AssertionError(f"expected JSON, found {word}")


def parsed(text):
    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def ended(command):
    """Run the small configuration; return what ``--json`` says of it, and its directory."""
    done = command("run", "small.yaml", "--json", "--no-plots", "--out", "first", code=0)
    assert "evals" in done.err  # the progress
    return parsed(done.out)


@pytest.fixture
def told(place, ended, monkeypatch, capsys):
    monkeypatch.chdir(place)
    monkeypatch.setenv("PARETOLAB_CACHE", str(place / "cache"))

    def call(*words, code=0):
        assert main([*words, "--json"]) == code
        found = parsed(capsys.readouterr().out)
        assert found["command"] == words[0]
        assert found["exit_code"] == code
        return found

    return call


def options_of(parser):
    """Return, of each innermost parser, the options."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if below:
        return [found for a in below for p in set(a.choices.values()) for found in options_of(p)]
    return [{option for action in parser._actions for option in action.option_strings}]


def test_every_command_that_prints_a_result_has_it():
    for name in [*_OWN, "sweep", "sync", "ui"]:
        for options in options_of(command_parser([name])):
            assert ("--json" in options) == (name not in NO_RESULT), name


def test_a_run(place, ended):
    front = pd.read_csv(place / "first" / "front.csv")
    assert [list(row) for row in ended["front"]] == [list(front)] * len(front)
    assert [row["id"] for row in ended["front"]] == front["id"].tolist()
    np.testing.assert_array_equal([row["cost"] for row in ended["front"]], front["cost"])
    assert ended["status"] == "done"
    summary = json.loads((place / "first" / "summary.json").read_text())
    assert ended["evaluations"] == summary["evaluations"]
    one = ended["recommended"]
    row = front.set_index("id").loc[one["solution"]]
    assert one["metrics"]["accuracy"] == {
        "claimed": row["accuracy"],
        "expected": row["expected_accuracy"],
        "low": row["accuracy_low"],
        "high": row["accuracy_high"],
        "test": row["test_accuracy"],
    }


def test_resume(told):
    found = told("resume", "first", "--set", "budget.generations=4", "--no-plots")
    assert found["stopped"] == "generations"


def test_choose(told, place):
    found = told("choose", "first", "--best", "cost", "--export", "cheap")
    front = pd.read_csv(place / "first" / "front.csv")
    assert found["metrics"]["cost"]["claimed"] == front["cost"].min()
    assert 0 <= found["again"] <= 1
    assert found["model"] == "cheap"
    answers = told("predict", "cheap", "cheap/example.csv")["answers"]
    assert len(answers) == len(pd.read_csv(place / "cheap" / "example.csv"))
    assert {"label", "cost"} <= answers[0].keys()
    sure = told("choose", "first", "--best", "cost", "--where", "coverage>=0.3", "--sure", "60")
    assert sure["limits_hold"] >= 0.6
    costs = told("choose", "first", "--costs", "fp=1,fn=2", "--prior", "0.4")
    assert costs["expected_cost"] > 0
    assert costs["best_by_prior"][0]["low"] == 0


def test_what_cannot_be_mixed(told):
    found = told("choose", "first", "--mix", "--best", "false_positive_rate", code=2)
    assert "mix" in found["error"]


def test_certify(told, place):
    fresh = pd.read_csv(place / "first" / "model" / "example.csv")
    fresh.to_csv(place / "fresh.csv", index=False)
    found = told("certify", "first", "fresh.csv", "--where", "coverage>=0.1", code=2)
    assert "target" in found["error"]


def test_lists(told, place):
    assert {"name", "text"} == told("list")["algorithms"][0].keys()
    assert list(told("list", "metrics")) == ["command", "exit_code", "metrics"]
    (run,) = [run for run in told("runs", ".")["runs"] if run["run"] == "first"]
    assert run["front_size"] > 0
    assert "metrics" in run.get("recommended", run.get("chosen"))
    assert told("trust", "--list")["trusted"] == []
    shipped = told("init", "--list")["configurations"]
    assert {"file": "configs/quickstart.yaml", "command": "run"} in shipped


def test_check(told):
    found = told("check", "small.yaml")
    assert found["facts"]["algorithm"].startswith("kind=emsco")
    assert found["warnings"] == []
    assert found["effects"] == []


@pytest.mark.slow
def test_an_experiment(told, place):
    grid = small(experiment=EXPERIMENT, budget={"evaluations": 40})
    del grid["algorithm"]
    write(place / "grid.yaml", grid)
    assert "8" in told("check", "grid.yaml")["facts"]["runs"]
    made = told("experiment", "grid.yaml", "--out", "grid", "--quiet")
    again = told("compare", "grid", "--out", "again")
    assert set(again["methods"]) == {"emsco", "random"}
    assert again["means"] == made["means"]
    assert len(made["runs"]) == 8
    assert [row["best"] for row in made["winners"]].count("yes") >= 2
    assert made["result"]


@pytest.mark.slow
def test_a_library(told, place):
    write(place / "library.yaml", {"library": BUILD})
    made = told("library", "build", "library.yaml", "--out", "little", "--quiet")
    assert len(made["models"]) == 4
    assert told("library", "show", "little")["models"] == made["models"]


@pytest.mark.slow
def test_a_sweep(told, place):
    write(place / "sweep.yaml", small(sweep=SWEEP))
    assert told("check", "sweep.yaml")["facts"]["varied"] == "algorithm.population"
    found = told("sweep", "sweep.yaml", "--out", "sweep", "--quiet")
    assert found["trials_complete"] == 2
    assert "params" in found["best"][0]


def test_a_mistake_is_json_too(told, capsys):
    assert "no_such.yaml" in told("check", "no_such.yaml", code=2)["error"]


def test_what_json_cannot_hold():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})
    found = plain({"f": frame, 3: (np.inf, np.int64(4), "x\x1b", True, None)})
    assert found == {
        "f": [{"a": 1, "b": 0.5}, {"a": 2, "b": None}],
        "3": [None, 4, "x\x1b", True, None],
    }
