"""A cascade as its users have it: a run, its exported model, predict, serve and MLflow."""

import io
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from algorithms.cascade.model import CascadeClassifier
from algorithms.cascade.policy import Policy
from framework.libraries.call_files import read_calls
from framework.libraries.calls import UNIT
from framework.models.store import load_model, save_model
from tests.cascade.tables import made_up
from tests.cascade.test_model import fitted
from tests.command import POINT, call, write

CONFIG = POINT | {
    "name": "asked",
    "problem": {"kind": "cascade", "calls": {"path": "calls.csv"}},
    "objectives": [
        {"metric": "calibrated_accuracy", "sense": "max"},
        {"metric": "cost", "sense": "min"},
    ],
    "algorithm": {"kind": "cascade_exact"},
    "budget": {"evaluations": 100},
}


def write_calls(path, table):
    columns = {}
    for m, name in enumerate(table.ids):
        columns[f"{name}:correct"] = table.right[m].astype(int)
        columns[f"{name}:confidence"] = table.confidence[m]
        columns[f"{name}:cost"] = table.costs["cost"].values[m] / UNIT
    pd.DataFrame(columns).to_csv(path, index=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a run on a table of calls, and a cascade of fitted models."""
    folder = tmp_path_factory.mktemp("cascade")
    write_calls(folder / "calls.csv", made_up(3, 120))
    write(folder / "asked.yaml", CONFIG)
    X, _, models = fitted()
    policy = Policy(tuple(models), (0.75, 0.7, -np.inf), (None, 0.5, None), "cumulative_mean")
    names = [f"x{i}" for i in range(X.shape[1])]
    records = pd.DataFrame(X, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the models were fitted without names
        model = CascadeClassifier.of_policy(models, policy, [0, 1, 2])
        save_model(model, folder / "model", example=records[250:280])
        answers = model.predict_table(records[250:280]).reset_index(drop=True)
    answers["label"] = answers["label"].astype(float)  # as a file has it: none is NaN
    return folder, answers


def test_the_exported_policy_says_what_the_front_says(place):
    folder, _ = place
    call("run", "asked.yaml", "--out", "run", cwd=folder, code=0)
    model = folder / "run" / "model"
    policy = json.loads((model / "cascade.json").read_text())
    chosen = json.loads((model / "model.json").read_text())["about"]["solution"]
    row = pd.read_csv(folder / "run" / "front.csv").set_index("id").loc[chosen]
    for name in ("calibrated_accuracy", "accuracy", "cost"):
        columns = {"claimed": name, "expected": f"expected_{name}", "low": f"{name}_low"}
        for figure, column in {**columns, "high": f"{name}_high"}.items():
            assert policy["promises"][name][figure] == pytest.approx(row[column])
    cost = policy["promises"]["cost"]
    assert cost["claimed"] <= cost["budget"] <= 1.3 * cost["claimed"]
    assert policy["table"] == read_calls(folder / "calls.csv").fingerprint


def test_subgroups_of_calls_are_chosen_by_and_promised(place):
    folder, _ = place
    sites = np.array(["north", "south", "west"])[np.arange(120) % 3]
    calls = pd.read_csv(folder / "calls.csv").assign(site=sites)
    calls.to_csv(folder / "sites.csv", index=False)
    problem = {"kind": "cascade", "calls": {"path": "sites.csv"}, "subgroup": "site"}
    least = {"metric": "accuracy_difference", "at_most": 0.5}
    config = CONFIG | {"problem": problem, "constraints": [least]}
    write(folder / "sites.yaml", config | {"algorithm": {"kind": "nsga2"}})
    call("run", "sites.yaml", "--out", "sites", cwd=folder, code=0)
    front = pd.read_csv(folder / "sites" / "front.csv")
    assert front["accuracy_difference"].max() <= 0.5
    rule = f"worst_subgroup_accuracy>={front['worst_subgroup_accuracy'].median()}"
    order = ["--where", rule, "--best", "cost", "--export", "fair"]
    call("choose", "sites", *order, cwd=folder, code=0)
    promised = json.loads((folder / "fair" / "cascade.json").read_text())["promises"]
    policy = load_model(folder / "fair").predict_table(calls)
    right = [calls[f"{name}:correct"][i] for i, name in enumerate(policy["model"])]
    shares = pd.Series(right).groupby(sites).mean()
    worst = promised["worst_subgroup_accuracy"]
    assert worst["claimed"] == pytest.approx(shares.min())
    assert worst["low"] <= worst["expected"] <= worst["high"]
    assert promised["accuracy_difference"]["claimed"] == pytest.approx(np.ptp(shares))


def test_predict_asks_the_models(place):
    folder, answers = place
    done = call("predict", "model", "model/example.csv", cwd=folder, code=0)
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(done.out)), answers)
    assert answers["calls"].nunique() == 3
    assert answers["label"].isna().any()


def test_predict_says_which_model_failed(place):
    folder, answers = place
    records = pd.read_csv(folder / "model" / "example.csv")
    records["x0"] = np.where(answers["calls"] > 1, np.nan, records["x0"])  # only trees take it
    records.to_csv(folder / "gaps.csv", index=False)
    done = call("predict", "model", "gaps.csv", cwd=folder, code=0)
    assert len(pd.read_csv(io.StringIO(done.out))) == len(records)
    count = re.search(r"^paretolab: linear failed on (\d+) of 30 records", done.err, re.M)
    assert 0 < int(count[1]) <= 30


def as_calls(table, prefix, labels):
    """Return calls with answers as columns, each model's answers spelled in a way of its own."""
    said = np.column_stack([*table.answers, table.truth])
    columns = {"record": [f"{prefix}{i}" for i in range(table.n)], "truth": said[:, -1]}
    for m, name in enumerate(table.ids):
        columns[f"{name}:answer"] = np.array(labels[m])[said[:, m]]
        columns[f"{name}:confidence"] = table.confidence[m]
        columns[f"{name}:cost"] = table.costs["cost"].values[m] / UNIT
    return pd.DataFrame(columns)


@pytest.mark.parametrize("answer", ["own", "vote"])
def test_rates_of_calls_are_certified_on_fresh_ones(tmp_path, answer):
    """Answers spelled 1.0 were none, a run's records seemed fresh, groups did not count."""
    labels = [[0, 1, 2], ["0.0", "1.0", "2.0"], ["0", "1.0", "2"]]
    frames = [as_calls(made_up(3, n, n), f"{n}-", labels) for n in (150, 400)]
    for name, frame in zip(("searched", "fresh"), frames, strict=True):
        frame["group"] = frame["record"]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    problem = {"calls": {"path": "searched.csv", "test": "fresh.csv"}, "rates": ["recall:1"]}
    problem |= {"kind": "cascade", "answer": answer, "abstain": "last"}
    write(tmp_path / "rated.yaml", CONFIG | {"problem": problem, "algorithm": {"kind": "random"}})
    call("run", "rated.yaml", "--out", "rated", "--no-plots", cwd=tmp_path, code=0)
    asked = ["certify", "rated", "fresh.csv", "--where", "recall:1>=.4", "--best", "cost"]
    done = call(*asked, "--json", cwd=tmp_path, code=0).out
    front = pd.read_csv(tmp_path / "rated" / "front.csv").set_index("id")
    for one in json.loads(done)["certified"]:
        measured = one["measured"]["recall:1"]
        assert measured == pytest.approx(front["test_recall:1"][one["solution"]])
    assert "that the search has not seen" in done
    fresh = frames[1]
    for column, change, sentence in (
        ("record", "150-7", "found 1 of 400 that this run was"),
        ("group", "150-7", "found 1 of 400 that have one of the table of this run"),
        ("group", "400-1", "found 1 of 400 that are further ones"),
    ):
        fresh.replace({column: {"400-0": change}}).to_csv(tmp_path / "again.csv", index=False)
        asked[2] = "again.csv"
        assert sentence in call(*asked, cwd=tmp_path, code=2).err


@pytest.mark.slow
def test_workers_enumerate_to_the_same_bytes(place):
    """Chains of four models, on Ray and in one process, the whole front."""
    folder, _ = place
    algorithm = {"kind": "cascade_exact", "outcomes": "raw", "front": "whole", "max_models": 4}
    write_calls(folder / "five.csv", made_up(5, 120))
    problem = {"kind": "cascade", "calls": {"path": "five.csv"}}
    write(folder / "five.yaml", CONFIG | {"problem": problem, "algorithm": algorithm})
    for workers in ("serial", "2"):
        call("run", "five.yaml", "--workers", workers, "--out", workers, cwd=folder, code=0)
    assert '"evaluated_by": "Ray' in (folder / "2" / "summary.json").read_text()
    for name in ("front.csv", "certificates.csv"):
        assert (folder / "2" / name).read_bytes() == (folder / "serial" / name).read_bytes()
