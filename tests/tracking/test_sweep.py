"""Sweeps: reproducible, never losing a trial, each trial a run, all of it reported."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

from framework.cli.main import main
from framework.experiment.config import load_config
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from tests.command import refused, small, write
from tests.tracking import sweeps
from tracking.mlflow_log.store import UploadState
from tracking.mlflow_log.tracker import MlflowTracker
from tracking.mlflow_log.uploader import Uploader
from tracking.sweep.trial_values import TrialMeter


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One finished sweep: its directory, summary and what was shown."""
    folder = tmp_path_factory.mktemp("sweep")
    return folder / "out", *sweeps.swept(folder, sweeps.raw())


def of_trial(out, number):
    return RunDir(out / "trials" / f"{number:03d}")


# --- what there is afterwards -----------------------------------------------------------------


def test_files(done):
    out, summary, _ = done
    names = {path.relative_to(out).as_posix() for path in out.rglob("*")}
    assert {"summary.json", "trials.csv", "best.yaml", "sweep.yaml", "optuna.db"} <= names
    for number in range(12):
        for name in ("config.yaml", "journal.bin", "front.csv", "summary.json"):
            assert f"trials/{number:03d}/{name}" in names
    assert summary == json.loads((out / "summary.json").read_text())


def test_the_page(done):
    """All there is to see on one page, with one copy of the script."""
    out, summary, _ = done
    page = (out / "sweep.html").read_text(encoding="utf-8")
    assert len(page) < 6e6
    assert "<script src=" not in page
    first, second, _ = summary["importances"]["hypervolume"]
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings == [
        "History",
        "All keys of each trial",
        "Hypervolume by key",
        "Importance for hypervolume",
        f"Contour of hypervolume over {first} and {second}",
    ]
    assert page.count('class="plotly-graph-div"') == len(headings) + 2  # three keys, one each
    assert page.count("scroll the figure") == 1  # all but the keys of trials fit on a phone


def test_trials_are_worth_what_their_runs_say(done):
    out, summary, told = done
    study = sweeps.trials(out)
    assert [number for number, *_ in study] == list(range(12)) == [t.outcome.number for t in told]
    assert [t.done for t in told] == list(range(1, 13))
    for number, state, params, (value,) in study:
        run = of_trial(out, number)
        assert state == "COMPLETE"
        assert run.summary()["indicators"]["hypervolume"] == value == run.front().hypervolume()
        config = run.config()
        assert config.algorithm.batch == params["algorithm.batch"]
        assert config.problem.noise == params["problem.noise"]
        assert config.problem.d == params["problem.d"]
        assert run.summary()["evaluations"] == 4 * params["algorithm.batch"]
    configured = {"algorithm.batch": 10, "problem.noise": 0.0, "problem.d": 4}
    assert study[0][2] == configured
    assert len({params["problem.noise"] for _, _, params, _ in study}) == 12
    best = max(study, key=lambda trial: trial[3])
    assert summary["best"] == [
        {"trial": best[0], "values": {"hypervolume": best[3][0]}, "params": best[2]}
    ]
    assert summary["status"] == "done"
    assert (summary["trials_complete"], summary["trials_failed"]) == (12, 0)
    shares = summary["importances"]["hypervolume"]
    assert set(shares) == {"algorithm.batch", "problem.noise", "problem.d"}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    frame = pd.read_csv(out / "trials.csv")
    assert frame["trial"].tolist() == list(range(12))
    assert frame["hypervolume"].tolist() == pytest.approx([t[3][0] for t in study], abs=1e-15)
    assert frame["problem.d"].tolist() == [t[2]["problem.d"] for t in study]


def test_best_is_ready_to_run(done, tmp_path):
    out, summary, _ = done
    assert load_config(out / "best.yaml").name == "little-best"
    best = str(tmp_path / "best")
    assert main(["run", str(out / "best.yaml"), "--out", best, "--no-plots", "--quiet"]) == 0
    found = RunDir(tmp_path / "best").summary()["indicators"]["hypervolume"]
    assert found == summary["indicators"]["hypervolume"]


