"""What a model costs: the same on a busy machine, and whatever kind of records it takes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from framework.libraries.importing import measured_costs
from framework.libraries.measure import LATENCY_UNITS, UNITS, _least_seconds

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 10))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=[f"f{i}" for i in range(10)])


@pytest.mark.slow
def test_no_model_is_charged_for_the_first_use_of_pandas() -> None:
    """The same model, asked about an array and about frames; the library alone takes megabytes."""
    on_array = measured_costs({"a": LogisticRegression().fit(X, Y)}, X)["memory"].values
    mixed = FRAME.assign(
        word=np.where(X[:, 1] > 0, "red", None), kind=pd.Categorical(X[:, 2] > 0), none=np.nan
    )
    columns = make_column_transformer(
        (StandardScaler(), list(FRAME)), (OneHotEncoder(), ["word", "kind"])
    )
    models = {
        "named": LogisticRegression().fit(FRAME, Y),
        "mixed": make_pipeline(columns, LogisticRegression()).fit(mixed, Y),
    }
    on_frames = measured_costs(models, mixed)["memory"].values
    assert on_frames[0] - on_array[0] < 1.0
    assert on_frames[1] - on_array[0] < 2.0  # it copies columns, and codes words


def test_waiting_is_not_charged() -> None:
    assert _least_seconds(lambda: time.sleep(0.02)) < 0.01


class Sleeper:
    """A classifier that lets 2 ms pass in each call."""

    def __init__(self) -> None:
        self.classes_ = np.array([0, 1])

    def predict_proba(self, records: np.ndarray) -> np.ndarray:
        time.sleep(0.002)
        return np.full((len(records), 2), 0.5)


@pytest.mark.slow
def test_latency_is_what_one_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model that sleeps the clock counts, not the processor; a quick one is beside it."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # of the measuring process
    models = {"sleeper": Sleeper(), "quick": LogisticRegression().fit(X, Y)}
    monkeypatch.setenv("PARETOLAB_TRUST", f"{__name__}.Sleeper")
    costs = measured_costs(models, X, latency=True)
    assert {name: cost.unit for name, cost in costs.items()} == UNITS | LATENCY_UNITS
    found = {name: costs[name].values for name in LATENCY_UNITS}
    assert all((values > 0).all() for values in found.values())
    for size in (1, 1000):
        assert (found[f"latency_{size}_p50"] <= found[f"latency_{size}_p95"]).all()
        assert found[f"latency_{size}_p50"][0] >= 0.002
    assert found["cpu_time_1000"][0] < 0.002


@contextmanager
def neighbours(n: int) -> Iterator[None]:
    """Keep the processors busy with other processes meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_busy_machine_does_not_put_models_in_another_order() -> None:
    models = {
        f"{trees} trees": RandomForestClassifier(trees, max_depth=4, random_state=0).fit(X, Y)
        for trees in (80, 5, 40, 20, 10)
    }
    alone = measured_costs(models, X)["inference_time"].values
    with neighbours(6):
        beside = measured_costs(models, X)["inference_time"].values
    assert np.argsort(beside).tolist() == np.argsort(alone).tolist() == [1, 4, 3, 2, 0]
