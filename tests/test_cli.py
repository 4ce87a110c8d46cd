"""The command from run to predict: files, exit codes, and what it says."""

from __future__ import annotations

import csv
import importlib.util
import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

from framework.models.multistage import predict_table
from framework.models.store import load_model
from framework.rundir import RunDir
from framework.trial import make_problem
from tests.command import assert_each_row_once, call, rows, small, write

METRICS = [
    "coverage", "accuracy", "cost", "stages", "inconclusive_rate", "false_positive_rate",
]  # fmt: skip
NO_RAY = importlib.util.find_spec("framework.ray_evaluator") is None


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a configuration and the cache of its sub-classifiers."""
    folder = tmp_path_factory.mktemp("cli")
    write(folder / "small.yaml", small())
    return folder


@pytest.fixture(scope="module")
def command(place):
    def run(*arguments, **more):
        env = {"PARETOLAB_CACHE": str(place / "cache"), **more.pop("env", {})}
        return call(*arguments, cwd=place, env=env, **more)

    return run


@pytest.fixture(scope="module")
def finished(place, command):
    """Run the small configuration once; return the finished process."""
    done = command("run", "small.yaml", "--out", "first")
    assert done.code == 0, done.err
    done.dir = place / "first"
    return done


def front_of(directory):
    return (directory / "front.csv").read_bytes()


# --- run ------------------------------------------------------------------------------------


def test_run_says_what_it_did_and_what_to_do_next(finished):
    assert "evaluated in this process" in finished.err
    assert "gen 4 " in finished.err
    assert "ended by generations" in finished.err
    assert re.search(r"Front: \d+ solutions", finished.out)
    assert re.search(r"^run directory +first$", finished.out, re.MULTILINE)
    assert re.search(r"^recommended +first/model ", finished.out, re.MULTILINE)
    assert re.search(r"^choose another +\S*paretolab choose first --where", finished.out, re.M)
    assert "\x1b" not in finished.out + finished.err


def test_run_directory(finished):
    names = {path.name for path in finished.dir.iterdir()} - {
        "journal.sqlite-wal", "journal.sqlite-shm",
    }  # fmt: skip
    assert names == {
        "about.json", "config.yaml", "front.csv", "journal.sqlite", "model", "plots",
        "summary.json",
    }  # fmt: skip
    plots = {path.suffix for path in (finished.dir / "plots").iterdir()}
    assert plots == {".png", ".html"}
    assert (finished.dir / "model" / "model.json").is_file()


def test_resolved_configuration_has_every_default_and_runs_again(finished, command):
    config = yaml.safe_load((finished.dir / "config.yaml").read_text())
    assert config["algorithm"]["mutation_rate"] == 0.075
    assert config["problem"]["split"]["train"] == 0.5
    assert config["problem"]["classifier"]["kind"] == "logistic_regression"
    again = command("run", finished.dir / "config.yaml", "--out", "from resolved")
    assert again.code == 0, again.err
    assert front_of(finished.dir.parent / "from resolved") == front_of(finished.dir)


def test_front_csv(finished):
    with (finished.dir / "front.csv").open() as file:
        header, *records = csv.reader(file)
    tests = [f"test_{name}" for name in METRICS]
    assert header == ["id", *METRICS, *tests, *[f"gene_f{i}" for i in range(1, 7)]]
    assert len(records) == json.loads((finished.dir / "summary.json").read_text())["front_size"]
    ids = [int(record[0]) for record in records]
    assert ids == sorted(ids)


def test_summary(finished):
    summary = json.loads((finished.dir / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["algorithm"] == "emsco"
    assert summary["problem"] == "multistage"
    assert summary["seed"] == 0
    assert summary["rows_failed"] == 0
    assert summary["evaluations"] == sum(n for _, n in rows(finished.dir / "journal.sqlite"))
    assert summary["wall_s"] > 0
    assert 0 < summary["indicators"]["hypervolume"] < 1
    assert summary["front_size"] > 0
    assert {"python", "paretolab", "numpy", "scikit-learn"} <= summary["versions"].keys()


def test_the_same_run_again_has_the_same_front_to_the_bit(finished, command, place):
    again = command("run", "small.yaml", "--out", "again")
    assert again.code == 0
    assert front_of(place / "again") == front_of(finished.dir)


def test_the_same_run_without_a_cache_has_the_same_front(finished, command, place):
    cold = command("run", "small.yaml", "--out", "cold", env={"PARETOLAB_CACHE": "off"})
    assert cold.code == 0
    assert front_of(place / "cold") == front_of(finished.dir)


def test_another_seed_is_another_run(finished, command, place):
    other = command("run", "small.yaml", "--out", "seed 5", "--seed", "5", "--quiet")
    assert other.code == 0
    assert front_of(place / "seed 5") != front_of(finished.dir)
    assert yaml.safe_load((place / "seed 5" / "config.yaml").read_text())["seed"] == 5


@pytest.mark.skipif(NO_RAY, reason="no Ray evaluator here")
def test_ray_workers_find_the_same_front(finished, command, place):
    done = command("run", "small.yaml", "--out", "ray", "--workers", "2",
                   env={"PARETOLAB_CACHE": "off"})  # fmt: skip
    assert done.code == 0, done.err
    assert "evaluated by Ray" in done.err
    assert front_of(place / "ray") == front_of(finished.dir)


def test_auto_workers_say_who_evaluated(finished, command, place):
    done = command("run", "small.yaml", "--out", "auto", "--workers", "auto")
    assert done.code == 0, done.err
    assert "scored in this process" in done.err
    assert front_of(place / "auto") == front_of(finished.dir)


def test_without_out_runs_are_numbered(command, place):
    for number in (1, 2):
        done = command("run", "small.yaml", "--set", "budget.generations=0")
        assert done.code == 0
        assert (place / "runs" / f"small-00{number}" / "front.csv").is_file()


def test_set_reaches_into_sections_and_lists(command, place):
    done = command(
        "run", "small.yaml", "--out", "set", "--set", "budget.generations=1",
        "--set", "objectives.2.sense=max", "--set", "constraints=[{metric: cost, at_least: 3}]",
    )  # fmt: skip
    assert done.code == 0
    config = yaml.safe_load((place / "set" / "config.yaml").read_text())
    assert config["objectives"][2]["sense"] == "max"
    front = pd.read_csv(place / "set" / "front.csv")
    assert (front["cost"] >= 3).all()


def test_a_front_without_a_feasible_row_is_empty(command, place):
    done = command("run", "small.yaml", "--out", "infeasible", "--set", "budget.generations=1",
                   "--set", "constraints=[{metric: cost, at_most: 0.001}]")  # fmt: skip
    assert done.code == 0
    assert "the front is empty: no row was successful and feasible" in done.out
    assert json.loads((place / "infeasible" / "summary.json").read_text())["front_size"] == 0
    chosen = command("choose", "infeasible")
    assert chosen.code == 2
    assert "front: expected at least one solution, found none" in chosen.err


def test_too_many_failed_rows_are_code_3(command, place):
    done = command(
        "run", "small.yaml", "--out", "failing", "--set", "algorithm.population=60", "--set",
        "problem.classifier={kind: k_neighbors, n_neighbors: 1000}",
    )  # fmt: skip
    assert done.code == 3
    assert re.search(r"60 of 60 rows failed", done.err)
    summary = json.loads((place / "failing" / "summary.json").read_text())
    assert (summary["status"], summary["rows_failed"]) == ("failed", 60)


# --- resume ---------------------------------------------------------------------------------


def test_resume_goes_on_where_more_budget_is_given(finished, command, place):
    short = command("run", "small.yaml", "--out", "short", "--set", "budget.generations=2")
    assert short.code == 0
    before = rows(place / "short" / "journal.sqlite")
    more = command("resume", "short", "--set", "budget.generations=4")
    assert more.code == 0, more.err
    after = rows(place / "short" / "journal.sqlite")
    assert len(before) == 3
    assert after[:3] == before
    assert len(after) == 5
    assert front_of(place / "short") == front_of(finished.dir)
    assert (
        yaml.safe_load((place / "short" / "config.yaml").read_text())["budget"]["generations"] == 4
    )


def test_resume_of_a_finished_run_changes_nothing(finished, command):
    before = front_of(finished.dir), rows(finished.dir / "journal.sqlite")
    again = command("resume", "first")
    assert again.code == 0
    assert (front_of(finished.dir), rows(finished.dir / "journal.sqlite")) == before


@pytest.mark.parametrize(
    ("setting", "key", "old", "new"),
    [
        ("algorithm.mutation_rate=0.5", "algorithm.mutation_rate", "0.075", "0.5"),
        ("seed=9", "seed", "0", "9"),
        ("problem.threshold=0.9", "problem.threshold", "0.8", "0.9"),
    ],
)
def test_resume_as_another_run_is_refused(finished, command, setting, key, old, new):
    config = (finished.dir / "config.yaml").read_bytes()
    done = command("resume", "first", "--set", setting)
    assert done.code == 2
    assert f"{key} is {old} there and {new} here" in done.err
    assert (finished.dir / "config.yaml").read_bytes() == config


# --- choose and predict ---------------------------------------------------------------------


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
        (["--best", "accuracy"], lambda f: best_of(f, "accuracy")),
        (["--where", "cost<=18", "--best", "coverage"],
         lambda f: best_of(f[f["cost"] <= 18], "coverage")),
        (["--within", "coverage=0", "--best", "cost"],
         lambda f: best_of(f[f["coverage"] == f["coverage"].max()], "cost")),
        (["--weights", "coverage=0,cost=1"], lambda f: best_of(f, "cost")),
        (["--knee"], nearest_to_ideal),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_choose(finished, command, options, expected):
    done = command("choose", "first", *options)
    assert done.code == 0, done.err
    (chosen,) = re.findall(r"^chosen \(\*\): solution (\d+)$", done.out, re.MULTILINE)
    front = pd.read_csv(finished.dir / "front.csv").set_index("id")
    assert len(front) > 5
    assert int(chosen) == expected(front)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--where", "coverage"], "where: expected METRIC>=NUMBER"),
        (["--where", "coverrage>=0.5"], "did you mean 'coverage'?"),
        (["--where", "coverage>=2"], "where coverage>=2: no solution is left"),
        (["--where", "test_accuracy>=0.5"], "expected a validation metric"),
        (["--best", "costs"], "did you mean 'cost'?"),
        (["--weights", "coverage"], "--weights: expected METRIC=NUMBER, found 'coverage'"),
        (["--best", "cost", "--knee"], "expected one of best, knee, weights and id"),
        (["--id", "999999"], "id: expected a solution of the front"),
        (["--export", "small.yaml"], "expected a new directory"),
    ],
)
def test_choose_refuses(finished, command, options, sentence):
    done = command("choose", "first", *options)
    assert done.code == 2
    assert sentence in done.err


@pytest.fixture(scope="module")
def exported(finished, command, place):
    front = pd.read_csv(finished.dir / "front.csv")
    id = int(front.sort_values("stages")["id"].iloc[-1])
    done = command("choose", "first", "--id", str(id), "--export", "model dir")
    assert done.code == 0, done.err
    assert f"chosen (*): solution {id}" in done.out
    assert re.search(r"^try it +\S*paretolab predict 'model dir' 'model dir/example.csv'$",
                     done.out, re.MULTILINE)  # fmt: skip
    return place / "model dir", id


def test_predict(exported, command, place):
    folder, _ = exported
    rng = np.random.default_rng(0)
    names = [f"f{i}" for i in range(1, 7)]
    table = pd.DataFrame(rng.normal(size=(50, 6)), columns=names)
    table.to_csv(place / "new.csv", index=False)
    done = command("predict", "model dir", "new.csv", "--out", "answers.csv")
    assert done.code == 0, done.err
    answers = pd.read_csv(place / "answers.csv")
    assert answers.columns.tolist() == ["label", "confidence", "stage", "cost"]
    assert len(answers) == 50
    assert set(answers["label"]) <= {"0", "1", "inconclusive"}
    rejected = answers["label"] == "inconclusive"
    assert rejected.any()
    assert (answers["confidence"][~rejected] >= 0.8).all()
    assert (answers["confidence"][rejected] < 0.8).all()
    model = json.loads((folder / "model.json").read_text())
    costs = np.cumsum([sum([1, 2, 3, 4, 5, 6.5][f] for f in stage) for stage in model["stages"]])
    assert answers["cost"].tolist() == costs[answers["stage"] - 1].tolist()
    assert (answers["stage"][rejected] == len(costs)).all()


def test_predict_to_the_terminal(exported, command):
    done = command("predict", "model dir", "model dir/example.csv")
    assert done.code == 0
    assert done.out.splitlines()[0] == "label,confidence,stage,cost"
    assert len(done.out.splitlines()) == 6


def test_the_exported_model_is_the_decoded_one(exported, finished):
    folder, id = exported
    run_dir = RunDir(finished.dir)
    front = run_dir.front()
    problem = make_problem(run_dir.config())
    problem._store = None
    decoded = problem.decode(front.X[front.ids == id][0].astype(problem.space.dtype))
    names = list(problem.feature_names)
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(80, 6)), columns=names)
    pd.testing.assert_frame_equal(
        predict_table(load_model(folder), table), predict_table(decoded, table)
    )
    assert json.loads((folder / "model.json").read_text())["about"]["solution"] == id


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere", "small.yaml"], "nowhere/model.json: expected a model's file"),
        (["model dir", "nowhere.csv"], "nowhere.csv: expected a CSV or Parquet file, found no su"),
        (["model dir", "model dir/example.csv", "--out", "no/such/folder.csv"],
         "--out no/such/folder.csv: cannot be written"),
    ],
)  # fmt: skip
def test_predict_refuses(exported, command, arguments, sentence):
    done = command("predict", *arguments)
    assert done.code == 2
    assert sentence in done.err


def test_predict_names_a_column_that_lacks(exported, command, place):
    (place / "lacks.csv").write_text("f1,f2,f3,f4,f5\n1,2,3,4,5\n")
    done = command("predict", "model dir", "lacks.csv")
    assert done.code == 2
    assert "expected a column 'f6', found none of that name" in done.err


# --- check and list -------------------------------------------------------------------------


def test_check(command, place):
    before = sorted(path.name for path in place.iterdir())
    done = command("check", "small.yaml", "--set", "constraints=[{metric: cost, at_most: 20}]")
    assert done.code == 0
    assert re.search(r"^constraints +cost <= 20$", done.out, re.M)
    assert re.search(r"^budget +generations=4, failures=0.5$", done.out, re.M)
    assert re.search(r"^records +240 \(120 train, 60 validation, 60 test\)$", done.out, re.M)
    assert re.search(r"^candidates .*at most 4 stages, 2,163 in all$", done.out, re.M)
    assert re.search(r"^objectives +coverage \(max\), accuracy \(max\), cost \(min\)$",
                     done.out, re.M)  # fmt: skip
    assert done.out.splitlines()[-1] == "nothing is wrong with it"
    assert sorted(path.name for path in place.iterdir()) == before


@pytest.mark.parametrize(
    ("group", "line"),
    [
        ("algorithms", r"^emsco +\S"),
        ("problems", r"^multistage +\S"),
        ("datasets", r"^heart_failure +dataset: \{name: heart_failure\}$"),
        ("metrics", r"^multistage\.cost +mean acquisition cost a record \(min\)$"),
    ],
)
def test_list(command, group, line):
    done = command("list", group)
    assert done.code == 0
    assert re.search(line, done.out, re.MULTILINE)


def test_list_everything(command):
    done = command("list")
    assert done.code == 0
    for heading in ("algorithms", "problems", "datasets", "metrics"):
        assert re.search(rf"^{heading}$", done.out, re.MULTILINE)


def test_every_command_has_help(command):
    done = command("--help")
    assert done.code == 0
    for name in ("run", "resume", "check", "list", "choose", "predict", "sync", "ui"):
        assert re.search(rf"^ +{name} +\S", done.out, re.MULTILINE)


def test_version(command):
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", command("--version").out)


# --- trials ---------------------------------------------------------------------------------


def check_trials(directory):
    trials = sorted((directory / "trials").iterdir())
    assert [trial.name for trial in trials] == ["000", "001", "002"]
    summaries = [json.loads((trial / "summary.json").read_text()) for trial in trials]
    assert len({summary["seed"] for summary in summaries}) == 3
    assert summaries[0]["seed"] == 0
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["trials"] == 3
    assert summary["evaluations"] == sum(s["evaluations"] for s in summaries)
    volumes = [s["indicators"]["hypervolume"] for s in summaries]
    assert summary["indicators"]["hypervolume"] == pytest.approx(np.mean(volumes))
    for trial in trials:
        assert_each_row_once(trial / "journal.sqlite")
    union = pd.read_csv(directory / "front.csv")
    fronts = [pd.read_csv(trial / "front.csv") for trial in trials]
    together = pd.concat(fronts, ignore_index=True)[["coverage", "accuracy", "cost"]]
    losses = together.to_numpy() * [-1, -1, 1]
    best = [
        row for row in losses
        if not any((other <= row).all() and (other < row).any() for other in losses)
    ]  # fmt: skip
    found = union[["coverage", "accuracy", "cost"]].to_numpy() * [-1, -1, 1]
    assert {tuple(row) for row in found} == {tuple(row) for row in best}
    for _, row in union.iterrows():
        source = fronts[int(row["trial"])].set_index("id").loc[int(row["trial_id"])]
        assert source["cost"] == row["cost"]
        assert source["test_cost"] == row["test_cost"]


@pytest.fixture(scope="module")
def three_trials(command, place):
    done = command("run", "small.yaml", "--out", "trials", "--trials", "3")
    assert done.code == 0, done.err
    done.dir = place / "trials"
    return done


def test_trials_one_by_one(three_trials, finished):
    check_trials(three_trials.dir)
    assert three_trials.err.count("evaluations, front") == 3
    assert front_of(three_trials.dir / "trials" / "000") == front_of(finished.dir)


@pytest.mark.skipif(NO_RAY, reason="no Ray here")
def test_trials_on_ray_have_the_same_fronts(three_trials, command, place):
    done = command("run", "small.yaml", "--out", "ray trials", "--trials", "3", "--workers", "2")
    assert done.code == 0, done.err
    check_trials(place / "ray trials")
    assert front_of(place / "ray trials") == front_of(three_trials.dir)
    assert not (place / "ray trials" / ".token").exists()


def test_resume_adds_trials_and_leaves_the_others_alone(three_trials, command):
    before = (three_trials.dir / "trials" / "001" / "journal.sqlite").stat().st_mtime_ns
    done = command("resume", "trials", "--set", "trials=4")
    assert done.code == 0, done.err
    assert len(list((three_trials.dir / "trials").iterdir())) == 4
    after = (three_trials.dir / "trials" / "001" / "journal.sqlite").stat().st_mtime_ns
    assert after == before


def test_choose_from_trials(three_trials, command, place):
    done = command("choose", "trials", "--best", "cost", "--export", "of trials")
    assert done.code == 0, done.err
    assert (place / "of trials" / "model.json").is_file()
