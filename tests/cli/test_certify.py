"""The command `certify`: certificates on fresh records, and what it refuses."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.datasets import make_classification

from framework import registry
from framework.batch import Evaluated
from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.certification import certify
from framework.experiment.export import load_problem
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.libraries.build import build_library
from framework.libraries.config import BuildConfig
from framework.models.store import load_model
from framework.roles import Objective, Roles
from framework.run.display import Display
from framework.streams import CandidateStreams
from tests.command import call, small, write


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a finished run, and records that its search has not seen."""
    folder = tmp_path_factory.mktemp("certify")
    X, y = make_classification(1000, 6, n_informative=6, n_redundant=0, random_state=2)
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(6)])
    table["state"] = np.where(y == 1, "well", "ill")
    parts = {"search": slice(400), "fresh": slice(400, 1000), "rest": slice(1000, None)}
    for name, part in parts.items():
        table[part].to_csv(folder / f"{name}.csv", index=False)
    run(folder, "first", "search.csv", problem__error_costs={"ill": 5})
    return folder


def run(folder, name, path, **more):
    """Run a search on a table of the folder; return the directory of the run."""
    split = {"train": 0.5, "validation": 0.4, "test": 0.1} | more.pop("split", {})
    data = {"path": path, "target": "state", "merge_rare": more.pop("merge_rare", None)}
    config = small(problem__dataset=data, problem__split=split, **more)
    write(folder / f"{name}.yaml", config)
    call("run", f"{name}.yaml", "--out", name, "--no-plots", cwd=folder, code=0)
    return RunDir(folder / name)


