"""The command: choose."""

import json
import re
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.cli.tables import cell, promises_table
from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.front import Front, Promise
from tests.cli.places import best_of
from tests.command import refused, small, write


def nearest_to_ideal(frame):
    losses = frame[["coverage", "accuracy", "cost"]] * [-1, -1, 1]
    scaled = (losses - losses.min()) / (losses.max() - losses.min())
    return (scaled**2).sum(axis=1).idxmin()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--best accuracy", lambda f: best_of(f, "accuracy")),
        ("--where cost<=18 --best coverage", lambda f: best_of(f[f["cost"] <= 18], "coverage")),
        (
            "--within coverage=0 --best cost",
            lambda f: best_of(f[f["coverage"] == f["coverage"].max()], "cost"),
        ),
        ("--weights coverage=0,cost=1", lambda f: best_of(f, "cost")),
        ("--knee", nearest_to_ideal),
    ],
)
def test_choose(finished, capsys, monkeypatch, options, expected):
    monkeypatch.setattr("framework.cli.choose._keep", lambda *_: [])  # nothing is drawn again
    assert main(["choose", str(finished.dir), *shlex.split(options), "--no-mlflow"]) == 0
    out = capsys.readouterr().out
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", out, re.MULTILINE)
    front = pd.read_csv(finished.dir / "front.csv").set_index("id")
    assert len(front) > 5
    assert int(chosen) == expected(front)


FOUND_OR_NOT = "where features tell classes only together, a tree may find that or not"


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("problem", "line"),
    [({"classifier": {"kind": "decision_tree", "max_depth": 2}}, FOUND_OR_NOT), ({}, None)],
    ids=["trees", "regression"],
)
def test_what_remains_wrong_is_said_beside_what_to_expect(
    problem, line, place, command, request, capsys, monkeypatch
):
    config, name = small(), request.node.callspec.id
    keys = ("kind", "dataset", "costs", "threshold")
    config["problem"] = {key: config["problem"][key] for key in keys} | problem
    config["budget"] = {"evaluations": 40}
    write(place / f"{name}.yaml", config)
    printed = [command("run", f"{name}.yaml", "--out", name, "--no-plots", code=0).out]
    monkeypatch.setattr("framework.cli.choose._keep", lambda *_: [])  # nothing is drawn again
    by_eye = str(RunDir.existing(place / name).front().ids[0])
    for options in (["--best", "accuracy"], ["--id", by_eye]):
        assert main(["choose", str(place / name), *options, "--no-mlflow"]) == 0
        printed.append(capsys.readouterr().out)
    for out in printed:
        lines = [one for one in out.splitlines() if line and one.startswith(line)]
        assert len(lines) == (line is not None), out
        assert line is not None or "ranges of its accuracy" not in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--where coverage", "where: expected METRIC>=NUMBER"),
        ("--where coverrage>=0.5", "did you mean 'coverage'?"),
        ("--where 'recall:>50K, a>=0.5'", "found 'recall:>50K, a'"),
        ("--where coverage>=2", "where coverage>=2: no solution is left"),
        ("--where test_accuracy>=0.5", "expected a validation metric"),
        ("--best costs", "did you mean 'cost'?"),
        ("--weights coverage", "--weights: expected METRIC=NUMBER, found 'coverage'"),
        ("--best cost --knee", "expected one of best, knee, weights, costs and id"),
        ("--id 999999", "id: expected a solution of the front"),
        ("--costs fp=1", "costs: expected fp and fn, or costs by class, found fp"),
        (
            "--costs fp=1,fn=2",
            "prior: expected the share of positive records (--prior), found none",
        ),
        ("--prior 0.1", "expected with costs"),
        ("--costs fp=1,fn=2 --prior 0", "prior: expected a share above 0"),
        ("--costs fp=1,fn=2 --prior 0.1 --per-unit complexity=1", "the metric 'complexity'"),
        ("--export small.yaml", "expected a new directory"),
        ("--sure 90", "sure: expected a limit too, such as"),
        ("--sure 190 --where coverage>=0.5", "between 0 and 100, found 190"),
        (
            "--sure 99 --where coverage>=0.99 --where accuracy>=0.8",
            "the tightest limit that one does meet is",
        ),
        ("--sure 90 --mix --best accuracy", "--sure: cannot go with --mix"),
        ("--id 0 --mix --best accuracy", "--id: cannot go with --mix"),
        # other prices, costs of errors and shares of classes
        ("--prices f9=1", "prices: expected features (f"),
        ("--prices 'f1=2,=a, b=1'", "found '=a, b'"),
        ("--prices f2=-1", "prices: f2: expected a number from 0, found -1"),
        ("--prices f2=much", "--prices: expected FEATURE=NUMBER, found 'f2=much'"),
        ("--costs 9=1", "costs: expected a class of the data"),
        ("--costs 0=-1,1=2", "costs: expected numbers from 0, one above it, found 0=-1"),
        ("--costs 0=0,1=0", "costs: expected numbers from 0, one above it"),
        ("--costs 0=1,1=2 --prior 0.1", "prior: expected a share of each class, CLASS=SHARE"),
        ("--prior 0=0,1=1", "prior: expected shares above 0 that add up to 1, found 0=0, 1=1"),
        ("--prior 0=0.5,1=0.6", "prior: expected shares above 0 that add up to 1"),
        ("--prior 0=1", "prior: expected a share of each class (0, 1), found 0=1"),
        ("--costs fp=1,fn=1 --prior 0=0.5,1=0.5", "with fp and fn, found"),
        ("--costs 0=1,1=2 --per-unit cost=1", "per_unit: expected with costs fp and fn"),
        ("--costs fp=1,fn=1 --prior half", "--prior: expected a share above 0"),
    ],
)
def test_choose_refuses(finished, monkeypatch, capsys, options, sentence):
    monkeypatch.chdir(finished.dir.parent)
    refused(capsys, sentence, "choose", "first", *shlex.split(options))


