"""The experiment of the HAPEns paper over a context in TabRepo's layout."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import tabrepo

from framework.cli.main import main
from tests.libraries.test_importing import write_tabrepo


def predictions(models, labels):
    rng = np.random.default_rng(len(labels))
    return np.clip(labels + rng.normal(0, 0.6, (models, len(labels))), 0, 1)


@pytest.fixture
def context(tmp_path):
    """Return a context of two data sets for classification and one for regression."""
    folder, y, y_test = tmp_path / "context", np.arange(60) % 2, np.arange(40) % 2
    for name, scale in (("adult", 1), ("credit", 1), ("prices", 7.5)):
        tables = predictions(5, y), predictions(5, y_test)
        models = write_tabrepo(folder, *tables, y * scale, y_test * scale, dataset=name)
    costs = pd.DataFrame({"id": models, "memory": range(1, 6), "disk": range(5, 0, -1)})
    costs.to_csv(tmp_path / "costs.csv", index=False)
    configs = {model.removesuffix("_BAG_L1"): {"depth": i} for i, model in enumerate(models)}
    (tmp_path / "configs.json").write_text(json.dumps(configs))
    return folder


def called(monkeypatch, context, tmp_path):
    """Run the script over a context, with the costs and hyperparameters beside it."""
    beside = {"--costs": "costs.csv", "--configs": "configs.json", "--out": "out"}
    words = [text for name, file in beside.items() for text in (name, str(tmp_path / file))]
    monkeypatch.setattr("sys.argv", ["tabrepo.py", str(context), "--fold", "1", *words])
    tabrepo.main()


@pytest.mark.slow
def test_each_data_set_for_classification_is_a_case(context, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    for _ in range(2):  # what is imported is not imported again
        called(monkeypatch, context, tmp_path)
        assert capsys.readouterr().out.endswith(
            f"2 data sets: paretolab experiment {out / 'ensembling.yaml'}\n"
        )
    reduced = ["experiment.repeats=1", "experiment.pages=[]"]
    options = [text for key in reduced for text in ("--set", key)]
    command = ["experiment", str(out / "ensembling.yaml"), "--out", str(out / "run"), "--no-mlflow"]
    assert main([*command, "--quiet", "--workers", "serial", *options]) == 0
    runs = pd.read_csv(out / "run" / "tables" / "runs.csv")
    assert set(runs["case"]) == {"adult", "credit"}
    budgets = runs.groupby("method")["evaluations"].max()
    assert budgets["HAPEns"] == 3 * 4  # of five models, the last one has no time
    assert budgets["GES*"] <= 100 * 4


def test_a_context_without_classification_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="expected data sets for classification, found none"):
        called(monkeypatch, tmp_path, tmp_path)