@pytest.fixture
def there(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def searched(there):
    """Return the problem of the finished run, and its front."""
    run_dir = RunDir("first")
    return load_problem(run_dir), run_dir.front()


def test_certify(place):
    limits = ["--where", "coverage>=0.5", "--where", "accuracy>=0.8"]
    done = call("certify", "first", "fresh.csv", *limits, "--best", "cost",
                "--export", "model", cwd=place)  # fmt: skip
    assert done.code == 0, done.err
    assert "with a probability of at least 90% over their draw" in done.out
    (chosen,) = re.findall(r"^best cost that is certified \(\*\): solution (\d+)$", done.out, re.M)
    fresh = pd.read_csv(place / "fresh.csv")
    answers = load_model(place / "model").predict_table(fresh)
    answered = answers["label"] != "inconclusive"
    right = (answers["label"] == fresh["state"])[answered].mean()
    line = next(line for line in done.out.splitlines() if f"{chosen} *" in line)
    assert f"{answered.mean():.4f}" in line
    assert f"{right:.4f}" in line
    assert "guarantee" in (place / "model" / "README.md").read_text()


def test_the_exported_models_are_what_is_certified(searched):
    problem, front = searched
    fresh = pd.read_csv("fresh.csv")
    limits = ["cost<=20.5", "error_cost<=0.9", "false_negative_rate<=0.4", "stages<=3"]
    found = certify(problem, front, fresh, "state", limits, delta=0.2, best="coverage")
    assert found.certified
    for one in found.certified:
        assert front.rows.values["stages"][one.position] <= 3
        model = problem.decode(front.X[one.position].astype(problem.space.dtype))
        table = model.predict_table(fresh)
        assert one.measured["cost"] == pytest.approx(table["cost"].mean())
        wrong = (table["label"] != fresh["state"]) & (table["label"] != "inconclusive")
        paid = wrong * np.where(fresh["state"] == "ill", 5.0, 1.0)
        assert one.measured["error_cost"] == pytest.approx(paid.mean())
    claims = front.rows.values["coverage"][[one.position for one in found.certified]]
    assert (np.diff(claims) > 0).all()  # the last one is the best


def test_a_rate_is_claimed_of_the_records_that_it_is_over(there):
    """Here of those called ill; the number said to be needed is enough in 80% of draws."""
    run_dir = run(there, "rates", "search.csv", problem__rates=["precision:ill"])
    front, problem = run_dir.front(), load_problem(run_dir)
    code = list(problem.labels()).index("ill")
    called = (problem.answers(front.X.astype(problem.space.dtype)).codes == code).mean(axis=1)
    fresh = pd.read_csv("fresh.csv")[:60]
    found = certify(problem, front, fresh, "state", ["precision:ill>=0.82"], best="cost")
    assert not found.certified
    tested, few = found.failed.position, found.needed_as_claimed
    counts = binom.rvs(few, called[tested], size=4000, random_state=0)
    ill = binom.rvs(counts, front.rows.values["precision:ill"][tested], random_state=1)
    assert 0.74 <= (binom.sf(ill - 1, counts, 0.82) <= 0.1).mean() <= 0.9


def test_each_class_of_a_worst_recall_counts_in_the_records_that_are_needed(searched):
    problem, front = searched
    fresh = pd.read_csv("fresh.csv")[:60]
    found = certify(problem, front, fresh, "state", ["worst_recall>=0.8"], best="cost")
    assert not found.certified
    tested, few = found.failed.position, found.needed_as_claimed
    answers = problem.answers(front.X[[tested]].astype(problem.space.dtype))
    passed = np.ones(4000, dtype=bool)
    worst = front.rows.values["worst_recall"][tested]
    for k in range(2):
        share = ((answers.codes[0] >= 0) & (answers.records.labels == k)).mean()
        counts = binom.rvs(few, share, size=4000, random_state=k)
        right = binom.rvs(counts, worst, random_state=2 + k)
        passed &= binom.sf(right - 1, counts, 0.8) <= 0.1
    assert passed.mean() >= 0.75


SENTENCES = [
    (["search.csv", "--where", "accuracy>=0.8"], "found 360 of 400 that this run was trained or"),
    (["one.csv", "--where", "accuracy>=0.8"], "found 1 of 601 that this run was trained or"),
    (["twice.csv", "--where", "accuracy>=0.8"], "found 9 of 609 that are copies of others"),
    (["few.csv", "--where", "accuracy>=0.8"], "few.csv: expected at least 11 records"),
    (["fresh.csv", "--where", "accuracy>=1"], "which no number of records does"),
    (["fresh.csv", "--where", "accuracy>=0.8", "--target", "stat"], "did you mean 'state'?"),
    (["gaps.csv", "--where", "accuracy>=0.8"], "found 1 without one in 'state', the first in rec"),
    (["other.csv", "--where", "accuracy>=0.8"], "found 'dead' in record 2"),
    (["none.csv", "--where", "accuracy>=0.8"], "none.csv: expected records, found none"),
    (["absent.csv", "--where", "accuracy>=0.8"], "absent.csv: expected a CSV or Parquet file"),
    (["fresh.csv"], "expected at least one limit"),
    (["fresh.csv", "--where", "stages<=3"], "which is known of each solution without any"),
    (["fresh.csv", "--where", "stages<=0", "--where", "accuracy>=0.8"], "no solution is left"),
    (["fresh.csv", "--where", "acuracy>=0.8"], "did you mean 'accuracy'?"),
    (["fresh.csv", "--where", "test_accuracy>=0.8"], "expected a validation metric"),
    (["fresh.csv", "--where", "f1>=0.5"], "which is no share of records or mean of bounded"),
    (["fresh.csv", "--where", "accuracy==0.8"], "no records prove that a figure is met exactly"),
    (["fresh.csv", "--where", "accuracy>=0.8", "--delta", "0"], "delta: expected a probability"),
    (["fresh.csv", "--where", "accuracy>=0.8", "--best", "costs"], "did you mean 'cost'?"),
    (["fresh.csv", "--where", "accuracy>=0.99"], "no number of such records will do"),
    (["some.csv", "--where", "accuracy>=0.83", "--delta", "0.001"], "are needed if it is as good"),
]  # fmt: skip


def test_a_figure_of_a_class_without_fresh_records_is_none(there, capsys):
    fresh = pd.read_csv("fresh.csv")
    fresh[fresh["state"] == "ill"].to_csv("ill.csv", index=False)
    words = ["certify", "first", "ill.csv", "--where"]
    assert main([*words, "worst_recall>=0", "--json"]) == 0
    certified = json.loads(capsys.readouterr().out)["certified"]
    assert certified
    assert all(test["measured"] == {"worst_recall": None} for test in certified)
    assert main([*words, "worst_recall>=0.1"]) == 2
    assert "(worst_recall of no record; p = 1, above 0.1)" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "sentence"), SENTENCES)
