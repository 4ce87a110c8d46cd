"""The best run of each case of an experiment: which it is, and that MLflow has its model."""

import re

import pandas as pd
import pytest

from framework.errors import InputError
from framework.experiment.export import champions
from framework.experiment.run_dir import RunDir
from tests.command import call, small, write


@pytest.fixture
def experiment(tmp_path):
    for directory in ("cells/a/one/000", "cells/a/two/000", "cells/b/one/000"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "tables").mkdir()
    return RunDir(tmp_path)


def table(experiment, **columns):
    runs = {
        "case": ["a", "a", "b"],
        "directory": ["cells/a/one/000", "cells/a/two/000", "cells/b/one/000"],
        **columns,
    }
    pd.DataFrame(runs).to_csv(experiment.path / "tables" / "runs.csv", index=False)


def test_the_largest_expected_hypervolume_is_best(experiment):
    table(experiment, hypervolume=[3, 2, 1], hypervolume_expected=[1, 2, 1])
    found = champions(experiment)
    names = {case: run.path.relative_to(experiment.path).as_posix() for case, run in found.items()}
    assert names == {"a": "cells/a/two/000", "b": "cells/b/one/000"}
    table(experiment, hypervolume=[3, 2, 1], hypervolume_expected=[1, 2, None])
    assert champions(experiment)["a"].path.parent.name == "one"


def test_an_experiment_without_tables_has_none(experiment):
    with pytest.raises(InputError, match=r"runs\.csv: expected a table, found none"):
        champions(experiment)


def test_a_table_names_runs_of_its_experiment_only(experiment):
    elsewhere = ["../../other", "cells/a/two/000", "cells/b/one/000"]
    table(experiment, hypervolume=[3, 2, 1], directory=elsewhere)
    with pytest.raises(InputError, match=r"expected the run \.\./\.\./other of its table"):
        champions(experiment)
    table(experiment, igd_plus=[3, 2, 1])
    with pytest.raises(InputError, match="expected an experiment with the indicator hypervolume"):
        champions(experiment)


@pytest.mark.slow
def test_sync_registers_the_champion_of_each_case(tmp_path):
    import mlflow

    config = small(tracking={"uri": "sqlite:///mlflow.db", "experiment": "two"})
    del config["algorithm"], config["budget"], config["problem"]["dataset"]
    del config["problem"]["costs"]
    config["budget"] = {"evaluations": 120}
    config["experiment"] = {
        "methods": {"EMSCO": {"kind": "emsco", "population": 30}, "lots": {"kind": "random"}},
        "cases": {"wine": {"problem.dataset": {"sklearn": "wine"}}},
        "repeats": 1,
    }
    write(tmp_path / "two.yaml", config)
    done = call("experiment", "two.yaml", "--out", "two", cwd=tmp_path, code=0)
    models = [path.parent for path in (tmp_path / "two").glob("cells/*/*/*/model")]
    assert models == [champions(RunDir(tmp_path / "two"))["wine"].path]
    assert (models[0] / "report.html").is_file()
    (other,) = set((tmp_path / "two").glob("cells/*/*/*")) - set(models)
    (other / "model").mkdir()  # as `choose` does, or more repeats with a better one
    done = call("resume", "two", cwd=tmp_path)
    best = models[0].relative_to(tmp_path) / "model"
    assert re.search(rf"^models of the best runs +{best}$", done.out, re.M), done.out
    done = call("sync", "two", "--register", "best", cwd=tmp_path, code=0)
    assert "registered as best-wine, version 1" in done.out
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = mlflow.MlflowClient(store)
    version = client.get_model_version_by_alias("best-wine", "champion")
    best = champions(RunDir(tmp_path / "two"))["wine"].path
    assert client.get_run(version.run_id).info.run_name == f"{best.parent.name} 1"
    assert (best / "model" / "model.json").is_file()
    mlflow.set_tracking_uri(store)
    example = pd.read_csv(best / "model" / "example.csv")
    assert len(mlflow.pyfunc.load_model("models:/best-wine@champion").predict(example))
