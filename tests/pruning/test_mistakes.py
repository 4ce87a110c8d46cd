"""Bad input to pruning through the command: exit code 2 and one clear sentence each."""

import json
from dataclasses import replace

import numpy as np
import pytest

from framework.cli.main import main
from tests.command import POINT, write
from tests.made_up_libraries import checked, made_up


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a pruning of a library in this process; return exit code, what was said, and where."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *handler: None)

    def run(library, problem=None, constraints=(), **algorithm):
        checked(library, name="pool").save(tmp_path / "pool")
        config = POINT | {
            "problem": {"kind": "pruning", "library": {"path": "pool"}, **(problem or {})},
            "objectives": [{"metric": "accuracy", "sense": "max"}],
            "constraints": list(constraints),
            "algorithm": {"kind": "ip", **algorithm},
            "budget": {"evaluations": 10},
        }
        code = main(["run", str(write(tmp_path / "x.yaml", config)), "--out", "out", "--quiet"])
        return code, capsys.readouterr(), tmp_path / "out"

    return run


def complaint(err):
    """Return the one line that says what is wrong; nothing follows it."""
    lines = err.splitlines()
    assert [line.startswith("paretolab: ") for line in lines] == [False] * (len(lines) - 1) + [True]
    return lines[-1]


PARAMETERS = {
    "expected a finite number, found nan": {"weights": [1, 0, float("nan"), 0]},
    "found tau=0.8 > gamma=0.2": {"tau": 0.8, "gamma": 0.2},
    "expected diversity, or tau and gamma, found both": {"diversity": "f2", "tau": 0.1},
    "expected a mixed-integer solver that is installed": {"kind": "ip_cvxpy", "solver": "NONE"},
    "true_negative_rate with true_positive_rate": {
        "kind": "ip_front",
        "metric": "true_positive_rate",
        "against": "members",
    },
}


@pytest.mark.parametrize("sentence", PARAMETERS)
def test_parameters_that_mean_nothing(command, sentence):
    code, said, out = command(made_up(k=6), **PARAMETERS[sentence])
    assert code == 2
    assert sentence in complaint(said.err)
    assert not out.exists()


@pytest.mark.parametrize("kind", ["ip", "ip_cvxpy"])
def test_demands_that_no_ensemble_meets(command, kind):
    cheap = [{"metric": "memory", "at_most": 1e-6}]
    code, said, _ = command(made_up(k=6), kind=kind, constraints=cheap)
    assert code == 3  # as of any empty front
    assert "proved that none does" in said.err


def test_a_page_that_cannot_be_made_is_refused_before_any_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *handler: None)
    config = POINT | {
        "budget": {"evaluations": 10},
        "experiment": {"methods": {"all": {"kind": "random"}}, "pages": ["pruning"]},
    }
    code = main(["experiment", str(write(tmp_path / "x.yaml", config)), "--out", "out", "--quiet"])
    assert code == 2
    assert "expected cases of kind pruning for the page pruning" in complaint(
        capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_the_smallest_budget_has_an_ensemble_and_a_gap(command):
    given, rng = made_up(k=30, n=300), np.random.default_rng(0)
    right = rng.random((30, 300)) < 0.6
    called = np.where(right, given.y_validation, 1 - given.y_validation)
    hard = replace(given, validation=called.astype(np.float32))
    code, said, out = command(hard, iterations=0, looks=1)
    assert code == 0, said.err
    assert "no model is written: the library has its models' predictions alone" in said.err
    summary = json.loads((out / "summary.json").read_text())
    found = summary["findings"]
    assert found["status"] == "stopped"
    assert found["bound"] > found["value"] > 0
    assert found["gap"] == pytest.approx(found["bound"] / found["value"] - 1)
