"""The command: choose, predict, check and list."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.config import changed
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.front import Front
from framework.models.store import load_model
from paretolab import RunResult
from tests.command import small, start, write


def best_of(frame, metric):
    """Return the best values of a metric, the other objectives deciding ties in their order."""
    order = [metric, "coverage", "accuracy", "cost"]
    return frame.sort_values(order, ascending=[name == "cost" for name in order]).index[0]


def nearest_to_ideal(frame):
    losses = frame[["coverage", "accuracy", "cost"]] * [-1, -1, 1]
    scaled = (losses - losses.min()) / (losses.max() - losses.min())
    return (scaled**2).sum(axis=1).idxmin()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--best", "cost"], lambda f: best_of(f, "cost")),
        pytest.param(
            ["--best", "accuracy"], lambda f: best_of(f, "accuracy"), marks=pytest.mark.slow
        ),
        (
            ["--where", "cost<=18", "--best", "coverage"],
            lambda f: best_of(f[f["cost"] <= 18], "coverage"),
        ),
        pytest.param(
            ["--within", "coverage=0", "--best", "cost"],
            lambda f: best_of(f[f["coverage"] == f["coverage"].max()], "cost"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["--weights", "coverage=0,cost=1"],
            lambda f: best_of(f, "cost"),
            marks=pytest.mark.slow,
        ),
        (["--knee"], nearest_to_ideal),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_choose(finished, command, options, expected):
    done = command("choose", "first", *options)
    assert done.code == 0, done.err
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", done.out, re.MULTILINE)
    front = pd.read_csv(finished.dir / "front.csv").set_index("id")
    assert len(front) > 5
    assert int(chosen) == expected(front)


FOUND_OR_NOT = "where features tell classes only together, a tree may find that or not"


@pytest.mark.parametrize(
    ("problem", "algorithm", "line"),
    [
        ({"classifier": {"kind": "decision_tree", "max_depth": 2}}, None, FOUND_OR_NOT),
        ({}, None, None),
        pytest.param(
            {"kind": "network", "hidden": [2], "training": {"epochs": 2}},
            "random",
            "masks fit the records finely",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["trees", "regression", "masks"],
)
def test_what_remains_wrong_is_said_beside_what_to_expect(
    problem, algorithm, line, place, command, request
):
    config, name = small(), request.node.callspec.id
    kept = ("dataset",) if "kind" in problem else ("kind", "dataset", "costs", "threshold")
    config["problem"] = {key: config["problem"][key] for key in kept} | problem
    config["budget"] = {"evaluations": 40}
    if algorithm:
        config["algorithm"] = {"kind": algorithm}
        config["objectives"] = [{"metric": "accuracy", "sense": "max"}]
    write(place / f"{name}.yaml", config)
    ran = command("run", f"{name}.yaml", "--out", name, "--no-plots")
    assert ran.code == 0, ran.err
    chosen = command("choose", name, "--best", "accuracy")
    by_eye = command("choose", name, "--id", RunDir.existing(place / name).front().ids[0])
    for done in (ran, chosen, by_eye):
        lines = [one for one in done.out.splitlines() if line and one.startswith(line)]
        assert len(lines) == (line is not None), done.out + done.err
        assert line is not None or "ranges of its accuracy" not in done.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--where", "coverage"], "where: expected METRIC>=NUMBER"),
        (["--where", "coverrage>=0.5"], "did you mean 'coverage'?"),
        (["--where", "coverage>=2"], "where coverage>=2: no solution is left"),
        (["--where", "test_accuracy>=0.5"], "expected a validation metric"),
        (["--best", "costs"], "did you mean 'cost'?"),
        (["--weights", "coverage"], "--weights: expected METRIC=NUMBER, found 'coverage'"),
        (["--best", "cost", "--knee"], "expected one of best, knee, weights, costs and id"),
        (["--id", "999999"], "id: expected a solution of the front"),
        (["--costs", "fp=1"], "costs: expected fp and fn, or costs by class, found fp"),
        (["--costs", "fp=1,fn=2"], "costs: expected a prior"),
        (["--prior", "0.1"], "expected with costs"),
        (["--costs", "fp=1,fn=2", "--prior", "0"], "prior: expected a share above 0"),
        (
            ["--costs", "fp=1,fn=2", "--prior", "0.1", "--per-unit", "complexity=1"],
            "the metric 'complexity'",
        ),
        (["--export", "small.yaml"], "expected a new directory"),
        (["--sure", "90"], "sure: expected with at least one limit"),
        (["--sure", "190", "--where", "coverage>=0.5"], "between 0 and 100, found 190"),
        (
            ["--sure", "99", "--where", "coverage>=0.99", "--where", "accuracy>=0.8"],
            "the tightest limit that one does meet is",
        ),
        (["--sure", "90", "--mix", "--best", "accuracy"], "--sure: cannot go with --mix"),
    ],
)
def test_choose_refuses(finished, monkeypatch, capsys, options, sentence):
    monkeypatch.chdir(finished.dir.parent)
    assert main(["choose", "first", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_choose_says_what_to_expect(finished, command):
    done = command("choose", "first", "--where", "coverage>=0.5", "--best", "accuracy", "--details")
    assert done.code == 0, done.err
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", done.out, re.MULTILINE)
    assert f"Solution {chosen} on new records" in done.out
    row = next(line for line in done.out.splitlines() if re.match(r".accuracy +.", line))
    claimed, expected, low, high, least, most, test = map(float, re.findall(r"[\d.]+", row))
    front = pd.read_csv(finished.dir / "front.csv").set_index("id").loc[int(chosen)]
    assert claimed == pytest.approx(front["accuracy"], abs=5e-5)
    assert test == pytest.approx(front["test_accuracy"], abs=5e-5)
    assert expected < claimed
    assert least < low < high <= most  # of so many test records
    assert re.search(r"the rule picks this design in \d+% of resamples, \d+ others take", done.out)


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


@pytest.fixture(scope="module")
def exported(finished, command, place):
    front = pd.read_csv(finished.dir / "front.csv")
    id = int(front.sort_values("stages")["id"].iloc[-1])
    done = command("choose", "first", "--id", str(id), "--export", "model dir")
    assert done.code == 0, done.err
    assert f"chosen (*): solution {id}" in done.out
    assert re.search(
        r"^try it +\S*paretolab predict 'model dir' 'model dir/example.csv'$",
        done.out,
        re.MULTILINE,
    )
    return place / "model dir", id


@pytest.mark.slow
def test_choose_shows_the_system_and_draws_it_again(finished, command):
    """Each choice is the run's chosen one: its model, table and picture follow."""
    plots = finished.dir / "plots"
    assert (plots / "system.png").is_file()  # that of the run
    ids = pd.read_csv(finished.dir / "front.csv").sort_values("cost")["id"].tolist()
    for id in (ids[0], ids[-1]):
        done = command("choose", "first", "--id", str(id))
        assert done.code == 0, done.err
        assert f"Solution {id}, on 60 validation records" in done.out
        assert f"Solution {id}, as chosen" in (finished.dir / "report.html").read_text(
            encoding="utf-8"
        )
        model = json.loads((finished.dir / "model" / "model.json").read_text())
        assert model["about"]["solution"] == id
        leaving = [sum(s["answers"].values()) for s in model["walk"]["stages"]]
        front = pd.read_csv(finished.dir / "front.csv").set_index("id")
        assert front["coverage"][id] == sum(leaving) / 60
        card = (finished.dir / "model" / "README.md").read_text()
        assert (
            f"Of 60 validation records, which the search has seen, {60 - sum(leaving)} leave"
            in card
        )


