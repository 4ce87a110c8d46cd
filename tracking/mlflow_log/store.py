"""MLflow's store, a quiet client of it, and what it has of a run directory so far."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.files import locked, write_whole
from framework.security import expanded, public_uri

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


def location(uri: str, experiment: str) -> str:
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


PARENT = "experiment"


@dataclass
class RunState:
    """One MLflow run.

    Attributes
    ----------
    run_id : str
    status : str
        As MLflow has it: RUNNING, FINISHED, FAILED or KILLED.
    batches : int
        Batches of the journal whose metrics are there.
    artifacts : dict of str to JSON value
        By file, or by what else is sent once (``end``, ``points``, ``results``, ...), what tells
        whether it has changed since: size and time of the file as it was sent, mostly.
    """

    run_id: str
    status: str = "RUNNING"
    batches: int = 0
    artifacts: dict[str, Any] = field(default_factory=dict)


@dataclass
class UploadState:
    """What ``tracking.json`` holds: all MLflow runs of a directory, and what they have.

    Attributes
    ----------
    uri : str
        Absolute tracking URI.
    experiment : str
    started : float
        Seconds since the epoch; metrics are dated from here.
    tags : dict of str to str
        Versions of packages, and the revision of the working tree, at the first start.
    runs : dict of str to RunState
        ``experiment`` is the directory's own; the others are its repeats and trials by number,
        the runs of an experiment as ``CASE/METHOD/NNN``.
    """

    uri: str
    experiment: str
    started: float
    tags: dict[str, str] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: RunDir) -> UploadState | None:
        """Return what was kept; None where there is nothing or nothing readable."""
        try:
            raw = json.loads(run_dir.tracking_file.read_text(encoding="utf-8"))
            runs = {name: RunState(**run) for name, run in raw.pop("runs").items()}
            return cls(**raw, runs=runs)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # runs are found again by their uid

    def save(self, run_dir: RunDir) -> None:
        """Write ``tracking.json``, readable by its owner alone."""
        runs = {name: vars(run) for name, run in self.runs.items()}
        write_whole(run_dir.tracking_file, json.dumps(vars(self) | {"runs": runs}))
        run_dir.tracking_file.chmod(0o600)  # where one logs is nobody's business


@contextmanager
def sole_uploader(run_dir: RunDir, *, wait: bool) -> Iterator[None]:
    """Hold the directory's lock, which ends with the process.

    Parameters
    ----------
    run_dir : RunDir
    wait : bool
        Whether to wait for another process that is uploading this directory.

    Raises
    ------
    InputError
        There is one, and it is not to be waited for.
    """

    def busy() -> None:
        if not wait:
            raise InputError(
                f"{run_dir.path}: expected a run that nobody is logging, found that another "
                "process is; it keeps MLflow up to date by itself"
            )

    with locked(run_dir.path / "tracking.lock", busy):
        yield
