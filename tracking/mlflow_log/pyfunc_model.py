"""What MLflow runs to load and serve a chosen model; MLflow keeps a copy of this file with it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import mlflow.models
import mlflow.pyfunc
import pandas as pd


class ChosenModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A model directory behind MLflow's ``predict``."""

    def load_context(self, context: Any) -> None:
        """Read the model directory."""
        # by its public name: the same from a clone and from a wheel
        self.model = import_module("paretolab").load_model(context.artifacts["model"])

    # a frame as the only hint: MLflow asks for one and takes others for the records' schema
    def predict(  # type: ignore[no-untyped-def]
        self, context, model_input: pd.DataFrame, params=None
    ):
        """Return the table that `paretolab predict` writes for these records."""
        return self.model.answers(model_input)


mlflow.models.set_model(ChosenModel())
