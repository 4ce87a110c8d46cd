"""The code that MLflow runs to load and serve a model; each model has a copy of this file."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np
import pandas as pd


class ChosenModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A model directory behind MLflow's ``predict``."""

    def load_context(self, context: Any) -> None:
        """Read the model directory."""
        # paretolab is the name of the package both in a clone and in a wheel
        self.model = import_module("paretolab").load_model(context.artifacts["model"])

    # MLflow needs a type hint of model_input, and would take most others as a schema of records
    def predict(  # type: ignore[no-untyped-def]
        self, context, model_input: pd.DataFrame, params=None
    ):
        """Return the table that `paretolab predict` writes for these records."""
        if isinstance(model_input, dict):  # columns, or the values of one record
            columns = model_input.items()
            model_input = {k: v if np.ndim(v) else [np.asarray(v).item()] for k, v in columns}
        return self.model.answers(pd.DataFrame(model_input))


mlflow.models.set_model(ChosenModel())
