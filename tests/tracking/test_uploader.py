from __future__ import annotations

import json

import pandas as pd
import pytest

from framework.errors import InputError
from framework.front import Front
from tests.tracking import made_up
from tracking.mlflow_log.history import front_at
from tracking.mlflow_log.state import State
from tracking.mlflow_log.uploader import Uploader


@pytest.fixture
def experiment(request):
    return request.node.name


def runs(store, experiment):
    """Return the parent and its children, by name."""
    found = store.client.get_experiment_by_name(experiment)
    all_runs = store.client.search_runs([found.experiment_id])
    parents = [r for r in all_runs if "mlflow.parentRunId" not in r.data.tags]
    assert len(parents) == 1
    children = [r for r in all_runs if r is not parents[0]]
    assert {r.data.tags["mlflow.parentRunId"] for r in children} <= {parents[0].info.run_id}
    return parents[0], sorted(children, key=lambda run: run.info.run_name)


def steps(store, run, metric="hypervolume"):
    return [m.step for m in store.client.get_metric_history(run.info.run_id, metric)]


def artifacts(store, run, folder=None):
    return {a.path for a in store.client.list_artifacts(run.info.run_id, folder)}


def finished(path, **changes):
    run_dir = made_up.start(path / "out", **changes)
    made_up.search(run_dir, 0, 12)
    made_up.end(run_dir)
    return run_dir


