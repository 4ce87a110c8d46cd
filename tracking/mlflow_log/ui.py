"""Serves MLflow's web pages until Ctrl-C, which open no place for files that a store may not name.

Whoever made the store may have written that the files of a run lie anywhere on this machine. So
``python -m tracking.mlflow_log.ui ui ...`` is ``mlflow ui ...``, whose server makes :func:`app`.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from framework.errors import InputError
from framework.extras import needed
from framework.files import check_database
from framework.machine import child_environment
from framework.security import (
    TRACKING,
    address_of,
    expanded,
    guard_mlflow,
    public_uri,
    without_password,
)
from tracking.mlflow_log import store

_STORE = "MLFLOW_BACKEND_STORE_URI"
_PAGE = "#/experiments?workflowType=machine_learning"  # the default is the page of language models
_UI_START = 180.0  # seconds that MLflow's server may take to answer
_UI_STOP = 10.0  # seconds that it may take to end
_LOOK = 0.2  # seconds between two looks at whether the server runs


def serve(uri: str, host: str, port: int) -> int:
    """Show the runs of a store in MLflow's pages; return the exit code of its server.

    Raises
    ------
    InputError
        The store cannot be used, or the port is taken.
    """
    needed("mlflow")
    environment = _environment(uri)
    _check_port(host, port)
    mlflow = find_spec("mlflow")  # not imported: that starts threads
    library = Path(str(mlflow and mlflow.origin)).parent.parent
    command = [
        sys.executable,
        "-m",
        __name__,
        "ui",
        "--host",
        host,
        "--port",
        str(port),
        "--workers",
        "1",
        "--uvicorn-opts",
        # by default uvicorn would import from the working folder first
        f"--log-level warning --app-dir {shlex.quote(str(library))}",
    ]
    # a session of its own, so that Ctrl-C reaches only this process, which ends the whole session
    server = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        print("starting MLflow ...", flush=True)
        if _answers(server, host, port):
            home = f"http://{host}:{port}/"
            print(f"MLflow UI: {home}{_PAGE} (Ctrl-C ends it)", flush=True)
        elif server.poll() is not None:  # another program may have taken the port meanwhile
            _check_port(host, port)
        while server.poll() is None:  # unlike wait(), this cannot miss a signal to a thread
            time.sleep(_LOOK)
        return 2 if server.returncode else 0
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(server)


def _environment(uri: str) -> dict[str, str]:
    """Return the server's environment, with the store, since its URI may hold a password."""
    if uri.startswith(("http://", "https://")):
        raise InputError(
            "--uri: expected a store such as sqlite:///mlflow.db, found the address of a server; "
            f"open {public_uri(uri)} in a browser"
        )
    try:
        address_of(without_password(uri), TRACKING - {"http", "https"})
        uri = store.absolute_uri(uri, Path.cwd())
    except ValueError as error:
        raise InputError(f"--uri: {error}") from error
    file = store.sqlite_file(uri)
    if file is not None and not file.is_file():
        raise InputError(
            f"--uri: expected the store that runs log to, found no file {file}; start a run first, "
            "go where runs were started, or give --uri sqlite:///PATH"
        )
    if file is not None:
        check_database(file.resolve())
    root = store.artifact_root(uri)
    chosen = {
        _STORE: expanded(uri),
        "PYTHONWARNINGS": "ignore",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # the store may name addresses that MLflow would tell of each model that is registered
        "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "none",
    }
    if root is not None:
        chosen["MLFLOW_DEFAULT_ARTIFACT_ROOT"] = f"file://{quote(root.as_posix())}"
    return child_environment(**chosen)


def _check_port(host: str, port: int) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # getaddrinfo wraps a port above 65535; bind refuses it
            probe.bind((host, port, *address[2:]))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--port: expected a free port at {host}, found that {port} cannot be used ({error}); "
            "give another with --port"
        ) from error


def _answers(server: subprocess.Popen[bytes], host: str, port: int) -> bool:
    """Wait until the server listens; return whether it does."""
    deadline = time.monotonic() + _UI_START
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=1):
                return True
        except OSError:
            time.sleep(0.2)
    return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(_UI_STOP)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def app() -> Any:
    """Return the application that MLflow's server serves, guarded."""
    guard_mlflow(_check, server=os.environ[_STORE])
    from mlflow.server.fastapi_app import app as pages

    return pages


def _check(location: str, server: str) -> None:
    from mlflow.exceptions import MlflowException

    if location == os.environ.get("MLFLOW_ARTIFACTS_DESTINATION"):
        return  # the user named it
    try:
        store.check_artifacts(location, server)
    except InputError as error:  # a page shows MLflow's errors alone
        raise MlflowException.invalid_parameter_value(str(error)) from error


def _main() -> None:
    from mlflow import server
    from mlflow.cli import cli

    # MLflow takes the name of an application only from the entry points of packages
    build = server._build_uvicorn_command
    ours = ["--factory", "tracking.mlflow_log.ui:app"]
    server._build_uvicorn_command = lambda *how, **more: [*build(*how, **more)[:-1], *ours]
    cli()


if __name__ == "__main__":
    _main()