@pytest.mark.slow
def test_choose_without_the_data_still_chooses(place, command):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    table["target"] = (table["a"] + rng.normal(size=120) > 0).astype(int)
    table.to_csv(place / "gone.csv", index=False)
    problem = {"kind": "multistage", "dataset": {"path": "gone.csv"}, "threshold": 0.6}
    write(place / "gone.yaml", small(name="gone", problem=problem))
    assert command("run", "gone.yaml", "--out", "without").code == 0
    (place / "gone.csv").unlink()
    done = command("choose", "without", "--best", "cost")
    assert done.code == 0
    assert "chosen (*): solution" in done.out
    assert "its model and picture are not written: " in done.err
    assert command("choose", "without", "--best", "cost", "--export", "m").code == 2


def test_the_model_of_something_else_is_not_overwritten(finished, place, tmp_path, command):
    """The same solution of the same run may be exported again."""
    ids = pd.read_csv(finished.dir / "front.csv")["id"].tolist()
    folder = tmp_path / "kept"
    export = ["--export", str(folder)]
    assert command("choose", "first", "--id", str(ids[0]), *export).code == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write(place / "other.yaml", small(name="other", algorithm__population=20))
    assert command("run", "other.yaml", "--out", "other", "--no-plots").code == 0
    for options in (["first", "--id", str(ids[1])], ["other", "--best", "cost"]):
        done = command("choose", *options, *export)
        assert done.code == 2
        sentence = (
            f"--export {folder}: expected a new directory, or one with the model of this very "
            f"solution, found the model of solution {ids[0]} of run 'small'; give another"
        )
        assert sentence in done.err
    assert not (place / "other" / "choice.json").exists()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert command("choose", "first", "--id", str(ids[0]), *export).code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_damaged_model_is_not_overwritten(finished, tmp_path, capsys):
    (tmp_path / "model.json").write_text("{")
    choose = ["choose", str(finished.dir), "--best", "cost", "--export", str(tmp_path)]
    assert main(choose) == 2
    assert "found the model of something else" in capsys.readouterr().err
    assert (tmp_path / "model.json").read_text() == "{"