def test_a_finished_run_is_all_there(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    run_dir.plots.mkdir()
    (run_dir.plots / "front.html").write_text("<html></html>")
    assert Uploader(run_dir, store.uri, experiment, {"version.ray": "2"}).upload(final=True)
    parent, (child,) = runs(store, experiment)

    assert parent.info.status == child.info.status == "FINISHED"
    assert parent.info.run_name == "made-up"
    assert child.data.tags["algorithm"] == "emsco"
    assert child.data.tags["version.ray"] == "2"
    assert child.data.tags["version.numpy"] == "2.2.0"
    assert child.data.params["algorithm.population"] == "300"
    assert child.data.params["problem.costs.values.age _years_"] == "10"
    assert parent.data.metrics["igd_plus"] == 0.01
    data = child.inputs.dataset_inputs[0].dataset
    assert (data.name, data.digest) == ("made_up", "d" * 36)

    names = ("front_size", "hypervolume", "evaluations", "rows_failed", "best_cost")
    assert all(steps(store, child, name) == list(range(12)) for name in names)
    series = store.client.get_metric_history(child.info.run_id, "evaluations")
    assert [m.value for m in series] == [20.0 * (n + 1) for n in range(12)]
    assert series[-1].timestamp - series[0].timestamp == pytest.approx(5500, abs=1)

    expected = {"config.yaml", "front.csv", "fronts.csv", "summary.json", "plots"}
    assert artifacts(store, child) == expected
    assert artifacts(store, child, "plots") == {"plots/front.html"}
    path = store.client.download_artifacts(child.info.run_id, "fronts.csv", str(tmp_path))
    frame = pd.read_csv(path)
    with run_dir.journal() as journal:
        front = Front.from_journal(journal, run_dir.roles(), run_dir.front().gene_names, upto=5)
    assert front_at(frame, 4)["id"].tolist() == front.ids.tolist()


def test_a_second_upload_changes_nothing(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    Uploader(run_dir, store.uri, experiment).upload(final=True)
    before = run_dir.tracking_file.read_text()
    assert Uploader(run_dir).upload(final=True)
    assert run_dir.tracking_file.read_text() == before
    _, (child,) = runs(store, experiment)
    assert steps(store, child) == list(range(12))


def test_a_lost_state_file_duplicates_nothing(store, experiment, tmp_path):
    run_dir = finished(tmp_path, uid="lost")
    Uploader(run_dir, store.uri, experiment).upload(final=True)
    run_dir.tracking_file.write_text("{torn")
    assert Uploader(run_dir, store.uri, experiment).upload(final=True)
    _, (child,) = runs(store, experiment)
    assert steps(store, child) == list(range(12))


def test_a_run_is_followed_interrupted_and_resumed(store, experiment, tmp_path):
    run_dir = made_up.start(tmp_path / "out")
    uploader = Uploader(run_dir, store.uri, experiment)
    assert not uploader.upload(final=False)  # before the journal
    made_up.search(run_dir, 0, 3)
    uploader.upload(final=False)
    parent, (child,) = runs(store, experiment)
    assert (parent.info.status, child.info.status) == ("RUNNING", "RUNNING")
    assert steps(store, child) == [0, 1, 2]

    made_up.end(run_dir, "interrupted")
    uploader.upload(final=True)
    assert runs(store, experiment)[1][0].info.status == "KILLED"

    made_up.search(run_dir, 3, 6)
    resumed = Uploader(run_dir, store.uri, experiment)
    resumed.upload(final=False)
    assert runs(store, experiment)[1][0].info.status == "RUNNING"
    made_up.end(run_dir)
    assert resumed.upload(final=True)
    parent, (child,) = runs(store, experiment)
    assert child.info.status == "FINISHED"
    assert steps(store, child) == list(range(6))
    assert parent.data.metrics["evaluations"] == 120


def test_what_could_not_be_sent_is_sent_later(store, experiment, tmp_path, monkeypatch):
    run_dir = made_up.start(tmp_path / "out")
    made_up.search(run_dir, 0, 400, rows=2)
    uploader = Uploader(run_dir, store.uri, experiment)
    uploader._connect()
    send, calls = uploader._client.log_batch, []

    def flaky(run_id, metrics=(), **rest):
        calls.append(len(metrics))
        if metrics and len(calls) % 2 == 0:
            raise ConnectionError("the store is away")
        send(run_id, metrics=metrics, **rest)

    monkeypatch.setattr(uploader._client, "log_batch", flaky)
    for _ in range(20):
        try:
            uploader.upload(final=False)
            break
        except ConnectionError:
            continue
    assert max(calls) <= 1000
    _, (child,) = runs(store, experiment)
    assert sorted(steps(store, child)) == list(range(400))


def test_trials_are_children_of_one_parent(store, experiment, tmp_path):
    run_dir = made_up.start(tmp_path / "out", repeats=2)
    repeats = [made_up.start(run_dir.path / "repeats" / f"{n:03d}") for n in range(2)]
    for repeat in repeats:
        made_up.search(repeat, 0, 4)
    made_up.end(repeats[0])
    uploader = Uploader(run_dir, store.uri, experiment)
    uploader.upload(final=False)
    parent, (first, second) = runs(store, experiment)
    assert [r.info.status for r in (parent, first, second)] == ["RUNNING", "FINISHED", "RUNNING"]
    assert "front.csv" in artifacts(store, first)

    made_up.end(repeats[1])
    run_dir.write_summary({"status": "done", "indicators": {"hypervolume": 0.5}})
    assert uploader.upload(final=True)
    parent, (first, second) = runs(store, experiment)
    assert (parent.info.status, second.info.status) == ("FINISHED", "FINISHED")
    assert parent.data.metrics["hypervolume"] == 0.5
    assert first.data.tags["repeat"] == "000"


def test_a_run_that_was_deleted_stays_deleted(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    uploader = Uploader(run_dir, store.uri, experiment)
    uploader.upload(final=True)
    store.client.delete_run(uploader.state.runs["000"].run_id)
    with pytest.raises(InputError, match="was deleted"):
        Uploader(run_dir).upload(final=True)


def test_a_store_made_anew_gets_everything(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    state = State(store.uri, experiment, 1e9)
    state.save(run_dir)
    raw = json.loads(run_dir.tracking_file.read_text())
    raw["runs"] = {"000": {"run_id": "0" * 32, "batches": 12, "status": "FINISHED"}}
    run_dir.tracking_file.write_text(json.dumps(raw))
    assert Uploader(run_dir).upload(final=True)
    assert steps(store, runs(store, experiment)[1][0]) == list(range(12))


def test_a_relative_store_counts_from_where_the_run_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = Uploader(made_up.start(tmp_path / "a" / "out"), "sqlite:///db/mlflow.db").state
    assert state.uri == f"sqlite:///{tmp_path}/db/mlflow.db"
    assert state.experiment == "made-up"


def test_the_chosen_model_can_be_loaded(store, experiment, tmp_path, monkeypatch):
    import mlflow.pyfunc
    import numpy as np

    from algorithms.multistage.model import MultiStageClassifier
    from framework.models.store import save_model

    run_dir = finished(tmp_path)
    rng = np.random.default_rng(0)
    records = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    labels = np.where(records["a"] + records["b"] > 0, "yes", "no")
    model = MultiStageClassifier(stages=[[0], [1, 2]]).fit(records, labels)
    save_model(model, run_dir.model)
    records.head(5).to_csv(run_dir.model / "example.csv", index=False)
    uploader = Uploader(run_dir, store.uri, experiment)
    uploader.upload(final=True)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    loaded = mlflow.pyfunc.load_model(f"runs:/{uploader.state.runs['000'].run_id}/model")
    pd.testing.assert_frame_equal(loaded.predict(records), model.predict_table(records))
    answered = loaded.metadata.get_output_schema().input_names()
    assert answered == list(model.answers(records).columns)
