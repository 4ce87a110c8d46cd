"""The experiments on ensembles end in tables, figures and an MLflow run, and can go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from framework.libraries.library import Library
from tests.command import environment
from tests.made_up_libraries import made_up

SCRIPT = Path(__file__).parent.parent / "scripts" / "ensembling.py"


def write_library(path: Path, seed: int) -> None:
    """Write a small library with the three costs of the paper."""
    made = made_up(k=4, seed=seed)
    assert made.classes is not None
    answers = np.array(made.classes)
    Library.from_arrays(
        made.ids,
        made.validation,
        answers[made.y_validation],
        made.classes,
        {**made.costs, "disk": made.costs["memory"]},
        test=made.test,
        y_test=answers[made.y_test],
        configs=made.configs,
        name=path.name,
    ).save(path)


def test_tables_figures_and_a_run_in_mlflow(tmp_path):
    for seed in (0, 1):
        write_library(tmp_path / f"made-{seed}", seed)
    command = [sys.executable, SCRIPT, "--data", "--library", "made-0", "made-1", "--seeds", "1"]
    command += ["--budget", "paper", "--out", "out"]
    place = tmp_path / "out" / "paper"
    written = []
    for _ in range(2):  # the second time it is read from what was kept
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        written.append([path.stat().st_mtime_ns for path in sorted((place / "rows").iterdir())])
    assert written[0] == written[1]
    table = pd.read_csv(place / "exp1_hardware_chosen.csv")
    assert {"HAPEns", "HAPEns + archive", "GES*", "single best"} <= set(table["method"])
    assert table["hypervolume"].between(0, 1.01**2).all()
    pictures = {path.name for path in place.glob("*.png")}
    assert {"exp1_hardware_chosen.png", "figure7.png", "exp4.png", "exp6.png"} <= pictures
    assert (tmp_path / "mlflow.db").is_file()
    assert (place / ".logged").is_file()
