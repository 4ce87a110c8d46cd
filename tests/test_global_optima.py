"""The experiment on exact fronts: what is found never exceeds what there is, nor goes away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from tests.command import environment, small, write

SCRIPT = Path(__file__).parent.parent / "scripts" / "global_optima.py"


def test_counts_grow_up_to_the_exact_front_and_are_kept(tmp_path):
    write(tmp_path / "small.yaml", small())
    command = [sys.executable, SCRIPT, "small.yaml", "--stages", "2", "--splits", "2"]
    command += ["--runs", "3", "--generations", "60", "--out", "out"]
    for _ in range(2):  # the second time it is read from what was kept
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        table = pd.read_csv(tmp_path / "out" / "table.csv")
        assert table["split"].tolist() == [0, 1]
        for row in table.to_dict("records"):
            with np.load(tmp_path / "out" / row["file"]) as kept:
                assert kept["counts"].shape == (3, 61)
                assert (np.diff(kept["counts"], axis=1) >= 0).all()
                assert kept["counts"].max() <= kept["size"] == row["exact"]
                assert kept["counts"][:, -1].mean() == row["mean found"] > 0
    assert (tmp_path / "out" / "figure7.png").stat().st_size > 10_000
