"""Texts that look like numbers: no answer depends on what else a file holds."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from algorithms.ensembling.model import WeightedEnsembleClassifier
from framework.cli.main import main
from framework.data.columns import Reading
from framework.data.encoding import Categorical, Encoder
from framework.data.table_files import GAPS, FileOptions, read_frame
from framework.libraries.members import ENCODER_FILE, EXAMPLE_FILE, example_records
from framework.models.mixture import MixtureClassifier
from framework.models.service import _csv_answers
from framework.models.store import example_of, load_model, save_model

ZONES = ["01", "002", "2A", "NA", "1.10"]


def records(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"{i:03}" for i in range(n)], "a": rng.normal(size=n)})
    return frame.assign(zone=rng.choice(ZONES, n))


def ensemble():
    frame = records()
    features = frame[["a", "zone"]]
    y = np.where(frame["zone"].isin(["01", "NA", "1.10"]), "yes", "no")
    encoder = Encoder.fit(features)
    classifier = LogisticRegression().fit(encoder.transform(features), y)
    model = WeightedEnsembleClassifier.from_fitted(
        {"one": classifier}, np.ones(1), classes=["no", "yes"], encoder=encoder
    )
    model.keeps = ("id",)
    return model


@pytest.mark.parametrize("zones", [["01", "002"], ["NA"], ["1.10"], ["2A", "01"]])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_part_of_a_file_is_answered_as_the_whole(tmp_path, zones, mixed):
    frame, model = records(), ensemble()
    if mixed:
        model = MixtureClassifier.from_fitted([model], [1.0])
        model.keeps = ("id",)
    want = model.answers(frame)
    save_model(model, tmp_path / "m")
    part = frame["zone"].isin(zones)
    frame[part].to_csv(tmp_path / "part.csv", index=False)
    answers = str(tmp_path / "answers.csv")
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / "part.csv"), "--out", answers]) == 0
    written = want[part].to_csv(index=False)
    assert (tmp_path / "answers.csv").read_text() == written
    body = (tmp_path / "part.csv").read_bytes()
    assert _csv_answers(load_model(tmp_path / "m"), body).splitlines() == written.splitlines()


def test_the_example_is_read_as_it_was(tmp_path):
    frame = records(5).assign(zone=ZONES)
    save_model(ensemble(), tmp_path / "m", example=frame)
    example, types = example_of(tmp_path / "m")
    pd.testing.assert_frame_equal(example, frame, check_dtype=False)
    assert types == {"id": "string", "label": "string", "confidence": "number"}
    assert 'pd.read_csv("data.csv", dtype=dict.fromkeys(' in (tmp_path / "m/README.md").read_text()


def test_labels_that_are_no_texts_beside_one_that_is_are_of_any_type(tmp_path):
    class Odd(WeightedEnsembleClassifier):
        def predict_table(self, frame):
            labels = pd.Series([1, "inconclusive"] * (len(frame) // 2), dtype=object)
            return super().predict_table(frame).assign(label=labels)

    model = ensemble()
    model.__class__ = Odd
    save_model(model, tmp_path / "m", example=records(4))
    assert example_of(tmp_path / "m")[1]["label"] == "any"


def test_the_example_of_a_library_is_read_as_it_was(tmp_path):
    frame = records(5).assign(zone=ZONES)[["a", "zone"]]
    frame[1:3].to_csv(tmp_path / EXAMPLE_FILE, index=False)
    (tmp_path / ENCODER_FILE).write_text(json.dumps(Encoder.fit(frame).to_json()))
    assert example_records(SimpleNamespace(folder=tmp_path))["zone"] == ["002", "2A"]
    frame[:2].to_csv(tmp_path / EXAMPLE_FILE, index=False)
    assert example_records(SimpleNamespace(folder=tmp_path))["zone"] == ["01", "002"]


def test_a_text_is_the_number_of_a_column_of_numbers_only_if_it_is_no_category():
    numbers = Categorical.fit(pd.Series([1, 2, 10]), "zone")
    texts = Categorical.fit(pd.Series(["1", "01", "x"]), "zone")
    flags = Categorical.fit(pd.Series([True, False]), "zone")
    read = pd.Series(["01", "1.0", "10", "1_0", "3", "1e1"])
    assert numbers.identity(read, "zone").tolist() == [0, 0, 1, -1, -1, 1]
    assert texts.identity(read[:2], "zone").tolist() == [0, 1]
    words = pd.Series(["TRUE", "false", "True", "no"])
    assert flags.identity(words, "zone").tolist() == [1, 0, 1, -1]


def test_marks_of_numbers_are_those_of_the_training_records(tmp_path):
    """1.234 is a thousand and more where numbers were written so."""
    frame = pd.DataFrame({"a": ["1.234.567", "2.000", "7,5"]})
    encoder = Encoder.fit(frame, readings={"a": Reading((".", ","))})
    (tmp_path / "part.csv").write_text("a\n2.000\n")
    part = read_frame(tmp_path / "part.csv", FileOptions(categories=encoder.texts))
    assert encoder.transform(part)[0] == encoder.transform(frame)[1]


def test_gaps_are_what_pandas_takes_for_them(tmp_path):
    rows = [field for field in sorted(GAPS) if field]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{row},1\n" for row in rows))
    assert read_frame(tmp_path / "t.csv")["a"].isna().all()
    read = read_frame(tmp_path / "t.csv", FileOptions(categories={"a": {"NA"}}))
    assert read["a"].dropna().tolist() == ["NA"]
