from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """One SQLite store for all tests: making one takes seconds."""
    from tracking.mlflow_log.store import connect

    uri = f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
    client = connect(uri)
    client.search_experiments()
    return SimpleNamespace(uri=uri, client=client)


@pytest.fixture
def plain(monkeypatch):
    """Draw nothing of a sweep: that takes longer than the sweep."""
    monkeypatch.setattr("tracking.sweep.run.write_sweep_figures", lambda *_: None)