def test_predict(exported, command, place):
    folder, _ = exported
    rng = np.random.default_rng(0)
    names = [f"f{i}" for i in range(1, 7)]
    table = pd.DataFrame(rng.normal(size=(50, 6)), columns=names)
    table.to_csv(place / "new.csv", index=False)
    done = command("predict", "model dir", "new.csv", "--out", "answers.csv")
    assert done.code == 0, done.err
    answers = pd.read_csv(place / "answers.csv")
    assert answers.columns.tolist() == ["label", "confidence", "stage", "cost", "missing"]
    assert len(answers) == 50
    assert set(answers["label"]) <= {"0", "1", "inconclusive"}
    rejected = answers["label"] == "inconclusive"
    assert rejected.any()
    assert (answers["confidence"][~rejected] >= 0.8).all()
    assert (answers["confidence"][rejected] < 0.8).all()
    model = json.loads((folder / "model.json").read_text())
    costs = np.cumsum(
        [sum([1, 2, 3, 4, 5, 6.5][f] for f in stage) for stage in model["model"]["stages"]]
    )
    assert answers["cost"].tolist() == costs[answers["stage"] - 1].tolist()
    assert (answers["stage"][rejected] == len(costs)).all()


def test_a_bad_value_spoils_its_record_and_no_other(exported, command, place):
    """Nor does it where the record was answered before, as with columns of later stages."""
    whole = pd.DataFrame(
        np.random.default_rng(1).normal(size=(60, 6)), columns=[f"f{i}" for i in range(1, 7)]
    )
    stages = json.loads((exported[0] / "model.json").read_text())["model"]["stages"]
    early, late = f"f{stages[0][0] + 1}", f"f{stages[-1][0] + 1}"

    def asked(table, name, *options):
        table.to_csv(place / f"{name}.csv", index=False)
        done = command("predict", "model dir", f"{name}.csv", "--out", f"{name} out.csv", *options)
        if done.code:
            return done, None
        return done, pd.read_csv(place / f"{name} out.csv", keep_default_na=False, dtype=str)

    want = asked(whole, "whole")[1]
    assert "error" not in want
    want = want.drop(columns="confidence")  # its last bit depends on the records beside one
    done, found = asked(whole.drop(columns=late), "without")
    assert done.code == 0, done.err
    reached = want["stage"] == str(len(stages))
    assert 0 < reached.sum() < 60
    pd.testing.assert_frame_equal(found.loc[~reached, want.columns], want[~reached])
    assert (found.loc[~reached, "error"] == "").all()
    assert (found.loc[reached, want.columns] == "").all(axis=None)
    sentence = f"data: expected a column {late!r}, found none of that name"
    assert found.loc[reached, "error"].str.startswith(sentence).all()
    assert f"paretolab: {reached.sum()} of 60 records have no answer; the column er" in done.err
    assert sentence in asked(whole.drop(columns=late), "without", "--strict")[0].err

    bad = whole.astype(object)
    bad.loc[7, early], bad.loc[3, early] = "soon", "inf"
    done, found = asked(bad, "bad")
    assert found.index[found["error"] != ""].tolist() == [3, 7]
    assert found["error"][7] == f"feature {early!r}: expected numbers, found 'soon' in record 8"
    pd.testing.assert_frame_equal(found[want.columns].drop([3, 7]), want.drop([3, 7]))
    done, _ = asked(bad, "bad", "--strict")
    assert (done.code, "expected numbers, found 'soon'" in done.err) == (2, True)
    done, _ = asked(bad.loc[[7]], "all")
    assert (done.code, "expected numbers, found 'soon'" in done.err) == (2, True)


