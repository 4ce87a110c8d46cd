"""MLflow's store: where it is, a quiet client for it, and the experiment in it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from framework.errors import InputError
from framework.uris import expanded, public_uri

_SQLITE = "sqlite:///"

# A slow store is waited for, by a process of its own; one that does not answer is asked later.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def absolute_uri(uri: str, base: Path) -> str:
    """Return the tracking URI with a relative SQLite path resolved against ``base``."""
    uri = expanded(uri) if uri.startswith(_SQLITE) else uri  # a file's name has no password
    file = sqlite_file(uri)
    return uri if file is None else f"{_SQLITE}{(base.absolute() / file).as_posix()}"


def sqlite_file(uri: str) -> Path | None:
    """Return the file of a SQLite URI; None for any other store."""
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


def artifact_root(uri: str) -> Path | None:
    """Return where artifacts of a SQLite store lie: beside it. Other stores know themselves."""
    file = sqlite_file(uri)
    return None if file is None else file.parent / "mlruns"


def connect(uri: str) -> Any:
    """Return a client of the store, with MLflow's chatter switched off in this process.

    A new SQLite store is made here, so the first call takes some seconds.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    file = sqlite_file(uri)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    address = expanded(uri)
    return MlflowClient(tracking_uri=address, registry_uri=address)


def place(uri: str, experiment: str) -> str:
    """Return where runs are found, for messages."""
    return f"{public_uri(uri)}, experiment {experiment!r}"


def experiment_id(client: Any, uri: str, name: str) -> str:
    """Return the experiment's id; make the experiment where there is none.

    Raises
    ------
    InputError
        The experiment was deleted.
    """
    found = client.get_experiment_by_name(name)
    if found is None:
        return _create(client, uri, name)
    if found.lifecycle_stage == "deleted":
        raise InputError(
            f"tracking.experiment: expected one that exists, found that {name!r} was deleted in "
            "MLflow; restore it there or name another"
        )
    return str(found.experiment_id)


def _create(client: Any, uri: str, name: str) -> str:
    from mlflow.exceptions import MlflowException

    root = artifact_root(uri)
    location = None if root is None else (root / quote(name, safe="")).as_uri()
    try:
        return str(client.create_experiment(name, artifact_location=location))
    except MlflowException:
        found = client.get_experiment_by_name(name)  # another run may have been faster
        if found is None:
            raise
        return str(found.experiment_id)
