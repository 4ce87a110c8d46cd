"""MLflow's pages, which open no place for files that the store may not name.

Whoever made the store may have written that the files of a run lie anywhere on this machine. So
``python -m tracking.mlflow_log.pages ui ...`` is ``mlflow ui ...``, whose server makes :func:`app`.
"""

from __future__ import annotations

import os
from typing import Any

from framework.errors import InputError
from framework.security import guard_mlflow
from tracking.mlflow_log.store import check_artifacts

STORE = "MLFLOW_BACKEND_STORE_URI"


def app() -> Any:
    """Return the application that MLflow's server serves, guarded."""
    guard_mlflow(_check, server=os.environ[STORE])
    from mlflow.server.fastapi_app import app as pages

    return pages


def _check(location: str, store: str) -> None:
    from mlflow.exceptions import MlflowException

    if location == os.environ.get("MLFLOW_ARTIFACTS_DESTINATION"):
        return  # the user named it
    try:
        check_artifacts(location, store)
    except InputError as error:  # a page shows MLflow's errors alone
        raise MlflowException.invalid_parameter_value(str(error)) from error


def _main() -> None:
    from mlflow import server
    from mlflow.cli import cli

    # MLflow takes the name of an application only from the entry points of packages
    build = server._build_uvicorn_command
    ours = ["--factory", "tracking.mlflow_log.pages:app"]
    server._build_uvicorn_command = lambda *how, **more: [*build(*how, **more)[:-1], *ours]
    cli()


if __name__ == "__main__":
    _main()