def test_answers_are_written_whole_or_not_at_all(exported, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    predict = ["predict", "model dir", "model dir/example.csv", "--out"]
    (place / "answers.csv").write_text("of last week")
    (place / "link.csv").symlink_to("answers.csv")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("framework.files.os.fsync", full)
        assert main([*predict, "answers.csv"]) == 2
    assert (place / "answers.csv").read_text() == "of last week"
    assert "--out answers.csv: cannot be written: No space left" in capsys.readouterr().err
    assert not (place / "answers.csv.part").exists()
    assert main([*predict, "link.csv"]) == 0
    assert (place / "link.csv").is_symlink()
    assert (place / "answers.csv").read_text().startswith("label,")


def test_predict_to_the_terminal(exported, command):
    done = command("predict", "model dir", "model dir/example.csv")
    assert done.code == 0
    assert done.out.splitlines()[0] == "label,confidence,stage,cost,missing"
    assert len(done.out.splitlines()) == 6


def test_the_exported_model_is_the_decoded_one(exported, finished):
    folder, id = exported
    run_dir = RunDir(finished.dir)
    front = run_dir.front()
    problem = make_problem(run_dir.config(checked=True))
    problem.sub_classifiers.store = None
    decoded = problem.decode(front.X[front.ids == id][0].astype(problem.space.dtype))
    names = list(problem.feature_names)
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(80, 6)), columns=names)
    pd.testing.assert_frame_equal(
        load_model(folder).predict_table(table), decoded.predict_table(table)
    )
    assert json.loads((folder / "model.json").read_text())["about"]["solution"] == id


def test_a_front_is_read_once_and_again_where_the_file_is_another(finished, tmp_path):
    shutil.copytree(finished.dir, tmp_path / "run", ignore=shutil.ignore_patterns("plots"))
    run_dir = RunDir(tmp_path / "run")
    front = run_dir.front()
    assert run_dir.front() is front
    Front(front.rows.take(np.arange(1)), front.roles, front.gene_names).save(run_dir.front_file)
    assert run_dir.front().ids.tolist() == front.ids[:1].tolist()
    run_dir.front_file.unlink()
    with pytest.raises(InputError, match="expected a front"):
        run_dir.front()


