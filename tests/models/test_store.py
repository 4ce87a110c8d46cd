"""Saved models: exact round trips in open formats; nothing unsafe or damaged is loaded."""

import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from algorithms.multistage.model import MultiStageClassifier
from framework import registry
from framework.errors import InputError
from framework.models import store
from framework.models.classifiers import LinearProbability
from framework.models.model import DeployableModel
from framework.models.store import example_of, load_model, save_model
from framework.testing import MODEL_LAWS
from tests.trust.forging import describe_anew, seal


def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(90, 3)), columns=["a|b", "c", "d"])
    frame["text"] = rng.choice(["x", "y"], 90)
    return frame, np.where(frame["c"] + rng.normal(size=90) > 0, "yes", "no")


def model_of(classifier=None):
    frame, y = data()
    stages, costs = [["c"], ["a|b", "text"]], [1, 2.5, 3, 0.1]
    return MultiStageClassifier(stages, costs, {"no": 0.8}, classifier, "inconclusive").fit(
        frame, y
    )


def linear_model():
    model = model_of()
    model.classifiers_ = [
        LinearProbability(c.classes_, c.coef_, c.intercept_) for c in model.classifiers_
    ]
    return model


def assert_same(first, second):
    frame, _ = data()
    pd.testing.assert_frame_equal(first.predict_table(frame), second.predict_table(frame))
    assert np.array_equal(first.predict_proba(frame), second.predict_proba(frame))
    assert np.array_equal(first.predict(frame), second.predict(frame))


@pytest.mark.parametrize(
    "classifier",
    [
        None,
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
        KNeighborsClassifier(),
    ],
)
def test_round_trip(tmp_path, classifier):
    model = model_of(classifier)
    save_model(model, tmp_path / "m", {"accuracy": 0.9})
    assert_same(load_model(tmp_path / "m"), model)
    assert (tmp_path / "m" / "stage_2.skops").is_file()


def test_a_model_that_refuses_its_example_is_saved_all_the_same(tmp_path):
    frame, _ = data()
    types = {"label": "string", "confidence": "number", "stage": "integer", "cost": "number"}
    examples = (frame.head(3), {**types, "missing": "string"}), (frame.drop(columns="c"), {})
    for example, expected in examples:
        save_model(linear_model(), tmp_path / "m", example=example)
        assert_same(load_model(tmp_path / "m"), linear_model())
        assert example_of(tmp_path / "m")[1] == expected


def test_round_trip_of_linear_classifiers_is_plain_numbers(tmp_path):
    save_model(linear_model(), tmp_path / "deep" / "m")
    assert_same(load_model(tmp_path / "deep" / "m"), linear_model())
    names = sorted(path.name for path in (tmp_path / "deep" / "m").iterdir())
    assert names == ["README.md", "SHA256SUMS", "model.json", "stage_1.npy", "stage_2.npy"]


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [1.0, 2.0]])
def test_labels_keep_their_type(tmp_path, labels):
    frame, y = data()
    model = MultiStageClassifier().fit(frame, np.where(y == "yes", *labels))
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").predict(frame).dtype == model.predict(frame).dtype


def test_readme_and_json_say_what_it_is(tmp_path):
    save_model(linear_model(), tmp_path / "m", {"run": "emsco-heart", "coverage": 0.9})
    text = (tmp_path / "m" / "README.md").read_text()
    assert "| 1 | c (2.5) | 2.5 | 2.5 |" in text
    assert "| 2 | a\\|b (1), text (0.1) | 1.1 | 3.6 |" in text
    assert "| no | 0.8 |" in text
    assert "labelled `inconclusive`" in text
    assert "paretolab predict DIR data.csv" in text
    assert "| run | emsco-heart |" in text
    plain = json.loads((tmp_path / "m" / "model.json").read_text())
    assert plain["about"] == {"run": "emsco-heart", "coverage": 0.9}
    assert "scikit-learn" in plain["versions"]


def test_a_model_is_replaced_whole_and_nothing_else_is_touched(tmp_path):
    save_model(model_of(), tmp_path / "m")
    save_model(linear_model(), tmp_path / "m")
    assert_same(load_model(tmp_path / "m"), linear_model())
    assert not (tmp_path / "m" / "stage_1.skops").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("")
    for name, found in (("mine", "a directory with other files"), ("file", "a file")):
        with pytest.raises(InputError, match=f"found {found}; move that away"):
            save_model(model_of(), tmp_path / name)
    with pytest.raises(InputError, match="expected a place to write a model"):
        save_model(model_of(), tmp_path / "file" / "m")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "m", "mine"]


