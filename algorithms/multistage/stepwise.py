"""A record met step by step: what is known of it gives an answer, or says what to acquire next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from algorithms.multistage.cascade import Staged, acquired
from framework.arrays import FloatArray
from framework.errors import InputError
from framework.models.confidence import decide
from framework.registry import nearest


def next_step(model: Staged, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a record, or which features to acquire next and what they cost.

    Parameters
    ----------
    model : Staged
    record : mapping of feature name to value
        What is known. A feature that is not in it can still be acquired; one whose value is None
        cannot: the policy ``missing`` of the model decides (``ask`` asks for it again).

    Returns
    -------
    dict of JSON values
        ``status`` is ``answer``, ``inconclusive`` (no stage is sure, or a value cannot be had) or
        ``acquire``. Then ``label`` and ``confidence``, of the last stage that was complete (None
        where none was); ``stage``, from 1, where the record is; ``cost``, of what is known and
        belongs to the model; ``next``, the features to acquire with the cost of each, and
        ``next_cost``, of all of them, shared costs once; ``missing``, features without a value.

    Raises
    ------
    InputError
        A name is no feature of the model, or a value cannot be used.
    """
    names = model.encoder_.feature_names
    for name in record:
        if name not in names:
            raise InputError(f"record: expected features, found {name!r}{nearest(name, names)}")
    frame = pd.DataFrame({name: [record.get(name)] for name in names})
    known = [i for i, name in enumerate(names) if record.get(name) is not None]
    step: dict[str, Any] = {"label": None, "confidence": None, "missing": []}
    cost = _cost(model, known)
    for number, features in enumerate(model.stages_, start=1):
        gaps = model.encoder_.missing(frame, features)[0]
        unknown = [int(i) for i in features[gaps]]
        lacking = [i for i in unknown if names[i] not in record or model.missing == "ask"]
        step |= {"stage": number, "cost": cost}
        if lacking:
            more = _cost(model, [*known, *lacking]) - cost
            prices = {names[i]: float(model.costs_[i]) for i in lacking}
            return {"status": "acquire", **step, "next": prices, "next_cost": more}
        step["missing"] = [*step["missing"], *(names[i] for i in unknown)]
        if unknown and model.missing == "inconclusive":
            break
        probabilities = _probabilities(model, frame, number)
        best, sure = decide(probabilities, model.thresholds_)
        label = model.classes_[best[0]]
        step |= {"label": label.item(), "confidence": float(probabilities.max())}
        if sure[0]:
            return {"status": "answer", **step}
    return {"status": "inconclusive", **step}


def _probabilities(model: Staged, frame: pd.DataFrame, number: int) -> FloatArray:
    """Return the probabilities (1, K) of a stage; its classifier takes features in their order."""
    encoded = model.encoder_.transform_features(frame, acquired(model, number))
    found: FloatArray = model.classifiers_[number - 1].predict_proba(encoded)
    return found


def _cost(model: Staged, features: Sequence[int]) -> float:
    """Return what features cost that the model may ask for, shared costs once."""
    asked = set(np.concatenate(model.stages_).tolist())
    wanted = [i for i in features if i in asked]
    cost = sum(float(model.costs_[i]) for i in wanted)
    if model.cost_groups is not None:
        (begun,) = model.cost_groups.begun_at([wanted])
        cost += float(model.cost_groups.costs[begun].sum())
    return cost
