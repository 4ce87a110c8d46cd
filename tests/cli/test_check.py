"""`paretolab check`: runs, experiments and sweeps, before anything is trained."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework import registry
from framework.cli.main import main
from framework.components import building_nothing
from framework.errors import NotBuiltError
from framework.experiment.config import RunConfig, check
from tests.cli.places import BUILD, EXPERIMENT, SWEEP
from tests.command import small, write

ENSEMBLE = small(
    problem={"kind": "ensemble", "library": {"build": BUILD}},
    objectives=[
        {"metric": "roc_auc", "sense": "max"},
        {"metric": "inference_time", "sense": "min"},
    ],
    algorithm={"kind": "nsga2"},
)


def told(tmp_path, capsys, config, code=0):
    assert main(["check", str(write(tmp_path / "config.yaml", config))]) == code
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_a_sweep(tmp_path, capsys, cache):
    text = told(tmp_path, capsys, small(sweep=SWEEP | {"trials": 6, "repeats": 3}))
    assert "6 trials x 3 repeats: 18" in text
    assert "at most 2,700 evaluations" in text
    wrong = SWEEP | {"directions": [{"metric": "no_such", "sense": "max"}]}
    assert "no_such" in told(tmp_path, capsys, small(sweep=wrong), 2)


def test_an_experiment(tmp_path, capsys, cache):
    config = small(experiment=EXPERIMENT, budget={"evaluations": 100})
    del config["algorithm"]
    text = told(tmp_path, capsys, config)
    assert "2 cases x 2 methods x 2 repeats: 8" in text
    assert "at most 800 evaluations" in text
    config["experiment"] = EXPERIMENT | {"methods": {"wrong": {"kind": "hapens"}}}
    assert "wrong on four: " in told(tmp_path, capsys, config, 2)


@pytest.mark.parametrize("kind", ["run", "sweep", "experiment"])
def test_no_library_is_trained(tmp_path, capsys, cache, kind):
    config = dict(ENSEMBLE)
    if kind == "sweep":
        config["sweep"] = SWEEP
    if kind == "experiment":
        config["experiment"] = EXPERIMENT | {"cases": {}, "methods": {"a": {"kind": "nsga2"}}}
        del config["algorithm"]
    assert "built first the library little (4 models)" in told(tmp_path, capsys, config)
    assert not cache.exists()


DOUBTFUL = {"path": "t.csv", "target": "y", "positive": "a"}
POOLS = [
    {"kind": "ensemble", "library": {"build": BUILD | {"dataset": DOUBTFUL}}},
    {"kind": "cascade", "calls": {"library": {"build": BUILD | {"dataset": DOUBTFUL}}}},
]


@pytest.mark.parametrize("problem", POOLS, ids=["ensemble", "cascade"])
def test_doubtful_columns_are_told_before_and_after_a_pool_is_trained(
    problem, tmp_path, monkeypatch
):
    """A column that comes after the answer made an ensemble look perfect, without a word."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 13},{i * 7919 % 101},{'ab'[i % 13 > 6]}\n" for i in range(130)]
    Path("t.csv").write_text("told,x,y\n" + "".join(rows))
    section = check(RunConfig, small(problem=problem), "x", {"base": Path()}).problem
    sentence = "columns that alone tell the class of every record: 'told'"
    monkeypatch.setenv("PARETOLAB_CACHE", str(tmp_path / "cache"))
    with building_nothing(), pytest.raises(NotBuiltError) as refused:
        registry.load("problems", section.kind).from_config(section)
    built = registry.load("problems", section.kind).from_config(section)
    for notes in (refused.value.notes, built.describe()["notes"]):
        assert sentence in "".join(notes)


def test_classes_that_a_problem_does_not_take_are_refused_before_a_pool_is_trained(
    tmp_path, capsys, cache
):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i}.5,{i % 3}\n" for i in range(90)))
    build = BUILD | {"dataset": {"path": "t.csv", "target": "y"}}
    config = small(problem={"kind": "pruning", "library": {"build": build}})
    config["objectives"] = [{"metric": "accuracy", "sense": "max"}]
    assert "expected two classes, found 3 (0, 1, 2); votes" in told(tmp_path, capsys, config, 2)
    assert not cache.exists()