def test_certify_refuses(there, capsys, options, sentence):
    fresh = pd.read_csv("fresh.csv")
    made = {
        "one": pd.concat([fresh, pd.read_csv("search.csv")[7:8]]),
        "twice": pd.concat([fresh, fresh[:9]]),
        "few": fresh[:10],
        "some": fresh[:60],
        "gaps": fresh.assign(state=fresh["state"].where(fresh.index != 4)),
        "other": fresh.assign(state=fresh["state"].where(fresh.index != 1, "dead")),
        "none": fresh[:0],
    }
    name = options[0].removesuffix(".csv")
    if name in made:
        made[name].to_csv(options[0], index=False)
    assert main(["certify", "first", *options]) == 2
    written = capsys.readouterr().err
    assert sentence in written
    assert len(written.splitlines()) == 1


@pytest.mark.parametrize("limit", ["stages<=0", "accuracy>=0.99"])
def test_no_limit_is_decided_by_what_a_forged_front_claims(there, tmp_path, limit):
    """Accuracy is called a size, which no record decides, and solutions are too good."""
    shutil.copytree("first", tmp_path / "forged")
    about, front = tmp_path / "forged/about.json", tmp_path / "forged/front.csv"
    plain = json.loads(about.read_text())
    next(m for m in plain["metrics"] if m["name"] == "accuracy")["size"] = True
    about.write_text(json.dumps(plain))
    pd.read_csv(front).assign(stages=0.0, accuracy=1.0).to_csv(front, index=False)
    (tmp_path / "forged/summary.json").unlink()  # with the digest of the front
    limits = ["--where", limit, "--where", "coverage>=0.1"]
    assert main(["certify", str(tmp_path / "forged"), "fresh.csv", *limits]) == 2