def test_choose_says_what_to_expect(finished, command):
    words = ["--where", "coverage>=0.5", "--best", "accuracy", "--details"]
    done = command("choose", "first", *words, code=0)
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", done.out, re.MULTILINE)
    assert f"Solution {chosen} on new records" in done.out
    row = next(line for line in done.out.splitlines() if re.match(r".accuracy +.", line))
    claimed, expected, low, high, least, most, test = map(float, re.findall(r"[\d.]+", row))
    front = pd.read_csv(finished.dir / "front.csv").set_index("id").loc[int(chosen)]
    assert claimed == pytest.approx(front["accuracy"], abs=5e-5)
    assert test == pytest.approx(front["test_accuracy"], abs=5e-5)
    assert expected < claimed
    assert least < low < high <= most  # of so many test records
    picks = r"the rule picks this solution in \d+% of resamples, \d+ others take"
    assert re.search(picks, done.out)


def test_ends_that_are_written_alike_are_one_number():
    columns = promises_table("", {"cost": Promise(3.0, 3.0, 3.00001, 3.00002)}, None).columns
    assert [texts[0] for texts in columns.values()] == ["cost", "3", "3", "3.00"]


def test_sure_takes_limits_that_hold(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished.dir.parent)
    chosen = {}
    for percent in ("5", "80"):
        words = ["choose", "first", "--where", "coverage>=0.6", "--best", "accuracy"]
        assert main([*words, "--sure", percent, "--no-mlflow"]) == 0
        out = capsys.readouterr().out
        share = int(re.search(r"hold together in (\d+)% of the resamples", out)[1])
        assert share >= int(percent)
        chosen[percent] = int(re.search(r"chosen \(\*\): solution (\d+)", out)[1])
    front = pd.read_csv(finished.dir / "front.csv").set_index("id")
    assert front["coverage"][chosen["80"]] >= front["coverage"][chosen["5"]]


@pytest.mark.slow
def test_choose_shows_the_system_and_draws_it_again(finished, command):
    """Each choice is the run's chosen one: its model, table and picture follow."""
    plots = finished.dir / "plots"
    assert (plots / "system.png").is_file()  # that of the run
    ids = pd.read_csv(finished.dir / "front.csv").sort_values("cost")["id"].tolist()
    for id in (ids[0], ids[-1]):
        done = command("choose", "first", "--id", str(id), code=0)
        assert f"Solution {id}, on 60 validation records" in done.out
        page = (finished.dir / "report.html").read_text(encoding="utf-8")
        assert f"Solution {id}, as chosen" in page
        model = json.loads((finished.dir / "model" / "model.json").read_text())
        assert model["about"]["solution"] == id
        leaving = [sum(s["answers"].values()) for s in model["walk"]["stages"]]
        front = pd.read_csv(finished.dir / "front.csv").set_index("id")
        assert front["coverage"][id] == sum(leaving) / 60
        card = (finished.dir / "model" / "README.md").read_text()
        left = f"Of 60 validation records, which the search has seen, {60 - sum(leaving)} leave"
        assert left in card


