"""A package outside the repository adds problem, search, classifier and more by entry points."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.command import POINT, PROGRAM, CommandServer, environment, run_program, small

PACKAGE = Path(__file__).parent / "package"
CONFIG = {
    "name": "votes",
    "problem": {"kind": "voters", "columns": 9},
    "objectives": [{"metric": "right", "sense": "max"}, {"metric": "asked", "sense": "min"}],
    "algorithm": {"kind": "climb", "batch": 10},
    "budget": {"evaluations": 100},
    "workers": "serial",
    "tracking": {"uri": "sqlite:///mlflow.db", "experiment": "votes"},
}

FUNCTION = POINT | {
    "problem": {"kind": "function", "name": "bowl"},
    "algorithm": {"kind": "random", "batch": 20},
    "budget": {"evaluations": 40},
}
STAGES = small(
    problem={
        "kind": "multistage",
        "dataset": {"synthetic": {"samples": 200, "features": 5, "informative": 4}},
        "classifier": {"kind": "centroids", "sharpness": 2.0},
        "threshold": 0.7,
    },
    algorithm={"kind": "local_search"},
    budget={"evaluations": 100},
    tracking={"uri": "sqlite:///mlflow.db", "experiment": "stages"},
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the package into a folder of its own; return the folder."""
    room = tmp_path_factory.mktemp("outside")
    install(room / "site", room)
    return room / "site"


def install(site, room):
    """Install the package into a folder, by way of another one."""
    shutil.copytree(PACKAGE, room / "source")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--target", site, room / "source"]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def call(installed, tmp_path_factory):
    """Return what calls the command in a folder, with the package installed."""
    place = tmp_path_factory.mktemp("place")
    (place / "votes.yaml").write_text(yaml.safe_dump(CONFIG))
    (place / "stages.yaml").write_text(yaml.safe_dump(STAGES))

    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    variables = environment(PYTHONPATH=path, COLUMNS="160")
    server = CommandServer(variables)

    def called(*arguments, code=0):
        done = server.call([str(PROGRAM), *map(str, arguments)], place, variables, 300)
        assert done.code == code, done.err
        return done

    called.place = place
    return called


@pytest.fixture(scope="module")
def run(call):
    return call("run", "votes.yaml", "--out", "first")


def test_its_classes_are_listed_and_checked(call):
    listed = call("list").out
    assert "climb" in listed
    assert "voters.right" in listed
    checked = call("check", "votes.yaml").out
    assert "subsets" in checked or "Bits" in checked
    wrong = call("check", "votes.yaml", "--set", "problem.colums=3", code=2)
    assert "did you mean 'columns'?" in wrong.err
    unfit = call("check", "votes.yaml", "--set", "algorithm={kind: emsco}", code=2)
    assert "climb" in unfit.err.split("take another algorithm")[1]


def test_its_function_is_a_problem(call):
    assert "distances to two corners" in call("list", "functions").out
    (call.place / "bowl.yaml").write_text(yaml.safe_dump(FUNCTION))
    call("run", "bowl.yaml", "--out", "bowl", "--no-plots", "--no-mlflow")
    front = pd.read_csv(call.place / "bowl" / "front.csv")
    assert {"f1", "f2", "gene_3"} <= set(front.columns)
    wrong = call("check", "bowl.yaml", "--set", "problem.name=bow", code=2)
    assert "found 'bow'; did you mean 'bowl'?" in wrong.err


@pytest.mark.slow
def test_a_run_has_its_front_report_callback_and_returned_set(call, run):
    front = pd.read_csv(call.place / "first" / "front.csv")
    assert (front["right"] > 0.5).all()
    assert "diary: 10 batches" in run.err
    assert (call.place / "first" / "diary.txt").read_text() == "10 batches\n"
    assert (call.place / "first" / "note.txt").read_text() == f"{len(front)} solutions\n"
    returned = pd.read_csv(call.place / "first" / "returned.csv")
    assert returned["id"].tolist() == [returned["id"][0]]


@pytest.mark.slow
def test_a_run_that_went_on_is_the_run_that_never_stopped(call, run):
    short = ["--set", "budget.evaluations=40", "--no-mlflow"]
    call("run", "votes.yaml", "--out", "second", "--no-plots", *short)
    call("resume", "second", "--no-plots", "--set", "budget.evaluations=100", "--no-mlflow")
    first, second = ((call.place / n / "front.csv").read_bytes() for n in ("first", "second"))
    assert first == second


@pytest.mark.slow
def test_its_indicator_is_compared(call, run):
    options = ["--set", "algorithm.batch=5", "--no-plots", "--no-mlflow"]
    call("run", "votes.yaml", "--out", "third", *options)
    call("compare", "first", "third", "--out", "page")
    table = pd.read_csv(call.place / "page" / "tables" / "runs.csv")
    assert {"smallest", "hypervolume"} <= set(table.columns)
    assert np.isfinite(table["smallest"]).all()


def test_its_model_is_exported_and_asked(call, run):
    call("choose", "first", "--best", "right", "--export", "model", "--no-mlflow")
    answers = call("predict", "model", "model/example.csv").out.splitlines()
    assert answers[0] == "label"
    assert len(answers) == 4
    assert "It asks q" in (call.place / "model" / "README.md").read_text()


def logged(call, directory, experiment):
    """Return the runs that MLflow has of an experiment."""
    import mlflow

    call("sync", directory)  # a busy machine may have left the rest to it
    client = mlflow.MlflowClient(f"sqlite:///{call.place / 'mlflow.db'}")
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


@pytest.mark.slow
def test_mlflow_has_the_run(call, run):
    found = logged(call, "first", "votes")
    assert found
    assert "hypervolume" in {name for one in found for name in one.data.metrics}


@pytest.fixture(scope="module")
def staged(call):
    return call("run", "stages.yaml", "--out", "staged", "--no-plots")


@pytest.mark.slow
def test_its_classifier_is_checked(call):
    assert "nothing is wrong" in call("check", "stages.yaml").out
    wrong = call("check", "stages.yaml", "--set", "problem.classifier.sharpnes=1", code=2)
    assert "did you mean 'sharpness'?" in wrong.err
    unknown = call("check", "stages.yaml", "--set", "problem.classifier={kind: centroid}", code=2)
    assert "did you mean 'centroids'?" in unknown.err


@pytest.mark.slow
def test_its_classifier_is_exported_asked_and_logged(call, staged):
    call("choose", "staged", "--best", "accuracy", "--export", "stages_model", "--no-mlflow")
    answers = call("predict", "stages_model", "stages_model/example.csv").out.splitlines()
    assert answers[0] == "label,confidence,stage,cost,missing"
    assert len(answers) > 1
    parameters = {
        key: v for one in logged(call, "staged", "stages") for key, v in one.data.params.items()
    }
    assert "centroids" in parameters.values()


@pytest.mark.slow
def test_who_lacks_the_package_reads_one_sentence(call, staged):
    call("choose", "staged", "--best", "accuracy", "--export", "lent", "--no-mlflow")
    done = run_program(
        [PROGRAM, "predict", "lent", "lent/example.csv"], cwd=call.place, env=environment()
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pocket.classify.Centroids" in done.stderr
