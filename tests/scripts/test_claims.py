"""The claims of all papers in one table."""

from __future__ import annotations

import claims
import pandas as pd
import yaml

from framework.analysis.compare import Claim
from framework.analysis.report import claims_table


def test_claims_of_experiments_and_figures_are_lines_with_their_commands(tmp_path, capsys):
    runs = tmp_path / "runs"
    for name, holds in (("pruning", True), ("emsco-fronts", False), ("mine", True)):
        tables = runs / name / "tables"
        tables.mkdir(parents=True)
        (tables.parent / "experiment.yaml").write_text(yaml.safe_dump({"name": name}))
        found = claims_table([Claim(f"{name} is good", "always", "at times", holds)])
        found.to_csv(tables / "claims.csv", index=False)
    figure = runs / "figures"
    figure.mkdir()
    (figure / "report.md").write_text("# A figure\n\n    python scripts/figures.py threshold\n")
    claims_table([Claim("rises", "seen", "r = 1", True)]).to_csv(figure / "claims.csv", index=False)
    out = tmp_path / "claims.csv"
    assert claims.main([str(runs), "--out", str(out)]) == 0
    assert capsys.readouterr().out == "EMSCO: 1 of 2 hold\npruning: 1 of 1 hold\n"
    table = pd.read_csv(out)
    assert table.columns.tolist() == claims.COLUMNS
    assert table["statement"].tolist() == ["emsco-fronts is good", "rises", "pruning is good"]
    assert table["command"].tolist() == [
        "paretolab experiment configs/emsco/fronts.yaml",
        "python scripts/figures.py threshold",
        "paretolab experiment configs/experiments/pruning.yaml",
    ]
    assert table["here"].tolist() == ["at times", "r = 1", "at times"]
    assert table["holds"].tolist() == ["no", "yes", "yes"]


def test_nothing_run_is_said(tmp_path, capsys):
    assert claims.main([str(tmp_path)]) == 2
    assert "found none" in capsys.readouterr().out
