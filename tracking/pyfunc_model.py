"""What MLflow runs to load and serve a chosen model; MLflow keeps a copy of this file with it."""

from __future__ import annotations

from typing import Any

import mlflow.models
import mlflow.pyfunc


class ChosenModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A model directory behind MLflow's ``predict``."""

    def load_context(self, context: Any) -> None:
        """Read the model directory."""
        from framework.models.store import load_model

        self.model = load_model(context.artifacts["model"])

    # without type hints: MLflow would take them for the schema of the records
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Return the table that `paretolab predict` writes for these records."""
        from framework.models.multistage import predict_table

        return predict_table(self.model, model_input)


mlflow.models.set_model(ChosenModel())
