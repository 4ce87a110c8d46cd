"""A small run with its model, and a small library, made once: what a user may receive."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from tests.cascade.tables import cascades
from tests.experiment import small
from tests.tracking import sweeps

CONFIG = """
name: little
problem:
  kind: multistage
  dataset: {synthetic: {samples: 120, features: 4, informative: 3, redundant: 0}}
  classifier: {kind: decision_tree, max_depth: 2}
  max_stages: 2
objectives: [{metric: coverage, sense: max}, {metric: cost, sense: min}]
algorithm: {kind: random, batch: 8}
budget: {evaluations: 16}
workers: serial
tracking: null
"""


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_drawn() -> Iterator[None]:
    """Draw nothing, in a module, not the session: other tests of the process want pictures."""
    with _nothing_drawn():
        yield


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Draw nothing: pictures take longer than all else here, and are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = ("run_report.write_plots", "run_report.write_chosen", "run_report.write_run_page")
        for name in (*drawn, "comparison_report.write_report"):
            patch.setattr(f"tracking.figures.{name}", lambda *_, **__: [])
        yield


@pytest.fixture(autouse=True)
def nothing_granted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Grant nothing, and remember nothing of what other tests granted."""
    monkeypatch.setenv("PARETOLAB_ALLOW", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("MLFLOW_TRACKING_URI", "PARETOLAB_DATA", "PARETOLAB_TRUST_CLUSTER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a finished run, with the model of a chosen solution."""
    folder = tmp_path_factory.mktemp("received")
    (folder / "little.yaml").write_text(CONFIG)
    for name, seed in (("run", "0"), ("other", "1")):
        place = str(folder / name)
        config = str(folder / "little.yaml")
        assert main(["run", config, "--out", place, "--quiet", "--seed", seed]) == 0
    assert os.listdir(folder / "run" / "model")
    return folder / "run"


@pytest.fixture(scope="session")
def other(finished: Path) -> Path:
    """Return a second run of the same search, with another seed."""
    return finished.with_name("other")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, finished: Path) -> dict[str, Path]:
    """Return a finished directory of each kind that one may receive."""
    from framework.models.store import save_model
    from tests.trust.test_received import little

    folder = tmp_path_factory.mktemp("made")
    sweeps.write(folder, sweeps.raw(trials=2))
    small.write(folder, small.raw(repeats=1), "experiment.yaml")
    with _nothing_drawn(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracking.sweep.run.write_sweep_figures", lambda *_: None)
        for command, config in (("sweep", "little.yaml"), ("experiment", "experiment.yaml")):
            place = str(folder / command)
            assert main([command, str(folder / config), "--out", place, "--quiet"]) == 0
    little().save(folder / "library")
    shutil.copytree(finished / "model", folder / "model")
    shutil.copytree(finished, folder / "certified")
    names = pd.read_csv(finished / "model" / "example.csv").columns
    rng = np.random.default_rng(4)
    fresh = pd.DataFrame(rng.normal(size=(60, len(names))), columns=names)
    fresh.assign(target=np.arange(60) % 2).to_csv(folder / "certified" / "fresh.csv", index=False)
    problem = cascades()
    genome = problem.space.sample(np.random.default_rng(3), 1)[0]
    save_model(problem.policy(genome), folder / "cascade", example=pd.DataFrame(problem.example()))
    kinds = ("sweep", "experiment", "library", "model", "cascade", "certified")
    return {name: folder / name for name in kinds} | {"run": finished}


@pytest.fixture
def received(finished: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a copy of the run that a test may forge."""
    shutil.copytree(finished, tmp_path / "run")
    yield tmp_path / "run"
    shutil.rmtree(tmp_path / "run")
