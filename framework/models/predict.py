"""Answers of a saved model, of whatever kind, for the records of a table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from framework.models import multistage, voting


def predict_table(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return what the model says of each record (n, any), a row each, indexed as ``frame``.

    See :func:`framework.models.multistage.predict_table` and
    :func:`framework.models.voting.predict_table` for the columns and for what is refused.
    """
    if isinstance(model, multistage.MultiStageClassifier):
        return multistage.predict_table(model, frame)
    return voting.predict_table(model, frame)
