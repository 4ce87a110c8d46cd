"""MLflow's store, a quiet client of it, and the record of what was uploaded of a run directory."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from framework.errors import InputError
from framework.experiment.run_dir import RunDir, slug
from framework.extras import needed
from framework.files import check_database, locked, write_whole
from framework.security import (
    address_of,
    expanded,
    guard_mlflow,
    is_allowed,
    is_at_home,
    parse_json,
    public_uri,
    read_text,
    sqlite_uri,
)

_SQLITE = "sqlite:///"

# A separate process waits for a slow store, and tries again later if the store does not answer.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # a server's answer must not send the client to another host
    "MLFLOW_ALLOW_HTTP_REDIRECTS": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    # else each model gets uv.lock of the working folder, or what a link of that name leads to
    "MLFLOW_UV_AUTO_DETECT": "false",
}
# By scheme, the hosts that a server may name: the user's keys of that object store are sent there.
_AZURE = r"core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
_OBJECT_STORES = {
    "s3": r"[\w.-]+",
    "gs": r"[\w.-]+",
    "r2": r"[\w.-]+@[\w-]+\.(eu\.|fedramp\.)?r2\.cloudflarestorage\.com",
    "b2": r"[\w.-]+@s3\.[\w-]+\.backblazeb2\.com",
    "wasbs": rf"[\w$-]+@\w+\.blob\.{_AZURE}",
    "abfss": rf"[\w$-]+@[\w-]+\.dfs\.({_AZURE}|fabric\.microsoft\.com)",
}


def absolute_uri(uri: str, base: Path) -> str:
    """Return the tracking URI with a relative SQLite path resolved against ``base``."""
    file = sqlite_file(uri)
    return uri if file is None else sqlite_uri(base.absolute() / file)


def sqlite_file(uri: str) -> Path | None:
    """Return the file of a SQLite URI; None for any other store."""
    return Path(unquote(uri.removeprefix(_SQLITE))) if uri.startswith(_SQLITE) else None


def artifact_root(uri: str) -> Path | None:
    """Return the folder for artifacts beside a SQLite store; None for other stores."""
    file = sqlite_file(uri)
    return None if file is None else file.parent / "mlruns"


def connect(uri: str) -> Any:
    """Return a client of the store; MLflow's messages are switched off in this process.

    A new SQLite store is made here, so the first call takes some seconds.

    Raises
    ------
    InputError
        MLflow cannot handle the path of a SQLite store.
    """
    file = sqlite_file(uri)
    if file is not None and ({"'", '"'} <= set(str(file)) or not str(file).isprintable()):
        raise InputError(
            f"tracking.uri: expected a path of characters that print, and of one kind of "
            f"quotation marks, as MLflow breaks at others, found {str(file)!r}; move it elsewhere"
        )
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    needed("mlflow")
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        check_database(file.resolve())
    address = expanded(uri)
    guard_mlflow(check_artifacts)
    return MlflowClient(tracking_uri=address, registry_uri=address)


def check_artifacts(location: str, tracking_uri: str) -> None:
    """Refuse a store of files that a tracking server may not name.

    The server, which may not be trustworthy, names the store for the files of a run. It may name
    itself or an object store. Only a tracking store on this machine's disk may name a folder on the
    disk, within its own folder.

    Raises
    ------
    InputError
    """
    parts = urlsplit(location)
    server = urlsplit(tracking_uri)
    try:
        file = address_of(tracking_uri).file  # of a store that is on this machine's disk
    except ValueError:
        file = ""
    hosts = _OBJECT_STORES.get(parts.scheme)
    if parts.scheme == "mlflow-artifacts":
        if parts.netloc in ("", server.netloc.rpartition("@")[2]):
            return
    elif hosts is not None:
        if re.fullmatch(hosts, parts.netloc, re.ASCII):
            return
    elif parts.scheme == "dbfs" and tracking_uri.startswith("databricks"):
        return
    elif parts.scheme in ("", "file") and not parts.netloc and file:
        # MLflow decodes percent signs once
        folder = Path(unquote(parts.path) if parts.scheme else location).resolve()
        home = Path(file).resolve().parent
        if is_at_home(folder, home) or is_allowed("write", str(folder)):
            return
    elif parts.scheme in ("runs", "models"):  # MLflow resolves these, and this check is made again
        return
    raise InputError(
        f"{public_uri(tracking_uri)}: expected a place for files that is the server's own "
        f"(mlflow-artifacts:) or an object store ({', '.join(_OBJECT_STORES)}), found "
        f"{public_uri(location)!r}; nothing was sent there"
    )


def location(uri: str, experiment: str) -> str:
    """Return the store and the experiment, for messages."""
    return f"{public_uri(uri)}, experiment {experiment!r}"


def experiment_id(client: Any, uri: str, name: str) -> str:
    """Return the experiment's id; make the experiment if there is none.

    Raises
    ------
    InputError
        The experiment was deleted.
    """
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return _create(client, uri, name)
    if experiment.lifecycle_stage == "deleted":
        raise InputError(
            f"tracking.experiment: expected one that exists, found that {name!r} was deleted in "
            "MLflow; restore it there or name another"
        )
    return str(experiment.experiment_id)


def _create(client: Any, uri: str, name: str) -> str:
    from mlflow.exceptions import MlflowException

    root, folder = artifact_root(uri), slug(name)
    if folder != name:  # MLflow decodes a location twice, so a folder's name must not need it
        folder = f"{folder}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")
    location = None if root is None else (root / folder).as_uri()
    try:
        return str(client.create_experiment(name, artifact_location=location))
    except MlflowException:
        experiment = client.get_experiment_by_name(name)  # another run may have been faster
        if experiment is None:
            raise
        return str(experiment.experiment_id)


PARENT = "experiment"
_MOST = 10**8  # bytes of tracking.json


@dataclass
class RunState:
    """What was uploaded to one MLflow run.

    Attributes
    ----------
    run_id : str
    status : str
        Status in MLflow: RUNNING, FINISHED, FAILED or KILLED.
    batches : int
        Number of batches of the journal whose metrics were uploaded.
    artifacts : dict of str to JSON value
        By file, or by other things that are sent once (``end``, ``points``, ``results``, ...): a
        value that differs if the thing has changed since, mostly the file's size and time.
    """

    run_id: str
    status: str = "RUNNING"
    batches: int = 0
    artifacts: dict[str, Any] = field(default_factory=dict)


@dataclass
class UploadState:
    """The content of ``tracking.json``: all MLflow runs of a directory.

    Attributes
    ----------
    uri : str
        Absolute tracking URI.
    experiment : str
    started : float
        Seconds since the epoch, from which the times of metrics are counted.
    tags : dict of str to str
        Versions of packages, and the revision of the working tree, at the first start.
    runs : dict of str to RunState
        ``experiment`` is the run of the directory itself; the others are its repeats and trials by
        number, and the runs of an experiment as ``CASE/METHOD/NNN``.
    """

    uri: str
    experiment: str
    started: float
    tags: dict[str, str] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: RunDir) -> UploadState | None:
        """Return the content of ``tracking.json``; None if it is missing or damaged."""
        try:
            raw = parse_json(read_text(run_dir.tracking_file, _MOST))
            runs = {name: RunState(**run) for name, run in raw.pop("runs").items()}
            return cls(**raw, runs=runs)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # runs are found again by their uid

    def save(self, run_dir: RunDir) -> None:
        """Write ``tracking.json``, readable only by its owner."""
        runs = {name: vars(run) for name, run in self.runs.items()}
        write_whole(run_dir.tracking_file, json.dumps(vars(self) | {"runs": runs}))
        run_dir.tracking_file.chmod(0o600)


@contextmanager
def sole_uploader(run_dir: RunDir, *, wait: bool) -> Iterator[None]:
    """Hold the directory's lock within the block; the lock ends with the process at the latest.

    Parameters
    ----------
    run_dir : RunDir
    wait : bool
        Whether to wait for another process that is uploading this directory.

    Raises
    ------
    InputError
        There is another process, and ``wait`` is False.
    """

    def busy() -> None:
        if not wait:
            raise InputError(
                f"{run_dir.path}: expected a run that nobody is logging, found that another "
                "process is; it keeps MLflow up to date by itself"
            )

    with locked(run_dir.path / "tracking.lock", busy):
        yield
