"""Stages of a multi-stage classifier as ONNX files, for programs without Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.cascade import Staged, acquired
from framework.arrays import Array
from framework.errors import InputError
from framework.files import write_whole
from framework.models.linear import LinearProbability

_NEEDED = "expected skl2onnx, found it not installed; pip install 'paretolab[onnx]'"
_ROUNDING = 1e-6  # of probabilities in float32: what reaches a threshold exactly may come out below


def write_onnx(model: Staged, folder: Path) -> list[Path]:
    """Write each stage's classifier; see ``MultiStageClassifier.save_onnx``."""
    graphs = [
        _graph(classifier, model.classes_, number)
        for number, classifier in enumerate(model.classifiers_, start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, graph in enumerate(graphs, start=1):
        files.append(folder / f"stage_{number}.onnx")
        write_whole(files[-1], graph)
    names = model.encoder_.feature_names
    stages = [
        {
            "file": file.name,
            "acquires": [names[i] for i in model.stages_[number - 1]],
            "reads": [names[i] for i in acquired(model, number)],
            "cost_so_far": float(cost),
        }
        for number, (file, cost) in enumerate(
            zip(files, model.cumulative_costs(), strict=True), start=1
        )
    ]
    about = {
        "classes": model.classes_.tolist(),
        "thresholds": (model.thresholds_ - _ROUNDING).tolist(),
        "stages": stages,
        "encoder": model.encoder_.to_json(),
    }
    write_whole(folder / "stages.json", json.dumps(about, indent=1))
    return files


def _graph(classifier: Any, classes: Array, number: int) -> bytes:
    """Return the ONNX graph of one stage: float32 columns in, probabilities out."""
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError as error:
        raise InputError(f"onnx: {_NEEDED}") from error
    known = _as_scikit_learn(classifier, classes)
    width = int(known.n_features_in_)
    try:
        graph = to_onnx(
            known,
            initial_types=[("columns", FloatTensorType([None, width]))],
            options={id(known): {"zipmap": False}},
        )
    except Exception as error:  # whatever a converter raises says that it cannot
        raise InputError(
            f"onnx: expected classifiers that skl2onnx converts, found {type(known).__name__} in "
            f"stage {number}; take another classifier, without calibration"
        ) from error
    return bytes(graph.SerializeToString())


def _as_scikit_learn(classifier: Any, classes: Array) -> Any:
    """Return a logistic regression of scikit-learn for ours; anything else as it is."""
    if not isinstance(classifier, LinearProbability):
        return classifier
    known = LogisticRegression()
    known.classes_ = np.arange(len(classes))
    known.coef_, known.intercept_ = classifier.coef_, classifier.intercept_
    known.n_features_in_ = classifier.n_features_in_
    return known