def test_the_command(done, tmp_path, capsys, plain):
    path = sweeps.write(tmp_path, sweeps.raw())
    assert main(["sweep", str(path), "--trials", "4", "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr()
    assert "4/4 · trial 3: hypervolume 0." in output.err
    assert "best 4 of 4" in output.out
    assert "0 (as configured)" in output.out.replace("* ", "")
    refused(capsys, "goes on with that one", "sweep", path, "--out", tmp_path / "out")
    # more trials go on from the first four, as if there had been twelve from the start
    args = ["resume", str(tmp_path / "out"), "--set", "sweep.trials=12", "--quiet"]
    assert main(args) == 0
    assert "trial 3:" not in capsys.readouterr().err
    assert sweeps.trials(tmp_path / "out")[:4] == sweeps.trials(done[0])[:4]
    assert len(sweeps.trials(tmp_path / "out")) == 12
    # with fewer than there are, what is advised for more has to bring some
    searched = RunDir(tmp_path / "out").summary()["wall_s"]
    assert main([*args[:-2], "sweep.trials=5", "--quiet"]) == 0
    assert "sweep.trials=24" in capsys.readouterr().out
    # nothing was left to run: the seconds are those of all sessions, not of this one
    seconds = sum(trial.summary()["wall_s"] for trial in RunDir(tmp_path / "out").children())
    assert RunDir(tmp_path / "out").summary()["wall_s"] == searched == pytest.approx(seconds)


def test_another_sweep_is_refused(done, capsys):
    out, *_ = done
    before = (out / "sweep.yaml").read_text()
    assert main(["resume", str(out), "--set", "sweep.seed=1"]) == 2
    error = capsys.readouterr().err
    assert "sweep.seed is 0 there and 1 here" in error
    assert main(["resume", str(out), "--set", "budget.generations=9"]) == 2
    assert "budget.generations is 3 there and 9 here" in capsys.readouterr().err
    assert (out / "sweep.yaml").read_text() == before


# --- reproducible -----------------------------------------------------------------------------


@pytest.mark.slow
def test_another_seed_is_another_sweep(done, tmp_path, plain):
    sweeps.swept(tmp_path, sweeps.raw(seed=1))
    assert sweeps.trials(tmp_path / "out")[1:] != sweeps.trials(done[0])[1:]


@pytest.mark.quick(1)
@pytest.mark.parametrize("sampler", ["nsga2", "random", "qmc"])
def test_twice_the_same(tmp_path, sampler, done, plain):
    plan = sweeps.plan_of(tmp_path, sweeps.raw(sampler=sampler))
    studies = []
    for name in ("a", "b"):
        sweeps.sweep(plan, tmp_path / name)
        studies.append(sweeps.trials(tmp_path / name))
    assert studies[0] == studies[1] != sweeps.trials(done[0])
    assert len({params["problem.noise"] for _, _, params, _ in studies[0]}) == 12


@pytest.mark.slow
def test_ray_has_the_same_study(done, tmp_path, capsys, plain):
    path = sweeps.write(tmp_path, sweeps.raw())
    args = ["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "2", "--quiet"]
    assert main(args) == 0
    assert "trials run on Ray, 2 workers" in capsys.readouterr().err
    assert sweeps.trials(tmp_path / "out") == sweeps.trials(done[0])
    for number in range(12):
        front = of_trial(tmp_path / "out", number).front_file.read_bytes()
        assert front == of_trial(done[0], number).front_file.read_bytes()


def test_asynchronous_has_every_trial_once(tmp_path, plain):
    sweeps.swept(tmp_path, sweeps.raw(asynchronous=True))
    study = sweeps.trials(tmp_path / "out")
    assert [(number, state) for number, state, *_ in study] == [(n, "COMPLETE") for n in range(12)]


def test_two_at_once_are_refused(done, tmp_path, capsys, plain):
    import fcntl

    with (done[0] / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["resume", str(done[0])]) == 2
    assert "found that another process does" in capsys.readouterr().err


# --- failing ----------------------------------------------------------------------------------


def failing(**changes):
    """zdt1 needs two genes: trials with one fail when their problem is made."""
    space = {"problem.d": {"choices": [1, 3]}, "problem.name": {"choices": ["lotz", "zdt1"]}}
    content = sweeps.raw(search_space=space, **changes)
    content["problem"] = {"kind": "function", "name": "lotz", "d": 5}
    return content


def test_a_trial_that_raises_is_told_and_the_sweep_goes_on(tmp_path, plain):
    content = failing(sampler="random")
    content["problem"]["d"] = 3
    summary, told = sweeps.swept(tmp_path, content)
    study = sweeps.trials(tmp_path / "out")
    wrong = [params == {"problem.d": 1, "problem.name": "zdt1"} for _, _, params, _ in study]
    assert 0 < sum(wrong) < 12
    assert [state == "FAIL" for _, state, *_ in study] == wrong
    assert summary["trials_failed"] == sum(wrong)
    assert summary["status"] == "done"
    number = wrong.index(True)
    assert not told[number].outcome.values
    assert "expected d of at least 2 for zdt1, found 1" in told[number].outcome.error
    error = told[number].outcome.error
    assert of_trial(tmp_path / "out", number).summary() == {"status": "failed", "error": error}
    frame = pd.read_csv(tmp_path / "out" / "trials.csv")
    assert frame["error"][number] == error
    again, more = sweeps.swept(tmp_path, content)
    assert more == []
    assert again["trials_failed"] == sum(wrong)


def test_when_all_fail(tmp_path, capsys, plain):
    content = sweeps.raw(search_space={"problem.d": {"choices": [4, 5]}}, trials=3)
    content["constraints"] = [{"metric": "f1", "at_least": 99}]
    content["sweep"]["directions"] = [{"metric": "best_f1", "sense": "min"}]
    path = sweeps.write(tmp_path, content)
    out = tmp_path / "out"
    assert main(["sweep", str(path), "--out", str(out)]) == 3
    error = capsys.readouterr().err
    assert "3 of 3 trials failed" in error
    assert "best_f1 has no value: the front is empty" in error
    columns = pd.read_csv(out / "trials.csv").columns.tolist()  # whichever trials have values
    assert columns == ["trial", "state", "best_f1", "problem.d", "error"]
    assert (out / "optuna.db").is_file()
    assert not (out / "best.yaml").exists()


# --- several aims, repeats, a reference -------------------------------------------------------


@pytest.mark.slow
def test_two_directions(tmp_path, plain):
    directions = [{"metric": "best_f2", "sense": "min"}, {"metric": "evaluations", "sense": "min"}]
    summary, _ = sweeps.swept(tmp_path, sweeps.raw(directions=directions))
    values = np.array([trial[3] for trial in sweeps.trials(tmp_path / "out")])
    best = [trial["trial"] for trial in summary["best"]]
    assert len(best) > 1
    for number, row in enumerate(values):
        dominated = any((other <= row).all() and (other < row).any() for other in values)
        assert dominated == (number not in best)
    chosen = load_config(tmp_path / "out" / "best.yaml")
    assert chosen.algorithm.batch == summary["best"][0]["params"]["algorithm.batch"]
    assert set(summary["importances"]) == {"best_f2", "evaluations"}
    assert summary["indicators"] == summary["best"][0]["values"]


def test_share_of_reference(done, tmp_path, plain):
    run = of_trial(done[0], 3)
    front = run.front().frame()
    other = front.head(1).assign(f1=0.123, f2=0.456)
    pd.concat([front, front.head(1), other]).to_csv(tmp_path / "front.csv", index=False)
    directions = [{"metric": "share_of_reference", "sense": "max"}]
    plan = sweeps.plan_of(tmp_path, sweeps.raw(directions=directions, reference="front.csv"))
    problem = make_problem(run.config(checked=True))
    meter = TrialMeter(plan.sweep, run.config().roles(problem), "here")
    assert meter(run).values == {"share_of_reference": len(front) / (len(front) + 1)}


# --- MLflow -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_best_trial_has_a_model_and_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"algorithm.population": {"choices": [20, 30]}}
    directions = [{"metric": "hypervolume", "sense": "max"}]
    sweep = {"search_space": space, "directions": directions, "trials": 2}
    write(tmp_path / "sweep.yaml", small(sweep=sweep))
    assert main(["sweep", "sweep.yaml", "--out", "out", "--quiet"]) == 0
    out = RunDir(tmp_path / "out")
    best = out.path / "trials" / f"{out.summary()['best'][0]['trial']:03d}"
    assert (best / "model" / "model.json").is_file()
    assert [*out.path.glob("trials/*/report.html")] == [best / "report.html"]


def test_each_trial_is_a_nested_run(tmp_path, store):
    content = failing(trials=6)
    content["problem"]["d"] = 3
    sweeps.swept(tmp_path, content)
    run_dir, out = RunDir(tmp_path / "out"), tmp_path / "out"
    assert Uploader(run_dir, store.uri, "sweep").upload(final=True)
    state = UploadState.load(run_dir)
    assert len(state.runs) == 7
    parent = store.client.get_run(state.runs["experiment"].run_id)
    assert parent.data.params["sweep.trials"] == "6"
    assert parent.data.params["sweep.search_space.problem.d.choices"] == "[1, 3]"
    found = run_dir.summary()["indicators"]["hypervolume"]
    assert parent.data.metrics["hypervolume"] == round(found, 4)
    files = {a.path for a in store.client.list_artifacts(parent.info.run_id)}
    assert {"best.yaml", "trials.csv", "summary.json", "sweep.html"} <= files
    for number, told, params, values in sweeps.trials(out):
        child = store.client.get_run(state.runs[f"{number:03d}"].run_id)
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        if told == "FAIL":
            assert child.info.status == "FAILED"
            assert "expected d of at least 2" in child.data.tags["error"]
            assert child.data.params["problem.d"] == "1"
        else:
            assert child.info.status == "FINISHED"
            assert child.data.metrics["hypervolume"] == round(values[0], 4)
            assert child.data.params["problem.d"] == str(params["problem.d"])
    assert {told for _, told, *_ in sweeps.trials(out)} == {"COMPLETE", "FAIL"}


def test_a_password_stays_here(tmp_path, store, done, plain):
    out = tmp_path / "out"
    sweeps.swept(tmp_path, sweeps.raw(trials=1))
    text = yaml.safe_load((out / "sweep.yaml").read_text())
    text["storage"] = "postgresql://me:secret@host/db"
    (out / "sweep.yaml").write_text(yaml.safe_dump(text))
    Uploader(RunDir(out), store.uri, "password").upload(final=True)
    run = store.client.get_run(UploadState.load(RunDir(out)).runs["experiment"].run_id)
    assert not any("secret" in value for value in run.data.params.values())


def test_what_follows_a_sweep_is_started_and_ended(tmp_path, monkeypatch, store):
    seen = []
    monkeypatch.setattr(MlflowTracker, "on_start", lambda self: seen.append("started"))

    def ended(self):
        seen.append("ended")
        return ""

    monkeypatch.setattr(MlflowTracker, "on_written", ended)
    content = sweeps.raw(trials=1) | {"tracking": {"uri": store.uri, "experiment": "followed"}}
    sweeps.swept(tmp_path, content)
    assert seen == ["started", "ended"]
