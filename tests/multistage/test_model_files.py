"""Stages as ONNX files answer as the model does, as far as float32 goes."""

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier

from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.multistage.model import MultiStageClassifier
from framework.errors import InputError

CLOSE = 1e-5  # of probabilities: float32 has seven digits, sums over columns lose some


def fitted(loader, classifier="logistic_regression"):
    X, y = loader(return_X_y=True, as_frame=True)
    X = X[X.columns[:6]]
    search = ParetoMultiStage(
        threshold=0.9, max_stages=3, remove_features=True, budget=60, classifier=classifier
    )
    return X, search.fit(X, y).choose(best="coverage")


@pytest.mark.parametrize("loader", [load_breast_cancer, load_wine], ids=["two", "three"])
@pytest.mark.parametrize(
    "classifier",
    [
        "logistic_regression",
        "gaussian_nb",
        {"kind": "decision_tree", "max_depth": 3},
        {"kind": "random_forest", "n_estimators": 10},
    ],
    ids=["logistic", "bayes", "tree", "forest"],
)
def test_the_stages_answer_as_the_model(loader, classifier, tmp_path):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, model = fitted(loader, classifier)
    files = model.save_onnx(tmp_path / "onnx")
    about = json.loads((tmp_path / "onnx" / "stages.json").read_text())
    assert [stage["file"] for stage in about["stages"]] == [file.name for file in files]
    outcome = model.outcome(X)
    stage, found = np.zeros(len(X), dtype=int), np.zeros(outcome.probabilities.shape)
    for number, (file, said) in enumerate(zip(files, about["stages"], strict=True), start=1):
        columns = model.encoder_.transform_features(X, said["reads"]).astype(np.float32)
        session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
        P = session.run(["probabilities"], {"columns": columns})[0]
        here = (stage == 0) & (P.max(axis=1) >= np.array(about["thresholds"])[P.argmax(axis=1)])
        here |= (stage == 0) & (number == len(files))
        stage[here], found[here] = number, P[here]
    told_apart = np.abs(found.max(axis=1) - 0.9) > CLOSE  # others may leave a stage later
    told_apart |= "forest" in str(classifier)  # tenths: many are at the threshold
    assert told_apart.mean() > 0.9
    assert (stage == outcome.stage)[told_apart].all()
    assert np.abs(found - outcome.probabilities)[told_apart].max() < CLOSE


def test_what_cannot_be_converted_is_said_and_nothing_is_written(tmp_path):
    pytest.importorskip("skl2onnx")
    X, y = load_wine(return_X_y=True)

    class Unknown(RandomForestClassifier):
        pass

    model = MultiStageClassifier(classifier=Unknown(n_estimators=2)).fit(X, y)
    with pytest.raises(InputError, match="found Unknown in stage 1"):
        model.save_onnx(tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_without_skl2onnx_the_extra_is_named(tmp_path, monkeypatch):
    model = MultiStageClassifier().fit(*load_wine(return_X_y=True))
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(InputError, match=r"pip install 'paretolab\[onnx\]'"):
        model.save_onnx(tmp_path / "onnx")
