"""The table of what cascades are worth on other records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cascades_on_calls import area, main

from tests.cascade.tables import made_up


def test_the_area_is_that_under_the_line():
    points = np.array([[3.0, 0.2], [1.0, 0.4]])
    assert area(points, 1.0, 3.0) == pytest.approx(0.3, abs=1e-3)
    assert area(points, 1.0, 5.0) == pytest.approx(0.25, abs=1e-3)  # flat behind the dearest


def test_it_prints_a_line_per_method(tmp_path, capsys):
    table = made_up(3, 90)
    columns = {}
    for m, name in enumerate(table.ids):
        columns[f"{name}:correct"] = table.right[m].astype(int)
        columns[f"{name}:confidence"] = table.confidence[m]
        columns[f"{name}:cost"] = table.costs["cost"].values[m] / 1e9
    frame = pd.DataFrame(columns)
    frame[:40].to_csv(tmp_path / "a.csv", index=False)
    frame[40:].to_csv(tmp_path / "b.csv", index=False)
    words = [f"{tmp_path / 'a.csv'}+{tmp_path / 'b.csv'}", "--records", "30", "--splits", "2"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "30 records to tune on, 1 tables, 2 splits each" in printed
    areas = {line[:22].strip(): float(line[22:].split()[0]) for line in printed.splitlines()[2:]}
    assert len(areas) == 5
    assert all(0 < value < 1 for value in areas.values())
    assert main([*words, "--sure", "95"]) == 0
    kept = {
        line[:11].strip(): float(line[11:].split()[0])
        for line in capsys.readouterr().out.splitlines()[2:]
    }
    assert kept["1/2 plain"] <= kept["1/2 sure"] <= 1
