"""Bad input to pruning through the command: exit code 2 and one clear sentence each."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.command import POINT, write
from tests.experiment.test_experiment import command
from tests.made_up_libraries import checked, made_up


def pruned(folder, library, *constraints, code=2, **algorithm):
    """Run a pruning of a library in this process; return what was said, and where."""
    checked(library, name="pool").save(folder / "pool")
    config = POINT | {
        "problem": {"kind": "pruning", "library": {"path": "pool"}},
        "objectives": [{"metric": "accuracy", "sense": "max"}],
        "constraints": list(constraints),
        "algorithm": {"kind": "ip", **algorithm},
        "budget": {"evaluations": 10},
    }
    write(folder / "x.yaml", config)
    return command(folder, "run", "x.yaml", "--out", "out", "--quiet", code=code), folder / "out"


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
def test_parameters_that_mean_nothing(tmp_path, sentence):
    said, out = pruned(tmp_path, made_up(k=6), **PARAMETERS[sentence])
    assert sentence in complaint(said.err)
    assert not out.exists()


@pytest.mark.parametrize("kind", ["ip", "ip_cvxpy"])
def test_demands_that_no_ensemble_meets(tmp_path, kind):
    cheap = {"metric": "memory", "at_most": 1e-6}
    said, _ = pruned(tmp_path, made_up(k=6), cheap, kind=kind, code=3)  # as of any empty front
    assert "proved that none does" in said.err


def test_a_page_that_cannot_be_made_is_refused_before_any_run(tmp_path):
    config = POINT | {
        "budget": {"evaluations": 10},
        "experiment": {"methods": {"all": {"kind": "random"}}, "pages": ["pruning"]},
    }
    write(tmp_path / "x.yaml", config)
    said = command(tmp_path, "experiment", "x.yaml", "--out", "out", "--quiet", code=2)
    assert "expected cases of kind pruning for the page pruning" in complaint(said.err)
    assert not (tmp_path / "out").exists()


def test_the_smallest_budget_has_an_ensemble_and_a_gap(tmp_path):
    given, rng = made_up(k=30, n=300), np.random.default_rng(0)
    right = rng.random((30, 300)) < 0.6
    called = np.where(right, given.y_validation, 1 - given.y_validation)
    hard = replace(given, validation=called.astype(np.float32))
    said, out = pruned(tmp_path, hard, iterations=0, looks=1, code=0)
    assert "no model is written: the library has its models' predictions alone" in said.err
    summary = json.loads((out / "summary.json").read_text())
    found = summary["findings"]
    assert found["status"] == "stopped"
    assert found["bound"] > found["value"] > 0
    assert found["gap"] == pytest.approx(found["bound"] / found["value"] - 1)
