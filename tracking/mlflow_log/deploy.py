"""The chosen model as an MLflow model: its directory, wrapped so that MLflow can load and serve.

The wrapper is code, not a pickle (MLflow's "models from code"), and the model directory stays in
its open format, so nothing in it runs when it is loaded.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODEL = "model"
_EXAMPLE = "example.csv"
_REQUIREMENTS = ("paretolab", "numpy", "pandas", "scikit-learn")


def log_model(client: Any, run_id: str, directory: Path) -> None:
    """Log a model directory so that ``mlflow.pyfunc.load_model('runs:/RUN_ID/model')`` works.

    Parameters
    ----------
    client : mlflow.MlflowClient
    run_id : str
    directory : path
        As `paretolab choose --export` writes it. With an ``example.csv`` of some records, the
        MLflow model has a signature and an input example.
    """
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / MODEL
        save_model(directory, built)
        client.log_artifacts(run_id, str(built), MODEL)


def save_model(directory: Path, target: Path) -> None:
    """Write the MLflow model of a model directory to ``target``."""
    import mlflow.pyfunc

    example = _example(directory)
    mlflow.pyfunc.save_model(
        path=str(target),
        python_model=str(Path(__file__).with_name("pyfunc_model.py")),
        artifacts={MODEL: str(directory)},
        pip_requirements=[f"{package}=={version(package)}" for package in _REQUIREMENTS],
        input_example=example,
        signature=_signature(directory, example),
    )


def _example(directory: Path) -> Any:
    import pandas as pd

    path = directory / _EXAMPLE
    return pd.read_csv(path) if path.is_file() else None


def _signature(directory: Path, example: Any) -> Any:
    if example is None:
        return None
    from mlflow.models import infer_signature

    from framework.models.store import load_model

    # of the answers alone: a schema of the records would refuse whole numbers, gaps and records
    # without the columns that the model never reads, all of which it takes
    return infer_signature(None, load_model(directory).answers(example))
