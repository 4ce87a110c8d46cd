"""The experiments of scripts/: what is finished is kept, tables and pages say what was found."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command import environment, small, write

SCRIPTS = Path(__file__).parent.parent / "scripts"


def script(name, *arguments, cwd):
    """Run a script of scripts/; return what it printed."""
    command = [sys.executable, SCRIPTS / f"{name}.py", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def load(monkeypatch):
    """Return what imports a module of scripts/."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module


def test_rivals_go_on_where_they_were_and_end_in_a_page(tmp_path):
    write(tmp_path / "small.yaml", small(problem__threshold=0.7))
    for trials in (1, 2):
        script(
            "rivals", "small.yaml", "--trials", trials, "--workers", 1, "--out", "out", cwd=tmp_path
        )
        rows = pd.read_csv(tmp_path / "out" / "trials.csv")
        if trials == 1:
            first = rows
    pd.testing.assert_frame_equal(rows[rows.trial == 0], first)
    by = rows.groupby(["tuned_by", "method"], dropna=False)
    assert by.trial.apply(list).map(lambda t: t == [0, 1]).all()
    assert rows.tuned_by.dropna().unique().tolist() == ["own", "asking_aggregate"]
    asking = rows[rows.tuned_by == "asking_aggregate"].set_index("method")
    assert (asking.cost > 0).all()
    table = pd.read_csv(tmp_path / "out" / "table_own.csv").set_index("method")
    emsco = rows[rows.method == "emsco"]
    assert table.coverage["emsco"] == pytest.approx(emsco.coverage.mean())
    assert emsco.parameters.str.startswith('{"stages": [').all()
    said = pd.read_csv(tmp_path / "out" / "claims.csv", index_col="claim")
    lowest = table.cost.drop("cegb").idxmin()
    here = said.here["lowest mean cost of all"]
    assert here == ("1 of 1: small" if lowest == "emsco" else "0 of 1: none")
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| small | EMSCO |" in page
    assert "![" in page
    assert (tmp_path / "out" / "rivals.png").stat().st_size > 10_000


@pytest.mark.parametrize("figure", ["threshold", "landscape", "neighbours"])
def test_a_figure_is_a_table_a_picture_and_a_page(figure, tmp_path, load, monkeypatch):
    figures = load("figures")
    monkeypatch.setattr(figures, "SPLITS", 2)
    monkeypatch.setattr(figures, "SAMPLE", 200)
    write(tmp_path / "small.yaml", small(problem__costs={"by_importance": 2}))
    monkeypatch.setattr(sys, "argv", ["figures.py", figure])
    arguments = [figure, "--config", str(tmp_path / "small.yaml"), "--out", str(tmp_path)]
    assert figures.main(arguments) == 0
    assert len(pd.read_csv(tmp_path / f"{figure}.csv"))
    assert set(pd.read_csv(tmp_path / "claims.csv")["holds"]) <= {"yes", "no"}
    assert f"({figure}.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / f"{figure}.png").stat().st_size > 10_000


@given(st.lists(st.integers(0, 3), min_size=1, max_size=7))
def test_one_step_is_a_gene_more_or_less_with_gaps_closed(raw):
    sys.path.insert(0, str(SCRIPTS))
    try:
        one_step = importlib.import_module("figures").one_step
    finally:
        sys.path.remove(str(SCRIPTS))
    genome = np.unique(raw, return_inverse=True)[1]
    found, steps = one_step(genome, 3)
    wanted = []
    for i in range(len(genome)):
        for step in (-1, 1):
            if 0 <= genome[i] + step <= 3:
                other = genome.tolist()
                other[i] += step
                kept = sorted(set(other))
                wanted.append([kept.index(stage) for stage in other])
    assert found.tolist() == wanted
    assert len(steps) == len(wanted)


def test_one_page_of_all_experiments(tmp_path, load):
    reproduce = load("reproduce_emsco")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.md").write_text(f"# {name}\n\n![a](a.png)\n", encoding="utf-8")
    claims = pd.DataFrame(
        [("it holds", "1", "1", "yes")], columns=["claim", "paper", "here", "holds"]
    )
    claims.to_csv(tmp_path / "first" / "claims.csv", index=False)
    (tmp_path / "seconds.json").write_text('{"first": 60, "second": 30}', encoding="utf-8")
    reproduce.write_page(["first", "second"], tmp_path)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| first | it holds | 1 | 1 | yes |" in page
    assert "| all | 1.5 |" in page
    assert "## second\n\n![a](second/a.png)" in page


def test_time_counts_until_an_experiment_is_finished(tmp_path, load, monkeypatch):
    reproduce = load("reproduce_emsco")
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(reproduce.time, "perf_counter", lambda: next(clock))
    options = argparse.Namespace(out=tmp_path, workers=1, quick=False, no_mlflow=True)
    step = reproduce.Step("step", "figures.py", ("landscape",))
    page = tmp_path / "step" / "report.md"
    for finishes, seconds in ((False, 10), (True, 20), (True, 20)):

        def ran(command, check, finishes=finishes):
            page.parent.mkdir(exist_ok=True)
            if finishes:
                page.write_text("done", encoding="utf-8")
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(reproduce.subprocess, "run", ran)
        assert reproduce.run_step(step, options) == 0
        assert reproduce.times(tmp_path) == {"step": seconds}


def test_an_experiment_is_a_run_in_mlflow(tmp_path, load, monkeypatch):
    from mlflow import MlflowClient

    from framework.experiment.config import RunConfig

    study = load("study")
    monkeypatch.chdir(tmp_path)
    config = RunConfig.model_validate(small(tracking={"uri": "sqlite:///mlflow.db"}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("# Found\n", encoding="utf-8")
    options = argparse.Namespace(out=tmp_path / "out", trials=3, no_mlflow=False)
    for _ in range(2):  # the second time there is nothing new
        study.log(tmp_path / "out", config.tracking, "rivals", options)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("paper-emsco").experiment_id])
    assert run.info.run_name == "rivals"
    assert run.info.status == "FINISHED"
    assert run.data.params["trials"] == "3"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["report.md"]