def test_predict_ends_quietly_where_nobody_reads_on(exported, place):
    big = pd.DataFrame(np.zeros((20000, 6)), columns=[f"f{i}" for i in range(1, 7)])
    big.to_csv(place / "big.csv", index=False)
    process = start("predict", "model dir", "big.csv", cwd=place)
    assert process.stdout.readline() == "label,confidence,stage,cost,missing\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere", "small.yaml"], "nowhere/model.json: expected a model's description"),
        (["model dir", "nowhere.csv"], "nowhere.csv: expected a CSV or Parquet file, found no su"),
        (
            ["model dir", "model dir/example.csv", "--out", "no/such/folder.csv"],
            "--out no/such/folder.csv: cannot be written",
        ),
        (
            ["model dir", "lacks.csv"],
            "expected columns 'f3', 'f5', 'f6' and 'f4', found none of those",
        ),
    ],
)
def test_predict_refuses(exported, command, place, arguments, sentence):
    (place / "lacks.csv").write_text("f1,f2\n1,2\n")
    done = command("predict", *arguments)
    assert done.code == 2
    assert sentence in done.err


# --- check and list -------------------------------------------------------------------------


@pytest.mark.slow
def test_check_says_what_speaks_against_a_max_pending(command, place):
    base = ["check", "small.yaml", "--set", "budget={evaluations: 10000}"]
    done = command(*base, "--set", "algorithm.max_pending=64", "--set", "workers=16")
    assert "max_pending" in done.out
    assert "would often wait" not in done.out
    assert "cost quality" not in done.out
    done = command(*base, "--set", "algorithm.max_pending=512", "--set", "workers=256")
    assert "would often wait" in done.out
    assert "cost quality" in done.out


def test_check(command, place):
    before = sorted(path.name for path in place.iterdir())
    done = command("check", "small.yaml", "--set", "constraints=[{metric: cost, at_most: 20}]")
    assert done.code == 0
    assert re.search(r"^constraints +cost <= 20$", done.out, re.M)
    assert re.search(r"^budget +generations=4, max_failed_share=0.5$", done.out, re.M)
    assert re.search(r"^records +240 \(120 train, 60 validation, 60 test\)$", done.out, re.M)
    assert re.search(r"^candidates .*at most 4 blocks, 2,163 in all$", done.out, re.M)
    assert re.search(
        r"^memory +data 0\.0 MB, .* 0\.1 MB per 1,000; at most 63 of them, 0 MB", done.out, re.M
    )
    assert re.search(
        r"^objectives +coverage \(max\), accuracy \(max\), cost \(min\)$", done.out, re.M
    )
    assert done.out.splitlines()[-1] == "nothing is wrong with it"
    assert sorted(path.name for path in place.iterdir()) == before


@pytest.mark.parametrize("command", ["check", "run"])
def test_more_memory_than_is_free_is_said(place, monkeypatch, capsys, command):
    free = SimpleNamespace(available=10_000, total=10**10)
    monkeypatch.setattr("framework.experiment.estimate.psutil.virtual_memory", lambda: free)
    monkeypatch.chdir(place)
    options = ["--no-plots", "--out", "little memory"] if command == "run" else []
    assert main([command, "small.yaml", *options]) == 0
    said = capsys.readouterr()
    assert "warning" in said.out + said.err
    assert re.search(r"0\.0 GB more memory may be needed, 0\.0 GB are free", said.out + said.err)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("algorithms", r"^emsco +\S"),
        ("problems", r"^multistage +\S"),
        ("functions", r"^zdt1 +Zitzler, Deb and Thiele"),
        ("datasets", r"^heart_failure +dataset: \{name: heart_failure\}$"),
        ("metrics", r"^multistage\.cost +mean acquisition cost per record \(min\)$"),
    ],
)
def test_list(capsys, what, line):
    assert main(["list", what]) == 0
    assert re.search(line, capsys.readouterr().out, re.MULTILINE)


