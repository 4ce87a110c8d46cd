"""The claims of all papers in one table."""

from __future__ import annotations

import claims
import pandas as pd
import pytest
import yaml

from framework.analysis.compare import Claim
from framework.analysis.report import claims_table
from framework.experiment.grid_load import load_grid


def test_claims_of_experiments_and_figures_are_lines_with_their_commands(tmp_path, capsys):
    runs = tmp_path / "runs"
    fewer = ["experiment.product={problem.split.seed: [1]}", "budget.generations=50"]
    grid = load_grid(claims.ROOT / "configs" / "emsco" / "fronts.yaml", fewer, repeats=2)
    for name, holds in (("pruning-mine", True), ("emsco-fronts", False), ("mine", True)):
        tables = runs / name / "tables"
        tables.mkdir(parents=True)
        text = grid.dump() if name == grid.base.name else yaml.safe_dump({"name": name})
        (tables.parent / "experiment.yaml").write_text(text)
        found = claims_table([Claim(f"{name} is good", "always", "at times", holds)])
        found.to_csv(tables / "claims.csv", index=False)
    figure = runs / "figures"
    figure.mkdir()
    text = "# A figure\n\n    python scripts/figures.py threshold --out here\n"
    (figure / "report.md").write_text(text)
    claims_table([Claim("rises", "seen", "r = 1", True)]).to_csv(figure / "claims.csv", index=False)
    out = tmp_path / "claims.csv"
    pd.DataFrame(
        [
            ["EMSCO", "rises", "python scripts/figures.py threshold", "by chance"],
            ["EMSCO", "falls", "paretolab experiment configs/emsco/fronts.yaml --repeats 1", ""],
            ["EMSCO", "stays", "paretolab experiment configs/emsco/rivals.yaml --repeats 1", "so"],
        ],
        columns=["paper", "statement", "command", "reason"],
    ).to_csv(out, index=False)
    assert claims.main([str(runs), "--out", str(out)]) == 0
    assert capsys.readouterr().out == "EMSCO: 1 of 3 hold\npruning: 1 of 1 hold\n"
    table = pd.read_csv(out)
    assert table.columns.tolist() == claims.COLUMNS
    stays = table["statement"] == "stays"  # of an experiment that is not run again
    assert table[stays]["reason"].tolist() == ["so"]
    table = table[~stays]
    assert table["statement"].tolist() == ["emsco-fronts is good", "rises", "pruning-mine is good"]
    assert table["command"].tolist() == [
        "paretolab experiment configs/emsco/fronts.yaml --repeats 2 --set budget.generations=50 "
        "--set 'experiment.product={problem.split.seed: [1]}'",
        "python scripts/figures.py threshold",
        "pruning-mine",
    ]
    assert table["size"].tolist()[:2] == ["18 of 2,700 runs, 50 of 500 generations", "as shipped"]
    assert table["reason"].fillna("").tolist() == ["", "by chance", ""]
    assert table["here"].tolist() == ["at times", "r = 1", "at times"]
    assert table["holds"].tolist() == ["no", "yes", "yes"]


def test_a_figure_that_was_changed_is_not_as_shipped(tmp_path):
    text = "# A figure\n\n    python scripts/figures.py elites --set budget.generations=4\n"
    (tmp_path / "report.md").write_text(text)
    size = claims.origin(tmp_path / "claims.csv", {})[2]
    assert size == "changed by --set"


def test_nothing_run_is_said(tmp_path, capsys):
    assert claims.main([str(tmp_path)]) == 2
    assert "found none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("experiment", "table", "sentence"),
    [
        ("name: [", "claim\n", "expected YAML, found"),
        ("name: pruning-mine", "", "claims.csv: expected the claims of an experiment"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, capsys, experiment, table, sentence):
    (tmp_path / "tables").mkdir()
    (tmp_path / "experiment.yaml").write_text(experiment)
    (tmp_path / "tables" / "claims.csv").write_text(table)
    assert claims.main([str(tmp_path), "--out", str(tmp_path / "out" / "all.csv")]) == 2
    assert sentence in capsys.readouterr().err
