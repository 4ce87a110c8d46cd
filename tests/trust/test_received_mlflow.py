"""The folder of an MLflow model that someone sent: what is opened of it is data, never its code."""

import json
import os
import shutil
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pandas as pd
import pytest

from framework.cli.main import main
from framework.errors import InputError
from framework.models.store import load_model
from tests.command import free_port, refused
from tests.trust.forging import plain_node, seal, with_attribute
from tests.trust.test_estimators import SYSTEM, partial_of
from tests.trust.test_planted_modules import serving
from tracking.mlflow_log import deploy
from tracking.mlflow_log.store import connect

TOUCH = "open('forged', 'w').close()\n"


@pytest.fixture(scope="module")
def logged(finished, tmp_path_factory):
    """The MLflow model of a run's chosen solution, as MLflow hands it out."""
    place = tmp_path_factory.mktemp("mlflow") / "model"
    deploy.save_model(finished / "model", place)
    return place


@pytest.fixture
def sent(logged, tmp_path, monkeypatch):
    """A copy that a test may forge; whoever runs code leaves a file beside it."""
    shutil.copytree(logged, tmp_path / "sent")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sent"


def test_no_code_of_the_folder_runs(sent, finished, capsys):
    model = sent / "artifacts" / "model"
    example = str(model / "example.csv")
    (code,) = sent.glob("*.py")
    code.write_text(TOUCH)
    for name in ("conftest.py", "sitecustomize.py", "sklearn.py"):
        (sent / name).write_text(TOUCH)
    (sent / "python_model.pkl").write_bytes(b"cos\nsystem\n(S'touch forged'\ntR.")
    about = (sent / "MLmodel").read_text()
    (sent / "MLmodel").write_text(about.replace("mlflow.pyfunc.model", "os"))
    assert main(["predict", str(model), example]) == 0
    assert "model.json" in refused(capsys, "paretolab: ", "predict", sent, example)
    assert not Path("forged").exists()
    frame = pd.read_csv(example)
    same = load_model(model).answers(frame), load_model(finished / "model").answers(frame)
    pd.testing.assert_frame_equal(*same)


def test_forged_estimators_are_refused_through_mlflow_too(sent):
    import mlflow.pyfunc

    model = sent / "artifacts" / "model"
    forged = partial_of(SYSTEM, plain_node("touch forged"))
    stored = model / "stage_1.skops"
    stored.write_bytes(with_attribute(stored.read_bytes(), "criterion", forged))
    seal(model)
    with pytest.raises(InputError, match=r"a call of os\.system"):
        mlflow.pyfunc.load_model(str(sent))
    assert not Path("forged").exists()


def test_models_get_no_files_of_the_working_folder(finished, tmp_path, monkeypatch):
    """MLflow packs files that describe a project of uv, and what links of their names lead to."""
    monkeypatch.chdir(tmp_path)
    for name in ("uv.lock", "pyproject.toml", ".python-version"):
        Path(name).symlink_to(__file__)
    connect(f"sqlite:///{tmp_path}/mlflow.db")
    deploy.save_model(finished / "model", tmp_path / "model")
    assert not {"uv.lock", "pyproject.toml", ".python-version"} & set(os.listdir("model"))


@pytest.mark.slow
def test_pages_show_no_files_but_those_beside_the_store(tmp_path):
    """A store that someone sent says where the files of its runs lie."""
    home, sent = tmp_path / "home", tmp_path / "sent"
    home.mkdir()
    (home / "id_rsa").write_text("a key\n")
    (sent / "mlruns").mkdir(parents=True)
    (sent / "mlruns" / "led").symlink_to(home)
    (sent / "mlartifacts").symlink_to(home)
    client = connect(f"sqlite:///{sent}/mlflow.db")
    places = {
        "own": (sent / "mlruns" / "own").as_uri(),
        "elsewhere": home.as_uri(),
        "led": (sent / "mlruns" / "led").as_uri(),
        "served": "mlflow-artifacts:/",
    }
    runs = {}
    for name, place in places.items():
        runs[name] = client.create_run(client.create_experiment(name, place)).info.run_id
        folder = (sent / "mlruns" / "own" if name == "own" else home) / runs[name] / "artifacts"
        folder.mkdir(parents=True)
        (folder / "note.txt").write_text(name)
    with serving(sent, ["ui", "--port", free_port()], "/") as address:
        for name, run in runs.items():
            for page in ("get-artifact?run_uuid=", "ajax-api/2.0/mlflow/artifacts/list?run_id="):
                try:
                    with urlopen(f"{address}/{page}{run}&path=note.txt", timeout=30) as answer:
                        shown = answer.read().decode()
                except HTTPError as refused:
                    shown = json.loads(refused.read())["message"]
                said_so = "expected a place for files that is the server's own" in shown
                assert said_so == (name != "own"), (name, page, shown)
