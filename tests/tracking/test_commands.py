import argparse
import socket
from pathlib import Path

import pytest

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from tests.experiment import small
from tests.tracking import made_up
from tracking.mlflow_log import ui
from tracking.mlflow_log.commands import Sync, Ui
from tracking.mlflow_log.run_content import RunContent
from tracking.mlflow_log.store import sole_uploader
from tracking.mlflow_log.sync import sync


def arguments(command, *words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def uri(tmp_path):
    """Return the address of a store that is there."""
    (tmp_path / "mlflow.db").touch()
    return f"sqlite:///{tmp_path}/mlflow.db"


def test_ui_says_that_the_port_is_taken(uri):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"expected a free port .* {port} cannot be used"):
            Ui.run(arguments(Ui, "--uri", uri, "--port", str(port)))


def test_ui_says_that_the_port_was_taken_while_mlflow_started(uri, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(ui, "_answers", lambda server, *_: server.kill() or server.wait() > 0)
        checks = iter([lambda *_: None, ui._check_port])
        monkeypatch.setattr(ui, "_check_port", lambda *place: next(checks)(*place))
        words = "--uri", uri, "--port", str(taken.getsockname()[1])
        with pytest.raises(InputError, match="cannot be used"):
            Ui.run(arguments(Ui, *words))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "--port: expected a free port"),
        (["--host", "256.1.1.1"], "--port: expected a free port"),
        (["--uri", "http://host:5000"], "open http://host:5000 in a browser"),
    ],
)
def test_ui_says_that_the_address_is_wrong(uri, words, sentence):
    with pytest.raises(InputError, match=sentence):
        Ui.run(arguments(Ui, "--uri", uri, *words))


def test_ui_says_that_there_is_no_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"found no file .*mlflow\.db"):
        Ui.run(arguments(Ui))


def test_sync_of_something_else(tmp_path, capsys):
    assert Sync.run(arguments(Sync, str(tmp_path))).exit_code == 2
    assert "expected the directory of a run" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["repeats/000", "cells/convex/grid/000"])
def test_sync_of_a_part_names_the_whole(tmp_path, part):
    whole = made_up.start(tmp_path / "out")
    repeat = made_up.start(whole.path / part)
    with pytest.raises(InputError, match=f"give {whole.path}$"):
        sync(str(repeat.path))


def test_sync_while_the_run_is_logged(tmp_path):
    run_dir = made_up.start(tmp_path / "out")
    with sole_uploader(run_dir, wait=False), pytest.raises(InputError, match="another process is"):
        sync(str(run_dir.path))


def test_sync_to_a_server_that_is_away(tmp_path, capsys):
    run_dir = made_up.start(tmp_path / "out")
    words = str(run_dir.path), "--uri", "http://127.0.0.1:9"
    assert Sync.run(arguments(Sync, *words)).exit_code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"paretolab: {run_dir.path}: expected to log to http://127.0.0.1:9")
    assert len(error.splitlines()) == 1


def test_sync_of_a_run_that_goes_on(tmp_path, store):
    run_dir = made_up.start(tmp_path / "trials" / "out")
    (tmp_path / "experiment.yaml").touch()  # beside it, for whatever the user likes
    made_up.search(run_dir, 0, 2)
    (line,) = Sync.run(arguments(Sync, str(run_dir.path), "--uri", store.uri)).parts
    assert "the run has not ended" in line


def test_an_experiment_without_cases_has_a_name_and_no_folder_of_this_machine(
    tmp_path, monkeypatch, store
):
    """It compared methods "on .", and its configuration had the folder it was started in."""
    monkeypatch.chdir(tmp_path)
    content = small.raw(cases={}, repeats=1, product={"problem.d": [3, 4]})
    small.write(tmp_path, content | {"name": "crossed", "tracking": {}})
    assert main(["experiment", "little.yaml", "--out", "out", "--no-mlflow", "--quiet"]) == 0
    assert Sync.run(arguments(Sync, "out", "--uri", store.uri)).exit_code == 0
    [kept] = [e for e in store.client.search_experiments() if e.name == "crossed"]
    runs = store.client.search_runs([kept.experiment_id])
    [parent] = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert parent.data.tags["data"] == parent.data.params["data"] == "function"
    assert r"Compares by tens, grid\* on function." in parent.data.tags["mlflow.note.content"]
    text = Path(store.client.download_artifacts(parent.info.run_id, "experiment.yaml")).read_text()
    assert "problem.d" in text
    assert str(tmp_path) not in text


def test_an_experiment_is_a_run_with_its_cells_below(tmp_path, monkeypatch, store):
    monkeypatch.chdir(tmp_path)
    small.write(tmp_path, small.raw(repeats=1) | {"tracking": {"experiment": "little"}})
    assert main(["experiment", "little.yaml", "--out", "out", "--no-mlflow", "--quiet"]) == 0
    assert Sync.run(arguments(Sync, "out", "--uri", store.uri)).exit_code == 0
    [kept] = [e for e in store.client.search_experiments() if e.name == "little"]
    runs = store.client.search_runs([kept.experiment_id])
    [parent] = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    note = parent.data.tags["mlflow.note.content"]
    assert r"Compares by tens, grid\* on convex, concave." in note
    below = {run.data.tags.get("mlflow.parentRunId") for run in runs} - {None}
    assert len(runs) == 5
    assert below == {parent.info.run_id}


def test_an_experiment_without_cases_is_described_by_its_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = small.raw(repeats=1)
    del raw["experiment"]["cases"]
    small.write(tmp_path, raw)
    assert main(["experiment", "little.yaml", "--out", "out", "--no-mlflow", "--quiet"]) == 0
    content = RunContent(RunDir(tmp_path / "out"), RunDir(tmp_path / "out"))
    data = content.subject().data
    assert data
    assert content.description(None, "").startswith(rf"Compares by tens, grid\* on {data}.")
