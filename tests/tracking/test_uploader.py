import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from framework.analysis.choose import choose
from framework.errors import InputError
from framework.experiment.history import ProgressLog
from framework.experiment.run_dir import slug
from framework.front import Front
from framework.preparation import PreparationProgress
from framework.security import sqlite_uri
from tests.tracking import made_up
from tracking.mlflow_log import store
from tracking.mlflow_log.store import PARENT, UploadState
from tracking.mlflow_log.sync import sync
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


def only(store, experiment):
    """Return the one run that there is."""
    run, children = runs(store, experiment)
    assert children == []
    return run


def steps(store, run, metric="search/hypervolume"):
    return [m.step for m in store.client.get_metric_history(run.info.run_id, metric)]


def artifacts(store, run, folder=None):
    return {a.path for a in store.client.list_artifacts(run.info.run_id, folder)}


def finished(path, **changes):
    return made_up.finished(path / "out", 12, **changes)


def test_a_finished_run_is_all_there(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    run_dir.plots.mkdir()
    uploader = Uploader(run_dir, store.uri, experiment, {"version.ray": "2"})
    for name in ("explore.html", "front.png"):  # drawn once the summary is there
        assert uploader.upload(final=True)
        (run_dir.plots / name).write_text("drawn")
    assert uploader.upload(final=True)
    run = only(store, experiment)
    assert "front.png" in run.data.tags["mlflow.note.content"]
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "emsco · made_up · seed 0"
    tags, params, values = run.data.tags, run.data.params, run.data.metrics
    assert (tags["method"], tags["data"], tags["kind"]) == ("emsco", "made_up", "run")
    assert tags["data.fingerprint"] == "d" * 64
    assert tags["version.ray"] == "2"
    assert tags["version.numpy"] == "2.2.0"
    assert (params["method"], params["data"], params["seed"]) == ("emsco", "made_up", "0")
    assert params["algorithm.population"] == "300"
    assert params["problem.costs.values.age _years_"] == "10"
    data = run.inputs.dataset_inputs[0].dataset
    assert (data.name, data.digest) == ("made_up", "d" * 36)

    evaluations = [20 * (n + 1) for n in range(12)]
    names = ("front_size", "hypervolume", "generation", "rows_failed", "best_cost")
    assert all(steps(store, run, f"search/{name}") == evaluations for name in names)
    series = store.client.get_metric_history(run.info.run_id, "search/generation")
    assert [m.value for m in series] == list(range(12))
    assert series[-1].timestamp - series[0].timestamp == pytest.approx(5500, abs=1)
    front = run_dir.front()
    assert (values["igd_plus"], values["evaluations"]) == (0.01, 240)
    assert values["hypervolume"] == round(front.hypervolume(), 4)

    expected = {"config.yaml", "front.csv", "fronts.csv", "summary.json", "plots"}
    assert artifacts(store, run) == expected
    assert artifacts(store, run, "plots") == {"plots/front.png"}  # pages hold 5 MB of script each
    path = store.client.download_artifacts(run.info.run_id, "fronts.csv", str(tmp_path))
    frame = pd.read_csv(path)
    with run_dir.journal() as journal:
        front = Front.from_journal(journal, run_dir.roles(), run_dir.front().gene_names, upto=5)
    assert made_up.front_at(frame, 4)["id"].tolist() == front.ids.tolist()


def known_to_another_store(run_dir, store, experiment):
    UploadState(store.uri, experiment, 1e9).save(run_dir)
    raw = json.loads(run_dir.tracking_file.read_text())
    raw["runs"] = {PARENT: {"run_id": "0" * 32, "batches": 12, "status": "FINISHED"}}
    run_dir.tracking_file.write_text(json.dumps(raw))


@pytest.mark.parametrize("state", ["whole", "lost", "of a store that was made anew"])
def test_everything_is_there_once_whatever_was_sent_before(store, experiment, tmp_path, state):
    run_dir = finished(tmp_path, uid=state)
    if state == "of a store that was made anew":
        known_to_another_store(run_dir, store, experiment)
    else:
        Uploader(run_dir, store.uri, experiment).upload(final=True)
    before = run_dir.tracking_file.read_text()
    if state == "lost":
        run_dir.tracking_file.write_text("{torn")
    assert Uploader(run_dir, store.uri, experiment).upload(final=True)
    assert state != "whole" or run_dir.tracking_file.read_text() == before
    run = only(store, experiment)
    assert steps(store, run) == [20 * (n + 1) for n in range(12)]
    assert sorted(steps(store, run, "front/cost")) == [*range(len(run_dir.front()))]


def test_numbers_of_preparation_are_series(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    course = ProgressLog(run_dir.progress_log_file)
    course.on_preparation(
        PreparationProgress("solving", 3, 9, values={"gap": 0.5, "bound": float("inf")})
    )
    uploader = Uploader(run_dir, store.uri, experiment)
    uploader.upload(final=False)
    with run_dir.progress_log_file.open("a") as file:
        file.write("\n[4, 17")  # torn by a crash
    for done, gap in ((5, 0.25), (6, 0.25), (7, 0.0)):
        course.on_preparation(PreparationProgress("solving", done, 9, values={"gap": gap}))
    assert uploader.upload(final=True)
    run = only(store, experiment)
    series = store.client.get_metric_history(run.info.run_id, "search/gap")
    assert [(m.step, m.value) for m in series] == [(3, 0.5), (5, 0.25), (7, 0.0)]


def test_a_run_is_followed_interrupted_and_resumed(store, experiment, tmp_path):
    run_dir = made_up.start(tmp_path / "out")
    uploader = Uploader(run_dir, store.uri, experiment)
    assert not uploader.upload(final=False)  # before the journal
    made_up.search(run_dir, 0, 3)
    uploader.upload(final=False)
    run = only(store, experiment)
    assert run.info.status == "RUNNING"
    assert steps(store, run) == [20, 40, 60]

    made_up.end(run_dir, "interrupted")
    uploader.upload(final=True)
    run = only(store, experiment)
    assert run.info.status == "KILLED"
    assert "front/cost" not in run.data.metrics  # there is more to come

    made_up.search(run_dir, 3, 6)
    resumed = Uploader(run_dir, store.uri, experiment)
    resumed.upload(final=False)
    assert only(store, experiment).info.status == "RUNNING"
    made_up.end(run_dir)
    assert resumed.upload(final=True)
    run = only(store, experiment)
    assert run.info.status == "FINISHED"
    assert steps(store, run) == [20 * (n + 1) for n in range(6)]
    assert run.data.metrics["evaluations"] == 120


def test_the_front_is_there_by_rising_cost_and_a_later_one_behind_it(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    Uploader(run_dir, store.uri, experiment).upload(final=True)

    def logged(name):
        run_id = only(store, experiment).info.run_id
        history = store.client.get_metric_history(run_id, f"front/{name}")
        return [m.value for m in sorted(history, key=lambda m: m.step)]

    front = run_dir.front()
    cost = sorted(front.rows.values["cost"].tolist())
    assert logged("cost") == cost
    columns = front.rows.values
    told = dict(zip(logged("cost"), logged("accuracy"), strict=True))  # of equal costs the last
    for paid, best in told.items():
        assert best == columns["accuracy"][columns["cost"] <= paid].max()

    made_up.end(run_dir, wall_s=13.0)  # goes on with what is done, and writes the same again
    Uploader(run_dir).upload(final=True)
    run_id = only(store, experiment).info.run_id
    for name in ("evaluations", "solution/val_cost"):
        assert len(store.client.get_metric_history(run_id, name)) == 1
    assert logged("cost") == cost

    better = pd.read_csv(run_dir.front_file).assign(accuracy=1.0)  # at the same costs
    better.to_csv(run_dir.front_file, index=False)
    Uploader(run_dir).upload(final=True)
    assert logged("cost") == cost + cost

    made_up.search(run_dir, 12, 30)
    made_up.end(run_dir)
    Uploader(run_dir).upload(final=True)
    assert logged("cost") == cost + cost + sorted(run_dir.front().rows.values["cost"].tolist())


def test_the_chosen_design_is_told(store, experiment, tmp_path):
    run_dir = finished(tmp_path)
    Uploader(run_dir, store.uri, experiment).upload(final=True)
    front = run_dir.front()
    recommended = int(front.ids[choose(front)])
    other = next(i for i, id in enumerate(front.ids.tolist()) if id != recommended)

    def told(position):
        run = only(store, experiment)
        values, test = (columns["cost"][position] for columns in (front.rows.values, front.test))
        assert run.data.metrics["solution/val_cost"] == round(values, 4)
        assert run.data.metrics["solution/test_cost"] == round(test, 4)
        return run.data.tags["mlflow.note.content"]

    note = told(choose(front))
    assert "**emsco** searched **made\\_up (299 records, 12 features)** for coverage ↑" in note
    assert f"Recommended (nearest to the ideal point): solution {recommended}." in note
    run_dir.write_choice(int(front.ids[other]))
    Uploader(run_dir).upload(final=True)
    assert f"Chosen: solution {front.ids[other]}." in told(other)


def test_methods_have_a_colour_each(store, experiment, tmp_path):
    for number, method in enumerate(("emsco", "nsga2", "random", "nsga2")):
        of = {"uid": str(number), "algorithm": {"kind": method}, "seed": number}
        run_dir = made_up.start(tmp_path / str(number), **of)
        Uploader(run_dir, store.uri, experiment).upload(final=False)
    found = store.client.get_experiment_by_name(experiment)
    tags = [run.data.tags for run in store.client.search_runs([found.experiment_id])]
    colours = {tag["method"]: tag["mlflow.runColor"] for tag in tags}
    assert len(tags) == 4
    assert len(set(colours.values())) == 3
    assert all(tag["mlflow.runColor"] == colours[tag["method"]] for tag in tags)


@pytest.mark.parametrize("typo", ["htp://typo", "http://127.0.0.1:1"])
def test_a_store_that_was_never_reached_is_not_remembered(typo, store, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run_dir = finished(tmp_path)
    sync(run_dir.path, store.uri)
    before = run_dir.tracking_file.read_text()
    with pytest.raises(InputError):
        sync(run_dir.path, typo)
    assert run_dir.tracking_file.read_text() == before
    run_dir.tracking_file.unlink()
    with pytest.raises(InputError):
        sync(run_dir.path, typo)
    assert not run_dir.tracking_file.exists()


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
    assert sorted(steps(store, only(store, experiment))) == [2 * (n + 1) for n in range(400)]


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
    store.client.delete_run(uploader.state.runs[PARENT].run_id)
    with pytest.raises(InputError, match="was deleted"):
        Uploader(run_dir).upload(final=True)


def test_a_relative_store_counts_from_where_the_run_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = Uploader(made_up.start(tmp_path / "a" / "out"), "sqlite:///db/mlflow.db").state
    assert state.uri == f"sqlite:///{tmp_path}/db/mlflow.db"
    assert state.experiment == "made-up"


@pytest.mark.parametrize("suffix", ["", " \u00fc/'%41"])
def test_the_chosen_model_can_be_loaded(store, experiment, suffix, tmp_path, monkeypatch):
    import mlflow.pyfunc
    import numpy as np

    from algorithms.multistage.model import MultiStageClassifier
    from framework.models.store import save_model

    run_dir = finished(tmp_path)
    rng = np.random.default_rng(0)
    records = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    labels = np.where(records["a"] + records["b"] > 0, "yes", "no")
    model = MultiStageClassifier(stages=[[0], [1, 2]]).fit(records, labels)
    save_model(model, run_dir.model, example=records.head(5))
    uploader = Uploader(run_dir, store.uri, experiment + suffix)
    uploader.upload(final=True)

    name = f"stages{len(suffix)}"
    model_id = uploader.state.runs[PARENT].artifacts["model_id"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # MLflow's own clients would use mlflow.db here
    for version in "12":
        assert uploader.register(name).endswith(f"version {version}")
    assert not list(Path().iterdir())
    assert not mlflow.is_tracking_uri_set()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    loaded = mlflow.pyfunc.load_model(f"models:/{model_id}")
    logged = store.client.get_logged_model(model_id)
    assert logged.source_run_id == uploader.state.runs[PARENT].run_id
    assert "solution/val_cost" in {metric.key for metric in logged.metrics}
    versions = [store.client.get_model_version(name, version) for version in "12"]
    assert {version.source for version in versions} == {f"models:/{model_id}"}
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", store.uri)
    again = mlflow.pyfunc.load_model(f"models:/{name}/2")
    pd.testing.assert_frame_equal(again.predict(records), model.predict_table(records))
    pd.testing.assert_frame_equal(loaded.predict(records), model.predict_table(records))
    answered = loaded.metadata.get_output_schema().input_names()
    assert answered == list(model.answers(records).columns)
    run_dir.tracking_file.write_text("{torn")
    assert Uploader(run_dir, store.uri, experiment + suffix).upload(final=True)
    assert len(store.client.search_logged_models([logged.experiment_id])) == 1


def test_an_experiment_keeps_what_differs_in_data_apart(store, experiment, tmp_path):
    home = made_up.start(tmp_path / "out")
    cases, methods = ("pima", "heart <1>"), ("EMSCO", "random")
    grid = {"methods": {key: {} for key in methods}, "cases": {key: {} for key in cases}}
    home.experiment_file.write_text(yaml.safe_dump({"experiment": grid}))
    for case in cases:
        for number, method in enumerate(methods):
            place = home.path / "cells" / slug(case) / method / "000"
            run_dir = made_up.start(place, uid=f"{case} {method}")
            data = run_dir.about()["data"] | {"name": f"data of {case}", "fingerprint": case}
            made_up.describe(run_dir, data=data)
            made_up.search(run_dir, number, 5 + number)
            made_up.end(run_dir)
    rows = [
        {"case": c, "method": m, "indicator": "hypervolume", "runs": 5, "mean": 0.5 + (m < "a")}
        | {"least": 0.25, "greatest": 0.75, "best": "yes" * (m < "a"), "chance": "no" * (m > "a")}
        for c in cases
        for m in methods
    ]
    (home.path / "tables").mkdir()
    pd.DataFrame(rows).to_csv(home.path / "tables" / "winners.csv", index=False)
    indicators = {m: {"hypervolume": 0.5} for m in methods}
    home.write_summary({"status": "done", "wall_s": 1.0, "indicators": indicators})
    Uploader(home, store.uri, experiment).upload(final=True)
    parent, children = runs(store, experiment)
    assert len(children) == 4
    tags = parent.data.tags
    assert (tags["method"], tags["data"]) == ("EMSCO, random", "data of heart <1>, data of pima")
    assert "data.fingerprint" not in tags
    assert {child.data.tags["data"] for child in children} == set(tags["data"].split(", "))
    means = {name: value for name, value in parent.data.metrics.items() if "/" in name}
    assert means == {
        f"hypervolume/{case}/{method}": 0.5 + (method == "EMSCO")
        for case in ("pima", "heart-1")
        for method in methods
    }
    assert not any(name.endswith(".hypervolume") for name in parent.data.metrics)  # over all data
    first = min(name for child in children for name in child.data.metrics)
    assert "/" not in first  # else MLflow's charts begin with its section, which is empty
    note = tags["mlflow.note.content"]
    assert "Best mean hypervolume: EMSCO on 2 of 2 (pima, heart \\<1\\>)." in note
    assert "| pima | **1.5 (0.25 to 0.75)** | 0.5 (0.25 to 0.75) |" in note
    assert "tables/winners.csv" in artifacts(store, parent, "tables")
    names = {f"{m} 1 · {slug(c)}" for c in cases for m in methods}
    assert {child.info.run_name for child in children} == names
    for child in children:
        assert "plots/front.png" in artifacts(store, child, "plots")
        case = slug(child.data.tags["data"].removeprefix("data of "))
        fronts = {name for name in child.data.metrics if name.startswith("front/")}
        assert fronts == {f"front/{case}/{name}" for name in ("coverage", "accuracy", "cost")}
        assert child.data.metrics[f"hypervolume/{case}"] == child.data.metrics["hypervolume"]


@pytest.mark.parametrize("folder", ['it\'s "q"', "two\nlines"])
def test_paths_that_mlflow_breaks_at_are_refused(tmp_path, folder):
    file = tmp_path / folder / "mlflow.db"
    with pytest.raises(InputError, match="one kind of quotation marks"):
        store.connect(sqlite_uri(file))
    assert not file.parent.exists()