def test_list_everything(command):
    done = command("list")
    assert done.code == 0
    for heading in ("algorithms", "problems", "functions", "datasets", "metrics"):
        assert re.search(rf"^{heading}$", done.out, re.MULTILINE)


def test_every_command_has_help(command):
    done = command("--help")
    assert done.code == 0
    for name in ("run", "resume", "check", "list", "choose", "predict", "sync", "ui"):
        assert re.search(rf"^ +{name} +\S", done.out, re.MULTILINE)


def test_version(command):
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", command("--version").out)


def test_a_directory_that_cannot_be_written_ends_in_a_sentence(finished, capsys, monkeypatch):
    def closed(path, content):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("framework.experiment.run_dir.write_whole", closed)
    monkeypatch.setattr("framework.cli.choose._keep", lambda *_: [])
    assert main(["choose", str(finished.dir), "--best", "cost"]) == 2
    error = capsys.readouterr().err
    assert "choice.json: cannot be used (Permission denied); let it be read and written" in error


def test_other_prices_are_those_of_the_problem_with_these_prices(finished, command, place):
    """Every design that was evaluated, scored by a problem that had these prices from the start."""
    files = sorted(p for p in finished.dir.iterdir() if not p.name.startswith("journal"))
    before = [p.stat().st_mtime_ns for p in files]
    done = command("choose", "first", "--prices", "f2=0,f5=40", "--best", "accuracy",
                   "--export", "models/repriced")  # fmt: skip
    assert done.code == 0, done.err
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", done.out, re.MULTILINE)
    run_dir = RunDir.existing(finished.dir)
    values = [1, 2, 3, 4, 5, 6.5]
    names = make_problem(run_dir.config(checked=True)).feature_names
    values[names.index("f2")], values[names.index("f5")] = 0, 40
    twin = make_problem(
        changed(run_dir.config(checked=True), {"problem.costs": {"values": values}}, Path("x"))
    )
    X, ids = designs_of(run_dir)
    twin.outcomes(X)  # trains what is missing
    found = pd.DataFrame(dict(twin.evaluate(X, None)), index=ids)
    assert int(chosen) == best_of(found, "accuracy")
    about = json.loads((place / "models/repriced/model.json").read_text())["about"]
    assert about["validation"]["cost"] == found.loc[int(chosen), "cost"]
    assert load_model(place / "models/repriced").costs_[names.index("f5")] == 40
    assert before == [p.stat().st_mtime_ns for p in files]


@pytest.mark.parametrize(
    ("prices", "sentence"),
    [
        ("f9=1", "prices: expected features (f"),
        ("f2=-1", "prices: f2: expected a number from 0, found -1"),
        ("f2=much", "--prices: expected FEATURE=NUMBER, found 'f2=much'"),
    ],
)
def test_prices_that_cannot_be(finished, place, monkeypatch, capsys, prices, sentence):
    monkeypatch.chdir(place)
    assert main(["choose", "first", "--prices", prices]) == 2
    assert sentence in capsys.readouterr().err


def designs_of(run_dir):
    with run_dir.journal() as journal:
        batches = [batch for batch, _ in journal.batches()]
    X = np.concatenate([batch.X for batch in batches])
    return X, np.concatenate([batch.ids for batch in batches])


