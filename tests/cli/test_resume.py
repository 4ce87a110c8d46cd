"""Going on with a run that has ended: with a larger budget, and with what the user chose."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.experiment import execute
from framework.experiment.run_dir import RunDir
from framework.models.store import load_model
from framework.problems.functions import FunctionProblem
from tests.command import POINT, small, write

BY_THREES = POINT | {"algorithm": {"kind": "random", "batch": 3}}


@pytest.fixture
def plain(monkeypatch):
    """Draw nothing: that takes longer than these runs."""
    monkeypatch.setattr(execute, "conclude", lambda *_: None)


def quietly(command, path, *more):
    """Call a command on a run or a configuration; return its exit code."""
    return main([command, str(path), *more, "--no-plots", "--quiet"])


def run(folder, name, **changes):
    """Run a search on a test function; return its directory."""
    config = write(folder / f"{name}.yaml", BY_THREES | changes)
    assert quietly("run", config, "--out", str(folder / name)) == 0
    return RunDir(folder / name)


def resume(run_dir, *settings):
    """Go on with a run with keys changed; return the exit code."""
    return quietly("resume", run_dir.path, *(w for key in settings for w in ("--set", key)))


def content(run_dir):
    """Return all rows of a journal, and the front, but for how rows were grouped."""
    with run_dir.journal() as journal:
        batches = list(journal.evaluations())
    rows = [np.concatenate([b.values[n] for b in batches]).tobytes() for n in batches[0].values]
    genomes = np.concatenate([batch.X for batch in batches]).tobytes()
    return genomes, rows, run_dir.front_file.read_bytes()


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("before", "change", "lifted"),
    [
        ({"generations": 3}, {"generations": 8}, None),
        ({"evaluations": 70}, {"evaluations": 150}, None),
        ({"evaluations": 63}, {"evaluations": 150}, None),
        ({"evaluations": 70}, {"generations": 40}, "evaluations (70)"),
        ({"generations": 3}, {"evaluations": 150}, "generations (3)"),
        ({"patience": 1}, {"generations": 40}, "patience (1)"),
        ({"seconds": 1e-9}, {"generations": 8}, "seconds (1e-09)"),
        ({"seconds": 1e-9, "generations": 8}, {"seconds": 1e6}, None),
        ({"patience": 1, "generations": 60}, {"patience": 3}, None),
        ({"generations": 60, "evaluations": 70}, {"evaluations": 9000}, None),
    ],
)
def test_a_larger_budget_goes_on(tmp_path, capsys, plain, before, change, lifted):
    short = run(tmp_path, "short", budget=before)
    n = short.summary()["evaluations"]
    capsys.readouterr()
    ((key, value),) = change.items()
    assert resume(short, f"budget.{key}={value}") == 0
    said = capsys.readouterr().err
    assert (lifted is None) == ("no longer counts" not in said)
    if lifted is not None:
        assert f"budget.{lifted}, which had ended the run, no longer counts" in said
    assert short.summary()["evaluations"] > n
    twin = run(tmp_path, "whole", budget=(before if lifted is None else {}) | change)
    assert content(short) == content(twin)
    assert short.config().budget == twin.config().budget


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("before", "change", "key", "done", "found"),
    [
        ({"generations": 8}, "budget.generations=3", "generations", 8, 3),
        ({"evaluations": 70}, "budget={evaluations: 69}", "evaluations", 70, 69),
        ({"evaluations": 70}, "budget.generations=20", "generations", 23, 20),
    ],
)
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("killed", [False, True])
def test_a_smaller_budget_is_refused(
    tmp_path, capsys, plain, before, change, key, done, found, repeats, killed
):
    short = run(tmp_path, "short", budget=before, repeats=repeats)
    for one in short.runs() if killed else ():
        one.summary_file.unlink()
    front, config = short.front_file.read_bytes(), short.config_file.read_bytes()
    capsys.readouterr()
    assert resume(short, change) == 2
    sentence = f"budget.{key}: expected no fewer than the {done} {key} that are done, found {found}"
    assert sentence in capsys.readouterr().err
    if repeats == 2:
        assert resume(short, "repeats=1") == 2
        assert "repeats: expected no fewer than the 2" in capsys.readouterr().err
    assert short.front_file.read_bytes() == front
    assert short.config_file.read_bytes() == config


def test_a_single_run_does_not_become_several(tmp_path, capsys, plain):
    """They would evaluate its rows again, beside a journal that nobody reads."""
    alone = run(tmp_path, "alone", budget={"evaluations": 6})
    assert resume(alone, "repeats=2") == 2
    assert "was begun as a single run, found 2; `paretolab run`" in capsys.readouterr().err
    assert alone.config().repeats == 1


def test_a_smaller_budget_that_is_not_spent_goes_on(tmp_path, plain):
    short = run(tmp_path, "short", budget={"patience": 1, "generations": 60})
    spent = short.summary()["generations"]
    assert spent < 50
    assert resume(short, "budget.generations=50") == 0
    assert short.summary()["generations"] == 50


def test_what_ends_a_run_earlier_than_before_is_said(tmp_path, capsys, plain):
    """Patience is counted while rows are replayed; the rows stay in the journal."""
    short = run(tmp_path, "short", budget={"generations": 60})
    before = content(short)
    capsys.readouterr()
    assert resume(short, "budget.patience=1") == 0
    told = short.summary()["evaluations"]
    assert told < 183
    assert (
        f"warning: the front is that of the first {told} of 183 evaluated rows: the run ends there "
        "now (patience)"
    ) in capsys.readouterr().err
    assert resume(short, "budget.generations=60") == 0
    assert "warning" not in capsys.readouterr().err
    assert content(short) == before


def test_more_failures_go_on(tmp_path, capsys, plain, monkeypatch):
    """Three rows in four fail: the run ends, and goes on where that is allowed."""
    honest = FunctionProblem.evaluate

    def mostly_failing(self, X, streams=None):
        fails = X[:, 0] < 0.75
        return {k: np.where(fails, np.nan, v) for k, v in honest(self, X, streams).items()}

    monkeypatch.setattr(FunctionProblem, "evaluate", mostly_failing)
    config = write(tmp_path / "short.yaml", BY_THREES | {"budget": {"evaluations": 150}})
    short = RunDir(tmp_path / "short")
    assert quietly("run", config, "--out", str(short.path)) == 3
    assert re.search(r"\d+ of \d+ rows failed", capsys.readouterr().err)
    assert short.summary()["status"] == "failed"
    assert 50 <= short.summary()["evaluations"] < 150
    assert resume(short) == 3  # as it was
    assert resume(short, "budget.max_failed_share=1") == 0
    assert short.summary()["evaluations"] == 150
    whole = run(tmp_path, "whole", budget={"evaluations": 150, "max_failed_share": 1})
    assert content(short) == content(whole)


def test_so_do_repeats(tmp_path, plain):
    short = run(tmp_path, "short", budget={"evaluations": 70}, repeats=2)
    assert resume(short, "budget.generations=40") == 0
    whole = run(tmp_path, "whole", budget={"generations": 40}, repeats=2)
    assert short.summary()["evaluations"] == 2 * 41 * 3
    for ours, theirs in zip(short.children(), whole.children(), strict=True):
        assert content(ours) == content(theirs)
    assert short.front_file.read_bytes() == whole.front_file.read_bytes()


def test_without_a_change_nothing_is_evaluated(tmp_path, plain):
    short = run(tmp_path, "short", budget={"evaluations": 70})
    before = content(short)
    assert resume(short) == 0
    assert content(short) == before


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("about.json", '{"metrics": ['),
        ("about.json", "{}"),
        ("about.json", "[1]"),
        ("summary.json", ""),
        ("summary.json", '{"evaluations": "many"}'),
    ],
)
def test_what_is_damaged_is_written_again_once_it_is_deleted(
    tmp_path, capsys, plain, name, text, repeats
):
    whole = run(tmp_path, "whole", budget={"evaluations": 6}, repeats=repeats)
    one = whole.runs()[0]
    file, before = one.path / name, content(one)
    file.write_text(text)
    capsys.readouterr()
    assert resume(whole) == 2
    said = capsys.readouterr().err.strip()
    assert f"{file}: expected " in said
    assert said.endswith(f"; delete it and run `paretolab resume {whole.path}`")
    file.unlink()
    assert resume(whole) == 0
    assert file.stat().st_size > 200
    assert content(one) == before


def test_a_part_is_resumed_with_all_of_the_run(tmp_path, capsys, plain, monkeypatch):
    whole = run(tmp_path, "whole", budget={"evaluations": 6}, repeats=2)
    for folder, part, named in (
        (tmp_path, "whole/repeats/001", "whole"),
        (whole.path / "repeats", "001", whole.path),
        (whole.path / "repeats" / "001", ".", whole.path),
    ):
        monkeypatch.chdir(folder)
        assert quietly("resume", part) == 2
        told = f"{part}: expected a whole run, found a part of a run; `paretolab resume {named}`"
        assert told in capsys.readouterr().err


# --- what the user chose ----------------------------------------------------------------------


@pytest.fixture
def chosen(finished, command, place):
    """A finished run with another model than the recommended one; its directory and id."""
    out = place / "chosen"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(finished.dir, out)
    recommended = solution(out)
    front = pd.read_csv(out / "front.csv").sort_values("cost")
    id = next(int(i) for i in front["id"] if i != recommended)
    command("choose", "chosen", "--id", str(id), code=0)
    return out, id


def solution(out):
    return json.loads((out / "model" / "model.json").read_text())["about"]["solution"]


def files(out):
    return {path.name: path.read_bytes() for path in (out / "model").iterdir()}


@pytest.mark.slow
def test_a_chosen_model_stays(chosen, command):
    out, id = chosen
    before = files(out)
    done = command("resume", "chosen", code=0)
    assert solution(out) == id
    assert files(out) == before
    assert f"{id} * " in done.out
    assert "chosen " in done.out
    assert "recommended" not in done.out
    assert f"Solution {id}, as chosen" in (out / "report.html").read_text(encoding="utf-8")
    assert f"{out.name}/plots: drawn before this run went on" in (
        command("resume", "chosen", "--no-plots").err
    )


@pytest.mark.slow
def test_it_stays_where_better_ones_are_found(chosen, command):
    out, id = chosen
    front = pd.read_csv(out / "front.csv")
    done = command("resume", "chosen", "--set", "budget.generations=40", code=0)
    after = pd.read_csv(out / "front.csv")
    assert len(after) != len(front)
    assert solution(out) == id
    gone = f"solution {id}, which you chose, is no longer on the front" in done.err
    assert gone == (id not in set(after["id"]))
    assert (f"(solution {id}, as you chose)" in " ".join(done.out.split())) == gone


@pytest.mark.slow
def test_a_chosen_model_that_was_deleted_is_made_again(chosen, command):
    out, id = chosen
    before = files(out)
    shutil.rmtree(out / "model")
    command("resume", "chosen", code=0)
    assert solution(out) == id
    assert files(out).keys() == before.keys()


@pytest.mark.slow
def test_mlflow_has_the_chosen_model(place, command):
    import mlflow

    uri = f"sqlite:///{place / 'mlflow.db'}"
    write(place / "tracked.yaml", small(tracking={"uri": uri, "experiment": "chosen"}))
    command("run", "tracked.yaml", "--out", "tracked", code=0)
    out = place / "tracked"
    id = next(int(i) for i in pd.read_csv(out / "front.csv")["id"] if i != solution(out))
    for step in (["choose", "tracked", "--id", str(id)], ["resume", "tracked"]):
        command(*step, code=0)
        client = mlflow.MlflowClient(uri)
        experiment = client.get_experiment_by_name("chosen")
        models = client.search_logged_models([experiment.experiment_id])
        newest = max(models, key=lambda model: model.creation_timestamp)
        assert newest.name == f"solution-{id}"
        logged = newest.artifact_location.removeprefix("file://")
        (model,) = [path.parent for path in Path(logged).rglob("model.json")]
        assert json.loads((model / "model.json").read_text())["about"]["solution"] == id
        assert {path.name for path in model.iterdir()} == set(files(out))
        load_model(model)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("run", "repeats=3"), ("sweep", "sweep.trials=3"), ("experiment", "experiment.repeats=3")],
)
def test_further_runs_are_on_the_same_data(tmp_path, capsys, plain, kind, more):
    calls = ["record,m:answer,m:confidence,m:cost,n:answer,n:confidence,n:cost,truth"]
    calls += [f"r{i},a,0.{i + 1},1,{'ab'[i % 2]},0.5,2,{'ab'[i % 3 == 0]}" for i in range(8)]
    table = write(tmp_path / "calls.csv", None)
    table.write_text("\n".join(calls))
    problem = {"kind": "cascade", "calls": {"path": str(table), "costs": ["cost"]}}
    objectives = [{"metric": "accuracy", "sense": "max"}, {"metric": "cost", "sense": "min"}]
    config = POINT | {"problem": problem, "objectives": objectives, "algorithm": {"kind": "random"}}
    config |= {"budget": {"evaluations": 4}}
    if kind == "run":
        config |= {"repeats": 2}
    elif kind == "sweep":
        space = {"algorithm.batch": {"choices": [1, 2, 4]}}
        wanted = [{"metric": "hypervolume", "sense": "max"}]
        config |= {"sweep": {"search_space": space, "directions": wanted, "trials": 2}}
    else:
        methods = {"r": {"kind": "random"}, "g": {"kind": "grid"}}
        config = {key: of for key, of in config.items() if key != "algorithm"}
        config |= {"experiment": {"cases": {"one": {}}, "methods": methods, "repeats": 2}}
    file, out = write(tmp_path / "config.yaml", config), tmp_path / "out"
    assert main([kind, str(file), "--out", str(out), "--quiet"]) == 0
    again = ["resume", str(out), "--set", more, "--quiet"]
    before = {path: path.read_bytes() for path in out.rglob("*.csv")}
    table.write_text("\n".join([*calls[:-1], calls[-1][:-1] + "b"]))
    capsys.readouterr()
    assert main(again) == 2
    told = capsys.readouterr().err
    assert "expected the data" in told or "problem.fingerprint is" in told
    assert {path: path.read_bytes() for path in out.rglob("*.csv")} == before
    table.write_text("\n".join(calls))
    assert main(again) == 0