def test_a_failed_save_leaves_the_old_model(tmp_path, monkeypatch):
    save_model(linear_model(), tmp_path / "m")
    with pytest.raises(InputError, match=r"model.json: expected JSON values"):
        save_model(model_of(), tmp_path / "m", {"x": {1, 2}})
    monkeypatch.setattr(store, "card_text", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_model(model_of(), tmp_path / "m")
    assert_same(load_model(tmp_path / "m"), linear_model())
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


class Foreign(DummyClassifier):
    pass


def test_foreign_types_are_refused_when_saving_and_loading(tmp_path):
    with pytest.raises(InputError, match=r"found .*Foreign; such a model is neither"):
        save_model(model_of(Foreign()), tmp_path / "m")
    assert not (tmp_path / "m").exists()
    save_model(model_of(), tmp_path / "m")
    for bad, found in (
        (FunctionTransformer(np.testing.assert_equal), "the function .*assert_equal"),
        (StandardScaler(), "with predict_proba, found StandardScaler"),
    ):
        skops.io.dump(bad, tmp_path / "m" / "stage_1.skops")
        seal(tmp_path / "m")
        with pytest.raises(InputError, match=found):
            load_model(tmp_path / "m")


def test_pickles_are_never_loaded(tmp_path):
    save_model(linear_model(), tmp_path / "m")
    of_objects = io.BytesIO()
    np.save(of_objects, np.array([{}], dtype=object), allow_pickle=True)
    for content in (pickle.dumps(np.ones((1, 2))), of_objects.getvalue()):
        (tmp_path / "m" / "stage_1.npy").write_bytes(content)
        seal(tmp_path / "m")
        with pytest.raises(InputError, match="expected an array, found it damaged"):
            load_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"top": {"format": 1}}, "expected a model of format 2, found format 1; export it again"),
        ({"top": {"kind": "../../x"}}, "expected a kind of model that is installed ("),
        ({"top": {"kind": ["x"]}}, "expected a kind of model that is installed ("),
        ({"top": {"model": None}}, "found it damaged"),
        ({"classes": None}, "classes: expected a list of labels of one kind"),
        ({"classes": ["r" * 4097, "d"]}, "of one kind, of at most 4,096 characters, found others"),
        ({"reject_label": "r" * 4097}, "reject_label: expected a label or null, found 'rrr"),
        ({"stages": [[0], [9]]}, "expected a position from 0 to 3, found 9"),
        ({"stages": [[1]]}, "classifiers: expected 1, one per stage, found 2"),
        ({"stages": [[1, 3], [0]]}, "classifier of stage 1: expected 3 columns, found 1"),
        ({"encoder": {}}, "encoder: expected what to_json wrote"),
        ({"classifiers": ["../x.npy", "stage_2.npy"]}, "expected a file name within the model's"),
        ({"classifiers": ["gone.npy", "stage_2.npy"]}, "expected one of the model's files"),
        ({"classifiers": ["stage_1.npy"] * 2}, "stage_1.npy: expected each file of the model once"),
        ({"thresholds": [2, 0.5]}, "threshold: expected probabilities from 0 to 1"),
        ({"costs": "high"}, "found it damaged"),
    ],
)
def test_damaged_descriptions(tmp_path, changes, sentence):
    save_model(linear_model(), tmp_path / "m")
    describe_anew(tmp_path / "m", **changes)
    with pytest.raises(InputError) as caught:
        load_model(tmp_path / "m")
    assert sentence in str(caught.value)


def test_damaged_files(tmp_path):
    with pytest.raises(InputError, match="expected a model's description, found: no such file"):
        load_model(tmp_path / "nothing")
    save_model(model_of(), tmp_path / "m")
    (tmp_path / "m" / "stage_2.skops").write_bytes(b"PK")
    seal(tmp_path / "m")
    with pytest.raises(InputError, match=r"stage_2.skops: expected a model, found it damaged"):
        load_model(tmp_path / "m")
    (tmp_path / "m" / "model.json").write_text("{")
    with pytest.raises(InputError, match="in JSON, found"):
        load_model(tmp_path / "m")


def test_files_without_a_digest_are_not_read(tmp_path):
    save_model(linear_model(), tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("mine")
    assert_same(load_model(tmp_path / "m"), linear_model())
    sums = tmp_path / "m" / "SHA256SUMS"
    sums.write_text("".join(line for line in sums.open() if "stage_1" not in line))
    with pytest.raises(InputError, match=r"stage_1.npy: expected one of the model's files"):
        load_model(tmp_path / "m")
    sums.write_text("no digest\n")
    with pytest.raises(InputError, match="line 1: expected a digest and a name"):
        load_model(tmp_path / "m")
    sums.unlink()
    with pytest.raises(InputError, match="expected the digests of the model's files"):
        load_model(tmp_path / "m")


def test_what_is_no_deployable_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected a deployable model .*found Ridge"):
        save_model(Ridge(), tmp_path / "m")


@pytest.mark.parametrize("kind", registry.names("models"))
def test_kinds_are_registered_under_their_own_name(kind):
    found = registry.load("models", kind)
    assert issubclass(found, DeployableModel)
    assert found.kind == kind


@pytest.mark.parametrize("law", MODEL_LAWS, ids=lambda law: law.__name__)
def test_laws_of_models(law, tmp_path):
    frame, _ = data()
    law(linear_model(), frame, tmp_path)