def told(capsys, *options):
    """Return what ``choose --json`` says."""
    assert main(["choose", "first", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_other_costs_of_errors_are_those_of_the_problem_with_these_costs(
    finished, place, monkeypatch, capsys
):
    monkeypatch.chdir(place)
    run_dir = RunDir.existing(finished.dir)
    costs = {"problem.error_costs": {"0": 1, "1": 20}}
    twin = make_problem(changed(run_dir.config(checked=True), costs, Path("x")))
    X, ids = designs_of(run_dir)
    twin.outcomes(X)
    found = pd.DataFrame(dict(twin.evaluate(X, None)), index=ids)
    best = told(capsys, "--costs", "0=1,1=20")
    assert best["metrics"]["error_cost"]["claimed"] == pytest.approx(
        found.loc[best["solution"], "error_cost"]
    )
    cheaper = told(capsys, "--costs", "0=1,1=20", "--best", "cost")
    assert cheaper["solution"] == best_of(found, "cost")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--costs", "0=1,1=20"], {"costs": {0: 1, 1: 20}}),
        (["--costs", "1=3", "--where", "cost<=18"], {"costs": {"1": 3}, "where": "cost<=18"}),
        (
            ["--prior", "0=0.05,1=0.95", "--best", "accuracy"],
            {"prior": {0: 0.05, 1: 0.95}, "best": "accuracy"},
        ),
        (
            ["--prices", "f2=0,f5=40", "--within", "coverage=2%", "--best", "cost"],
            {"prices": {"f2": 0, "f5": 40}, "within": "coverage=2%", "best": "cost"},
        ),
        (["--costs", "fp=1,fn=2", "--prior", "0.4"], {"costs": {"fp": 1, "fn": 2}, "prior": 0.4}),
        (
            ["--where", "coverage>=0.3", "--best", "cost", "--sure", "60"],
            {"where": "coverage>=0.3", "best": "cost", "sure": 60},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_python_chooses_what_the_command_chooses(
    finished, place, monkeypatch, capsys, options, words
):
    monkeypatch.chdir(place)
    said, result = told(capsys, *options), RunResult(finished.dir)
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
        ({"costs": {"fp": 1}}, "costs: expected fp and fn, or costs by class, found fp"),
        ({"costs": {"fp": 1, "fn": 2}}, "costs: expected a prior, the share of positive records"),
        ({"costs": {"fp": 1, "fn": 2}, "prior": 0}, "prior: expected a share above 0 and below 1"),
        ({"costs": {"1": -1}}, "costs: expected numbers from 0, one above it"),
        ({"costs": {"1": float("nan")}}, "costs: expected numbers from 0, one above it"),
        ({"costs": {"1": "much"}}, "costs: expected numbers by name"),
        ({"prior": 0.5}, "prior and per_unit: expected with costs, found alone"),
        ({"costs": {"1": 2}, "prior": 0.5}, "prior: expected a share of each class"),
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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--costs", "9=1"], "costs: expected a class of the data"),
        (["--costs", "0=-1,1=2"], "costs: expected numbers from 0, one above it, found 0=-1"),
        (["--costs", "0=0,1=0"], "costs: expected numbers from 0, one above it"),
        (
            ["--costs", "0=1,1=2", "--prior", "0.1"],
            "prior: expected a share of each class, CLASS=SHARE",
        ),
        (["--prior", "0=0,1=1"], "prior: expected shares above 0 that add up to 1, found 0=0, 1=1"),
        (["--prior", "0=0.5,1=0.6"], "prior: expected shares above 0 that add up to 1"),
        (["--prior", "0=1"], "prior: expected a share of each class (0, 1), found 0=1"),
        (["--costs", "fp=1,fn=1", "--prior", "0=0.5,1=0.5"], "with fp and fn, found"),
        (["--costs", "0=1,1=2", "--per-unit", "cost=1"], "per_unit: expected with costs fp and fn"),
        (["--costs", "fp=1,fn=1", "--prior", "half"], "--prior: expected a share above 0"),
    ],
)
def test_costs_and_shares_that_cannot_be(finished, place, monkeypatch, capsys, options, sentence):
    monkeypatch.chdir(place)
    assert main(["choose", "first", *options]) == 2
    assert sentence in capsys.readouterr().err
