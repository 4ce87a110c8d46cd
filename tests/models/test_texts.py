"""Texts that look like numbers: no answer depends on what else a file holds."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from algorithms.ensembling.model import WeightedEnsembleClassifier
from algorithms.hull.model import SparseNetworkClassifier
from framework.cli.main import main
from framework.data.columns import Reading
from framework.data.encoding import Categorical, Encoder
from framework.data.table_files import GAPS, FileOptions, read_frame
from framework.errors import InputError
from framework.libraries.members import ENCODER_FILE, EXAMPLE_FILE, example_records
from framework.models.mixture import MixtureClassifier
from framework.models.service import _csv_answers, _json_answers
from framework.models.store import example_of, load_model, save_model
from framework.models.threshold import ThresholdClassifier
from paretolab import ParetoMultiStage

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


def padded_records(n=200):
    rng = np.random.default_rng(0)
    job = rng.choice([" nurse", "cook ", "pilot"], n)
    return pd.DataFrame({" job ": job, "age": rng.normal(size=n), " h": rng.normal(size=n)})


def bare(frame):
    texts = frame.select_dtypes(exclude="number").columns
    return frame.assign(**{c: frame[c].str.strip() for c in texts}).rename(columns=str.strip)


def test_blanks_around_names_and_categories_change_no_answer(tmp_path, capsys):
    frame = padded_records()
    y = np.where(frame[" job "] == " nurse", "yes", "no")
    settings = {"costs": {" job ": 3, "age": 1, " h": 1}, "threshold": 0.5, "best": "accuracy"}
    search = ParetoMultiStage(budget=30, max_stages=2, verbose=False, **settings).fit(frame, y)
    assert search.feature_names_in_.tolist() == frame.columns.tolist()
    search.save(tmp_path / "m", example=frame[:5])
    loaded, want = load_model(tmp_path / "m"), search.model_.predict_table(frame)
    assert (want["label"] == y).all()
    frame.to_csv(tmp_path / "new.csv", index=False)
    bare(frame).to_parquet(tmp_path / "new.parquet")
    for same in (frame, bare(frame), pd.read_csv(tmp_path / "new.csv")):
        for model in (search.model_, loaded):
            pd.testing.assert_frame_equal(model.predict_table(same), want)
            assert (model.predict(same) == y).all()
        assert (search.predict(same) == y).all()
    for name in ("new.csv", "new.parquet"):
        capsys.readouterr()
        assert main(["predict", str(tmp_path / "m"), str(tmp_path / name)]) == 0
        assert capsys.readouterr().out == want.to_csv(index=False)
    example, _ = example_of(tmp_path / "m")
    record = json.dumps(example.to_dict(orient="records")[0]).encode()
    assert json.loads(_json_answers(loaded, b"[%s]" % record))["answers"][0]["label"] == y[0]
    assert loaded.next_features(json.loads(record))["label"] == y[0]


def test_blanks_around_names_matter_to_no_kind_of_model():
    frame = padded_records().drop(columns=" job ")
    y = (frame["age"] > 0).to_numpy()
    plain, encoder = LogisticRegression().fit(frame, y), Encoder.fit(frame)
    models = [
        ThresholdClassifier.from_fitted(plain, 0.5, True),
        WeightedEnsembleClassifier.from_fitted({"one": plain}, [1.0], classes=[False, True]),
        SparseNetworkClassifier.from_fitted(
            encoder=encoder,
            sizes=[2, 2],
            weights=np.array([1, -1, 1, -1.0]),
            biases=np.zeros(2),
            mask=np.ones(4, dtype=int),
            classes=[False, True],
        ),
    ]
    for model in [*models, MixtureClassifier.from_fitted(models[2:], [1.0])]:
        pd.testing.assert_frame_equal(model.predict_table(bare(frame)), model.predict_table(frame))
        assert (model.predict(bare(frame)) == model.predict(frame)).all()


def test_names_of_a_frame_that_only_blanks_tell_apart():
    frame = padded_records()
    with pytest.raises(InputError, match="distinct column names, found 'job' more than once"):
        ParetoMultiStage(budget=10, verbose=False).fit(frame.assign(job=1), frame["age"] > 0)


def test_a_stray_text_among_truth_values_spoils_its_record_alone(tmp_path, capsys):
    smoker = np.arange(40) % 3 == 0
    encoder = Encoder.fit(pd.DataFrame({"smoker": smoker}))
    classifier = LogisticRegression().fit(
        encoder.transform(pd.DataFrame({"smoker": smoker})), smoker
    )
    model = WeightedEnsembleClassifier.from_fitted(
        {"one": classifier}, [1.0], classes=[False, True], encoder=encoder
    )
    save_model(model, tmp_path / "m")
    (tmp_path / "new.csv").write_text("smoker\nTrue\nFalse\nunknown\n true\nFALSE\n1\n")
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / "new.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == ["True", "False", "", "True", "False", "True"]
    assert lines[2] == ",,\"feature 'smoker': expected numbers, found 'unknown' in record 3\""
    assert not any("found" in line for line in lines[:2] + lines[3:])
    for text in ("True", "true", "False", "false"):
        answer = json.loads(_json_answers(model, json.dumps([{"smoker": text}]).encode()))
        assert answer["answers"][0]["label"] is (text.lower() == "true")
    with pytest.raises(InputError, match="expected numbers, found 'yes'"):
        _json_answers(model, b'[{"smoker": "yes"}]')
    values = pd.Series(["True", None, "5"], index=[1, 1, 1], dtype="category")
    number = encoder.transform(pd.DataFrame({"smoker": [1, np.nan, 5]}))
    assert encoder.transform(pd.DataFrame({"smoker": values})).tolist() == number.tolist()


@pytest.mark.parametrize("value", [["own"], {"kind": "own"}, []])
def test_a_list_in_place_of_a_category_spoils_its_record_alone(value):
    home = pd.DataFrame({"home": ["own", "rent"] * 20})
    encoder = Encoder.fit(home)
    classifier = LogisticRegression().fit(encoder.transform(home), home["home"] == "own")
    model = WeightedEnsembleClassifier.from_fitted(
        {"one": classifier}, [1.0], classes=[False, True], encoder=encoder
    )
    first, second = json.loads(
        _json_answers(model, json.dumps([{"home": value}, {"home": "own"}]).encode())
    )["answers"]
    assert first["error"] == (
        f"feature 'home': expected a text or a number, found {str(value)!r} in record 1"
    )
    assert second["label"] is True


@pytest.mark.parametrize(
    ("value", "reading", "wanted"),
    [
        (1.5, None, "numbers"),
        ("03.04.2020", Reading(date="%d.%m.%Y"), "dates of the form %d.%m.%Y"),
        (pd.Timestamp("2020-04-03"), None, "dates such as 2026-11-21"),
    ],
)
def test_a_list_is_refused_by_what_its_feature_holds(value, reading, wanted):
    readings = {} if reading is None else {"x": reading}
    encoder = Encoder.fit(pd.DataFrame({"x": [value] * 9}), readings=readings)
    with pytest.raises(InputError, match=f"'x': expected {wanted}, found '?.3.'? in record 2"):
        encoder.transform(pd.DataFrame({"x": pd.Series([value, [3]], dtype=object)}))
