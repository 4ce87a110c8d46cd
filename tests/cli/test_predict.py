"""The command: predict."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.models.store import load_model
from tests.command import start


@pytest.fixture(scope="module")
def exported(finished, command, place):
    front = pd.read_csv(finished.dir / "front.csv")
    id = int(front.sort_values("stages")["id"].iloc[-1])
    done = command("choose", "first", "--id", str(id), "--export", "model dir", code=0)
    assert f"chosen (*): solution {id}" in done.out
    advice = r"^try it +\S*paretolab predict 'model dir' 'model dir/example.csv'$"
    assert re.search(advice, done.out, re.MULTILINE)
    return place / "model dir", id


def records(n, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, 6)), columns=[f"f{i}" for i in range(1, 7)])


def test_predict(exported, command, place):
    folder, _ = exported
    records(50, seed=0).to_csv(place / "new.csv", index=False)
    command("predict", "model dir", "new.csv", "--out", "answers.csv", code=0)
    answers = pd.read_csv(place / "answers.csv")
    assert answers.columns.tolist() == ["label", "confidence", "stage", "cost", "missing"]
    assert len(answers) == 50
    assert set(answers["label"]) <= {"0", "1", "inconclusive"}
    rejected = answers["label"] == "inconclusive"
    assert rejected.any()
    assert (answers["confidence"][~rejected] >= 0.8).all()
    assert (answers["confidence"][rejected] < 0.8).all()
    model = json.loads((folder / "model.json").read_text())
    prices = [1, 2, 3, 4, 5, 6.5]
    costs = np.cumsum([sum(prices[f] for f in stage) for stage in model["model"]["stages"]])
    assert answers["cost"].tolist() == costs[answers["stage"] - 1].tolist()
    assert (answers["stage"][rejected] == len(costs)).all()


def test_a_bad_value_spoils_its_record_and_no_other(exported, command, place):
    """Nor does it where the record was answered before, as with columns of later stages."""
    whole = records(60)
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
    assert "columns 'f1', 'f3', 'f5' and 'f6', found" in asked(whole[[]].assign(a=1), "none")[0].err

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
    assert not list(place.glob(".paretolab-*"))
    assert main([*predict, "link.csv"]) == 0
    assert (place / "link.csv").is_symlink()
    assert (place / "answers.csv").read_text().startswith("label,")


def test_the_exported_model_is_the_decoded_one(exported, finished):
    folder, id = exported
    run_dir = RunDir(finished.dir)
    front = run_dir.front()
    problem = make_problem(run_dir.config(checked=True))
    problem.sub_classifiers.store = None
    decoded = problem.decode(front.X[front.ids == id][0].astype(problem.space.dtype))
    table, loaded = records(80), load_model(folder)
    assert list(table) == list(problem.feature_names)
    pd.testing.assert_frame_equal(loaded.predict_table(table), decoded.predict_table(table))
    assert json.loads((folder / "model.json").read_text())["about"]["solution"] == id


def test_predict_ends_quietly_where_nobody_reads_on(exported, place):
    big = pd.DataFrame(np.zeros((4000, 6)), columns=[f"f{i}" for i in range(1, 7)])
    big.to_csv(place / "big.csv", index=False)
    process = start("predict", "model dir", "big.csv", cwd=place)
    assert process.stdout.readline() == "label,confidence,stage,cost,missing\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("nowhere small.yaml", "nowhere/model.json: expected a model's description"),
        ("'model dir' nowhere.csv", "nowhere.csv: expected a CSV or Parquet file, found no su"),
        (
            "'model dir' 'model dir/example.csv' --out no/such/folder.csv",
            "--out no/such/folder.csv: cannot be written",
        ),
        ("'model dir' lacks.csv", "columns 'f3', 'f5' and 'f6', found none of those"),
    ],
)
def test_predict_refuses(exported, command, place, arguments, sentence):
    (place / "lacks.csv").write_text("f1,f2\n1,2\n")
    assert sentence in command("predict", *shlex.split(arguments), code=2).err
