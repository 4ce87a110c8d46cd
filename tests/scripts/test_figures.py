"""Figures of the EMSCO paper: tables and pages say what was found."""

from __future__ import annotations

import argparse
import sys

import figures
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command import small, write


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "figure",
    [
        "threshold",
        pytest.param("landscape", marks=pytest.mark.slow),
        "neighbours",
        pytest.param("elites", marks=pytest.mark.slow),
    ],
)
def test_a_figure_is_a_table_a_picture_and_a_page(figure, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "SPLITS", 2)
    monkeypatch.setattr(figures, "SAMPLE", 200)
    monkeypatch.setattr(figures, "RUNS", 3)
    monkeypatch.setattr(sys, "argv", ["figures.py", figure])
    config = small(problem__costs={"by_importance": 2}, budget__generations=6)
    write(tmp_path / "small.yaml", config)
    arguments = [figure, "--config", str(tmp_path / "small.yaml"), "--out", str(tmp_path)]
    assert figures.main(arguments) == 0
    assert len(pd.read_csv(tmp_path / f"{figure}.csv"))
    assert set(pd.read_csv(tmp_path / "claims.csv")["holds"]) <= {"yes", "no"}
    assert f"({figure}.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / f"{figure}.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("figure", "changes", "words"),
    [
        ("threshold", {"problem": {"kind": "function", "name": "zdt1"}}, "expected multistage"),
        ("threshold", {"problem__threshold": None}, "expected one threshold"),
        ("neighbours", {"problem__threshold": [0.7, 0.8]}, "expected one threshold"),
        ("landscape", {"problem__remove_features": True}, "remove_features: false"),
        ("elites", {"algorithm": "nsga2"}, "expected emsco"),
        ("threshold", {"problem__dataset": {"path": "none.csv", "target": "y"}}, "none.csv"),
    ],
)
def test_what_a_figure_cannot_show_is_refused_in_a_sentence(
    figure, changes, words, tmp_path, capsys
):
    config = small(**changes)
    if config["problem"]["kind"] == "function":
        config["objectives"] = [{"metric": name, "sense": "min"} for name in ("f1", "f2")]
    path = write(tmp_path / "small.yaml", config)
    assert figures.main([figure, "--config", str(path), "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_figures_have_a_folder_each_and_what_they_vary_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pages = []
    monkeypatch.setattr(figures, "write", lambda page, name, out: pages.append(out))
    monkeypatch.setitem(figures.FIGURES, "elites", lambda options: options.out)
    path = write(tmp_path / "small.yaml", small())
    with pytest.raises(FileNotFoundError, match="runs/figures/elites/report"):
        figures.main(["elites", "--config", str(path)])
    monkeypatch.undo()
    changed = ["elites", "--config", str(path), "--set", "problem.max_stages=2", "--out"]
    assert figures.main([*changed, str(tmp_path / "out")]) == 2
    assert "problem.max_stages: expected 2, 3 and 4 in turn" in capsys.readouterr().err


@given(st.lists(st.integers(0, 3), min_size=1, max_size=7))
def test_one_step_is_a_gene_more_or_less_with_gaps_closed(raw):
    genome = np.unique(raw, return_inverse=True)[1]
    found, steps = figures.one_step(genome, 3)
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


def test_a_figure_is_a_run_in_mlflow(tmp_path, monkeypatch):
    from mlflow import MlflowClient

    from framework.experiment.config import RunConfig

    monkeypatch.chdir(tmp_path)
    config = RunConfig.model_validate(small(tracking={"uri": "sqlite:///mlflow.db"}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("# Found\n", encoding="utf-8")
    options = argparse.Namespace(out=tmp_path / "out", trials=3, no_mlflow=False)
    for _ in range(2):  # the second time there is nothing new
        figures.log(tmp_path / "out", config.tracking, "landscape", options)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("paper-emsco").experiment_id])
    assert run.info.run_name == "landscape"
    assert run.info.status == "FINISHED"
    assert run.data.params["trials"] == "3"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["report.md"]