@pytest.mark.slow
def test_choose_without_the_data_still_chooses(place, command):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    table["target"] = (table["a"] + rng.normal(size=120) > 0).astype(int)
    table.to_csv(place / "gone.csv", index=False)
    problem = {"kind": "multistage", "dataset": {"path": "gone.csv"}, "threshold": 0.6}
    write(place / "gone.yaml", small(name="gone", problem=problem))
    command("run", "gone.yaml", "--out", "without", code=0)
    (place / "gone.csv").unlink()
    done = command("choose", "without", "--best", "cost", code=0)
    assert "chosen (*): solution" in done.out
    assert "its model and picture are not written: " in done.err
    command("choose", "without", "--best", "cost", "--export", "m", code=2)


@pytest.mark.slow
def test_the_model_of_something_else_is_not_overwritten(finished, place, tmp_path, command):
    """The same solution of the same run may be exported again."""
    ids = pd.read_csv(finished.dir / "front.csv")["id"].tolist()
    folder = tmp_path / "kept"
    export = ["--export", str(folder)]
    command("choose", "first", "--id", str(ids[0]), *export, code=0)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write(place / "other.yaml", small(name="other", algorithm__population=20))
    command("run", "other.yaml", "--out", "other", "--no-plots", code=0)
    for options in (["first", "--id", str(ids[1])], ["other", "--best", "cost"]):
        done = command("choose", *options, *export, code=2)
        sentence = (
            f"--export {folder}: expected a new directory, or one with the model of this very "
            f"solution, found the model of solution {ids[0]} of run 'small'; give another"
        )
        assert sentence in done.err
    assert not (place / "other" / "choice.json").exists()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    command("choose", "first", "--id", str(ids[0]), *export, code=0)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_damaged_model_is_not_overwritten(finished, tmp_path, capsys):
    (tmp_path / "model.json").write_text("{")
    choose = ["choose", str(finished.dir), "--best", "cost", "--export", str(tmp_path)]
    refused(capsys, "found the model of something else", *choose)
    assert (tmp_path / "model.json").read_text() == "{"


def test_no_model_is_exported_where_that_of_the_run_cannot_be_written(finished, tmp_path, capsys):
    """It was exported, and the command failed."""
    shutil.copytree(finished.dir, tmp_path / "run", ignore=shutil.ignore_patterns("plots"))
    (tmp_path / "run" / "model" / "model.json").unlink()
    export = tmp_path / "exported"
    assert main(["choose", str(tmp_path / "run"), "--best", "cost", "--export", str(export)]) == 2
    assert "model: expected a new directory or one with a model" in capsys.readouterr().err
    assert not export.exists()


def test_a_front_is_read_once_and_again_where_the_file_is_another(finished, tmp_path):
    shutil.copytree(finished.dir, tmp_path / "run", ignore=shutil.ignore_patterns("plots"))
    run_dir = RunDir(tmp_path / "run")
    front = run_dir.front()
    assert run_dir.front() is front
    again = RunDir(run_dir.path)  # as another process has it
    again.write_front(Front(front.rows.take(np.arange(1)), front.roles, front.gene_names))
    again.write_summary(again.summary(), again.front_file)
    assert run_dir.front().ids.tolist() == front.ids[:1].tolist()
    run_dir.front_file.unlink()
    with pytest.raises(InputError, match="expected a front"):
        run_dir.front()


def test_a_directory_that_cannot_be_written_ends_in_a_sentence(finished, capsys, monkeypatch):
    def closed(path, content):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("framework.experiment.run_dir.write_whole", closed)
    monkeypatch.setattr("framework.cli.choose._keep", lambda *_: [])
    assert main(["choose", str(finished.dir), "--best", "cost"]) == 2
    error = capsys.readouterr().err
    assert "choice.json: cannot be used (Permission denied); let it be read and written" in error


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.nan, "-"),
        (np.inf, "inf"),
        (-0.0, "0"),
        (3.0, "3"),
        (0.25, "0.2500"),
        (1e7, "10,000,000.00"),
    ],
)
def test_any_number_is_a_cell(value, text):
    """A metric is NaN on test records that lack a class."""
    assert cell(value) == text
