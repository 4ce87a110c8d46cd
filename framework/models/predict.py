"""Answers of a saved model, of whatever kind, for the records of a table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from algorithms.ensembling import model as voting
from algorithms.multistage import model as multistage


def predict_table(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return what the model says of each record (n, any), a row each, indexed as ``frame``.

    See :func:`algorithms.multistage.model.predict_table` and
    :func:`algorithms.ensembling.model.predict_table` for the columns and for what is refused.
    """
    if isinstance(model, multistage.MultiStageClassifier):
        return multistage.predict_table(model, frame)
    return voting.predict_table(model, frame)