def test_splits_of_a_case_whose_library_is_not_built_are_not_read(
    tmp_path, capsys, cache, monkeypatch
):
    from framework.libraries import build

    read, prepare = [], build.prepare

    def counted(config, where):
        read.append(config.split.seed)
        return prepare(config, where)

    monkeypatch.setattr(build, "prepare", counted)
    config = dict(ENSEMBLE)
    config["experiment"] = EXPERIMENT | {
        "cases": {"all": {}, "three": {"problem.library.build.models": 3}},
        "product": {"problem.library.build.split.seed": list(range(20))},
        "methods": {"a": {"kind": "nsga2"}, "b": {"kind": "nsga2", "problem": {"max_count": 9}}},
    }
    del config["algorithm"]
    text = told(tmp_path, capsys, config)
    assert "40 cases x 2 methods x 2 repeats: 160" in text
    assert "the library little (4 models)" in text
    assert "the library little (3 models)" in text
    assert read == [0, 0]  # one of each case as given
    config["experiment"]["product"] = {"problem.library.build.split.seed": [0, "x"]}
    assert "split.seed" in told(tmp_path, capsys, config, 2)


@pytest.mark.slow
def test_no_forest_is_fitted_for_costs_and_one_for_all_runs(tmp_path, capsys, cache, monkeypatch):
    from sklearn.ensemble import RandomForestClassifier

    fitted, fit = [], RandomForestClassifier.fit

    def counted(self, X, y):
        fitted.append(len(X))
        return fit(self, X, y)

    monkeypatch.setattr(RandomForestClassifier, "fit", counted)
    config = small(problem__costs={"by_importance": 3}, budget__generations=0)
    assert "built first the importance of features" in told(tmp_path, capsys, config)
    assert not fitted

    def front_of_run(name):
        out = tmp_path / name
        options = ["--out", str(out), "--quiet", "--no-plots"]
        assert main(["run", str(tmp_path / "config.yaml"), *options]) == 0
        return (out / "front.csv").read_bytes()

    front = front_of_run("a")
    assert front_of_run("b") == front
    assert len(fitted) == 1
    assert "built first" not in told(tmp_path, capsys, config)
    monkeypatch.setenv("PARETOLAB_CACHE", "off")
    assert front_of_run("c") == front


@pytest.mark.parametrize(("removed", "fit"), [(True, False), (False, True)])
def test_searches_that_refuse_the_problem_are_not_named(tmp_path, capsys, cache, removed, fit):
    text = told(tmp_path, capsys, small(problem__remove_features=removed))
    assert ("exact" in text.partition("others fit")[2].partition("plan")[0]) == fit


def test_every_mistake_is_told_at_once(tmp_path, capsys, cache):
    objectives = [{"metric": "covrage", "sense": "max"}, {"metric": "cost", "sense": "min"}]
    limits = [{"metric": "acuracy", "at_least": 0.5}]
    wrong = small(objectives=objectives, constraints=limits, algorithm={"kind": "ch_emoa"})
    text = told(tmp_path, capsys, wrong, 2)
    for found in ("objectives: ", "found 'covrage'", "constraints: ", "found 'acuracy'"):
        assert found in text
    wrong["problem"]["costs"] = {"values": [1, 2]}
    text = told(tmp_path, capsys, wrong, 2)
    assert "problem.costs.values: expected 6 entries" in text
    assert "found 'covrage'; did you mean 'coverage'?" in text
    assert "found 'acuracy'; did you mean 'accuracy'?" in text
    wrong = small(objectives=objectives, algorithm={"kind": "hapens"})
    text = told(tmp_path, capsys, wrong, 2)
    assert "algorithm.kind: expected one that searches this problem" in text
    assert "found 'covrage'" in text


def test_what_features_cost(tmp_path, capsys):
    """By price, what several share, and what a full record costs."""
    panel = {"blood panel": {"cost": 20, "features": ["f2", "f5"]}}
    costs = {"values": {"f1": 1, "f3": 1, "f6": 2.5}, "default": 0, "panels": panel}
    text = told(tmp_path, capsys, small(problem__costs=costs))
    lines = [
        "0: f2, f4, f5",
        "1: f1, f3",
        "2.5: f6",
        "20 once for f2, f5 (blood panel)",
        "24.5 for a full record",
    ]
    assert f"costs {' costs '.join(lines)} candidates" in text


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
    limit = "constraints=[{metric: cost, at_most: 20}]"
    done = command("check", "small.yaml", "--set", limit, env={"PARETOLAB_CACHE": "off"}, code=0)
    for line in (
        r"constraints +cost <= 20$",
        r"budget +generations=4, max_failed_share=0.5$",
        r"records +240 \(120 train, 60 validation, 60 test\)$",
        r"candidates .*at most 4 blocks, 2,163 in all$",
        r"memory +data 0\.0 MB, .* 0\.1 MB per 1,000; at most 63 of them, 0 MB",
        r"objectives +coverage \(max\), accuracy \(max\), cost \(min\)$",
    ):
        assert re.search(f"^{line}", done.out, re.M), line
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