POOL = {"families": ["naive_bayes", "decision_tree"], "models": 4}
FAMILIES = {
    "pruning": ({}, ["accuracy>=0.6", "false_positive_rate<=0.4"]),
    "ensemble": ({"score": ["accuracy"]}, ["accuracy>=0.6"]),
    "network": ({"hidden": [3], "training": {"epochs": 15}}, ["false_negative_rate<=0.45"]),
    "cascade": ({"abstain": "last"}, ["conclusive_accuracy>=0.6", "coverage>=0.2"]),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_that_answers_records_is_certified(there, kind, monkeypatch):
    monkeypatch.setenv("PARETOLAB_CACHE", "cache")
    keys, limits = FAMILIES[kind]
    dataset = {"path": "search.csv", "target": "state", "positive": "ill"}
    build = {"name": "four", "dataset": dataset, **POOL, "measured": kind == "cascade"}
    if kind != "network":
        made = BuildConfig.model_validate(build)
        build_library(made, workers="serial", display=Display(quiet=True))
    if kind == "network":
        section = {"dataset": dataset, **keys}
    elif kind == "cascade":  # a call has a price there
        section = {"calls": {"library": {"build": build}}, **keys}
    else:
        section = {"library": {"build": build}, **keys}
    cls = registry.load("problems", kind)
    problem = cls.from_config(cls.Config.model_validate(section))
    X = problem.space.sample(np.random.default_rng(0), 12)
    values = problem.evaluate(X, CandidateStreams(0, np.arange(12)))
    rows = Evaluated(np.arange(12), X, {name: values[name] for name in problem.metric_names})
    names = [limit.split("=")[0].strip("<>") for limit in limits]
    senses = {metric.name: metric.sense for metric in problem.metrics}
    roles = Roles(problem.metrics, [Objective(name, senses[name]) for name in names])
    front = Front.of([rows.take(~np.isnan(values[names[0]]))], roles, problem.gene_names)
    fresh = pd.read_csv("fresh.csv")
    found = certify(problem, front, fresh, "state", limits)
    assert found.compared
    assert found.certified
    for one in found.certified:
        said = problem.decode(front.X[one.position]).predict_table(fresh)["label"]
        true, answered = fresh["state"], said.notna()
        ill = true == "ill"
        wanted = {
            "accuracy": (said == true).mean(),
            "conclusive_accuracy": (said == true)[answered].mean(),
            "coverage": answered.mean(),
            "false_positive_rate": (said == "ill")[~ill].mean(),
            "false_negative_rate": (said != "ill")[ill].mean(),
        }
        assert one.measured == pytest.approx({name: wanted[name] for name in names})
    with pytest.raises(InputError, match="that this run was trained or measured on"):
        certify(problem, front, pd.read_csv("search.csv"), "state", limits)


def test_records_of_a_group_are_refused(searched):
    asked = searched
    fresh = pd.read_csv("fresh.csv")
    limits = ["coverage>=0.5", "accuracy>=0.8"]
    alone = fresh.assign(patient=np.arange(len(fresh)))
    group = pd.Series([-1, -1, -2], name="patient")
    assert certify(*asked, alone, "state", limits, group=group).certified
    twice = alone.assign(patient=alone["patient"] // 2)
    with pytest.raises(InputError, match="found 300 of 600 that are further ones"):
        certify(*asked, twice, "state", limits, group=group)
    with pytest.raises(InputError, match="found 1 of 600 that have one of the table of this run"):
        certify(*asked, alone.replace({"patient": 7}, -2), "state", limits, group=group)
    texts = pd.Series(["0007", "p17"], name="patient")  # in the fresh file, all are numbers
    with pytest.raises(InputError, match="found 1 of 600 that have one of the table"):
        certify(*asked, alone, "state", limits, group=texts)
    with pytest.raises(InputError, match=r"split\.group of this run: expected a column 'patient'"):
        certify(*asked, fresh, "state", limits, group=group)


def test_the_command_knows_the_groups_of_the_run(place):
    """A patient of the run is known to it, whatever is measured of him now."""
    searched, fresh = pd.read_csv(place / "search.csv"), pd.read_csv(place / "fresh.csv")
    patients = searched.assign(patient=np.arange(len(searched)) // 2)
    patients.to_csv(place / "patients.csv", index=False)
    run(place, "patients", "patients.csv", split={"group": "patient"})
    asked = ["certify", "patients", "again.csv", "--where", "coverage>=0.5"]
    for first, code in ((10_000, 0), (0, 2)):
        again = fresh.assign(patient=first + np.arange(len(fresh)))
        again.to_csv(place / "again.csv", index=False)
        done = call(*asked, cwd=place, code=code)
    assert "found 200 of 600 that have one of the table of this run" in done.err


def test_further_classes_are_of_the_rare_ones_that_a_run_merged(place):
    searched, fresh = pd.read_csv(place / "search.csv"), pd.read_csv(place / "fresh.csv")
    searched.loc[:14, "state"] = ["odd"] * 12 + ["queer"] * 3
    fresh.loc[:5, "state"] = ["odd", "odd", "odd", "queer", "new", "other"]
    searched.to_csv(place / "merged.csv", index=False)
    fresh.to_csv(place / "further.csv", index=False)
    run(place, "merged", "merged.csv", merge_rare=15)
    asked = ["certify", "merged", "further.csv", "--where", "coverage>=0.2"]
    assert "5 records of further classes count as" in call(*asked, cwd=place, code=0).out
    asked[1] = "first"
    assert "found 'odd' in record 1" in call(*asked, cwd=place, code=2).err


def test_weighted_metrics_are_refused(searched):
    """The mean of fresh records would be proved, and the weighted one break the limit."""
    problem, front = searched
    records = problem.records()
    weights = np.full(len(records), 2)
    problem.answered = {"search": dataclasses.replace(records, weights=weights)}
    with pytest.raises(InputError, match="found one with weights"):
        certify(problem, front, pd.read_csv("fresh.csv"), "state", ["coverage>=0.5"])


def test_records_of_the_search_are_recognised_by_their_texts(tmp_path, monkeypatch, capsys):
    """Without the records that have 2A, 01 looked like a number, and all records seemed fresh."""
    monkeypatch.chdir(tmp_path)
    X, y = make_classification(300, 4, n_informative=4, n_redundant=0, random_state=2)
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    table["zone"] = np.random.default_rng(0).choice(["01", "002", "2A"], 300)
    table.to_csv("whole.csv", index=False)
    table[table["zone"] != "2A"].to_csv("part.csv", index=False)
    dataset = {"path": "whole.csv", "target": "y", "categorical": ["zone"]}
    config = small(problem__dataset=dataset, problem__costs={"values": [1, 1, 1, 1, 1]})
    write(tmp_path / "small.yaml", config)
    call("run", "small.yaml", "--out", "first", "--no-plots", cwd=tmp_path, code=0)
    for name in ("whole", "part"):
        assert main(["certify", "first", f"{name}.csv", "--where", "coverage>=0.1"]) == 2
        assert "that this run was trained or measured on" in capsys.readouterr().err
