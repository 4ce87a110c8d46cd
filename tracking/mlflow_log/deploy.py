"""The chosen model as an MLflow model: its directory, wrapped so that MLflow can load and serve it.

The wrapper is a file of code (``pyfunc_model.py``, one of MLflow's "models from code"), which
MLflow runs when it loads the model: load only models from people whom you trust. The model
directory within it, ``artifacts/model``, has its open format, and loading that runs no code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from framework.experiment.export import exported_solution
from framework.experiment.run_dir import slug
from framework.machine import environment_restored
from framework.models.files import DIGESTS_FILE
from framework.models.store import example_of
from framework.security import CONFIG_BYTES, digest_of

MODEL = "model"
_TYPES = {"boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
_REQUIREMENTS = ("paretolab", "numpy", "pandas", "scikit-learn")


def log_model(client: Any, run_id: str, directory: Path, part: bool = False) -> str:
    """Log a model directory as a model of a run, once; return the id that ``models:/ID`` loads.

    The model is called ``solution-ID``; if the run is a ``part``, the run's name precedes that.

    Parameters
    ----------
    client : mlflow.MlflowClient
    run_id : str
    directory : path
        A directory that `paretolab choose --export` has written. If it has an example, and the
        types of the answers to it, the MLflow model has an input example and a signature.
    """
    from mlflow.entities import LoggedModelOutput

    info, solution = client.get_run(run_id).info, exported_solution(directory)
    name = MODEL if solution is None else f"solution-{solution}"
    name = f"{slug(info.run_name)}-{name}" if part else name
    digest = digest_of(directory / DIGESTS_FILE, CONFIG_BYTES)
    wanted = f"source_run_id = '{run_id}' AND tags.`paretolab.digest` = '{digest}'"
    for there in client.search_logged_models([info.experiment_id], wanted):
        if there.status == "READY":  # it was logged, but tracking.json was lost
            return str(there.model_id)
    tags = {"paretolab.digest": digest}
    made = client.create_logged_model(info.experiment_id, name, run_id, tags)
    model_id = str(made.model_id)
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / MODEL
        save_model(directory, built, model_id=model_id, run_id=run_id)
        client.log_model_artifacts(model_id, str(built))
    client.finalize_logged_model(model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])
    return model_id


def register(client: Any, name: str, model_id: str) -> str:
    """Make a logged model the next version of a registered model; return the version."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    source, run_id = f"models:/{model_id}", client.get_logged_model(model_id).source_run_id
    with _for_all_clients(client.tracking_uri):
        made = client.create_model_version(name, source, run_id, model_id=model_id)
    return str(made.version)


@contextmanager
def _for_all_clients(uri: str) -> Iterator[None]:
    """Use a store within the block where MLflow makes a client of its own.

    A store in a database looks the model up with such a client, which would read ``mlflow.db`` of
    the working folder, and make it if there is none.
    """
    import mlflow

    before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
    with environment_restored(["MLFLOW_TRACKING_URI"]):
        mlflow.set_tracking_uri(uri)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)


def save_model(directory: Path, target: Path, **ids: str) -> None:
    """Write the MLflow model of a model directory to ``target``.

    ``ids`` are MLflow's ``model_id`` and ``run_id``, if the model is logged.
    """
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema
    from mlflow.types.schema import AnyType

    example, types = example_of(directory)
    # only the answers have a schema: one of the records would refuse whole numbers, missing values
    # and missing columns that the model does not read, although the model accepts these
    columns = [ColSpec(_TYPES.get(t) or AnyType(), name) for name, t in types.items()]
    mlflow.pyfunc.save_model(
        path=str(target),
        mlflow_model=Model(**ids),
        python_model=str(Path(__file__).with_name("pyfunc_model.py")),
        artifacts={MODEL: str(directory)},
        pip_requirements=[f"{package}=={version(package)}" for package in _REQUIREMENTS],
        input_example=example,
        # without one, MLflow would infer a signature of the records from the example
        signature=None if example is None else ModelSignature(None, Schema(columns)),
    )
